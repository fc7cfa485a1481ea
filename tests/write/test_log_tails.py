"""Writes and log compactions of a table whose logs get tails, and lookups that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward
from lakeward.base.errors import Refused
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.log_tail import TAIL_ENTRY, LogTail
from lakeward.index.bloom.log_coverage import look_at_logs
from lakeward.index.bloom.log_tails import open_log_tail
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import record_locations
from lakeward.index.index_type import IndexType
from lakeward.read.logs.log_scan import read_heads
from lakeward.services.indexing.run.tails import choose_tails
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE
from lakeward.write.request import FileSizes
from tests.clocks import SkippingClock
from tests.crash.compacting import LOG, compact
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.index.bloom.test_log_tails import Opened
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.write.writing import new_table, rows_of, values, write

STORAGE = LocalStorage()


def made(base: Path, **said: Any) -> Path:
    new_table(base, **said)
    choose_tails(STORAGE, scan(base), are_written=True)
    return base


def tails(base: Path) -> list[LogTail | None]:
    """The tails of the logs, the newest last."""
    (group,) = scan(base).file_groups
    found = []
    for log in group.slices[0].row_logs:
        with (base / log.path).open("rb") as file:
            opened = open_log_tail(file, log.size, log.file_name)
        found.append(None if opened is None else opened[0])
    return found


def life(base: Path) -> Path:
    """A base file and three logs; the last one also deletes."""
    write(base, [(f"k{number}", 1, "p", "a") for number in range(20)], "insert")
    write(base, [("k1", 2, "p", "b"), ("k2", 2, "p", "b")])
    write(base, [("k2", 3, "p", "c"), ("k3", 3, "p", "c")])
    write(base, [("k4", 4, "p", "d")], "delete")
    return base


def found(base: Path, *keys: str, storage: LocalStorage = STORAGE) -> set[str]:
    index = SliceBloomIndex.of(storage, scan(base), clock=SkippingClock())
    return {each["_hoodie_record_key"] for each in record_locations(storage, index, pa.array(keys)).to_pylist()}


INLINE_AND_NATIVE = pytest.mark.parametrize("version", [9, 10], ids=["inline", "native"])


@INLINE_AND_NATIVE
def test_logs_of_a_slice_make_a_clique(tmp_path: Path, version: int) -> None:
    """Each tail goes on with that of the log before it. No log of the metadata table gets one."""
    base = life(made(tmp_path / "t", version=version))
    first, second, third = tails(base)
    assert first is not None and second is not None and third is not None
    assert [each.own.count for each in (first, second, third)] == [2, 2, 1]
    assert [len(each.covers) for each in (first, second, third)] == [0, 1, 2]
    assert third.cumulative.count == 5 and third.logs == 3
    assert values(read_rows(base))["k2"] == "c" and "k4" not in values(read_rows(base))
    assert len(logs := [path.read_bytes() for path in (base / ".hoodie/metadata").rglob("*.log*")]) > 3
    assert not any(word in log for log in logs for word in (b"LAKETAIL", TAIL_ENTRY.encode()))


@INLINE_AND_NATIVE
def test_a_lookup_goes_by_the_newest_tail(tmp_path: Path, version: int) -> None:
    """Keys that are in no log are answered without merging, and the others as the rows are."""
    base = life(made(tmp_path / "t", version=version))
    storage = Opened()
    assert found(base, *[f"none{number}" for number in range(8)], storage=storage) == set()
    of_tails = storage.opened
    assert found(base, "k1", "k2", "k3", "k4", "k5", "none") == {"k1", "k2", "k3", "k5"}
    plain = life(new_table(tmp_path / "plain", version=version))
    storage = Opened()
    assert found(plain, *[f"none{number}" for number in range(8)], storage=storage) == set()
    assert of_tails < storage.opened


def test_point_reads_pass_over_slices_by_tails(tmp_path: Path) -> None:
    """Rows by their keys: a slice is read that has the key in its base file or in a log, and no other one."""
    base = made(tmp_path / "t")
    for part in "pqr":
        write(base, [(f"{part}{number}", 1, part, "a") for number in range(20)], "insert")
        write(base, [(f"{part}1", 2, part, "b"), (f"{part}2", 2, part, "b")])
        write(base, [(f"{part}3", 3, part, "c")], "delete")
    table = lakeward.Table(str(base))
    for keys, expected, passed in (
        (["p1"], ["b"], 2),
        (["p5", "q5"], ["a", "a"], 1),
        (["q3"], [], 2),
        (["p11x", "none"], [], 3),
        (["p2", "q2", "r2"], ["b", "b", "b"], 0),
    ):
        plan = (rows := table.scan(keys=keys, columns=["v"])).scan.plan
        assert rows.to_arrow().column("v").to_pylist() == expected
        assert plan.groups_without_keys == passed, plan.key_notes
    assert table.get("r2").column("v").to_pylist() == ["b"]


def test_a_log_compaction_covers_its_sources(tmp_path: Path) -> None:
    """Also logs that had no tail: the only way by which tables of other writers get any."""
    base = new_table(tmp_path / "t")
    life(base)
    assert tails(base) == [None, None, None]
    choose_tails(STORAGE, scan(base), are_written=True)
    compact(base, FaultyStorage(), ScriptedProcesses(), LOG)
    merged = tails(base)[-1]
    assert merged is not None and merged.own.count == 4 and len(merged.covers) == 3
    assert {each.tail_crc for each in merged.covers} == {None} and merged.holds_all_that_it_covers
    assert found(base, "k1", "k2", "k3", "k4", "k5", "none") == {"k1", "k2", "k3", "k5"}
    write(base, [("k6", 5, "p", "e")])
    newest = tails(base)[-1]
    assert newest is not None and newest.logs == 2 and newest.cumulative.count == 5
    assert found(base, "k4", "k6", "none") == {"k6"}


@pytest.mark.parametrize("is_lsm_tree", [False, True], ids=["default", "lsm_tree"])
def test_native_logs_of_one_write_go_on_with_each_other(tmp_path: Path, is_lsm_tree: bool) -> None:
    """Rows and deletes are files of their own; the newest one covers all before it, also that of its own write. A log
    compaction leaves two files, of which the second covers the first one and the sources."""
    base = made(tmp_path / "t", version=10, is_lsm_tree=is_lsm_tree)
    life(base)
    batch = rows_of([("k5", 5, "p", "e"), ("k6", 5, "p", "e")])
    write(base, batch.append_column("_hoodie_is_deleted", pa.array([False, True])))
    rows, deletes = tails(base)[-2:]
    assert rows is not None and deletes is not None and (rows.own.count, deletes.own.count) == (1, 1)
    assert (rows.cumulative.count, deletes.cumulative.count, deletes.logs) == (6, 7, 5)
    assert [each.name.split(".", 1)[1] for each in deletes.covers[-2:]] == ["deletes.parquet", "log.parquet"]
    expected = {f"k{number}" for number in range(20)} - {"k4", "k6"}
    asked = [f"k{number}" for number in range(25)]
    assert found(base, *asked) == expected
    if is_lsm_tree:
        return
    before = read_rows(base)
    compact(base, FaultyStorage(), ScriptedProcesses(), LOG)
    rows, deletes = tails(base)[-2:]
    assert rows is not None and deletes is not None and (rows.own.count, deletes.own.count) == (4, 2)
    assert rows.covers == () and len(deletes.covers) == 6 and deletes.cumulative.count == 6
    assert found(base, *asked) == expected and read_rows(base) == before
    write(base, [("k9", 9, "p", "i")], fill_missing=True)
    assert found(base, *asked) == expected and values(read_rows(base))["k9"] == "i"


def test_parquet_logs_of_hudi_get_one_by_a_log_compaction(tmp_path: Path) -> None:
    """Golden logs of Parquet blocks, without a delete and with some: rows and lookups are as before."""
    base = copy_golden("dropped", tmp_path / "t")
    rows = read_rows(base)
    choose_tails(STORAGE, scan(base), are_written=True)
    compact(base, FaultyStorage(), ScriptedProcesses(), LOG)
    outputs = [group.slices[0].row_logs[-1] for group in scan(base).file_groups]
    for log in outputs:
        *_, (last, _) = read_heads(STORAGE, str(base), log.path)
        assert isinstance(last, LogBlock) and last.type is BlockType.DELETE
        with (base / log.path).open("rb") as file:
            opened = open_log_tail(file, log.size, log.file_name)
        assert opened is not None and opened[0].key_list is None
    assert len(outputs) == 2 and read_rows(base) == rows
    assert found(base, *(keys := [row["_hoodie_record_key"] for row in rows]), "none") == {*keys}


def test_a_deleted_key_comes_back_where_its_base_file_is(tmp_path: Path) -> None:
    """Also where tails say that its log deleted it: Hudi's writers look into base files alone, and would find it in two
    if it were inserted into another one."""
    base = life(made(tmp_path / "t"))
    report = write(base, [("k4", 5, "p", "back")], index=IndexType.BLOOM, sizes=FileSizes(small_file=0))
    assert (report.inserted, report.updated) == (0, 1) and len(scan(base).file_groups) == 1
    assert values(read_rows(base))["k4"] == "back"


def test_none_get_one_any_more(tmp_path: Path) -> None:
    """Tails that are there are used as long as they are."""
    base = life(made(tmp_path / "t"))
    choose_tails(STORAGE, scan(base), are_written=False)
    write(base, [("k7", 5, "p", "e")])
    counts = look_at_logs(STORAGE, scan(base)).coverage
    assert (counts.logs, counts.with_tail) == (4, 3)
    assert found(base, "k1", "k4", "k7", "none") == {"k1", "k7"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"table_type": COPY_ON_WRITE}, "It is copied on write, and has no logs."),
        (
            {"version": 6},
            "Writers of its version append to logs that are there, so that no tail would stay at the end.",
        ),
    ],
)
def test_where_logs_can_have_none(said: dict[str, Any], why: str, tmp_path: Path) -> None:
    base = new_table(tmp_path / "t", **said)
    with pytest.raises(Refused) as refused:
        choose_tails(STORAGE, scan(base), are_written=True)
    assert refused.value.why == why


def test_rows_without_their_keys(tmp_path: Path) -> None:
    base = new_table(tmp_path / "t")
    set_property(base, "hoodie.populate.meta.fields", "false")
    with pytest.raises(Refused) as refused:
        choose_tails(STORAGE, scan(base), are_written=True)
    assert refused.value.why == "Its rows do not carry their keys (hoodie.populate.meta.fields)."

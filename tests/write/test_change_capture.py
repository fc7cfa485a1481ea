"""Tables that capture changes: what a write says happened to each key, against a dictionary of rows.

A seed is one history; LAKEWARD_RUNS=1000 runs as many. Hudi's reader of changes is asked in
`tests/interop/test_changes.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Refused, VerificationFailed
from lakeward.engine.task.change_log_output import ChangeLogOutput
from lakeward.format.file_name import is_change_log
from lakeward.format.log.change_log import read_changes
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from lakeward.index.index_type import IndexType
from tests import native_log_judge as judge
from tests.clocks import SkippingClock
from tests.crash.capturing import capture_changes
from tests.crash.compacting import everything
from tests.metadata_golden import DATA_TIMELINE
from tests.our_reader import read_rows, scan
from tests.runs import runs
from tests.write.writing import BUCKETS, COLUMNS, Row, new_table, rows_of, write

Change = tuple[str, str, Row | None, Row | None]
"""What happened to a key: operation, key, the row before and after."""

KEYS = [f"k{number:02}" for number in range(12)]


def newest_commit(base: Path) -> CommitMetadata:
    path = max((base / DATA_TIMELINE).glob("*commit"), key=lambda path: path.name)
    return read_commit_metadata(path.read_bytes(), file=path.name, layout=2)


def stats_of(base: Path) -> list[WriteStat]:
    return [stat for stats in newest_commit(base).partition_to_write_stats.values() for stat in stats]


def changes_to_apply(base: Path) -> list[Change]:
    """What readers of changes make of the newest commit: logs of changes, and new file groups, whose rows are new."""
    shown: list[Change] = []
    for stat in stats_of(base):
        assert stat.path is not None
        if stat.cdc_stats is None:
            assert stat.num_writes == stat.num_inserts and not stat.num_deletes, "readers of changes fail here"
            new = pq.read_table(base / stat.path).select(COLUMNS.names).to_pylist()
            shown += [("i", row["id"], None, row_of(row)) for row in new]
            continue
        ((path, size),) = stat.cdc_stats.items()
        assert (base / path).stat().st_size == size and is_change_log(path.rpartition("/")[2])
        for change in changes_in(base / path):
            before, after = row_of(change["before"]), row_of(change["after"])
            shown.append((change["op"], (before or after or ("",))[0], before, after))
    return sorted(shown, key=str)


def changes_in(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        yield from judge.rows(path.read_bytes())
        return
    with path.open("rb") as file:
        for batch in read_changes(file, path.stat().st_size, name=path.name):
            yield from batch.to_pylist()


def row_of(image: dict[str, Any] | None) -> Row | None:
    return None if image is None else (image["id"], image["ts"], image["part"], image["v"])


@pytest.mark.parametrize("seed", range(runs(12)))
def test_every_change_is_shown_once(seed: int, tmp_path: Path) -> None:
    """Copied on write, in both versions and by each index: the rows that win, that lose, that go and that come, into
    small files and new ones."""
    chance = random.Random(seed)
    version, index = chance.choice([9, 10]), chance.choice([BUCKETS, {"index": IndexType.SIMPLE}])
    base, clock = new_table(tmp_path / "t", table_type="COPY_ON_WRITE", version=version), SkippingClock()
    capture_changes(base)
    rows: dict[str, Row] = {}
    shown = [f"seed {seed}: version {version}, {index}"]
    try:
        for number in range(8):
            operation = chance.choice(["upsert", "upsert", "insert", "delete"]) if rows else "upsert"
            among = [key for key in KEYS if key not in rows] if operation == "insert" else KEYS
            keys = chance.sample(among, chance.randint(1, len(among))) if among else []
            coming: list[Row] = [
                (key, chance.randint(1, 5), rows[key][2] if key in rows else chance.choice("pq"), f"{number}")
                for key in keys
            ]
            shown.append(f"{operation} {coming}")
            expected: list[Change] = []
            for row in coming:
                before = rows.get(row[0])
                if operation == "delete":
                    expected += [] if before is None else [("d", row[0], before, None)]
                    rows.pop(row[0], None)
                elif before is None or row[1] >= before[1]:
                    expected.append(("i" if before is None else "u", row[0], before, row))
                    rows[row[0]] = row
            report = write(base, coming, operation, clock=clock, **index)
            if report.files:
                assert changes_to_apply(base) == sorted(expected, key=str)
            else:
                assert not expected
            assert {row["id"]: row_of(row) for row in read_rows(base)} == rows
    except BaseException as error:
        error.add_note("\n".join(shown))
        raise


def test_rows_that_are_added_unseen_are_shown(tmp_path: Path) -> None:
    """Hudi's `insert` writes no log of changes beside a small file that it fills up, and its readers fail there."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    capture_changes(base)
    write(base, [("k1", 1, "p", "a")], index=IndexType.SIMPLE)
    write(base, [("k1", 2, "p", "b"), ("k2", 1, "p", "b")], "insert", index=IndexType.SIMPLE)

    assert changes_to_apply(base) == [("i", "k1", None, ("k1", 2, "p", "b")), ("i", "k2", None, ("k2", 1, "p", "b"))]


def test_a_delete_of_an_unknown_key_beside_new_ones_leaves_them_readable(tmp_path: Path) -> None:
    """Hudi's readers look for a log of changes where deletes are counted, also beside a file that begins its group."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    capture_changes(base)
    batch = rows_of([("k1", 1, "p", "a"), ("k2", 1, "p", "a")])
    write(base, batch.append_column("_hoodie_is_deleted", pa.array([False, True])), **BUCKETS | {"buckets": 1})

    assert changes_to_apply(base) == [("i", "k1", None, ("k1", 1, "p", "a"))]


@pytest.mark.parametrize(("table_type", "groups"), [("COPY_ON_WRITE", 1), ("MERGE_ON_READ", 2)])
def test_a_log_of_changes_beside_a_small_file(table_type: str, groups: int, tmp_path: Path) -> None:
    """Copied on write, new keys go on filling up the file; merged on read, Hudi takes the log for one of rows."""
    base = new_table(tmp_path / "t", table_type=table_type)
    capture_changes(base)
    for key in ("k1", "k2", "k3"):
        write(base, [(key, 1, "p", "a")], index=IndexType.SIMPLE)

    assert len(scan(base).latest_slices) == groups
    assert [row["id"] for row in read_rows(base)] == ["k1", "k2", "k3"]


@pytest.mark.parametrize("version", [9, 10])
def test_logs_say_what_they_lie_on(version: int, tmp_path: Path) -> None:
    """Merged on read, Hudi's readers take the rows before from the slice that the stat of each log names."""
    base = new_table(tmp_path / "t", version=version)
    capture_changes(base)
    one = BUCKETS | {"buckets": 1}
    write(base, [("k1", 1, "p", "a")], **one)
    (first,) = stats_of(base)
    write(base, [("k1", 2, "p", "b")], **one)
    (second,) = stats_of(base)
    write(base, [("k1", 2, "p", "b")], "delete", **one)
    (third,) = stats_of(base)

    base_name, log_name = (str(stat.path).rpartition("/")[2] for stat in (first, second))
    assert (second.base_file, second.log_files) == (base_name, (log_name,))
    assert (third.base_file, third.log_files) == (base_name, (log_name, str(third.path).rpartition("/")[2]))
    assert second.prev_commit == third.prev_commit and str(second.prev_commit) in base_name


def test_a_log_of_changes_that_lacks_one_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of write/handles/merge, for what lies beside the file: rows that are added are reported once each."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    capture_changes(base)
    write(base, [("k1", 1, "p", "a")], index=IndexType.SIMPLE)

    monkeypatch.setattr(ChangeLogOutput, "add", lambda output, changes: None)
    with pytest.raises(VerificationFailed, match="0 changes, 2 were made"):
        write(base, [("k2", 1, "p", "b"), ("k3", 1, "p", "b")], "insert", index=IndexType.SIMPLE)
    assert [row["id"] for row in read_rows(base)] == ["k1"]


@pytest.mark.parametrize("shape", [{"version": 8}, {"version": 10, "is_lsm_tree": True}])
def test_tables_whose_changes_are_not_shown(shape: dict[str, Any], tmp_path: Path) -> None:
    """What Hudi calls a change there is not known, so nothing is written."""
    base = new_table(tmp_path / "t", **shape)
    capture_changes(base)
    before = everything(base)
    with pytest.raises(Refused, match=r"the layout lsm_tree|version 9 only"):
        write(base, [("k1", 1, "p", "a")], **BUCKETS)
    assert everything(base) == before

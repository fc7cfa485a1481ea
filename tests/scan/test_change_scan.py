"""The changes of a table's rows, commit by commit."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from random import Random, randrange
from typing import Any

import pytest

import lakeward
from lakeward.base.errors import BrokenFile, DamagedFiles, Refused, UsageError
from lakeward.cli.main import run
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.crash.capturing import capture_changes
from tests.golden_tables import copy_golden
from tests.metadata_golden import set_property
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART
from tests.write.writing import Row, new_table, write

QUICK = [
    ("OP_KEY_ONLY", MERGE_ON_READ, 9),
    ("DATA_BEFORE", COPY_ON_WRITE, 9),
    ("DATA_BEFORE_AFTER", MERGE_ON_READ, 10),
]
MODES = ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]


def capturing(path: Path, mode: str = "DATA_BEFORE_AFTER", **shape: Any) -> Path:
    base = new_table(path, **shape)
    capture_changes(base)
    set_property(base, "hoodie.table.cdc.supplemental.logging.mode", mode)
    return base


def changes(base: Path, **query: Any) -> list[tuple[str, Any, Any]]:
    rows = lakeward.Table(str(base)).changes(**query).to_arrow().to_pylist()
    return [(row["op"], row["before"], row["after"]) for row in rows]


def ends(base: Path) -> list[str]:
    names = (path.name for path in (base / ".hoodie" / "timeline").glob("*_*.*commit"))
    return sorted(name.partition("_")[2].partition(".")[0] for name in names)


def rows_now(base: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in lakeward.Table(str(base)).scan().to_arrow().to_pylist()}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = capturing(tmp_path / "t")
    write(table, [("k1", 1, "p", "a"), ("k2", 1, "p", "b"), ("k3", 1, "q", "c")])
    write(table, [("k1", 2, "p", "x"), ("k2", 0, "p", "late"), ("k4", 1, "q", "new")])
    write(table, [("k3", 3, "q", None)], "delete")
    return table


def test_operations_with_the_rows_before_and_after(base: Path) -> None:
    """A row that loses has changed nothing."""
    table = lakeward.Table(str(base))
    found = table.changes(since=ends(base)[0]).to_arrow()
    assert found.schema.names == ["op", "ts_ms", "before", "after"]
    k1 = {"id": "k1", "ts": 1, "part": "p", "v": "a"}
    assert sorted(changes(base, since=ends(base)[0]), key=str) == [
        ("d", {"id": "k3", "ts": 1, "part": "q", "v": "c"}, None),
        ("i", None, {"id": "k4", "ts": 1, "part": "q", "v": "new"}),
        ("u", k1, k1 | {"ts": 2, "v": "x"}),
    ]
    assert len(set(found.column("ts_ms").to_pylist())) == 2
    assert [each[0] for each in changes(base, until=ends(base)[0])] == ["i", "i", "i"]


@pytest.mark.parametrize("kind", [COPY_ON_WRITE, MERGE_ON_READ])
def test_a_clustering_is_no_change_and_takes_none_away(tmp_path: Path, kind: str) -> None:
    """The changes of each window stay; tests/interop/test_changes.py asks released Hudi."""
    base = capturing(tmp_path / "t", table_type=kind)
    for turn in range(2):
        write(base, [(f"k{turn}{number}", 1, "p", "a") for number in "12"], "insert", **APART)
    write(base, [("k01", 2, "p", "x"), ("k12", 0, "p", "late")])
    write(base, [("k02", 3, "p", None)], "delete")
    before, found = rows_now(base), changes(base)
    assert pack(base, packing=PackOptions(groups_min=2)).output_groups == 1
    assert (rows_now(base), changes(base), changes(base, since=ends(base)[-2])) == (before, found, [])
    write(base, [("k01", 4, "p", "y")])
    assert [each[0] for each in changes(base, since=ends(base)[-2])] == ["u"]


def test_columns_filter_limit_and_where_to_go_on(base: Path) -> None:
    chosen = changes(base, columns=["v", "id"], where="op = 'u' and after.ts > 1")
    assert chosen == [("u", {"v": "a", "id": "k1"}, {"v": "x", "id": "k1"})]
    table = lakeward.Table(str(base))
    assert (table.changes(limit=2).count(), table.changes().count()) == (2, 6)
    assert table.changes().end == ends(base)[-1] == table.changes(since=ends(base)[-1]).end
    assert table.changes(since=ends(base)[-1]).to_arrow().num_rows == 0
    assert table.changes(until=ends(base)[1]).end == ends(base)[1]
    assert table.changes(since="earliest").count() == 6
    assert (table.changes(since="yesterday").count(), table.changes(until="yesterday").count()) == (6, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kind", "version"),
    [
        pytest.param(
            mode,
            kind,
            version,
            marks=() if (mode, kind, version) in QUICK else pytest.mark.wide,
            id=f"{mode}-{kind}-{version}",
        )
        for mode in MODES
        for kind in (COPY_ON_WRITE, MERGE_ON_READ)
        for version in (9, 10)
    ],
)
def test_changes_lead_from_one_moment_to_the_next(tmp_path: Path, mode: str, kind: str, version: int) -> None:
    """Keeps 1 of scan/change_plan: writes by chance, and a compaction; applied to the rows before, the changes of each
    commit, and of all, make the rows after. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    base = capturing(tmp_path / "t", mode, table_type=kind, version=version)
    moments: list[dict[str, dict[str, Any]]] = [{}]
    for number in range(5):
        keys = chance.sample(range(12), chance.randrange(1, 9))
        rows: list[Row] = [
            (f"k{key:02}", chance.randrange(4), "pq"[key % 2], chance.choice(["a", "b", None])) for key in keys
        ]
        operation = chance.choice(["upsert", "upsert", "delete", "insert_overwrite"]) if number else "insert"
        write(base, rows, operation)
        moments.append(rows_now(base))
        if number == 2 and kind == MERGE_ON_READ:
            assert run(["compact", str(base), "--writers", "stopped", "--type", "full"]) == 0
            if len(ends(base)) > len(moments) - 1:
                moments.append(rows_now(base))
    windows = list(itertools.pairwise([None, *ends(base)]))
    assert len(windows) == len(moments) - 1
    for (since, until), (before, after) in zip(windows, itertools.pairwise(moments), strict=True):
        assert applied(before, changes(base, since=since, until=until)) == after, (since, until)
    assert applied({}, changes(base)) == moments[-1]


def applied(rows: dict[str, dict[str, Any]], found: list[tuple[str, Any, Any]]) -> dict[str, dict[str, Any]]:
    state = dict(rows)
    for operation, before, after in found:
        key = (before or after)["id"]
        if operation in "ud":
            assert state.pop(key) == before
        if operation in "ui":
            assert key not in state
            state[key] = after
        assert operation in "iud" and (before is None) is (operation == "i") and (after is None) is (operation == "d")
    return state


def test_what_would_be_missing_is_refused(base: Path, tmp_path: Path) -> None:
    """Keeps 2 of scan/change_scan: changes whose files a cleaner took, and tables that capture none."""
    assert run(["compact", str(base), "--writers", "stopped", "--type", "full"]) == 0
    min((base / "q").glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2]).unlink()
    with pytest.raises(Refused, match=r"The changes of the commit \d+ cannot be read: .*is gone\."):
        changes(base)
    plain = new_table(tmp_path / "plain")
    write(plain, [("k1", 1, "p", "a")])
    with pytest.raises(Refused, match="captures no changes"):
        changes(plain)
    old = copy_golden("v6", tmp_path / "v6")
    set_property(old, "hoodie.table.cdc.enabled", "true")
    with pytest.raises(Refused, match="fails over logs of table version 6"):
        lakeward.Table(str(old), timezone="UTC").changes()


def test_damaged_file_groups_are_passed_over_where_that_is_asked(base: Path) -> None:
    """Keeps 3 of scan/change_scan: a file that is not what its commit says ends the query before a change is given
    out; with skip_damaged the other groups' changes are read, and what is missing is named."""
    file = max((base / "q").glob("*.parquet"), key=lambda each: each.name.rpartition("_")[2])  # of the newest slice
    file.write_bytes(file.read_bytes()[:-10])
    table = lakeward.Table(str(base))
    with pytest.raises(DamagedFiles, match=file.name) as raised:
        next(iter(table.changes()))
    assert "--skip-damaged" in (raised.value.remedy or "")
    found = table.changes(skip_damaged=True)
    assert found.damage is not None and found.damage.file_group == ("q", file.name.partition("_")[0])
    assert found.to_arrow().column("op").to_pylist() == ["i", "i", "u"]
    assert run(["read", str(base), "--changes", "--skip-damaged", "--count"]) == 1


def test_changes_of_a_log_that_breaks_are_left_out_whole(base: Path) -> None:
    """The log is whole by its length, and its records are not: of that commit and file group no change is given out."""
    write(base, [("k1", 5, "p", "changed" * 20)])
    log = sorted((base / "p").glob(".*.log.*"))[-1]
    content = bytearray(log.read_bytes())
    place = content.rindex(b"changed")
    content[place - 200 : place - 60] = b"\xff" * 140
    log.write_bytes(bytes(content))
    table = lakeward.Table(str(base))
    with pytest.raises(BrokenFile, match=log.name):
        table.changes().to_arrow()
    found = table.changes(skip_damaged=True)
    assert (found.count(), found.damage is None) == (6, False)


def test_slips(base: Path) -> None:
    with pytest.raises(UsageError, match="The rows of changes have no column 'w'"):
        changes(base, columns=["w"])
    with pytest.raises(UsageError, match="'noon' is no moment"):
        changes(base, since="noon")
    with pytest.raises(UsageError, match="The window ends at 2026-01-01, before it begins at 2026-01-02"):
        changes(base, since="2026-01-02", until="2026-01-01")

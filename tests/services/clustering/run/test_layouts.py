"""Rows brought together by columns: the same rows, each file with a range of its own, in the order asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Refused, Unsupported, VerificationFailed
from lakeward.format.avro.schema_text import schema_text
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackReason
from lakeward.services.clustering.run import moved_rows
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART, check_untouched, made, newest_commit
from tests.services.together.versions.run.test_layout_step import is_sorted
from tests.write.judged import judged_values
from tests.write.writing import COLUMNS, new_table, rows_of, write

KEY = "_hoodie_record_key"


def scattered(base: Path, table_type: str = MERGE_ON_READ, *, groups: int = 4, rows: int = 300, **table: Any) -> Path:
    """File groups of one partition, each with rows of all values of `v` and `ts`; one key of each is updated."""
    new_table(base, table_type=table_type, **table)
    clock, dice = SkippingClock(), np.random.default_rng(7)
    clock.slept = -600.0
    for group in range(groups):
        values = dice.permutation(rows)
        batch = [
            (f"k{dice.integers(10**9):09}-{group}", int(value) % 50, "p", f"v{value:06}-{'x' * 40}") for value in values
        ]
        write(base, batch, "insert", clock=clock, **APART)
        write(base, [(batch[0][0], 99, "p", None)], clock=clock, **APART)
    return base


def sized(base: Path, layout: Layout, outputs: int) -> PackOptions:
    """With these the table becomes so many file groups."""
    total = sum(each.bytes for each in scan(base).latest_slices)
    return PackOptions(target_bytes=total // outputs, groups_min=2, layout=layout, together_bytes=2**40)


def files(base: Path) -> list[pa.Table]:
    return [pq.read_table(base / each.base_file.path) for each in scan(base).latest_slices if each.base_file]


def ranks(table: pa.Table, columns: Sequence[str]) -> list[tuple[tuple[bool, Any], ...]]:
    rows = table.select(list(columns)).to_pylist()
    return [
        tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in columns) for row in rows
    ]


def bounds(base: Path, column: str) -> list[tuple[Any, Any]]:
    found = (sorted(value for value in table.column(column).to_pylist() if value is not None) for table in files(base))
    return sorted((values[0], values[-1]) for values in found)


@pytest.mark.parametrize("mode", [ClusterMode.SORT, ClusterMode.CURVE, ClusterMode.HYBRID])
@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_the_same_rows_with_every_index(tmp_path: Path, table_type: str, mode: ClusterMode) -> None:
    """Keeps 1 of services/clustering/run/clusterer and Keeps of services/clustering/run/moving_flow: rows with their
    meta columns are those of before; the metadata table agrees, and its record index finds keys in their new places."""
    base = made(tmp_path / "t", table_type, indexed=True)
    before = read_rows(base)
    report = pack(base, packing=PackOptions(groups_min=2, layout=Layout(mode, ("v", "ts"))))
    assert (report.plan.input_groups, report.output_groups, report.rows) == (6, 2, len(before))
    assert read_rows(base) == before and len(scan(base).latest_slices) == 2
    check_agrees(base)
    commit = newest_commit(base)
    assert commit.operation_type == "CLUSTER" and "lakeward.layout" in commit.extra_metadata


@pytest.mark.slow
@pytest.mark.parametrize("few", [False, True], ids=["in memory", "in pieces"])
def test_sorted_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool) -> None:
    """Keeps 2 of services/clustering/run/moved_rows: four files, one behind the other, sorted inside, and also where
    memory has but a few rows at once."""
    base = scattered(tmp_path / "t")
    if few:
        monkeypatch.setattr(MemoryBudget, "logs", property(lambda self: 30_000))
        monkeypatch.setattr(MemoryBudget, "window", property(lambda self: 2_000))
    before = read_rows(base)
    pack(base, packing=sized(base, Layout(ClusterMode.SORT, ("ts", "v")), 4))
    assert read_rows(base) == before
    found = sorted((ranks(table, ("ts", "v")) for table in files(base)), key=lambda each: each[0])
    assert len(found) == 4 and min(map(len, found)) > 200
    assert all(each == sorted(each) for each in found)
    assert all(one[-1] <= other[0] for one, other in pairwise(found))


def test_hybrid_brings_together_and_keeps_the_order_of_keys(tmp_path: Path) -> None:
    """Keeps 1 and 2 of services/clustering/run/group_file: each file has a narrow range of the column, and says rightly
    that its keys ascend; the commit has the ranges."""
    base = scattered(tmp_path / "t")
    before = read_rows(base)
    pack(base, packing=sized(base, Layout(ClusterMode.HYBRID, ("v",)), 4))
    assert read_rows(base) == before
    assert all(is_sorted(base / each.base_file.path) for each in scan(base).latest_slices if each.base_file)
    assert all(table.column(KEY).to_pylist() == sorted(table.column(KEY).to_pylist()) for table in files(base))
    found = bounds(base, "v")
    assert len(found) == 4 and all(one[1] <= other[0] for one, other in pairwise(found))
    records = load_layout_records(LocalStorage(), str(base), scan(base))
    assert sorted(record.ranges[0] for record in records.values()) == found


def test_on_a_curve(tmp_path: Path) -> None:
    """Each of nine files has about a third of the values of either column."""
    base = scattered(tmp_path / "t", groups=3)
    before = read_rows(base)
    pack(base, packing=sized(base, Layout(ClusterMode.CURVE, ("ts", "v")), 9))
    assert read_rows(base) == before and len(files(base)) == 9
    for column in ("ts", "v"):
        found = [set(table.column(column).to_pylist()) - {None, 99} for table in files(base)]
        assert sum(map(len, found)) < 0.6 * len(found) * len(set().union(*found)), column


def test_a_run_takes_what_came_since(tmp_path: Path) -> None:
    """Keeps of services/clustering/run/layout_records: groups of an earlier run stay as they are; other columns leave
    them, too, and `again` takes all; a group that a write replaced has no record any more."""
    base = scattered(tmp_path / "t", COPY_ON_WRITE)
    options = sized(base, Layout(ClusterMode.SORT, ("v",)), 3)
    pack(base, packing=options)
    first = {each.group_id for each in scan(base).latest_slices}
    assert len(first) == 3 and pack(base, packing=options).instant is None
    rows = [(f"new{number:04}", 1, "p", f"v{number:06}-{'x' * 40}") for number in range(400)]
    write(base, rows[:200], "insert", **APART)
    write(base, rows[200:], "insert", **APART)
    before = read_rows(base)
    other = replace(options, layout=Layout(ClusterMode.HYBRID, ("ts",)))
    report = pack(base, packing=other)
    assert report.plan.input_groups == 2 and first < {each.group_id for each in scan(base).latest_slices}
    assert {each.reason for each in report.plan.decisions} == {PackReason.PACKED, PackReason.OTHER_LAYOUT}
    assert len(load_layout_records(LocalStorage(), str(base), scan(base))) == len(scan(base).latest_slices)
    pack(base, packing=replace(other, again=True))
    assert not first & {each.group_id for each in scan(base).latest_slices}
    assert read_rows(base) == before
    write(base, [("only", 1, "p", "x")], "insert_overwrite")
    assert load_layout_records(LocalStorage(), str(base), scan(base)) == {}


@pytest.mark.parametrize("mode", [ClusterMode.SORT, ClusterMode.HYBRID])
def test_a_lost_piece_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ClusterMode) -> None:
    """Keeps of services/clustering/run/moving_flow and Keeps 1 of services/clustering/run/moved_rows: nothing is
    published, and nothing left."""
    base = scattered(tmp_path / "t", groups=2)
    before, of_parts, calls = read_rows(base), moved_rows._of_parts, []

    def lossy(*arguments: Any) -> Any:
        for batch in of_parts(*arguments):
            calls.append(batch)
            yield batch.slice(1) if len(calls) == 2 else batch

    monkeypatch.setattr(moved_rows, "_of_parts", lossy)
    with pytest.raises(VerificationFailed):
        pack(base, packing=sized(base, Layout(mode, ("v",)), 2))
    assert len(calls) >= 2
    monkeypatch.undo()
    check_untouched(base, before)


@pytest.mark.slow
@pytest.mark.parametrize("is_lsm_tree", [False, True], ids=["default", "lsm_tree"])
@pytest.mark.parametrize("columns", [(), ("v",)], ids=["pack", "hybrid"])
def test_tables_of_version_10(tmp_path: Path, is_lsm_tree: bool, columns: tuple[str, ...]) -> None:
    """Keeps 2 of services/clustering/run/group_file: a second reader finds the same rows, in files that are in the
    order of their keys where the layout is lsm_tree; writes and clusterings go on."""
    base = scattered(tmp_path / "t", version=10, is_lsm_tree=is_lsm_tree)
    before = judged_values(base)
    options = sized(base, Layout(None, columns), 2 if columns else 1)
    report = pack(base, packing=options)
    assert judged_values(base) == before and len(before) == report.rows
    assert report.output_groups == (2 if columns else 1)
    if columns and is_lsm_tree:
        assert '"mode":"hybrid"' in newest_commit(base).extra_metadata["lakeward.layout"]
    key = next(iter(before))
    write(base, [(key, 100, "p", "updated"), ("fresh", 1, "p", "new")], **APART)
    assert judged_values(base) == before | {key: "updated", "fresh": "new"}


def test_a_key_in_two_files_of_lsm_tree(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/run/group_file: its readers merge the rows of a key in one file, so it is refused,
    and nothing is left."""
    base = new_table(tmp_path / "t", version=10, is_lsm_tree=True)
    for value in ("first", "second"):
        write(base, rows_of([("k", 1, "p", value), (f"l{value}", 1, "p", "x")], COLUMNS), "insert", **APART)
    before = sorted(read_rows(base), key=str)
    with pytest.raises(Unsupported, match="A key has several rows"):
        pack(base, packing=PackOptions(groups_min=2))
    assert sorted(read_rows(base), key=str) == before and scan(base).timeline.pending == ()


@pytest.mark.parametrize(
    ("layout", "is_lsm_tree", "why"),
    [
        (Layout(ClusterMode.SORT, ("v",)), True, "in the order of their keys"),
        (Layout(ClusterMode.CURVE, ("v", "ts")), True, "in the order of their keys"),
        (Layout(ClusterMode.SORT, ("w",)), False, "has no column w"),
        (Layout(ClusterMode.SORT, (KEY,)), False, "has no column"),
        (Layout(ClusterMode.HYBRID, ("tags",)), False, "no order"),
    ],
)
def test_layouts_that_a_table_cannot_have(tmp_path: Path, layout: Layout, is_lsm_tree: bool, why: str) -> None:
    columns = pa.schema([*COLUMNS, pa.field("tags", pa.list_(pa.string()))])
    version = {"version": 10, "is_lsm_tree": True} if is_lsm_tree else {}
    base = new_table(tmp_path / "t", schema=schema_text(columns, "t"), **version)
    row = pa.RecordBatch.from_pylist([{"id": "a", "ts": 1, "part": "p", "v": "x", "tags": ["y"]}], columns)
    for _ in range(2):
        write(base, row, "insert", **APART)
    with pytest.raises(Refused, match=why):
        pack(base, packing=PackOptions(groups_min=2, layout=layout))


def test_by_hudis_keys(tmp_path: Path) -> None:
    """Without sort columns the new file groups have ranges of the key."""
    base = scattered(tmp_path / "t", COPY_ON_WRITE, groups=3)
    before, total = read_rows(base), sum(each.bytes for each in scan(base).latest_slices)
    keys = {"hoodie.clustering.plan.strategy.target.file.max.bytes": str(total // 2 + 1)}
    report = pack(base, packing=PackOptions(hudi_keys=keys))
    assert (report.plan.input_groups, report.output_groups) == (3, 2)
    assert read_rows(base) == before
    (one, other) = bounds(base, KEY)
    assert one[1] < other[0]

"""Large file slices as several tasks, without Spark."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from random import Random, randrange
from typing import Any

import pytest

import lakeward
from lakeward.format.parquet import base_file
from lakeward.format.parquet.row_groups import RowGroup, ValueRange
from lakeward.spark.slice_parts import key_bounds, slice_parts
from lakeward.spark.slice_work import SliceWork
from tests.write.writing import Row, new_table, write

KEY = "_hoodie_record_key"


def groups(*ranges: tuple[str, str] | None, rows: int = 10) -> list[RowGroup]:
    return [
        RowGroup(number, rows, {} if each is None else {KEY: ValueRange(*each)}) for number, each in enumerate(ranges)
    ]


def test_parts_begin_at_row_groups() -> None:
    """About as many rows in each; no more parts than row groups; a key is in one part."""
    in_order = groups(("a", "c"), ("d", "f"), ("g", "i"), ("j", "l"))
    assert key_bounds(in_order, 2) == ["g"]
    assert key_bounds(in_order, 4) == ["d", "g", "j"]
    assert key_bounds(in_order, 100) == ["d", "g", "j"]
    assert key_bounds(groups(("a", "c"), ("c", "c"), ("c", "d")), 3) == ["c"]
    assert key_bounds(groups(("a", "c")), 3) == []


@pytest.mark.parametrize(
    "ranges",
    [(("a", "e"), ("d", "f")), (("a", "b"), None), (("x", "z"), ("a", "b"))],
    ids=["overlap", "unknown", "back"],
)
def test_a_file_out_of_order_is_not_cut(ranges: Any) -> None:
    """Each part would read all of it."""
    assert key_bounds(groups(*ranges), 2) == []


def rows(chance: Random, count: int, ts: int) -> list[Row]:
    keys = chance.sample(range(400), count)
    return [(f"k{key:03}", ts + chance.randrange(-2, 3), "p", f"v{ts}" * chance.randrange(1, 30)) for key in keys]


@pytest.mark.slow
@pytest.mark.parametrize("version", [9, 10])
def test_parts_have_the_rows_of_the_slice(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps of spark/slice_parts: a compacted slice with row groups of 16 rows, late and new rows and deletes in its
    logs, keys that lie before and behind all of the base file's, and a filter. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", 16)
    base = new_table(tmp_path / "t", version=version)
    write(base, rows(chance, 390, 10))
    write(base, rows(chance, 30, 11))
    table = lakeward.Table(str(base))
    table.service("compaction").run(writers_stopped=True)
    write(base, [*rows(chance, 12, 10), ("a", 1, "p", "first"), ("z", 1, "p", "last")])
    write(base, rows(chance, 6, 12), "delete")
    table.refresh()
    for query in ({}, {"where": "v like 'v11%' or ts < 10"}, {"read_optimized": True}, {"columns": ["v"]}):
        scan = table.scan(**query)
        parts = slice_parts(scan.scan.storage, scan.scan.plan, task_bytes=1)
        assert len(parts) > (10 if "read_optimized" in query else 1), "the slice is cut"
        work = pickle.loads(pickle.dumps(SliceWork(scan.scan.plan.shared, 2**29)))
        found = [[row for batch in work((part,)) for row in batch.to_pylist()] for part in parts]
        given = [row for of_part in found for row in of_part]
        assert sorted(map(str, given)) == sorted(map(str, scan.to_arrow().to_pylist())), query

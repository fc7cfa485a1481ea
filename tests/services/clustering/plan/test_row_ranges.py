"""Ranges of rows by their columns, against sorting all of them."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeward.services.clustering.plan.layout import PACKED, ClusterMode, Layout
from lakeward.services.clustering.plan.row_ranges import RowRanges, find_ranges

Rank = tuple[tuple[bool, Any], ...]


def rank(row: dict[str, Any], columns: tuple[str, ...]) -> Rank:
    """Null before every value."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in columns)


def any_column(dice: random.Random, rows: int) -> pa.Array:
    few = dice.choice((2, 5, 10**9))
    numbers = [dice.randrange(few) for _ in range(rows)]
    values: list[Any] = dice.choice(
        (
            numbers,
            [f"k{number:09}" for number in numbers],
            [date.fromordinal(1 + number % 700_000) for number in numbers],
            [Decimal(number) / 100 for number in numbers],
            [number % 2 == 0 for number in numbers],
            [number / 7 for number in numbers],
            [b"%09d" % number for number in numbers],
        )
    )
    return pa.array([None if dice.random() < 0.05 else value for value in values])


def batch_of(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("seed", range(20))
def test_any_rows(seed: int) -> None:
    """Keeps 1, 2, and 3 of services/clustering/plan/row_ranges: rows are placed as a sort of all of them would place
    them, in parts of nearly the same size, whatever their columns are."""
    dice = random.Random(seed)
    columns = tuple("abcd"[: dice.randrange(1, 5)])
    table = pa.table({name: any_column(dice, 2_000) for name in columns})
    layout, parts = Layout(dice.choice((ClusterMode.SORT, ClusterMode.HYBRID)), columns), dice.randrange(1, 30)
    ranges = find_ranges(layout, table, parts)
    placed = ranges.place(batch_of(table))
    assert ranges.parts == parts, seed
    found: dict[int, list[Rank]] = {}
    for part, row in zip(placed.tolist(), table.to_pylist(), strict=True):
        found.setdefault(part, []).append(rank(row, columns))
    for before, after in pairwise(sorted(found)):
        assert max(found[before]) <= min(found[after]), seed
    sizes = np.bincount(placed, minlength=parts)
    assert len(sizes) == parts and sizes.max() <= 1.3 * 2_000 / parts + 5, seed
    again = find_ranges(layout, table, parts)
    assert again.cuts.equals(ranges.cuts) and (again.place(batch_of(table)) == placed).all(), seed


def test_rows_that_are_not_in_the_sample() -> None:
    """Keeps 1 of services/clustering/plan/row_ranges: they go between the cuts, or behind the last one."""
    ranges = find_ranges(Layout(ClusterMode.SORT, ("a",)), pa.table({"a": ["b", "d", "f", "h"]}), 4)
    placed = ranges.place(pa.record_batch({"a": ["", "c", None, "d", "z", "g"]}))
    assert placed.tolist() == [0, 0, 0, 1, 3, 2]


def test_a_value_with_many_rows_is_divided() -> None:
    """Keeps 2 of services/clustering/plan/row_ranges: it fills three parts of four, evenly."""
    rows = pa.table({"a": ["a"] * 100 + ["m"] * 800 + ["z"] * 100})
    ranges = find_ranges(Layout(ClusterMode.HYBRID, ("a",)), rows, 4)
    sizes = np.bincount(ranges.place(batch_of(rows)))
    assert abs(sizes - 250).max() <= 5


@pytest.mark.parametrize("rows", [pa.table({"a": pa.array([], pa.int64())}), pa.table({"a": pa.nulls(9, pa.int64())})])
def test_a_sample_that_says_little(rows: pa.Table) -> None:
    for mode in (ClusterMode.SORT, ClusterMode.CURVE):
        ranges = find_ranges(Layout(mode, ("a",)), rows, 3)
        placed = ranges.place(pa.record_batch({"a": pa.array([1, None, 5])}))
        assert len(placed) == 3 and (placed < 3).all()


def width(ranges: RowRanges, rows: pa.Table, column: str) -> float:
    """The share of the column's range that a part has, on average."""
    values, placed = rows.column(column).to_numpy(), ranges.place(batch_of(rows))
    return float(np.mean([np.ptp(values[placed == part]) for part in np.unique(placed)])) / float(np.ptp(values))


def test_on_a_curve_all_columns_count() -> None:
    """Each of two columns has a narrow range in each of 64 parts, about an eighth; sorted, the second one has none."""
    dice = np.random.default_rng(1)
    rows = pa.table({"a": dice.integers(0, 10**6, 20_000), "b": dice.random(20_000)})
    curve = find_ranges(Layout(ClusterMode.CURVE, ("a", "b")), rows, 64)
    assert width(curve, rows, "a") < 0.3 and width(curve, rows, "b") < 0.3
    by_order = find_ranges(Layout(ClusterMode.SORT, ("a", "b")), rows, 64)
    assert width(by_order, rows, "a") < 0.03 and width(by_order, rows, "b") > 0.9


@pytest.mark.parametrize(
    ("asked", "is_lsm_tree", "chosen"),
    [
        (Layout(None), False, PACKED),
        (Layout(None), True, PACKED),
        (Layout(None, ("a",)), False, Layout(ClusterMode.SORT, ("a",))),
        (Layout(None, ("a", "b")), False, Layout(ClusterMode.CURVE, ("a", "b"))),
        (Layout(None, ("a", "b")), True, Layout(ClusterMode.HYBRID, ("a", "b"))),
        (Layout(ClusterMode.HYBRID, ("a",)), False, Layout(ClusterMode.HYBRID, ("a",))),
    ],
)
def test_the_mode_that_fits(asked: Layout, is_lsm_tree: bool, chosen: Layout) -> None:
    assert asked.chosen(is_lsm_tree=is_lsm_tree) == chosen

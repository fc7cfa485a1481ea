"""Ranges of the output groups, found in a sample of the rows: they place a row according to its columns.

    sample -> sorted -> cuts, which divide it into parts of equal size; a row goes to the part between its two cuts

                  cuts  b   f   f   k
    parts         a     b-f   f   f-j   k-z      a value that has many rows is divided over the parts that it fills

Output groups have several parts each where rows are sorted inside of them: a part is what memory can sort. On a curve
(z-order) a column's value is replaced by its rank among quantiles of the sample, the bits of the ranks are interleaved,
and the result is cut like a column. Null is smaller than every value.

Touches: nothing.
Keeps:   1. each row has one part, and rows of one part are between the same cuts;
         2. parts have about as many rows of the sample each, also where one value has many of them;
         3. equal samples give equal cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.services.clustering.plan.layout import ClusterMode, Layout

PARTS_MAX = 4096
"""One number of 64 bits distinguishes the cuts of `COLUMNS_MAX` columns."""
CURVE_BITS = 10
"""A column has so many bits of the curve, which distinguish a thousand quantiles of its values."""
_CURVE = "lakeward curve"
_WHOLE_BELOW = 0.1
"""A value with fewer rows, for those of a part, is never divided."""
_GOLDEN = 0.6180339887498949
"""Its multiples fill the range from 0 to 1 evenly, however many there are."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Travels to the tasks that place rows."""

    layout: Layout
    cuts: pa.Table
    """A row for each cut, ascending, the first column counting most; on a curve one column."""
    shares: npt.NDArray[np.float64]
    """The share of the cut's value that lies before the cut; ascending where cuts have equal values."""
    quantiles: tuple[pa.Array, ...] = ()
    """On a curve: those of each column, ascending, no value twice."""

    @property
    def parts(self) -> int:
        return int(self.cuts.num_rows) + 1

    def columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """What rows of a part are sorted by, the first counting most."""
        columns = [rows.column(name) for name in self.layout.columns]
        return [curve_of(columns, self.quantiles)] if self.layout.mode is ClusterMode.CURVE else columns

    def place(self, rows: pa.RecordBatch) -> Numbers:
        """The part of each row."""
        at, of_cuts = _as_numbers(self.columns(rows), self.cuts)
        below, through = (np.searchsorted(of_cuts, at, side=side) for side in ("left", "right"))
        # Cuts of one value differ in their shares, and its rows take a share each in turn.
        values = np.cumsum(np.diff(of_cuts, prepend=-1) != 0)
        turn = (np.arange(len(at)) * _GOLDEN) % 1.0
        value = np.append(values, 0)[below]
        divided = np.searchsorted(values + self.shares, value + turn, side="right")
        return np.where(below == through, below, divided)


def find_ranges(layout: Layout, sample: pa.Table, parts: int) -> RowRanges:
    """
    Args:
        sample: rows of the columns, each as likely as any other of the rows that are placed.
        parts: no more than `PARTS_MAX`.
    """
    assert 1 <= parts <= PARTS_MAX, parts
    sample = sample.select(list(layout.columns)).combine_chunks()
    if layout.mode is not ClusterMode.CURVE:
        return RowRanges(layout, *_cuts(sample, parts))
    quantiles = tuple(_distinct(_cuts(sample.select([name]), 2**CURVE_BITS)[0].column(0)) for name in layout.columns)
    columns = [sample.column(name).combine_chunks() for name in layout.columns]
    curve = pa.table({_CURVE: curve_of(columns, quantiles)})
    return RowRanges(layout, *_cuts(curve, parts), quantiles)


def curve_of(columns: Sequence[pa.Array], quantiles: tuple[pa.Array, ...]) -> pa.Array:
    """The place of each row on the curve."""
    place = np.zeros(len(columns[0]), np.int64)
    for number, (column, of_column) in enumerate(zip(columns, quantiles, strict=True)):
        rank = ((_codes(column, of_column) + 1) // 2 << CURVE_BITS) // (len(of_column) + 2)
        for bit in range(CURVE_BITS):
            place |= (rank >> bit & 1) << (bit * len(columns) + len(columns) - 1 - number)
    return pa.array(place)


def _cuts(sample: pa.Table, parts: int) -> tuple[pa.Table, npt.NDArray[np.float64]]:
    order = pc.sort_indices(sample, [(name, "ascending", "at_start") for name in sample.column_names])
    sample = sample.take(order).combine_chunks()
    rows = sample.num_rows
    places = np.arange(1, parts if rows else 1) * rows // parts
    cuts = sample.take(pa.array(places))
    at, of_cuts = _as_numbers([column.combine_chunks() for column in sample.columns], cuts)
    first, last = (np.searchsorted(at, of_cuts, side=side) for side in ("left", "right"))
    shares = (places - first) / np.maximum(last - first, 1)
    return cuts, np.where(last - first < _WHOLE_BELOW * rows / parts, 0.0, shares)


def _as_numbers(columns: Sequence[pa.Array], cuts: pa.Table) -> tuple[Numbers, Numbers]:
    """A number for each row and for each cut, which compare as their columns do."""
    at, of_cuts = np.zeros(len(columns[0]), np.int64), np.zeros(cuts.num_rows, np.int64)
    for column, of_column in zip(columns, cuts.columns, strict=True):
        distinct = _distinct(of_column)
        size = 2 * len(distinct) + 2
        at = at * size + _codes(column, distinct)
        of_cuts = of_cuts * size + _codes(of_column.combine_chunks(), distinct)
    return at, of_cuts


def _distinct(cuts: pa.ChunkedArray) -> pa.Array:
    values = cuts.unique().drop_null()
    return values.take(pc.sort_indices(values))


def _codes(values: pa.Array, distinct: pa.Array) -> Numbers:
    """0 for null, then the odd numbers for what lies before, between and behind the `distinct` values, and the even
    ones for these."""
    coded = values.dictionary_encode()
    both = pa.concat_arrays([distinct, coded.dictionary.cast(distinct.type)])
    ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    known, found = ranks[: len(distinct)], ranks[len(distinct) :]
    below, through = (np.searchsorted(known, found, side=side) for side in ("left", "right"))
    codes: Numbers = np.concatenate([1 + below + through, [0]]).astype(np.int64)
    places = pc.fill_null(coded.indices, len(found)).to_numpy(zero_copy_only=False)
    return np.asarray(codes[places])

"""Which keys lie within the ranges of which files: of sorted keys those of one file are neighbours, a span.

    keys       a  c  d  g  k  x                the spans of n files are 2n binary searches, whatever lies in them
    file 1        [c ..... h]      = c d g
    file 2              [e ...... z] = g k x

An interval tree says of a key which ranges hold it, and is asked once a key. It gives the same pairs; but it must be
built of all ranges, for keys that are asked once, and its answer has as many pairs as there are, where a span is two
numbers.

Ranges *separate* where they rule out a tenth of all pairs of a file and a key. Keys that are drawn at random lie within
the range of every file: then keys stay as they come, and all are asked of each file.

Touches: nothing.
Keeps:   a key is in the span of each file whose range it lies within by Java's order, and in that of each file without
         a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.bloom.java_order import java_order

RULED_OUT_MIN: Final = 0.1


@dataclass(frozen=True, slots=True)
class KeySpans:
    keys: pa.StringArray
    """In Java's order where the ranges separate, else as they came."""
    starts: npt.NDArray[np.int64]
    """The first key of each file,"""
    ends: npt.NDArray[np.int64]
    """and the one behind its last."""
    separates: bool

    @classmethod
    def of(cls, keys: pa.StringArray, lows: pa.StringArray, highs: pa.StringArray) -> Self:
        """
        Args:
            keys: none of them is null.
            lows: the smallest key of each file; null where its range is not known.
            highs: the greatest.
        """
        files = len(lows)
        starts, ends = np.zeros(files, dtype=np.int64), np.full(files, len(keys), dtype=np.int64)
        known = np.flatnonzero(pc.and_(lows.is_valid(), highs.is_valid()).to_numpy(zero_copy_only=False))
        if not len(known):
            return cls(keys, starts, ends, False)
        order = pc.sort_indices(java_order(keys))
        in_order, taken = keys.take(order), pa.array(known)
        ordered = java_order(in_order)
        starts[known] = pc.search_sorted(ordered, java_order(lows.take(taken)), side="left").to_numpy()
        ends[known] = pc.search_sorted(ordered, java_order(highs.take(taken)), side="right").to_numpy()
        if int((ends - starts).sum()) <= (1 - RULED_OUT_MIN) * files * len(keys):
            return cls(in_order, starts, ends, True)
        return cls(keys, np.zeros_like(starts), np.full_like(ends, len(keys)), False)

    @property
    def pairs(self) -> int:
        """The pairs of a file and a key that are left."""
        return int((self.ends - self.starts).sum())

    def of_file(self, number: int) -> pa.StringArray:
        """The keys that the file may have by its range."""
        start, end = int(self.starts[number]), int(self.ends[number])
        return self.keys.slice(start, end - start)

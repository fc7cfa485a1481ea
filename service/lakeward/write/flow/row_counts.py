"""How many rows there are of each partition and place, and a sum that shows whether they are the same rows later.

The sum is over the key of each row and its place in the input, in any order, so that parts are counted apart.

Touches: nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.logs.key_index import hash_keys
from lakeward.write.keyed_rows import ORDER, PARTITION_PATH, PLACE, RECORD_KEY

Place = tuple[str, str | None]
"""Partition path and `keyed_rows.PLACE`."""

_FIRST, _SECOND, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(32)


@dataclass(frozen=True, slots=True)
class Counted:
    rows: int = 0
    total: int = 0
    """The sum: 64 bits."""

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.rows + other.rows, self.total ^ other.total)


def count_rows(keyed: pa.RecordBatch) -> Counted:
    """All rows of a batch with RECORD_KEY and ORDER."""
    return Counted(keyed.num_rows, int(np.bitwise_xor.reduce(_row_hashes(keyed))))


def count_places(tagged: pa.RecordBatch) -> dict[Place, Counted]:
    """The rows of each place of a batch that has the key, partition, place and ORDER of its rows."""
    partitions, places, codes = place_codes(tagged)
    order = np.argsort(codes, kind="stable")
    values, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    totals = np.bitwise_xor.reduceat(_row_hashes(tagged)[order], starts) if len(starts) else starts
    found = {}
    for code, rows, total in zip(values.tolist(), counts.tolist(), totals.tolist(), strict=True):
        place = (partitions[code // len(places)].as_py(), places[code % len(places)].as_py())
        found[place] = Counted(rows, total)
    return found


def add_up(counts: Iterable[Mapping[Place, Counted]]) -> dict[Place, Counted]:
    found: dict[Place, Counted] = defaultdict(Counted)
    for each in counts:
        for place, counted in each.items():
            found[place] += counted
    return dict(found)


def place_codes(tagged: pa.RecordBatch) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]:
    """Partitions, places, and for each row a number p: its partition is the one at p // n, its place that at p % n,
    where n is how many places there are."""
    partitions = pc.dictionary_encode(tagged.column(PARTITION_PATH))
    places = pc.dictionary_encode(tagged.column(PLACE), null_encoding="encode")
    codes = partitions.indices.to_numpy().astype(np.int64) * len(places.dictionary) + places.indices.to_numpy()
    return partitions.dictionary, places.dictionary, codes


def _row_hashes(keyed: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    orders = keyed.column(ORDER).to_numpy().view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (hash_keys(keyed.column(RECORD_KEY)) ^ (orders * _FIRST)) * _SECOND
        hashes: npt.NDArray[np.uint64] = mixed ^ (mixed >> _SHIFT)
        return hashes

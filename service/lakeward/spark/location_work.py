"""Tasks of a lookup: keys to their parts of an index, a part's keys to their locations; or all locations of slices.

Touches: reads the files of the index, or the slices' files.
Keeps:   1. a part of the index is asked by one task, whose keys come in their order, some at a time;
         2. memory is bounded by `KEYS_BYTES` and what the index takes for them, or by a slice's merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.index import HashedIndex
from lakeward.scan.scan_plan import ScanPlan
from lakeward.scan.table_scan import key_locations, planned_rows
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_group import FileSlice

KEY: Final = "_lakeward_key"
PART, SLOT = "_lakeward_part", "_lakeward_slot"
KEYS_BYTES: Final = 16 * 1024**2
"""Keys that an index is asked for at once."""

NUMBERED: Final = pa.schema([(KEY, pa.string()), (PART, pa.int32()), (SLOT, pa.int32())])
LOCATED: Final = pa.schema(
    [(KEY, pa.string()), ("partition", pa.string()), ("file_id", pa.string()), ("instant", pa.string())]
)

RECORD_KEY, COMMIT_TIME = "_hoodie_record_key", "_hoodie_commit_time"


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """Which part of an index has a key, and which task asks that part."""

    index: HashedIndex
    slots: npt.NDArray[np.int32]
    """For each task a number that Spark's hash takes to it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = batch.column(0)
            parts = self.index.parts_of(keys).astype(np.int32)
            columns = [keys, pa.array(parts), pa.array(self.slots[parts % len(self.slots)])]
            yield pa.RecordBatch.from_arrays(columns, schema=NUMBERED)


@dataclass(frozen=True, slots=True)
class IndexWork:
    location: str
    """The table's base path, as tasks open its storage."""
    index: HashedIndex
    parts: tuple[Any, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """
        Args:
            batches: in `NUMBERED`, in the order of parts and keys.
        """
        storage, _ = open_storage(self.location)
        for part, keys in _some_keys(batches):
            for found in self.index.look_up(storage, self.parts[part], keys):
                yield pa.RecordBatch.from_arrays(found.columns, schema=LOCATED)


def _some_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Array]]:
    """The keys of one part after the other, `KEYS_BYTES` of them at a time."""
    for part, pieces in groupby(_by_part(batches), key=itemgetter(0)):
        held: list[pa.Array] = []
        size = 0
        for _, keys in pieces:
            held.append(keys)
            size += keys.nbytes
            if size >= KEYS_BYTES:
                yield part, pa.concat_arrays(held)
                held, size = [], 0
        if held:
            yield part, pa.concat_arrays(held)


def _by_part(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Array]]:
    for batch in batches:
        parts = batch.column(PART).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        for start, end in pairwise(bounds):
            if end > start:
                yield int(parts[start]), batch.column(KEY).slice(start, end - start)


@dataclass(frozen=True, slots=True)
class KeyScan:
    """All keys of file slices."""

    plan: ScanPlan
    """`ScanPlan.shared` of a scan for `RECORD_KEY` and `COMMIT_TIME`."""
    memory_bytes: int

    def __call__(self, slices: tuple[FileSlice, ...]) -> Iterator[pa.RecordBatch]:
        storage, _ = open_storage(self.plan.reading.base_path)
        for slice_ in slices:
            rows = planned_rows(storage, self.plan, slice_, memory_bytes=self.memory_bytes, meter=ReadMeter())
            yield from key_locations(rows, slice_, LOCATED)

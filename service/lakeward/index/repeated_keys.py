"""Record keys that several rows of a table have, of which readers see each.

    the keys of each newest slice, as a query finds its rows -> sorted, spilled -> those that come again in their scope

A key is one in its partition; in the whole table where that has an index for which it is.

Touches: the newest slice of each file group, reading one column; spill files of its own.
Memory:  what merging one slice takes, and a run of keys to sort, whatever the number of keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.location import RECORD_KEY, differs
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.spilled_run import RawRun
from lakeward.merge.runs.whole_keys import whole_keys
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.slice_keys import slice_keys
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_PLACED = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field("place", pa.int32())])
_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class KeyRepeats:
    rows: int
    """Rows whose keys were read."""
    keys: int
    """How many keys have several rows."""
    first: tuple[tuple[str, tuple[GroupId, ...]], ...]
    """Some of these, with the file group of each row."""


def find_repeated_keys(
    storage: Storage, snapshot: TableSnapshot, *, most: int, memory_bytes: int = _MEMORY_BYTES
) -> KeyRepeats:
    """Raises what reading a slice does.

    Args:
        most: so many keys are named.
    """
    is_global = RECORD_INDEX in snapshot.config.built_metadata_partitions
    reading = table_reading(snapshot, merges=True)
    groups: list[GroupId] = []
    rows = keys = 0
    first: list[tuple[str, tuple[GroupId, ...]]] = []
    sorter = RecordSorter(_PLACED, name="keys of a table", is_base=False, memory_bytes=memory_bytes, folder=None)
    try:
        for group in snapshot.file_groups:
            if (slice_ := newest_slice(group.slices)) is None:
                continue
            groups.append((group.partition_path, group.file_id))
            # Not by its order: that a base file only claims to be sorted is nothing to fail for here.
            for part in slice_keys(storage, reading, slice_, by_order=False):
                places = pa.array(np.full(len(part), len(groups) - 1, np.int32))
                sorter.add(pa.RecordBatch.from_arrays([part, places], schema=_PLACED))
                rows += len(part)
        scopes = _scopes(groups, is_global=is_global)
        for batch in whole_keys([RawRun(run) for run in sorter.finish()]):
            for key, places in _repeated(batch, scopes):
                keys += 1
                if len(first) < most:
                    first.append((key, tuple(groups[place] for place in places)))
    finally:
        sorter.close()
    return KeyRepeats(rows, keys, tuple(first))


def _scopes(groups: list[GroupId], *, is_global: bool) -> npt.NDArray[np.int64]:
    """The number of each group's partition; the same for all where a key is one in all of the table."""
    numbers: dict[str, int] = defaultdict(lambda: len(numbers))
    return np.array([0 if is_global else numbers[path] for path, _ in groups], np.int64)


def _repeated(batch: pa.RecordBatch, scopes: npt.NDArray[np.int64]) -> Iterator[tuple[str, list[int]]]:
    """Keys that come again in a scope, each with the places of its rows there; all rows of a key are in the batch."""
    keys, places = batch.column(0), batch.column(1).to_numpy()
    number = np.cumsum(differs(keys)) - 1
    order = np.lexsort((places, scopes[places], number))
    number, scope = number[order], scopes[places[order]]
    begins = np.flatnonzero(np.append(True, (number[1:] != number[:-1]) | (scope[1:] != scope[:-1])))
    ends = np.append(begins[1:], len(order))
    for begin, end in zip(begins[ends - begins > 1], ends[ends - begins > 1], strict=True):
        yield keys[int(order[begin])].as_py(), places[order[begin:end]].tolist()

"""What one commit did to keys, sorted by the keys of entries, each once: locations in any order in, entries out.

A commit may say of a key in one batch that it is gone and in another where it is: then it is there, whichever came
first. Of several places the last one counts.

Touches: spill files of its own.
Keeps:   1. entries come out by the bytes of their keys, each key once;
         2. memory is bounded, whatever the number of keys; places are held as a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY, differs
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_codes import GONE, CodeTable
from lakeward.index.record.key_scope import entry_keys
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.spilled_run import RawRun
from lakeward.merge.runs.whole_keys import whole_keys

MEMORY_BYTES: Final = 64 * 1024 * 1024
_LOCATION = "location"
_SORTED = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(_LOCATION, pa.int32())])


class EntrySorter:
    """A context manager: what was spilled goes at its end."""

    def __init__(self, scope: KeyScope, *, memory_bytes: int = MEMORY_BYTES, folder: str | None = None) -> None:
        """
        Args:
            folder: for spilled runs; None is the system's for temporary files.
        """
        self._scope = scope
        self._sorter = RecordSorter(
            _SORTED, name="keys of an index", is_base=False, memory_bytes=memory_bytes, folder=folder
        )
        self.places = CodeTable(2)
        """Pairs of partition path and file id, which the locations of entries are codes of."""
        self.rows = 0
        """That were added, of which several may be of one key."""

    def add(self, locations: pa.RecordBatch) -> None:
        """A batch in `LOCATIONS`, without nulls among its partition paths where a key is one in its partition. What
        comes in the order of its entries from the beginning is written as it comes. Raises `SpillFailed`."""
        partitions, file_ids = locations.column(PARTITION_PATH), locations.column(FILE_ID)
        in_partition = self._scope is KeyScope.PARTITION
        assert not in_partition or partitions.null_count == 0, "an entry of this scope has a partition"
        keys = entry_keys(locations.column(RECORD_KEY), partitions if in_partition else None)
        codes = self.places.codes(pc.if_else(file_ids.is_valid(), partitions, None), file_ids)
        columns = [keys.cast(pa.string()), pa.array(codes)]
        self._sorter.add(pa.RecordBatch.from_arrays(columns, schema=_SORTED), block=_LOCATION)
        self.rows += locations.num_rows

    def entries(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """(keys of entries, their locations). Nothing is added after this. Raises `SpillFailed`."""
        for rows in whole_keys([RawRun(run) for run in self._sorter.finish()]):
            keys, locations = rows.columns
            begins = np.flatnonzero(differs(keys))
            is_there = locations.to_numpy() != GONE
            last = np.maximum.reduceat(np.where(is_there, np.arange(len(keys)), -1), begins)
            chosen = pa.array(np.where(last < 0, begins, last))
            yield keys.take(chosen), locations.take(chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sorter.close()

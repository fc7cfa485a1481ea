"""Keep the data rows of a slice's logs where any of them can be fetched again, in memory or in a spill file.

Rows are numbered in the order they arrive; that number is a row's *position*. Up to the memory budget the batches stay
as they came. Beyond it, rows that have lost already are dropped, and when that does not help the batches go to an Arrow
IPC file in a temporary folder, which loses its name as soon as it is memory-mapped.

Touches: one temporary file, outside of the table.
Keeps:   1. `take` returns the rows of the given positions in the given order;
         2. `drop_others` keeps the rows' order, so that it is enough to tell new positions from old ones;
         3. no segment is larger than `SEGMENT_BYTES` unless one batch was: string offsets stay far from 32 bits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEGMENT_BYTES = 64 * 1024 * 1024


class LogRows:
    def __init__(self, schema: pa.Schema, *, memory_bytes: int, spill_folder: str | None = None) -> None:
        self._schema = schema
        self.memory_bytes = memory_bytes
        self._spill_folder = spill_folder
        self._spill_path: str | None = None
        self._sink: pa.OSFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._mapped: pa.MemoryMappedFile | None = None
        self._spilled_rows: list[int] = []
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._count = 0
        self._segments: list[pa.RecordBatch] = []
        self._starts = np.zeros(1, dtype=np.int64)
        self._row_bytes_max = 1

    def __len__(self) -> int:
        return self._count

    @property
    def bytes_in_memory(self) -> int:
        return self._batch_bytes

    @property
    def is_over_budget(self) -> bool:
        return self._batch_bytes > self.memory_bytes

    @property
    def has_spilled(self) -> bool:
        return self._spill_path is not None

    @property
    def rows_at_once_max(self) -> int:
        """How many rows one `take` may fetch so that no string column comes near 2 GiB."""
        return max(1, (512 * 1024 * 1024) // self._row_bytes_max)

    def append(self, batch: pa.RecordBatch) -> int:
        """Keep the batch; the position of its first row."""
        assert batch.schema.equals(self._schema), (batch.schema, self._schema)
        first = self._count
        if batch.num_rows:
            self._batches.append(batch)
            self._batch_bytes += batch.nbytes
            self._count += batch.num_rows
        return first

    def drop_others(self, alive: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Drop the rows in memory whose position is not in `alive` (ascending); the new positions of `alive`.

        Rows that were spilled stay where they are.
        """
        first = sum(self._spilled_rows)
        spilled = int(np.searchsorted(alive, first))
        kept: list[pa.RecordBatch] = []
        for batch in self._batches:
            low, high = np.searchsorted(alive, (first, first + batch.num_rows))
            rows = alive[low:high] - first
            if len(rows):
                kept.append(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows)))
            first += batch.num_rows
        self._batches = list(_in_segments(kept))
        self._batch_bytes = sum(batch.nbytes for batch in self._batches)
        moved = alive.copy()
        start = sum(self._spilled_rows)
        moved[spilled:] = start + np.arange(len(alive) - spilled)
        self._count = start + len(alive) - spilled
        return moved

    def spill(self) -> None:
        """Move the batches in memory to the spill file."""
        if self._writer is None:
            handle, self._spill_path = tempfile.mkstemp(".arrow", "lakeward-spill-", self._spill_folder)
            os.close(handle)
            self._sink = pa.OSFile(self._spill_path, "wb")
            self._writer = pa.ipc.new_file(self._sink, self._schema)
        for batch in _in_segments(self._batches):
            self._writer.write_batch(batch)
            self._spilled_rows.append(batch.num_rows)
        self._batches = []
        self._batch_bytes = 0

    def seal(self) -> None:
        """No more rows will come: make `take` possible."""
        if self._writer is not None:
            self.spill()
            self._end_spilling()
            self._mapped = pa.memory_map(self._spill_path)
            # The mapping is all we need: without a name the file is gone with the process, however that ends.
            self._unlink()
            file = pa.ipc.open_file(self._mapped)
            self._segments = [file.get_batch(number) for number in range(file.num_record_batches)]
        else:
            self._segments = list(_in_segments(self._batches))
            self._batches = []
        rows = [segment.num_rows for segment in self._segments]
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.array(rows, dtype=np.int64))])
        # Four times the average, since rows differ; the cap that comes of it leaves as much room again.
        self._row_bytes_max = max([1, *(4 * segment.nbytes // segment.num_rows for segment in self._segments)])

    def take(self, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        if len(self._segments) == 1:
            return self._segments[0].take(pa.array(positions))
        numbers = np.searchsorted(self._starts, positions, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        parts: list[pa.RecordBatch] = []
        low = 0
        for number in np.unique(numbers):
            high = int(np.searchsorted(numbers[order], number, side="right"))
            local = positions[order[low:high]] - self._starts[number]
            parts.append(self._segments[int(number)].take(pa.array(local)))
            low = high
        if not parts:
            return pa.RecordBatch.from_pylist([], self._schema)
        joined = join_batches(parts)
        back = np.empty(len(positions), dtype=np.int64)
        back[order] = np.arange(len(positions))
        return joined if bool((order[1:] > order[:-1]).all()) else joined.take(pa.array(back))

    def close(self) -> None:
        self._segments = []
        self._batches = []
        try:
            self._end_spilling()
            if self._mapped is not None:
                self._mapped.close()
        finally:
            self._unlink()

    def _end_spilling(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            assert self._sink is not None
            writer.close()
            self._sink.close()

    def _unlink(self) -> None:
        if self._spill_path is not None and os.path.exists(self._spill_path):
            os.unlink(self._spill_path)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, which together must fit 32-bit string offsets."""
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    assert len(whole) == 1, len(whole)
    return whole[0]


def _in_segments(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The same rows in fewer batches: neighbours are joined up to the size of a segment."""
    segments: list[pa.RecordBatch] = []
    group: list[pa.RecordBatch] = []
    group_bytes = 0
    for batch in batches:
        if group and group_bytes + batch.nbytes > SEGMENT_BYTES:
            segments.append(join_batches(group))
            group, group_bytes = [], 0
        group.append(batch)
        group_bytes += batch.nbytes
    if group:
        segments.append(join_batches(group))
    return segments

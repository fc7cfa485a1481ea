"""Keep rows where any of them can be fetched again, in memory.

Rows are numbered in the order they arrive; that number is a row's *position*. The batches stay as they came until they
are sealed.

Touches: nothing.
Keeps:   1. `take` returns the rows of the given positions in the given order;
         2. `drop_others` keeps the rows' order, so that it is enough to map old positions to new ones;
         3. no segment is larger than `SEGMENT_BYTES` unless one batch was, so that few bytes are copied to make one;
         4. joining batches never holds more than a segment twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.rows.gather import RowSources

SEGMENT_BYTES = 1024 * 1024


class LogRows:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: deque[pa.RecordBatch] = deque()
        self._count = 0
        self._segments: RowSources | None = None
        self._starts = np.zeros(1, dtype=np.int64)
        self._row_bytes_max = 1
        self.nbytes = 0
        """What the rows take."""

    def __len__(self) -> int:
        return self._count

    @property
    def row_bytes(self) -> int:
        """What a row takes, on average."""
        return self.nbytes // max(1, self._count)

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
            self.nbytes += batch.nbytes
            self._count += batch.num_rows
        return first

    def drop_others(self, alive: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Drop the rows whose position is not in `alive` (ascending); the new positions of `alive`."""
        self._batches = deque(_in_segments(self._alive(alive)))
        self.nbytes = sum(batch.nbytes for batch in self._batches)
        self._count = len(alive)
        return np.arange(len(alive), dtype=np.int64)

    def seal(self) -> None:
        """No more rows will come: make `take` possible."""
        segments = list(_in_segments(self._given_up()))
        rows = [segment.num_rows for segment in segments]
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.array(rows, dtype=np.int64))])
        # Four times the average, since rows differ; the cap that comes of it leaves as much room again.
        self._row_bytes_max = max([1, *(4 * segment.nbytes // segment.num_rows for segment in segments)])
        self._segments = RowSources(segments) if segments else None

    def take(self, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        if self._segments is None:
            assert len(positions) == 0
            return pa.RecordBatch.from_pylist([], self._schema)
        numbers = np.searchsorted(self._starts, positions, side="right") - 1
        return self._segments.gather(numbers, positions - self._starts[numbers])

    def _alive(self, alive: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in self._given_up():
            low, high = np.searchsorted(alive, (first, first + batch.num_rows))
            rows = alive[low:high] - first
            first += batch.num_rows
            if len(rows):
                yield batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))

    def _given_up(self) -> Iterator[pa.RecordBatch]:
        """The batches, none of which is held here any more when it is given out."""
        while self._batches:
            yield self._batches.popleft()


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, which together must fit 32-bit string offsets."""
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    assert len(whole) == 1, len(whole)
    return whole[0]


def _in_segments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: neighbours are joined up to the size of a segment."""
    group: list[pa.RecordBatch] = []
    group_bytes = 0
    for batch in batches:
        if group and group_bytes + batch.nbytes > SEGMENT_BYTES:
            yield join_batches(group)
            group, group_bytes = [], 0
        group.append(batch)
        group_bytes += batch.nbytes
    if group:
        yield join_batches(group)

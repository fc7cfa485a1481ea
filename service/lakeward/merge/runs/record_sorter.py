"""Sort more records than memory holds: what fits is sorted and spilled as one run, then the next part.

Of a large block it is tried whether it is sorted already. As long as it is, its records go into a run of its own as
they come: nothing waits in memory, nothing is put into another order. Where a key is smaller than the one before it,
the run ends, what follows is sorted like all others, and no other block is tried, since writers do not change.

    block   a d e | f f k | b c ...        run   a d e f f k        to be sorted   b c ...

Touches: the files of `SpilledRun`.
Keeps:   1. each run has its records in the order of their keys, equal keys in the order they came in; runs are in the
            order of their age;
         2. no more than the budget is held, and the batch that came last;
         3. there are no more than `OPEN_RUNS_MAX` runs in the end: older ones are merged with their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.merge.rows.byte_hash import byte_buffers
from lakeward.merge.rows.log_rows import LogRows
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.merge.runs.sort_key import OrderWatch, order_of
from lakeward.merge.runs.spilled_run import RawRun, RunWriter, SpilledRun

OPEN_RUNS_MAX = 32
"""Runs that are read at once; each has two batches in memory, one of which is through."""
_RUNS_OF_BLOCKS_MAX = OPEN_RUNS_MAX // 2
"""With so many runs blocks get none of their own any more: those of the memory's size may be larger."""
_ROW_BYTES = 80
"""What sorting takes for each record beside its key: places, words and a few arrays of them."""


def spilled_batch_bytes(memory_bytes: int) -> int:
    """The size of the batches of runs that are to be read with `memory_bytes`."""
    return memory_bytes // (2 * OPEN_RUNS_MAX)


@dataclass(slots=True)
class _SortedBlock:
    """A block whose records are written as they come."""

    block: str
    writer: RunWriter
    order: OrderWatch = field(default_factory=OrderWatch)


class RecordSorter:
    """`add` records of one `record_schema`, then `finish`; close it when the runs are read."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        name: str,
        is_base: bool,
        memory_bytes: int,
        folder: str | None,
        runs: Sequence[SpilledRun] = (),
    ) -> None:
        """
        Args:
            name: how errors call the runs.
            runs: older ones of the same schema, which become part of the result.
        """
        self._schema = schema
        self._name = name
        self._is_base = is_base
        self._memory_bytes = memory_bytes
        self._batch_bytes = spilled_batch_bytes(memory_bytes)
        self._folder = folder
        self._rows = LogRows(schema)
        self._keys: list[pa.Array] = []
        self._bytes = 0
        self._runs = list(runs)
        self._tries_order = True
        self._sorted: _SortedBlock | None = None

    def add(self, batch: pa.RecordBatch, *, block: str | None = None) -> None:
        """
        Args:
            block: the records are of this block, which is large enough for a run of its own where it is sorted.
        """
        if batch.num_rows == 0 or self._goes_on(batch, block):
            return
        self._end_sorted()
        keys = batch.column(RECORD_KEY_FIELD)
        self._rows.append(batch)
        self._keys.append(keys)
        self._bytes += batch.nbytes + 2 * keys.nbytes + _ROW_BYTES * batch.num_rows
        if self._bytes > self._memory_bytes:
            self._spill()

    def finish(self) -> list[SpilledRun]:
        """The runs, oldest first, and no more than `OPEN_RUNS_MAX`."""
        self._end_sorted()
        if len(self._rows):
            self._spill()
        while len(self._runs) > OPEN_RUNS_MAX:
            self._runs[:OPEN_RUNS_MAX] = [self._merged(self._runs[:OPEN_RUNS_MAX])]
        return self._runs

    def close(self) -> None:
        if self._sorted is not None:
            self._sorted.writer.close()
        for run in self._runs:
            run.close()

    def _goes_on(self, batch: pa.RecordBatch, block: str | None) -> bool:
        """Whether the records went into a run of their block, because they are sorted."""
        if not self._tries_order or block is None:
            return False
        open_one = self._sorted
        goes_on = open_one is not None and open_one.block == block
        order = open_one.order if open_one is not None and goes_on else OrderWatch()
        order.add(batch.column(RECORD_KEY_FIELD))
        self._tries_order = order.holds
        if not self._tries_order:
            return False
        if open_one is None or not goes_on:
            self._end_sorted()
            if len(self._runs) >= _RUNS_OF_BLOCKS_MAX:
                return False
            if len(self._rows):
                self._spill()
            writer = RunWriter(self._schema, name=self._name, is_base=self._is_base, folder=self._folder)
            open_one = self._sorted = _SortedBlock(block, writer, order)
        at_once = max(1, self._batch_bytes * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, at_once):
            open_one.writer.write(batch.slice(start, at_once))
        return True

    def _end_sorted(self) -> None:
        """What comes now does not belong to the run that was written as it came."""
        if self._sorted is not None:
            self._runs.append(self._sorted.writer.finish())
            self._sorted = None

    def _spill(self) -> None:
        rows, self._rows = self._rows, LogRows(self._schema)
        keys = pa.chunked_array(self._keys).cast(pa.large_string()).combine_chunks()
        self._keys, self._bytes = [], 0
        offsets, data = byte_buffers(keys)
        order = order_of(data, offsets)
        del keys, offsets, data
        rows.seal()
        at_once = max(1, min(self._batch_bytes // max(1, rows.row_bytes), rows.rows_at_once_max))
        batches = (rows.take(order[start : start + at_once]) for start in range(0, len(order), at_once))
        self._runs.append(self._written(batches))

    def _merged(self, runs: Sequence[SpilledRun]) -> SpilledRun:
        windows = RunWindows([RawRun(run) for run in runs], window_bytes=self._batch_bytes)
        merged = self._written(windows.rows(window.order) for window in windows.windows() if len(window.order))
        for run in runs:
            run.close()
        return merged

    def _written(self, batches: Iterable[pa.RecordBatch]) -> SpilledRun:
        return SpilledRun.of(batches, self._schema, name=self._name, is_base=self._is_base, folder=self._folder)

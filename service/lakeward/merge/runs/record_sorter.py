"""Sort more records than memory holds: what fits is sorted and spilled as one run, then the next part.

Touches: the files of `SpilledRun`.
Keeps:   1. each run has its records in the order of their keys, equal keys in the order they came in; runs are in the
            order of their age;
         2. no more than the budget is held, and the batch that came last;
         3. there are no more than `OPEN_RUNS_MAX` runs in the end: older ones are merged with their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakeward.merge.rows.byte_hash import byte_buffers
from lakeward.merge.rows.log_rows import LogRows
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.merge.runs.sort_key import order_of
from lakeward.merge.runs.spilled_run import RawRun, SpilledRun

OPEN_RUNS_MAX = 32
"""Runs that are read at once; each has two batches in memory, one of which is through."""
_ROW_BYTES = 80
"""What sorting takes for each record beside its key: places, words and a few arrays of them."""


def spilled_batch_bytes(memory_bytes: int) -> int:
    """The size of the batches of runs that are to be read with `memory_bytes`."""
    return memory_bytes // (2 * OPEN_RUNS_MAX)


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

    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch.column(RECORD_KEY_FIELD)
        self._rows.append(batch)
        self._keys.append(keys)
        self._bytes += batch.nbytes + 2 * keys.nbytes + _ROW_BYTES * batch.num_rows
        if self._bytes > self._memory_bytes:
            self._spill()

    def finish(self) -> list[SpilledRun]:
        """The runs, oldest first, and no more than `OPEN_RUNS_MAX`."""
        if len(self._rows):
            self._spill()
        while len(self._runs) > OPEN_RUNS_MAX:
            self._runs[:OPEN_RUNS_MAX] = [self._merged(self._runs[:OPEN_RUNS_MAX])]
        return self._runs

    def close(self) -> None:
        for run in self._runs:
            run.close()

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
        return SpilledRun(batches, self._schema, name=self._name, is_base=self._is_base, folder=self._folder)

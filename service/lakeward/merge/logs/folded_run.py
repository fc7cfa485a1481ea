"""The folded logs as a sorted run: the winner of each key, whose rows are fetched only where they win again.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.runs.sorted_run import Places, RunBatch

BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class _Winners:
    fold: LogFold
    ids: npt.NDArray[np.int64]

    @property
    def keys(self) -> pa.Array:
        return self.fold.keys_of(self.ids)

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        return self.fold.kinds(self.ids)

    @property
    def nbytes(self) -> int:
        return len(self.ids) * self.fold.row_bytes

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        return self.fold.take(self.ids[places]), np.arange(len(places), dtype=np.int64)

    def ordering(self, places: Places) -> pa.Array | None:
        return self.fold.ordering(self.ids[places])


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """The winners of a finished fold."""

    fold: LogFold
    name: str = "the run of the logs"
    is_base: bool = False
    repeats_keys: bool = False

    def batches(self) -> Iterator[RunBatch]:
        ids = self.fold.ids_by_key()
        at_once = min(BATCH_ROWS, self.fold.rows_at_once_max)
        for start in range(0, len(ids), at_once):
            yield _Winners(self.fold, ids[start : start + at_once])

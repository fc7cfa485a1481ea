"""Logs that are sorted as runs: their records come out of the files while they are merged, and nothing waits.

Touches: nothing but what gives the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.logs.log_fold import LogFold, data_kinds
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.merge.rules.records import record_keys
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.merge.rules.winner import delete_kind
from lakeward.merge.runs.sorted_run import BaseRows, Places, RunBatch, SortedRun


@dataclass(frozen=True, slots=True)
class _Rows(BaseRows):
    """A batch of a log of rows."""

    rules: MergeRules

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        return data_kinds(self.batch, self.rules)


@dataclass(frozen=True, slots=True)
class _Deletes:
    """A batch of a log of deletes."""

    deletes: Tombstones
    rules: MergeRules

    @property
    def keys(self) -> pa.Array:
        return self.deletes.keys

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        return np.full(len(self.deletes.keys), delete_kind(self.rules), dtype=np.int8)

    @property
    def nbytes(self) -> int:
        return self.deletes.nbytes

    @property
    def whole(self) -> None:
        return None

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        raise AssertionError("a delete has no row")

    def ordering(self, places: Places | None) -> pa.Array | None:
        values = self.deletes.ordering
        return values if values is None or places is None else values.take(pa.array(places))


@dataclass(frozen=True, slots=True)
class FileRun:
    """A log that is sorted, to be read once."""

    name: str
    records: Iterable[pa.RecordBatch | Tombstones]
    rules: MergeRules
    is_base: bool = False
    repeats_keys: bool = True

    def batches(self) -> Iterator[RunBatch]:
        for part in self.records:
            if isinstance(part, Tombstones):
                yield _Deletes(part, self.rules)
            else:
                keys = record_keys(part, source=self.name)
                yield _Rows(part, keys, self.rules.ordering_fields, self.rules)


@dataclass(frozen=True, slots=True)
class FileRuns:
    """What `LogRecords` is of logs that are read first, of some that are merged straight out of their files."""

    runs: Sequence[SortedRun]
    records: int
    """Log records, deletes included."""
    fold: LogFold | None = None
    fits: bool = False
    repeats_in_block: bool = False

    @property
    def keys_max(self) -> int:
        return self.records

    def close(self) -> None:
        """Nothing is held."""

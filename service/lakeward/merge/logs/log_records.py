"""The log records of a slice, whatever their number: folded in memory as long as they fit, else in sorted runs.

    records --> LogFold, at most one for each key           they fit: one run, in memory
                   | is_full
                   v
                sorted run 0: what won so far
    records --> sorted run 1, 2, ...: every record          they do not: runs in files, oldest first

Only what came first may be folded before it is spilled. The fold is not associative by event time: whether a record
beats a delete may hang on what came before the run.

The folded logs as a sorted run: the winner of each key, whose rows are fetched only where they win again.

Touches: the files of the runs.
Keeps:   1. the runs, merged, give the winners that folding all records one after the other gives;
         2. no more than the budget is held, and the batch that came last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.logs.log_fold import LogFold, data_kinds
from lakeward.merge.rows.log_rows import join_batches
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.merge.rules.ordering_codes import ordering_values
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.records import delete_ordering, keyless, record_keys
from lakeward.merge.rules.winner import LogRecordKind, delete_kind
from lakeward.merge.runs.record_sorter import RecordSorter, spilled_batch_bytes
from lakeward.merge.runs.sorted_run import Places, RunBatch, SortedRun
from lakeward.merge.runs.spilled_run import SpilledRun, data_records, delete_records, record_schema

_NAME = "a run of the logs"
_LARGE_BLOCK_SHARE = 8
"""A block of more than this share of the memory is worth a run of its own: decoded, it takes a few times as much."""


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

    @property
    def whole(self) -> None:
        return None

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        return self.fold.take(self.ids[places]), np.arange(len(places), dtype=np.int64)

    def ordering(self, places: Places | None) -> pa.Array | None:
        return self.fold.ordering(self.ids if places is None else self.ids[places])


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


class LogRecords:
    """Append records oldest first, `finish`, then ask; close it afterwards."""

    def __init__(
        self,
        schema: pa.Schema,
        rules: MergeRules,
        *,
        memory_bytes: int,
        spill_folder: str | None = None,
        watches_blocks: bool = False,
    ) -> None:
        """
        Args:
            schema: of every data batch.
            watches_blocks: as in `LogFold`.
        """
        self._schema = schema
        self._rules = rules
        self._memory_bytes = memory_bytes
        self._folder = spill_folder
        self._ordering_type = ordering_type(rules, schema)
        self._record_schema = record_schema(schema, self._ordering_type)
        # A fold keeps nothing of records that lost, which may fill others, or have met the base row first.
        self._fold: LogFold | None = None
        self._sorter: RecordSorter | None = None
        if not rules.needs_all_records:
            self._fold = LogFold(schema, rules, memory_bytes=memory_bytes, watches_blocks=watches_blocks)
        else:
            self._sorter = self._new_sorter()
        self._spilled: list[SpilledRun] = []
        self._repeats_in_block = False
        self.records = 0
        """Log records appended, deletes included."""

    @property
    def fold(self) -> LogFold | None:
        """All records, folded; None where they did not fit."""
        return self._fold

    @property
    def fits(self) -> bool:
        """All records that have come so far fit memory."""
        return self._fold is not None

    @property
    def repeats_in_block(self) -> bool:
        """A key came more than once in one block, where blocks are watched and as long as the records fit memory."""
        return self._repeats_in_block or (self._fold is not None and self._fold.repeats_in_block)

    @property
    def keys_max(self) -> int:
        """Distinct keys of the records, or more where they did not fit."""
        return self._fold.keys if self._fold is not None else self.records

    @property
    def runs(self) -> Sequence[SortedRun]:
        """What is to be merged, oldest first; to be read any number of times, after `finish`."""
        return [FoldedRun(self._fold)] if self._fold is not None else self._spilled

    def append_data(self, batch: pa.RecordBatch, *, source: str, block_bytes: int = 0) -> None:
        """Records of a data block in the slice's schema. `source` is how errors call the block.

        Args:
            block_bytes: what the whole block takes where it is stored.
        """
        self.records += batch.num_rows
        if self._fold is not None:
            self._fold.append_data(batch, source=source)
            self._look_at_memory()
            return
        assert self._sorter is not None
        record_keys(batch, source=source)
        values = None if self._ordering_type is None else ordering_values(batch, self._rules.ordering_fields)
        self._sorter.add(
            data_records(batch, data_kinds(batch, self._rules), values, self._record_schema),
            block=source if block_bytes > self._memory_bytes // _LARGE_BLOCK_SHARE else None,
        )

    def append_deletes(
        self, keys: pa.Array, ordering: pa.Array | None, *, wrappers: Sequence[str], source: str
    ) -> None:
        """Records of a delete block: `ordering` is null where the delete has the default, None where all have.

        `wrappers` names the class that the values of each ordering field had in the block.
        """
        self.records += len(keys)
        if self._fold is not None:
            self._fold.append_deletes(keys, ordering, wrappers=wrappers, source=source)
            self._look_at_memory()
            return
        assert self._sorter is not None
        if keys.null_count:
            raise keyless(source)
        kinds = np.full(len(keys), delete_kind(self._rules), dtype=np.int8)
        values = delete_ordering(ordering, self._ordering_type, wrappers=wrappers, rows=len(keys), source=source)
        self._sorter.add(delete_records(keys, kinds, values, self._record_schema))

    def finish(self) -> None:
        """No more records will come."""
        if self._fold is not None:
            self._fold.finish()
            return
        assert self._sorter is not None
        self._spilled = self._sorter.finish()

    def close(self) -> None:
        if self._sorter is not None:
            self._sorter.close()

    def _look_at_memory(self) -> None:
        """Take what has come so far out of memory, where it is full."""
        fold = self._fold
        if fold is None or not fold.is_full:
            return
        fold.finish()
        first = SpilledRun.of(self._folded(fold), self._record_schema, name=_NAME, is_base=False, folder=self._folder)
        self._repeats_in_block = fold.repeats_in_block
        self._fold = None
        self._sorter = self._new_sorter(first)

    def _new_sorter(self, *runs: SpilledRun) -> RecordSorter:
        return RecordSorter(
            self._record_schema,
            name=_NAME,
            is_base=False,
            memory_bytes=self._memory_bytes,
            folder=self._folder,
            runs=runs,
        )

    def _folded(self, fold: LogFold) -> Iterator[pa.RecordBatch]:
        ids = fold.ids_by_key()
        at_once = max(
            1, min(BATCH_ROWS, fold.rows_at_once_max, spilled_batch_bytes(self._memory_bytes) // max(1, fold.row_bytes))
        )
        for start in range(0, len(ids), at_once):
            part = ids[start : start + at_once]
            kinds = fold.kinds(part)
            is_data = kinds == LogRecordKind.DATA
            data, deletes = np.flatnonzero(is_data), np.flatnonzero(~is_data)
            batches: list[pa.RecordBatch] = []
            if len(data):
                found = part[data]
                batches.append(data_records(fold.take(found), kinds[data], fold.ordering(found), self._record_schema))
            if len(deletes):
                found = part[deletes]
                keys, values = fold.keys_of(found), fold.ordering(found)
                batches.append(delete_records(keys, kinds[deletes], values, self._record_schema))
            back = np.argsort(np.concatenate([data, deletes]))
            yield batches[0] if len(batches) == 1 else join_batches(batches).take(pa.array(back))

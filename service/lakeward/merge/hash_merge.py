"""Lay the folded log records over the base file's batches: base order, rows updated in place, inserts at the end.

The base's rows are streamed and never held: for each batch the hash of the keys finds those the logs speak about,
`LogFold` decides between the two records, and the batch goes on with replaced rows where they were and removed rows
left out. When the base is through, the keys it did not have follow in the order of their first appearance in the logs.

In memory are one byte a log key, one base batch, and what `LogFold` holds.

Touches: nothing.
Keeps:   1. rows out = base rows + inserted - deleted;
         2. where a key is in several base rows the first of them meets the logs, and the others stay as they are, where
            they are: so do Hudi's readers;
         3. no output batch holds more than one base batch and the log rows for it;
         4. a caller that asks for changes gets, beside each batch, every key whose row a log record replaced, added or
            removed, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.format.log.change_log import ChangedRows, ChangeOperation
from lakeward.merge.logs.key_index import hash_keys
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.rows.gather import RowSources
from lakeward.merge.rules.merge_rules import MergeRules, RepeatedKeys
from lakeward.merge.rules.ordering_codes import ordering_values
from lakeward.merge.rules.records import record_keys
from lakeward.merge.rules.winner import Action

INSERT_BATCH_ROWS = 16_384


class HashMerge:
    """One merge of one slice. The counts are final when `batches` is exhausted."""

    def __init__(
        self,
        logs: LogFold,
        rules: MergeRules,
        *,
        base_name: str,
        on_changes: Callable[[ChangedRows], object] | None = None,
        on_repeated: Callable[[str], object] | None = None,
    ) -> None:
        """
        Args:
            on_changes: is called with what each batch changed, before the batch comes out.
            on_repeated: is called with a key that is in several base rows and in the logs.
        """
        assert rules.repeated is RepeatedKeys.APART
        self._logs = logs
        self._rules = rules
        self._base_name = base_name
        self._in_base = np.zeros(logs.keys, dtype=np.bool_)
        self._on_changes = on_changes
        self._on_repeated = on_repeated
        self.base_rows = 0
        self.updated = 0
        self.inserted = 0
        self.deleted = 0
        self.rows = 0

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The merged rows."""
        for batch in base:
            merged = self._lay_over(batch)
            for part in merged:
                self.rows += part.num_rows
                if part.num_rows:
                    yield part
        for part in self._inserts():
            self.inserted += part.num_rows
            self.rows += part.num_rows
            self._report(ChangeOperation.INSERT, None, part)
            yield part
        assert self.rows == self.base_rows + self.inserted - self.deleted

    def _lay_over(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.base_rows += batch.num_rows
        keys = record_keys(batch, source=self._base_name)
        ids = self._logs.find(keys, hash_keys(keys))
        matched = self._first_rows(ids)
        if len(matched) == 0:
            yield batch
            return
        ordering = ordering_values(batch, self._rules.ordering_fields)
        if ordering is not None:
            ordering = ordering.take(pa.array(matched))
        actions = self._logs.decide(ids[matched], ordering, base=self._base_name)
        replaced = matched[actions == Action.REPLACE]
        removed = matched[actions == Action.REMOVE]
        self.updated += len(replaced)
        self.deleted += len(removed)
        if len(replaced) == 0 and len(removed) == 0:
            yield batch
            return
        # Large log rows: build the output in several parts, so that its string offsets fit 32 bits.
        at_once = self._logs.rows_at_once_max
        cuts = [*(int(row) for row in replaced[at_once::at_once]), batch.num_rows]
        start = 0
        for end in cuts:
            inside = replaced[(replaced >= start) & (replaced < end)]
            gone = removed[(removed >= start) & (removed < end)]
            yield self._rebuild(batch.slice(start, end - start), inside - start, gone - start, ids[inside])
            start = end

    def _rebuild(
        self,
        batch: pa.RecordBatch,
        replaced: npt.NDArray[np.int64],
        removed: npt.NDArray[np.int64],
        replaced_ids: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        places = np.arange(batch.num_rows, dtype=np.int64)
        numbers = np.zeros(batch.num_rows, dtype=np.int64)
        sources = [batch]
        if len(replaced):
            places[replaced] = np.arange(len(replaced))
            numbers[replaced] = 1
            sources.append(self._logs.take(replaced_ids))
            self._report(ChangeOperation.UPDATE, (batch, replaced), sources[1])
        if len(removed):
            self._report(ChangeOperation.DELETE, (batch, removed), None)
            places, numbers = np.delete(places, removed), np.delete(numbers, removed)
        return RowSources(sources).gather(numbers, places)

    def _report(
        self,
        operation: ChangeOperation,
        before: tuple[pa.RecordBatch, npt.NDArray[np.int64]] | None,
        after: pa.RecordBatch | None,
    ) -> None:
        if self._on_changes is not None:
            rows = None if before is None else before[0].take(pa.array(before[1]))
            self._on_changes(ChangedRows(operation, rows, after))

    def _inserts(self) -> Iterator[pa.RecordBatch]:
        ids = self._logs.data_ids()
        ids = ids[~self._in_base[ids]]
        at_once = min(INSERT_BATCH_ROWS, self._logs.rows_at_once_max)
        for start in range(0, len(ids), at_once):
            yield self._logs.take(ids[start : start + at_once])

    def _first_rows(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of a batch with keys of the logs, but for those whose key an earlier row had."""
        rows = np.flatnonzero(ids >= 0)
        found = ids[rows]
        is_first = ~self._in_base[found]
        if len(np.unique(found)) != len(found):
            first_here = np.zeros(len(found), dtype=np.bool_)
            first_here[np.unique(found, return_index=True)[1]] = True
            is_first &= first_here
        self._in_base[found] = True
        if self._on_repeated is not None and not is_first.all():
            self._on_repeated(self._logs.key(int(found[~is_first][0])))
        return rows[is_first]

"""Lay the folded log records over the base file's batches: base order, rows updated in place, inserts at the end.

The base's rows are streamed and never held: for each batch the hash of the keys finds those the logs speak about,
`LogFold` decides between the two records, and the batch goes on with replaced rows where they were and removed rows
left out. When the base is through, the keys it did not have follow in the order of their first appearance in the logs.

In memory are one byte a log key, one base batch, what `LogFold` holds, and, within their own budget, the hashes of the
base's keys (`merge/rows/hash_watch`).

Touches: the files of the watch over repeated keys.
Keeps:   1. rows out = base rows + inserted - deleted;
         2. no key comes out twice: a base file with a key in two rows is refused, for Hudi updates only the first
            of them and the two drift apart;
         3. no output batch holds more than one base batch and the log rows for it;
         4. who asks for changes is told, beside each batch, of every key whose row a log record replaced, added or
            removed, and of no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.errors import BrokenFile
from lakeward.format.log.change_log import ChangedRows, ChangeOperation
from lakeward.merge.logs.key_index import hash_keys
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.rows.gather import RowSources
from lakeward.merge.rows.hash_watch import HashWatch
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeRules
from lakeward.merge.rules.ordering import ordering_values
from lakeward.merge.rules.records import record_keys
from lakeward.merge.rules.winner import Action

INSERT_BATCH_ROWS = 16_384
HASHES_BYTES = 64 * 1024 * 1024


class HashMerge:
    """One merge of one slice. The counts are final when `batches` is exhausted."""

    def __init__(
        self,
        logs: LogFold,
        rules: MergeRules,
        *,
        base_name: str,
        memory_bytes: int = HASHES_BYTES,
        spill_folder: str | None = None,
        on_changes: Callable[[ChangedRows], object] | None = None,
    ) -> None:
        """
        Args:
            memory_bytes: for the hashes of the base file's keys.
            on_changes: is called with what each batch changed, before the batch comes out.
        """
        self._logs = logs
        self._rules = rules
        self._base_name = base_name
        self._in_base = np.zeros(logs.keys, dtype=np.bool_)
        self._base_hashes = HashWatch(memory_bytes=memory_bytes, folder=spill_folder)
        self._on_changes = on_changes
        self.base_rows = 0
        self.updated = 0
        self.inserted = 0
        self.deleted = 0
        self.rows = 0

    def batches(
        self, base: Iterable[pa.RecordBatch], read_base_keys: Callable[[], Iterable[pa.Array]]
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows. `read_base_keys` reads the base's keys once more, in the one case that it is needed."""
        with closing(self._base_hashes):
            yield from self._batches(base, read_base_keys)
        assert self.rows == self.base_rows + self.inserted - self.deleted

    def _batches(
        self, base: Iterable[pa.RecordBatch], read_base_keys: Callable[[], Iterable[pa.Array]]
    ) -> Iterator[pa.RecordBatch]:
        for batch in base:
            merged = self._lay_over(batch)
            for part in merged:
                self.rows += part.num_rows
                if part.num_rows:
                    yield part
        # A hash seen twice is most likely a key seen twice, which a second read decides.
        suspects = self._base_hashes.repeats()
        if len(suspects):
            self._clear(suspects, read_base_keys())
        for part in self._inserts():
            self.inserted += part.num_rows
            self.rows += part.num_rows
            self._tell(ChangeOperation.INSERT, None, part)
            yield part

    def _lay_over(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.base_rows += batch.num_rows
        keys = record_keys(batch, source=self._base_name)
        hashes = hash_keys(keys)
        self._base_hashes.add(hashes)
        ids = self._logs.find(keys, hashes)
        matched = np.flatnonzero(ids >= 0)
        if len(matched) == 0:
            yield batch
            return
        self._mark_seen(ids[matched])
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
            self._tell(ChangeOperation.UPDATE, (batch, replaced), sources[1])
        if len(removed):
            self._tell(ChangeOperation.DELETE, (batch, removed), None)
            places, numbers = np.delete(places, removed), np.delete(numbers, removed)
        return RowSources(sources).gather(numbers, places)

    def _tell(
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

    def _mark_seen(self, ids: npt.NDArray[np.int64]) -> None:
        again = ids[self._in_base[ids]]
        self._in_base[ids] = True
        if len(again) == 0 and len(ids) != len(np.unique(ids)):
            numbers, counts = np.unique(ids, return_counts=True)
            again = numbers[counts > 1]
        if len(again):
            raise repeated_key(f"the base file {self._base_name}", self._logs.key(int(again[0])))

    def _clear(self, suspects: npt.NDArray[np.uint64], base_keys: Iterable[pa.Array]) -> None:
        seen: set[str] = set()
        for keys in base_keys:
            for row in np.flatnonzero(np.isin(hash_keys(keys), suspects)):
                key = keys[int(row)].as_py()
                if key in seen:
                    raise repeated_key(f"the base file {self._base_name}", key)
                seen.add(key)


def repeated_key(source: str, key: str) -> BrokenFile:
    """A base file with a key in two rows, as an error; `source` is "the base file ..."."""
    return BrokenFile(
        f"{source[:1].upper()}{source[1:]} holds the record key {key!r} more than once.",
        why=f"{RECORD_KEY_FIELD} must be unique in a file group, or an update reaches only one of the rows.",
        remedy="Remove the duplicates with a writer, for example by deleting and inserting the key again.",
    )

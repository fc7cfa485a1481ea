"""Lay the folded log records over a base file that is sorted by its keys: the output is sorted, too.

Two runs go through the loser tree: the base file, batch by batch, and the keys of the logs in their order. A log row
with the key of the base row before it meets that row (`LogFold.decide`); one with a key of its own is inserted where it
belongs. Nothing is held of the base file but the batch that is being merged.

    base   a  c  d  f        spans  base a | log b | base c d | log d, joined | base f
    logs      b     d        out         a       b        c     the winner of d       f

Where few rows change, the output is put together from slices of the base batch; where many do, row by row.

Touches: nothing but what `LogFold` keeps.
Keeps:   1. rows out = base rows + inserted - deleted, in the order of their keys;
         2. a base file with a key in two rows is refused, as by `merge/hash_merge`;
         3. a base file out of order is `NotSorted`, and the operation starts again without relying on it;
         4. no output batch holds more than one base batch, a row, and the log rows for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.hash_merge import INSERT_BATCH_ROWS, repeated_key
from lakeward.merge.log_fold import LogFold
from lakeward.merge.log_rows import join_batches
from lakeward.merge.loser_tree import DONE, LoserTree, Spans
from lakeward.merge.merge_rules import RECORD_KEY_FIELD, MergeRules
from lakeward.merge.records import record_keys
from lakeward.merge.sort_key import RunKeys
from lakeward.merge.winner import Action

_BASE = 0
_LOGS = 1
_SPANS = 65_536
_LOG_BATCHES_MAX = 4
"""Batches of log keys that wait for the end of a base batch, at most: each output costs, however small."""
_SLICE_ROWS_MIN = 1_000
"""Rows from which on a slice costs less than taking them one by one: a tenth of a millisecond for each."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as they came out: each of a batch of the base file, or a key of the logs."""

    batches: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    joins: npt.NDArray[np.bool_]

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> _Rows:
        return _Rows(self.batches[chosen], self.rows[chosen], self.joins[chosen])


class SortedMerge:
    """One merge of one slice. The counts are final when `batches` is exhausted."""

    def __init__(self, logs: LogFold, rules: MergeRules, *, base_name: str) -> None:
        self._logs = logs
        self._rules = rules
        self._base_name = base_name
        self._keys = RunKeys((f"The base file {base_name}", "The run of the logs"))
        self._base_batches: dict[int, pa.RecordBatch] = {}
        self._log_batches: dict[int, npt.NDArray[np.int64]] = {}
        self._held = _no_rows()
        self.base_rows = 0
        self.updated = 0
        self.inserted = 0
        self.deleted = 0
        self.rows = 0

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The merged rows. Raises `NotSorted`."""
        from_base = iter(base)
        ids = self._logs.ids_by_key()
        from_logs = (ids[start : start + INSERT_BATCH_ROWS] for start in range(0, len(ids), INSERT_BATCH_ROWS))
        self._read_base(from_base)
        self._read_logs(from_logs)
        tree = LoserTree(self._keys)
        spans = Spans(_SPANS)
        wanted = _BASE
        while wanted != DONE:
            wanted = tree.pop(spans)
            if wanted == _LOGS and len(self._log_batches) < _LOG_BATCHES_MAX:
                self._read_logs(from_logs)
                continue
            for batch in self._merge(spans, hold_last=tree.has_same_key):
                self.rows += batch.num_rows
                yield batch
            spans.count = 0
            if wanted == _BASE:
                self._read_base(from_base)
            elif wanted == _LOGS:
                self._read_logs(from_logs)
        assert self.rows == self.base_rows + self.inserted - self.deleted

    def _read_base(self, batches: Iterator[pa.RecordBatch]) -> None:
        batch = next((batch for batch in batches if batch.num_rows), None)
        if batch is None:
            self._keys.end(_BASE)
            return
        self.base_rows += batch.num_rows
        self._base_batches[self._keys.refill(_BASE, record_keys(batch, source=self._base_name))] = batch

    def _read_logs(self, batches: Iterator[npt.NDArray[np.int64]]) -> None:
        ids = next(batches, None)
        if ids is None:
            self._keys.end(_LOGS)
            return
        self._log_batches[self._keys.refill(_LOGS, self._logs.keys_of(ids))] = ids

    def _merge(self, spans: Spans, *, hold_last: bool) -> Iterator[pa.RecordBatch]:
        """The merged rows of the spans, but for the last where another row of its key is still to come."""
        rows = _joined(self._held, _expanded(spans))
        end = len(rows.rows) - hold_last
        self._held = rows.part(slice(end, None))
        rows = rows.part(slice(0, end))
        if len(rows.rows) == 0:
            return
        is_log = np.isin(rows.batches, np.fromiter(self._log_batches, dtype=np.int64))
        for number, ids in self._log_batches.items():
            of_batch = rows.batches == number
            rows.rows[of_batch] = ids[rows.rows[of_batch]]
        kept = self._decide(rows, is_log)
        yield from self._output(rows.part(kept), is_log[kept])
        self._forget()

    def _decide(self, rows: _Rows, is_log: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which rows survive."""
        twice = np.flatnonzero(rows.joins & ~is_log)
        if len(twice):
            at = int(twice[0])
            batch = self._base_batches[int(rows.batches[at])]
            raise repeated_key(self._base_name, batch.column(RECORD_KEY_FIELD)[int(rows.rows[at])].as_py())
        met = np.flatnonzero(rows.joins)
        kept = np.ones(len(rows.rows), dtype=np.bool_)
        kept[is_log] = self._logs.are_data(rows.rows[is_log])
        if len(met):
            ids = rows.rows[met]
            actions = self._logs.decide(ids, self._base_ordering(rows.part(_mask(rows, met - 1))), base=self._base_name)
            kept[met] = actions == Action.REPLACE
            kept[met - 1] = actions == Action.KEEP
            self.updated += int(np.count_nonzero(actions == Action.REPLACE))
            self.deleted += int(np.count_nonzero(actions == Action.REMOVE))
        self.inserted += int(np.count_nonzero(kept & is_log & ~rows.joins))
        return kept

    def _base_ordering(self, rows: _Rows) -> pa.Array | None:
        """The ordering values of base rows, which are of few batches, one after the other."""
        name = self._rules.ordering_field
        found = [
            batch.column(name).take(pa.array(rows.rows[rows.batches == number]))
            for number, batch in self._base_batches.items()
            if name is not None and name in batch.schema.names
        ]
        return pa.concat_arrays(found) if found else None

    def _output(self, rows: _Rows, is_log: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The rows as batches, cut so that string offsets fit 32 bits however large the rows of the logs are."""
        log_rows = np.flatnonzero(is_log)
        at_once = min(INSERT_BATCH_ROWS, self._logs.rows_at_once_max)
        cuts = [0, *(int(row) for row in log_rows[at_once::at_once]), len(rows.rows)]
        for start, end in pairwise(cuts):
            if start < end:
                part = slice(start, end)
                yield self._gather(rows.part(part), is_log[part])

    def _gather(self, rows: _Rows, is_log: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        places = rows.rows.copy()
        sources: list[pa.RecordBatch] = []
        before = 0
        for number, batch in self._base_batches.items():
            of_batch = rows.batches == number
            if of_batch.any():
                first, last = int(rows.rows[of_batch][0]), int(rows.rows[of_batch][-1])
                places[of_batch] += before - first
                sources.append(batch.slice(first, last + 1 - first))
                before += last + 1 - first
        if is_log.any():
            places[is_log] = before + np.arange(np.count_nonzero(is_log))
            sources.append(self._logs.take(rows.rows[is_log]))
        starts = np.concatenate([[0], np.flatnonzero(np.diff(places) != 1) + 1])
        if len(places) >= _SLICE_ROWS_MIN * len(starts) or len(starts) == 1:
            ends = np.append(starts[1:], len(places))
            parts = (_cut(sources, int(places[a]), int(b - a)) for a, b in zip(starts, ends, strict=True))
            return join_batches([batch for part in parts for batch in part])
        return join_batches(sources).take(pa.array(places))

    def _forget(self) -> None:
        """Let go of the batches that are through."""
        wanted = {int(head["batch"]) for head in self._keys.heads} | {int(number) for number in self._held.batches}
        for held in (self._base_batches, self._log_batches):
            for number in [number for number in held if number not in wanted]:
                del held[number]


def _cut(sources: list[pa.RecordBatch], start: int, length: int) -> Iterator[pa.RecordBatch]:
    """Rows of the sources, as if they were joined, from `start` on."""
    for source in sources:
        if length and start < source.num_rows:
            part = source.slice(int(start), int(length))
            yield part
            start += part.num_rows
            length -= part.num_rows
        start -= source.num_rows


def _expanded(spans: Spans) -> _Rows:
    found = spans.rows[: spans.count]
    lengths = found["length"]
    span = np.repeat(np.arange(len(found)), lengths)
    inside = np.arange(len(span)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return _Rows(found["batch"][span], found["start"][span] + inside, found["joins"][span] != 0)


def _joined(first: _Rows, second: _Rows) -> _Rows:
    return _Rows(
        np.concatenate([first.batches, second.batches]),
        np.concatenate([first.rows, second.rows]),
        np.concatenate([first.joins, second.joins]),
    )


def _no_rows() -> _Rows:
    return _Rows(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))


def _mask(rows: _Rows, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(len(rows.rows), dtype=np.bool_)
    mask[places] = True
    return mask

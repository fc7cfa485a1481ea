"""Several sorted runs as one order of records, cut into windows that memory holds.

Each run has a batch at hand. The loser tree hands out records until one of the batches is through; it is followed by
the run's next one, until what waits is worth a window. A window is only an order: which record of which batch comes
next. Rows are put together from it by who knows which of them are wanted.

    runs   a c e | g      b c d | h       window   a b c c d e, with the second c joined to the first
                 ^ through

Touches: nothing but the runs.
Keeps:   1. records come out in the order of (key, run, place in the run), each once;
         2. no more is held than a window, the batches at hand, and those that the reader of the windows holds;
         3. where the last key of a window may go on in the next, the window says that it is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import I8, I64, I64_IN, kernel, types
from lakeward.merge.rows.gather import RowSources
from lakeward.merge.runs.loser_tree import DONE, SPANS, LoserTree, Spans
from lakeward.merge.runs.sort_key import RunKeys
from lakeward.merge.runs.sorted_run import RunBatch, SortedRun

SPANS_MAX = 65_536
_NO_BATCH = 2**62
_NEAR_BATCHES = 65_536
"""Numbers of batches that are so near each other are counted in a table."""
WINDOW_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Order:
    """Records as they came out: the number of the batch and the place there, and whether the key is the last one's."""

    batches: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    joins: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.places)

    def part(self, chosen: slice | npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Order:
        return Order(self.batches[chosen], self.places[chosen], self.joins[chosen])

    def by_batch(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """(number of a batch, where its records are in this order, ascending)."""
        if len(self) == 0:
            return
        numbers, batches = self.numbered()
        at = np.empty(len(self), dtype=np.int64)
        ends = np.zeros(len(numbers) + 1, dtype=np.int64)
        _group(batches, ends, at)
        for number, (start, end) in zip(numbers, pairwise(ends.tolist()), strict=True):
            if start < end:
                yield number, at[start:end]

    def numbered(self) -> tuple[Sequence[int], npt.NDArray[np.int64]]:
        """Numbers of batches, some of which may have no record here, and which of them each record is of."""
        first, last = int(self.batches.min(initial=_NO_BATCH)), int(self.batches.max(initial=-1))
        if last - first > _NEAR_BATCHES:
            numbers, batches = np.unique(self.batches, return_inverse=True)
            return numbers.tolist(), batches
        return range(first, last + 1), self.batches - first


@dataclass(frozen=True, slots=True)
class RunWindow:
    order: Order
    is_open: bool
    """More records of its last key may come."""


class RunWindows:
    """One pass over the runs."""

    def __init__(self, runs: Sequence[SortedRun], *, window_bytes: int = WINDOW_BYTES) -> None:
        self._runs = runs
        self._window_bytes = window_bytes
        self._readers = [run.batches() for run in runs]
        self._keys = RunKeys([run.name for run in runs])
        self._batches: dict[int, RunBatch] = {}
        self._run_of: dict[int, int] = {}
        self._held: frozenset[int] = frozenset()

    def windows(self) -> Iterator[RunWindow]:
        """Raises `NotSorted`. What a window names can be asked for until the next one. The last one may be empty."""
        if not self._runs:
            return
        for run in range(len(self._runs)):
            self._refill(run)
        tree = LoserTree(self._keys)
        spans = Spans(SPANS_MAX)
        waiting = 0
        wanted = 0
        while wanted != DONE:
            wanted = tree.pop(spans)
            if wanted >= 0:
                waiting += self._batches[int(self._keys.heads[wanted]["batch"])].nbytes
                if waiting < self._window_bytes and spans.count + 2 < SPANS_MAX:
                    self._refill(wanted)
                    continue
            is_open = tree.has_same_key or (wanted >= 0 and self._runs[wanted].repeats_keys)
            self._held = frozenset()
            yield RunWindow(_order(spans), is_open)
            spans.count = 0
            waiting = 0
            self._forget()
            if wanted >= 0:
                self._refill(wanted)

    def batch(self, number: int) -> RunBatch:
        return self._batches[number]

    def held(self, numbers: Sequence[int]) -> list[RunBatch | None]:
        """The batches of these numbers, None for those that are not there any more."""
        return [self._batches.get(number) for number in numbers]

    def run_of(self, number: int) -> SortedRun:
        """The run that a batch is of."""
        return self._runs[self._run_of[number]]

    def hold(self, order: Order) -> None:
        """Let the batches of these records be asked for as long as the next window, too."""
        self._held = frozenset(order.batches.tolist())

    def rows(self, order: Order, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows of these records, which are data, in this order; with these columns, or all."""
        batches, of_batch = order.numbered()
        held = self.held(batches)
        wholes = [batch.whole for batch in held if batch is not None]
        if all(whole is not None for whole in wholes):
            # In the place of a batch that is gone there is another one, of which no row is asked for.
            of_held = iter(wholes)
            by_number = [next(of_held) if batch is not None else wholes[0] for batch in held]
            return _gathered(by_number, of_batch, order.places, columns)
        places = np.empty(len(order), dtype=np.int64)
        numbers = np.empty(len(order), dtype=np.int64)
        sources: list[pa.RecordBatch] = []
        for number, at in order.by_batch():
            source, places[at] = self._batches[number].rows(order.places[at])
            numbers[at] = len(sources)
            sources.append(source)
        return _gathered(sources, numbers, places, columns)

    def _refill(self, run: int) -> None:
        for batch in self._readers[run]:
            if len(keys := batch.keys):
                break
        else:
            self._keys.end(run)
            return
        number = self._keys.refill(run, keys)
        self._batches[number] = batch
        self._run_of[number] = run

    def _forget(self) -> None:
        wanted = {int(head["batch"]) for head in self._keys.heads} | self._held
        for number in [number for number in self._batches if number not in wanted]:
            del self._batches[number]
            del self._run_of[number]


def _gathered(
    sources: Sequence[pa.RecordBatch],
    numbers: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    columns: Sequence[str] | None,
) -> pa.RecordBatch:
    """Row i is that at `places[i]` of the source `numbers[i]`."""
    if columns is not None:
        sources = [source.select(columns) for source in sources]
    if len(sources) == 1 and places[-1] - places[0] == len(places) - 1:
        return sources[0].slice(int(places[0]), len(places))
    return RowSources(sources).gather(numbers, places)


def _order(spans: Spans) -> Order:
    found = spans.rows[: spans.count]
    rows = int(found["length"].sum())
    order = Order(np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int8))
    _spread(found, order.batches, order.places, order.joins)
    return order


@kernel(types.void(I64_IN, I64, I64))
def _group(batches: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], at: npt.NDArray[np.int64]) -> None:
    """The places of records by the batches that they are of, 0, 1, …: those of batch i are `at[ends[i]:ends[i + 1]]`,
    ascending. `ends` holds zeros, one more than there are batches."""
    for row in range(len(batches)):
        ends[batches[row] + 1] += 1
    for number in range(1, len(ends)):
        ends[number] += ends[number - 1]
    for row in range(len(batches)):
        at[ends[batches[row]]] = row
        ends[batches[row]] += 1
    # Each has moved to where the next one begins.
    for number in range(len(ends) - 1, 0, -1):
        ends[number] = ends[number - 1]
    ends[0] = 0


@kernel(types.void(SPANS, I64, I64, I8))
def _spread(
    spans: npt.NDArray[np.void],
    batches: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    joins: npt.NDArray[np.int8],
) -> None:
    """The rows of the spans, one by one. Invariant: there is room for the sum of their lengths."""
    row = 0
    for span in range(len(spans)):
        batch, start, joined = spans[span]["batch"], spans[span]["start"], np.int8(spans[span]["joins"])
        for inside in range(spans[span]["length"]):
            batches[row] = batch
            places[row] = start + inside
            joins[row] = joined
            row += 1

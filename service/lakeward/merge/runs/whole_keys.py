"""The records of several sorted runs in batches that cut no key: all records of a key are in one of them.

Each run has a batch at hand. The smallest of their last keys is a bound: of each run all records up to it are taken,
and sorted together. A tree of losers (`merge/runs/loser_tree`) would hand them out one by one; where whole batches are
wanted and keys of the runs alternate, sorting a few thousand words takes a fifth of that.

    runs   a c e | g      b c d | h       up to d   a c  b c d  ->  a b c c d       up to g   e g | h ...

Touches: nothing but the runs.
Keeps:   1. each batch has whole keys, in the order of (key, run, place in the run), and each record is in one;
         2. no more is held than the batches at hand, the records of them that are sorted, and those of one key;
         3. a run whose batches do not ascend stops the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_i32, load_u8
from lakeward.base.kernel import I64, I64_IN, U8_IN, kernel, types
from lakeward.merge.rows.byte_hash import byte_buffers, stored_buffers
from lakeward.merge.runs.sort_key import order_of
from lakeward.merge.runs.sorted_run import SortedRun


def whole_keys(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    """The first column of the records is their key, in text; all batches of the runs are `whole`."""
    heads = _Heads(runs)
    while heads.last_keys:
        parts = list(heads.taken(min(heads.last_keys.values())))
        yield parts[0] if len(parts) == 1 else _sorted(parts)


def _sorted(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.concat_batches(parts)
    offsets, data = byte_buffers(rows.column(0))
    return rows.take(pa.array(order_of(data, offsets)))


class _Heads:
    """The batches at which the runs are."""

    def __init__(self, runs: Sequence[SortedRun]) -> None:
        self._runs = runs
        self._readers = [run.batches() for run in runs]
        self._batches: dict[int, pa.RecordBatch] = {}
        self.last_keys: dict[int, bytes] = {}
        """The last key of each run's batch; of a run that has ended none."""
        self._offsets, self._bytes, self._rows, self._ends = np.zeros((4, len(runs)), dtype=np.int64)
        """Addresses of what the keys of each run's batch are made of; the row that is next there, and how many it
        has."""
        for run in range(len(runs)):
            self._refill(run)

    def taken(self, bound: bytes) -> Iterator[pa.RecordBatch]:
        """The records up to this key, in the order of the runs; they are taken."""
        key = np.frombuffer(bound, dtype=np.uint8)
        ends = np.empty(len(self._runs), dtype=np.int64)
        _ends_of(self._offsets, self._bytes, self._rows, self._ends, key, ends)
        for run in np.flatnonzero(ends > self._rows).tolist():
            end = int(ends[run])
            while end > self._rows[run]:
                row = int(self._rows[run])
                yield self._batches[run].slice(row, end - row)
                self._rows[run] = end
                if end < self._ends[run]:
                    break
                self._refill(run)  # which may begin with the same key
                one = slice(run, run + 1)
                _ends_of(self._offsets[one], self._bytes[one], self._rows[one], self._ends[one], key, ends[one])
                end = int(ends[run])

    def _refill(self, run: int) -> None:
        last = self.last_keys.pop(run, b"")
        self._offsets[run] = self._bytes[run] = self._rows[run] = self._ends[run] = 0
        for batch in self._readers[run]:
            if len(batch.keys):
                break
        else:
            self._batches.pop(run, None)
            return
        rows = batch.whole
        assert rows is not None
        keys = rows.column(0)
        assert keys.type == pa.string()
        offsets, data = stored_buffers(keys)
        first, self.last_keys[run] = (data[offsets[at] : offsets[at + 1]].tobytes() for at in (0, len(keys) - 1))
        assert last <= first <= self.last_keys[run], f"{self._runs[run].name} is sorted by who wrote it"
        self._batches[run] = rows
        self._offsets[run], self._bytes[run] = offsets.ctypes.data, data.ctypes.data
        self._ends[run] = len(keys)


@kernel(types.void(I64_IN, I64_IN, I64_IN, I64_IN, U8_IN, I64))
def _ends_of(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    bound: npt.NDArray[np.uint8],
    out: npt.NDArray[np.int64],
) -> None:
    """`out` gets, for each run, the first row from `rows` to `ends` whose key is after the bound. Key i lies at `data`
    from the i-th number of 32 bits at `offsets` on, up to the next."""
    for run in range(len(out)):
        low, high = rows[run], ends[run]
        while low < high:
            middle = (low + high) // 2
            start = load_i32(offsets[run] + 4 * middle)
            length = load_i32(offsets[run] + 4 * middle + 4) - start
            at = data[run] + start
            same = 0
            while same < min(length, len(bound)) and load_u8(at + same) == bound[same]:
                same += 1
            is_after = same < length and (same == len(bound) or load_u8(at + same) > bound[same])
            if is_after:
                high = middle
            else:
                low = middle + 1
        out[run] = low

"""Keys that came and went, sorted for the record index: as many as there are, in bounded memory.

A log file of the index is a file group's, and each of its blocks is sorted by key. So what fits memory is sorted by
file group and key and spilled as one run, then the next part; a log file has a block for each run.

    add      keys with the number of their place, or GONE, in any order
    written  of one file group and run: keys with their places, ascending, each once
    gone     of one file group: keys that nothing was written for

A key is gone in one file group and arrived in another one: two targets say so, in any order, and it is written. So what
is gone is held against what was written in every run, by the first and last key of each spilled batch.

Touches: temporary files of its own.
Keeps:   1. a key that was written is not gone, whichever came first;
         2. memory is bounded, whatever the number of keys;
         3. no temporary file outlives the sorter, nor the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.metadata.key import file_group_indexes
from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling

GONE: Final = -1
"""The place of a key that is in no file group any more."""
RUN_BYTES = 32 * 1024 * 1024
"""Keys and places that are sorted at once; sorting takes some times as much."""

_BATCH_ROWS = 65_536
_SCHEMA = pa.schema([pa.field("key", pa.string()), pa.field("place", pa.int32())])


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch of a run: keys of one file group."""

    number: int
    group: int
    first: bytes
    last: bytes
    written: int
    gone: int


class KeySorter:
    """A context manager: what was spilled goes at its end."""

    def __init__(
        self,
        groups: int,
        *,
        hashed: Callable[[str], str] = str,
        run_bytes: int = RUN_BYTES,
        folder: str | None = None,
    ) -> None:
        """
        Args:
            groups: the file groups that keys are spread over.
            hashed: the part of a key that says which of them it is.
            folder: for spilled runs; None is the system's for temporary files.
        """
        self._groups = groups
        self._hashed = hashed
        self._run_bytes = run_bytes
        self._folder = folder
        self._keys: list[pa.Array] = []
        self._places: list[npt.NDArray[np.int32]] = []
        self._of_groups: list[npt.NDArray[np.int32]] = []
        self._bytes = 0
        self._runs: list[_Run] = []

    def add(self, keys: pa.StringArray, places: npt.NDArray[np.int32]) -> None:
        """Raises `SpillFailed`."""
        assert keys.null_count == 0
        for start in range(0, len(keys), _BATCH_ROWS):
            part = keys.slice(start, _BATCH_ROWS)
            self._keys.append(part)
            self._places.append(places[start : start + _BATCH_ROWS])
            self._of_groups.append(file_group_indexes([self._hashed(key) for key in part.to_pylist()], self._groups))
            self._bytes += part.nbytes + 8 * len(part)
            if self._bytes >= self._run_bytes:
                self._sort()

    def groups(self) -> list[int]:
        """The file groups that have something. Nothing is added after this."""
        self._sort()
        return sorted({group for run in self._runs for group in run.batches})

    def count_written(self, group: int) -> int:
        """How many keys were written; one that came in several runs counts in each."""
        return sum(batch.written for run in self._runs for batch in run.batches.get(group, ()))

    def written(self, group: int) -> Iterator[Iterator[tuple[str, int]]]:
        """Keys with their places, for each run that has some."""
        for run in self._runs:
            batches = [batch for batch in run.batches.get(group, ()) if batch.written]
            if batches:
                yield _entries(run, batches)

    def gone(self, group: int) -> Iterator[pa.StringArray]:
        for run in self._runs:
            for batch in run.batches.get(group, ()):
                if not batch.gone:
                    continue
                keys = run.keys(batch, written=False)
                for other, overlapping in self._overlapping(batch):
                    keys = keys.filter(pc.invert(pc.is_in(keys, other.keys(overlapping, written=True))))
                if len(keys):
                    yield keys

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in self._runs:
            run.close()

    def _overlapping(self, batch: _Batch) -> Iterator[tuple[_Run, _Batch]]:
        """What was written between its first and its last key."""
        for run in self._runs:
            for other in run.batches.get(batch.group, ()):
                if other.written and other.first <= batch.last and batch.first <= other.last:
                    yield run, other

    def _sort(self) -> None:
        if not self._keys:
            return
        keys = pa.chunked_array(self._keys).combine_chunks()
        places, groups = np.concatenate(self._places), np.concatenate(self._of_groups)
        # Sorted three times, each keeping the order of the last where it finds no difference: of a key what is written
        # comes after what is gone, and the later one after the earlier.
        order = np.argsort(places != GONE, kind="stable")
        order = order[pc.sort_indices(keys.take(pa.array(order))).to_numpy()]
        order = order[np.argsort(groups[order], kind="stable")]
        keys, places, groups = keys.take(pa.array(order)), places[order], groups[order]
        is_last = np.ones(len(keys), dtype=np.bool_)
        if len(keys) > 1:
            is_last[:-1] = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        keys, places, groups = keys.filter(pa.array(is_last)), places[is_last], groups[is_last]
        self._keys, self._places, self._of_groups, self._bytes = [], [], [], 0
        self._runs.append(_Run(keys, places, groups, self._folder))


class _Run:
    """A sorted part, in a file."""

    def __init__(
        self, keys: pa.Array, places: npt.NDArray[np.int32], groups: npt.NDArray[np.int32], folder: str | None
    ) -> None:
        self.batches: dict[int, list[_Batch]] = {}
        """The batches of each file group."""
        count = 0
        bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(keys)]
        with spilling("keys of the record index", folder):
            handle, path = tempfile.mkstemp(".arrow", SPILL_PREFIX, folder)
            try:
                os.close(handle)
                with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
                    for begin, end in pairwise(bounds):
                        for start in range(begin, end, _BATCH_ROWS):
                            stop = min(end, start + _BATCH_ROWS)
                            part, of = keys.slice(start, stop - start), places[start:stop]
                            writer.write_batch(pa.RecordBatch.from_arrays([part, pa.array(of)], schema=_SCHEMA))
                            gone = int(np.count_nonzero(of == GONE))
                            ends = part[0].as_py().encode(), part[-1].as_py().encode()
                            batch = _Batch(count, int(groups[start]), *ends, written=len(of) - gone, gone=gone)
                            self.batches.setdefault(batch.group, []).append(batch)
                            count += 1
                self._file = pa.OSFile(path, "rb")
            finally:
                os.unlink(path)
            self._reader = pa.ipc.open_file(self._file)

    def read(self, batch: _Batch) -> pa.RecordBatch:
        return self._reader.get_batch(batch.number)

    def keys(self, batch: _Batch, *, written: bool) -> pa.StringArray:
        found = self.read(batch)
        is_gone = pc.equal(found.column("place"), GONE)
        return found.column("key").filter(pc.invert(is_gone) if written else is_gone)

    def close(self) -> None:
        self._file.close()


def _entries(run: _Run, batches: list[_Batch]) -> Iterator[tuple[str, int]]:
    for batch in batches:
        found = run.read(batch)
        for key, place in zip(found.column("key").to_pylist(), found.column("place").to_pylist(), strict=True):
            if place != GONE:
                yield key, place

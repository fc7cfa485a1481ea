"""The keys that sorted runs stand at: compared by eight bytes, and by all of them only on a tie.

For each run the keys of one batch are here, copied one after the other, and the position of the *head*, the next row to
come out. Each head has a *prefix*: the eight bytes behind those that all keys have in common (`skip`), as one
unsigned number, big-endian, padded with zeros. Keys of other shapes than one text do not exist: Hudi writes a composite
record key as one.

                     skip        prefix
    customer:00017.. |----------|~~~~~~~~|............      equal prefixes are compared on, byte by byte

    data     | last key of the batch before | key 0 | key 1 | ... |        a region for each run
    offsets  first[run] - 1 --^              ^-- first[run]

Touches: nothing.
Keeps:   1. the order is that of unsigned UTF-8 bytes, and a key comes before a longer one that begins with it: that of
            `HoodieKey` in RFC-103's sorted files, and not Java's order of UTF-16 units;
         2. each run is checked while it is read: a key smaller than the one before it is `NotSorted`, in one batch or
            across two;
         3. `repeats` is set exactly where a row has the key of the row before it in its run;
         4. no more than one batch of each run is held, beside what regions have to spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.byte_order import ascend, compare_bytes, prefix_of
from lakeward.base.errors import BrokenFile
from lakeward.base.kernel import I64, I64_IN, U8, U8_IN, U64, kernel, records, types
from lakeward.base.named_key import named_key
from lakeward.merge.rows.byte_hash import byte_buffers, stored_buffers

_T = TypeVar("_T", bound=np.generic)


class NotSorted(BrokenFile):
    """Records that are said to be in the order of their keys are not."""


HEAD = np.dtype([("row", np.int64), ("end", np.int64), ("begin", np.int64), ("batch", np.int64), ("prefix", np.uint64)])
"""The place at which a run is: rows are places in `offsets`, from `begin`, the first of its batch, to before `end`.

A run that has ended has `row` and `end` 0. `batch` is the batch's number: they are counted as they come, over all runs.
"""
HEADS = records(HEAD)


@kernel(types.int64(U8_IN, types.int64, types.int64, types.int64, types.int64))
def _common_bytes(data: npt.NDArray[np.uint8], start: int, end: int, other_start: int, other_end: int) -> int:
    """How many bytes two keys begin with in common."""
    most = min(end - start, other_end - other_start)
    for i in range(most):
        if data[start + i] != data[other_start + i]:
            return i
    return most


@kernel(types.int64(U8_IN, I64_IN, types.int64, types.int64, types.int64, U8))
def _check(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    first: int,
    rows: int,
    has_last: int,
    repeats: npt.NDArray[np.uint8],
) -> int:
    """The first row with a smaller key than the row before it, or -1. Marks the repeats on the way.

    Row i is `data[offsets[first + i]:offsets[first + i + 1]]`; the row before row 0 counts where `has_last` is 1.
    """
    repeats[first] = 0
    for i in range(first + 1 - has_last, first + rows):
        start, middle, end = offsets[i - 1], offsets[i], offsets[i + 1]
        # Neighbours mostly agree in their first words: eight bytes at a time as long as they do.
        common = min(middle - start, end - middle)
        at = 0
        while at + 8 <= common and prefix_of(data, start + at, middle) == prefix_of(data, middle + at, end):
            at += 8
        order = compare_bytes(data, start + at, middle, middle + at, end)
        if order > 0:
            return i - first
        repeats[i] = np.uint8(order == 0)
    return -1


@kernel(types.void(U8_IN, I64_IN, HEADS, types.int64))
def _load_prefixes(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], heads: npt.NDArray[np.void], skip: int
) -> None:
    """The prefix of every run's head."""
    for run in range(len(heads)):
        if heads[run]["row"] < heads[run]["end"]:
            row = heads[run]["row"]
            heads[run]["prefix"] = prefix_of(data, offsets[row] + skip, offsets[row + 1])


@kernel(types.void(U8_IN, I64_IN, I64_IN, types.int64, U64, I64))
def _words(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    skip: int,
    words: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.int64],
) -> None:
    """The eight bytes behind the first `skip` of the keys at these places, and how many of them the keys have."""
    for i in range(len(places)):
        start, end = offsets[places[i]], offsets[places[i] + 1]
        words[i] = prefix_of(data, min(start + skip, end), end)
        lengths[i] = min(max(end - start - skip, 0), 8)


@kernel(types.int64(U8_IN, I64_IN))
def _common_of_all(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> int:
    """How many bytes all keys begin with in common."""
    common = offsets[1] - offsets[0]
    for i in range(1, len(offsets) - 1):
        common = _common_bytes(data, offsets[0], offsets[0] + common, offsets[i], offsets[i + 1])
    return int(common)


class OrderWatch:
    """Whether keys that come batch by batch ascend; equal ones may be neighbours."""

    def __init__(self) -> None:
        self.holds = True
        self._last = b""

    def add(self, keys: pa.Array) -> None:
        """None of them is null."""
        if not len(keys) or not self.holds:
            return
        offsets, data = byte_buffers(keys)
        first, last = (keys[at].as_py().encode() for at in (0, -1))
        self.holds = first >= self._last and bool(ascend(data, offsets))
        self._last = last


def order_of(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places of keys in the order of their bytes. Key i is `data[offsets[i]:offsets[i + 1]]`; equal ones stay.

    All are sorted by one word, those that it leaves equal by the next, and so on.
    """
    order = np.arange(len(offsets) - 1)
    if len(order) == 0:
        return order
    skip = int(_common_of_all(data, offsets))
    words = np.empty(len(order), dtype=np.uint64)
    lengths = np.empty(len(order), dtype=np.int64)
    _words(data, offsets, order, skip, words, lengths)
    # Quick, and in no order where words are equal: those are put in order below, by their places at last.
    order = np.argsort(words)
    words, lengths = words[order], lengths[order]
    places, groups = _among_equals(words[1:] == words[:-1])
    lengths = lengths[places]
    while len(places):
        # `places` are positions in `order` whose keys are equal so far to those of their group, zeros behind a key's
        # end included; `lengths` says how many bytes of the last word they have.
        skip += 8
        words, further = np.empty(len(places), dtype=np.uint64), np.empty(len(places), dtype=np.int64)
        _words(data, offsets, order[places], skip, words, further)
        within = np.lexsort((order[places], words, lengths, groups))
        order[places] = order[places][within]
        words, lengths, further = words[within], lengths[within], further[within]
        are_equal = (groups[1:] == groups[:-1]) & (words[1:] == words[:-1]) & (lengths[1:] == 8) & (lengths[:-1] == 8)
        chosen, groups = _among_equals(are_equal)
        places, lengths = places[chosen], further[chosen]
    return order


def _among_equals(are_equal: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(places that have an equal neighbour, the number of the group of each), by whether each place after the first is
    equal to the one before it."""
    joins = np.concatenate([[False], are_equal])
    places = np.flatnonzero(joins | np.concatenate([are_equal, [False]]))
    return places, np.cumsum(~joins)[places]


class RunKeys:
    """The batches at which sorted runs are. Kernels read its arrays and move the heads; it fills them."""

    def __init__(self, names: Sequence[str]) -> None:
        """
        Args:
            names: how errors call the runs: "the base file ...".
        """
        runs = len(names)
        self._names = names
        self.heads = np.zeros(runs, dtype=HEAD)
        self.heads["batch"] = -1
        self.data: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self.offsets: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.repeats: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self.skip = 0
        self._batches = 0
        self._data_regions = _Regions(runs)
        self._row_regions = _Regions(runs)
        self._reference: bytes | None = None

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.offsets.nbytes + self.repeats.nbytes + self.heads.nbytes

    def refill(self, run: int, keys: pa.Array) -> int:
        """Put the run's next batch in the place of the one that is through; the batch's number.

        Raises `NotSorted`. The batch holds rows, and no null among their keys.
        """
        head = self.heads[run]
        assert len(keys) and keys.null_count == 0 and head["row"] == head["end"]
        offsets, data = stored_buffers(keys)
        last = self._last_key(run)
        size = int(offsets[-1] - offsets[0])
        start = self._data_regions.place(run, len(last) + size)
        self.data = _with_room(self.data, self._data_regions.end)
        first = self._row_regions.place(run, len(keys) + 2) + 1
        self.offsets = _with_room(self.offsets, self._row_regions.end)
        self.repeats = _with_room(self.repeats, self._row_regions.end)
        self.data[start : start + len(last)] = last
        self.data[start + len(last) : start + len(last) + size] = data[int(offsets[0]) : int(offsets[-1])]
        self.offsets[first - 1] = start
        moved_by = np.int64(start + len(last) - int(offsets[0]))
        np.add(offsets, moved_by, out=self.offsets[first : first + len(keys) + 1])
        wrong = int(_check(self.data, self.offsets, first, len(keys), int(head["batch"] >= 0), self.repeats))
        if wrong >= 0:
            raise NotSorted(
                f"{self._names[run][:1].upper()}{self._names[run][1:]} is not sorted by its keys.",
                why=f"It says that it is, but {named_key(keys[wrong].as_py())} comes after a greater key.",
                remedy="Compact the file group, which writes the file again.",
            )
        head["row"] = head["begin"] = first
        head["end"] = first + len(keys)
        head["batch"] = self._batches
        self._batches += 1
        self._shorten_skip(first, first + len(keys) - 1)
        _load_prefixes(self.data, self.offsets, self.heads, self.skip)
        return self._batches - 1

    def end(self, run: int) -> None:
        """The run has no more batches."""
        head = self.heads[run]
        assert head["row"] == head["end"]
        head["row"] = head["end"] = 0

    def _last_key(self, run: int) -> npt.NDArray[np.uint8]:
        end = int(self.heads[run]["end"])
        return self.data[int(self.offsets[end - 1]) : int(self.offsets[end])].copy() if end else self.data[:0]

    def _shorten_skip(self, *rows: int) -> None:
        """Keep what all keys begin with: since a batch is sorted, its first and last row say it of all."""
        for row in rows:
            key = self.data[int(self.offsets[row]) : int(self.offsets[row + 1])].tobytes()
            if self._reference is None:
                self._reference, self.skip = key, len(key)
            both = np.frombuffer(self._reference[: self.skip] + key, dtype=np.uint8)
            self.skip = int(_common_bytes(both, 0, self.skip, self.skip, len(both)))


class _Regions:
    """Places for one changing thing a run in one array: a thing that outgrows its place gets one at the end."""

    def __init__(self, runs: int) -> None:
        self._starts = [0] * runs
        self._rooms = [0] * runs
        self.end = 0

    def place(self, run: int, size: int) -> int:
        """The start of the place for the run's thing of this size."""
        if size > self._rooms[run]:
            self._starts[run], self._rooms[run] = self.end, size + size // 2
            self.end += self._rooms[run]
        return self._starts[run]


def _with_room(array: npt.NDArray[_T], room: int) -> npt.NDArray[_T]:
    if room <= len(array):
        return array
    larger = np.empty(max(room, 2 * len(array)), dtype=array.dtype)
    larger[: len(array)] = array
    return larger

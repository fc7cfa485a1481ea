"""Sorted keys that are searched: those of a data block, or the first keys of a file's blocks.

All keys of a block begin with the same `skip` bytes, since its first and its last one do; the eight bytes behind those
are at hand as one number (`base/byte_order.prefix_of`), and a search compares these, and bytes only on a tie. One
call searches many blocks for many keys, by the addresses of their buffers.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_i32, load_u8, load_u64, prefetch
from lakeward.base.byte_order import prefix_of
from lakeward.base.kernel import BOOL, I32_IN, I64, I64_IN, U8_IN, U64, kernel, types
from lakeward.merge.rows.byte_hash import byte_buffers

Numbers = npt.NDArray[np.int64]

_NO_BYTES = np.zeros(1, dtype=np.uint8)
_LAST_PREFIX = np.uint64(0xFFFFFFFFFFFFFFFF)
_STRETCH = 64


@dataclass(frozen=True, slots=True)
class Probes:
    """Keys that are looked for, in no order: key i is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: Numbers
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, keys: pa.Array) -> Probes:
        offsets, data = byte_buffers(keys)
        return cls(offsets, data if len(data) else _NO_BYTES)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def near_order(self) -> Numbers:
        """The numbers of the keys so that those that lie near each other in a file follow each other, by which they are
        found in half of the time: sorted by eight bytes behind what all of them begin with."""
        prefixes = np.empty(len(self), dtype=np.uint64)
        if len(self):
            _load_probe_prefixes(self.offsets, self.data, prefixes)
        return np.argsort(prefixes)


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """Keys in the order of their bytes."""

    keys: pa.Array
    """Binary, from place 0 of its buffers on."""
    prefixes: npt.NDArray[np.uint64]
    header: tuple[int, ...]
    """What the search takes: number of keys, skip, addresses of prefixes, offsets and bytes."""
    nbytes: int

    @classmethod
    def of(cls, keys: pa.Array) -> KeyBlock:
        assert keys.offset == 0 and len(keys)
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, dtype=np.int32)[: len(keys) + 1]
        stored = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else _NO_BYTES
        prefixes = np.empty(len(keys), dtype=np.uint64)
        skip = int(_load_prefixes(starts, stored, prefixes))
        header = (len(keys), skip, prefixes.ctypes.data, starts.ctypes.data, stored.ctypes.data)
        return cls(keys, prefixes, header, starts.nbytes + stored.nbytes + prefixes.nbytes)


def search(
    blocks: Sequence[KeyBlock], probes: Probes, rows: Numbers, numbers: Numbers
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """(the place of the first key that is not before the probe, whether it is the probe's) for each pair.

    Args:
        rows: the number of the probe.
        numbers: the number of the block that it is searched in.
    """
    headers = np.array([block.header for block in blocks], dtype=np.int64).reshape(-1)
    places = np.empty(len(rows), dtype=np.int64)
    is_there = np.empty(len(rows), dtype=np.bool_)
    prefixes = np.empty(_STRETCH, dtype=np.uint64)
    _search(headers, probes.offsets, probes.data, rows, numbers, prefixes, places, is_there)
    return places, is_there


@kernel(types.int64(types.int64, types.int64, types.int64, types.int64))
def _compare(address: Any, length: Any, other: Any, other_length: Any) -> Any:
    """Negative, 0 or positive as the bytes at one address come before, are or come after those at the other."""
    common = min(length, other_length)
    at = np.int64(0)
    while at + 8 <= common and load_u64(address + at) == load_u64(other + at):
        at += 8
    while at < common:
        difference = load_u8(address + at) - load_u8(other + at)
        if difference != 0:
            return difference
        at += 1
    return length - other_length


@kernel(types.void(I64_IN, U8_IN, U64))
def _load_probe_prefixes(offsets: Any, data: Any, prefixes: Any) -> None:
    """Eight bytes of each probe behind what all of them begin with."""
    base, first = np.int64(data.ctypes.data), offsets[0]
    skip = offsets[1] - first
    for probe in range(1, len(prefixes)):
        start = offsets[probe]
        skip = min(skip, offsets[probe + 1] - start)
        if _compare(base + start, skip, base + first, skip) != 0:
            same = np.int64(0)
            while data[start + same] == data[first + same]:
                same += 1
            skip = same
    for probe in range(len(prefixes)):
        prefixes[probe] = prefix_of(data, offsets[probe] + skip, offsets[probe + 1])


@kernel(types.int64(I32_IN, U8_IN, U64))
def _load_prefixes(offsets: Any, data: Any, prefixes: Any) -> Any:
    """The prefix of each key; returns how many bytes all keys begin with in common."""
    count = len(prefixes)
    first, last = np.int64(offsets[0]), np.int64(offsets[count - 1])
    most = min(np.int64(offsets[1]) - first, np.int64(offsets[count]) - last)
    skip = np.int64(0)
    while skip < most and data[first + skip] == data[last + skip]:
        skip += 1
    for key in range(count):
        prefixes[key] = prefix_of(data, offsets[key] + skip, offsets[key + 1])
    return skip


@kernel(types.int64(types.int64, types.int64, types.int64, types.uint64))
def _first_not_below(prefixes: Any, low: Any, high: Any, prefix: Any) -> Any:
    """The place, from `low` to `high`, of the first of these prefixes that is not smaller."""
    while low < high:
        middle = (low + high) >> 1
        if load_u64(prefixes + 8 * middle) < prefix:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(types.int64(types.int64, types.int64, types.int64, types.uint64))
def _first_not_below_from(prefixes: Any, low: Any, count: Any, prefix: Any) -> Any:
    """Find the same as `_first_not_below`, from a place near which it is likely to be, by steps that double."""
    step = np.int64(4)
    while low + step < count and load_u64(prefixes + 8 * (low + step)) < prefix:
        low += step
        step += step
    return _first_not_below(prefixes, low, min(low + step, count), prefix)


@kernel(types.int64(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64))
def _first_key_not_below(starts: Any, keys: Any, low: Any, high: Any, address: Any, length: Any) -> Any:
    """The place, from `low` to `high`, of the first key that is not before the one of these bytes, by whole keys."""
    while low < high:
        middle = (low + high) >> 1
        at = load_i32(starts + 4 * middle)
        if _compare(keys + at, load_i32(starts + 4 * middle + 4) - at, address, length) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(types.void(I64_IN, I64_IN, U8_IN, I64_IN, I64_IN, types.int64, types.int64, U64, I64))
def _search_prefixes(
    headers: Any, offsets: Any, data: Any, rows: Any, numbers: Any, first: Any, end: Any, prefixes: Any, places: Any
) -> None:
    """Find the prefix of the items from `first` to before `end`, and the place of the first key that has none before
    it; or -1 and that place where what the block's keys begin with decides."""
    base = np.int64(data.ctypes.data)
    previous, place = np.int64(-1), np.int64(0)
    for item in range(first, end):
        start, stop = offsets[rows[item]], offsets[rows[item] + 1]
        header = numbers[item] * 5
        count, skip, stored = headers[header], headers[header + 1], headers[header + 2]
        if skip > 0:
            # That is in its first key.
            at = headers[header + 4] + load_i32(headers[header + 3])
            order = _compare(base + start, min(stop - start, skip), at, skip)
            if order != 0:
                places[item] = -1 if order < 0 else -1 - count
                continue
        prefix = prefix_of(data, start + skip, stop)
        if numbers[item] != previous or (place > 0 and load_u64(stored + 8 * (place - 1)) >= prefix):
            previous = numbers[item]
            place = _first_not_below(stored, np.int64(0), count, prefix)
        else:
            place = _first_not_below_from(stored, place, count, prefix)
        prefixes[item - first] = prefix
        places[item] = place
        if place < count:
            at = headers[header + 4] + load_i32(headers[header + 3] + 4 * place)
            prefetch(at)
            prefetch(at + stop - start - 1)


@kernel(types.void(I64_IN, I64_IN, U8_IN, I64_IN, I64_IN, U64, I64, BOOL))
def _search(
    headers: Any, offsets: Any, data: Any, rows: Any, numbers: Any, prefixes: Any, places: Any, is_there: Any
) -> None:
    """`headers` has five numbers for each block. A stretch at a time, so that bytes of keys are under way when they are
    compared."""
    base = np.int64(data.ctypes.data)
    stretch = np.int64(len(prefixes))
    for first in range(0, len(rows), stretch):
        stop = min(first + stretch, np.int64(len(rows)))
        _search_prefixes(headers, offsets, data, rows, numbers, first, stop, prefixes, places)
        for item in range(first, stop):
            is_there[item] = False
            place = places[item]
            if place < 0:
                places[item] = -1 - place
                continue
            header = numbers[item] * 5
            count, stored = headers[header], headers[header + 2]
            starts, keys = headers[header + 3], headers[header + 4]
            prefix = prefixes[item - first]
            if place == count or load_u64(stored + 8 * place) != prefix:
                continue
            start = offsets[rows[item]]
            length = offsets[rows[item] + 1] - start
            at = load_i32(starts + 4 * place)
            order = _compare(keys + at, load_i32(starts + 4 * place + 4) - at, base + start, length)
            if order < 0:
                end = count
                if prefix != _LAST_PREFIX:
                    end = _first_not_below_from(stored, place, count, prefix + np.uint64(1))
                place = _first_key_not_below(starts, keys, place + 1, end, base + start, length)
                places[item] = place
                if place < end:
                    at = load_i32(starts + 4 * place)
                    order = _compare(keys + at, load_i32(starts + 4 * place + 4) - at, base + start, length)
            is_there[item] = order == 0

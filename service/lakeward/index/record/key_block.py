"""Sorted keys that are searched: those of a data block, or the first keys of a file's blocks.

All keys of a block begin with the same `skip` bytes, since its first and its last one do; the eight bytes behind those
are at hand as one number (`merge/runs/sort_key.prefix_of`), and a search compares these, and bytes only on a tie. One
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

from lakeward.addresses import load_i32, load_u8, load_u64
from lakeward.kernel import BOOL, I32_IN, I64, I64_IN, U8_IN, U64, kernel, types
from lakeward.merge.rows.byte_hash import byte_buffers
from lakeward.merge.runs.sort_key import prefix_of

Numbers = npt.NDArray[np.int64]

_NO_BYTES = np.zeros(1, dtype=np.uint8)


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


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """Keys in the order of their bytes."""

    keys: pa.Array
    """Binary, from place 0 of its buffers on."""
    prefixes: npt.NDArray[np.uint64]
    header: tuple[int, ...]
    """What the search takes: number of keys, skip, addresses of prefixes, offsets and bytes."""

    @classmethod
    def of(cls, keys: pa.Array) -> KeyBlock:
        assert keys.offset == 0 and len(keys)
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, dtype=np.int32)[: len(keys) + 1]
        stored = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else _NO_BYTES
        prefixes = np.empty(len(keys), dtype=np.uint64)
        skip = int(_load_prefixes(starts, stored, prefixes))
        header = (len(keys), skip, prefixes.ctypes.data, starts.ctypes.data, stored.ctypes.data)
        return cls(keys, prefixes, header)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + self.prefixes.nbytes


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
    _search(headers, probes.offsets, probes.data, rows, numbers, places, is_there)
    return places, is_there


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


@kernel(types.void(I64_IN, I64_IN, U8_IN, I64_IN, I64_IN, I64, BOOL))
def _search(headers: Any, offsets: Any, data: Any, rows: Any, numbers: Any, places: Any, is_there: Any) -> None:
    """`headers` has five numbers for each block."""
    base = np.int64(data.ctypes.data)
    for item in range(len(rows)):
        start, end = offsets[rows[item]], offsets[rows[item] + 1]
        header = numbers[item] * 5
        count, skip, prefixes = headers[header], headers[header + 1], headers[header + 2]
        starts, keys = headers[header + 3], headers[header + 4]
        is_there[item] = False
        if skip > 0:
            # What all keys of the block begin with, which is in its first one, decides unless the probe has it, too.
            order = _compare(base + start, min(end - start, skip), keys + load_i32(starts), skip)
            if order != 0:
                places[item] = 0 if order < 0 else count
                continue
        prefix = prefix_of(data, start + skip, end)
        low, high = np.int64(0), count
        while low < high:
            middle = (low + high) >> 1
            found = load_u64(prefixes + 8 * middle)
            smaller = found < prefix
            if found == prefix:
                at = load_i32(starts + 4 * middle)
                order = _compare(keys + at, load_i32(starts + 4 * middle + 4) - at, base + start, end - start)
                smaller = order < 0
                if order == 0:
                    is_there[item] = True
            if smaller:
                low = middle + 1
            else:
                high = middle
        places[item] = low

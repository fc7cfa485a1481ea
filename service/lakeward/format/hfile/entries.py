"""The payload of a data block: entries of a key and a value, in the order of keys.

    int32 key part's length, int32 value's length, key part, value, version (1 byte, 0)
    key part: int16 key's length, key, 1 byte family's length (0), 8 bytes timestamp (0x7FFFFFFFFFFFFFFF), type (4, Put)

An entry is therefore 21 bytes longer than its key and its value. Family, timestamp and type say nothing to Hudi.

Touches: nothing.
Keeps:   entries fill the payload exactly, or it is broken; what is written is read back as the same keys and values.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import copy_bytes, load_big_u32, load_u8, load_u64
from lakeward.base.kernel import I32, I32_IN, I64, TWO_I64, U8, U8_IN, kernel, types
from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.index import KEY_SUFFIX
from lakeward.format.hfile.range import HFileRange
from lakeward.format.murmur import key_buffers

ENTRY_OVERHEAD = 21

_KEY_OVERHEAD = 12
_PUT = 4
_HEAD = struct.Struct(">iiH")
_VERSION = b"\0"

_OK, _BROKEN, _NOT_PUT = range(3)


@dataclass(frozen=True, slots=True)
class HFileEntries:
    """Entries that follow each other in a file."""

    keys: pa.BinaryArray
    values: pa.BinaryArray


def encode_entry(key: bytes, value: bytes) -> bytes:
    head = _HEAD.pack(len(key) + _KEY_OVERHEAD, len(value), len(key))
    return b"".join((head, key, KEY_SUFFIX, value, _VERSION))


class EntryColumns:
    """Entries as two columns, to be encoded a stretch at a time."""

    def __init__(self, keys: pa.Array, values: pa.Array) -> None:
        """Both are binary (or text) of the same length, and neither has a null."""
        assert len(keys) == len(values) and keys.null_count == values.null_count == 0
        self._keys, self._key_bytes = key_buffers(keys)
        self._values, self._value_bytes = key_buffers(values)

    def __len__(self) -> int:
        return len(self._keys) - 1

    @property
    def key_bytes(self) -> int:
        return int(self._keys[-1] - self._keys[0])

    @property
    def value_bytes(self) -> int:
        return int(self._values[-1] - self._values[0])

    @property
    def longest_key(self) -> bytes:
        return self.key(int(np.diff(self._keys).argmax()))

    @property
    def value_bytes_max(self) -> int:
        return int(np.diff(self._values).max())

    def key(self, entry: int) -> bytes:
        return self._key_bytes[self._keys[entry] : self._keys[entry + 1]].tobytes()

    def first_not_ascending(self) -> int:
        """The first entry whose key does not come after the one before it; -1 where all do."""
        return int(_first_not_ascending(self._keys, self._key_bytes))

    def fitting(self, first: int, room: int, *, least: int) -> tuple[int, int]:
        """(the first entry that no longer fits into `room` bytes, what those from `first` to before it take).

        Args:
            least: so many are taken in any case.
        """
        end, size = _fitting(self._keys, self._values, first, room, least)
        return int(end), int(size)

    def encode(self, first: int, end: int, size: int) -> npt.NDArray[np.uint8]:
        """The entries from `first` to before `end`, `size` bytes, each as `encode_entry` has it."""
        out = np.empty(size, dtype=np.uint8)
        _encode_entries(self._keys, self._key_bytes, self._values, self._value_bytes, first, end, _SUFFIX, out)
        return out


_SUFFIX = np.frombuffer(KEY_SUFFIX, dtype=np.uint8)


def decode_entries(source: HFileRange, block: HFileBlock) -> HFileEntries:
    data = np.frombuffer(block.payload, dtype=np.uint8)
    result = np.zeros(4, dtype=np.int64)
    _measure_entries(data, result)
    count, fault, key_bytes, value_bytes = map(int, result)
    if fault == _NOT_PUT:
        raise source.unsupported(block.offset, f"entry {count} of the data block is no plain value")
    if fault != _OK:
        raise source.broken(block.offset, f"entry {count} of the data block is cut short or contradicts itself")
    key_offsets, value_offsets = (np.empty(count + 1, dtype=np.int32) for _ in range(2))
    keys, values = (np.empty(size, dtype=np.uint8) for size in (key_bytes, value_bytes))
    _split_entries(data, key_offsets, keys, value_offsets, values)
    return HFileEntries(binary_column(key_offsets, keys), binary_column(value_offsets, values))


def binary_column(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Values that lie one behind the other; `offsets` has one more than there are."""
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@kernel(types.void(U8_IN, I64))
def _measure_entries(data: Any, result: Any) -> None:
    """`result`: entries (of a broken block those before the fault), the fault, bytes of keys, bytes of values."""
    base = np.int64(data.ctypes.data)
    left = np.int64(len(data))
    at = base
    count, keys, values = np.int64(0), np.int64(0), np.int64(0)
    fault = np.int64(_OK)
    while left > 0:
        fault = np.int64(_BROKEN)
        if left < ENTRY_OVERHEAD:
            break
        key_part, value_length = load_big_u32(at), load_big_u32(at + 4)
        key_length = load_big_u32(at + 8) >> 16
        if key_part + value_length + 9 > left or key_length + _KEY_OVERHEAD > key_part:
            break
        if load_u8(at + 7 + key_part) != _PUT:
            fault = np.int64(_NOT_PUT)
            break
        if load_u8(at + 8 + key_part + value_length) != 0:
            break
        fault = np.int64(_OK)
        at += key_part + value_length + 9
        left -= key_part + value_length + 9
        count += 1
        keys += key_length
        values += value_length
    result[0], result[1], result[2], result[3] = count, fault, keys, values


@kernel(types.void(U8_IN, I32, U8, I32, U8))
def _split_entries(data: Any, key_offsets: Any, keys: Any, value_offsets: Any, values: Any) -> None:
    """The outputs are as long as `_measure_entries` says, which found nothing wrong."""
    at = np.int64(data.ctypes.data)
    to_keys, to_values = np.int64(keys.ctypes.data), np.int64(values.ctypes.data)
    key_end, value_end = np.int64(0), np.int64(0)
    key_offsets[0] = 0
    value_offsets[0] = 0
    for entry in range(len(key_offsets) - 1):
        key_part, value_length = load_big_u32(at), load_big_u32(at + 4)
        key_length = load_big_u32(at + 8) >> 16
        copy_bytes(to_keys + key_end, at + 10, key_length)
        at += 8 + key_part
        if value_length == 1:  # as most entries of `index/record` have
            values[value_end] = np.uint8(load_u8(at))
        else:
            copy_bytes(to_values + value_end, at, value_length)
        key_end += key_length
        value_end += value_length
        at += value_length + 1
        key_offsets[entry + 1] = np.int32(key_end)
        value_offsets[entry + 1] = np.int32(value_end)


@kernel(types.int64(I32_IN, U8_IN))
def _first_not_ascending(offsets: Any, data: Any) -> Any:
    base = data.ctypes.data
    for entry in range(1, len(offsets) - 1):
        start, middle, end = np.int64(offsets[entry - 1]), np.int64(offsets[entry]), np.int64(offsets[entry + 1])
        common = min(middle - start, end - middle)
        at = np.int64(0)
        while at + 8 <= common and load_u64(base + start + at) == load_u64(base + middle + at):
            at += 8
        while at < common and data[start + at] == data[middle + at]:
            at += 1
        ascends = end - middle > common if at == common else data[start + at] < data[middle + at]
        if not ascends:
            return entry
    return -1


@kernel(TWO_I64(I32_IN, I32_IN, types.int64, types.int64, types.int64))
def _fitting(key_offsets: Any, value_offsets: Any, first: Any, room: Any, least: Any) -> Any:
    size = np.int64(0)
    for entry in range(first, len(key_offsets) - 1):
        more = (
            np.int64(key_offsets[entry + 1] - key_offsets[entry])
            + np.int64(value_offsets[entry + 1] - value_offsets[entry])
            + ENTRY_OVERHEAD
        )
        if size + more > room and entry >= first + least:
            return entry, size
        size += more
    return len(key_offsets) - 1, size


@kernel(types.void(types.int64, U8, types.int64))
def _put_int32(value: Any, out: Any, at: Any) -> None:
    for index in range(4):
        out[at + index] = np.uint8((value >> (24 - 8 * index)) & 0xFF)


@kernel(types.void(I32_IN, U8_IN, I32_IN, U8_IN, types.int64, types.int64, U8_IN, U8))
def _encode_entries(
    key_offsets: Any, keys: Any, value_offsets: Any, values: Any, first: Any, end: Any, suffix: Any, out: Any
) -> None:
    """`out` has room for all of them."""
    at = np.int64(0)
    for entry in range(first, end):
        key, value = np.int64(key_offsets[entry]), np.int64(value_offsets[entry])
        key_length, value_length = key_offsets[entry + 1] - key, value_offsets[entry + 1] - value
        _put_int32(key_length + _KEY_OVERHEAD, out, at)
        _put_int32(value_length, out, at + 4)
        out[at + 8] = np.uint8(key_length >> 8)
        out[at + 9] = np.uint8(key_length & 0xFF)
        at += 10
        copy_bytes(out.ctypes.data + at, keys.ctypes.data + key, key_length)
        at += key_length
        for index in range(len(suffix)):
            out[at + index] = suffix[index]
        at += len(suffix)
        for index in range(value_length):
            out[at + index] = values[value + index]
        at += value_length
        out[at] = 0
        at += 1

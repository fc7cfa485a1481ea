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

from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.index import KEY_SUFFIX
from lakeward.format.hfile.range import HFileRange
from lakeward.kernel import I32, I64, U8, U8_IN, kernel, types

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


def decode_entries(source: HFileRange, block: HFileBlock) -> HFileEntries:
    data = np.frombuffer(block.payload, dtype=np.uint8)
    entries_max = len(data) // ENTRY_OVERHEAD
    key_offsets = np.empty(entries_max + 1, dtype=np.int32)
    value_offsets = np.empty(entries_max + 1, dtype=np.int32)
    key_bytes = np.empty(len(data), dtype=np.uint8)
    value_bytes = np.empty(len(data), dtype=np.uint8)
    result = np.zeros(2, dtype=np.int64)
    _read_entries(data, key_offsets, key_bytes, value_offsets, value_bytes, result)
    count, fault = int(result[0]), int(result[1])
    if fault == _NOT_PUT:
        raise source.unsupported(block.offset, f"entry {count} of the data block is no plain value")
    if fault != _OK:
        raise source.broken(block.offset, f"entry {count} of the data block is cut short or contradicts itself")
    return HFileEntries(_binary(key_offsets, key_bytes, count), _binary(value_offsets, value_bytes, count))


def _binary(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], count: int) -> pa.BinaryArray:
    # In memory of their own: the buffers were sized for the worst case.
    buffers = [pa.py_buffer(offsets[: count + 1].copy()), pa.py_buffer(data[: int(offsets[count])].copy())]
    return pa.Array.from_buffers(pa.binary(), count, [None, *buffers])


@kernel(
    types.int64(U8_IN, types.int64),
)
def _int32(data: Any, at: Any) -> Any:
    """Unsigned, so that a negative length is one that no payload holds."""
    return (
        (np.int64(data[at]) << np.int64(24))
        | (np.int64(data[at + 1]) << np.int64(16))
        | (np.int64(data[at + 2]) << np.int64(8))
        | np.int64(data[at + 3])
    )


@kernel(
    types.void(
        U8_IN,  # data
        I32,  # key_offsets, one more than entries
        U8,  # key_bytes
        I32,  # value_offsets, one more than entries
        U8,  # value_bytes
        I64,  # result: entries, fault
    ),
)
def _read_entries(
    data: Any, key_offsets: Any, key_bytes: Any, value_offsets: Any, value_bytes: Any, result: Any
) -> None:
    """Each output is long enough for an entry per 21 bytes of `data`, and for all of its bytes."""
    end = np.int64(len(data))
    at = np.int64(0)
    entry = 0
    key_end = np.int64(0)
    value_end = np.int64(0)
    key_offsets[0] = 0
    value_offsets[0] = 0
    result[1] = _BROKEN
    while at < end:
        result[0] = entry
        if end - at < ENTRY_OVERHEAD:
            return
        key_part = _int32(data, at)
        value_length = _int32(data, at + 4)
        key_length = (np.int64(data[at + 8]) << np.int64(8)) | np.int64(data[at + 9])
        if key_part + value_length + 9 > end - at or key_length + _KEY_OVERHEAD > key_part:
            return
        at += 8
        if data[at + key_part - 1] != _PUT:
            result[1] = _NOT_PUT
            return
        if data[at + key_part + value_length] != 0:
            return
        for index in range(key_length):
            key_bytes[key_end + index] = data[at + 2 + index]
        key_end += key_length
        at += key_part
        for index in range(value_length):
            value_bytes[value_end + index] = data[at + index]
        value_end += value_length
        at += value_length + 1
        entry += 1
        key_offsets[entry] = np.int32(key_end)
        value_offsets[entry] = np.int32(value_end)
    result[0] = entry
    result[1] = _OK

"""The bloom filter of record keys that Hudi reads from a base file's footer: keys in, bytes out.

Hudi's DYNAMIC_V0 (int32 -1, int32 hash count, byte 1 for murmur, int32 bits; int32 keys a row may hold, int32 keys in
the last row, int32 rows; then per row the same 13 bytes and its bits, least significant first), big-endian, with one
row made for as many keys as the file has. A key sets bit |h mod bits| for each h of a chain: h(0) = 0, h(i+1) = murmur2
of the key with seed h(i).

Or Hudi's SIMPLE: the row alone. A reader that takes the one for the other does not find the keys, and inserts them
again. A writer that builds the metadata table's filters anew labels them all with the type that it is set to; so a file
gets the type of the file that it takes the place of.

The error rate is Hudi's default of 1e-9 up to 194,000 keys. A row for more keys would no longer be small: 2 million
keys need 14 MB of base64 in the footer, which every reader of the file has to read. From there on the row stays at
1 MiB, with fewer hashes so that it is still as good as a row of that size can be. Hudi bounds its own filters at
100,000 keys, and lets them fill up.

Touches: nothing.
Keeps:   1. a key that was added is always found;
         2. equal keys in any order and any split give equal bytes.
"""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.kernel import I32_IN, U8, U8_IN, kernel, types

ERROR_RATE = 1e-9
ROW_BYTES_MAX = 1024 * 1024
TYPE_CODE = "DYNAMIC_V0"
SIMPLE_TYPE_CODE = "SIMPLE"

_MURMUR = 1
_VERSION = -1


class BloomFilter:
    """A filter for about `keys_expected` keys; with more keys it is only less sharp."""

    def __init__(self, keys_expected: int, type_code: str = TYPE_CODE) -> None:
        assert type_code in (TYPE_CODE, SIMPLE_TYPE_CODE)
        self._is_simple = type_code == SIMPLE_TYPE_CODE
        self._keys_expected = max(1, keys_expected)
        bits = math.ceil(self._keys_expected * -math.log(ERROR_RATE) / math.log(2) ** 2)
        self._bits = min(bits, ROW_BYTES_MAX * 8)
        self._hashes = max(1, round(math.log(2) * self._bits / self._keys_expected))
        self._row = np.zeros((self._bits + 7) // 8, dtype=np.uint8)
        self._keys = 0

    def add(self, keys: pa.StringArray) -> None:
        """Add keys; none of them is null."""
        assert keys.null_count == 0
        if len(keys) == 0:
            return
        offsets, data = key_buffers(keys)
        _add_keys(offsets, data, self._bits, self._hashes, self._row)
        self._keys += len(keys)

    def to_bytes(self) -> bytes:
        head = struct.pack(">iibi", _VERSION, self._hashes, _MURMUR, self._bits)
        if self._is_simple:
            return head + self._row.tobytes()
        return head + struct.pack(">iii", self._keys_expected, self._keys, 1) + head + self._row.tobytes()

    def to_base64(self) -> str:
        return base64.b64encode(self.to_bytes()).decode("ascii")


def key_buffers(keys: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """(offsets, bytes) of a string array without copying; key i is `bytes[offsets[i]:offsets[i + 1]]`."""
    _, offsets, data = keys.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    return starts, text


@kernel(types.uint64(types.uint8))
def _signed(byte: Any) -> Any:
    """A byte widened to 32 bits with its sign."""
    if byte >= 128:
        return np.uint64(0xFFFFFF00) | np.uint64(byte)
    return np.uint64(byte)


@kernel(types.uint32(U8_IN, types.int64, types.int64, types.uint32))
def _murmur2(data: Any, start: Any, end: Any, seed: Any) -> Any:
    """Hudi's murmur2 of `data[start:end]`. All arithmetic wraps at 32 bits."""
    factor = np.uint64(0x5BD1E995)
    low = np.uint64(0xFFFFFFFF)
    length = end - start
    value = np.uint64(seed) ^ np.uint64(length)
    at = start
    while end - at >= 4:
        word = (
            np.uint64(data[at])
            | (np.uint64(data[at + 1]) << np.uint64(8))
            | (np.uint64(data[at + 2]) << np.uint64(16))
            | (np.uint64(data[at + 3]) << np.uint64(24))
        )
        word = (word * factor) & low
        word = word ^ (word >> np.uint64(24))
        word = (word * factor) & low
        value = ((value * factor) & low) ^ word
        at += 4
    left = end - at
    if left > 0:
        # Unlike the murmur2 of others, the last byte counts lowest. Java's bytes are signed, and Hudi widens them with
        # their sign, which matters for keys beyond ASCII.
        if left >= 3:
            value = value ^ ((_signed(data[end - 3]) << np.uint64(16)) & low)
        if left >= 2:
            value = value ^ ((_signed(data[end - 2]) << np.uint64(8)) & low)
        value = value ^ _signed(data[end - 1])
        value = (value * factor) & low
    value = value ^ (value >> np.uint64(13))
    value = (value * factor) & low
    value = value ^ (value >> np.uint64(15))
    return np.uint32(value)


@kernel(types.void(I32_IN, U8_IN, types.int64, types.int64, U8))
def _add_keys(offsets: Any, data: Any, bits: int, hashes: int, row: Any) -> None:
    """`offsets` are ascending and lie inside of `data`; `row` has at least `bits` bits."""
    for key in range(len(offsets) - 1):
        value = np.uint32(0)
        for _ in range(hashes):
            value = _murmur2(data, np.int64(offsets[key]), np.int64(offsets[key + 1]), value)
            signed = np.int64(value)
            if signed >= 0x80000000:
                signed -= 0x100000000
            # Java: Math.abs(h % bits), where the remainder takes the sign of h.
            index = abs(signed) % bits
            row[index >> 3] |= np.uint8(1 << (index & 7))

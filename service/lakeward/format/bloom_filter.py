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

from lakeward.kernel import I32_IN, I64_IN, U8, U8_IN, U32, kernel, types

ERROR_RATE = 1e-9
ROW_BYTES_MAX = 1024 * 1024
TYPE_CODE = "DYNAMIC_V0"
SIMPLE_TYPE_CODE = "SIMPLE"

LANES = 8
"""Keys that are hashed side by side."""

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
        lengths = np.diff(offsets)
        order = np.argsort(lengths, kind="stable")
        words = np.zeros((int(lengths.max()) // 4 + 1) * LANES, dtype=np.uint32)
        values = np.zeros(LANES, dtype=np.uint32)
        _add_keys(offsets, data, order, self._bits, self._hashes, words, values, self._row)
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


@kernel(types.uint32(types.uint8))
def _signed(byte: Any) -> Any:
    """A byte widened to 32 bits with its sign."""
    if byte >= 128:
        return np.uint32(0xFFFFFF00) | np.uint32(byte)
    return np.uint32(byte)


@kernel(types.uint32(types.uint32))
def _times(value: Any) -> Any:
    """The value times murmur2's factor, wrapping at 32 bits."""
    return np.uint32((np.uint64(value) * np.uint64(0x5BD1E995)) & np.uint64(0xFFFFFFFF))


@kernel(types.void(U8_IN, types.int64, types.int64, U32, types.int64))
def _mix_key(data: Any, start: Any, end: Any, words: Any, lane: Any) -> None:
    """What murmur2 makes of `data[start:end]` without the seed, into `words[lane::LANES]`; the rest comes last."""
    at = start
    to = lane
    while end - at >= 4:
        word = (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        word = _times(np.uint32(word))
        words[to] = _times(word ^ (word >> np.uint32(24)))
        at += 4
        to += LANES
    left = end - at
    if left > 0:
        # Unlike the murmur2 of others, the last byte counts lowest. Java's bytes are signed, and Hudi widens them with
        # their sign, which matters for keys beyond ASCII.
        rest = _signed(data[end - 1])
        if left >= 2:
            rest ^= np.uint32(_signed(data[end - 2]) << np.uint32(8))
        if left >= 3:
            rest ^= np.uint32(_signed(data[end - 3]) << np.uint32(16))
        words[to] = rest


@kernel(types.void(U32, U32, types.int64))
def _hash_lanes(words: Any, values: Any, length: Any) -> None:
    """Murmur2 of each lane's key, all of which have this length; `values` are the seeds, then the hashes."""
    for lane in range(LANES):
        values[lane] ^= np.uint32(length)
    whole = length // 4
    for word in range(whole):
        for lane in range(LANES):
            values[lane] = _times(values[lane]) ^ words[word * LANES + lane]
    if length % 4:
        for lane in range(LANES):
            values[lane] = _times(values[lane] ^ words[whole * LANES + lane])
    for lane in range(LANES):
        value = values[lane]
        value = _times(value ^ (value >> np.uint32(13)))
        values[lane] = value ^ (value >> np.uint32(15))


@kernel(types.void(I32_IN, U8_IN, I64_IN, types.int64, types.int64, U32, U32, U8))
def _add_keys(offsets: Any, data: Any, order: Any, bits: int, hashes: int, words: Any, values: Any, row: Any) -> None:
    """
    Keys of one length go through the hash side by side, `LANES` at a time: each hash is the seed of the next, so that
    one key alone would wait for every multiplication.

    Args:
        offsets: ascending and inside of `data`.
        order: the keys' numbers, by length.
        words: room for `LANES` times the words of the longest key and one more.
        values: `LANES` long.
        row: has at least `bits` bits.
    """
    first = 0
    while first < len(order):
        length = np.int64(offsets[order[first] + 1]) - np.int64(offsets[order[first]])
        last = first
        while last < len(order) and last - first < LANES:
            start, end = np.int64(offsets[order[last]]), np.int64(offsets[order[last] + 1])
            if end - start != length:
                break
            _mix_key(data, start, end, words, last - first)
            last += 1
        for lane in range(LANES):
            values[lane] = 0
        for _ in range(hashes):
            _hash_lanes(words, values, length)
            for lane in range(last - first):
                # Java: Math.abs(h % bits), where the remainder takes the sign of h.
                index = np.uint32(abs(np.int64(np.int32(values[lane])))) % np.uint32(bits)
                row[index >> 3] |= np.uint8(1 << (index & 7))
        first = last

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

A filter of ours can be read back and gone on with: no key leaves it, so it has those of earlier files, too.

Touches: nothing.
Keeps:   1. a key that was added is always found, also by the filter that is read back;
         2. equal keys in any order and any split give equal bytes;
         3. a filter that has more keys than its file, or too many for its size, is not `still_serves`.
See:     docs/decisions/0005-bloom-filters-sized-to-the-keys.md
"""

from __future__ import annotations

import base64
import copy
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
_ROW_HEAD, _HEAD = ">iibi", ">iii"
_SHARE_TOO_MANY = 0.25
_RATE_TIMES_MAX = 2
_RATE_MAX = 10 * ERROR_RATE


class BloomFilter:
    """A filter for about `keys_expected` keys; with more keys it is only less sharp."""

    def __init__(self, keys_expected: int, type_code: str = TYPE_CODE) -> None:
        assert type_code in (TYPE_CODE, SIMPLE_TYPE_CODE)
        self._is_simple = type_code == SIMPLE_TYPE_CODE
        self._keys_expected = max(1, keys_expected)
        self._bits, self._hashes = _size_for(self._keys_expected)
        self._row = np.zeros((self._bits + 7) // 8, dtype=np.uint8)
        self._keys = 0

    @classmethod
    def from_base64(cls, text: bytes, type_code: str) -> BloomFilter:
        """The filter that `to_base64` was called on, counted as without keys. `ValueError` for any other."""
        if type_code not in (TYPE_CODE, SIMPLE_TYPE_CODE):
            raise ValueError(f"a bloom filter of the type {type_code}")
        data = base64.b64decode(text, validate=True)
        heads, found = struct.calcsize(_ROW_HEAD), cls(0, type_code)
        at = 0
        try:
            if not found._is_simple:
                found._keys_expected, _, rows = struct.unpack_from(_HEAD, data, heads)
                at = heads + struct.calcsize(_HEAD)
                if rows != 1 or data[:heads] != data[at : at + heads]:
                    raise ValueError(f"a bloom filter of {rows} rows")
            version, found._hashes, murmur, found._bits = struct.unpack_from(_ROW_HEAD, data, at)
        except struct.error as error:
            raise ValueError("a bloom filter that is cut short") from error
        found._row = np.frombuffer(data, dtype=np.uint8, offset=at + heads).copy()
        if (version, murmur) != (_VERSION, _MURMUR) or not 0 < found._bits <= ROW_BYTES_MAX * 8 or found._hashes < 1:
            raise ValueError("a bloom filter of another kind")
        if len(found._row) != (found._bits + 7) // 8:
            raise ValueError("a bloom filter that is cut short")
        return found

    def still_serves(self, keys: int, *, more: int) -> bool:
        """
        This filter is as good as a new one, or nearly, for a file that has `keys` keys and gets up to `more` others.

        Keys that are in it and not in the file, and those that come, are at most a quarter of the file's; and it errs
        at most twice as often as a new one, or ten times as often as one that is not bounded.
        """
        filled = int(np.bitwise_count(self._row).sum()) / self._bits
        if filled >= 1:
            return False
        held = -self._bits / self._hashes * math.log1p(-filled) + more
        rate = _error_rate(held, self._bits, self._hashes)
        new = _error_rate(keys, *_size_for(max(1, keys)))
        return held <= keys * (1 + _SHARE_TOO_MANY) and rate <= max(_RATE_MAX, _RATE_TIMES_MAX * new)

    def has_all(self, keys: pa.StringArray) -> bool:
        """Each of the keys is found."""
        with_them = copy.copy(self)
        with_them._row = self._row.copy()
        with_them.add(keys)
        return np.array_equal(with_them._row, self._row)

    def count(self, keys: int) -> None:
        """Count keys of the file that were added before the filter was read back."""
        self._keys += keys

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
        head = struct.pack(_ROW_HEAD, _VERSION, self._hashes, _MURMUR, self._bits)
        if self._is_simple:
            return head + self._row.tobytes()
        return head + struct.pack(_HEAD, self._keys_expected, self._keys, 1) + head + self._row.tobytes()

    def to_base64(self) -> str:
        return base64.b64encode(self.to_bytes()).decode("ascii")


def _size_for(keys: int) -> tuple[int, int]:
    """(bits, hashes) of a new filter."""
    bits = min(math.ceil(keys * -math.log(ERROR_RATE) / math.log(2) ** 2), ROW_BYTES_MAX * 8)
    return bits, max(1, round(math.log(2) * bits / keys))


def _error_rate(keys: float, bits: int, hashes: int) -> float:
    """How often a key is found that was not added."""
    return float((-math.expm1(-hashes * keys / bits)) ** hashes)


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

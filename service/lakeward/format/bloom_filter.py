"""The bloom filter of record keys that Hudi reads from a base file's footer: keys in, bytes out.

Hudi's DYNAMIC_V0 (int32 -1, int32 hash count, byte 1 for murmur, int32 bits; int32 keys a row may hold, int32 keys in
the last row, int32 rows; then per row the same 13 bytes and its bits, least significant first), big-endian, with one
row made for as many keys as the file has. A key sets bit |h mod bits| for each h of a chain: h(0) = 0, h(i+1) = murmur2
of the key with seed h(i).

Or Hudi's SIMPLE: the row alone. A reader that takes the one for the other does not find the keys, and inserts them
again. A writer that builds the metadata table's filters again labels them all with the type that it is set to; so a
file gets the type of the file that it takes the place of.

The error rate is Hudi's default of 1e-9 as long as the row is no larger than it may be: 16 MiB by default, which is
3.1 million keys. Each key costs 7.2 bytes of base64 in the footer, which every reader of the file has to read. From
there on the row has fewer hashes, so that it is still as good as a row of that size can be, and the filter says how
often it errs. Hudi bounds its own filters at 100,000 keys, and lets them fill up.

A filter of Lakeward can be read back and gone on with: no key leaves it, so it has those of earlier files, too.

Touches: nothing.
Keeps:   1. a key that was added is always found, also by the filter that is read back;
         2. equal keys in any order and any split give equal bytes;
         3. a filter that has more keys than its file, or too many for its size, is not `still_serves`.
See:     docs/decisions/0005-bloom-filters-sized-to-the-keys.md
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakeward.base.kernel import I32_IN, I64_IN, U8, U8_IN, U32, kernel, types
from lakeward.format.bloom_lookup import (
    DYNAMIC_HEAD,
    MURMUR,
    ROW_HEAD,
    ROW_HEAD_BYTES,
    SIMPLE_TYPE_CODE,
    TYPE_CODE,
    VERSION,
    BloomRows,
)
from lakeward.format.bloom_size import NOTABLE_RATE, ROW_BYTES_MAX, error_rate, size_for
from lakeward.format.murmur import LANES, ByLength, bit_of, hash_lanes, mix_key

_SHARE_TOO_MANY = 0.25
_RATE_TIMES_MAX = 2


class BloomFilter:
    """A filter for about `keys_expected` keys; with more keys it is only less sharp."""

    def __init__(self, keys_expected: int, type_code: str = TYPE_CODE, *, bytes_max: int = ROW_BYTES_MAX) -> None:
        """
        Args:
            bytes_max: what the bits may take: with more keys than they are for, the filter errs more often.
        """
        assert type_code in (TYPE_CODE, SIMPLE_TYPE_CODE)
        self._is_simple = type_code == SIMPLE_TYPE_CODE
        self._keys_expected = max(1, keys_expected)
        self._bits, self._hashes = size_for(self._keys_expected, bytes_max)
        self._row = np.zeros((self._bits + 7) // 8, dtype=np.uint8)
        self._keys = 0

    @classmethod
    def from_base64(cls, text: bytes, type_code: str) -> BloomFilter:
        """The filter that `to_base64` was called on, counted as without keys. `ValueError` for any other."""
        return cls.from_rows(BloomRows.of_base64(text, type_code))

    @classmethod
    def from_rows(cls, rows: BloomRows) -> BloomFilter:
        """The filter whose `to_bytes` these are, counted as without keys. `ValueError` for any other."""
        if rows.count != 1:
            raise ValueError(f"a bloom filter of {rows.count} rows")
        found = cls(0, rows.type_code)
        if not found._is_simple:
            found._keys_expected = struct.unpack_from(DYNAMIC_HEAD, bytes(rows.data[:64]), ROW_HEAD_BYTES)[0]
        found._bits, found._hashes = rows.bits, rows.hashes
        found._row = rows.data[rows.start :].copy()
        return found

    @property
    def error_rate(self) -> float:
        """How often a key is found that was not added."""
        return error_rate(self._keys, self._bits, self._hashes)

    def still_serves(self, keys: int, *, more: int, bytes_max: int = ROW_BYTES_MAX) -> bool:
        """
        This filter is as good as a new one, or nearly, for a file that has `keys` keys and gets up to `more` others.

        Keys that are in it and not in the file, and those that come, are at most a quarter of the file's; and it errs
        at most twice as often as a new one, or ten times as often as one that is not bounded. It takes no more than a
        new one may.
        """
        if len(self._row) > bytes_max:
            return False
        filled = int(np.bitwise_count(self._row).sum()) / self._bits
        if filled >= 1:
            return False
        held = -self._bits / self._hashes * math.log1p(-filled) + more
        rate = error_rate(held, self._bits, self._hashes)
        new = error_rate(keys, *size_for(max(1, keys), bytes_max))
        return held <= keys * (1 + _SHARE_TOO_MANY) and rate <= max(NOTABLE_RATE, _RATE_TIMES_MAX * new)

    def has_all(self, keys: pa.StringArray) -> bool:
        """Each of the keys is found."""
        return bool(BloomRows(self._row, 0, len(self._row), 1, self._bits, self._hashes).lookup(keys).all())

    def count(self, keys: int) -> None:
        """Count keys of the file that were added before the filter was read back."""
        self._keys += keys

    def add(self, keys: pa.StringArray) -> None:
        """Add keys; none of them is null."""
        add_to_each((self,), keys)

    def to_bytes(self) -> bytes:
        head = struct.pack(ROW_HEAD, VERSION, self._hashes, MURMUR, self._bits)
        if self._is_simple:
            return head + self._row.tobytes()
        return head + struct.pack(DYNAMIC_HEAD, self._keys_expected, self._keys, 1) + head + self._row.tobytes()

    def to_base64(self) -> str:
        return base64.b64encode(self.to_bytes()).decode("ascii")


def add_to_each(filters: Sequence[BloomFilter], keys: pa.StringArray) -> None:
    """Add keys to one filter, or to two of them, which costs little more; none of the keys is null."""
    if len(keys) == 0:
        return
    by = ByLength(keys)
    first, other = filters[0], filters[-1]
    _add_keys(
        by.offsets,
        by.data,
        by.order,
        by.words,
        by.values,
        first._bits,
        first._hashes,
        first._row,
        other._bits,
        other._hashes if len(filters) > 1 else 0,
        other._row,
    )
    for each in filters:
        each.count(len(keys))


@kernel(types.void(I32_IN, U8_IN, I64_IN, U32, U32, types.int64, types.int64, U8, types.int64, types.int64, U8))
def _add_keys(
    offsets: Any,
    data: Any,
    order: Any,
    words: Any,
    values: Any,
    bits: int,
    hashes: int,
    row: Any,
    other_bits: int,
    other_hashes: int,
    other_row: Any,
) -> None:
    """
    Keys of one length go through the hash side by side, `LANES` at a time: each hash is the seed of the next, so that
    one key alone would wait for every multiplication.

    Args:
        offsets: ascending and inside of `data`.
        order: the keys' numbers, by length.
        words: room for `LANES` times the words of the longest key and one more.
        values: `LANES` long.
        row: has at least `bits` bits.
        other_hashes: of a second filter, which takes the same hashes; 0 where there is none.
    """
    first = 0
    while first < len(order):
        length = np.int64(offsets[order[first] + 1]) - np.int64(offsets[order[first]])
        last = first
        while last < len(order) and last - first < LANES:
            start, end = np.int64(offsets[order[last]]), np.int64(offsets[order[last] + 1])
            if end - start != length:
                break
            mix_key(data, start, end, words, last - first)
            last += 1
        for lane in range(LANES):
            values[lane] = 0
        for at in range(max(hashes, other_hashes)):
            hash_lanes(words, values, length)
            if at < hashes:
                for lane in range(last - first):
                    index = bit_of(values[lane], bits)
                    row[index >> 3] |= np.uint8(1 << (index & 7))
            if at < other_hashes:
                for lane in range(last - first):
                    index = bit_of(values[lane], other_bits)
                    other_row[index >> 3] |= np.uint8(1 << (index & 7))
        first = last

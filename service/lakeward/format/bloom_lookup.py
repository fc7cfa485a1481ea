"""Asking a bloom filter for many keys at once, also one that Hudi made: bytes and keys in, a mask out.

    SIMPLE        one row
    DYNAMIC_V0    several, each made for as many keys (60,000 by default, 100,000 in all): a key is in one of them

All rows have as many bits and hashes, so that a key is hashed once for all of them, and no further than its first bit
that no row has.

Touches: nothing.
Keeps:   1. a key that was added is found, whatever the number and the size of the rows;
         2. bytes that are no such filter are an error, never a filter in which nothing is found.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import I32_IN, I64_IN, U8, U8_IN, U32, kernel, types
from lakeward.format.murmur import LANES, ByLength, bit_of, hash_lanes, mix_key

TYPE_CODE = "DYNAMIC_V0"
SIMPLE_TYPE_CODE = "SIMPLE"

ROW_HEAD, DYNAMIC_HEAD = ">iibi", ">iii"
ROW_HEAD_BYTES, DYNAMIC_HEAD_BYTES = struct.calcsize(ROW_HEAD), struct.calcsize(DYNAMIC_HEAD)
VERSION, MURMUR = -1, 1


@dataclass(frozen=True, slots=True)
class BloomRows:
    """The rows of a filter, in the bytes that they are of."""

    data: npt.NDArray[np.uint8]
    start: int
    """The place of the first bits of the first row; those of the next one are `stride` behind."""
    stride: int
    count: int
    bits: int
    hashes: int

    @classmethod
    def of_base64(cls, text: bytes, type_code: str) -> Self:
        """The rows of a filter as footers have it. `ValueError` for what is none."""
        return cls.of_bytes(base64.b64decode(text, validate=True), type_code)

    @classmethod
    def of_bytes(cls, data: bytes, type_code: str) -> Self:
        try:
            version, hashes, kind, bits = head = struct.unpack_from(ROW_HEAD, data)
            start, count = ROW_HEAD_BYTES, 1
            if type_code == TYPE_CODE:
                _, _, count = struct.unpack_from(DYNAMIC_HEAD, data, ROW_HEAD_BYTES)
                start += DYNAMIC_HEAD_BYTES + ROW_HEAD_BYTES
            elif type_code != SIMPLE_TYPE_CODE:
                raise ValueError(f"a bloom filter of the type {type_code}")
            if (version, kind) != (VERSION, MURMUR) or bits < 1 or hashes < 1 or count < 1:
                raise ValueError("a bloom filter of another kind")
            stride = ROW_HEAD_BYTES + (bits + 7) // 8
            if len(data) != start - ROW_HEAD_BYTES + count * stride:
                raise ValueError("a bloom filter that is cut short, or goes on behind its end")
            heads = range(start - ROW_HEAD_BYTES, len(data), stride)
            if any(struct.unpack_from(ROW_HEAD, data, at) != head for at in (0, *heads)):
                raise ValueError("a bloom filter whose rows differ in size")
        except struct.error as error:
            raise ValueError("a bloom filter that is cut short") from error
        return cls(np.frombuffer(data, dtype=np.uint8), start, stride, count, bits, hashes)

    @classmethod
    def joined(cls, filters: Sequence[Self]) -> bytes | None:
        """A DYNAMIC_V0 of the rows of all; None where these differ in size, or one is no such filter."""
        if any(each.type_code != TYPE_CODE for each in filters):
            return None
        head_bytes = ROW_HEAD_BYTES + DYNAMIC_HEAD_BYTES
        heads = {bytes(each.data[:ROW_HEAD_BYTES]) for each in filters}
        numbers = [struct.unpack_from(DYNAMIC_HEAD, bytes(each.data[:64]), ROW_HEAD_BYTES) for each in filters]
        if len(heads) != 1 or len({keys_of_a_row for keys_of_a_row, *_ in numbers}) != 1:
            return None
        head = struct.pack(DYNAMIC_HEAD, numbers[0][0], numbers[-1][1], sum(each.count for each in filters))
        return b"".join([*heads, head, *(bytes(each.data[head_bytes:]) for each in filters)])

    def part(self, rows: range) -> BloomRows:
        """Some of its rows."""
        return replace(self, start=self.start + rows.start * self.stride, count=len(rows))

    @property
    def type_code(self) -> str:
        """The type of the bytes that it was read from."""
        return SIMPLE_TYPE_CODE if self.start == ROW_HEAD_BYTES else TYPE_CODE

    def lookup(self, keys: pa.StringArray) -> npt.NDArray[np.bool_]:
        """For each key whether it may be among those that were added; none of the keys is null."""
        found = np.zeros(len(keys), dtype=np.uint8)
        if len(keys):
            by = ByLength(keys)
            alive = np.zeros(self.count * LANES, dtype=np.uint8)
            sizes = (self.start, self.stride, self.count, self.bits, self.hashes)
            _find_keys(by.offsets, by.data, by.order, self.data, *sizes, by.words, by.values, alive, found)
        return found.view(np.bool_)


@kernel(types.void(I32_IN, U8_IN, I64_IN, U8_IN, *(types.int64,) * 5, U32, U32, U8, U8))
def _find_keys(
    offsets: Any,
    data: Any,
    order: Any,
    rows: Any,
    start: int,
    stride: int,
    count: int,
    bits: int,
    hashes: int,
    words: Any,
    values: Any,
    alive: Any,
    found: Any,
) -> None:
    """
    `LANES` keys of one length at a time, until none of them can be in any row.

    Args:
        offsets: with `data`, `order`, `words` and `values` as `ByLength` has them.
        rows: has at least `bits` bits from `start + row * stride` on, for each row of `count`.
        alive: `LANES` for each row.
        found: 1 for each key that all bits of one row say is there.
    """
    first = 0
    while first < len(order):
        length = np.int64(offsets[order[first] + 1]) - np.int64(offsets[order[first]])
        last = first
        while last < len(order) and last - first < LANES:
            key_start, key_end = np.int64(offsets[order[last]]), np.int64(offsets[order[last] + 1])
            if key_end - key_start != length:
                break
            mix_key(data, key_start, key_end, words, last - first)
            last += 1
        for lane in range(LANES):
            values[lane] = 0
        for at in range(count * LANES):
            alive[at] = 1 if at % LANES < last - first else 0
        are_left = True
        for _ in range(hashes):
            if not are_left:
                break
            hash_lanes(words, values, length)
            are_left = False
            for lane in range(last - first):
                index = np.int64(bit_of(values[lane], bits))
                for row in range(count):
                    if alive[row * LANES + lane]:
                        byte = rows[start + row * stride + (index >> 3)]
                        if byte >> (index & 7) & 1:
                            are_left = True
                        else:
                            alive[row * LANES + lane] = 0
        for lane in range(last - first):
            for row in range(count):
                found[order[first + lane]] |= alive[row * LANES + lane]
        first = last

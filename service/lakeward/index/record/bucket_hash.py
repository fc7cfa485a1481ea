"""Which bucket a record key is in: a hash by its name, floor-mod over the count of buckets.

    java-string    Java's `String.hashCode`: 31 * h + unit over UTF-16 units, of which a character beyond U+FFFF has
                   two, in 32 bits with a sign. The default, RFC-08's
    lakeward-64    `merge/rows/byte_hash` over the key's UTF-8 bytes. Its buckets have nothing to do with those of the
                   other, so that it serves where a second hash is wanted
    own:...        a function of the operator's own (`index/record/own_hash`)

An index keeps the name and the count that it was created with. A retired name stays listed.

Touches: nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_u64
from lakeward.base.errors import Unsupported
from lakeward.base.kernel import I32, I64_IN, U8_IN, kernel, types
from lakeward.index.record.created_with import DEFAULT_HASH, OWN_PREFIX, SECOND_HASH
from lakeward.index.record.own_hash import own_hashes
from lakeward.merge.rows.byte_hash import byte_buffers, hash_bytes

Numbers = npt.NDArray[np.int32]

_NOT_ASCII = np.uint64(0x8080808080808080)
_ODD = np.uint64(0x00FF00FF00FF00FF)
_ODD_PAIRS = np.uint64(0x0000FFFF0000FFFF)
_LOW = np.uint64(0xFFFFFFFF)
_31_TO_8 = np.uint32(31**8 % 2**32)

BUCKET_ENTRIES: Final = 1_000_000
"""Entries that a bucket is meant to have."""
_GROWTH = 1.3


def default_bucket_count(rows_expected: int) -> int:
    """A million entries a bucket, and a third of the buckets' room for growth."""
    return max(1, math.ceil(rows_expected * _GROWTH / BUCKET_ENTRIES))


def bucket_numbers(keys: pa.Array, *, hash_name: str, count: int) -> Numbers:
    """The bucket of each record key (text), from 0 to before `count`. Raises `Unsupported` for an unknown hash."""
    assert count > 0 and keys.null_count == 0
    if hash_name.startswith(OWN_PREFIX):
        return np.mod(own_hashes(hash_name, keys), count).astype(np.int32)
    hash_of = HASHES.get(hash_name)
    if hash_of is None:
        raise Unsupported(
            f"The index spreads its keys by the hash '{hash_name}', which this release does not know.",
            why=f"It knows {', '.join(HASHES)}.",
            remedy="Use the release that created the index, or create it again.",
        )
    return hash_of(keys, count)


def _java_string(keys: pa.Array, count: int) -> Numbers:
    offsets, data = byte_buffers(keys)
    out = np.empty(len(keys), dtype=np.int32)
    _hash_java_strings(offsets, data, count, out)
    return out


def _lakeward_64(keys: pa.Array, count: int) -> Numbers:
    offsets, data = byte_buffers(keys)
    out = np.empty(len(keys), dtype=np.int32)
    _hash_64(offsets, data, count, out)
    return out


HASHES: Final[Mapping[str, Callable[[pa.Array, int], Numbers]]] = {
    DEFAULT_HASH: _java_string,
    SECOND_HASH: _lakeward_64,
}


@kernel(types.uint32(types.uint64))
def _eight_units(word: Any) -> Any:
    """Java's hash of eight ASCII characters, the first one lowest: by pairs, by pairs of these, and both halves."""
    pairs = (word & _ODD) * np.uint64(31) + ((word >> np.uint64(8)) & _ODD)
    fours = (pairs & _ODD_PAIRS) * np.uint64(31**2) + ((pairs >> np.uint64(16)) & _ODD_PAIRS)
    return np.uint32((fours & _LOW) * np.uint64(31**4) + (fours >> np.uint64(32)) & _LOW)


@kernel(types.void(I64_IN, U8_IN, types.int64, I32))
def _hash_java_strings(offsets: Any, data: Any, count: Any, out: Any) -> None:
    """Key i is `data[offsets[i]:offsets[i + 1]]`, which is UTF-8."""
    for key in range(len(out)):
        value = np.uint32(0)
        at = offsets[key]
        end = offsets[key + 1]
        while at < end:
            if at + 8 <= end:
                word = load_u64(data.ctypes.data + at)
                if word & _NOT_ASCII == 0:
                    value = value * _31_TO_8 + _eight_units(word)
                    at += 8
                    continue
            first = np.uint32(data[at])
            if first < 0x80:
                value = np.uint32(31) * value + first
                at += 1
                continue
            if first < 0xE0:
                unit = (first & np.uint32(0x1F)) << np.uint32(6)
                at += 2
            elif first < 0xF0:
                unit = (first & np.uint32(0x0F)) << np.uint32(12) | np.uint32(data[at + 1] & 0x3F) << np.uint32(6)
                at += 3
            else:
                code = (
                    (first & np.uint32(0x07)) << np.uint32(18)
                    | np.uint32(data[at + 1] & 0x3F) << np.uint32(12)
                    | np.uint32(data[at + 2] & 0x3F) << np.uint32(6)
                    | np.uint32(data[at + 3] & 0x3F)
                ) - np.uint32(0x10000)
                value = np.uint32(31) * value + (np.uint32(0xD800) | code >> np.uint32(10))
                value = np.uint32(31) * value + (np.uint32(0xDC00) | code & np.uint32(0x3FF))
                at += 4
                continue
            value = np.uint32(31) * value + (unit | np.uint32(data[at - 1] & 0x3F))
        signed = np.int64(np.uint32(value))
        if signed >= 0x80000000:
            signed -= 0x100000000
        out[key] = np.int32(signed % count)  # floor-mod: never negative


@kernel(types.void(I64_IN, U8_IN, types.int64, I32))
def _hash_64(offsets: Any, data: Any, count: Any, out: Any) -> None:
    for key in range(len(out)):
        out[key] = np.int32(hash_bytes(data, offsets[key], offsets[key + 1], np.uint64(0)) % np.uint64(count))

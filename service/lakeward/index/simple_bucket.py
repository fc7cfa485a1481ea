"""The bucket of a row: the hash of the values that its record key is made of.

Hudi takes the values out of the text of the key again, and in doing so some surprise:

    a key without a comma or without a colon        hashed whole, `f:v` too
    otherwise                                       the values of the hashed fields, up to the last comma before the
                                                    next colon; `__null__` counts 0, `__empty__` as the empty text
    no hashed field found in it                     hashed whole

The hash is Java's of a list of texts, over UTF-16: a character beyond 0xFFFF counts as two.

Touches: nothing.
Keeps:   1. the bucket is the one that Hudi's writers of 1.0.2 and 1.2.0 give the key;
         2. a key on which Hudi's own search never ends is refused.
Source:  BucketIdentifier and KeyGenUtils.extractRecordKeysByFields of Hudi 1.0.2 and 1.2.0
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.kernel import I32, I32_IN, I64_IN, U8_IN, kernel, types
from lakeward.base.named_key import named_key

BUCKET_DIGITS: Final = 8
"""So many has the number of a bucket, with which the ids of its file groups begin."""
_Bytes = npt.NDArray[np.uint8]

_COMMA: Final = ord(",")
_COLON: Final = ord(":")
_NULL: Final = np.frombuffer(b"__null__", dtype=np.uint8)
_EMPTY: Final = np.frombuffer(b"__empty__", dtype=np.uint8)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_ENDLESS: Final = np.int64(-1)


def bucket_places(keys: pa.StringArray, fields: tuple[str, ...], buckets: int) -> pa.StringArray:
    """The number of each key's bucket, in eight digits, as names of file groups begin.

    Raises `Unsupported`.

    Args:
        keys: record keys, none of them null.
        fields: the key fields that are hashed; at least one.
        buckets: of a partition, at least one.
    """
    # Of millions of buckets few are met: no others are named.
    met, places = np.unique(bucket_numbers(keys, fields, buckets), return_inverse=True)
    names = pa.array([f"{number:0{BUCKET_DIGITS}d}" for number in met.tolist()], pa.string())
    return names.take(pa.array(places))


def bucket_numbers(keys: pa.StringArray, fields: tuple[str, ...], buckets: int) -> npt.NDArray[np.int32]:
    """int32, one for each key; see `bucket_places`."""
    assert fields and buckets > 0 and keys.null_count == 0
    numbers = np.empty(len(keys), dtype=np.int32)
    if not len(keys):
        return numbers
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[keys.offset :][: len(keys) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    encoded = [field.encode() for field in fields]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    names = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    _number(data, offsets, names, ends, buckets, numbers)
    if (endless := np.flatnonzero(numbers == _ENDLESS)).size:
        raise Unsupported(
            f"The record key {named_key(keys[int(endless[0])].as_py())} has no bucket.",
            why=f"Its buckets are by {', '.join(fields)}, and Hudi's own search for these values never ends in a key "
            "like this: the field at its end is not among them, and has a colon in its value.",
            remedy="Leave the row out, or hash all fields of the key (hoodie.bucket.index.hash.field).",
        )
    return numbers


def bucket_of(file_id: str) -> int | None:
    """The number of the bucket that a file id begins with; None where it begins with none."""
    digits = file_id[:BUCKET_DIGITS]
    return int(digits) if len(digits) == BUCKET_DIGITS and digits.isascii() and digits.isdigit() else None


@kernel(types.int64(U8_IN, types.int64, types.int64, types.int64))
def _find(data: _Bytes, byte: int, start: int, end: int) -> int:
    """The next place of the byte from `start` on, or -1."""
    for place in range(max(start, 0), end):
        if data[place] == byte:
            return place
    return -1


@kernel(types.int64(U8_IN, types.int64, types.int64, types.int64))
def _find_last(data: _Bytes, byte: int, begin: int, place: int) -> int:
    """The last place of the byte up to `place`, or -1."""
    while place >= begin:
        if data[place] == byte:
            return place
        place -= 1
    return -1


@kernel(types.boolean(U8_IN, types.int64, types.int64, U8_IN, types.int64, types.int64))
def _is_same(data: _Bytes, start: int, end: int, other: _Bytes, other_start: int, other_end: int) -> bool:
    if end - start != other_end - other_start:
        return False
    for step in range(end - start):  # noqa: SIM110 - Numba compiles loops
        if data[start + step] != other[other_start + step]:
            return False
    return True


@kernel(types.uint32(U8_IN, types.int64, types.int64))
def _text_hash(data: _Bytes, start: int, end: int) -> np.uint32:
    """Java's hash of the text: over its UTF-16 units, wrapping at 32 bits."""
    found = np.uint32(0)
    thirty_one = np.uint32(31)
    place = start
    while place < end:
        first = np.uint32(data[place])
        if first < 0x80:
            found = found * thirty_one + first
            place += 1
        elif first < 0xE0:
            unit = ((first & np.uint32(0x1F)) << np.uint32(6)) | (np.uint32(data[place + 1]) & np.uint32(0x3F))
            found = found * thirty_one + unit
            place += 2
        elif first < 0xF0:
            unit = (
                ((first & np.uint32(0x0F)) << np.uint32(12))
                | ((np.uint32(data[place + 1]) & np.uint32(0x3F)) << np.uint32(6))
                | (np.uint32(data[place + 2]) & np.uint32(0x3F))
            )
            found = found * thirty_one + unit
            place += 3
        else:
            character = (
                ((first & np.uint32(0x07)) << np.uint32(18))
                | ((np.uint32(data[place + 1]) & np.uint32(0x3F)) << np.uint32(12))
                | ((np.uint32(data[place + 2]) & np.uint32(0x3F)) << np.uint32(6))
                | (np.uint32(data[place + 3]) & np.uint32(0x3F))
            ) - np.uint32(0x10000)
            found = found * thirty_one + (np.uint32(0xD800) + (character >> np.uint32(10)))
            found = found * thirty_one + (np.uint32(0xDC00) + (character & np.uint32(0x3FF)))
            place += 4
    return found


@kernel(types.uint32(U8_IN, types.int64, types.int64))
def _value_hash(data: _Bytes, start: int, end: int) -> np.uint32:
    if _is_same(data, start, end, _NULL, 0, _NULL.size):
        return np.uint32(0)
    if _is_same(data, start, end, _EMPTY, 0, _EMPTY.size):
        return np.uint32(0)
    return _text_hash(data, start, end)


@kernel(types.int64(U8_IN, types.int64, types.int64, U8_IN, I64_IN))
def _key_hash(data: _Bytes, begin: int, end: int, names: _Bytes, ends: npt.NDArray[np.int64]) -> np.int64:
    """Java's hash of the list of values, without its sign; -1 where the search for them does not end."""
    if _find(data, _COMMA, begin, end) < 0 or _find(data, _COLON, begin, end) < 0:
        return np.int64((np.uint32(31) + _text_hash(data, begin, end)) & _POSITIVE)
    found, count, start = np.uint32(1), 0, begin
    while start < end:
        colon = _find(data, _COLON, start, end)
        is_hashed = False
        for number in range(ends.size - 1):
            is_hashed |= _is_same(data, start, colon, names, ends[number], ends[number + 1])
        following = _find(data, _COLON, colon + 1, end)
        value_end = end
        if following >= 0:
            comma = _find_last(data, _COMMA, begin, following)
            while comma < colon and following >= 0:
                following = _find(data, _COLON, following + 1, end)
                comma = _find_last(data, _COMMA, begin, following) if following >= 0 else -1
            if comma < colon and not is_hashed:
                return _ENDLESS
            value_end = comma if comma >= 0 else end
        if is_hashed:
            found = found * np.uint32(31) + _value_hash(data, colon + 1, value_end)
            count += 1
        start = value_end + 1
    if not count:
        found = np.uint32(31) + _text_hash(data, begin, end)
    return np.int64(found & _POSITIVE)


@kernel(types.void(U8_IN, I32_IN, U8_IN, I64_IN, types.int64, I32))
def _number(
    data: _Bytes,
    offsets: npt.NDArray[np.int32],
    names: _Bytes,
    ends: npt.NDArray[np.int64],
    buckets: int,
    out: npt.NDArray[np.int32],
) -> None:
    """`names` is all names one after the other, the n-th from `ends[n]` to `ends[n + 1]`; -1 where no search ends."""
    for row in range(out.size):
        found = _key_hash(data, int(offsets[row]), int(offsets[row + 1]), names, ends)
        out[row] = found if found == _ENDLESS else found % buckets

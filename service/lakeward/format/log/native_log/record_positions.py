"""The places in a base file at which the rows of a native log were found: numbers as text, and back.

    Base64 of: int32 big-endian count | that many numbers of 7 bits a byte, the low ones first, the high bit for "more"

The numbers stand in the order of the log's rows, and one may come again. Inline logs have a bitmap under the same name
instead. A number is the place of a row in the base file, counted from 0; Lakeward merges by keys, so these are written
for others and checked, and never used.

Touches: nothing.
Keeps:   1. what is decoded was encoded by these rules, down to the last byte, or it is a `ValueError`;
         2. no more numbers are made than there are bytes.
Source:  LogReaderUtils.encodePositionsAsLongList (Hudi's master of July 2026).
"""

from __future__ import annotations

import base64
import binascii
import struct

import numpy as np
import numpy.typing as npt

_COUNT_BYTES = 4
_BITS = 7
_MORE = 0x80
_BYTES_MAX = 9
"""A number of 63 bits, which a long that is not negative has, takes no more."""
_SHIFTS = np.arange(0, _BITS * _BYTES_MAX, _BITS, dtype=np.int64)
_AT_ONCE = 16_384


def encode_positions(positions: npt.NDArray[np.int64]) -> str:
    """The text of numbers that are all 0 or more."""
    assert not len(positions) or int(positions.min()) >= 0, "a place that is not known has no number"
    parts = [struct.pack(">i", len(positions))]
    for start in range(0, len(positions), _AT_ONCE):
        # A number's bits, seven by seven; a row of this matrix is a number, and what lies behind its last bits is cut.
        rest = positions[start : start + _AT_ONCE, np.newaxis] >> _SHIFTS
        is_there = rest > 0
        is_there[:, 0] = True
        has_more = np.zeros_like(is_there)
        has_more[:, :-1] = is_there[:, 1:]
        digits = (rest & (_MORE - 1)) | np.where(has_more, _MORE, 0)
        parts.append(digits.astype(np.uint8)[is_there].tobytes())
    return base64.b64encode(b"".join(parts)).decode("ascii")


def decode_positions(text: str) -> npt.NDArray[np.int64]:
    """The numbers. Raises `ValueError`, saying what is wrong."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"they are not Base64: {error}") from None
    if len(data) < _COUNT_BYTES:
        raise ValueError("they have no count")
    (count,) = struct.unpack_from(">i", data)
    digits = np.frombuffer(data, dtype=np.uint8, offset=_COUNT_BYTES)
    if count < 0:
        raise ValueError(f"their count is {count}")
    ends = np.flatnonzero(digits < _MORE) + 1
    if len(ends) != count or len(digits) != (int(ends[-1]) if count else 0):
        raise ValueError(f"they are not the {count} numbers that their count says")
    numbers = np.zeros(count, dtype=np.int64)
    begin = 0
    for first in range(0, count, _AT_ONCE):
        part = ends[first : first + _AT_ONCE] - begin
        starts = np.concatenate([np.zeros(1, dtype=np.int64), part[:-1]])
        lengths = part - starts
        if int(lengths.max()) > _BYTES_MAX:
            raise ValueError("one of them is no place of a row")
        here = digits[begin : begin + int(part[-1])]
        places = np.arange(len(here), dtype=np.int64) - np.repeat(starts, lengths)
        values = (here & (_MORE - 1)).astype(np.int64) << (_BITS * places)
        numbers[first : first + _AT_ONCE] = np.add.reduceat(values, starts)
        begin += int(part[-1])
    return numbers

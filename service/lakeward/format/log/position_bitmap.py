"""The places in a base file at which the records of a block of an inline log were found: a bitmap as text, decoded.

    Base64 of: int64 number of parts | of each: int32 high half of its numbers | a Roaring bitmap of the low halves

A Roaring bitmap, in its portable form, has a container for each half of 32 bits that occurs: a sorted array, a bitmap
of 65,536 bits, or runs. All numbers are little-endian. Since it is a set, writers sort the records of the block by
their places: record i is of the i-th number. (Native logs have a list instead: `native_log/record_positions`.)

Touches: nothing.
Keeps:   the numbers ascend, and there are no bytes left over, or it is a `ValueError`.
Source:  the Roaring format specification; Hudi 1.2.0, LogReaderUtils.decodeRecordPositionsHeader.
"""

from __future__ import annotations

import base64
import binascii
import struct

import numpy as np
import numpy.typing as npt

_WITHOUT_RUNS = 12346
_WITH_RUNS = 12347
_OFFSETS_FROM = 4
"""So many containers have their offsets beside them also where some are runs."""
_ARRAY_MAX = 4096
_BITMAP_BYTES = 8192


def decode_position_bitmap(text: str) -> npt.NDArray[np.int64]:
    """The numbers. Raises `ValueError`, saying what is wrong."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"they are not Base64: {error}") from None
    cursor = _Cursor(data)
    found: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for _ in range(cursor.number("<q")):
        high = cursor.number("<i")
        found += [(np.int64(high) << 32) | low for low in _read_bitmap(cursor)]
    if cursor.at != len(data):
        raise ValueError("there are bytes left over")
    numbers = np.concatenate(found)
    if len(numbers) and (numbers[0] < 0 or not (numbers[1:] > numbers[:-1]).all()):
        raise ValueError("they do not ascend")
    return numbers


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def array(self, count: int, kind: str) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.take(count * np.dtype(kind).itemsize), dtype=kind).astype(np.int64)

    def take(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) < size:
            raise ValueError("they are cut short")
        self.at += size
        return found


def _read_bitmap(cursor: _Cursor) -> list[npt.NDArray[np.int64]]:
    """The numbers of one Roaring bitmap, container by container."""
    cookie = cursor.number("<I")
    is_run = np.zeros(0, dtype=np.uint8)
    if cookie == _WITHOUT_RUNS:
        count = cursor.number("<I")
    elif cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        is_run = np.unpackbits(np.frombuffer(cursor.take((count + 7) // 8), dtype=np.uint8), bitorder="little")
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    heads = cursor.array(2 * count, "<u2").reshape(-1, 2)
    if cookie == _WITHOUT_RUNS or count >= _OFFSETS_FROM:
        cursor.take(4 * count)
    return [
        (key << 16) | _read_container(cursor, rows=int(less_one) + 1, is_run=bool(len(is_run) and is_run[at]))
        for at, (key, less_one) in enumerate(heads)
    ]


def _read_container(cursor: _Cursor, *, rows: int, is_run: bool) -> npt.NDArray[np.int64]:
    if is_run:
        runs = cursor.array(2 * cursor.number("<H"), "<u2").reshape(-1, 2)
        found = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(np.arange(start, start + more + 1) for start, more in runs)]
        )
    elif rows <= _ARRAY_MAX:
        return cursor.array(rows, "<u2")
    else:
        bits = np.unpackbits(np.frombuffer(cursor.take(_BITMAP_BYTES), dtype=np.uint8), bitorder="little")
        found = np.flatnonzero(bits).astype(np.int64)
    if len(found) != rows:
        raise ValueError(f"a container has {len(found)} numbers and says {rows}")
    return found

"""What an entry says, as numbers: where its key lives, and since which commit.

    location    0: the key is gone; n: entry n - 1 of the file's places, which are pairs of partition path and file id
    instant     only in files with a table of instants. 0: settled, which no rollback can undo any more; n: entry n - 1

In the file they are one or two varints of seven bits a byte, lowest first: the value of the HFile's entry.

Touches: nothing.
Keeps:   what is decoded names places and instants that are there, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import I32, I32_IN, U8, U8_IN, kernel, types

Codes = npt.NDArray[np.int32]

GONE: Final = 0
SETTLED: Final = 0

_VARINT_BYTES_MAX = 5
_NO_CODES = np.zeros(0, dtype=np.int32)


class CodeTable:
    """Tuples of text by their codes, which are given as they come, from 1 on. None is code 0."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._codes: dict[tuple[str | None, ...], int] = {(None,) * columns: 0}

    def __len__(self) -> int:
        return len(self._codes) - 1

    def codes(self, *columns: pa.Array) -> Codes:
        """The code of each row; columns are text, and null together. An array for each column of the table."""
        assert len(columns) == self._columns
        encoded = [column.dictionary_encode("encode") for column in columns]
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for column in encoded:
            numbers = numbers * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
        distinct = pa.array(numbers).dictionary_encode()
        firsts = np.empty(len(distinct.dictionary), dtype=np.int64)
        rows = distinct.indices.to_numpy()
        firsts[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
        texts = [column.take(pa.array(firsts)).cast(pa.string()).to_pylist() for column in encoded]
        codes: Codes = self.intern(zip(*texts, strict=True))[rows]
        return codes

    def intern(self, tuples: Iterable[tuple[str | None, ...]]) -> Codes:
        """The code of each tuple."""
        return np.fromiter((self._codes.setdefault(each, len(self._codes)) for each in tuples), dtype=np.int32)

    def texts(self) -> list[pa.Array]:
        """The columns, without code 0."""
        rows = [each for each, code in self._codes.items() if code]
        return [pa.array([row[column] for row in rows], pa.string()) for column in range(self._columns)]


@dataclass(frozen=True, slots=True)
class CodesLimits:
    """How many there are of what codes name."""

    places: int
    instants: int | None
    """None without a table of instants."""


def encode_values(locations: Codes, instants: Codes | None) -> pa.Array:
    """The values of entries, in binary."""
    with_instants = instants is not None
    offsets = np.empty(len(locations) + 1, dtype=np.int32)
    data = np.empty(len(locations) * _VARINT_BYTES_MAX * (2 if with_instants else 1), dtype=np.uint8)
    _encode(locations, instants if instants is not None else _NO_CODES, offsets, data)
    buffers = [pa.py_buffer(offsets), pa.py_buffer(data[: int(offsets[-1])])]
    return pa.Array.from_buffers(pa.binary(), len(locations), [None, *buffers])


def decode_values(values: pa.Array, limits: CodesLimits) -> tuple[Codes, Codes | None] | int:
    """(locations, instants) of entries; or the first entry of which the value is none."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    stored = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    locations = np.empty(len(values), dtype=np.int32)
    instants = np.empty(len(values) if limits.instants is not None else 0, dtype=np.int32)
    wrong = int(_decode(starts, stored, limits.places, limits.instants or 0, locations, instants))
    if wrong >= 0:
        return wrong
    return locations, instants if limits.instants is not None else None


@kernel(types.int64(types.int64, U8, types.int64))
def _put(value: Any, data: Any, at: Any) -> Any:
    while value >= 0x80:
        data[at] = np.uint8(value & 0x7F | 0x80)
        value >>= 7
        at += 1
    data[at] = np.uint8(value)
    return at + 1


@kernel(types.void(I32_IN, I32_IN, I32, U8))
def _encode(locations: Any, instants: Any, offsets: Any, data: Any) -> None:
    """`instants` is empty for values of one varint."""
    at = np.int64(0)
    offsets[0] = 0
    for entry in range(len(locations)):
        at = _put(np.int64(locations[entry]), data, at)
        if len(instants) > 0:
            at = _put(np.int64(instants[entry]), data, at)
        offsets[entry + 1] = np.int32(at)


@kernel(types.int64(U8_IN, types.int64, types.int64))
def _varint_end(data: Any, at: Any, end: Any) -> Any:
    """The end of the varint at this place; -1 where it has no end, or none that a code has."""
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= end:
            return -1
        if data[at + index] < 0x80:
            return at + index + 1
    return -1


@kernel(types.int64(U8_IN, types.int64, types.int64))
def _varint(data: Any, at: Any, end: Any) -> Any:
    value = np.int64(0)
    for index in range(end - at):
        value |= np.int64(data[at + index] & 0x7F) << np.int64(7 * index)
    return value


@kernel(types.int64(I32_IN, U8_IN, types.int64, types.int64, I32, I32))
def _decode(offsets: Any, data: Any, places: Any, instants_max: Any, locations: Any, instants: Any) -> Any:
    """The first entry whose value is broken, or -1. `instants` is empty where values have one varint."""
    for entry in range(len(locations)):
        at, end = np.int64(offsets[entry]), np.int64(offsets[entry + 1])
        if end - at == 1 and data[at] < 0x80 and len(instants) == 0:  # most entries of most files
            if data[at] > places:
                return entry
            locations[entry] = np.int32(data[at])
            continue
        middle = _varint_end(data, at, end)
        if middle < 0:
            return entry
        location = _varint(data, at, middle)
        if location > places:
            return entry
        locations[entry] = np.int32(location)
        if len(instants) > 0:
            last = _varint_end(data, middle, end)
            if last < 0:
                return entry
            instant = _varint(data, middle, last)
            if instant > instants_max:
                return entry
            instants[entry] = np.int32(instant)
            middle = last
        if middle != end:
            return entry
    return -1

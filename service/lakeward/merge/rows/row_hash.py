"""The hash of each row over all of its columns: two 64-bit lanes, into which one value after the other is folded.

Columns of fixed width, byte strings and dictionaries of these are read where they lie, a few rows of all columns at a
time, so that their lanes stay in the cache. What is nested has its elements hashed first, and these folded.

    row      7 | "a" | null | [1, 2]           lanes   seed . 7 . "a" . null . (2 . hash(1) . hash(2))

Nothing on disk depends on it. It guards against accidents, not adversaries.

Touches: nothing.
Keeps:   1. equal rows have equal hashes, whatever the slicing, offsets, dictionary coding or offset width of their
            arrays, and whatever lies under a null;
         2. a null differs from every value, an empty list from a null one, and neighbours cannot trade bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import load_i32, load_u8, load_u64
from lakeward.base.kernel import BOOL_IN, I64_IN, TWO_U64, U64, U64_IN, kernel, records, types
from lakeward.merge.rows.byte_hash import mix

Words = npt.NDArray[np.uint64]

_FIRST_SEED = np.uint64(0x243F6A8885A308D3)
_SECOND_SEED = np.uint64(0x13198A2E03707344)
_NULL = np.uint64(0xA4093822299F31D0)
_VALUE = np.uint64(0x082EFA98EC4E6C89)

_ROWS_AT_ONCE = 2_048

# What a column is, and so how a value of it is found.
_NULLS, _BITS, _FIXED, _TEXT, _PLACES = range(5)

_COLUMN = np.dtype(
    [
        ("form", np.int64),
        ("width", np.int64),  # bytes of a value, or of a place in a dictionary
        ("offset", np.int64),  # the number of the first value behind the addresses
        ("valid", np.int64),  # address of the validity bits; 0 where no value is null
        ("first", np.int64),  # address of the values, of their offsets, or of their places
        ("second", np.int64),  # address of the bytes of byte strings, or of the dictionary's first lane
        ("third", np.int64),  # address of the dictionary's second lane
    ]
)
_Columns = npt.NDArray[np.void]


@kernel(types.boolean(types.int64, types.int64))
def _has_bit(bits: int, at: int) -> bool:
    byte: int = load_u8(bits + (at >> 3))
    return (byte >> (at & 7)) & 1 != 0


@kernel(types.uint64(types.int64, types.int64))
def _load_bytes(address: int, length: int) -> np.uint64:
    """Fewer than eight bytes as a word."""
    word = np.uint64(0)
    at = 0
    if length >= 4:
        word = np.uint64(load_i32(address) & 0xFFFFFFFF)
        at = 4
    while at < length:
        word |= np.uint64(load_u8(address + at)) << np.uint64(8 * at)
        at += 1
    return word


@kernel(types.int64(types.int64, types.int64))
def _load_signed(address: int, width: int) -> int:
    """The integer of 4 or 8 bytes there."""
    found: Any = load_i32(address) if width == 4 else np.int64(load_u64(address))
    return found  # type: ignore[no-any-return]


@kernel(TWO_U64(types.int64, types.int64, types.uint64, types.uint64))
def _hash_bytes(address: int, length: int, first: np.uint64, second: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Two hashes of so many bytes from two seeds."""
    first = mix(first, np.uint64(length))
    second = mix(second, np.uint64(length))
    end = address + length
    while address + 8 <= end:
        word = load_u64(address)
        first = mix(first, word)
        second = mix(second, word)
        address += 8
    if address < end:
        word = _load_bytes(address, end - address)
        first = mix(first, word)
        second = mix(second, word)
    return first, second


@kernel(types.void(records(_COLUMN), types.int64, U64, U64, types.int64, types.int64))
def _mix_fixed(columns: _Columns, number: int, first: Words, second: Words, start: int, end: int) -> None:
    """Values of any width, as one or more words; of bits, the word is 0 or 1."""
    column = columns[number]
    form, width, valid = column["form"], column["width"], column["valid"]
    at = column["offset"] + start
    for i in range(start, end):
        if form == _NULLS or (valid != 0 and not _has_bit(valid, at)):
            for _ in range(0, width, 8):
                first[i] = mix(first[i], _NULL)
                second[i] = mix(second[i], _NULL)
        elif form == _BITS:
            word = np.uint64(_has_bit(column["first"], at))
            first[i] = mix(first[i] ^ _VALUE, word)
            second[i] = mix(second[i] ^ _VALUE, word)
        else:
            value = column["first"] + at * width
            for done in range(0, width, 8):
                word = load_u64(value + done) if done + 8 <= width else _load_bytes(value + done, width - done)
                first[i] = mix(first[i] ^ _VALUE, word)
                second[i] = mix(second[i] ^ _VALUE, word)
        at += 1


@kernel(types.void(records(_COLUMN), types.int64, U64, U64, types.int64, types.int64))
def _mix_texts(columns: _Columns, number: int, first: Words, second: Words, start: int, end: int) -> None:
    """Byte strings between offsets of `width` bytes."""
    column = columns[number]
    width, valid, data = column["width"], column["valid"], column["second"]
    at = column["offset"] + start
    begin = _load_signed(column["first"] + at * width, width)
    for i in range(start, end):
        stop = _load_signed(column["first"] + (at + 1) * width, width)
        if valid != 0 and not _has_bit(valid, at):
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
        else:
            one, two = _hash_bytes(data + begin, stop - begin, _FIRST_SEED, _SECOND_SEED)
            first[i] = mix(first[i] ^ _VALUE, one)
            second[i] = mix(second[i] ^ _VALUE, two)
        begin = stop
        at += 1


@kernel(types.void(records(_COLUMN), types.int64, U64, U64, types.int64, types.int64))
def _mix_places(columns: _Columns, number: int, first: Words, second: Words, start: int, end: int) -> None:
    """Byte strings of a dictionary, whose lanes lie ready."""
    column = columns[number]
    valid = column["valid"]
    at = column["offset"] + start
    for i in range(start, end):
        if valid != 0 and not _has_bit(valid, at):
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
        else:
            place = 8 * load_i32(column["first"] + 4 * at)
            first[i] = mix(first[i] ^ _VALUE, load_u64(column["second"] + place))
            second[i] = mix(second[i] ^ _VALUE, load_u64(column["third"] + place))
        at += 1


@kernel(types.void(records(_COLUMN), U64, U64))
def _mix_columns(columns: _Columns, first: Words, second: Words) -> None:
    """Fold all columns into the lanes of all rows."""
    for start in range(0, len(first), _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, len(first))
        for number in range(len(columns)):
            form = columns[number]["form"]
            if form == _TEXT:
                _mix_texts(columns, number, first, second, start, end)
            elif form == _PLACES:
                _mix_places(columns, number, first, second, start, end)
            else:
                _mix_fixed(columns, number, first, second, start, end)


@kernel(types.void(records(_COLUMN), U64, U64))
def _hash_texts(columns: _Columns, first: Words, second: Words) -> None:
    """The two hashes of each byte string of the first column, none of which is null."""
    column = columns[0]
    width, data = column["width"], column["second"]
    at = column["first"] + column["offset"] * width
    for i in range(len(first)):
        begin = _load_signed(at, width)
        at += width
        first[i], second[i] = _hash_bytes(data + begin, _load_signed(at, width) - begin, _FIRST_SEED, _SECOND_SEED)


@kernel(types.void(U64, U64, U64_IN, U64_IN, I64_IN, BOOL_IN))
def _mix_lists(
    first: Words,
    second: Words,
    first_elements: Words,
    second_elements: Words,
    offsets: npt.NDArray[np.int64],
    valid: npt.NDArray[np.bool_],
) -> None:
    """Fold a run of element hashes per row: `elements[offsets[i]:offsets[i + 1]]`.

    `valid` is empty where no row is null.
    """
    for i in range(len(first)):
        if len(valid) > 0 and not valid[i]:
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
            continue
        length = np.uint64(offsets[i + 1] - offsets[i])
        one = mix(first[i] ^ _VALUE, length)
        two = mix(second[i] ^ _VALUE, length)
        for j in range(offsets[i], offsets[i + 1]):
            one = mix(one, first_elements[j])
            two = mix(two, second_elements[j])
        first[i] = one
        second[i] = two


@dataclass(frozen=True, slots=True)
class RowHashes:
    """Two hashes of each row, changed in place while columns are folded in."""

    first: Words
    second: Words

    @staticmethod
    def of(rows: int, columns: Iterable[pa.Array]) -> RowHashes:
        """The hashes of so many rows over these columns, in their order."""
        hashes = RowHashes(np.full(rows, _FIRST_SEED, np.uint64), np.full(rows, _SECOND_SEED, np.uint64))
        if rows == 0:
            return hashes
        with np.errstate(over="ignore"):  # unsigned arithmetic wraps by intent; only uncompiled kernels warn
            hashes._mix(columns)
        return hashes

    def _mix(self, columns: Iterable[pa.Array]) -> None:
        flat = _FlatColumns()
        for column in columns:
            if pa.types.is_nested(column.type):
                flat.mix_into(self)
                self._mix_nested(column)
                flat = _FlatColumns()
            else:
                flat.add(column)
        flat.mix_into(self)

    def _mix_nested(self, array: pa.Array) -> None:
        if pa.types.is_struct(array.type):
            # What a field holds under a null struct is garbage, so its hash is folded in under the struct's nulls.
            fields = [array.field(number) for number in range(array.type.num_fields)]
            offsets = np.arange(len(array) + 1, dtype=np.int64)
        else:
            width = np.int64 if pa.types.is_large_list(array.type) else np.int32
            offsets = np.frombuffer(array.buffers()[1], dtype=width)[array.offset :][: len(array) + 1].astype(np.int64)
            fields = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
            fields = [field.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) for field in fields]
            offsets -= offsets[0]
        elements = RowHashes.of(int(offsets[-1]), fields)
        valid = np.asarray(array.is_valid()) if array.null_count else np.zeros(0, dtype=np.bool_)
        _mix_lists(self.first, self.second, elements.first, elements.second, offsets, valid)


class _FlatColumns:
    """Neighbours that hold no lists, structs or maps, and what must stay where it lies until they are folded."""

    def __init__(self) -> None:
        self._columns: list[tuple[int, ...]] = []
        self._kept: list[object] = []

    def add(self, array: pa.Array) -> None:
        second = third = 0
        if pa.types.is_dictionary(array.type):
            if not _has_lanes(array):
                array = array.dictionary_decode()
            else:
                second, third = self._hash_dictionary(array.dictionary)
        self._kept.append(array)
        self._columns.append(_describe(array, second, third))

    def mix_into(self, hashes: RowHashes) -> None:
        if self._columns:
            _mix_columns(np.array(self._columns, dtype=_COLUMN), hashes.first, hashes.second)

    def _hash_dictionary(self, values: pa.Array) -> tuple[int, int]:
        """The addresses of the two lanes."""
        lanes = np.empty((2, len(values)), dtype=np.uint64)
        _hash_texts(np.array([_describe(values)], dtype=_COLUMN), lanes[0], lanes[1])
        self._kept.append(lanes)
        return lanes[0].ctypes.data, lanes[1].ctypes.data


def _has_lanes(array: pa.DictionaryArray) -> bool:
    """True where hashing a dictionary's values once costs less than those of all rows."""
    values = array.dictionary
    is_plain = array.indices.type == pa.int32() and values.null_count == 0
    return bool(is_plain and _offset_width(values.type) and 0 < len(values) <= len(array))


def _describe(array: pa.Array, second: int = 0, third: int = 0) -> tuple[int, ...]:
    """The array as a `_COLUMN`."""
    kind = array.type
    if pa.types.is_null(kind):
        return (_NULLS, 1, 0, 0, 0, 0, 0)
    buffers = array.buffers()
    valid = buffers[0].address if array.null_count else 0
    first = 0 if buffers[1] is None else buffers[1].address
    if pa.types.is_dictionary(kind):
        return (_PLACES, 4, array.offset, valid, first, second, third)
    width = _offset_width(kind)
    if width:
        data = 0 if buffers[2] is None else buffers[2].address
        return (_TEXT, width, array.offset, valid, first, data, 0)
    if pa.types.is_boolean(kind):
        return (_BITS, 1, array.offset, valid, first, 0, 0)
    return (_FIXED, kind.bit_width // 8, array.offset, valid, first, 0, 0)


def _offset_width(kind: pa.DataType) -> int:
    """Bytes of the offsets of byte strings; 0 for what is none."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4
    return 8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 0

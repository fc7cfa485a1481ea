"""A digest of rows that does not depend on their order or on how they were cut into batches.

Each row is hashed to two 64-bit lanes over all of its columns; the lanes of all rows are summed, wrapping. A row can be
hashed where it is read and bring its lanes along as two more columns: then the digest of the rows that come out of a
merge is that of rows that were read, and what mixed up their columns on the way is found out.

Two streams with equal sums hold the same rows, but for accidents of one in 2**128 or so. It guards against faults, not
adversaries.

Touches: nothing.
Keeps:   1. equal rows have equal hashes, whatever the slicing, offsets, dictionary coding or offset width of their
            arrays, and whatever lies under a null;
         2. rows that were hashed where they were read have the digest of those rows;
         3. a null differs from every value, an empty list from a null one, and neighbours cannot trade bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.kernel import BOOL_IN, I32_IN, I64_IN, U8_IN, U64, U64_IN, kernel, types
from lakeward.merge.rows.byte_hash import avalanche, byte_buffers, hash_bytes_twice, mix
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD

_FIRST_SEED = np.uint64(0x243F6A8885A308D3)
_SECOND_SEED = np.uint64(0x13198A2E03707344)
_NULL = np.uint64(0xA4093822299F31D0)
_VALUE = np.uint64(0x082EFA98EC4E6C89)

_ROWS_AT_ONCE = 4_096

_Words = npt.NDArray[np.uint64]
_Mask = npt.NDArray[np.bool_]


@kernel(types.void(U64, U64, U64_IN, BOOL_IN))
def _mix_words(first: _Words, second: _Words, words: _Words, valid: _Mask) -> None:
    """Fold one word per row into both lanes; `valid` is empty where no value is null."""
    for i in range(len(first)):
        if len(valid) > 0 and not valid[i]:
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
        else:
            first[i] = mix(first[i] ^ _VALUE, words[i])
            second[i] = mix(second[i] ^ _VALUE, words[i])


@kernel(types.void(U64, U64, U8_IN, I64_IN, BOOL_IN))
def _mix_bytes(
    first: _Words, second: _Words, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], valid: _Mask
) -> None:
    """Fold one byte string per row."""
    for i in range(len(first)):
        if len(valid) > 0 and not valid[i]:
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
        else:
            one, two = hash_bytes_twice(data, offsets[i], offsets[i + 1], _FIRST_SEED, _SECOND_SEED)
            first[i] = mix(first[i] ^ _VALUE, one)
            second[i] = mix(second[i] ^ _VALUE, two)


@kernel(types.void(U8_IN, I64_IN, U64, U64))
def _hash_values(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], first: _Words, second: _Words) -> None:
    """The two words of each value of a dictionary that `_mix_bytes` folds."""
    for i in range(len(first)):
        first[i], second[i] = hash_bytes_twice(data, offsets[i], offsets[i + 1], _FIRST_SEED, _SECOND_SEED)


@kernel(types.void(U64, U64, U64_IN, U64_IN, I32_IN, BOOL_IN))
def _mix_places(
    first: _Words,
    second: _Words,
    first_values: _Words,
    second_values: _Words,
    places: npt.NDArray[np.int32],
    valid: _Mask,
) -> None:
    """Fold one value of a dictionary per row."""
    for i in range(len(first)):
        if len(valid) > 0 and not valid[i]:
            first[i] = mix(first[i], _NULL)
            second[i] = mix(second[i], _NULL)
        else:
            first[i] = mix(first[i] ^ _VALUE, first_values[places[i]])
            second[i] = mix(second[i] ^ _VALUE, second_values[places[i]])


@kernel(types.void(U64, U64, U64_IN, U64_IN, I64_IN, BOOL_IN))
def _mix_lists(
    first: _Words,
    second: _Words,
    first_elements: _Words,
    second_elements: _Words,
    offsets: npt.NDArray[np.int64],
    valid: _Mask,
) -> None:
    """Fold a run of element hashes per row: `elements[offsets[i]:offsets[i + 1]]`."""
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


@kernel(types.uint64(U64_IN))
def _sum(rows: _Words) -> np.uint64:
    total = np.uint64(0)
    for i in range(len(rows)):
        total += avalanche(rows[i])
    return total


_HASHES = (pa.field("lakeward hash one", pa.uint64()), pa.field("lakeward hash two", pa.uint64()))
_HASH_NAMES = [field.name for field in _HASHES]
_FILE_NAME = frozenset((FILE_NAME_FIELD,))


def hashed_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of rows that bring their hashes along."""
    return pa.schema([*schema, *_HASHES])


def with_hashes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their hashes, over every column but the file's name, in the `hashed_schema`."""
    parts = [_row_lanes(batch.slice(start, _ROWS_AT_ONCE)) for start in range(0, batch.num_rows, _ROWS_AT_ONCE)]
    empty = np.zeros(0, dtype=np.uint64)
    first = pa.array(np.concatenate([empty, *(part.first for part in parts)]))
    second = pa.array(np.concatenate([empty, *(part.second for part in parts)]))
    return pa.RecordBatch.from_arrays([*batch.columns, first, second], schema=hashed_schema(batch.schema))


def hash_again(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows, if they bring hashes along with new ones at these places, where values have changed."""
    if _HASH_NAMES[0] not in batch.schema.names:
        return batch
    chosen = np.unique(places)
    changed = with_hashes(batch.take(pa.array(chosen)).drop_columns(_HASH_NAMES))
    columns = list(batch.columns)
    for name in _HASH_NAMES:
        hashes = batch.column(name).to_numpy(zero_copy_only=False).copy()
        hashes[chosen] = changed.column(name).to_numpy(zero_copy_only=False)
        columns[batch.schema.get_field_index(name)] = pa.array(hashes)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class Digest:
    """The digest of all rows of all batches given to `update`, over every column but `without`."""

    def __init__(self, *, without: Collection[str] = _FILE_NAME) -> None:
        self._without = frozenset(without)
        self._first = 0
        self._second = 0
        self.rows = 0

    def take_hashes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add rows by the hashes that they brought along; the rows without these."""
        first, second = (batch.column(name).to_numpy(zero_copy_only=False) for name in _HASH_NAMES)
        self._add(_Lanes(first, second))
        self.rows += batch.num_rows
        return batch.drop_columns(_HASH_NAMES)

    def update(self, batch: pa.RecordBatch) -> None:
        # Few rows at a time: their hashes then stay in the cache from column to column.
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            self._add(_row_lanes(batch.slice(start, _ROWS_AT_ONCE), without=self._without))
        self.rows += batch.num_rows

    @property
    def hexdigest(self) -> str:
        return f"{self._first:016x}{self._second:016x}"

    def _add(self, rows: _Lanes) -> None:
        with np.errstate(over="ignore"):  # unsigned arithmetic wraps by intent; only uncompiled kernels warn
            self._first = (self._first + int(_sum(rows.first))) % 2**64
            self._second = (self._second + int(_sum(rows.second))) % 2**64


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Two hashes per row, changed in place."""

    first: _Words
    second: _Words

    @staticmethod
    def start(rows: int) -> _Lanes:
        return _Lanes(np.full(rows, _FIRST_SEED, dtype=np.uint64), np.full(rows, _SECOND_SEED, dtype=np.uint64))

    def mix_words(self, words: _Words, valid: _Mask) -> None:
        _mix_words(self.first, self.second, words, valid)


def _row_lanes(batch: pa.RecordBatch, *, without: Collection[str] = _FILE_NAME) -> _Lanes:
    with np.errstate(over="ignore"):
        rows = _Lanes.start(batch.num_rows)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in without:
                _mix_array(rows, column)
    return rows


def _mix_array(rows: _Lanes, array: pa.Array) -> None:
    kind = array.type
    if pa.types.is_dictionary(kind):
        _mix_dictionary(rows, array)
    elif pa.types.is_null(kind):
        rows.mix_words(np.zeros(len(array), dtype=np.uint64), np.zeros(len(array), dtype=np.bool_))
    elif pa.types.is_struct(kind):
        _mix_struct(rows, array, _valid(array))
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _mix_list(rows, array, _valid(array))
    elif _is_byte_string(kind):
        offsets, data = byte_buffers(array)
        _mix_bytes(rows.first, rows.second, data, offsets, _valid(array))
    else:
        valid = _valid(array)
        for words in _words(array):
            rows.mix_words(words, valid)


def _mix_dictionary(rows: _Lanes, array: pa.DictionaryArray) -> None:
    values = array.dictionary
    if not _is_byte_string(values.type) or values.null_count or array.indices.type != pa.int32():
        _mix_array(rows, array.dictionary_decode())
        return
    first, second = np.empty(len(values), dtype=np.uint64), np.empty(len(values), dtype=np.uint64)
    offsets, data = byte_buffers(values)
    _hash_values(data, offsets, first, second)
    places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    _mix_places(rows.first, rows.second, first, second, places, _valid(array))


def _mix_struct(rows: _Lanes, array: pa.Array, valid: _Mask) -> None:
    # What a field holds under a null struct is garbage, so its hash is folded in under the struct's nulls.
    fields = _Lanes.start(len(array))
    for number in range(array.type.num_fields):
        _mix_array(fields, array.field(number))
    one_each = np.arange(len(array) + 1, dtype=np.int64)
    _mix_lists(rows.first, rows.second, fields.first, fields.second, one_each, valid)


def _mix_list(rows: _Lanes, array: pa.Array, valid: _Mask) -> None:
    if len(array) == 0:
        return
    width = np.int64 if pa.types.is_large_list(array.type) else np.int32
    offsets = np.frombuffer(array.buffers()[1], dtype=width)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        children = [array.keys.slice(first, last - first), array.items.slice(first, last - first)]
    else:
        children = [array.values.slice(first, last - first)]
    elements = _Lanes.start(last - first)
    for child in children:
        _mix_array(elements, child)
    _mix_lists(rows.first, rows.second, elements.first, elements.second, offsets.astype(np.int64) - first, valid)


def _valid(array: pa.Array) -> _Mask:
    """Which values are not null; empty where none is."""
    if array.null_count == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _words(array: pa.Array) -> list[_Words]:
    """The values of a fixed-width array as one or more words each."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array, kind = array.cast(pa.uint8()), pa.uint8()
    width = kind.bit_width // 8
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return [np.zeros(len(array), dtype=np.uint64)]
    if width in (1, 2, 4, 8):
        values = np.frombuffer(buffer, dtype=f"u{width}", count=array.offset + len(array))[array.offset :]
        return [values.astype(np.uint64)]
    data = np.frombuffer(buffer, dtype=np.uint8, count=(array.offset + len(array)) * width)
    table = data[array.offset * width :].reshape(len(array), width)
    if width % 8:
        table = np.pad(table, ((0, 0), (0, 8 - width % 8)))
    words = np.ascontiguousarray(table).view(np.uint64)
    return [np.ascontiguousarray(words[:, number]) for number in range(words.shape[1])]


def _is_byte_string(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )

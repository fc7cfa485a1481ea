"""Rows of several batches, put together in any order: column by column, the bytes of each value copied once.

Neighbours that stay neighbours are copied as one piece. Columns of fixed width and byte strings go through kernels over
the addresses of all batches; the others (lists, structs, maps) are taken by the library, and joined.

    batches   0: a b c   1: x y         numbers 0 1 1 0        a x y c
                                        places  0 0 1 2

Touches: nothing.
Keeps:   1. the rows are those that were asked for, in that order, whatever the offsets of the arrays, and whatever lies
            under a null;
         2. a column of dictionaries stays one; it has one dictionary in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import copy_bytes, load_i32, load_u8
from lakeward.base.kernel import I32, I64, I64_IN, U8, kernel, types

Numbers = npt.NDArray[np.int64]

_TEXT_BYTES_MAX = 2**31 - 1


@kernel(types.int64(I64_IN, I64_IN, I64, I64, I64))
def _find_pieces(numbers: Numbers, places: Numbers, batches: Numbers, starts: Numbers, ends: Numbers) -> int:
    """Neighbours that stay neighbours as pieces: batch, place, and where each ends in the result. Returns how many."""
    count = 0
    for i in range(len(numbers)):
        if count > 0 and batches[count - 1] == numbers[i] and places[i] == places[i - 1] + 1:
            ends[count - 1] = i + 1
            continue
        batches[count] = numbers[i]
        starts[count] = places[i]
        ends[count] = i + 1
        count += 1
    return count


@kernel(types.void(I64_IN, I64_IN, I64_IN, I64_IN, types.int64, types.int64))
def _gather_fixed(values: Numbers, batches: Numbers, starts: Numbers, ends: Numbers, width: int, target: int) -> None:
    """Copy values of `width` bytes; `values` has the address of each batch's first one."""
    row = 0
    for i in range(len(batches)):
        length = ends[i] - row
        source = values[batches[i]] + starts[i] * width
        if length == 1 and width == 8:
            copy_bytes(target + row * 8, source, 8)
        elif length == 1 and width == 4:
            copy_bytes(target + row * 4, source, 4)
        else:
            copy_bytes(target + row * width, source, length * width)
        row = ends[i]


@kernel(types.int64(I64_IN, I64_IN, I64_IN, I64_IN, I32))
def _gather_offsets(
    offsets: Numbers, batches: Numbers, starts: Numbers, ends: Numbers, out: npt.NDArray[np.int32]
) -> int:
    """The offsets of the gathered byte strings; the length of all."""
    row = 0
    total = 0
    out[0] = 0
    for i in range(len(batches)):
        at = offsets[batches[i]] + starts[i] * 4
        before = load_i32(at) - total
        while row < ends[i]:
            at += 4
            total = load_i32(at) - before
            row += 1
            out[row] = total
    return total


@kernel(types.void(I64_IN, I64_IN, I64_IN, I64_IN, I64_IN, types.int64))
def _gather_bytes(
    offsets: Numbers, data: Numbers, batches: Numbers, starts: Numbers, ends: Numbers, target: int
) -> None:
    """Copy the bytes of the strings of each piece, which lie one behind the other."""
    row = 0
    for i in range(len(batches)):
        at = offsets[batches[i]] + starts[i] * 4
        first = load_i32(at)
        length = load_i32(at + 4 * (ends[i] - row)) - first
        copy_bytes(target, data[batches[i]] + first, length)
        target += length
        row = ends[i]


@kernel(types.int64(I64_IN, I64_IN, I64_IN, I64_IN, I64_IN, U8))
def _gather_bits(
    bitmaps: Numbers, offsets: Numbers, batches: Numbers, starts: Numbers, ends: Numbers, out: npt.NDArray[np.uint8]
) -> int:
    """Gather bits, 1 where a bitmap is at 0, into zeros; how many of them are 0."""
    row = 0
    zeros = 0
    for i in range(len(batches)):
        bitmap = bitmaps[batches[i]]
        bit = offsets[batches[i]] + starts[i]
        while row < ends[i]:
            if bitmap == 0 or (load_u8(bitmap + (bit >> 3)) >> (bit & 7)) & 1 != 0:
                out[row >> 3] |= np.uint8(1 << (row & 7))
            else:
                zeros += 1
            bit += 1
            row += 1
    return zeros


@dataclass(frozen=True)
class _Pieces:
    """Rows of the result, as pieces of batches."""

    batches: Numbers
    starts: Numbers
    ends: Numbers
    numbers: Numbers
    places: Numbers

    @property
    def rows(self) -> int:
        return len(self.places)

    @staticmethod
    def of(numbers: Numbers, places: Numbers) -> _Pieces:
        batches, starts, ends = (np.empty(len(numbers), dtype=np.int64) for _ in range(3))
        count = int(_find_pieces(numbers, places, batches, starts, ends))
        return _Pieces(batches[:count], starts[:count], ends[:count], numbers, places)

    @cached_property
    def _order(self) -> Numbers:
        """The rows in the order of their batches."""
        return np.argsort(self.numbers, kind="stable")

    @cached_property
    def by_batch(self) -> list[tuple[int, Numbers]]:
        """(number of a batch, places in it)."""
        if self.rows == 0:
            return []
        numbers, places = self.numbers[self._order], self.places[self._order]
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        return [(int(numbers[first]), part) for first, part in zip(firsts, np.split(places, firsts[1:]), strict=True)]

    @cached_property
    def back(self) -> Numbers:
        """The place of each row when those of the batches lie one behind the other."""
        back = np.empty(self.rows, dtype=np.int64)
        back[self._order] = np.arange(self.rows)
        return back


class _Column:
    """One column of all batches."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = arrays
        self.kind = arrays[0].type
        buffers = [array.buffers() for array in arrays]
        self._offsets = np.array([array.offset for array in arrays], dtype=np.int64)
        has_nulls = [array.null_count > 0 for array in arrays]
        self._has_nulls = any(has_nulls)
        self._bitmaps = _addresses([each[0] if some else None for each, some in zip(buffers, has_nulls, strict=True)])
        self._first = _addresses([each[1] for each in buffers])
        self._second = _addresses([each[2] for each in buffers]) if _is_text(self.kind) else None

    def gather(self, pieces: _Pieces) -> pa.Array:
        valid, nulls = self._bits(self._bitmaps, pieces) if self._has_nulls else (None, 0)
        if pa.types.is_boolean(self.kind):
            return pa.Array.from_buffers(self.kind, pieces.rows, [valid, self._bits(self._first, pieces)[0]], nulls)
        if self._second is not None:
            offsets = pa.allocate_buffer(4 * (pieces.rows + 1))
            at = self._first + 4 * self._offsets
            words = np.frombuffer(offsets, dtype=np.int32)
            total = int(_gather_offsets(at, pieces.batches, pieces.starts, pieces.ends, words))
            assert total <= _TEXT_BYTES_MAX, total
            data = pa.allocate_buffer(total)
            _gather_bytes(at, self._second, pieces.batches, pieces.starts, pieces.ends, data.address)
            return pa.Array.from_buffers(self.kind, pieces.rows, [valid, offsets, data], nulls)
        width = self.kind.bit_width // 8
        values = pa.allocate_buffer(width * pieces.rows)
        at = self._first + width * self._offsets
        _gather_fixed(at, pieces.batches, pieces.starts, pieces.ends, width, values.address)
        return pa.Array.from_buffers(self.kind, pieces.rows, [valid, values], nulls)

    def _bits(self, bitmaps: Numbers, pieces: _Pieces) -> tuple[pa.Buffer, int]:
        """(the gathered bits, how many are 0)."""
        bits = np.zeros((pieces.rows + 7) // 8, dtype=np.uint8)
        zeros = _gather_bits(bitmaps, self._offsets, pieces.batches, pieces.starts, pieces.ends, bits)
        return pa.py_buffer(bits), int(zeros)


class RowSources:
    """Batches of one schema, to gather rows of as often as one likes."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        assert batches
        self._batches = batches
        self._columns: dict[int, _Column] = {}
        self._dictionaries: dict[int, pa.Array] = {}

    def gather(self, numbers: Numbers, places: Numbers) -> pa.RecordBatch:
        """The rows at the places of the batches that have these numbers.

        Raises `AssertionError` where a column of byte strings would have more than 2 GiB.
        """
        schema = self._batches[0].schema
        pieces = _Pieces.of(numbers, places)
        columns = [self._gather(index, field.type, pieces) for index, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _gather(self, index: int, kind: pa.DataType, pieces: _Pieces) -> pa.Array:
        if pa.types.is_dictionary(kind):
            return self._gather_dictionary(index, kind, pieces)
        if not (_is_text(kind) or _is_fixed(kind)):
            return self._taken(index, pieces)
        if index not in self._columns:
            self._columns[index] = _Column([batch.column(index) for batch in self._batches])
        return self._columns[index].gather(pieces)

    def _gather_dictionary(self, index: int, kind: pa.DataType, pieces: _Pieces) -> pa.Array:
        if index not in self._columns:
            chunks = pa.chunked_array([batch.column(index) for batch in self._batches]).unify_dictionaries().chunks
            self._columns[index] = _Column([chunk.indices for chunk in chunks])
            self._dictionaries[index] = chunks[0].dictionary
        return pa.DictionaryArray.from_arrays(self._columns[index].gather(pieces), self._dictionaries[index])

    def _taken(self, index: int, pieces: _Pieces) -> pa.Array:
        parts = [self._batches[number].column(index).take(pa.array(places)) for number, places in pieces.by_batch]
        return (
            pa.concat_arrays(parts).take(pa.array(pieces.back)) if parts else self._batches[0].column(index).slice(0, 0)
        )


def _addresses(buffers: Sequence[pa.Buffer | None]) -> Numbers:
    """The address of each buffer; 0 where there is none."""
    return np.array([0 if buffer is None else buffer.address for buffer in buffers], dtype=np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind))

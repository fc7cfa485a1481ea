"""Encode Arrow columns as Avro binary: batches in, framed records out, no object per value.

The reverse of `format/avro/decoder.py` over the same flat program of a schema. The columns of a batch are laid into one
heap, three places per node (validity bytes, values, string bytes), and a kernel walks the program once per record.
Children of a record have its row number; children of an array or map have a row number of their own, kept on a
small stack. It writes into as many bytes as the records can have at most, by the lengths of the columns.

Touches: nothing but the arrays it is given.
Keeps:   1. what `decode_records` makes of the bytes is the batch again;
         2. a value that cannot be written is an error that names its row;
         3. records go out whole, in order, as many as fit the limit, at least one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.addresses import copy_bytes
from lakeward.base.kernel import I32_IN, I64, I64_IN, U8, U8_IN, kernel, types
from lakeward.format.avro.program import (
    BOOLEAN,
    BYTES,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NO_UNION,
    RECORD,
    REPEATED,
    AvroProgram,
)
from lakeward.format.avro.schema import AvroKind, AvroType

_OK, _NULL_IN_REQUIRED, _DECIMAL_TOO_LARGE, _OTHER_LENGTH, _UNKNOWN_SYMBOL = range(5)
_FAULTS = {
    _NULL_IN_REQUIRED: "it has no value where the schema wants one",
    _DECIMAL_TOO_LARGE: "it holds a decimal that does not fit the bytes of its schema",
    _OTHER_LENGTH: "it holds more or fewer bytes than a fixed of its schema has",
    _UNKNOWN_SYMBOL: "it holds a symbol that the schema does not have",
}
_VALUE_BYTES_MAX = 32
"""A branch, and a number, a decimal, the head of text, or the head and the end of an array."""
_BLOCK = 32
"""Text is copied in blocks of so many bytes, beyond its end, where the next value is written over it."""
_ALL_VALID = -1
"""The mark in place of validity bytes: no value of the node is null."""


class UnwritableRecord(Exception):
    """A row that the Avro schema cannot encode."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(row, why)
        self.row = row
        self.why = why


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one call encoded."""

    data: bytes
    records: int


def encode_records(program: AvroProgram, batch: pa.RecordBatch, *, bytes_max: int, framed: bool = True) -> Encoded:
    """The first records of the batch that fit into `bytes_max` together, but at least one. Raises `UnwritableRecord`.

    The batch's columns are those of the program, with the same types. Each record is led by its int32 length, unless
    not `framed`.
    """
    assert batch.num_rows > 0
    assert batch.schema.names == program.schema.names and batch.schema.types == program.schema.types
    columns = _Heap(program)
    heap, places = columns.fill(batch)
    out = np.empty(columns.encoded_max + (4 * batch.num_rows if framed else 0) + _BLOCK, dtype=np.uint8)
    result = np.zeros(4, dtype=np.int64)
    _encode(
        batch.num_rows,
        bytes_max,
        program.kinds,
        program.null_branches,
        program.ends,
        program.sizes,
        places,
        heap,
        heap.view(np.int32),
        heap.view(np.int64),
        heap.ctypes.data,
        framed,
        np.zeros(3 * len(program.kinds) + 3, dtype=np.int64),
        out,
        out.ctypes.data,
        result,
    )
    row, fault, records, size = (int(value) for value in result)
    if fault != _OK:
        raise UnwritableRecord(row, _FAULTS[fault])
    assert size <= len(out) - _BLOCK
    return Encoded(data=out[:size].tobytes(), records=records)


def write_number(number: int) -> bytes:
    """One int or long."""
    out = np.zeros(10, dtype=np.uint8)
    return out[: int(_put_number(out, 0, _zigzag(number)))].tobytes()


class _Heap:
    """Lays the columns of a batch into one buffer, in the order of the nodes."""

    def __init__(self, program: AvroProgram) -> None:
        self._program = program
        self._parts: list[npt.NDArray[np.uint8]] = []
        self._size = 0
        self._places = np.zeros(3 * len(program.kinds), dtype=np.int64)
        self._node = 0
        self.encoded_max = 0
        """How many bytes the records can have."""

    def fill(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        for column, array in zip(self._program.columns, batch.columns, strict=True):
            self._add(column.type, array)
        assert self._node == len(self._program.kinds)
        heap = np.empty((self._size + _BLOCK) // 8, dtype=np.int64).view(np.uint8)
        at = 0
        for part in self._parts:
            heap[at : at + len(part)] = part
            at += _padded(len(part))
        return heap, self._places

    def _add(self, avro_type: AvroType, array: pa.Array) -> None:
        node = self._node
        self._node += 1
        if avro_type.kind is AvroKind.ENUM:
            array = _numbers_of(array, avro_type.symbols)
        kind = int(self._program.kinds[node])
        self.encoded_max += len(array) * _VALUE_BYTES_MAX
        valid_at = _ALL_VALID if array.null_count == 0 else self._put(_byte_each(array.is_valid()))
        values_at = bytes_at = 0
        children: list[pa.Array] = []
        if kind == RECORD:
            children = [array.field(number) for number in range(array.type.num_fields)]
        elif kind == REPEATED:
            offsets = _offsets(array)
            first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
            values_at = self._put(offsets - offsets[0])
            parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
            children = [part.slice(first, length) for part in parts]
        elif kind == BYTES:
            offsets = _offsets(array)
            values_at = self._put(offsets - offsets[0])
            data = array.buffers()[2]
            text = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
            self.encoded_max += int(offsets[-1] - offsets[0])
            bytes_at = self._put(text[int(offsets[0]) : int(offsets[-1])])
        elif kind == BOOLEAN:
            values_at = self._put(_byte_each(array))
        else:
            values_at = self._put(_fixed_width(array))
        self._places[3 * node : 3 * node + 3] = (valid_at, values_at, bytes_at)
        for child, values in zip(avro_type.children, children, strict=True):
            self._add(child.type, values)

    def _put(self, values: npt.NDArray[Any]) -> int:
        at = self._size
        part = np.ascontiguousarray(values).view(np.uint8)
        self._parts.append(part)
        self._size += _padded(len(part))
        return at


def _numbers_of(array: pa.Array, symbols: tuple[str, ...]) -> pa.Array:
    """The number of each symbol; -1 for what is none, which matters only where it is written."""
    numbers = pc.fill_null(pc.index_in(array, pa.array(symbols, pa.string())), -1)
    return pc.if_else(array.is_valid(), numbers, None)


def _padded(size: int) -> int:
    return (size + 7) // 8 * 8


def _byte_each(array: pa.Array) -> npt.NDArray[np.uint8]:
    numbers: npt.NDArray[np.uint8] = array.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:  # an empty array may have no offsets at all
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def _fixed_width(array: pa.Array) -> npt.NDArray[np.uint8]:
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) * width, dtype=np.uint8)
    return np.frombuffer(buffer, dtype=np.uint8)[array.offset * width : (array.offset + len(array)) * width]


@kernel(types.int64(U8, types.int64, types.uint64))
def _put_number(out: Any, at: Any, number: Any) -> Any:
    """Write the varint; the position behind it."""
    while number >= np.uint64(128):
        out[at] = np.uint8(number & np.uint64(0x7F)) | np.uint8(0x80)
        number >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@kernel(types.uint64(types.int64))
def _zigzag(number: Any) -> Any:
    return np.uint64((number << np.int64(1)) ^ (number >> np.int64(63)))


@kernel(
    types.void(
        types.int64,  # records
        types.int64,  # bytes_max, but for the first record
        I64_IN,  # kinds
        I64_IN,  # null_branches
        I64_IN,  # ends
        I64_IN,  # sizes
        I64_IN,  # places: 3 per node
        U8_IN,  # heap
        I32_IN,  # the same heap
        I64_IN,  # the same heap
        types.int64,  # its address
        types.boolean,  # framed
        I64,  # frames: (node, element, end) of each open array
        U8,  # out
        types.int64,  # its address
        I64,  # result: record, fault; how many records were written, and their bytes
    ),
)
def _encode(
    records: int,
    bytes_max: int,
    kinds: Any,
    null_branches: Any,
    ends: Any,
    sizes: Any,
    places: Any,
    heap: Any,
    heap32: Any,
    heap64: Any,
    heap_address: int,
    framed: bool,
    frames: Any,
    out: Any,
    out_address: int,
    result: Any,
) -> None:
    nodes = len(kinds)
    at = np.int64(0)
    for row in range(records):
        start = at
        if framed:
            at += 4
        node = 0
        open_frames = 0
        while True:
            # Behind the last node of an open array's element: the next element, or the end of the array.
            while open_frames > 0 and node == ends[frames[3 * open_frames - 3]]:
                frames[3 * open_frames - 2] += 1
                if frames[3 * open_frames - 2] < frames[3 * open_frames - 1]:
                    node = frames[3 * open_frames - 3] + 1
                else:
                    out[at] = 0
                    at += 1
                    open_frames -= 1
            if node == nodes:
                break
            slot = np.int64(row)
            if open_frames > 0:
                slot = frames[3 * open_frames - 2]
            kind = kinds[node]
            null_branch = null_branches[node]
            valid_at = places[3 * node]
            is_null = valid_at != _ALL_VALID and heap[valid_at + slot] == 0
            if null_branch != NO_UNION:
                # The branches are two (or one: then none of them is null, and the only one is written).
                branch = null_branch
                if not is_null:
                    branch = np.int64(1) if null_branch == 0 else np.int64(0)
                elif null_branch < 0:
                    result[0], result[1] = row, _NULL_IN_REQUIRED
                    return
                out[at] = np.uint8(2 * branch)
                at += 1
            elif is_null:
                result[0], result[1] = row, _NULL_IN_REQUIRED
                return
            if is_null:
                node = ends[node]
                continue
            values_at = places[3 * node + 1]
            if kind == REPEATED:
                first = np.int64(heap32[values_at // 4 + slot])
                last = np.int64(heap32[values_at // 4 + slot + 1])
                if first == last:
                    out[at] = 0
                    at += 1
                    node = ends[node]
                    continue
                number = _zigzag(last - first)
                at = _put_number(out, at, number)
                frames[3 * open_frames] = node
                frames[3 * open_frames + 1] = first
                frames[3 * open_frames + 2] = last
                open_frames += 1
            elif kind in (INT, LONG):
                if kind == INT:
                    value = np.int64(heap32[values_at // 4 + slot])
                    if sizes[node] > 0 and value < 0:
                        result[0], result[1] = row, _UNKNOWN_SYMBOL
                        return
                    number = _zigzag(value)
                else:
                    number = _zigzag(heap64[values_at // 8 + slot])
                at = _put_number(out, at, number)
            elif kind == BYTES:
                first = np.int64(heap32[values_at // 4 + slot])
                length = np.int64(heap32[values_at // 4 + slot + 1]) - first
                if sizes[node] == 0:
                    number = _zigzag(length)
                    at = _put_number(out, at, number)
                elif length != sizes[node]:
                    result[0], result[1] = row, _OTHER_LENGTH
                    return
                source = heap_address + places[3 * node + 2] + first
                copy_bytes(out_address + at, source, _BLOCK)
                for done in range(_BLOCK, length, _BLOCK):
                    copy_bytes(out_address + at + done, source + done, _BLOCK)
                at += length
            elif kind in (DOUBLE, FLOAT):
                width = 8 if kind == DOUBLE else 4
                # Little-endian in Avro as in Arrow.
                for index in range(width):
                    out[at + index] = heap[values_at + slot * width + index]
                at += width
            elif kind == BOOLEAN:
                out[at] = heap[values_at + slot]
                at += 1
            elif kind in (DECIMAL_FIXED, DECIMAL_BYTES):
                # 16 bytes little-endian become big-endian ones; those in front that repeat the sign can go.
                source = values_at + 16 * slot
                sign = np.uint8(255) if heap[source + 15] >= 128 else np.uint8(0)
                needed = 16
                while (
                    needed > 1
                    and heap[source + needed - 1] == sign
                    and (heap[source + needed - 2] >= 128) == (sign == 255)
                ):
                    needed -= 1
                width = sizes[node]
                if kind == DECIMAL_BYTES:
                    width = needed
                    out[at] = np.uint8(2 * width)
                    at += 1
                elif width < needed:
                    result[0], result[1] = row, _DECIMAL_TOO_LARGE
                    return
                for index in range(width):
                    out[at + index] = heap[source + width - 1 - index]
                at += width
            # A record needs nothing but its branch; its fields come next.
            node += 1
        if at > bytes_max and row > 0:
            return
        if framed:
            length = at - start - 4
            for index in range(4):
                out[start + index] = np.uint8((length >> np.int64(24 - 8 * index)) & np.int64(0xFF))
        result[2], result[3] = row + 1, at

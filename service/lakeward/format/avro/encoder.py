"""Encode Arrow columns as Avro binary: batches in, framed records out, no object per value.

The reverse of `format/avro/decoder.py` over the same flat program of a schema. The columns of a batch are laid into one
heap, three places per node (validity bytes, values, string bytes), and a kernel walks the program once per record.
Children of a record have its row number; children of an array or map have a row number of their own, kept on a
small stack. It walks twice: first to measure every record, then to write into exactly as many bytes.

Touches: nothing but the arrays it is given.
Keeps:   1. what `decode_records` makes of the bytes is the batch again;
         2. the measuring pass finds every value that cannot be written, so the writing pass cannot fail;
         3. records go out whole, in order, as many as fit the limit, at least one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
from lakeward.kernel import I32_IN, I64, I64_IN, U8, U8_IN, kernel, types

_OK, _NULL_IN_REQUIRED, _DECIMAL_TOO_LARGE, _OTHER_LENGTH, _UNKNOWN_SYMBOL = range(5)
_FAULTS = {
    _NULL_IN_REQUIRED: "it has no value where the schema wants one",
    _DECIMAL_TOO_LARGE: "it holds a decimal that does not fit the bytes of its schema",
    _OTHER_LENGTH: "it holds more or fewer bytes than a fixed of its schema has",
    _UNKNOWN_SYMBOL: "it holds a symbol that the schema does not have",
}
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
    heap, places = _Heap(program).fill(batch)
    lengths = np.zeros(batch.num_rows, dtype=np.int64)
    _run(program, heap, places, batch.num_rows, framed, False, lengths, np.zeros(0, dtype=np.uint8))
    ends = np.cumsum(lengths + 4 if framed else lengths)
    records = max(1, int(np.searchsorted(ends, bytes_max, side="right")))
    out = np.empty(int(ends[records - 1]), dtype=np.uint8)
    _run(program, heap, places, records, framed, True, lengths, out)
    return Encoded(data=out.tobytes(), records=records)


def write_number(number: int) -> bytes:
    """One int or long."""
    out = np.zeros(10, dtype=np.uint8)
    return out[: int(_put_number(out, 0, _zigzag(number)))].tobytes()


def _run(
    program: AvroProgram,
    heap: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    records: int,
    framed: bool,
    fill: bool,
    lengths: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    result = np.zeros(2, dtype=np.int64)
    frames = np.zeros(3 * len(program.kinds) + 3, dtype=np.int64)
    _encode(
        records,
        program.kinds,
        program.null_branches,
        program.ends,
        program.sizes,
        places,
        heap,
        heap.view(np.int32),
        heap.view(np.int64),
        framed,
        fill,
        frames,
        lengths,
        out,
        result,
    )
    row, fault = (int(value) for value in result)
    if fault != _OK:
        raise UnwritableRecord(row, _FAULTS[fault])


class _Heap:
    """Lays the columns of a batch into one buffer, in the order of the nodes."""

    def __init__(self, program: AvroProgram) -> None:
        self._program = program
        self._parts: list[npt.NDArray[np.uint8]] = []
        self._size = 0
        self._places = np.zeros(3 * len(program.kinds), dtype=np.int64)
        self._node = 0

    def fill(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        for column, array in zip(self._program.columns, batch.columns, strict=True):
            self._add(column.type, array)
        assert self._node == len(self._program.kinds)
        heap = np.zeros(self._size // 8, dtype=np.int64).view(np.uint8)
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


@kernel(types.int64(types.uint64))
def _number_bytes(number: Any) -> Any:
    """How many bytes the varint of an already zigzagged number has."""
    length = 1
    while number >= np.uint64(128):
        number >>= np.uint64(7)
        length += 1
    return length


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
        I64_IN,  # kinds
        I64_IN,  # null_branches
        I64_IN,  # ends
        I64_IN,  # sizes
        I64_IN,  # places: 3 per node
        U8_IN,  # heap
        I32_IN,  # the same heap
        I64_IN,  # the same heap
        types.boolean,  # framed
        types.boolean,  # fill
        I64,  # frames: (node, element, end) of each open array
        I64,  # lengths of the records: written when measuring, read when filling
        U8,  # out
        I64,  # result: record, fault
    ),
)
def _encode(
    records: int,
    kinds: Any,
    null_branches: Any,
    ends: Any,
    sizes: Any,
    places: Any,
    heap: Any,
    heap32: Any,
    heap64: Any,
    framed: bool,
    fill: bool,
    frames: Any,
    lengths: Any,
    out: Any,
    result: Any,
) -> None:
    nodes = len(kinds)
    at = np.int64(0)
    for row in range(records):
        if fill and framed:
            for index in range(4):
                out[at + index] = np.uint8((lengths[row] >> np.int64(24 - 8 * index)) & np.int64(0xFF))
            at += 4
        start = at
        node = 0
        open_frames = 0
        while True:
            # Behind the last node of an open array's element: the next element, or the end of the array.
            while open_frames > 0 and node == ends[frames[3 * open_frames - 3]]:
                frames[3 * open_frames - 2] += 1
                if frames[3 * open_frames - 2] < frames[3 * open_frames - 1]:
                    node = frames[3 * open_frames - 3] + 1
                else:
                    if fill:
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
                if fill:
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
                    if fill:
                        out[at] = 0
                    at += 1
                    node = ends[node]
                    continue
                number = _zigzag(last - first)
                at = _put_number(out, at, number) if fill else at + _number_bytes(number)
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
                at = _put_number(out, at, number) if fill else at + _number_bytes(number)
            elif kind == BYTES:
                first = np.int64(heap32[values_at // 4 + slot])
                length = np.int64(heap32[values_at // 4 + slot + 1]) - first
                if sizes[node] == 0:
                    number = _zigzag(length)
                    at = _put_number(out, at, number) if fill else at + _number_bytes(number)
                elif length != sizes[node]:
                    result[0], result[1] = row, _OTHER_LENGTH
                    return
                if fill:
                    source = places[3 * node + 2] + first
                    for index in range(length):
                        out[at + index] = heap[source + index]
                at += length
            elif kind in (DOUBLE, FLOAT):
                width = 8 if kind == DOUBLE else 4
                if fill:
                    # Little-endian in Avro as in Arrow.
                    for index in range(width):
                        out[at + index] = heap[values_at + slot * width + index]
                at += width
            elif kind == BOOLEAN:
                if fill:
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
                    if fill:
                        out[at] = np.uint8(2 * width)
                    at += 1
                elif width < needed:
                    result[0], result[1] = row, _DECIMAL_TOO_LARGE
                    return
                if fill:
                    for index in range(width):
                        out[at + index] = heap[source + width - 1 - index]
                at += width
            # A record needs nothing but its branch; its fields come next.
            node += 1
        if not fill:
            lengths[row] = at - start

"""Decode Avro binary straight into Arrow's buffers: framed records in, columns out, no object per value.

The schema is a flat program, one node per type in depth-first order (`program.py`). Records without arrays and maps, of
which every record has one value for each node, are walked once, and their columns filled one after the other
(`flat_records.py`). Of others the kernel here walks the program once per record with a small stack of open arrays and
maps. It runs twice over the same records: first to check every length and to count values and bytes per node, then,
into one heap that is exactly large enough, to fill.

A null record puts a null into every node below it, since Arrow's children are as long as their parent; a null
array or map does not, its children only hold what its elements hold.

Touches: nothing but the arrays it is given.
Keeps:   1. nothing is read outside of a record's own bytes, and each record is used up to its last byte;
         2. the counting pass has checked everything, so the filling pass cannot fail;
         3. an element takes at least one byte, so counts are bounded by bytes before anything is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import I32, I64, I64_IN, U8, U8_IN, kernel, types
from lakeward.format.avro.flat_records import HEAP_TO_SPARE, walk_flat_records
from lakeward.format.avro.program import (
    BAD_BOOLEAN,
    BAD_BRANCH,
    BAD_DECIMAL,
    BAD_LENGTH,
    BAD_SYMBOL,
    BOOLEAN,
    BYTES,
    CUT_SHORT,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    DOUBLE,
    FAULTS,
    FLOAT,
    INT,
    INT_RANGE,
    LEFT_OVER,
    LONG,
    NO_UNION,
    OK,
    RECORD,
    REPEATED,
    WIDTHS,
    AvroProgram,
    BadRecord,
    TooLarge,
    read_number,
)
from lakeward.format.avro.schema import AvroKind, AvroType


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one call decoded."""

    batch: pa.RecordBatch
    bytes_used: int


def decode_records(
    program: AvroProgram, data: npt.NDArray[np.uint8], *, records_max: int, heap_bytes_max: int
) -> Decoded | None:
    """Decode whole records, each led by its int32 length, from the start of `data`.

    As many as `data` holds completely, at most `records_max`, and fewer where their columns would take more than
    `heap_bytes_max`. None when not even one record is complete. Raises `BadRecord`; `TooLarge` where
    the first one alone takes more.
    """
    flat = program.is_flat
    while True:
        found = walk_flat_records(program, data, records_max) if flat else _count(program, data, records_max)
        if found.records == 0:
            return None
        places, size = _place(program, found.lengths, found.byte_lengths)
        if size <= heap_bytes_max:
            break
        if found.records == 1:
            raise TooLarge(size)
        records_max = found.records // 2
    # Arrow's memory: what is held of it is told from what was given back, and is given back to the system.
    heap = np.frombuffer(pa.allocate_buffer(size + HEAP_TO_SPARE), dtype=np.uint8)
    found.fill(places, heap)
    reader = _Columns(program, heap, found.lengths, found.byte_lengths, places)
    batch = pa.RecordBatch.from_arrays([reader.build(column.type) for column in program.columns], schema=program.schema)
    return Decoded(batch=batch, bytes_used=found.bytes_used)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Records that were checked, and what each node will take."""

    program: AvroProgram
    data: npt.NDArray[np.uint8]
    records: int
    bytes_used: int
    lengths: npt.NDArray[np.int64]
    byte_lengths: npt.NDArray[np.int64]

    def fill(self, places: npt.NDArray[np.int64], heap: npt.NDArray[np.uint8]) -> None:
        lengths, byte_lengths = np.zeros_like(self.lengths), np.zeros_like(self.byte_lengths)
        _run(self.program, self.data, self.records, True, lengths, byte_lengths, places, heap)
        assert np.array_equal(self.lengths, lengths) and np.array_equal(self.byte_lengths, byte_lengths)


def _count(program: AvroProgram, data: npt.NDArray[np.uint8], records_max: int) -> _Counted:
    nodes = len(program.kinds)
    lengths = np.zeros(nodes, dtype=np.int64)
    byte_lengths = np.zeros(nodes, dtype=np.int64)
    nothing = np.zeros(0, dtype=np.uint8)
    places = np.zeros(3 * nodes, dtype=np.int64)
    records, used = _run(program, data, records_max, False, lengths, byte_lengths, places, nothing)
    return _Counted(program, data, records, used, lengths, byte_lengths)


def _run(
    program: AvroProgram,
    data: npt.NDArray[np.uint8],
    records_max: int,
    fill: bool,
    lengths: npt.NDArray[np.int64],
    byte_lengths: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    heap: npt.NDArray[np.uint8],
) -> tuple[int, int]:
    result = np.zeros(3, dtype=np.int64)
    frames = np.zeros(2 * len(program.kinds) + 2, dtype=np.int64)
    _decode(
        data,
        records_max,
        program.kinds,
        program.null_branches,
        program.ends,
        program.sizes,
        fill,
        lengths,
        byte_lengths,
        places,
        heap,
        heap.view(np.int32),
        heap.view(np.int64),
        frames,
        result,
    )
    records, used, fault = (int(value) for value in result)
    if fault != OK:
        raise BadRecord(records, FAULTS[fault])
    return records, used


def _place(
    program: AvroProgram,
    lengths: npt.NDArray[np.int64],
    byte_lengths: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], int]:
    """(the places of each node in the heap: validity bytes, values, string bytes; the size of the heap)."""
    places = np.zeros(3 * len(program.kinds), dtype=np.int64)
    at = 0
    for node, kind in enumerate(program.kinds):
        slots = int(lengths[node]) + (1 if kind in (BYTES, REPEATED) else 0)
        for index, size in enumerate((int(lengths[node]), slots * WIDTHS[int(kind)], int(byte_lengths[node]))):
            places[3 * node + index] = at
            at += (size + 7) // 8 * 8
    return places, at


class _Columns:
    """Builds Arrow arrays over the filled heap, walking the schema in the order of the nodes."""

    def __init__(
        self,
        program: AvroProgram,
        heap: npt.NDArray[np.uint8],
        lengths: npt.NDArray[np.int64],
        byte_lengths: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
    ) -> None:
        self._program = program
        self._heap = heap
        self._lengths = lengths
        self._byte_lengths = byte_lengths
        self._places = places
        self._node = 0

    def build(self, avro_type: AvroType) -> pa.Array:
        node = self._node
        self._node += 1
        length = int(self._lengths[node])
        kind = int(self._program.kinds[node])
        valid_at, values_at, bytes_at = (int(place) for place in self._places[3 * node : 3 * node + 3])
        valid = self._heap[valid_at : valid_at + length]
        nulls = length - int(np.count_nonzero(valid))
        validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        children = [self.build(child.type) for child in avro_type.children]
        slots = length + (1 if kind in (BYTES, REPEATED) else 0)
        values = self._heap[values_at : values_at + slots * WIDTHS[kind]]
        arrow = avro_type.arrow
        if kind == RECORD:
            return pa.Array.from_buffers(arrow, length, [validity], nulls, children=children)
        if kind == BOOLEAN:
            packed = pa.py_buffer(np.packbits(values, bitorder="little"))
            return pa.Array.from_buffers(arrow, length, [validity, packed], nulls)
        if kind == BYTES:
            text = pa.py_buffer(self._heap[bytes_at : bytes_at + int(self._byte_lengths[node])])
            return pa.Array.from_buffers(arrow, length, [validity, pa.py_buffer(values), text], nulls)
        if avro_type.kind is AvroKind.ENUM:
            numbers = pa.Array.from_buffers(pa.int32(), length, [validity, pa.py_buffer(values)], nulls)
            return pa.array(avro_type.symbols, pa.string()).take(numbers)
        if avro_type.kind is AvroKind.MAP:
            entries = pa.StructArray.from_arrays(
                children, fields=[pa.field("key", arrow.key_type, nullable=False), arrow.item_field]
            )
            children = [entries]
        return pa.Array.from_buffers(arrow, length, [validity, pa.py_buffer(values)], nulls, children=children or None)


@kernel(
    types.void(
        U8_IN,  # data
        types.int64,  # records_max
        I64_IN,  # kinds
        I64_IN,  # null_branches
        I64_IN,  # ends
        I64_IN,  # sizes
        types.boolean,  # fill
        I64,  # lengths: values per node so far
        I64,  # byte_lengths: string bytes per node so far
        I64_IN,  # places: 3 per node
        U8,  # heap
        I32,  # the same heap
        I64,  # the same heap
        I64,  # frames: (node, elements left) of each open array
        I64,  # result: records, bytes used, fault
    ),
)
def _decode(
    data: Any,
    records_max: int,
    kinds: Any,
    null_branches: Any,
    ends: Any,
    sizes: Any,
    fill: bool,
    lengths: Any,
    byte_lengths: Any,
    places: Any,
    heap: Any,
    heap32: Any,
    heap64: Any,
    frames: Any,
    result: Any,
) -> None:
    nodes = len(kinds)
    data_end = np.int64(len(data))
    if fill:
        for node in range(nodes):
            if kinds[node] == BYTES or kinds[node] == REPEATED:
                heap32[places[3 * node + 1] // 4] = 0
    start = np.int64(0)
    records = 0
    while records < records_max and start + 4 <= data_end:
        record_length = (
            (np.int64(data[start]) << np.int64(24))
            | (np.int64(data[start + 1]) << np.int64(16))
            | (np.int64(data[start + 2]) << np.int64(8))
            | np.int64(data[start + 3])
        )
        at = start + 4
        if record_length >= np.int64(0x80000000):
            result[0], result[2] = records, BAD_LENGTH
            return
        end = at + record_length
        if end > data_end:
            break
        node = 0
        open_frames = 0
        while True:
            # Behind the last node of an open array's element: the next element, the next run of elements, or its end.
            while open_frames > 0 and node == ends[frames[2 * open_frames - 2]]:
                array = frames[2 * open_frames - 2]
                left = frames[2 * open_frames - 1] - 1
                if left <= 0:
                    left, at = read_number(data, at, end)
                    if at < 0:
                        result[0], result[2] = records, -at
                        return
                    if left < 0:
                        # A negative count is followed by the run's bytes, which only serve skipping.
                        if left < at - end:
                            result[0], result[2] = records, BAD_LENGTH
                            return
                        left = -left
                        _skipped, at = read_number(data, at, end)
                        if at < 0:
                            result[0], result[2] = records, -at
                            return
                    if left < 0 or left > end - at:
                        result[0], result[2] = records, BAD_LENGTH
                        return
                    if left == 0:
                        slot = lengths[array]
                        lengths[array] = slot + 1
                        if fill:
                            heap32[places[3 * array + 1] // 4 + slot + 1] = np.int32(lengths[array + 1])
                        open_frames -= 1
                        continue
                frames[2 * open_frames - 1] = left
                node = array + 1
            if node == nodes:
                break
            kind = kinds[node]
            slot = lengths[node]
            null_branch = null_branches[node]
            is_null = False
            if null_branch != NO_UNION:
                branch, at = read_number(data, at, end)
                if at < 0:
                    result[0], result[2] = records, -at
                    return
                if branch < 0 or branch > (0 if null_branch == -1 else 1):
                    result[0], result[2] = records, BAD_BRANCH
                    return
                is_null = branch == null_branch
            if is_null:
                below = node
                subtree_end = ends[node]
                while below < subtree_end:
                    below_kind = kinds[below]
                    below_slot = lengths[below]
                    lengths[below] = below_slot + 1
                    if fill:
                        heap[places[3 * below] + below_slot] = 0
                        values_at = places[3 * below + 1]
                        if below_kind == BYTES:
                            heap32[values_at // 4 + below_slot + 1] = np.int32(byte_lengths[below])
                        elif below_kind == REPEATED:
                            heap32[values_at // 4 + below_slot + 1] = np.int32(lengths[below + 1])
                        elif below_kind == BOOLEAN:
                            heap[values_at + below_slot] = 0
                        elif below_kind in (INT, FLOAT):
                            heap32[values_at // 4 + below_slot] = 0
                        elif below_kind in (LONG, DOUBLE):
                            heap64[values_at // 8 + below_slot] = 0
                        elif below_kind in (DECIMAL_FIXED, DECIMAL_BYTES):
                            heap64[values_at // 8 + 2 * below_slot] = 0
                            heap64[values_at // 8 + 2 * below_slot + 1] = 0
                    below = ends[below] if below_kind == REPEATED else below + 1
                node = subtree_end
                continue
            if fill:
                heap[places[3 * node] + slot] = 1
            values_at = places[3 * node + 1]
            if kind == REPEATED:
                # One element less than one: the loop above reads the first run.
                frames[2 * open_frames] = node
                frames[2 * open_frames + 1] = 1
                open_frames += 1
                node = ends[node]
                continue
            lengths[node] = slot + 1
            if kind in (LONG, INT):
                number, at = read_number(data, at, end)
                if at < 0:
                    result[0], result[2] = records, -at
                    return
                if kind == INT:
                    if number < -2147483648 or number > 2147483647:
                        result[0], result[2] = records, INT_RANGE
                        return
                    if sizes[node] > 0 and (number < 0 or number >= sizes[node]):
                        result[0], result[2] = records, BAD_SYMBOL
                        return
                    if fill:
                        heap32[values_at // 4 + slot] = np.int32(number)
                elif fill:
                    heap64[values_at // 8 + slot] = number
            elif kind == BYTES:
                length = sizes[node]
                if length == 0:
                    length, at = read_number(data, at, end)
                    if at < 0:
                        result[0], result[2] = records, -at
                        return
                if length < 0 or length > end - at:
                    result[0], result[2] = records, BAD_LENGTH
                    return
                used = byte_lengths[node]
                byte_lengths[node] = used + length
                if fill:
                    target = places[3 * node + 2] + used
                    for index in range(length):
                        heap[target + index] = data[at + index]
                    heap32[values_at // 4 + slot + 1] = np.int32(used + length)
                at += length
            elif kind in (DOUBLE, FLOAT):
                width = 8 if kind == DOUBLE else 4
                if end - at < width:
                    result[0], result[2] = records, CUT_SHORT
                    return
                if fill:
                    # Little-endian in Avro as in Arrow.
                    for index in range(width):
                        heap[values_at + slot * width + index] = data[at + index]
                at += width
            elif kind == BOOLEAN:
                if at >= end:
                    result[0], result[2] = records, CUT_SHORT
                    return
                if data[at] > 1:
                    result[0], result[2] = records, BAD_BOOLEAN
                    return
                if fill:
                    heap[values_at + slot] = data[at]
                at += 1
            elif kind in (DECIMAL_FIXED, DECIMAL_BYTES):
                width = sizes[node]
                if kind == DECIMAL_BYTES:
                    width, at = read_number(data, at, end)
                    if at < 0:
                        result[0], result[2] = records, -at
                        return
                    if width < 1 or width > 16:
                        result[0], result[2] = records, BAD_DECIMAL
                        return
                if end - at < width:
                    result[0], result[2] = records, CUT_SHORT
                    return
                if fill:
                    # Big-endian of any width becomes 16 bytes little-endian; the sign fills the rest.
                    target = values_at + 16 * slot
                    for index in range(width):
                        heap[target + index] = data[at + width - 1 - index]
                    sign = np.uint8(255) if data[at] >= 128 else np.uint8(0)
                    for index in range(width, 16):
                        heap[target + index] = sign
                at += width
            # A record needs nothing but its validity; its fields come next.
            node += 1
        if at != end:
            result[0], result[2] = records, LEFT_OVER
            return
        records += 1
        start = end
    result[0] = records
    result[1] = start

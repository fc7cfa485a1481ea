"""Decode Avro binary straight into Arrow's buffers: framed records in, columns out, no object per value.

The schema is a flat program, one node per type in depth-first order (`program.py`). Records without arrays, maps and
unions, of which every record has one value for each node, are walked once, and their columns filled one after the other
(`flat_records.py`). Of others the kernel here walks the program once per record with a small stack of open arrays, maps
and unions; of a union only the branch that the value has. It runs twice over the same records: first to check every
length and to count values and bytes per node, then, into one heap that is exactly large enough, to fill.

A null record puts a null into every node below it, since Arrow's children are as long as their parent; a null
array or map does not, its children only hold what its elements hold.

Touches: nothing but the arrays it is given.
Keeps:   1. nothing is read outside of a record's own bytes, and each record is used up to its last byte, where the
            program does not end before its last column;
         2. the counting pass has checked everything, so the filling pass cannot fail;
         3. an element takes at least one byte, so counts are bounded by bytes before anything is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.addresses import copy_bytes
from lakeward.base.kernel import I32, I64, TWO_I64, U8, U8_IN, kernel, record, records, types
from lakeward.format.avro.flat_records import HEAP_TO_SPARE, FlatRecords, Numbers, walk_flat_records
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
    PASSED_OVER,
    RECORD,
    REPEATED,
    UNION,
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
    why_no_more: str | None = None
    """What is wrong with the record behind these, or that the bytes end within it."""


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
        places, size = _place(found.kinds_filled, found.lengths, found.byte_lengths)
        if size <= heap_bytes_max:
            break
        if found.records == 1:
            raise TooLarge(size)
        records_max = found.records // 2
    return _filled(found, places, size)


def decode_unframed(
    program: AvroProgram, data: npt.NDArray[np.uint8], *, records_max: int, heap_bytes_max: int | None = None
) -> Decoded:
    """Decode at most so many records, one behind the other without lengths: those that `data` holds whole.

    The program has all columns.

    Raises `TooLarge` where their columns would take more than `heap_bytes_max`.
    """
    assert not program.ends_early
    found, why = _count_until_fault(program, data, records_max, framed=False)
    places, size = _place(found.kinds_filled, found.lengths, found.byte_lengths)
    if heap_bytes_max is not None and size > heap_bytes_max:
        raise TooLarge(size)
    return replace(_filled(found, places, size), why_no_more=why)


def _filled(found: FlatRecords | _Counted, places: Numbers, size: int) -> Decoded:
    program = found.program
    # Arrow's memory: Arrow counts what is held apart from what was given back, and returns it to the system.
    heap = np.frombuffer(pa.allocate_buffer(size + HEAP_TO_SPARE), dtype=np.uint8)
    found.fill(places, heap)
    reader = _Columns(program, heap, found.lengths, found.byte_lengths, places)
    batch = pa.RecordBatch.from_arrays(reader.build_all(), schema=program.schema)
    return Decoded(batch=batch, bytes_used=found.bytes_used)


NODE = np.dtype(
    [
        ("kind", np.int64),
        ("null_branch", np.int64),
        ("end", np.int64),
        ("size", np.int64),
        ("length", np.int64),
        ("byte_length", np.int64),
        ("valid_at", np.int64),
        ("values_at", np.int64),
        ("bytes_at", np.int64),
    ]
)
"""A node of the program; how many values and string bytes it has so far; and the places of its validity bytes, values
and string bytes in the heap."""

Nodes = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Records that were checked, and what each node will take."""

    program: AvroProgram
    data: npt.NDArray[np.uint8]
    records: int
    bytes_used: int
    framed: bool
    nodes: Nodes
    """With more values than there are, where a record behind these was counted in part."""

    @property
    def lengths(self) -> Numbers:
        return self.nodes["length"]

    @property
    def byte_lengths(self) -> Numbers:
        return self.nodes["byte_length"]

    @property
    def kinds_filled(self) -> Numbers:
        """All: the one pass over a record fills its columns as it finds them."""
        return self.program.kinds

    def fill(self, places: Numbers, heap: npt.NDArray[np.uint8]) -> None:
        nodes = _nodes(self.program)
        nodes["valid_at"], nodes["values_at"], nodes["bytes_at"] = places.reshape(-1, 3).T
        for offsets in nodes[np.isin(nodes["kind"], (BYTES, REPEATED))]["values_at"]:
            heap.view(np.int32)[offsets // 4] = 0
        _run(self.data, self.records, nodes, heap, framed=self.framed, ends_early=self.program.ends_early)
        same = np.equal if self.framed else np.less_equal
        assert all(same(nodes[counted], self.nodes[counted]).all() for counted in ("length", "byte_length"))
        self.nodes[:] = nodes


def _count(program: AvroProgram, data: npt.NDArray[np.uint8], records_max: int) -> _Counted:
    """Raises `BadRecord`."""
    found, why = _count_until_fault(program, data, records_max, framed=True)
    if why is not None:
        raise BadRecord(found.records, why)
    return found


def _count_until_fault(
    program: AvroProgram, data: npt.NDArray[np.uint8], records_max: int, *, framed: bool
) -> tuple[_Counted, str | None]:
    """The records before the first one that is at fault, and what is wrong with that."""
    nodes = _nodes(program)
    records, used, fault = _run(data, records_max, nodes, None, framed=framed, ends_early=program.ends_early)
    return _Counted(program, data, records, used, framed, nodes), FAULTS.get(fault)


def _nodes(program: AvroProgram) -> Nodes:
    nodes = np.zeros(len(program.kinds), dtype=NODE)
    nodes["kind"], nodes["null_branch"] = program.kinds, program.null_branches
    nodes["end"], nodes["size"] = program.ends, program.sizes
    return nodes


def _run(
    data: npt.NDArray[np.uint8],
    records_max: int,
    nodes: Nodes,
    heap: npt.NDArray[np.uint8] | None,
    *,
    framed: bool,
    ends_early: bool,
) -> tuple[int, int, int]:
    """(records, bytes used, fault) of one pass, which counts where there is no heap to fill."""
    result = np.zeros(3, dtype=np.int64)
    frames = np.zeros(2 * len(nodes) + 2, dtype=np.int64)
    fill = heap is not None
    heap = np.zeros(0, dtype=np.uint8) if heap is None else heap
    heaps = (heap, heap.view(np.int32), heap.view(np.int64))
    _decode(data, records_max, framed, ends_early, nodes, fill, *heaps, frames, result)
    records, used, fault = (int(value) for value in result)
    return records, used, fault


def _place(kinds: Numbers, lengths: Numbers, byte_lengths: Numbers) -> tuple[Numbers, int]:
    """(the places of each node in the heap: validity bytes, values, string bytes; the size of the heap)."""
    places = np.zeros(3 * len(kinds), dtype=np.int64)
    at = 0
    for node, kind in enumerate(kinds):
        if kind == PASSED_OVER:
            continue
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
        lengths: Numbers,
        byte_lengths: Numbers,
        places: Numbers,
    ) -> None:
        self._program = program
        self._heap = heap
        self._lengths = lengths
        self._byte_lengths = byte_lengths
        self._places = places
        self._node = 0

    def build_all(self) -> list[pa.Array]:
        """The columns that come out."""
        wanted, columns = set(self._program.schema.names), []
        for column in self._program.columns:
            if column.name in wanted:
                columns.append(self.build(column.type))
            else:
                self._node = int(self._program.ends[self._node])
        return columns

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
        if kind == UNION:
            branches = values.view(np.int32).astype(np.int8)
            offsets = np.zeros(length, dtype=np.int32)
            for branch in range(len(children)):
                offsets[branches == branch] = np.arange(len(children[branch]), dtype=np.int32)
            names = [child.name for child in avro_type.children]
            return pa.UnionArray.from_dense(pa.array(branches), pa.array(offsets), children, names)
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


_NODE, _NODES = record(NODE), records(NODE)
_READ = types.int64(U8_IN, types.int64, types.int64, _NODE, types.boolean, U8)
"""The signature of a reader of one value that is not null: data, where the value begins, where the record ends, its
node, whether to fill, the heap. It returns the place behind the value, or minus the fault."""


@kernel(types.int64(U8_IN, types.int64, types.int64, _NODE, types.boolean, I32, I64))
def _read_integer(data: Any, at: Any, end: Any, node: Any, fill: bool, heap32: Any, heap64: Any) -> Any:
    """A long, an int or a symbol of an enum."""
    number, at = read_number(data, at, end)
    if at < 0:
        return at
    slot = node["length"]
    if node["kind"] == LONG:
        if fill:
            heap64[node["values_at"] // 8 + slot] = number
        return at
    if number < -2147483648 or number > 2147483647:
        return np.int64(-INT_RANGE)
    if node["size"] > 0 and (number < 0 or number >= node["size"]):
        return np.int64(-BAD_SYMBOL)
    if fill:
        heap32[node["values_at"] // 4 + slot] = np.int32(number)
    return at


@kernel(types.int64(U8_IN, types.int64, types.int64, _NODE, types.boolean, U8, I32))
def _read_bytes(data: Any, at: Any, end: Any, node: Any, fill: bool, heap: Any, heap32: Any) -> Any:
    """Bytes or text, of a length that the node has or that leads them."""
    length = node["size"]
    if length == 0:
        length, at = read_number(data, at, end)
        if at < 0:
            return at
    if length < 0 or length > end - at:
        return np.int64(-BAD_LENGTH)
    used = node["byte_length"]
    node["byte_length"] = used + length
    if fill:
        target = node["bytes_at"] + used
        copy_bytes(heap.ctypes.data + target, data.ctypes.data + at, length)
        heap32[node["values_at"] // 4 + node["length"] + 1] = np.int32(used + length)
    return at + length


@kernel(_READ)
def _read_float(data: Any, at: Any, end: Any, node: Any, fill: bool, heap: Any) -> Any:
    width = np.int64(8) if node["kind"] == DOUBLE else np.int64(4)
    if end - at < width:
        return np.int64(-CUT_SHORT)
    if fill:
        # Little-endian in Avro as in Arrow.
        target = node["values_at"] + node["length"] * width
        for index in range(width):
            heap[target + index] = data[at + index]
    return at + width


@kernel(_READ)
def _read_boolean(data: Any, at: Any, end: Any, node: Any, fill: bool, heap: Any) -> Any:
    if at >= end:
        return np.int64(-CUT_SHORT)
    if data[at] > 1:
        return np.int64(-BAD_BOOLEAN)
    if fill:
        heap[node["values_at"] + node["length"]] = data[at]
    return at + 1


@kernel(_READ)
def _read_decimal(data: Any, at: Any, end: Any, node: Any, fill: bool, heap: Any) -> Any:
    width = node["size"]
    if node["kind"] == DECIMAL_BYTES:
        width, at = read_number(data, at, end)
        if at < 0:
            return at
        if width < 1 or width > 16:
            return np.int64(-BAD_DECIMAL)
    if end - at < width:
        return np.int64(-CUT_SHORT)
    if fill:
        # Big-endian of any width becomes 16 bytes little-endian; the sign fills the rest.
        target = node["values_at"] + 16 * node["length"]
        for index in range(width):
            heap[target + index] = data[at + width - 1 - index]
        sign = np.uint8(255) if data[at] >= 128 else np.uint8(0)
        for index in range(width, 16):
            heap[target + index] = sign
    return at + width


@kernel(types.void(_NODES, types.int64, U8, I32, I64))
def _fill_nulls(nodes: Any, first: Any, heap: Any, heap32: Any, heap64: Any) -> None:
    """A null into the node and into every node below it, but for what a null array or map holds."""
    below = first
    while below < nodes[first]["end"]:
        node = nodes[below]
        slot, kind, values_at = node["length"], node["kind"], node["values_at"]
        heap[node["valid_at"] + slot] = 0
        if kind == BYTES:
            heap32[values_at // 4 + slot + 1] = np.int32(node["byte_length"])
        elif kind == REPEATED:
            heap32[values_at // 4 + slot + 1] = np.int32(nodes[below + 1]["length"])
        elif kind == BOOLEAN:
            heap[values_at + slot] = 0
        elif kind in (INT, FLOAT):
            heap32[values_at // 4 + slot] = 0
        elif kind in (LONG, DOUBLE):
            heap64[values_at // 8 + slot] = 0
        elif kind in (DECIMAL_FIXED, DECIMAL_BYTES):
            heap64[values_at // 8 + 2 * slot] = 0
            heap64[values_at // 8 + 2 * slot + 1] = 0
        below = node["end"] if kind == REPEATED else below + 1


@kernel(TWO_I64(U8_IN, types.int64, types.int64, types.int64))
def read_run(data: Any, at: Any, end: Any, beyond: Any) -> Any:
    """(elements of the next run of an array or map, 0 behind the last one; the place behind, or minus the fault).

    Behind `end` there are so many more bytes, which are not read.
    """
    elements, at = read_number(data, at, end)
    if at >= 0 and elements < 0:
        # A negative count is followed by the run's bytes, which only serve skipping.
        if elements < at - end - beyond:
            return np.int64(0), np.int64(-BAD_LENGTH)
        elements = -elements
        _skipped, at = read_number(data, at, end)
    if at >= 0 and (elements < 0 or elements > end - at + beyond):
        return np.int64(0), np.int64(-BAD_LENGTH)
    return elements, at


@kernel(
    types.int64(
        U8_IN,  # data
        types.int64,  # where the record's values begin
        types.int64,  # where it ends
        _NODES,
        types.boolean,  # fill
        U8,  # heap
        I32,  # the same heap
        I64,  # the same heap
        I64,  # frames: (node, elements left) of each open array; (branch, minus the node behind) of each open union
    )
)
def _decode_record(
    data: Any, at: Any, end: Any, nodes: Any, fill: bool, heap: Any, heap32: Any, heap64: Any, frames: Any
) -> Any:
    """The place behind the record's last value, or minus the fault."""
    number = np.int64(0)
    open_frames = 0
    while True:
        # Behind the last node of an open array's element: the next element, the next run of elements, or its end.
        while open_frames > 0 and number == nodes[frames[2 * open_frames - 2]]["end"]:
            array = frames[2 * open_frames - 2]
            left = frames[2 * open_frames - 1] - 1
            if left < 0:
                # Behind the branch of a union that a value has: behind the union.
                number = -frames[2 * open_frames - 1]
                open_frames -= 1
                continue
            if left == 0:
                left, at = read_run(data, at, end, 0)
                if at < 0:
                    return at
                if left == 0:
                    slot = nodes[array]["length"]
                    nodes[array]["length"] = slot + 1
                    if fill:
                        elements = nodes[array + 1]["length"]
                        heap32[nodes[array]["values_at"] // 4 + slot + 1] = np.int32(elements)
                    open_frames -= 1
                    continue
            frames[2 * open_frames - 1] = left
            number = array + 1
        if number == len(nodes):
            return at
        node = nodes[number]
        kind, null_branch = node["kind"], node["null_branch"]
        if null_branch != NO_UNION:
            branch, at = read_number(data, at, end)
            if at < 0:
                return at
            if branch < 0 or branch > (0 if null_branch == -1 else 1):
                return np.int64(-BAD_BRANCH)
            if branch == null_branch:
                if fill:
                    _fill_nulls(nodes, number, heap, heap32, heap64)
                below, number = number, node["end"]
                while below < number:
                    nodes[below]["length"] += 1
                    below = nodes[below]["end"] if nodes[below]["kind"] == REPEATED else below + 1
                continue
        if fill:
            heap[node["valid_at"] + node["length"]] = 1
        if kind == REPEATED:
            # One element less than one: the loop above reads the first run.
            frames[2 * open_frames] = number
            frames[2 * open_frames + 1] = 1
            open_frames += 1
            number = node["end"]
            continue
        if kind == UNION:
            branch, at = read_number(data, at, end)
            if at < 0:
                return at
            if branch < 0 or branch >= node["size"]:
                return np.int64(-BAD_BRANCH)
            if fill:
                heap32[node["values_at"] // 4 + node["length"]] = np.int32(branch)
            node["length"] += 1
            number += 1
            for _ in range(branch):
                number = nodes[number]["end"]
            frames[2 * open_frames] = number
            frames[2 * open_frames + 1] = -node["end"]
            open_frames += 1
            continue
        if kind in (LONG, INT):
            at = _read_integer(data, at, end, node, fill, heap32, heap64)
        elif kind == BYTES:
            at = _read_bytes(data, at, end, node, fill, heap, heap32)
        elif kind in (DOUBLE, FLOAT):
            at = _read_float(data, at, end, node, fill, heap)
        elif kind == BOOLEAN:
            at = _read_boolean(data, at, end, node, fill, heap)
        elif kind in (DECIMAL_FIXED, DECIMAL_BYTES):
            at = _read_decimal(data, at, end, node, fill, heap)
        # A record needs nothing but its validity; its fields come next.
        if at < 0:
            return at
        node["length"] += 1
        number += 1


@kernel(
    types.void(
        U8_IN,  # data
        types.int64,  # records_max
        types.boolean,  # framed
        types.boolean,  # ends_early: bytes of a frame may be left over
        _NODES,
        types.boolean,  # fill
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
    framed: bool,
    ends_early: bool,
    nodes: Any,
    fill: bool,
    heap: Any,
    heap32: Any,
    heap64: Any,
    frames: Any,
    result: Any,
) -> None:
    data_end = np.int64(len(data))
    start = np.int64(0)
    records = 0
    while records < records_max and (start + 4 <= data_end or not framed):
        at = start
        end = data_end
        if framed:
            record_length = (
                (np.int64(data[start]) << np.int64(24))
                | (np.int64(data[start + 1]) << np.int64(16))
                | (np.int64(data[start + 2]) << np.int64(8))
                | np.int64(data[start + 3])
            )
            if record_length >= np.int64(0x80000000):
                result[2] = BAD_LENGTH
                break
            at = start + 4
            end = at + record_length
            if end > data_end:
                break
        at = _decode_record(data, at, end, nodes, fill, heap, heap32, heap64, frames)
        if at < 0 or (framed and at != end and not ends_early):
            result[2] = -at if at < 0 else LEFT_OVER
            break
        records += 1
        start = end if framed else at
    result[0] = records
    result[1] = start

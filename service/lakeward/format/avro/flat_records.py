"""Avro records without arrays and maps: one walk over the bytes finds every value, then the columns are filled in turn.

The walk checks all, and leaves a *token* for each value: a number itself, or of text where its bytes begin and how many
they are. Filling a column is then a short loop over its tokens, whose type it does not ask for at each value.

    bytes    2|06 a b c|0e   0|...          walk ->   tokens   node 0: 7 ...    node 1: (place, 3) (0, 0) ...
                                                      valid    node 0: 1 ...    node 1:     1         0   ...

Touches: nothing but the arrays it is given.
Keeps:   1. nothing is read from bytes outside of a record, and each record is used up to its last byte, where the
            program does not end before its last column;
         2. the walk has checked everything, so filling cannot fail;
         3. tokens take no more than `_TOKENS_BYTES`, or those of one record.
See:     decoder.py, which decodes the same of any schema, in twice the time and more
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeward.base.addresses import copy_bytes, load_u8
from lakeward.base.kernel import I32, I64, I64_IN, U8, U8_IN, kernel, types
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
    PASSED_OVER,
    RECORD,
    AvroProgram,
    BadRecord,
    read_number,
)

_TOKENS_BYTES = 4 * 1024 * 1024
_TOKEN_BYTES = 9
_RECORD_BYTES_MIN = 5
_BLOCK = 32
"""Text is copied in blocks of so many bytes: most of it is short, and its length no branch to be foreseen."""
HEAP_TO_SPARE = _BLOCK
"""Bytes behind the last place of a heap that filling may write to."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FlatRecords:
    """Records that were walked and checked."""

    program: AvroProgram
    data: npt.NDArray[np.uint8]
    records: int
    bytes_used: int
    lengths: Numbers
    """Values of each node: as many as there are records."""
    byte_lengths: Numbers
    """Bytes of text of each node."""
    tokens: Numbers
    valid: npt.NDArray[np.uint8]
    room: int
    """Tokens from one node to the next."""

    @property
    def kinds_filled(self) -> Numbers:
        return self.program.filled

    def fill(self, places: Numbers, heap: npt.NDArray[np.uint8]) -> None:
        """Write the columns to a heap: of each node a byte for each value, 0 for null, the values, and the bytes of
        text, each from its place on. There are `HEAP_TO_SPARE` more bytes behind them."""
        _fill(
            self.data,
            self.data.ctypes.data,
            self.records,
            self.room,
            self.program.filled,
            self.tokens,
            self.valid,
            places,
            heap,
            heap.view(np.int32),
            heap.view(np.int64),
            heap.ctypes.data,
        )


def walk_flat_records(program: AvroProgram, data: npt.NDArray[np.uint8], records_max: int) -> FlatRecords:
    """Find the values of whole records, each led by its int32 length, at most so many. Raises `BadRecord`."""
    assert len(data) < 2**31
    nodes = len(program.kinds)
    room = max(1, min(records_max, len(data) // _RECORD_BYTES_MIN, _TOKENS_BYTES // (_TOKEN_BYTES * max(1, nodes))))
    tokens = np.empty(nodes * room, dtype=np.int64)
    valid = np.ones(nodes * room, dtype=np.uint8)
    byte_lengths = np.zeros(nodes, dtype=np.int64)
    result = np.zeros(3, dtype=np.int64)
    _walk(
        data,
        data.ctypes.data,
        room,
        program.kinds,
        program.null_branches,
        program.ends,
        program.sizes,
        program.filled,
        program.ends_early,
        tokens,
        valid,
        byte_lengths,
        result,
    )
    records, used, fault = (int(value) for value in result)
    if fault != OK:
        raise BadRecord(records, FAULTS[fault])
    lengths = np.full(nodes, records, dtype=np.int64)
    return FlatRecords(program, data, records, used, lengths, byte_lengths, tokens, valid, room)


@kernel(
    types.void(
        U8_IN,  # data
        types.int64,  # its address
        types.int64,  # room: records at most, and tokens from one node to the next
        I64_IN,  # kinds
        I64_IN,  # null_branches
        I64_IN,  # ends
        I64_IN,  # sizes
        I64_IN,  # filled: the kinds of what comes out
        types.boolean,  # ends_early: bytes may be left over
        I64,  # tokens
        U8,  # valid, all of it 1
        I64,  # byte_lengths: string bytes per node
        I64,  # result: records, bytes used, fault
    )
)
def _walk(
    data: Any,
    data_address: int,
    room: int,
    kinds: Any,
    null_branches: Any,
    ends: Any,
    sizes: Any,
    filled: Any,
    ends_early: bool,
    tokens: Any,
    valid: Any,
    byte_lengths: Any,
    result: Any,
) -> None:
    nodes = len(kinds)
    data_end = np.int64(len(data))
    start = np.int64(0)
    record = 0
    while record < room and start + 4 <= data_end:
        record_length = (
            (load_u8(data_address + start) << np.int64(24))
            | (load_u8(data_address + start + 1) << np.int64(16))
            | (load_u8(data_address + start + 2) << np.int64(8))
            | load_u8(data_address + start + 3)
        )
        at = start + 4
        if record_length >= np.int64(0x80000000):
            result[0], result[2] = record, BAD_LENGTH
            return
        end = at + record_length
        if end > data_end:
            break
        node = 0
        token_at = np.int64(record)
        while node < nodes:
            kind = kinds[node]
            null_branch = null_branches[node]
            if null_branch != NO_UNION:
                if at < end and (load_u8(data_address + at) == 0 or load_u8(data_address + at) == 2):
                    branch = np.int64(load_u8(data_address + at) >> 1)
                    at += 1
                else:
                    branch, at = read_number(data, at, end)
                    if at < 0:
                        result[0], result[2] = record, -at
                        return
                if branch < 0 or branch > (0 if null_branch == -1 else 1):
                    result[0], result[2] = record, BAD_BRANCH
                    return
                if branch == null_branch:
                    subtree_end = ends[node]
                    while node < subtree_end:
                        tokens[token_at] = 0
                        valid[token_at] = 0
                        token_at += room
                        node += 1
                    continue
            token = np.int64(0)
            if kind in (BYTES, LONG, INT, DECIMAL_BYTES, DECIMAL_FIXED):
                number = sizes[node]
                if kind in (LONG, INT, DECIMAL_BYTES) or number == 0:
                    if at < end and load_u8(data_address + at) < 128:
                        number = load_u8(data_address + at)
                        number = (number >> 1) ^ -(number & 1)
                        at += 1
                    else:
                        number, at = read_number(data, at, end)
                        if at < 0:
                            result[0], result[2] = record, -at
                            return
                if kind == LONG:
                    token = number
                elif kind == INT:
                    if number < -2147483648 or number > 2147483647:
                        result[0], result[2] = record, INT_RANGE
                        return
                    if sizes[node] > 0 and (number < 0 or number >= sizes[node]):
                        result[0], result[2] = record, BAD_SYMBOL
                        return
                    token = number
                else:
                    if kind == DECIMAL_BYTES and (number < 1 or number > 16):
                        result[0], result[2] = record, BAD_DECIMAL
                        return
                    if number < 0 or number > end - at:
                        result[0], result[2] = record, BAD_LENGTH if kind == BYTES else CUT_SHORT
                        return
                    if kind == BYTES:
                        byte_lengths[node] += number
                    token = (at << 32) | number
                    at += number
            elif kind == DOUBLE:
                if end - at < 8:
                    result[0], result[2] = record, CUT_SHORT
                    return
                token = (
                    load_u8(data_address + at)
                    | (load_u8(data_address + at + 1) << 8)
                    | (load_u8(data_address + at + 2) << 16)
                    | (load_u8(data_address + at + 3) << 24)
                    | (load_u8(data_address + at + 4) << 32)
                    | (load_u8(data_address + at + 5) << 40)
                    | (load_u8(data_address + at + 6) << 48)
                    | (load_u8(data_address + at + 7) << 56)
                )
                at += 8
            elif kind == FLOAT:
                if end - at < 4:
                    result[0], result[2] = record, CUT_SHORT
                    return
                token = (
                    load_u8(data_address + at)
                    | (load_u8(data_address + at + 1) << 8)
                    | (load_u8(data_address + at + 2) << 16)
                    | (load_u8(data_address + at + 3) << 24)
                )
                at += 4
            elif kind == BOOLEAN:
                if at >= end:
                    result[0], result[2] = record, CUT_SHORT
                    return
                if load_u8(data_address + at) > 1:
                    result[0], result[2] = record, BAD_BOOLEAN
                    return
                token = load_u8(data_address + at)
                at += 1
            # A record needs nothing but its validity; its fields come next.
            if filled[node] != PASSED_OVER:
                tokens[token_at] = token
            token_at += room
            node += 1
        if at != end and not ends_early:
            result[0], result[2] = record, LEFT_OVER
            return
        record += 1
        start = end
    result[0] = record
    result[1] = start


@kernel(
    types.void(
        U8_IN,  # data
        types.int64,  # its address
        types.int64,  # records
        types.int64,  # room
        I64_IN,  # kinds
        I64_IN,  # tokens
        U8_IN,  # valid
        I64_IN,  # places: 3 per node
        U8,  # heap
        I32,  # the same heap
        I64,  # the same heap
        types.int64,  # its address
    )
)
def _fill(
    data: Any,
    data_address: int,
    records: int,
    room: int,
    kinds: Any,
    tokens: Any,
    valid: Any,
    places: Any,
    heap: Any,
    heap32: Any,
    heap64: Any,
    heap_address: int,
) -> None:
    for node in range(len(kinds)):
        kind = kinds[node]
        if kind == PASSED_OVER:
            continue
        first = node * room
        values_at = places[3 * node + 1]
        valid_at = places[3 * node]
        for record in range(records):
            heap[valid_at + record] = valid[first + record]
        if kind in (LONG, DOUBLE):
            for record in range(records):
                heap64[values_at // 8 + record] = tokens[first + record]
        elif kind in (INT, FLOAT):
            for record in range(records):
                heap32[values_at // 4 + record] = np.int32(tokens[first + record])
        elif kind == BOOLEAN:
            for record in range(records):
                heap[values_at + record] = np.uint8(tokens[first + record])
        elif kind == BYTES:
            heap32[values_at // 4] = 0
            bytes_at = places[3 * node + 2]
            used = np.int64(0)
            for record in range(records):
                token = tokens[first + record]
                length = token & np.int64(0xFFFFFFFF)
                at = token >> 32
                # In blocks, of which the last one goes beyond the text: over what is written next, or spare bytes.
                if at + length + _BLOCK <= len(data):
                    target = heap_address + bytes_at + used
                    source = data_address + at
                    copy_bytes(target, source, _BLOCK)
                    left = length - _BLOCK
                    while left > 0:
                        target += _BLOCK
                        source += _BLOCK
                        copy_bytes(target, source, _BLOCK)
                        left -= _BLOCK
                else:
                    copy_bytes(heap_address + bytes_at + used, data_address + at, length)
                used += length
                heap32[values_at // 4 + record + 1] = np.int32(used)
        elif kind != RECORD:
            # Big-endian of any width becomes 16 bytes little-endian; the sign fills the rest.
            for record in range(records):
                token = tokens[first + record]
                width = token & np.int64(0xFFFFFFFF)
                at = token >> 32
                target = values_at + 16 * record
                for index in range(width):
                    heap[target + index] = data[at + width - 1 - index]
                sign = np.uint8(255) if width > 0 and data[at] >= 128 else np.uint8(0)
                for index in range(width, 16):
                    heap[target + index] = sign

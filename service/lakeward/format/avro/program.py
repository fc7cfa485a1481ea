"""An Avro schema as kernels read it: one node per type, in depth-first order, in flat arrays.

    record {a: int, b: [null, array of record {c: string}], d: long}

    node  0 int(a)   1 array(b)   2 record(element)   3 string(c)   4 long(d)
    end   1          4            4                   4             5          first node behind the subtree

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import TWO_I64, U8_IN, kernel, types
from lakeward.format.avro.schema import AvroField, AvroKind, AvroType

# Kinds of nodes, as the kernel knows them.
BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, DECIMAL_FIXED, DECIMAL_BYTES, RECORD, REPEATED, UNION = range(11)
PASSED_OVER = -1
"""In place of the kind, where the value is walked over and does not come out."""
_KINDS = {
    AvroKind.BOOLEAN: BOOLEAN,
    AvroKind.INT: INT,
    AvroKind.LONG: LONG,
    AvroKind.FLOAT: FLOAT,
    AvroKind.DOUBLE: DOUBLE,
    AvroKind.BYTES: BYTES,
    AvroKind.STRING: BYTES,
    AvroKind.FIXED: BYTES,
    AvroKind.ENUM: INT,
    AvroKind.DECIMAL_FIXED: DECIMAL_FIXED,
    AvroKind.DECIMAL_BYTES: DECIMAL_BYTES,
    AvroKind.RECORD: RECORD,
    AvroKind.ARRAY: REPEATED,
    AvroKind.MAP: REPEATED,
    AvroKind.UNION: UNION,
}
# Bytes per value by kind; strings, arrays and maps have offsets, one more than values.
WIDTHS = {
    BOOLEAN: 1,
    INT: 4,
    LONG: 8,
    FLOAT: 4,
    DOUBLE: 8,
    BYTES: 4,
    DECIMAL_FIXED: 16,
    DECIMAL_BYTES: 16,
    RECORD: 0,
    REPEATED: 4,
    UNION: 4,
}
NO_UNION = -2

# What may be wrong with a record.
(
    OK,
    CUT_SHORT,
    BAD_NUMBER,
    BAD_BRANCH,
    BAD_LENGTH,
    BAD_BOOLEAN,
    INT_RANGE,
    LEFT_OVER,
    BAD_DECIMAL,
    BAD_SYMBOL,
) = range(10)
FAULTS = {
    CUT_SHORT: "it ends in the middle of a value",
    BAD_NUMBER: "it holds a number of more than 64 bits",
    BAD_BRANCH: "it holds a union branch that the schema does not have",
    BAD_LENGTH: "it holds a length that lies outside of the record",
    BAD_BOOLEAN: "it holds a boolean that is neither 0 nor 1",
    INT_RANGE: "it holds an int of more than 32 bits",
    LEFT_OVER: "bytes are left over behind its last field",
    BAD_DECIMAL: "it holds a decimal of no or more than 16 bytes",
    BAD_SYMBOL: "it holds a symbol that the schema does not have",
}


class BadRecord(Exception):
    """A record's bytes do not fit the schema."""

    def __init__(self, record: int, why: str) -> None:
        super().__init__(record, why)
        self.record = record
        """Counted from the first record given to `decode_records`."""
        self.why = why


class TooLarge(BadRecord):
    """A record that would take more memory than it may."""

    def __init__(self, needed: int) -> None:
        super().__init__(0, f"its columns would take {needed} bytes of memory")
        self.needed = needed


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """A record schema as the kernel reads it: one entry per node in each array, and the columns it was made from."""

    columns: tuple[AvroField, ...]
    schema: pa.Schema
    """The columns that come out."""
    kinds: npt.NDArray[np.int64]
    null_branches: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    """Bytes of a fixed, symbols of an enum, branches of a union; 0 elsewhere."""
    filled: npt.NDArray[np.int64]
    """The kinds again, `PASSED_OVER` in columns that do not come out."""
    ends_early: bool
    """Records have more columns behind these, which the query does not name: their bytes are left alone."""

    @property
    def is_flat(self) -> bool:
        """No arrays, maps and unions: each record has one value of each node."""
        return not np.isin(self.kinds, (REPEATED, UNION)).any()


def compile_schema(columns: tuple[AvroField, ...], wanted: Collection[str] | None = None) -> AvroProgram:
    """
    Args:
        wanted: the names of the columns that come out; None for all. The program ends with the last of them.
    """
    all_columns = len(columns)
    if wanted is not None:
        columns = columns[: max((at for at, column in enumerate(columns, 1) if column.name in wanted), default=0)]
    kinds: list[int] = []
    null_branches: list[int] = []
    ends: list[int] = []
    sizes: list[int] = []

    def add(avro_type: AvroType) -> None:
        node = len(kinds)
        kinds.append(_KINDS[avro_type.kind])
        null_branches.append(NO_UNION if avro_type.null_branch is None else avro_type.null_branch)
        branches = len(avro_type.children) if avro_type.kind is AvroKind.UNION else 0
        sizes.append(avro_type.fixed_size or len(avro_type.symbols) or branches)
        ends.append(0)
        for child in avro_type.children:
            add(child.type)
        ends[node] = len(kinds)

    chosen = [column for column in columns if wanted is None or column.name in wanted]
    passed_over: list[int] = []
    for column in columns:
        first = len(kinds)
        add(column.type)
        if column not in chosen:
            passed_over += range(first, len(kinds))
    filled = np.array(kinds, dtype=np.int64)
    filled[passed_over] = PASSED_OVER
    return AvroProgram(
        columns=columns,
        schema=pa.schema([pa.field(column.name, column.type.arrow) for column in chosen]),
        kinds=np.array(kinds, dtype=np.int64),
        null_branches=np.array(null_branches, dtype=np.int64),
        ends=np.array(ends, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        filled=filled,
        ends_early=len(columns) < all_columns,
    )


@kernel(TWO_I64(U8_IN, types.int64, types.int64))
def read_number(data: Any, at: Any, end: Any) -> Any:
    """(value, position behind it) of a zigzag number; position -1 when cut short, -2 when it has more than 64 bits."""
    value = np.int64(0)
    if at < end and data[at] < 128:  # as most are
        value = np.int64(data[at])
        return (value >> np.int64(1)) ^ -(value & np.int64(1)), np.int64(at + 1)
    for index in range(10):
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.int64(data[at])
        at += 1
        if index == 9 and byte > 1:
            return np.int64(0), np.int64(-2)
        value |= (byte & np.int64(0x7F)) << np.int64(7 * index)
        if byte < 128:
            # The shift must not carry the sign along: mask it off.
            return ((value >> np.int64(1)) & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(value & np.int64(1)), np.int64(at)
    return np.int64(0), np.int64(-2)

"""A block of cells, as HBase's region servers send them: rows, qualifiers and values as columns.

    cell = int32 length, KeyValue
    KeyValue = int32 key part's length, int32 value's length, key part, value
    key part = int16 row's length, row, 1 byte family's length, family, qualifier, 8 bytes timestamp, 1 byte type (4)

Touches: nothing.
Keeps:   cells fill the block exactly, or it is broken.
Source:  KeyValueCodec (HBase 2.4)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakeward.base.addresses import copy_bytes, load_big_u32, load_u8
from lakeward.base.kernel import I32, I64, U8, U8_IN, kernel, types
from lakeward.format.hfile.entries import binary_column

ROW, QUALIFIER, VALUE = CELLS = ("row", "qualifier", "value")

_OVERHEAD = 24
"""Bytes of a cell without its row, family, qualifier and value."""
_PUT = 4
_OK, _CUT, _NOT_PUT = range(3)


def decode_cells(block: bytes | memoryview) -> pa.RecordBatch:
    """`CELLS`, binary, in the block's order. Raises `ValueError`."""
    data = np.frombuffer(block, dtype=np.uint8)
    result = np.zeros(5, dtype=np.int64)
    _measure(data, result)
    count, fault, *sizes = map(int, result)
    if fault:
        why = "is no plain value" if fault == _NOT_PUT else "is cut short or contradicts itself"
        raise ValueError(f"cell {count} {why}")
    offsets = [np.empty(count + 1, dtype=np.int32) for _ in CELLS]
    values = [np.empty(size, dtype=np.uint8) for size in sizes]
    _split(data, *offsets, *values)
    columns = [binary_column(*column) for column in zip(offsets, values, strict=True)]
    return pa.RecordBatch.from_arrays(columns, list(CELLS))


@kernel(types.void(U8_IN, I64))
def _measure(data: Any, result: Any) -> None:
    """`result`: cells (of a broken block those before the fault), the fault, bytes of rows, qualifiers and values."""
    at = np.int64(data.ctypes.data)
    left = np.int64(len(data))
    count, fault = np.int64(0), np.int64(_OK)
    rows, qualifiers, values = np.int64(0), np.int64(0), np.int64(0)
    while left > 0:
        fault = np.int64(_CUT)
        if left < _OVERHEAD:
            break
        length, key_part, value = load_big_u32(at), load_big_u32(at + 4), load_big_u32(at + 8)
        if length + 4 > left or key_part + value + 8 != length or key_part < 12:
            break
        row = load_big_u32(at + 12) >> 16
        if row + 12 > key_part:
            break
        family = load_u8(at + 14 + row)
        qualifier = key_part - 12 - row - family
        if qualifier < 0:
            break
        if load_u8(at + 11 + key_part) != _PUT:
            fault = np.int64(_NOT_PUT)
            break
        fault = np.int64(_OK)
        count += 1
        rows += row
        qualifiers += qualifier
        values += value
        at += length + 4
        left -= length + 4
    result[0], result[1], result[2], result[3], result[4] = count, fault, rows, qualifiers, values


@kernel(types.void(U8_IN, I32, I32, I32, U8, U8, U8))
def _split(
    data: Any, row_offsets: Any, qualifier_offsets: Any, value_offsets: Any, rows: Any, qualifiers: Any, values: Any
) -> None:
    """The outputs are as long as `_measure` says, which found nothing wrong."""
    at = np.int64(data.ctypes.data)
    to_rows, to_qualifiers = np.int64(rows.ctypes.data), np.int64(qualifiers.ctypes.data)
    to_values = np.int64(values.ctypes.data)
    row_end, qualifier_end, value_end = np.int64(0), np.int64(0), np.int64(0)
    row_offsets[0], qualifier_offsets[0], value_offsets[0] = 0, 0, 0
    for cell in range(len(row_offsets) - 1):
        key_part, value = load_big_u32(at + 4), load_big_u32(at + 8)
        row = load_big_u32(at + 12) >> 16
        family = load_u8(at + 14 + row)
        qualifier = key_part - 12 - row - family
        copy_bytes(to_rows + row_end, at + 14, row)
        copy_bytes(to_qualifiers + qualifier_end, at + 15 + row + family, qualifier)
        copy_bytes(to_values + value_end, at + 12 + key_part, value)
        row_end += row
        qualifier_end += qualifier
        value_end += value
        at += key_part + value + 12
        row_offsets[cell + 1] = np.int32(row_end)
        qualifier_offsets[cell + 1] = np.int32(qualifier_end)
        value_offsets[cell + 1] = np.int32(value_end)

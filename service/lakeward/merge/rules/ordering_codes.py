"""Ordering values as int64 codes that compare as Hudi compares the values.

Integers, dates, timestamps and booleans are their own codes. Floats become the integer whose order is that of Java's
Double.compare: -0.0 before 0.0, NaN after everything and equal to itself. Strings (by their UTF-8 bytes) and decimals
get their dense rank among the values at hand, so their codes compare only with codes of the same call; so do values of
several fields, field by field.

Touches: nothing.
Keeps:   1. a < b, a = b, a > b in Java exactly when the same holds for the codes of a and b;
         2. null has the code 0 and is reported: in an integer column that is all there is to it, in others the default
            (Integer 0) compares with nothing but itself;
         3. values of several fields that have nulls in different ones are of different classes, and are reported so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.rules.merge_rules import ORDERING_FIELDS_MAX
from lakeward.merge.rules.ordering_type import default_is_comparable

_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class OrderingCodes:
    codes: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int8]
    """1 where the value is Hudi's default, Integer 0; a value of several fields has the bit i + 1 where the field i is
    null and not an integer. Values of different classes have no order."""


def needs_ranks(kind: pa.DataType | None) -> bool:
    """Whether codes of this type are ranks, so that values to be compared must be coded together."""
    return kind is not None and (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_struct(kind)
    )


def ordering_values(batch: pa.RecordBatch, fields: Sequence[str]) -> pa.Array | None:
    """The ordering values of rows, of their `ordering_type`; None without fields, or where one is no column."""
    columns = [batch.column(name) for name in fields if name in batch.schema.names]
    if not fields or len(columns) < len(fields):
        return None
    return columns[0] if len(fields) == 1 else join_fields(columns, fields)


def join_fields(columns: Sequence[pa.Array], names: Sequence[str], *, mask: pa.Array | None = None) -> pa.Array:
    """Values of several fields as one of each row, null where `mask` is true; a missing integer is 0."""
    filled = [values.fill_null(0) if default_is_comparable(values.type) else values for values in columns]
    kinds = [pa.field(name, values.type) for name, values in zip(names, filled, strict=True)]
    return pa.StructArray.from_arrays(filled, fields=kinds, mask=mask)


def encode_ordering(values: pa.Array | None, kind: pa.DataType | None, rows: int) -> OrderingCodes:
    """The codes of `rows` values of the ordering column's type `kind`; without values all are the default."""
    if values is None or kind is None:
        return OrderingCodes(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int8))
    assert len(values) == rows and values.type.equals(kind), (values.type, kind)
    if pa.types.is_struct(kind):
        return _codes_of_fields(values)
    codes = _codes(values, kind)
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        codes[nulls] = 0
        classes = nulls.astype(np.int8)
    else:
        classes = np.zeros(rows, dtype=np.int8)
    if default_is_comparable(kind):
        classes = (codes == 0).astype(np.int8)
    return OrderingCodes(codes, classes)


def _codes_of_fields(values: pa.StructArray) -> OrderingCodes:
    """The ranks of structs among themselves, from 1 on; 0 for the default."""
    rows = len(values)
    assert values.type.num_fields <= ORDERING_FIELDS_MAX
    whole = values.is_null().to_numpy(zero_copy_only=False)
    classes = np.zeros(rows, dtype=np.int8)
    parts: list[npt.NDArray[np.int64]] = []
    for number, column in enumerate(values.flatten()):
        coded = encode_ordering(column, column.type, rows)
        parts.append(coded.codes)
        if not default_is_comparable(column.type):
            classes |= coded.classes << np.int8(number + 1)
    classes[whole] = 1
    by_value = np.lexsort([classes, *reversed(parts), ~whole])
    differs = np.zeros(max(rows - 1, 0), dtype=np.bool_)
    for part in (*parts, classes, whole):
        ordered = part[by_value]
        differs |= ordered[1:] != ordered[:-1]
    codes = np.empty(rows, dtype=np.int64)
    codes[by_value] = np.cumsum(np.concatenate([[not whole.any()], differs])[:rows])
    return OrderingCodes(codes, classes)


def values_for_codes(values: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """`rows` values that can be joined with others and coded together: all null where there are none.

    Strings get 64-bit offsets, which any number of them fits.
    """
    values = pa.nulls(rows, kind) if values is None else values
    return values.cast(_with_long_offsets(values.type))


def _with_long_offsets(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_long_offsets(field.type)) for field in kind])
    return pa.large_string() if pa.types.is_string(kind) else kind


def values_by_code(values: pa.Array, codes: OrderingCodes) -> pa.Array:
    """The values to which ranks were given, without the default: that of the code r > 0 is at r - 1."""
    found, first = np.unique(codes.codes, return_index=True)
    return values.take(pa.array(first[found > 0]))


def decode_ordering(codes: OrderingCodes, kind: pa.DataType) -> pa.Array:
    """The values that `encode_ordering` gave these codes, null where default; not for types whose codes are ranks."""
    assert not needs_ranks(kind)
    defaults = codes.classes != 0
    if pa.types.is_floating(kind):
        bits = np.where(codes.codes < 0, codes.codes ^ _MAGNITUDE, codes.codes)
        return pa.array(bits.view(np.float64), mask=defaults).cast(kind)
    numbers = pa.array(codes.codes, mask=defaults)
    return numbers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else numbers.cast(kind)


def _codes(values: pa.Array, kind: pa.DataType) -> npt.NDArray[np.int64]:
    if needs_ranks(kind):
        return _ranks(values)
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return float_codes(numbers)
    if pa.types.is_boolean(kind):
        plain = values.cast(pa.int8())
    elif pa.types.is_date32(kind):
        plain = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        plain = values.cast(pa.int64())
    else:
        plain = values
    numbers = plain.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    # What Arrow hands out is read-only, and nulls get a code of their own.
    return np.array(numbers) if values.null_count else numbers


def float_codes(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The integers that order as Java's Double.compare orders the numbers."""
    one_nan = np.where(np.isnan(numbers), np.nan, numbers)
    bits = one_nan.view(np.int64)
    # The bits of negative numbers grow as the numbers shrink; flip all of them but the sign.
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def _ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_string(values.type):
        values = values.cast(pa.large_string())
    coded = values.dictionary_encode()
    order = pc.array_sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    ranks[-1] = 0
    codes: npt.NDArray[np.int64] = ranks[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return codes

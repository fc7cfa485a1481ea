"""Ordering values as int64 codes that compare as Hudi compares the values.

Integers, dates, timestamps and booleans are their own codes. Floats become the integer whose order is that of Java's
Double.compare: -0.0 before 0.0, NaN after everything and equal to itself. Strings (by their UTF-8 bytes) and decimals
get their dense rank among the values at hand, so their codes compare only with codes of the same call.

Touches: nothing.
Keeps:   1. a < b, a = b, a > b in Java exactly when the same holds for the codes of a and b;
         2. null has the code 0 and is reported: in an integer column that is all there is to it, in others the default
            (Integer 0) compares with nothing but itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.rules.ordering_type import default_is_comparable

_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class OrderingCodes:
    codes: npt.NDArray[np.int64]
    is_default: npt.NDArray[np.int8]
    """1 where the value is Hudi's default, Integer 0."""


def needs_ranks(kind: pa.DataType | None) -> bool:
    """Whether codes of this type are ranks, so that values to be compared must be coded together."""
    return kind is not None and (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal128(kind)
    )


def encode_ordering(values: pa.Array | None, kind: pa.DataType | None, rows: int) -> OrderingCodes:
    """The codes of `rows` values of the ordering column's type `kind`; without values all are the default."""
    if values is None or kind is None:
        return OrderingCodes(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int8))
    assert len(values) == rows and values.type.equals(kind), (values.type, kind)
    codes = _codes(values, kind)
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        codes[nulls] = 0
        is_default = nulls.astype(np.int8)
    else:
        is_default = np.zeros(rows, dtype=np.int8)
    if default_is_comparable(kind):
        is_default = (codes == 0).astype(np.int8)
    return OrderingCodes(codes, is_default)


def values_for_codes(values: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """`rows` values that can be joined with others and coded together: all null where there are none.

    Strings get 64-bit offsets, which any number of them fits.
    """
    values = pa.nulls(rows, kind) if values is None else values
    return values.cast(pa.large_string()) if pa.types.is_string(values.type) else values


def decode_ordering(codes: OrderingCodes, kind: pa.DataType) -> pa.Array:
    """The values that `encode_ordering` gave these codes, null where default; not for types whose codes are ranks."""
    assert not needs_ranks(kind)
    defaults = codes.is_default != 0
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
    # The copy is ours to write to: what Arrow hands out is read-only.
    return np.array(plain.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


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

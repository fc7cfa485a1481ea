import datetime
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.rules.ordering_codes import (
    decode_ordering,
    encode_ordering,
    float_codes,
    join_fields,
    needs_ranks,
    values_by_code,
)

COLUMNS = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=4),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda unscaled: Decimal(unscaled) / 100),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(
        min_value=datetime.datetime(1, 1, 2), max_value=datetime.datetime(9999, 1, 1)
    ),
}


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
@given(data=st.data())
def test_codes_compare_as_the_values_do(kind, data):
    """The codes of every pair of values are <, = or > as the values are; null is the default.

    Keeps 1 and 2 of merge/rules/ordering_codes.
    """
    values = data.draw(st.lists(st.none() | COLUMNS[kind], max_size=12))
    coded = encode_ordering(pa.array([None, *values], kind)[1:], kind, len(values))
    comparable = [value.encode() if isinstance(value, str) else value for value in values]
    for left, left_code in zip(comparable, coded.codes, strict=True):
        for right, right_code in zip(comparable, coded.codes, strict=True):
            if left is not None and right is not None:
                assert (left < right) == (left_code < right_code)
                assert (left == right) == (left_code == right_code)
    zero_too = pa.types.is_int32(kind)
    expected = [value is None or (zero_too and value == 0) for value in values]
    assert coded.classes.astype(bool).tolist() == expected


FIELDS = pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.int16()})
ROW = st.tuples(st.none() | st.integers(-1, 1), st.none() | st.sampled_from(["", "a"]), st.none() | st.integers(-1, 1))


@given(st.lists(st.none() | ROW, max_size=12))
def test_values_of_several_fields(rows):
    """They compare field by field where the same ones are missing, an integer being 0 then; else their classes differ.
    A value that is missing as a whole is the default, and all come back from their codes.

    Keeps 3 of merge/rules/ordering_codes.
    """
    names = [field.name for field in FIELDS]
    columns = [pa.array([row and row[number] for row in rows], field.type) for number, field in enumerate(FIELDS)]
    values = join_fields(columns, names, mask=pa.array([row is None for row in rows], pa.bool_()))
    coded = encode_ordering(values, FIELDS, len(rows))
    filled = [row and (row[0], row[1], row[2] or 0) for row in rows]
    for left, left_code, left_class in zip(filled, coded.codes, coded.classes, strict=True):
        assert (left is None) == (left_code == 0) == (left_class == 1)
        for right, right_code, right_class in zip(filled, coded.codes, coded.classes, strict=True):
            if left is None or right is None:
                continue
            same_class = [value is None for value in left] == [value is None for value in right]
            assert same_class == (left_class == right_class)
            if same_class:
                present = [(a, b) for a, b in zip(left, right, strict=True) if a is not None]
                assert ([a for a, _ in present] < [b for _, b in present]) == (left_code < right_code)
                assert (left == right) == (left_code == right_code)
    back = values_by_code(values, coded).take(pa.array(coded.codes - 1, mask=coded.codes == 0))
    assert back.to_pylist() == [row and dict(zip(names, row, strict=True)) for row in filled]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12))
def test_floats_order_as_java_orders_doubles(numbers):
    """-0.0 comes before 0.0, and NaN, of whatever bits, after everything and equal to itself."""

    def java_order(number):
        return (math.isnan(number), 0 if math.isnan(number) else number, math.copysign(1, number) if number == 0 else 0)

    codes = float_codes(np.array(numbers, dtype=np.float64))
    for left, left_code in zip(numbers, codes, strict=True):
        for right, right_code in zip(numbers, codes, strict=True):
            assert (java_order(left) < java_order(right)) == (left_code < right_code)
            assert (java_order(left) == java_order(right)) == (left_code == right_code)


def test_all_nans_are_one_value():
    """The sign and the payload of a NaN do not count."""
    odd = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000001, 0xFFF8000000000000)]
    assert len(set(float_codes(np.array([math.nan, *odd])))) == 1


def test_single_floats_compare_by_value():
    """A float column is coded like a double column."""
    codes = encode_ordering(pa.array([1.5, -2.0, None, math.inf], pa.float32()), pa.float32(), 4)
    assert codes.codes.argsort().tolist() == [1, 2, 0, 3]
    assert codes.classes.tolist() == [0, 0, 1, 0]


def test_without_values_all_are_the_default():
    """A table without ordering field gives every record the default."""
    coded = encode_ordering(None, None, 2)
    assert coded.codes.tolist() == [0, 0] and coded.classes.tolist() == [1, 1]


FLOATS = {pa.float32(): st.floats(width=32, allow_nan=False), pa.float64(): st.floats(allow_nan=False)}


@pytest.mark.parametrize("kind", [kind for kind in {**COLUMNS, **FLOATS} if not needs_ranks(kind)], ids=str)
@given(data=st.data())
def test_codes_give_their_values_back(kind, data):
    """Every value comes back from its code, with its type; the default comes back as null."""
    values = pa.array(data.draw(st.lists(st.none() | {**COLUMNS, **FLOATS}[kind], max_size=12)), kind)
    back = decode_ordering(encode_ordering(values, kind, len(values)), kind)
    expected = values if not pa.types.is_int32(kind) else pa.array([v or None for v in values.to_pylist()], kind)
    assert back.type == kind
    assert repr(back.to_pylist()) == repr(expected.to_pylist())  # the zeros of floats have a sign


def test_nan_and_points_in_time_of_any_unit_come_back():
    """NaN is NaN, and a timestamp keeps its unit and zone."""
    nan = pa.array([math.nan, -math.inf])
    assert repr(decode_ordering(encode_ordering(nan, nan.type, 2), nan.type).to_pylist()) == "[nan, -inf]"
    for kind in (pa.timestamp("ms", "UTC"), pa.timestamp("us")):
        values = pa.array([-1, None, 10**12], pa.int64()).cast(kind)
        assert decode_ordering(encode_ordering(values, kind, 3), kind).equals(values)

"""Values of column statistics."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.stats.stats_value import ValueKind, ValueType, Wrapper, stats_order, stats_value, value_type_of

K = ValueKind


@pytest.mark.parametrize(
    ("avro", "kind"),
    [
        ("boolean", K.BOOLEAN),
        (["null", "int"], K.INT),
        (["long", "null"], K.LONG),
        ("float", K.FLOAT),
        ({"type": "double"}, K.DOUBLE),
        ({"type": "string", "avro.java.string": "String"}, K.STRING),
        ("bytes", K.BYTES),
        ({"type": "fixed", "name": "F", "size": 4}, K.FIXED),
        ({"type": "string", "logicalType": "uuid"}, K.UUID),
        (["null", {"type": "int", "logicalType": "date"}], K.DATE),
        ({"type": "int", "logicalType": "time-millis"}, K.TIME_MILLIS),
        ({"type": "long", "logicalType": "time-micros"}, K.TIME_MICROS),
        ({"type": "long", "logicalType": "timestamp-millis"}, K.TIMESTAMP_MILLIS),
        ({"type": "long", "logicalType": "timestamp-micros"}, K.TIMESTAMP_MICROS),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, K.LOCAL_TIMESTAMP_MICROS),
        ({"type": "long", "logicalType": "a newer one"}, K.LONG),
        ("null", K.NULL),
    ],
)
def test_a_column_has_the_type_of_its_values(avro: Any, kind: ValueKind):
    """It may be nullable or not."""
    assert value_type_of(avro, where="c") == ValueType(kind)


def test_decimals_have_precision_and_scale():
    """They are in bytes or fixed; one without a scale has 0."""
    decimal = {"type": "fixed", "name": "d", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 3}

    assert value_type_of(["null", decimal], where="c") == ValueType(K.DECIMAL, 12, 3)
    assert value_type_of(["null", decimal], where="c").additional_info == "12,3"
    bare = {"type": "bytes", "logicalType": "decimal", "precision": 5}
    assert value_type_of(bare, where="c") == ValueType(K.DECIMAL, 5, 0)
    assert ValueType(K.LONG).additional_info is None


@pytest.mark.parametrize(
    "avro",
    [
        {"type": "record", "name": "r", "fields": []},
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "enum", "name": "e", "symbols": ["a"]},
        ["null", "int", "string"],
    ],
)
def test_others_have_no_statistics(avro: Any):
    """The error names them."""
    with pytest.raises(Unsupported, match="The column c"):
        value_type_of(avro, where="The column c")


def test_wrappers():
    """Version 2 wraps what the type is stored as; version 1 has wrappers of its own for dates and decimals."""
    assert (ValueType(K.DATE).wrapper, ValueType(K.DATE).v1_wrapper) == (Wrapper.INT, Wrapper.DATE)
    decimal = ValueType(K.DECIMAL, 5, 2)
    assert (decimal.wrapper, decimal.v1_wrapper) == (Wrapper.BYTES, Wrapper.DECIMAL)
    for kind in (K.TIMESTAMP_MICROS, K.TIMESTAMP_MILLIS, K.LONG, K.TIME_MICROS):
        assert (ValueType(kind).wrapper, ValueType(kind).v1_wrapper) == (Wrapper.LONG, Wrapper.LONG)
    assert ValueType(K.NULL).wrapper is None
    assert all(ValueType(kind).wrapper for kind in K if kind not in (K.V1, K.NULL))


@pytest.mark.parametrize(
    ("value", "kind", "kept"),
    [
        (date(1969, 12, 31), K.DATE, -1),
        (datetime(1970, 1, 1, 0, 0, 1, 5), K.LOCAL_TIMESTAMP_MICROS, 1_000_005),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), K.TIMESTAMP_MILLIS, -1),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), K.TIMESTAMP_MICROS, 0),
        (datetime(1970, 1, 1, 0, 0, 1), K.TIMESTAMP_NANOS, 1_000_000_000),
        (datetime(9999, 12, 31), K.TIMESTAMP_MICROS, 253_402_214_400_000_000),
        (time(0, 1, 0, 7), K.TIME_MICROS, 60_000_007),
        (time(0, 1), K.TIME_MILLIS, 60_000),
        (UUID(int=1), K.UUID, "00000000-0000-0000-0000-000000000001"),
        (bytearray(b"x"), K.BYTES, b"x"),
        (True, K.BOOLEAN, True),
        (Decimal("1.5"), K.DECIMAL, Decimal("1.5")),
    ],
)
def test_values_are_kept_in_the_unit_of_their_type(value: Any, kind: ValueKind, kept: Any):
    """Points in time are ints since 1970."""
    made = stats_value(value, kind)
    assert made == kept and type(made) is type(kept)


@pytest.mark.parametrize(
    "ascending",
    [
        [False, True],
        [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan],
        ["", "a", "b", "é", "鍵", "😀", "！"],  # UTF-16: the emoji's surrogates come before the full-width sign
        [b"", b"\x80", b"\xff", b"\x00", b"\x00\x80", b"\x00\x00", b"\x7f"],
        [Decimal("-1"), Decimal("0.1"), Decimal("2")],
        [-5, 3],
    ],
)
def test_values_are_ordered_as_java_orders_them(ascending: list[Any]):
    """Java's order also counts where Python has another."""
    assert [stats_order(value) for value in ascending] == sorted(stats_order(value) for value in ascending)
    assert stats_order(0.0) > stats_order(-0.0)


def test_uuids_are_two_numbers_with_a_sign():
    """One with its first bit set is below one without."""
    low, high = "80000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"
    assert stats_order(low, is_uuid=True) < stats_order(high, is_uuid=True)
    assert stats_order(low) > stats_order(high)

"""The values of column statistics: how a minimum or maximum is typed, and in which order values are.

A value lies in one of thirteen wrappers. Version 1 (tables up to version 8) has nothing but the wrapper. Version 2
keeps the column's type beside it, and wraps the primitive that the type is stored as.

In memory a value is bool, int, float, str, bytes or Decimal. Dates are days, times and points in time are ints in the
unit of their type, points in time and dates since 1970: Python's own classes hold neither nanoseconds nor every year
that a column may. `stats_value` makes such a value of what Python and Arrow have for it.

Touches: nothing.
Keeps:   values are ordered as Hudi orders them, which is not always as Python does.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum
from typing import Any

from lakeward.base.errors import Unsupported

StatsValue = bool | int | float | str | bytes | Decimal

V1_DECIMAL_PRECISION = 30
V1_DECIMAL_SCALE = 15
"""Scale of every decimal in version 1, whatever the column's."""


class StatsVersion(IntEnum):
    """Versions of column_stats and partition_stats, which the index definitions write behind a `V`."""

    V1 = 1
    V2 = 2


class Wrapper(IntEnum):
    """What a value lies in, by its branch of the union in the schema of the metadata table."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    LOCAL_DATE = 12
    ARRAY = 13


class ValueKind(IntEnum):
    """The types of version 2, by the number on disk. `V1` never is on disk."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


_WRAPPERS = {
    ValueKind.BOOLEAN: Wrapper.BOOLEAN,
    ValueKind.INT: Wrapper.INT,
    ValueKind.LONG: Wrapper.LONG,
    ValueKind.FLOAT: Wrapper.FLOAT,
    ValueKind.DOUBLE: Wrapper.DOUBLE,
    ValueKind.STRING: Wrapper.STRING,
    ValueKind.BYTES: Wrapper.BYTES,
    ValueKind.FIXED: Wrapper.BYTES,
    ValueKind.DECIMAL: Wrapper.BYTES,
    ValueKind.UUID: Wrapper.STRING,
    ValueKind.DATE: Wrapper.INT,
    ValueKind.TIME_MILLIS: Wrapper.INT,
    ValueKind.TIME_MICROS: Wrapper.LONG,
    ValueKind.TIMESTAMP_MILLIS: Wrapper.LONG,
    ValueKind.TIMESTAMP_MICROS: Wrapper.LONG,
    ValueKind.TIMESTAMP_NANOS: Wrapper.LONG,
    ValueKind.LOCAL_TIMESTAMP_MILLIS: Wrapper.LONG,
    ValueKind.LOCAL_TIMESTAMP_MICROS: Wrapper.LONG,
    ValueKind.LOCAL_TIMESTAMP_NANOS: Wrapper.LONG,
}
_V1_WRAPPERS = {**_WRAPPERS, ValueKind.DATE: Wrapper.DATE, ValueKind.DECIMAL: Wrapper.DECIMAL}


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of version 2: its kind, and of a decimal precision and scale."""

    kind: ValueKind
    precision: int | None = None
    scale: int | None = None

    @property
    def wrapper(self) -> Wrapper | None:
        """What its values lie in; None for the type of nothing but nulls."""
        return _WRAPPERS.get(self.kind)

    @property
    def v1_wrapper(self) -> Wrapper | None:
        """What the values of such a column lie in in version 1, where they come from a base file's footer."""
        return _V1_WRAPPERS.get(self.kind)

    @property
    def additional_info(self) -> str | None:
        """`precision,scale` of a decimal."""
        return f"{self.precision},{self.scale}" if self.kind is ValueKind.DECIMAL else None


_PRIMITIVES = {
    "null": ValueKind.NULL,
    "boolean": ValueKind.BOOLEAN,
    "int": ValueKind.INT,
    "long": ValueKind.LONG,
    "float": ValueKind.FLOAT,
    "double": ValueKind.DOUBLE,
    "string": ValueKind.STRING,
    "bytes": ValueKind.BYTES,
    "fixed": ValueKind.FIXED,
}
_LOGICAL = {
    ("int", "date"): ValueKind.DATE,
    ("int", "time-millis"): ValueKind.TIME_MILLIS,
    ("long", "time-micros"): ValueKind.TIME_MICROS,
    ("long", "timestamp-millis"): ValueKind.TIMESTAMP_MILLIS,
    ("long", "timestamp-micros"): ValueKind.TIMESTAMP_MICROS,
    ("long", "timestamp-nanos"): ValueKind.TIMESTAMP_NANOS,
    ("long", "local-timestamp-millis"): ValueKind.LOCAL_TIMESTAMP_MILLIS,
    ("long", "local-timestamp-micros"): ValueKind.LOCAL_TIMESTAMP_MICROS,
    ("long", "local-timestamp-nanos"): ValueKind.LOCAL_TIMESTAMP_NANOS,
    ("string", "uuid"): ValueKind.UUID,
}


def value_type_of(avro_type: Any, *, where: str) -> ValueType:
    """The type of a column's values in version 2.

    Args:
        avro_type: of the column as the table's schema has it (parsed JSON), nullable or not.
        where: names the column in errors.

    Raises `Unsupported` for types that have no statistics: records, arrays, maps, enums.
    """
    match avro_type:
        case [only] | ["null", only] | [only, "null"]:
            return value_type_of(only, where=where)
        case str() if avro_type in _PRIMITIVES:
            return ValueType(_PRIMITIVES[avro_type])
        case {"type": "bytes" | "fixed", "logicalType": "decimal", "precision": int(precision)}:
            return ValueType(ValueKind.DECIMAL, precision, int(avro_type.get("scale", 0)))
        case {"type": str(primitive)} if primitive in _PRIMITIVES:
            return ValueType(_LOGICAL.get((primitive, str(avro_type.get("logicalType"))), _PRIMITIVES[primitive]))
        case {"type": dict() | list() as inner}:
            return value_type_of(inner, where=where)
    raise Unsupported(
        f"{where} has no column statistics.",
        why="Hudi keeps them of columns with plain values only.",
        remedy="Take the column off the columns that are indexed (hoodie.metadata.index.column.stats.column.list).",
    )


def stats_value(value: Any, kind: ValueKind) -> StatsValue:
    """A value of Python's or Arrow's as it is kept here: dates, times, datetimes, UUIDs, whatever holds bytes.

    A datetime without a zone is taken as it stands, one with a zone in UTC.
    """
    if isinstance(value, datetime):
        zoned = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
        return _in_unit((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, kind)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _in_unit(seconds * 1_000_000 + value.microsecond, kind)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    assert isinstance(value, bool | int | float | str | bytes | Decimal), type(value)
    return value


def stats_order(value: StatsValue, *, is_uuid: bool = False) -> Any:
    """A key to sort the values of one column by, as Hudi compares them: text by UTF-16 units, bytes by their value with
    sign, NaN above all numbers, -0.0 below 0.0, UUIDs as two longs with sign."""
    match value:
        case str() if is_uuid:
            high, low = divmod(uuid.UUID(value).int, 1 << 64)
            return _signed(high), _signed(low)
        case str():
            return value.encode("utf-16-be", "surrogatepass")
        case bytes():
            return value.translate(_SIGN_FLIPPED)
        case float():
            return (True, 0.0, True) if math.isnan(value) else (False, value, math.copysign(1.0, value) > 0)
    return value


_SIGN_FLIPPED = bytes(byte ^ 0x80 for byte in range(256))

_UNITS = {"MILLIS": 1000, "MICROS": 1}


def _in_unit(micros: int, kind: ValueKind) -> int:
    unit = kind.name.rpartition("_")[2]
    return micros * 1000 if unit == "NANOS" else micros // _UNITS[unit]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value

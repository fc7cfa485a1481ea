"""Column statistics from and to Avro: the record inside of a metadata record, with its wrapped values.

    fileName | columnName | minValue | maxValue | valueCount | nullCount | totalSize | totalUncompressedSize |
    isDeleted | isTightBound (1.0) | valueType (1.1)

Touches: nothing.
Keeps:   1. a value's wrapper is the one that its type is stored as, on both ways;
         2. a value that its wrapper would change (a double in a float) is a `ValueError`, not written.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from lakeward.format.avro.primitive import (
    encode_boolean,
    encode_bytes,
    encode_int,
    encode_long,
    encode_text,
    read_boolean,
    read_bytes,
    read_int,
    read_long,
    read_text,
)
from lakeward.format.metadata.record import ColumnStatsRecord, PartitionStatsRecord, StatsRecord
from lakeward.format.metadata.record_schema import RecordLayout
from lakeward.format.stats.stats_value import (
    V1_DECIMAL_PRECISION,
    V1_DECIMAL_SCALE,
    StatsValue,
    ValueKind,
    ValueType,
    Wrapper,
)

NULL, PRESENT = b"\x00", b"\x02"
"""Branches of a nullable field."""

_DECIMAL_BYTES_MAX = 64
"""Hudi's have 16. To make a number of a megabyte takes Python longer than its length allows."""
_EXACT = Context(prec=200)
_PRECISION_AND_SCALE = re.compile(r"([0-9]{1,2}),([0-9]{1,2})")

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TIGHT_FIELDS = 10
_TYPED_FIELDS = 11
_KINDS = {int(kind): kind for kind in ValueKind if kind is not ValueKind.V1}
_WRAPPERS = {int(wrapper): wrapper for wrapper in Wrapper}
_TYPES = {kind: ValueType(kind) for kind in ValueKind if kind is not ValueKind.DECIMAL}


class NotUnderstood(Exception):
    """It is sound, and of a kind that this release does not know."""


def read_stats(
    data: bytes,
    at: int,
    layout: RecordLayout,
    kind: type[ColumnStatsRecord] | type[PartitionStatsRecord],
) -> tuple[ColumnStatsRecord | PartitionStatsRecord, int]:
    """Raises `ValueError` and `IndexError` for broken bytes, and `NotUnderstood`."""
    file_name, at = read_nullable_text(data, at)
    column, at = read_nullable_text(data, at)
    low, low_wrapper, at = _read_value(data, at)
    high, high_wrapper, at = _read_value(data, at)
    value_count, at = read_nullable_long(data, at)
    null_count, at = read_nullable_long(data, at)
    total_size, at = read_nullable_long(data, at)
    total_uncompressed_size, at = read_nullable_long(data, at)
    is_deleted, at = read_boolean(data, at)
    is_tight = False
    value_type = None
    if layout.fields >= _TIGHT_FIELDS:
        is_tight, at = read_boolean(data, at)
    if layout.fields >= _TYPED_FIELDS:
        value_type, at = _read_value_type(data, at)
    at = skip_nulls(data, at, layout.others)
    wrapper = low_wrapper or high_wrapper
    if high_wrapper is not None and wrapper is not high_wrapper:
        raise ValueError("Its minimum and its maximum lie in different wrappers")
    if value_type is not None:
        if wrapper is not None and wrapper is not value_type.wrapper:
            raise ValueError(f"Its values lie in wrapper {wrapper.name}, and their type is {value_type.kind.name}")
        if value_type.kind is ValueKind.DECIMAL:
            low, high = _as_decimal(low, value_type.scale), _as_decimal(high, value_type.scale)
        wrapper = None
    elif wrapper is Wrapper.DECIMAL:
        low, high = _as_decimal(low, V1_DECIMAL_SCALE), _as_decimal(high, V1_DECIMAL_SCALE)
    record = kind(
        file_name=file_name,
        column=column,
        min_value=low,
        max_value=high,
        value_count=value_count,
        null_count=null_count,
        total_size=total_size,
        total_uncompressed_size=total_uncompressed_size,
        is_deleted=is_deleted,
        is_tight=is_tight,
        value_type=value_type,
        wrapper=wrapper,
    )
    return record, at


def encode_stats(record: StatsRecord, layout: RecordLayout, wrappers: int) -> bytes:
    """Raises `ValueError` for what the layout, or any, cannot hold."""
    value_type = record.value_type
    wrapper = record.wrapper if value_type is None else value_type.wrapper
    if value_type is None:
        precision, scale = V1_DECIMAL_PRECISION, V1_DECIMAL_SCALE
    else:
        if record.wrapper is not None:
            raise ValueError("its values have both a type and a wrapper")
        precision, scale = value_type.precision or 0, value_type.scale or 0
    if record.wrapper is not None and record.min_value is None and record.max_value is None:
        raise ValueError("it has a wrapper and no values")
    as_decimal = wrapper is Wrapper.DECIMAL or (value_type is not None and value_type.kind is ValueKind.DECIMAL)
    values = []
    for value in (record.min_value, record.max_value):
        if value is None:
            values.append(NULL)
            continue
        if wrapper is None:
            raise ValueError("its values have neither a type nor a wrapper")
        if wrapper > wrappers:
            raise ValueError(f"its values lie in wrapper {wrapper.name}, which the schema lacks")
        if as_decimal:
            if not isinstance(value, Decimal):
                raise ValueError(f"{value!r} is no decimal")
            value = _unscaled(value, precision, scale)
        values.append(_BRANCHES[wrapper] + _encode_value(value, wrapper))
    parts = [
        encode_nullable_text(record.file_name),
        encode_nullable_text(record.column),
        *values,
        encode_nullable_long(record.value_count),
        encode_nullable_long(record.null_count),
        encode_nullable_long(record.total_size),
        encode_nullable_long(record.total_uncompressed_size),
        encode_boolean(record.is_deleted),
    ]
    if layout.fields >= _TIGHT_FIELDS:
        parts.append(encode_boolean(record.is_tight))
    elif record.is_tight:
        raise ValueError("its range is tight, which the schema cannot say")
    if layout.fields >= _TYPED_FIELDS:
        parts.append(NULL if value_type is None else _encode_value_type(value_type))
    elif value_type is not None:
        raise ValueError("its values have a type, which the schema cannot say")
    parts.append(bytes(layout.others))
    return b"".join(parts)


def read_branch(data: bytes, at: int) -> tuple[bool, int]:
    """Whether a nullable value is there."""
    branch = data[at]
    if branch == 0:
        return False, at + 1
    if branch == 2:
        return True, at + 1
    raise ValueError("A branch is neither null nor the other one")


def read_nullable_text(data: bytes, at: int) -> tuple[str | None, int]:
    there, at = read_branch(data, at)
    return read_text(data, at) if there else (None, at)


def read_nullable_long(data: bytes, at: int) -> tuple[int | None, int]:
    there, at = read_branch(data, at)
    return read_long(data, at) if there else (None, at)


def skip_nulls(data: bytes, at: int, count: int) -> int:
    """Past fields of a newer release, if they hold nothing."""
    for place in range(at, at + count):
        if data[place] != 0:
            raise NotUnderstood("It has fields of a newer release, and they are not empty")
    return at + count


def encode_nullable_text(value: str | None) -> bytes:
    return NULL if value is None else PRESENT + encode_text(value)


def encode_nullable_long(value: int | None) -> bytes:
    return NULL if value is None else PRESENT + encode_long(value)


def _read_value(data: bytes, at: int) -> tuple[StatsValue | None, Wrapper | None, int]:
    branch, at = read_long(data, at)
    if branch == 0:
        return None, None, at
    read = _READERS.get(branch)
    if read is None:
        if branch == Wrapper.ARRAY:
            raise NotUnderstood("Its values are arrays")
        raise ValueError(f"Its values lie in wrapper {branch}, which does not exist")
    value, at = read(data, at)
    return value, _WRAPPERS[branch], at


def _encode_value(value: StatsValue, wrapper: Wrapper) -> bytes:
    kind, encode = _ENCODERS.get(wrapper, (None, None))
    # A bool is an int to Python, but not to Avro.
    if type(value) is not kind or encode is None:
        raise ValueError(f"{value!r} does not fit wrapper {wrapper.name}")
    return encode(value)


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + _FLOAT.size


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + _DOUBLE.size


def _encode_float(value: float) -> bytes:
    try:
        encoded = _FLOAT.pack(value)
    except OverflowError:
        encoded = b""
    if not encoded or (_FLOAT.unpack(encoded)[0] != value and not math.isnan(value)):
        raise ValueError(f"the number {value!r} is no float of 32 bits")
    return encoded


def _read_value_type(data: bytes, at: int) -> tuple[ValueType | None, int]:
    there, at = read_branch(data, at)
    if not there:
        return None, at
    ordinal, at = read_int(data, at)
    info, at = read_nullable_text(data, at)
    kind = _KINDS.get(ordinal)
    if kind is None:
        raise NotUnderstood(f"Its values are of type {ordinal}")
    if kind is not ValueKind.DECIMAL:
        return _TYPES[kind], at
    match = _PRECISION_AND_SCALE.fullmatch(info or "")
    if match is None:
        raise ValueError(f"Its decimals have {info!r} for their precision and scale")
    return ValueType(kind, int(match[1]), int(match[2])), at


def _encode_value_type(value_type: ValueType) -> bytes:
    if value_type.kind is ValueKind.V1 or (value_type.kind is ValueKind.DECIMAL) != (value_type.precision is not None):
        raise ValueError(f"{value_type} is no type of a column")
    return PRESENT + encode_int(value_type.kind) + encode_nullable_text(value_type.additional_info)


def _as_decimal(value: StatsValue | None, scale: int | None) -> Decimal | None:
    if value is None:
        return None
    assert isinstance(value, bytes) and scale is not None
    if not 0 < len(value) <= _DECIMAL_BYTES_MAX:
        raise ValueError(f"A decimal has {len(value)} bytes")
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)


def _unscaled(value: Decimal, precision: int, scale: int) -> bytes:
    """Big-endian with a sign, in as few bytes as Java takes."""
    exact = value.is_finite() and (not value or value.adjusted() + scale < precision)
    number = 0
    if exact and value:
        scaled = value.scaleb(scale, _EXACT)
        number = int(scaled)
        exact = number == scaled
    if not exact:
        raise ValueError(f"the decimal {value} does not fit {precision} digits, {scale} of them behind the point")
    bits = number.bit_length() if number >= 0 else (-number - 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


_READERS: dict[int, Callable[[bytes, int], tuple[StatsValue, int]]] = {
    Wrapper.BOOLEAN: read_boolean,
    Wrapper.INT: read_int,
    Wrapper.LONG: read_long,
    Wrapper.FLOAT: _read_float,
    Wrapper.DOUBLE: _read_double,
    Wrapper.BYTES: read_bytes,
    Wrapper.STRING: read_text,
    Wrapper.DATE: read_int,
    Wrapper.DECIMAL: read_bytes,
    Wrapper.TIME_MICROS: read_long,
    Wrapper.TIMESTAMP_MICROS: read_long,
    Wrapper.LOCAL_DATE: read_int,
}
_ENCODERS: dict[Wrapper, tuple[type, Callable[[Any], bytes]]] = {
    Wrapper.BOOLEAN: (bool, encode_boolean),
    Wrapper.INT: (int, encode_int),
    Wrapper.LONG: (int, encode_long),
    Wrapper.FLOAT: (float, _encode_float),
    Wrapper.DOUBLE: (float, _DOUBLE.pack),
    Wrapper.BYTES: (bytes, encode_bytes),
    Wrapper.STRING: (str, encode_text),
    Wrapper.DATE: (int, encode_int),
    Wrapper.DECIMAL: (bytes, encode_bytes),
    Wrapper.TIME_MICROS: (int, encode_long),
    Wrapper.TIMESTAMP_MICROS: (int, encode_long),
    Wrapper.LOCAL_DATE: (int, encode_int),
}
_BRANCHES = {wrapper: encode_long(wrapper) for wrapper in Wrapper}

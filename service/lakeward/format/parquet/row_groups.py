"""What the footer of a Parquet file says of the values in its row groups: from which to which they reach.

Touches: nothing; the footer was read already.
Keeps:   1. a range holds each value of the row group, as the wanted type has it and in the order of its kind: whole
            numbers, dates as days and times as microseconds since 1970 among them, or text by its UTF-8 bytes. Nulls
            are no values;
         2. where that is not certain nothing is said: another kind of type in the file than wanted, no statistics, text
            that was cut within a character, bounds that contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeward.format.avro.schema import REQUIRED_KEY
from lakeward.format.parquet.batches import ParquetBatches

Value = str | int
_MICROS = {"ms": 1000, "us": 1}
"""Microseconds in units of time that divide into them."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Both bounds may be among the values; in text they need not be."""

    low: Value
    high: Value

    def joined(self, other: ValueRange) -> ValueRange:
        """The range that holds both; their values are of one kind."""
        return ValueRange(min(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True, slots=True)
class RowGroup:
    number: int
    rows: int
    ranges: Mapping[str, ValueRange | None]
    """The range of each column; None where it holds nulls alone. A column of which nothing is known is not there."""
    without_nulls: frozenset[str] = frozenset()
    """Columns with a range of which it is known that no value is null."""


def stored_values(values: pa.Array) -> pa.Array | None:
    """Values as bounds of ranges have them: text and whole numbers. None for those of other types."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        return values
    if kind == pa.date32():
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(kind) and kind.unit == "us" else None


def row_groups(file: ParquetBatches, wanted: pa.Schema) -> list[RowGroup]:
    """The row groups of an open file with the ranges of these columns, which have these types when they are read."""
    leaves = {file.metadata.schema.column(at).path: at for at in range(file.metadata.num_columns)}
    groups = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        ranges: dict[str, ValueRange | None] = {}
        without_nulls: set[str] = set()
        for column in wanted:
            if column.name not in file.schema.names:
                if REQUIRED_KEY not in (column.metadata or {}):
                    ranges[column.name] = None  # the file is older than the column, which is null in all its rows
            elif column.name in leaves:
                written = file.schema.field(column.name).type
                if _are_alike(written, column.type):
                    chunk = group.column(leaves[column.name])
                    found = _range(column.name, chunk, _factor(written))
                    ranges |= found
                    if found and _has_no_null(chunk, int(group.num_rows)):
                        without_nulls.add(column.name)
        groups.append(RowGroup(number, int(group.num_rows), ranges, frozenset(without_nulls)))
    return groups


def _are_alike(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Text, or whole numbers and times that are at most made finer: bringing them to the wanted type leaves their order
    alone."""
    if pa.types.is_timestamp(written) and pa.types.is_timestamp(wanted):
        factors = _MICROS.get(written.unit, 0), _MICROS.get(wanted.unit, 0)
        return (written.tz is None) is (wanted.tz is None) and factors[0] >= factors[1] > 0
    if written == pa.date32():
        return bool(wanted == written)
    if pa.types.is_signed_integer(written):
        return bool(pa.types.is_signed_integer(wanted) and wanted.bit_width >= written.bit_width)
    return bool(pa.types.is_string(written) and pa.types.is_string(wanted))


def _factor(written: pa.DataType) -> int:
    return _MICROS[written.unit] if pa.types.is_timestamp(written) else 1


def _range(name: str, chunk: Any, factor: int) -> dict[str, ValueRange | None]:
    statistics = chunk.statistics
    if statistics is None or chunk.physical_type == "INT96":
        return {}
    if not statistics.has_min_max:
        nulls_alone = statistics.has_null_count and statistics.null_count == chunk.num_values
        return {name: None} if nulls_alone else {}
    low, high = _decoded(statistics.min_raw), _decoded(statistics.max_raw)
    if low is None or high is None or low > high:  # type: ignore[operator]
        return {}
    if factor != 1:
        assert isinstance(low, int) and isinstance(high, int), "times are numbers"
        low, high = low * factor, high * factor
    return {name: ValueRange(low, high)}


def _has_no_null(chunk: Any, rows: int) -> bool:
    statistics = chunk.statistics
    return bool(statistics.has_null_count and statistics.null_count == 0 and chunk.num_values == rows)


def _decoded(raw: object) -> Value | None:
    if isinstance(raw, int):
        return raw
    assert isinstance(raw, bytes), type(raw)
    try:
        return raw.decode()  # code points have the order of their UTF-8 bytes
    except UnicodeDecodeError:
        return None

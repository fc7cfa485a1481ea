"""The smallest and largest value of columns, and how many nulls, over rows that come batch by batch.

What a Parquet footer does not say is taken from the rows here: log files have no footer, and where a file's writer
left a range out, or NaN out of a range, the range is made again. Dates, times and points in time come out as ints in
the unit of their Arrow type, which is the unit of their Avro and Parquet type too.

Touches: nothing.
Keeps:   1. every value that is not null lies within the range, by the order that queries use: text and bytes by their
            unsigned bytes, NaN above every number;
         2. both ends of a range are values that are there, until they are `cut`;
         3. memory holds two values a column, however many rows come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.stats.stats_value import StatsValue

LENGTH_MAX = 4096
"""Characters or bytes of an end that is kept whole."""

_NAN = float("nan")
_CUT_LENGTH = 256
_CODE_POINT_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The range of one column."""

    min_value: StatsValue | None = None
    """None where there is no value but null."""
    max_value: StatsValue | None = None
    value_count: int = 0
    """Nulls included."""
    null_count: int = 0


class ColumnRangeAccumulator:
    """Feed it batches of one schema with `add`; ask for `ranges` at any time."""

    def __init__(self, columns: Iterable[str], schema: pa.Schema) -> None:
        """
        Args:
            columns: fields of records are named with dots; a column that the schema does not have gets no range.

        Raises `Unsupported` for columns that have no order: records, lists, maps, and what lies in lists and maps.
        """
        self._paths = {column: path for column in columns if (path := _path(column, schema)) is not None}
        self._ranges = {column: ColumnRange() for column in self._paths}

    def add(self, batch: pa.RecordBatch) -> None:
        for column, path in self._paths.items():
            values: Any = batch.column(path[0])
            if len(path) > 1:
                values = pc.struct_field(values, path[1:])  # null wherever a record above is null
            self._ranges[column] = joined(self._ranges[column], range_of(values))

    @property
    def ranges(self) -> dict[str, ColumnRange]:
        return dict(self._ranges)


def range_of(values: pa.Array) -> ColumnRange:
    """The range of an array of anything that has an order."""
    counted = ColumnRange(value_count=len(values), null_count=values.null_count)
    if len(values) == values.null_count:
        return counted
    plain = _plain(values)
    smallest, largest = _min_max(plain)
    return ColumnRange(smallest, largest, counted.value_count, counted.null_count)


def joined(one: ColumnRange, other: ColumnRange) -> ColumnRange:
    """The range of both together."""
    return ColumnRange(
        least(one.min_value, other.min_value),
        greatest(one.max_value, other.max_value),
        one.value_count + other.value_count,
        one.null_count + other.null_count,
    )


def cut(found: ColumnRange) -> ColumnRange:
    """The same range with ends of text or bytes that are not too long for a record: a long end is cut and lies as far
    outside as that takes. Parquet leaves out the ranges of such columns; Hudi keeps them whole in the statistics of
    log files.
    """
    smallest, largest = found.min_value, found.max_value
    if isinstance(smallest, str | bytes) and len(smallest) > LENGTH_MAX:
        smallest = smallest[:_CUT_LENGTH]
    if isinstance(largest, str | bytes) and len(largest) > LENGTH_MAX:
        largest = _above(largest)
    return ColumnRange(smallest, largest, found.value_count, found.null_count)


def _above(value: str | bytes) -> str | bytes:
    """A short value that is greater; the value itself where there is none."""
    for at in range(_CUT_LENGTH - 1, -1, -1):
        if isinstance(value, bytes):
            if value[at] < 0xFF:
                return value[:at] + bytes([value[at] + 1])
        elif ord(value[at]) < _CODE_POINT_MAX:
            following = ord(value[at]) + 1
            return value[:at] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return value


def least(one: StatsValue | None, other: StatsValue | None) -> StatsValue | None:
    """The smaller of two values of one type; None is no value."""
    if one is None or other is None:
        return other if one is None else one
    return other if is_less(other, one) else one


def greatest(one: StatsValue | None, other: StatsValue | None) -> StatsValue | None:
    """The larger of two values of one type; None is no value."""
    if one is None or other is None:
        return other if one is None else one
    return other if is_less(one, other) else one


def is_less(one: StatsValue, other: StatsValue) -> bool:
    """The order of two values of one type.

    Hudi merges ranges by Java's order instead, in which bytes have a sign and text is compared in UTF-16 units; queries
    by Spark do not. A range that Java calls joined may then leave out values that Spark looks for, so the order here is
    Spark's. Between U+E000 and U+FFFF and in bytes of 0x80 and more the two differ.
    """
    if isinstance(one, float) and isinstance(other, float) and (one != one or other != other):
        return one == one
    # Python compares text by code points, which is the order of its UTF-8 bytes.
    return bool(one < other)  # type: ignore[operator]


def _min_max(values: Any) -> tuple[StatsValue, StatsValue]:
    if not pa.types.is_floating(values.type):
        found = pc.min_max(values).as_py()
        return found["min"], found["max"]
    is_nan = pc.is_nan(values)
    if not pc.any(is_nan).as_py():
        found = pc.min_max(values).as_py()
        return found["min"], found["max"]
    numbers = values.filter(pc.invert(is_nan)).drop_null()
    return (pc.min(numbers).as_py() if len(numbers) else _NAN), _NAN


def _plain(values: Any) -> Any:
    """Dates, times and points in time as the ints that they are stored as; all else as it is."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return values.view(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        return values.view(pa.int64())
    return values


def _path(column: str, schema: pa.Schema) -> list[int] | None:
    """The indexes of the column and of the fields below it, or None if it is not there."""
    at = schema.get_field_index(column)
    if at >= 0:
        return _ordered(column, schema.field(at).type, [at])
    name, *names = column.split(".")
    at = schema.get_field_index(name)
    if at < 0:
        return None
    path, kind = [at], schema.field(at).type
    for name in names:
        if not pa.types.is_struct(kind):
            raise _unordered(column, kind)
        at = kind.get_field_index(name)
        if at < 0:
            return None
        path.append(at)
        kind = kind.field(at).type
    return _ordered(column, kind, path)


def _ordered(column: str, kind: pa.DataType, path: list[int]) -> list[int]:
    if pa.types.is_nested(kind):
        raise _unordered(column, kind)
    return path


def _unordered(column: str, kind: pa.DataType) -> Unsupported:
    return Unsupported(
        f"The column {column} has no statistics that we can make.",
        why=f"Column statistics are declared for it, and it is or lies in a {kind}.",
        remedy="Take it from hoodie.metadata.index.column.stats.column.list in the table's writers.",
    )

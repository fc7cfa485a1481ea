"""What the footer of a Parquet base file says for the metadata table: column statistics and the bloom filter.

Hudi copies the statistics of the column chunks, joined over the row groups, with the type that the file gives the
column. Where they are there and can be trusted, we do the same. Where not, Hudi makes a range of nothing: a column
chunk without a range counts as the range from 0 to 0, one without statistics as nothing but nulls, and queries then
skip files that hold what they look for. In these places the column chunk is read instead:

    a range is missing            Parquet writers leave it out where values are long; Lakeward does not (`long_values`)
    the type is float or double   all writers but Java's leave NaN out of the range; Spark's NaN is above all numbers
    text cannot be decoded        it was cut within a character

The range of the record key comes from the footer's own entries, which are never cut, as Hudi's indexes need it.

Touches: the source it is given, by seeking and reading.
Keeps:   1. every value of the file lies within the range;
         2. a file with a column that has no type here gets no statistics at all, as with Hudi: readers never skip
            a file that nothing is known of, but take a column without statistics, beside others that have some, for
            nothing but nulls;
         3. memory is bounded by one batch of one column.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.key_summary import BLOOM_KEY, BLOOM_TYPE_KEY, MAX_KEY, MIN_KEY
from lakeward.format.parquet.pages import BadPage
from lakeward.format.stats.column_range import ColumnRange, cut, joined, range_of
from lakeward.format.stats.stats_value import StatsValue, StatsVersion, ValueKind, ValueType
from lakeward.storage.storage import is_of_storage

_KEY_COLUMN = "_hoodie_record_key"
_EXACT_FLOATS_BY = "parquet-mr"  # Java's writer: where there is NaN, it leaves the range out

_PHYSICAL = {
    "BOOLEAN": ValueKind.BOOLEAN,
    "INT32": ValueKind.INT,
    "INT64": ValueKind.LONG,
    "FLOAT": ValueKind.FLOAT,
    "DOUBLE": ValueKind.DOUBLE,
    "BYTE_ARRAY": ValueKind.BYTES,
    "FIXED_LEN_BYTE_ARRAY": ValueKind.FIXED,
}
_UNITS = {"milliseconds": "MILLIS", "microseconds": "MICROS", "nanoseconds": "NANOS"}


def read_column_stats(
    source: BinaryIO,
    columns: Collection[str],
    *,
    file_name: str,
    version: StatsVersion,
    seen: Mapping[str, ColumnRange] | None = None,
) -> list[ColumnStatsRecord]:
    """A record for each of `columns` that the file has; none where it has no rows, or by the second invariant.

    Args:
        columns: fields of records are named with dots.
        seen: what `ColumnRangeAccumulator` has of some columns from the rows as they were written, for all rows of
            the file. It spares reading them here; feeding it `columns_to_watch` makes this read the footer alone.
    """
    try:
        with _opened(source) as file:
            return _read(file, _Request(source, frozenset(columns), file_name, version, seen or {}))
    except (pa.ArrowException, OSError, UnicodeDecodeError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(file_name, broken) from broken


def read_footer_entries(source: BinaryIO, *, file_name: str) -> Mapping[bytes, bytes]:
    """What the footer says beside rows and columns, such as filter and range of its keys. Raises `BrokenFile`."""
    try:
        return pq.read_metadata(source).metadata or {}
    except (pa.ArrowException, OSError) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(file_name, broken) from broken


def read_bloom_filter(source: BinaryIO, *, file_name: str) -> tuple[str, bytes] | None:
    """The type of the file's bloom filter and its text as the footer has it; None without one."""
    entries = read_footer_entries(source, file_name=file_name)
    text = entries.get(BLOOM_KEY.encode())
    if text is None:
        return None
    return entries.get(BLOOM_TYPE_KEY.encode(), SIMPLE_TYPE_CODE.encode()).decode(), text


def columns_to_watch(columns: Collection[str], schema: pa.Schema) -> tuple[str, ...]:
    """Columns whose range the footers of our own files do not have: floats and doubles among `columns`."""
    return tuple(column for column in columns if _is_floating(column, schema))


@dataclass(frozen=True, slots=True)
class _Request:
    source: BinaryIO
    columns: frozenset[str]
    file_name: str
    version: StatsVersion
    seen: Mapping[str, ColumnRange]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the file that statistics are wanted of."""

    name: str
    index: int
    """The place among the column chunks of a row group."""
    type: ValueType
    path: str
    """The path as the file names it."""


def _read(file: pq.ParquetFile, request: _Request) -> list[ColumnStatsRecord]:
    metadata = file.metadata
    columns = _columns(file, request)
    if columns is None or metadata.num_row_groups == 0:
        return []
    return [_record(file, column, request) for column in columns]


def _columns(file: pq.ParquetFile, request: _Request) -> list[_Column] | None:
    """None if one has no type here."""
    found = []
    for index in range(file.metadata.num_columns):
        column = file.schema.column(index)
        # Hudi's Avro writer calls the elements of a list `array`; the index definitions call them `list.element`.
        name = column.path.replace(".array.", ".list.element.")
        name = name.removesuffix(".array") + ".list.element" if name.endswith(".array") else name
        if name not in request.columns and column.path not in request.columns:
            continue
        kind = _value_type(column, request.version)
        if kind is None:
            return None
        found.append(_Column(name, index, kind, column.path))
    return found


def _record(file: pq.ParquetFile, column: _Column, request: _Request) -> ColumnStatsRecord:
    metadata = file.metadata
    chunks = [metadata.row_group(group).column(column.index) for group in range(metadata.num_row_groups)]
    seen = request.seen.get(column.name)
    if seen is not None and seen.value_count != metadata.num_rows:
        raise _broken(request.file_name, f"It has {metadata.num_rows} rows where {seen.value_count} were written.")
    found = _range(file, column, chunks, request) if seen is None else _with_chunks_of_nulls(seen, column.type, chunks)
    if column.name == _KEY_COLUMN:
        found = _exact_key_range(found, metadata.metadata or {})
    found = cut(found)
    is_v1 = request.version is StatsVersion.V1
    return ColumnStatsRecord(
        file_name=request.file_name,
        column=column.name,
        min_value=found.min_value,
        max_value=found.max_value,
        value_count=sum(chunk.num_values for chunk in chunks),
        null_count=found.null_count,
        total_size=sum(chunk.total_compressed_size for chunk in chunks),
        total_uncompressed_size=sum(chunk.total_uncompressed_size for chunk in chunks),
        value_type=None if is_v1 else column.type,
        wrapper=column.type.v1_wrapper if is_v1 and found.min_value is not None else None,
    )


def _range(file: pq.ParquetFile, column: _Column, chunks: list[Any], request: _Request) -> ColumnRange:
    found = ColumnRange()
    java_wrote = str(file.metadata.created_by).startswith(_EXACT_FLOATS_BY)
    for group, chunk in enumerate(chunks):
        of_chunk = _range_of_chunk(chunk, column.type, java_wrote=java_wrote)
        found = joined(found, of_chunk or _range_of_rows(request, column, group, int(chunk.num_values)))
    return found


def _range_of_chunk(chunk: Any, kind: ValueType, *, java_wrote: bool) -> ColumnRange | None:
    """The range by the chunk's statistics; None where they do not say it."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    if _holds_nulls_alone(chunk):
        return _range_of_nulls(chunk, kind)
    is_floating = kind.kind in (ValueKind.FLOAT, ValueKind.DOUBLE)
    if not statistics.has_min_max or (is_floating and not java_wrote):
        return None
    try:
        smallest, largest = (_value(raw, kind) for raw in (statistics.min_raw, statistics.max_raw))
    except UnicodeDecodeError:
        return None
    if smallest != smallest or largest != largest:  # NaN
        return None
    return ColumnRange(smallest, largest, int(chunk.num_values), int(statistics.null_count))


def _holds_nulls_alone(chunk: Any) -> bool:
    """True where the chunk's statistics say that it holds nulls alone."""
    statistics = chunk.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values


def _range_of_nulls(chunk: Any, kind: ValueType) -> ColumnRange:
    """What Java's statistics hold before the first value is no null, and Hudi writes it down."""
    zero = _zero(chunk.physical_type, kind)
    return ColumnRange(zero, zero, int(chunk.num_values), int(chunk.num_values))


def _with_chunks_of_nulls(seen: ColumnRange, kind: ValueType, chunks: list[Any]) -> ColumnRange:
    """What was seen of all rows, with what Hudi makes of the chunks that hold nothing but nulls."""
    found = seen
    for chunk in filter(_holds_nulls_alone, chunks):
        found = joined(found, _range_of_nulls(chunk, kind))
    return replace(found, value_count=seen.value_count, null_count=seen.null_count)


def _range_of_rows(request: _Request, column: _Column, group: int, count: int) -> ColumnRange:
    found = ColumnRange()
    file = ParquetBatches(request.source, where=f"the base file {request.file_name}")
    batches = file.read([column.path], groups=[group])
    for values in _leaves(batches):
        found = joined(found, range_of(values))
    # Null and empty lists count as nulls of their elements, but are not among the values.
    return replace(found, value_count=count, null_count=count - (found.value_count - found.null_count))


def _leaves(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Array]:
    """The one column at the bottom of each batch of one column."""
    for batch in batches:
        values = batch.column(0)
        while pa.types.is_nested(values.type):
            values = values.flatten()[0] if pa.types.is_struct(values.type) else values.flatten()
        yield values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _exact_key_range(found: ColumnRange, entries: Mapping[bytes, bytes]) -> ColumnRange:
    smallest, largest = entries.get(MIN_KEY.encode()), entries.get(MAX_KEY.encode())
    if smallest is None or largest is None:
        return found
    return replace(found, min_value=smallest.decode(), max_value=largest.decode())


def _value_type(column: Any, version: StatsVersion) -> ValueType | None:
    """The type that the file gives the column; None for one that has none."""
    physical, logical = column.physical_type, json.loads(column.logical_type.to_json())
    match logical:
        case {"Type": "None"}:
            kind = _PHYSICAL.get(physical)
            return None if kind is None else ValueType(kind)
        case {"Type": "String"}:
            return ValueType(ValueKind.STRING)
        case {"Type": "Date"}:
            return ValueType(ValueKind.DATE)
        case {"Type": "Decimal", "precision": int(precision), "scale": int(scale)}:
            return ValueType(ValueKind.DECIMAL, precision, scale)
        case {"Type": "Time", "timeUnit": "milliseconds" | "microseconds" as unit}:
            return ValueType(ValueKind[f"TIME_{_UNITS[unit]}"])
        case {"Type": "Timestamp", "timeUnit": str(unit), "isAdjustedToUTC": bool(in_utc)} if unit in _UNITS:
            return ValueType(ValueKind[f"{'' if in_utc else 'LOCAL_'}TIMESTAMP_{_UNITS[unit]}"])
        case {"Type": "Int"} if version is StatsVersion.V1:
            return ValueType(_PHYSICAL[physical])
    return None


def _zero(physical: str, kind: ValueType) -> StatsValue | None:
    if physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return None
    return _value({"BOOLEAN": False, "FLOAT": 0.0, "DOUBLE": 0.0}.get(physical, 0), kind)


def _value(raw: Any, kind: ValueType) -> StatsValue:
    match kind.kind:
        case ValueKind.STRING:
            return bytes(raw).decode()
        case ValueKind.DECIMAL:
            unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
            digits = tuple(map(int, str(abs(unscaled))))
            return Decimal((int(unscaled < 0), digits, -(kind.scale or 0)))
        case ValueKind.BYTES | ValueKind.FIXED:
            return bytes(raw)
    assert isinstance(raw, bool | int | float), type(raw)
    return raw


def _is_floating(column: str, schema: pa.Schema) -> bool:
    kind: pa.DataType = pa.struct(list(schema))
    for name in column.split("."):
        at = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if at < 0:
            return False
        kind = kind.field(at).type
    return bool(pa.types.is_floating(kind))


def _opened(source: BinaryIO) -> pq.ParquetFile:
    return pq.ParquetFile(source, pre_buffer=False, memory_map=False, buffer_size=256 * 1024)


def _broken(file_name: str, why: object) -> BrokenFile:
    return BrokenFile(
        f"The statistics of the base file {file_name} cannot be read.",
        why=str(why),
        remedy="Restore the file from a copy, or roll back the commit that wrote it.",
    )

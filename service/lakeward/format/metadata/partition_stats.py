"""The statistics of a partition from those of its files: records of column_stats in, records of partition_stats out.

Which files count, as Hudi 1.2 counts them when a commit is written: those that the commit writes, and those of the
latest merged slice of each file group of the partition, as the table is with the commit in it:

    * the base file and every log file of the slice, also logs that a log compaction has merged, as long as the slice
      has them; a compaction's new base file begins a slice, so what it was made from counts no more;
    * of a file group in another service's pending compaction: the slice before it as well;
    * no file of a file group that was replaced, and none of an instant that is pending, but for the commit's own.

Rows are not looked at, so the counts are those of the files: a row of a base file that a log updates counts twice.

The record says that its range is exact ("tight"), so that it takes the older record's place; Hudi says so wherever it
has column_stats. It may only be said by who knows all files. Where that is not so for a column, or a write is under way
that will be read as an older one (`commit/metadata/writer`), there is no record: the older one stays, and since a
compaction puts no value into a partition that was not there, what it says still holds. Hudi writes a record of the
files that it does know there, which queries then believe.

Touches: nothing.
Keeps:   1. every value of a file that counts lies within the partition's range;
         2. a column is left out unless every file that counts has a record of it whose type becomes the column's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from lakeward.format.metadata.record import ColumnStatsRecord, PartitionStatsRecord
from lakeward.format.stats.column_range import greatest, least
from lakeward.format.stats.stats_value import StatsValue, StatsVersion, ValueKind, Wrapper, value_type_of


def partition_stats(
    partition_path: str,
    files: Collection[str],
    stats: Iterable[ColumnStatsRecord],
    *,
    columns: Mapping[str, Any],
    version: StatsVersion,
) -> list[PartitionStatsRecord]:
    """A record for each of `columns` that is known of all files.

    Args:
        files: the names of those that count.
        stats: of the partition's files, also of some that do not count.
        columns: the indexed columns with their Avro types, by `format/stats/indexed_columns.py`.
    """
    wanted = frozenset(files)
    by_column: dict[str, dict[str, ColumnStatsRecord]] = {column: {} for column in columns}
    for record in stats:
        if record.file_name in wanted and record.column in by_column and not record.is_deleted:
            by_column[record.column][record.file_name] = record
    joined = []
    for column, by_file in by_column.items():
        if by_file and len(by_file) == len(wanted):
            made = _joined(partition_path, column, list(by_file.values()), columns[column], version)
            joined.extend([] if made is None else [made])
    return joined


def _joined(
    partition_path: str, column: str, records: list[ColumnStatsRecord], avro_type: Any, version: StatsVersion
) -> PartitionStatsRecord | None:
    """None where the files' types do not become the column's."""
    kind = value_type_of(avro_type, where=f"The column {column}")
    wrappers = {record.wrapper for record in records if record.wrapper is not None}
    # Hudi's first version has no types: what all files have alike stays as it is, whatever the column's type is.
    wrapper = wrappers.pop() if len(wrappers) == 1 else kind.v1_wrapper
    target = kind.kind if version is StatsVersion.V2 else _KINDS.get(wrapper)
    smallest: StatsValue | None = None
    largest: StatsValue | None = None
    for record in records:
        if record.min_value is None and record.max_value is None:
            continue
        widened = _WIDENED.get((_kind(record), target)) if record.version is version else None
        if widened is None or record.min_value is None or record.max_value is None:
            return None
        smallest = least(smallest, widened(record.min_value))
        largest = greatest(largest, widened(record.max_value))
    return PartitionStatsRecord(
        file_name=partition_path,
        column=column,
        min_value=smallest,
        max_value=largest,
        value_count=sum(record.value_count or 0 for record in records),
        null_count=sum(record.null_count or 0 for record in records),
        total_size=sum(record.total_size or 0 for record in records),
        total_uncompressed_size=sum(record.total_uncompressed_size or 0 for record in records),
        is_tight=True,
        value_type=kind if version is StatsVersion.V2 else None,
        wrapper=wrapper if version is StatsVersion.V1 and smallest is not None else None,
    )


def _kind(record: ColumnStatsRecord) -> ValueKind | None:
    return record.value_type.kind if record.value_type is not None else _KINDS.get(record.wrapper)


def _same(value: StatsValue) -> StatsValue:
    return value


def _float(value: StatsValue) -> StatsValue:
    return float(np.float32(value))


def _double(value: StatsValue) -> StatsValue:
    return float(value)


def _thousandfold(value: StatsValue) -> StatsValue:
    return value * 1000


def _utf8(value: StatsValue) -> StatsValue:
    assert isinstance(value, str)
    return value.encode()


_KINDS: dict[Wrapper | None, ValueKind] = {
    Wrapper.BOOLEAN: ValueKind.BOOLEAN,
    Wrapper.INT: ValueKind.INT,
    Wrapper.LONG: ValueKind.LONG,
    Wrapper.FLOAT: ValueKind.FLOAT,
    Wrapper.DOUBLE: ValueKind.DOUBLE,
    Wrapper.BYTES: ValueKind.BYTES,
    Wrapper.STRING: ValueKind.STRING,
    Wrapper.DATE: ValueKind.DATE,
    Wrapper.DECIMAL: ValueKind.DECIMAL,
    Wrapper.TIME_MICROS: ValueKind.TIME_MICROS,
    Wrapper.TIMESTAMP_MICROS: ValueKind.TIMESTAMP_MICROS,
    Wrapper.LOCAL_DATE: ValueKind.DATE,
}

# What a file's type becomes when the column has been given another since. Only what keeps every value between the two
# is here: numbers as text do not, and a float is not the double that Hudi makes of it.
_WIDENED: dict[tuple[ValueKind | None, ValueKind | None], Callable[[StatsValue], StatsValue]] = {
    **{(kind, kind): _same for kind in ValueKind if kind not in (ValueKind.V1, ValueKind.NULL)},
    (ValueKind.INT, ValueKind.LONG): _same,
    (ValueKind.INT, ValueKind.FLOAT): _float,
    (ValueKind.INT, ValueKind.DOUBLE): _double,
    (ValueKind.LONG, ValueKind.FLOAT): _float,
    (ValueKind.LONG, ValueKind.DOUBLE): _double,
    (ValueKind.INT, ValueKind.DATE): _same,
    (ValueKind.INT, ValueKind.TIME_MILLIS): _same,
    (ValueKind.LONG, ValueKind.TIME_MICROS): _same,
    (ValueKind.LONG, ValueKind.TIMESTAMP_MILLIS): _same,
    (ValueKind.LONG, ValueKind.TIMESTAMP_MICROS): _same,
    (ValueKind.LONG, ValueKind.LOCAL_TIMESTAMP_MILLIS): _same,
    (ValueKind.LONG, ValueKind.LOCAL_TIMESTAMP_MICROS): _same,
    (ValueKind.TIMESTAMP_MILLIS, ValueKind.TIMESTAMP_MICROS): _thousandfold,
    (ValueKind.LOCAL_TIMESTAMP_MILLIS, ValueKind.LOCAL_TIMESTAMP_MICROS): _thousandfold,
    (ValueKind.STRING, ValueKind.UUID): _same,
    (ValueKind.STRING, ValueKind.BYTES): _utf8,
    (ValueKind.BYTES, ValueKind.FIXED): _same,
    (ValueKind.FIXED, ValueKind.BYTES): _same,
}

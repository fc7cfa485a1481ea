"""The statistics of a partition from those of its files: records of column_stats in, records of partition_stats out.

Which files count, as Hudi 1.2 counts them when a commit is written: those that the commit writes, and those of the
latest merged slice of each file group of the partition, as the table is with the commit in it:

    * the base file and every log file of the slice, also logs that a log compaction has merged, as long as the slice
      has them; a compaction's new base file begins a slice, so what it was made from counts no more;
    * of a file group in another service's pending compaction: the slice before it as well;
    * no file of a file group that was replaced, and none of an instant that is pending, but for the commit's own.

A write brings values, so its record must hold whatever else is there. Where it may not say that its range is exact it
gives the range of its own files, not tight, and readers take the one over both records. A column that was added to the
table later than some of the files has no record of those: they have nulls there, and count as such (Hudi leaves them
out, and its record says that there are none).

Rows are not looked at, so the counts are those of the files: a row of a base file that a log updates counts twice.

The record says that its range is exact ("tight"), so that it takes the older record's place; Hudi says so wherever it
has column_stats. It may only be said by who knows all files. Where that is not so for a column, or a write is under way
that will be read as an older one (`protocol/metadata/metadata_writer`), there is no record: the older one stays, and
since a compaction puts no value into a partition that was not there, what it says still holds. Hudi writes a record of
the files that it does know there, which queries then believe.

Touches: nothing.
Keeps:   1. every value of a file that counts lies within the partition's range;
         2. a column is left out unless every file that counts has a record of it whose type becomes the column's;
         3. of a write, every value of its own files lies within what readers make of the record and the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lakeward.base.errors import Unsupported
from lakeward.format.metadata.record import ColumnStatsRecord, PartitionStatsRecord, StatsRecord
from lakeward.format.stats.column_range import greatest, is_less, least
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


def written_partition_stats(
    partition_path: str,
    files: Collection[str],
    own: Collection[str],
    stats: Iterable[ColumnStatsRecord],
    *,
    columns: Mapping[str, Any],
    version: StatsVersion,
    is_known: bool,
) -> list[PartitionStatsRecord]:
    """A record for each of `columns` that one of the files has values of; of a write.

    Args:
        files: the names of those that count, `own` among them.
        own: what the write adds.
        is_known: False where other files may count for readers of this record than those.

    Raises `Unsupported` where the files' types do not become the column's.
    """
    wanted = frozenset(files)
    by_file: dict[str, dict[str, ColumnStatsRecord]] = {}
    for record in stats:
        if record.file_name in wanted and record.column is not None and not record.is_deleted:
            by_file.setdefault(record.file_name, {})[record.column] = record
    is_exact = is_known and len(by_file) == len(wanted)
    counting = [by_file[name] for name in (wanted if is_exact else own) if name in by_file]
    joined = []
    for column, avro_type in columns.items():
        records = [of_file[column] for of_file in counting if column in of_file]
        if not records:
            continue
        made = _joined(partition_path, column, records, avro_type, version)
        if made is None:
            raise Unsupported(
                f"The range of the column {column} in the partition {partition_path!r} cannot be known.",
                why="The statistics of its files are of types that do not become the column's.",
                remedy="Run a FULL compaction or clustering of the partition, or have Hudi drop partition_stats "
                "(hoodie.metadata.index.partition.stats.enable=false), and write again.",
            )
        nulls = sum(_rows(of_file) for of_file in counting if column not in of_file)
        joined.append(
            replace(
                made,
                value_count=(made.value_count or 0) + nulls,
                null_count=(made.null_count or 0) + nulls,
                is_tight=is_exact,
            )
        )
    return joined


def holds(record: PartitionStatsRecord, other: PartitionStatsRecord) -> bool:
    """Whether a query that finds nothing by `record` may leave out what `other` is of."""
    if other.min_value is None or other.max_value is None:
        return (record.null_count or 0) > 0 or not other.null_count
    if record.min_value is None or record.max_value is None:
        return False
    if (record.value_type, record.wrapper) != (other.value_type, other.wrapper):
        return False
    goes_beyond = is_less(other.min_value, record.min_value) or is_less(record.max_value, other.max_value)
    return not goes_beyond and ((record.null_count or 0) > 0 or not other.null_count)


def can_be_joined(existing: PartitionStatsRecord, other: PartitionStatsRecord) -> bool:
    """Whether readers find the range over both by themselves (`format/metadata/merge.py`)."""
    is_of_one_type = (existing.value_type, existing.wrapper) == (other.value_type, other.wrapper)
    return is_of_one_type or None in (existing.min_value, other.min_value)


def over_both(
    existing: PartitionStatsRecord, made: PartitionStatsRecord, avro_type: Any, version: StatsVersion
) -> PartitionStatsRecord | None:
    """A record of the column as it is now, in place of both; None where the older type does not become the newer."""
    assert made.column is not None, "we made it, with a column"
    both = [existing, made] if existing.min_value is not None else [made]
    joined = _joined(made.file_name or "", made.column, both, avro_type, version)
    if joined is None or existing.min_value is not None:
        return joined
    return replace(
        joined,
        value_count=(joined.value_count or 0) + (existing.value_count or 0),
        null_count=(joined.null_count or 0) + (existing.null_count or 0),
    )


def _rows(of_file: Mapping[str, ColumnStatsRecord]) -> int:
    """How many rows a file has: a column that is no list has a value for each."""
    return min((record.value_count or 0 for record in of_file.values()), default=0)


def _joined(
    partition_path: str, column: str, records: Sequence[StatsRecord], avro_type: Any, version: StatsVersion
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


def _kind(record: StatsRecord) -> ValueKind | None:
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

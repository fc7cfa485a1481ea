"""File slices that a filter rules out by what the metadata table says of the columns of their files.

    filter, slices -> column_stats of each of their files -> the range of each slice, over all its files -> slices left

The values of a merged row are those of its versions, so the range over base file and logs holds them; a slice with a
file that has no record is read. Records are believed only where no release of Hudi has been seen to say too little:

    whole numbers, dates, microseconds   yes, by the type that the record says
    text, bytes                          no: a row group with a long value (4 kB) is left out of the range
    floating point                       no: NaN is left out
    other times, and those of version 1  no: version 1 does not say its unit, and a file may have another than the table
    nulls alone                          no, of base files: a column chunk without statistics is said to hold them; of
                                         logs, whose values the writer saw itself, yes
    logs of versions below 8             no: they grow after their record was written
    tables with schema on read           no: records are by the names of their day
    columns that files lack              no: rows have the value of the partition's path

Nor are the records of partitions (`partition_stats`): Hudi writes one over those files that it has statistics of, and
calls it exact. That of the files says the same, and a file that it does not know is read.

Touches: the metadata table, reading only.
Keeps:   1. a slice is passed over only where no row of it is chosen;
         2. statistics that cannot be read pass nothing over: they make a query fast, not right.
See:     docs/decisions/0126-what-may-be-passed-over.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.metadata.record import ColumnStatsRecord, MetadataRecord
from lakeward.format.parquet.row_groups import ValueRange
from lakeward.format.stats.stats_value import ValueKind, Wrapper
from lakeward.read.query.filter import Node, Ranges
from lakeward.scan.scan_plan import ScanPlan
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import TableSnapshot

WORTH_SLICES_MIN = 16
"""Fewer slices without logs are asked by their footers: the metadata table is a dozen files, too."""
_COMMIT_LAYOUT = 2
"""The layout of timelines since which a log file belongs to one commit."""

_KINDS: Mapping[pa.DataType, frozenset[ValueKind]] = {
    pa.int32(): frozenset({ValueKind.INT}),
    pa.int64(): frozenset({ValueKind.INT, ValueKind.LONG}),
    pa.date32(): frozenset({ValueKind.DATE}),
    pa.timestamp("us", "UTC"): frozenset({ValueKind.TIMESTAMP_MICROS}),
    pa.timestamp("us"): frozenset({ValueKind.LOCAL_TIMESTAMP_MICROS}),
}
"""The types of version 2 whose values are in the order of the table's type, and of its unit."""
_WRAPPERS: Mapping[pa.DataType, frozenset[Wrapper]] = {
    pa.int32(): frozenset({Wrapper.INT}),
    pa.int64(): frozenset({Wrapper.INT, Wrapper.LONG}),
    pa.date32(): frozenset({Wrapper.DATE}),
}
"""The same of version 1."""


def by_statistics(
    storage: Storage, snapshot: TableSnapshot, where: Node | None, plan: ScanPlan, *, clock: Clock
) -> ScanPlan:
    """The plan without the slices that have no row that is chosen, as far as the statistics say that."""
    if where is None or not _has_statistics(snapshot) or not _is_worth_it(plan.slices):
        return plan
    assert snapshot.schema is not None, "a table with a plan has a schema"
    schema = table_schema(snapshot.schema)
    config = snapshot.config
    of_paths = config.partition_fields if config.drops_partition_columns else ()
    asked = [name for name in where.columns if name not in of_paths]
    columns = {name: schema.field(name).type for name in asked if schema.field(name).type in _KINDS}
    if not columns:
        return plan
    chosen = _chosen(storage, snapshot, plan.slices, where, columns, clock=clock)
    return replace(plan, slices=chosen, groups_by_statistics=len(plan.slices) - len(chosen))


def _has_statistics(snapshot: TableSnapshot) -> bool:
    return COLUMN_STATS in snapshot.config.built_metadata_partitions and not snapshot.schema_on_read


def _is_worth_it(slices: Sequence[FileSlice]) -> bool:
    return len(slices) >= WORTH_SLICES_MIN or any(slice_.log_files for slice_ in slices)


def _chosen(
    storage: Storage,
    snapshot: TableSnapshot,
    slices: Sequence[FileSlice],
    where: Node,
    columns: Mapping[str, pa.DataType],
    *,
    clock: Clock,
) -> tuple[FileSlice, ...]:
    asked = [slice_ for slice_ in slices if not slice_.log_files or snapshot.config.layout >= _COMMIT_LAYOUT]
    keys = {
        (slice_.partition_path, name, column): column_stats_key(column, slice_.partition_path, name)
        for slice_ in asked
        for name in slice_files(slice_)
        for column in columns
    }
    if (found := find_column_stats(storage, snapshot, keys.values(), clock=clock)) is None:
        return tuple(slices)
    known = set(map(id, asked))
    return tuple(
        slice_
        for slice_ in slices
        if id(slice_) not in known or where.may_hold(_slice_ranges(slice_, columns, keys, found))
    )


def find_column_stats(
    storage: Storage, snapshot: TableSnapshot, keys: Iterable[str], *, clock: Clock
) -> Mapping[str, MetadataRecord] | None:
    """The records of these keys that there are; None where they cannot be read."""
    try:
        table = load_metadata_table(
            storage, snapshot.base_path, snapshot.config, snapshot.timeline, clock=clock, partitions=[COLUMN_STATS]
        )
        return MetadataReader(storage, table).lookup(COLUMN_STATS, keys)
    except (BrokenFile, Unsupported, NotFound):
        return None


def slice_files(slice_: FileSlice) -> list[str]:
    """The names of the files that hold its rows, the base file first."""
    logs = [log.name.text for log in slice_.log_files if not log.name.is_cdc]
    return logs if slice_.base_file is None else [slice_.base_file.name, *logs]


def _slice_ranges(
    slice_: FileSlice,
    columns: Mapping[str, pa.DataType],
    keys: Mapping[tuple[str, str, str], str],
    found: Mapping[str, MetadataRecord],
) -> Ranges:
    """What is known of the columns over all files of a slice."""
    base = None if slice_.base_file is None else slice_.base_file.name
    ranges: dict[str, ValueRange | None] = {}
    for column, kind in columns.items():
        of_files = [
            file_range(found.get(keys[slice_.partition_path, name, column]), kind, is_base=name == base)
            for name in slice_files(slice_)
        ]
        if of_files and all(of_files):
            ranges[column] = _joined(each[0] for each in of_files if each)
    return ranges


def file_range(record: object, kind: pa.DataType, *, is_base: bool) -> tuple[ValueRange | None, ...]:
    """The range of a column of this type in a file, by its record: one, or none where nothing is certain."""
    if not isinstance(record, ColumnStatsRecord) or record.is_deleted:
        return ()
    values, nulls = record.value_count, record.null_count
    low, high = record.min_value, record.max_value
    if values is None or nulls is None:
        return ()
    if nulls == values:
        return () if is_base or low is not None or high is not None else (None,)
    is_typed = (
        record.wrapper in _WRAPPERS.get(kind, ())
        if record.value_type is None
        else record.value_type.kind in _KINDS[kind]
    )
    if not is_typed or type(low) is not int or type(high) is not int or low > high:
        return ()
    return (ValueRange(low, high),)


def _joined(ranges: Iterable[ValueRange | None]) -> ValueRange | None:
    found: ValueRange | None = None
    for each in ranges:
        if each is not None:
            found = each if found is None else found.joined(each)
    return found

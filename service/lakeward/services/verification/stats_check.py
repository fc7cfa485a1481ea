"""What the metadata table says of base files and partitions, against what the footers of the files say.

    column_stats     of a base file, by column: its counts, and a range that holds every value
    partition_stats  of a partition, by column: a range that holds every value of each of its files
    bloom_filters    of a base file: the filter in its footer

A range that is too wide costs time and is no fault. A partition without a record of a column is none either: no query
skips it then.

Touches: reads footers and the metadata table.
Keeps:   what was cleaned, or compacted, since the view was taken is passed over.
See:     `services/verification/metadata_check.py` for who chooses the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, TypeVar

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.named_key import named_key
from lakeward.base.paths import join
from lakeward.format.metadata.base_file_stats import read_bloom_filter, read_column_stats
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key, partition_stats_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from lakeward.format.metadata.partition_stats import partition_stats
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    PartitionStatsRecord,
    StatsRecord,
)
from lakeward.format.stats.column_range import is_less
from lakeward.format.stats.stats_value import StatsValue
from lakeward.services.verification.check_report import Problem, metadata_remedy
from lakeward.services.verification.metadata_view import MetadataView
from lakeward.table.file_group import BaseFile, FileSlice
from lakeward.table.index_definitions import IndexedColumns

T = TypeVar("T")

_Read = Callable[[BinaryIO, str], T]
"""What the footer of the file of this name says."""


def check_column_stats(view: MetadataView, chosen: Collection[str]) -> list[Problem]:
    assert view.indexed is not None
    problems: list[Problem] = []
    for path, base, expected in _footers(view, chosen, _column_stats_of(view.indexed), COLUMN_STATS, problems):
        partition_path = path.rpartition("/")[0]
        keys = {column_stats_key(record.column or "", partition_path, base.name): record for record in expected}
        stored = view.reader.lookup(COLUMN_STATS, keys)
        for key, record in keys.items():
            if what := stats_fault(stored.get(key), record):
                problems.append(
                    Problem(COLUMN_STATS, path, f"Column {record.column}: {what}", metadata_remedy(COLUMN_STATS))
                )
    return problems


def check_partition_stats(view: MetadataView, chosen: Collection[str]) -> list[Problem]:
    """Problems of the partitions of the chosen files, by these files and by the logs on top of them, whose ranges
    column_stats has."""
    indexed = view.indexed
    assert indexed is not None
    groups = view.snapshot.file_groups
    newest = {(group.partition_path, group.file_id): group.slices[0] for group in groups if group.slices}
    problems: list[Problem] = []
    faults: dict[tuple[str, str | None], str] = {}
    for path, base, footer in _footers(view, chosen, _column_stats_of(indexed), PARTITION_STATS, problems):
        partition_path = path.rpartition("/")[0]
        stored = view.reader.lookup(
            PARTITION_STATS, [partition_stats_key(column, partition_path) for column in indexed.columns]
        )
        on_top = _log_stats(view, indexed, newest[partition_path, base.file_id])
        for name, records in ((base.name, footer), *on_top):
            for expected in partition_stats(
                partition_path, [name], records, columns=indexed.columns, version=indexed.version
            ):
                found = stored.get(partition_stats_key(expected.column or "", partition_path))
                if what := partition_stats_fault(found, expected):
                    # One file is enough to say that the record is wrong.
                    faults.setdefault((partition_path, expected.column), f"file {name}: {what}")
    remedy = metadata_remedy(PARTITION_STATS)
    return problems + [
        Problem(PARTITION_STATS, partition_path or "(no partition)", f"Column {column}, {what}", remedy)
        for (partition_path, column), what in faults.items()
    ]


def check_blooms(view: MetadataView, chosen: Collection[str]) -> list[Problem]:
    problems: list[Problem] = []
    for path, base, expected in _footers(view, chosen, _bloom_filter_of, BLOOM_FILTERS, problems):
        key = bloom_filter_key(path.rpartition("/")[0], base.name)
        if what := bloom_fault(view.reader.lookup(BLOOM_FILTERS, [key]).get(key), expected):
            problems.append(Problem(BLOOM_FILTERS, path, what, metadata_remedy(BLOOM_FILTERS)))
    return problems


def _footers(
    view: MetadataView, chosen: Collection[str], read: _Read[T], check: str, problems: list[Problem]
) -> Iterator[tuple[str, BaseFile, T]]:
    """Path, base file and what `read` finds in its footer, of those chosen files that are there; a file that cannot be
    read is one of the `problems` of the check."""
    bases = view.base_files
    for path in chosen:
        base = bases.get(path)
        if base is None:
            continue
        try:
            with view.storage.open_input(join(view.snapshot.base_path, path)) as file:
                found = read(file, base.name)
        except NotFound:
            continue
        except BrokenFile as error:
            problems.append(Problem(check, path, f"{error.what} {error.why}", "Restore it from a copy."))
            continue
        yield path, base, found


def _column_stats_of(indexed: IndexedColumns) -> _Read[list[ColumnStatsRecord]]:
    return lambda file, name: read_column_stats(file, indexed.columns, file_name=name, version=indexed.version)


def _bloom_filter_of(file: BinaryIO, name: str) -> tuple[str, bytes] | None:
    return read_bloom_filter(file, file_name=name)


def _log_stats(
    view: MetadataView, indexed: IndexedColumns, slice_: FileSlice
) -> Iterator[tuple[str, list[ColumnStatsRecord]]]:
    """Each of its logs with what column_stats has of it."""
    for log in slice_.log_files:
        if log.name.is_cdc:
            continue
        keys = [column_stats_key(column, slice_.partition_path, log.name.text) for column in indexed.columns]
        found = view.reader.lookup(COLUMN_STATS, keys).values()
        yield log.name.text, [record for record in found if isinstance(record, ColumnStatsRecord)]


def stats_fault(stored: object, expected: ColumnStatsRecord) -> str | None:
    """What would make a reader skip rows that are there. A range that is too wide costs time and is no fault."""
    if stored is None:
        return "there are no statistics, though the file has rows"
    if not isinstance(stored, ColumnStatsRecord) or stored.is_deleted:
        return "the record is not that of a file that is there"
    if stored.value_count is not None and stored.value_count != expected.value_count:
        return f"it has {expected.value_count} values, the record says {stored.value_count}"
    if stored.null_count is not None and stored.null_count != expected.null_count:
        return f"it has {expected.null_count} nulls, the record says {stored.null_count}"
    return _range_fault(stored, expected)


def partition_stats_fault(stored: object, expected: PartitionStatsRecord) -> str | None:
    """The same of a partition, whose counts are not those of one file."""
    if stored is None:
        return None
    if not isinstance(stored, PartitionStatsRecord) or stored.is_deleted:
        return "the record is not that of a partition with files"
    return _range_fault(stored, expected)


def _range_fault(stored: StatsRecord, expected: StatsRecord) -> str | None:
    smallest, largest = expected.min_value, expected.max_value
    if smallest is None or largest is None:
        return None
    if stored.min_value is None or stored.max_value is None:
        return f"its values reach from {_named(smallest)} to {_named(largest)}, the record has no range"
    if _is_above(stored.min_value, smallest) or _is_above(largest, stored.max_value):
        shown = f"{_named(stored.min_value)} to {_named(stored.max_value)}"
        return f"its values reach from {_named(smallest)} to {_named(largest)}, the record says {shown}"
    return None


def _named(value: StatsValue) -> str:
    """The value; a text may be a record key."""
    return named_key(value) if isinstance(value, str) else repr(value)


def _is_above(value: StatsValue, other: StatsValue) -> bool:
    """Queries decide, not Hudi's order of sorting: they are who skips rows."""
    if type(value) is not type(other):
        return False  # written when the column had another type
    return is_less(other, value)


def bloom_fault(stored: object, expected: tuple[str, bytes] | None) -> str | None:
    if stored is None:
        return None if expected is None else "The metadata table has no bloom filter of it: lookups of keys fail"
    if not isinstance(stored, BloomFilterRecord) or stored.is_deleted:
        return "The record is not that of a file that is there"
    if expected is None:
        return "The metadata table has a bloom filter of it, and the file has none"
    if stored.type_code != expected[0]:
        return f"Its bloom filter is a {expected[0]}, the metadata table reads it as {stored.type_code}"
    if stored.bloom_filter != expected[1]:
        return "The metadata table has another bloom filter than the file: lookups miss keys, which are inserted again"
    return None

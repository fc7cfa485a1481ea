"""What a commit changes in the metadata table: from files that came and went to records, partition by partition.

    files             all partitions: those with a new file; of each of these partitions: the new files with their sizes
    column_stats      a record for each new file and indexed column
    partition_stats   a record for each partition with a new file and indexed column, over all files that count there
    bloom_filters     a record for each new base file

A clean takes the files that it deleted out of `files`, and what is known of them out of column_stats and bloom_filters.
The ranges of partitions stay, and are wider then than they need be. What was merged is removed by that alone. What an
undone clean brings back comes into the same three, and into no range: it is in no newest slice.

A write of rows adds to the same four; a new base file counts in the place of the one before it. Files of groups that
are replaced stay in `files` until a clean, and count for no range; a partition that is deleted stays listed, without
any. What a write says of keys is in `write_changes.py`.

From services the record index and secondary indexes get nothing: none moves a row to another file group. (Hudi's own
log compaction deletes the keys again whose deletes it keeps; `format/metadata/log_stats.py` says why we do not.)

A log of changes (`.cdc`) is in `files` and nowhere else: nothing of a table's rows is read from it.

Touches: nothing.
Keeps:   1. the entries of a file group are in the order of the bytes of their keys, each key once;
         2. which files count for a partition may be too many, never too few, so that its range holds every value;
         3. a file that was deleted is in no listing, and has neither statistics nor a filter.
Source:  HoodieTableMetadataUtil.convertMetadataToRecords (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lakeward.format.file_name import parse_any_log
from lakeward.format.metadata.key import (
    ALL_PARTITIONS,
    bloom_filter_key,
    column_stats_key,
    file_group_indexes,
    files_key,
    partition_stats_key,
)
from lakeward.format.metadata.record import (
    ColumnStatsRecord,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
)
from lakeward.format.timeline.instant import comparable_time
from lakeward.table.file_group import FileGroup
from lakeward.table.file_system_view import GroupId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A base or log file that belongs to the commit."""

    partition_path: str
    file_id: str
    name: str
    size: int
    column_stats: tuple[ColumnStatsRecord, ...]
    """Statistics of the indexed columns; of none where the table has no statistics, or the file no rows."""
    is_brought_back: bool = False
    """Whether an undone clean brings it back: it stands in its place, in a slice that is not the newest."""

    @property
    def is_base_file(self) -> bool:
        return parse_any_log(self.name, native=True) is None

    @property
    def is_change_log(self) -> bool:
        log = parse_any_log(self.name, native=True)
        return log is not None and log.is_cdc


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A base or log file that a clean deleted, or will have when its commit is complete."""

    partition_path: str
    name: str

    @property
    def is_base_file(self) -> bool:
        return parse_any_log(self.name, native=True) is None


def files_records(
    files: Iterable[NewFile], deleted: Iterable[DeletedFile] = (), *, of_write: bool = False
) -> dict[str, MetadataRecord]:
    """Records of the partition `files`, by key; for a write also the record of all partitions, even if it touches
    none."""
    by_partition: dict[str, dict[str, FileEntry]] = {}
    for file in files:
        assert file.size > 0, "a file without a byte is no data file"
        by_partition.setdefault(files_key(file.partition_path), {})[file.name] = FileEntry(file.size)
    touched = FilesRecord({key: FileEntry(0) for key in by_partition}, is_all_partitions=True)
    records: dict[str, MetadataRecord] = {ALL_PARTITIONS: touched} if by_partition or of_write else {}
    for gone in deleted:
        by_partition.setdefault(files_key(gone.partition_path), {})[gone.name] = FileEntry(0, is_deleted=True)
    return records | {key: FilesRecord(entries) for key, entries in by_partition.items()}


def column_stats_records(files: Iterable[NewFile]) -> dict[str, MetadataRecord]:
    return {
        column_stats_key(_column(record), file.partition_path, file.name): record
        for file in files
        for record in file.column_stats
    }


def deleted_stats(deleted: Iterable[DeletedFile], columns: Collection[str]) -> list[str]:
    """Keys of what column_stats has of them."""
    return [column_stats_key(column, file.partition_path, file.name) for file in deleted for column in columns]


def deleted_filters(deleted: Iterable[DeletedFile]) -> list[str]:
    """Keys of what bloom_filters has of them."""
    return [bloom_filter_key(file.partition_path, file.name) for file in deleted if file.is_base_file]


def deleted_ranges(partition_paths: Iterable[str], columns: Collection[str]) -> list[str]:
    """Keys of what partition_stats has of partitions that go."""
    return [partition_stats_key(column, path) for path in partition_paths for column in columns]


def partition_stats_records(records: Iterable[PartitionStatsRecord]) -> dict[str, MetadataRecord]:
    return {partition_stats_key(_column(record), record.file_name or ""): record for record in records}


def bloom_filter_sources(files: Iterable[NewFile]) -> dict[str, NewFile]:
    """The base files whose filters are wanted, by the key of the filter; filters are too large to hold them all."""
    return {bloom_filter_key(file.partition_path, file.name): file for file in files if file.is_base_file}


def by_file_group(entries: Mapping[str, T], count: int) -> dict[int, list[tuple[str, T]]]:
    """The entries by file group, for those of the partition's `count` that have some, in the order of their keys'
    bytes."""
    keys = sorted(entries, key=str.encode)
    groups: dict[int, list[tuple[str, T]]] = {}
    for key, group in zip(keys, file_group_indexes(keys, count).tolist(), strict=True):
        groups.setdefault(group, []).append((key, entries[key]))
    return groups


def counting_files(
    groups: Iterable[FileGroup], new: Collection[NewFile], *, instant: str, replaced: Collection[GroupId] = ()
) -> dict[str, list[str]]:
    """The files that count for the statistics of each partition, by `format/metadata/partition_stats.py`.

    Args:
        groups: of the partitions, as they are before the commit.
        new: what the commit of `instant` adds. A base file begins a slice at `instant`.
        replaced: groups that the commit takes away.
    """
    new = [file for file in new if not file.is_change_log]
    made: dict[GroupId, NewFile] = {(file.partition_path, file.file_id): file for file in new}
    gone = frozenset(replaced)
    counting: dict[str, list[str]] = {}
    for file in new:
        counting.setdefault(file.partition_path, []).append(file.name)
    for group in groups:
        names = counting.get(group.partition_path)
        if names is not None and (group.partition_path, group.file_id) not in gone:
            file_made = made.get((group.partition_path, group.file_id))
            since = instant if file_made is not None and file_made.is_base_file else ""
            names.extend(counting_names(group, since=since))
    return counting


def counting_names(group: FileGroup, *, since: str = "") -> list[str]:
    """Names of the files of the newest slice and, as long as that has no base file, of the one before it."""
    names: list[str] = []
    for slice_ in group.slices:
        if since and comparable_time(slice_.base_instant) < comparable_time(since):
            break
        names.extend(log.name.text for log in slice_.row_logs)
        if slice_.base_file is not None:
            names.append(slice_.base_file.name)
            break
    return names


def _column(record: ColumnStatsRecord | PartitionStatsRecord) -> str:
    assert record.column is not None, "we made it, with a column"
    return record.column

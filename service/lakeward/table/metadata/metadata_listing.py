"""The partitions of a table and the files of each, as the metadata table's partition `files` lists them.

It lists files of completed instants, while the storage also has those of pending and failed ones. Otherwise the two are
equal as long as every writer keeps the metadata table in step; `find_differences` finds where they are not.

Touches: the metadata table, through its reader; the storage where partitions are compared, one listing each.
Keeps:   1. a name that could lead out of its partition, or out of the table, is refused (`UntrustedName`);
         2. a partition without a record has no files; nothing falls back to the storage on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile
from lakeward.base.paths import join
from lakeward.format.file_name import check_plain_name, check_relative_path, parse_any_data_file
from lakeward.format.metadata.key import ALL_PARTITIONS, UNPARTITIONED, files_key
from lakeward.format.metadata.partition import FILES
from lakeward.format.metadata.record import FilesRecord, MetadataRecord
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.partition import Partition
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.timeline import Timeline

_NO_TIME = 0.0
"""The metadata table does not say when a file was modified."""


class MetadataListing:
    def __init__(self, reader: MetadataReader, base_path: str) -> None:
        """`base_path` is the data table's."""
        self._reader = reader
        self._base_path = base_path

    def partitions(self) -> tuple[str, ...]:
        """The paths of all partitions, sorted."""
        record = self._records([ALL_PARTITIONS]).get(ALL_PARTITIONS)
        if record is None:
            return ()
        names = sorted(name for name, entry in record.entries.items() if not entry.is_deleted)
        return ("",) if names == [UNPARTITIONED] else tuple(check_relative_path(name) for name in names)

    def files(self, partition_path: str) -> list[FileStatus]:
        """The files of one partition, by name."""
        (partition,) = self.list_partitions([partition_path])
        return list(partition.files)

    def list_partitions(self, paths: Iterable[str]) -> tuple[Partition, ...]:
        """These partitions and their files, by path; those that the metadata table does not know have none."""
        wanted = sorted(set(paths))
        records = self._records([files_key(path) for path in wanted])
        return tuple(Partition(path, self._files(path, records.get(files_key(path)))) for path in wanted)

    def _records(self, keys: Sequence[str]) -> dict[str, FilesRecord]:
        return {key: _files_record(key, record) for key, record in self._reader.lookup(FILES, keys).items()}

    def _files(self, partition_path: str, record: FilesRecord | None) -> tuple[FileStatus, ...]:
        entries = {} if record is None else record.entries
        folder = join(self._base_path, partition_path)
        return tuple(
            FileStatus(join(folder, check_plain_name(name)), entry.size, _NO_TIME, False)
            for name, entry in sorted(entries.items())
            if not entry.is_deleted
        )


def load_listing(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, *, clock: Clock
) -> MetadataListing:
    """The listing of a table that has a metadata table. `timeline` was read before; see `metadata_table.py`."""
    table = load_metadata_table(storage, base_path, config, timeline, clock=clock, partitions=[FILES])
    return MetadataListing(MetadataReader(storage, table), base_path)


class DifferenceKind(StrEnum):
    NOT_STORED = "not stored"
    """The metadata table lists a file that is not there: readers fail on it."""
    NOT_LISTED = "not listed"
    """A file of a completed instant that the metadata table does not list: its rows are missing for readers."""
    OTHER_SIZE = "other size"


@dataclass(frozen=True, slots=True)
class ListingDifference:
    partition_path: str
    name: str
    kind: DifferenceKind
    listed_size: int | None
    stored_size: int | None


def compare_with_storage(
    storage: Storage,
    base_path: str,
    listing: MetadataListing,
    paths: Iterable[str],
    timeline: Timeline,
    *,
    native: bool = False,
) -> tuple[ListingDifference, ...]:
    """Differences between the metadata table and the storage in these partitions; one listing each.

    `timeline` is that of the table before the listing was loaded, so what completes meanwhile is no difference. A clean
    that is under way is one: it deletes files before it says so. A caller that cannot rule that out lists twice.

    Args:
        native: the table's version has native logs.
    """
    wanted = sorted(set(paths))
    found = {path: storage.list(join(base_path, path)) for path in wanted}
    listed = {partition.path: partition.files for partition in listing.list_partitions(wanted)}
    return tuple(
        difference
        for path in wanted
        for difference in find_differences(path, listed[path], found[path], timeline, native=native)
    )


def find_differences(
    partition_path: str,
    listed: Iterable[FileStatus],
    stored: Iterable[FileStatus],
    timeline: Timeline,
    *,
    native: bool = False,
) -> tuple[ListingDifference, ...]:
    """Differences in one partition, by name. Files of pending and failed instants are only in the storage, and rightly
    so."""
    listed_sizes = {status.name: status.size for status in listed}
    stored_sizes = _data_files(stored, native=native)
    found = []
    for name in sorted(listed_sizes.keys() | stored_sizes.keys()):
        sizes = (listed_sizes.get(name), stored_sizes.get(name))
        kind = _difference(name, *sizes, timeline)
        if kind is not None:
            found.append(ListingDifference(partition_path, name, kind, *sizes))
    return tuple(found)


def _difference(name: str, listed: int | None, stored: int | None, timeline: Timeline) -> DifferenceKind | None:
    if stored is None:
        return DifferenceKind.NOT_STORED
    if listed is None:
        return DifferenceKind.NOT_LISTED if _is_committed(name, timeline) else None
    return DifferenceKind.OTHER_SIZE if listed != stored else None


def _data_files(files: Iterable[FileStatus], *, native: bool) -> Mapping[str, int]:
    return {
        status.name: status.size
        for status in files
        if not status.is_folder and parse_any_data_file(status.name, native=native)
    }


def _is_committed(name: str, timeline: Timeline) -> bool:
    parsed = parse_any_data_file(name, native=True)
    assert parsed is not None, "the others were left out"
    return timeline.completion_time(parsed.instant) is not None or timeline.is_before_start(parsed.instant)


def _files_record(key: str, record: MetadataRecord) -> FilesRecord:
    if not isinstance(record, FilesRecord) or record.is_all_partitions != (key == ALL_PARTITIONS):
        raise BrokenFile(
            "The metadata table's list of files cannot be read.",
            why=f"The record of {key!r} is a {type(record).__name__} of another kind.",
            remedy="Let a Hudi writer rebuild the metadata table.",
        )
    return record

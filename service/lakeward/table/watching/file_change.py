"""What one completed instant did to the files of its table, as far as its own metadata says so for certain.

    commit, deltacommit     files were added: those of the write stats
    clean                   files were deleted: those that it names; one that undoes another does not say what it
                            brought back, so the whole table is read again
    replacecommit           the partitions it names are listed; what it replaces may be many groups
    savepoint, indexing, schemacommit    no data file is touched
    everything else         unknown: the whole table is read again

Where metadata leaves a doubt about a partition, the partition is listed; about which partition, everything is. Doubts
are: layout 1, where logs grow and carry the instant of their slice, so that stats do not name new files; sizes that are
missing; change data files; a path that is not of the instant; an operation whose name we do not know.

Touches: nothing.
Keeps:   a file is added only if its name fits the grammar and carries the instant itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakeward.base.paths import join
from lakeward.format.file_name import AnyLogName, BaseFileName, parse_any_data_file, parse_any_log, parse_base_file
from lakeward.format.timeline.clean_metadata import VERSION as CLEAN_VERSION
from lakeward.format.timeline.clean_metadata import CleanMetadata
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.timeline.cleans import UNDOES

ADDS_FILES = frozenset({"commit", "deltacommit"})
TOUCHES_NO_FILE = frozenset({"savepoint", "indexing", "schemacommit"})

_ROW_WRITES = ("UPSERT", "INSERT", "BULK_INSERT", "DELETE")
_SERVICE_OPERATIONS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
_KNOWN_OPERATIONS = frozenset(
    {*_ROW_WRITES, *(f"{name}_PREPPED" for name in _ROW_WRITES), "COMPACT", "LOG_COMPACT", "ALTER_SCHEMA"}
)


@dataclass(frozen=True, slots=True)
class AddedFile:
    partition_path: str
    file: BaseFile | LogFile
    rows: int | None


@dataclass(frozen=True, slots=True)
class FileChange:
    added: tuple[AddedFile, ...] = ()
    removed: Mapping[str, tuple[BaseFileName | AnyLogName, ...]] = field(default_factory=dict)
    """Removed files by partition path."""
    doubtful: frozenset[str] = frozenset()
    """Paths of the partitions that only a listing shows."""
    writer_bytes: int = 0
    """Written by a writer; 0 for what a table service wrote."""


def change_by_commit(instant: str, metadata: CommitMetadata, *, layout: int, native: bool = False) -> FileChange | None:
    """The change by a commit or deltacommit; None where any file of the table may have changed.

    Args:
        native: the table's version has native logs.
    """
    if metadata.operation_type not in _KNOWN_OPERATIONS or metadata.partition_to_replace_file_ids:
        return None
    added: list[AddedFile] = []
    doubtful: set[str] = set()
    for partition_path, stats in metadata.partition_to_write_stats.items():
        files = [_added_file(instant, partition_path, stat, native=native) for stat in stats]
        sure = [file for file in files if file is not None]
        names = {file.file.path for file in sure}
        if layout < 2 or len(names) < len(files):
            doubtful.add(partition_path)
        else:
            added.extend(sure)
    return FileChange(added=tuple(added), doubtful=frozenset(doubtful), writer_bytes=_writer_bytes(metadata))


def change_by_replacement(metadata: CommitMetadata) -> FileChange:
    """The change by a replacecommit."""
    named = metadata.partition_to_write_stats.keys() | metadata.partition_to_replace_file_ids.keys()
    return FileChange(doubtful=frozenset(named), writer_bytes=_writer_bytes(metadata))


def change_by_clean(metadata: CleanMetadata, *, native: bool = False) -> FileChange | None:
    """The change by a clean; None where a partition may be gone, or files came back.

    Args:
        native: as in `change_by_commit`.
    """
    if UNDOES in metadata.extra_metadata:
        return None
    removed: dict[str, tuple[BaseFileName | AnyLogName, ...]] = {}
    doubtful: set[str] = set()
    for partition_path, cleaned in metadata.partitions.items():
        if cleaned.is_partition_deleted:
            return None
        names = tuple(_data_files(cleaned.deleted, native=native))
        # A name that fits no grammar was in no slice; but it is a doubt about the others.
        if metadata.version != CLEAN_VERSION or cleaned.failed or len(names) < len(cleaned.deleted):
            doubtful.add(partition_path)
        else:
            removed[partition_path] = names
    return FileChange(removed=removed, doubtful=frozenset(doubtful))


def _writer_bytes(metadata: CommitMetadata) -> int:
    if metadata.operation_type in _SERVICE_OPERATIONS:
        return 0
    return sum(stat.total_write_bytes or 0 for stats in metadata.partition_to_write_stats.values() for stat in stats)


def _added_file(instant: str, partition_path: str, stat: WriteStat, *, native: bool) -> AddedFile | None:
    path = stat.path or ""
    name = posixpath.basename(path)
    if path != join(partition_path, name) or not stat.file_size_in_bytes or stat.cdc_stats:
        return None
    size = stat.file_size_in_bytes
    base, log = parse_base_file(name), parse_any_log(name, native=native)
    if base is not None and base.instant == instant:
        file: BaseFile | LogFile = BaseFile(base.file_id, base.instant, name, partition_path, size, base.write_token)
    elif log is not None and log.instant == instant:
        file = LogFile(log, partition_path, size)
    else:
        return None
    return AddedFile(partition_path, file, stat.num_writes)


def _data_files(names: tuple[str, ...], *, native: bool) -> Iterator[BaseFileName | AnyLogName]:
    for name in names:
        parsed = parse_any_data_file(name, native=native)
        if parsed is not None:
            yield parsed

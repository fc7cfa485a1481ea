"""Indexes of the metadata table that Lakeward built and that a Hudi writer removed soon after: by which commit, and by
which of its options.

    <table>/.hoodie/.lakeward/index/metadata-<partition>.built      when it was built
                                    metadata-<partition>.removed    a sentence: the commit that removed it, the option

A Hudi writer removes each partition that its own options have off once it begins to write, and then it writes the
properties. So the commit was at work when the properties changed last, or else is the first one since the build.

    t1 built, the properties name it at 12:00; t2 deltacommit T begins; t3 it removes the partition, properties of
    12:10; t4 T completes. The build's own completion time plus ten minutes lies between the begin and the end of T.

Secondary indexes are removed by no option but that of the whole metadata table: else it was `DROP INDEX`.

Touches: storage, reading: one listing; small files and the status of the properties where a partition is gone.
Keeps:   1. what went later than an hour after its build is no finding, nor what went without a commit;
         2. a finding that was noted stays, also when its commit leaves the timeline.
See:     `build_notes`, which writes the files.
Source:  HoodieTable.deleteMetadataIndexIfNecessary, maybeDeleteMetadataTable (Hudi 1.2)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.base.quantities import format_duration
from lakeward.format.metadata.partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.format.timeline.instant import Instant, State, parse_instant_time
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import PROPERTIES_FILE, hoodie_folder
from lakeward.table.timeline.timeline import Timeline

SOON_SECONDS: Final = 3600.0
_OPTIONS: Final = {
    FILES: "hoodie.metadata.enable",
    RECORD_INDEX: "hoodie.metadata.record.index.enable",
    COLUMN_STATS: "hoodie.metadata.index.column.stats.enable",
    PARTITION_STATS: "hoodie.metadata.index.column.stats.enable",
    BLOOM_FILTERS: "hoodie.metadata.index.bloom.filter.enable",
}
_START: Final = "metadata-"
_BUILT: Final = ".built"
_REMOVED: Final = ".removed"
_SLACK_SECONDS: Final = 1.0
"""Object stores say times of files in whole seconds."""


@dataclass(frozen=True, slots=True)
class BuildNote:
    """When a partition was built."""

    completion_time: str
    """That of the build, on the timeline of the metadata table."""
    named_at: float
    """The time of the properties that name it first, by the storage's clock."""

    def as_bytes(self) -> bytes:
        return json.dumps({"completion_time": self.completion_time, "named_at": self.named_at}).encode()


@dataclass(frozen=True, slots=True)
class WritersRemoval:
    """A partition that a Hudi writer removed."""

    partition: str
    why: str
    """The commit and the option, in a sentence."""
    is_noted: bool


def writers_option(partition: str) -> str:
    """The option of a Hudi writer that keeps the partition, by a name that all releases know."""
    return _OPTIONS.get(partition, _OPTIONS[RECORD_INDEX])


def built_path(base_path: str, partition: str) -> str:
    return join(_folder(base_path), f"{_START}{partition}{_BUILT}")


def removed_path(base_path: str, partition: str) -> str:
    return join(_folder(base_path), f"{_START}{partition}{_REMOVED}")


def find_removals(storage: Storage, snapshot: TableSnapshot) -> tuple[WritersRemoval, ...]:
    """The partitions that Lakeward built, that a writer removed within an hour, and that the table still lacks."""
    base_path, found = snapshot.base_path, list[WritersRemoval]()
    named = set(snapshot.config.metadata_partitions)
    names = {status.name for status in storage.list(_folder(base_path)) if status.name.startswith(_START)}
    gone = sorted({name for name in map(_partition_of, names) if name is not None} - named)
    for partition in gone:
        try:
            if f"{_START}{partition}{_REMOVED}" in names:
                said = storage.read(removed_path(base_path, partition)).decode("utf-8", "replace")
                found.append(WritersRemoval(partition, said, is_noted=True))
            elif (why := _why_removed(storage, snapshot, partition)) is not None:
                found.append(WritersRemoval(partition, why, is_noted=False))
        except NotFound:
            continue  # it is built at this moment, or dropped
    return tuple(found)


def describe_removal(
    partition: str, note: BuildNote, *, changed_at: float, timeline: Timeline, has_files: bool
) -> str | None:
    """A sentence; None where no commit shows that a writer removed it within an hour.

    Args:
        changed_at: when the properties changed last, by the storage's clock.
        has_files: the table has a metadata table still, or again.
    """
    seconds = changed_at - note.named_at
    by_option = partition if has_files else FILES
    if seconds > SOON_SECONDS or (has_files and partition.startswith(SECONDARY_INDEX_PREFIX)):
        return None
    since = list(_instants_since(timeline, note.completion_time))
    built = parse_instant_time(note.completion_time, UTC)
    at_work = [
        (begun, instant)
        for begun, ended, instant in since
        if begun - _SLACK_SECONDS * 1000 <= built + seconds * 1000
        and (ended is None or ended + _SLACK_SECONDS * 1000 >= built + seconds * 1000)
    ]
    completed = [(ended, instant) for _, ended, instant in since if ended is not None]
    if not at_work and not completed:
        return None
    _, instant = max(at_work, key=lambda each: each[0]) if at_work else min(completed, key=lambda each: each[0])
    how = "was at work then" if at_work else "is the first commit since"
    return (
        f"A Hudi writer removed it within {format_duration(max(seconds, 1.0))} of its build: "
        f"{instant.comparable_action} {instant.time} {how}. Writers remove it whose options have "
        f"{writers_option(by_option)} off."
    )


def _why_removed(storage: Storage, snapshot: TableSnapshot, partition: str) -> str | None:
    path = built_path(snapshot.base_path, partition)
    properties = storage.stat(join(hoodie_folder(snapshot.base_path), PROPERTIES_FILE))
    if properties is None:
        return None
    try:
        said = json.loads(storage.read(path))
        note = BuildNote(str(said["completion_time"]), float(said["named_at"]))
        return describe_removal(
            partition,
            note,
            changed_at=properties.modified,
            timeline=snapshot.timeline,
            has_files=FILES in snapshot.config.built_metadata_partitions,
        )
    except (ValueError, KeyError, TypeError, BrokenFile):
        return None  # a note that cannot be read holds nothing back


def _instants_since(timeline: Timeline, after: str) -> Iterator[tuple[int, int | None, Instant]]:
    """Instants that completed after this time or are pending: their beginning and end, in milliseconds."""
    for instant in (*timeline.completed, *timeline.pending):
        ended = instant.completion_time
        if instant.state is State.COMPLETED and (ended is None or ended <= after):
            continue
        try:
            begun = parse_instant_time(instant.time, UTC)
            yield begun, None if ended is None else parse_instant_time(ended, UTC), instant
        except BrokenFile:
            continue


def _partition_of(name: str) -> str | None:
    for ending in (_BUILT, _REMOVED):
        if name.endswith(ending):
            return name.removeprefix(_START).removesuffix(ending)
    return None


def _folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER)

"""What the metadata table's own compaction has to do, and what prevents it: one snapshot in, values out.

All of its partitions are compacted together, as Hudi does, because the instant of the last compaction is a border: what
the table itself wrote before it can no longer be rolled back, and the table's archiver keeps everything after it. So
nothing of what completed in the metadata table may still be undecided on the table:

    t1 a commit completes in the metadata table; t2 its process dies, so that it is pending on the table;
    t3 the metadata table is compacted with what the commit wrote; t4 no process can roll it back any more.

Hudi compacts as of the moment before such a commit. We wait until it was finished or rolled back.

Touches: nothing.
Keeps:   1. a compaction is due only where a log completed since the last one, however many lie there;
         2. whatever else is under way that changes the files of the metadata table prevents it, by name.
Source:  HoodieBackedTableMetadataWriter.performTableServices, HoodieMetadataWriteUtils (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.format.timeline.instant import comparable_time
from lakeward.table.file_group import FileSlice
from lakeward.table.metadata.metadata_table import MetadataTable, latest_compaction
from lakeward.table.timeline.timeline import Timeline

_UNDER_WAY = frozenset({"compaction", "logcompaction", "rollback", "restore"})
"""What changes which files a slice of the metadata table has, beside delta commits."""


@dataclass(frozen=True, slots=True)
class MetadataBacklog:
    """What readers of the metadata table merge each time, for want of a compaction."""

    compacted_at: str | None
    """The instant of the last compaction; None where there was none yet."""
    delta_commits: int
    """Completed since then."""
    slices: tuple[FileSlice, ...]
    """File slices with logs; nothing where a compaction is not due."""

    @property
    def is_due(self) -> bool:
        return bool(self.slices)

    @property
    def log_files(self) -> int:
        return sum(len(slice_.log_files) for slice_ in self.slices)

    @property
    def input_bytes(self) -> int:
        return sum(slice_.base_bytes + slice_.log_bytes for slice_ in self.slices)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the metadata table is not to be compacted now; it passes."""

    id: str
    instant: str
    why: str
    remedy: str


def find_backlog(table: MetadataTable) -> MetadataBacklog:
    """`table` shows all of its partitions."""
    since = latest_compaction(table.timeline)
    later = sum(
        1
        for instant in table.timeline.completed
        if instant.comparable_action == "deltacommit" and _is_after(instant.completion_time or instant.time, since)
    )
    slices = tuple(slice_ for of in table.slices.values() for slice_ in of if slice_.log_files)
    is_due = any(
        _is_after(table.timeline.completion_time(log.instant) or "", since)
        for slice_ in slices
        for log in slice_.log_files
    )
    return MetadataBacklog(since, later, slices if is_due else ())


def find_obstacles(data: Timeline, table: MetadataTable) -> tuple[Obstacle, ...]:
    """Obstacles in the order of instants. `data` is the timeline of the table itself."""
    return (*_undecided(data, table), *_under_way(table))


def _undecided(data: Timeline, table: MetadataTable) -> Iterator[Obstacle]:
    completed = {instant.time for instant in table.timeline.completed}
    for instant in data.pending:
        if instant.time in completed:
            yield Obstacle(
                "undecided-commit",
                instant.file_name,
                "It is complete in the metadata table and not on the table, so it may still have to be rolled back, "
                "and what is compacted cannot be.",
                "Let its writer finish or roll it back: a Hudi writer by writing once, Lakeward by "
                "`lakeward compact` without --metadata.",
            )


def _under_way(table: MetadataTable) -> Iterator[Obstacle]:
    for instant in table.timeline.pending:
        if instant.action in _UNDER_WAY:
            yield Obstacle(
                f"pending-metadata-{instant.action}",
                f".hoodie/metadata: {instant.file_name}",
                f"A {instant.action} of the metadata table is under way or was interrupted.",
                "Let a Hudi writer finish it by writing once.",
            )


def _is_after(time: str, since: str | None) -> bool:
    return bool(time) and (since is None or comparable_time(time) > comparable_time(since))

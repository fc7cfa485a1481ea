"""Dead file slices of the metadata table, which no reader needs any more: one snapshot in, values out.

By Hudi's rule for it (KEEP_LATEST_COMMITS with at least 20 commits), of each file group there stay

    the newest slice               it is what readers read
    every slice from E on          E: the 20th newest completed commit of the metadata table
    the newest slice before E      what was read as of E

and the others are dead, base file and logs together. So a reader that began up to 20 commits ago finds its files.

Commits that left the active timeline count as well. Hudi's own cleaner does not count them, so where writers keep fewer
than 20 on it, it deletes nothing.

E is moved back where something older may still be gone back to:

    the oldest commit pending in the metadata table, as with Hudi
    the oldest instant pending on the table itself          it may be rolled back
    the oldest savepoint of the table                       it may be restored; Hudi's own cleaner of the metadata table
                                                            does not ask

Touches: nothing.
Keeps:   only files that a completed commit brought are ever named; what no instant explains is not in a slice.
Source:  CleanPlanner, CleanerUtils.getEarliestCommitToRetain, HoodieMetadataWriteUtils (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeward.format.timeline.clean_plan import CleanPlan, Retained
from lakeward.format.timeline.instant import Instant, comparable_time
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.metadata.metadata_table import MetadataTable
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

RETAINED_COMMITS = 20
"""Hudi's least for the metadata table, whatever the table's own policy."""


@dataclass(frozen=True, slots=True)
class DeadSlices:
    """What can be deleted of the metadata table, and as of when everything can still be read."""

    earliest_retained: Instant | None
    """None while there are too few commits to delete anything."""
    last_completed: str
    """The newest completed commit of the metadata table."""
    slices: tuple[FileSlice, ...] = ()

    @property
    def files(self) -> int:
        return sum(len(file_names(slice_)) for slice_ in self.slices)

    @property
    def bytes(self) -> int:
        return sum(slice_.base_bytes + slice_.log_bytes for slice_ in self.slices)

    def plan(self, extra_metadata: dict[str, str]) -> CleanPlan:
        names: dict[str, list[str]] = {}
        for slice_ in self.slices:
            names.setdefault(slice_.partition_path, []).extend(file_names(slice_))
        retained = self.earliest_retained
        return CleanPlan(
            earliest_retained=None if retained is None else _as_retained(retained),
            last_completed=self.last_completed,
            files={partition: tuple(of) for partition, of in names.items()},
            extra_metadata=extra_metadata,
        )


def file_names(slice_: FileSlice) -> list[str]:
    base = [] if slice_.base_file is None else [slice_.base_file.name]
    return base + [log.name.text for log in slice_.log_files]


def archived_wanted(table: MetadataTable) -> int:
    """How many of its newest archived commits there are to know; 0 where the active timeline has enough."""
    return max(0, RETAINED_COMMITS + 1 - len(table.timeline.completed_writes))


def find_dead_slices(data: Timeline, table: MetadataTable, archived: Iterable[Instant] = ()) -> DeadSlices:
    """What of the metadata table is dead.

    Args:
        data: the timeline of the table itself.
        table: with all of its partitions.
        archived: completed commits of the metadata table that left its active timeline, the newest at least; those that
            are on it, too, count once. Fewer than there are keep more.
    """
    by_time = {instant.time: instant for instant in (*archived, *table.timeline.completed_writes)}
    commits = tuple(sorted(by_time.values(), key=lambda instant: comparable_time(instant.time)))
    last = commits[-1].time if commits else ""
    if len(commits) <= RETAINED_COMMITS:
        return DeadSlices(None, last)
    earliest = _earliest_retained(commits, data, table.timeline)
    if earliest is None:
        return DeadSlices(None, last)
    slices = [dead for of in table.groups.values() for group in of for dead in _dead_slices(group, earliest.time)]
    return DeadSlices(earliest, last, tuple(slices))


def still_dead(names: Iterable[str], table: MetadataTable) -> bool:
    """Whether a plan's files can still be deleted: none of them is in the newest slice of its file group."""
    living = {name for of in table.slices.values() for slice_ in of for name in file_names(slice_)}
    return living.isdisjoint(names)


def _as_retained(instant: Instant) -> Retained:
    return Retained(instant.time, instant.comparable_action, "COMPLETED")


def find_pending_clean(table: MetadataTable) -> str | None:
    """The instant of the oldest clean of the metadata table that was begun and not completed."""
    return next((instant.time for instant in table.timeline.pending if instant.action == "clean"), None)


def _earliest_retained(commits: tuple[Instant, ...], data: Timeline, metadata: Timeline) -> Instant | None:
    limits = [instant.time for instant in metadata.pending if instant.comparable_action in WRITE_ACTIONS]
    limits += [instant.time for instant in data.pending]
    limits += data.savepoints
    limit = min(limits, key=comparable_time, default=None)
    found = commits[-RETAINED_COMMITS]
    if limit is None or comparable_time(found.time) <= comparable_time(limit):
        return found
    before = [instant for instant in commits if comparable_time(instant.time) < comparable_time(limit)]
    return before[-1] if before else None


def _dead_slices(group: FileGroup, earliest: str) -> Iterator[FileSlice]:
    older = [slice_ for slice_ in group.slices[1:] if _is_before(slice_, earliest)]
    if group.slices and _is_before(group.slices[0], earliest):
        yield from older  # the newest slice is the newest before the earliest instant
    else:
        yield from older[1:]


def _is_before(slice_: FileSlice, time: str) -> bool:
    return comparable_time(slice_.base_instant) < comparable_time(time)

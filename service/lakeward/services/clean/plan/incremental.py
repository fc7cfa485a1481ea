"""Which partitions a clean need look at, after an earlier one that left nothing behind.

By commits and hours a slice is dead once what superseded it lies before the earliest instant. An earlier clean of
Lakeward, its *base*, that left nothing which was superseded before its own earliest instant B leaves to this one, whose
earliest instant is E, what was superseded from B on and before E. So the partitions of the writes between them are
looked at, those in which they replaced groups too.

The base says of itself that it left nothing (`LEFT_NOTHING` in its plan). It does not where a pending plan or a frozen
group kept a slice that the policy let go; where a write before B was pending, since that one may complete later; where
files were of no instant of the timeline; and where it did not see all partitions. What savepoints keep is named in it:
while all of them are there, they go on keeping it. Cleans of other engines may have come since, and none of these is a
base: what they leave is not known.

Everything is looked at where there is no base, or it was undone; by versions; where B is not a write of the active
timeline, for then writes since B may have been archived; where a savepoint of the base is gone; after a restore; and
where it cannot be read what a write wrote. What a failed write leaves after the base in a partition that no other write
touches counts as committed once the timeline starts after it: what it supersedes waits for the next write there, or the
next look at all.

Touches: nothing.
Keeps:   1. what is dead by a look at these partitions is what is dead by a look at all;
         2. only what is known to have left nothing is a base.
Source:  CleanPlanner.getPartitionPathsForIncrementalCleaning (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lakeward.format.timeline.clean_metadata import CleanMetadata
from lakeward.format.timeline.instant import Instant, is_before
from lakeward.services.clean.plan.decision import LEFT_NOTHING, SAVEPOINTED_TIMESTAMPS
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Base:
    """An earlier clean after which nothing was left of what was superseded before its earliest instant."""

    earliest: str
    savepoints: frozenset[str]
    """What there was that keeps more."""


def base_of(metadata: CleanMetadata) -> Base | None:
    """The base that a completed clean is, if it is one."""
    if LEFT_NOTHING not in metadata.extra_metadata or not metadata.earliest_retained:
        return None
    if any(partition.failed for partition in metadata.partitions.values()):
        return None
    savepoints = metadata.extra_metadata.get(SAVEPOINTED_TIMESTAMPS, "")
    return Base(metadata.earliest_retained, frozenset(filter(None, savepoints.split(","))))


def is_usable(base: Base, timeline: Timeline) -> bool:
    """Whether all that was written since it is on the timeline, and nothing there brings old slices back."""
    start = timeline.first_active_write
    if start is None or is_before(base.earliest, start) or timeline.completion_time(base.earliest) is None:
        return False
    if any(instant.action == "restore" for instant in timeline.instants):
        return False
    return base.savepoints <= timeline.savepoints


def find_writes(base: Base, timeline: Timeline, earliest: Instant) -> tuple[Instant, ...]:
    """The writes by which something may have become dead since the base."""
    return tuple(
        write
        for write in timeline.completed_writes
        if is_before(write.time, earliest.time) and not is_before(write.time, base.earliest)
    )


def partitions_of(
    writes: Iterable[Instant], *, written: Mapping[str, Collection[str]], replaced: Mapping[GroupId, str]
) -> frozenset[str] | None:
    """The partitions that these writes touched; None where that is not known of one of them.

    Args:
        written: the partitions into which each write wrote, by its instant.
        replaced: the instant that replaced each file group.
    """
    times = {write.time for write in writes}
    if not times <= written.keys():
        return None
    into = {partition for time in times for partition in written[time]}
    return frozenset(into | {partition for (partition, _), by in replaced.items() if by in times})

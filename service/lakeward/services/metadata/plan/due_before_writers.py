"""When the metadata table is compacted before its writers have to, or left to them: one scan of its timeline in.

A Hudi writer compacts the metadata table at the beginning of a write, where the delta commits since the last compaction
have reached `hoodie.metadata.compact.max.delta.commits`. With Hudi 1.2.0 that write then fails, if it is the first
work of its JVM. So the services of the metadata table are due a few commits before:

    limit    10, Hudi's default, or what the compactions show that writers made: they waited for so many delta commits
             and less than the default: the fewest; more: the fewest of at least two
    after    the limit less four, or less half of a small one: a write and the clean behind it are two delta commits,
             our own compaction is one, and a writer may have begun while we scanned

    1  2  3  4  5  6  7  8  9  10
                   ^ due        ^ the next write compacts

Touches: nothing.
Keeps:   1. delta commits are counted as Hudi counts them, pending ones among them;
         2. what Lakeward compacted itself says nothing about the limit, or it would fall with each compaction of
            Lakeward;
         3. services are due before the limit wherever it is above one.
See:     docs/decisions/0018-the-metadata-table-before-its-writers.md
Source:  HoodieBackedTableMetadataWriter.performTableServices, CompactionUtils.getDeltaCommitsSinceLatestCompaction and
         ScheduleCompactionActionExecutor.needCompact (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from lakeward.format.timeline.instant import Instant, comparable_time
from lakeward.services.metadata.plan.dead_slices import RETAINED_COMMITS
from lakeward.table.metadata.compact_after import AUTO, MetadataCompactAfter
from lakeward.table.metadata.metadata_table import is_initial_build, latest_compaction
from lakeward.table.timeline.timeline import Timeline


class MetadataService(StrEnum):
    """A service of the metadata table."""

    CLEAN = "clean"
    COMPACTION = "compaction"


WRITERS_LIMIT = 10
"""Hudi's default of `hoodie.metadata.compact.max.delta.commits`."""
HEADROOM = 4
_SIGNS_TO_RAISE_IT = 2
"""One compaction that came late may have had a reason of its own."""


@dataclass(frozen=True, slots=True)
class MetadataTrigger:
    """Whether the services of a metadata table are due, and what that rests on."""

    delta_commits: int
    """Delta commits since the last compaction."""
    compacted_at: str | None
    """The instant of that; None where there was none yet."""
    after: int
    """They are due from so many on."""
    limit: int | None
    """The number from which on the next writer compacts, as far as we know; None where a setting says when it is
    due."""
    may_clean: bool = False
    """There are more commits than a clean keeps files for, or some were archived, or a clean was begun: it may find
    something to delete."""

    @property
    def is_due(self) -> bool:
        return self.delta_commits >= self.after

    @property
    def why(self) -> str:
        """A clause that explains the result."""
        since = f"its compaction {self.compacted_at}" if self.compacted_at else "it was built"
        border = (
            "as metadata_compact_after says"
            if self.limit is None
            else f"since its next writer would have to from {self.limit} on"
        )
        return f"delta commits since {since}: {self.delta_commits}; compacted from {self.after} on, {border}"


def metadata_trigger(
    timeline: Timeline, *, after: MetadataCompactAfter, by_writers: Collection[str]
) -> MetadataTrigger:
    """
    Args:
        timeline: of the metadata table.
        after: not 0, which asks for no trigger.
        by_writers: the compactions on it by others than Lakeward.
    """
    assert after, "0 leaves it to the writers"
    limit = writers_limit(timeline, by_writers) if after == AUTO else None
    if limit is not None:
        after = max(1, limit - min(HEADROOM, limit // 2))
    assert isinstance(after, int)
    return MetadataTrigger(
        count_delta_commits(timeline),
        latest_compaction(timeline),
        after,
        limit,
        may_clean=len(timeline.completed_writes) > RETAINED_COMMITS
        or not _shows_the_build(timeline)
        or any(instant.action == "clean" for instant in timeline.pending),
    )


def count_delta_commits(timeline: Timeline) -> int:
    """The number that Hudi counts before it decides: delta commits that completed since the last compaction was
    requested, and those that were requested since and are pending; all where there was none."""
    since = latest_compaction(timeline)
    return sum(_is_after(_moment(each), since) for each in _delta_commits(timeline))


def writers_limit(timeline: Timeline, by_writers: Collection[str]) -> int:
    """The number of delta commits from which on the next writer compacts."""
    compactions = [each.time for each in timeline.completed if each.comparable_action == "commit"]
    before: list[str | None] = [None, *compactions[:-1]]
    seen = [
        sum(
            _is_after(_moment(each), since) and not _is_after(_moment(each), until) for each in _delta_commits(timeline)
        )
        for since, until in zip(before, compactions, strict=False)
        # What was archived from before the first one that is left is not counted any more.
        if until in by_writers and (since is not None or _shows_the_build(timeline))
    ]
    fewest = min(seen, default=WRITERS_LIMIT)
    if fewest > WRITERS_LIMIT and len(seen) < _SIGNS_TO_RAISE_IT:
        return WRITERS_LIMIT
    return max(1, fewest)


def _delta_commits(timeline: Timeline) -> list[Instant]:
    return [each for each in (*timeline.completed, *timeline.pending) if each.comparable_action == "deltacommit"]


def _moment(instant: Instant) -> str:
    """When it completed; of a pending one, when it was requested."""
    return instant.completion_time or instant.time


def _is_after(time: str, since: str | None) -> bool:
    return since is None or comparable_time(time) > comparable_time(since)


def _shows_the_build(timeline: Timeline) -> bool:
    first = timeline.first_active_write
    return first is not None and is_initial_build(first)

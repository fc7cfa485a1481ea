"""How much of a table's past a clean keeps, in Hudi's three ways, and from which instant on that is everything.

    commits    KEEP_LATEST_COMMITS          what can be read as of the last N completed commits
    hours      KEEP_LATEST_BY_HOURS         the same as of the commits that were requested in the last N hours
    versions   KEEP_LATEST_FILE_VERSIONS    the N newest slices of each file group, whenever they were written

By the first two a clean has an *earliest instant*: as of it, and after it, everything can still be read. By commits
it is never after the last commit before the oldest pending one, plans of compaction, log compaction and clustering
counted: what is pending completes later under an instant that lies before others, and readers of what came since must
still find it. By hours Hudi asks for nothing pending, and a pending plan itself holds what it needs. Commits are
counted in the order in which they were requested, also those that completed late.

Touches: nothing.
Keeps:   1. the earliest instant is a completed commit of the active timeline, or there is none and nothing dies by it.
Source:  CleanerUtils.getEarliestCommitToRetain (Hudi 1.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lakeward.format.timeline.instant import Instant, comparable_time, format_instant_time
from lakeward.table.timeline import WRITE_ACTIONS, Timeline

if TYPE_CHECKING:
    import datetime


class CleanPolicyKind(StrEnum):
    """The three ways, in the words of the command line; `HUDI_NAMES` has Hudi's."""

    COMMITS = "commits"
    VERSIONS = "versions"
    HOURS = "hours"


HUDI_NAMES = {
    CleanPolicyKind.COMMITS: "KEEP_LATEST_COMMITS",
    CleanPolicyKind.VERSIONS: "KEEP_LATEST_FILE_VERSIONS",
    CleanPolicyKind.HOURS: "KEEP_LATEST_BY_HOURS",
}

RETAINED_BY_DEFAULT = {CleanPolicyKind.COMMITS: 10, CleanPolicyKind.VERSIONS: 3, CleanPolicyKind.HOURS: 24}
"""Hudi's defaults."""


@dataclass(frozen=True, slots=True)
class CleanPolicy:
    kind: CleanPolicyKind = CleanPolicyKind.COMMITS
    retain: int = RETAINED_BY_DEFAULT[CleanPolicyKind.COMMITS]
    """Commits, versions or hours."""

    @property
    def hudi_name(self) -> str:
        return HUDI_NAMES[self.kind]

    @property
    def milliseconds(self) -> int:
        assert self.kind is CleanPolicyKind.HOURS, "only hours are a time"
        return self.retain * 3_600_000


def find_earliest_retained(
    timeline: Timeline, policy: CleanPolicy, *, now: float, zone: datetime.tzinfo | None
) -> Instant | None:
    """The earliest instant. None where the policy has none, and where there are too few commits to let anything go.

    Args:
        zone: the zone of the table's instants. Hours cannot be counted where it is not known.
    """
    commits = timeline.completed_writes
    match policy.kind:
        case CleanPolicyKind.VERSIONS:
            return None
        case CleanPolicyKind.HOURS:
            if zone is None:
                return None
            start = format_instant_time(round(now * 1000) - policy.milliseconds, zone)
            return next((commit for commit in commits if comparable_time(commit.time) >= start), None)
        case CleanPolicyKind.COMMITS:
            if len(commits) <= policy.retain:
                return None
            found = commits[len(commits) - policy.retain]
            limit = oldest_pending_write(timeline)
            if limit is None or comparable_time(found.time) <= comparable_time(limit.time):
                return found
            before = [commit for commit in commits if comparable_time(commit.time) < comparable_time(limit.time)]
            return before[-1] if before else None


def oldest_pending_write(timeline: Timeline) -> Instant | None:
    """The oldest write, or plan that moves rows, that did not complete."""
    return next((instant for instant in timeline.pending if instant.comparable_action in WRITE_ACTIONS), None)

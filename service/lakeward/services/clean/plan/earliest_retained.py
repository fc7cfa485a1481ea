"""The instant from which on a clean keeps everything that can be read.

By commits and by hours a clean has an *earliest instant*: as of it, and after it, everything can still be read. By
commits it is never after the last commit before the oldest pending one, plans of compaction, log compaction and
clustering counted: what is pending completes later under an instant that lies before others, and readers of what came
since must still find it. By hours Hudi asks for nothing pending, and a pending plan itself holds what it needs.
Commits are counted in the order in which they were requested, also those that completed late.

Where the zone of the instants is not known, a commit is as old as both its name and its file are at least: the name as
the westernmost clocks on earth show it, which is up to 26 hours too young; the file, since one of our own instants may
be named after a commit of months ago (`table/timeline/new_time`). The files of a copy are as young as the copy.

Touches: nothing.
Keeps:   1. the earliest instant is a completed commit of the active timeline, or there is none and nothing dies by it;
         2. without a zone no commit is taken for older than it is.
Source:  CleanerUtils.getEarliestCommitToRetain (Hudi 1.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.format.timeline.instant import Instant, comparable_time, format_instant_time
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline
from lakeward.table.timeline.timezone import WESTERNMOST

if TYPE_CHECKING:
    import datetime


def find_earliest_retained(
    timeline: Timeline, policy: CleanPolicy, *, now: float, zone: datetime.tzinfo | None
) -> Instant | None:
    """The earliest instant. None where the policy has none, and where there are too few commits to let anything go.

    Args:
        zone: the zone of the table's instants.
    """
    commits = timeline.completed_writes
    match policy.kind:
        case CleanPolicyKind.VERSIONS:
            return None
        case CleanPolicyKind.HOURS:
            since = now - policy.milliseconds / 1000
            return next((commit for commit in commits if _may_be_since(timeline, commit, since, zone)), None)
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


def _may_be_since(timeline: Timeline, write: Instant, moment: float, zone: datetime.tzinfo | None) -> bool:
    """Whether a completed write was requested at the moment, in seconds since the epoch, or later, as far as that is
    known."""
    if comparable_time(write.time) >= format_instant_time(round(moment * 1000), zone or WESTERNMOST):
        return True
    return zone is None and timeline.modified.get(write.file_name, moment) >= moment

"""Unschedule a plan that waits for too long, so that its file groups are not hostage to it.

    no attempt alive, nothing completed, nothing built on it -> roll back the attempt, if any, and what is left of it in
    the metadata table -> delete `.requested`

A requested compaction opens file slices: logs that complete after it lie in a new slice. On layout 2 nothing but their
completion time says so, so when the plan goes they belong to the old slice again, and every reader sees the rows it saw
before, since a reader folds the logs of both slices together while a plan is pending. Hudi's own administration client
deletes the file likewise (CompactionAdminClient.unscheduleCompactionPlan since 1.0), without these checks.

Touches: files of the instant and the timeline, through `commit` and under the table lock.
Keeps:   1. a plan is unscheduled only with no process at work on it, as far as `protocol/pending/stuck.py` knows,
            and no other pending work built on its slices;
         2. a plan of another engine is unscheduled only when asked to in so many words;
         3. stopped anywhere in between, the plan is still there, or all of it is gone.
See:     docs/decisions/0009-plans-expire.md
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import AttemptLost, LakewardError, Refused, TryLater, UsageError
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.attempts.heartbeat import Life, Liveness
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.progress import Count
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.run.recovery import roll_back_dead
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Unscheduled:
    """A plan that is gone, and its file groups free."""

    instant: str
    action: ServiceAction
    attempt_rolled_back: bool
    groups: tuple[GroupId, ...]


class Hindrance(StrEnum):
    """What keeps a plan from being unscheduled."""

    GONE = "gone"
    FOREIGN = "foreign"
    AT_WORK = "at-work"
    COMPLETED = "completed"
    BUILT_ON = "built-on"
    """The pending work of another service rests on it."""
    NAMED_BY = "named-by"
    """Writers may have named logs by it (version 6), which would belong to nothing without it."""


@dataclass(frozen=True, slots=True)
class StillScheduled:
    """A plan that was left as it is."""

    instant: str
    why: str
    hindrance: Hindrance


@dataclass(frozen=True, slots=True)
class _Judged:
    """A plan that may go, as it was found."""

    work: PendingWork
    attempt: Attempt
    liveness: Liveness

    @property
    def unscheduled(self) -> Unscheduled:
        has_attempt = self.attempt.files.is_inflight() or self.liveness.life is not Life.ABSENT
        return Unscheduled(self.work.instant, self.work.action, has_attempt, self.work.groups)


def preview_unscheduling(table: ServicedTable, instant: str, *, foreign: bool) -> Unscheduled | StillScheduled:
    """What `unschedule` would return now. Takes no lock and writes nothing."""
    judged = _judge(table, instant, foreign=foreign)
    return judged if isinstance(judged, StillScheduled) else judged.unscheduled


def unschedule(table: ServicedTable, instant: str, *, foreign: bool) -> Unscheduled | StillScheduled:
    table.watch([instant])
    with table.locked() as fence:
        judged = _judge(table, instant, foreign=foreign)
        if isinstance(judged, StillScheduled):
            return judged
        work, attempt, done = judged.work, judged.attempt, judged.unscheduled
        fence()
        if done.attempt_rolled_back:
            roll_back_dead(table, attempt, work, judged.liveness, fence=fence)
        else:
            # What is complete in the metadata table would count as soon as the plan is gone.
            attempt.fence_off()
            attempt.roll_back(work.groups, fence=fence)
        fence()
        attempt.unschedule()
    table.observer.counted(Count.UNSCHEDULED_PLAN)
    table.observer.step(f"{label(work.action)} {instant} unscheduled, file groups: {len(work.groups)}")
    return done


def _judge(table: ServicedTable, instant: str, *, foreign: bool) -> _Judged | StillScheduled:
    snapshot = table.snapshot(only=(), service=TableService.UNSCHEDULING)  # the timeline says all that matters
    work = next((work for work in pending_work(snapshot) if work.instant == instant), None)
    if work is None:
        why = "it is no pending compaction or log compaction: completed, or gone already"
        return StillScheduled(instant, why, Hindrance.GONE)
    attempt = table.attempt(snapshot, instant, work.action)
    liveness = table.liveness(instant)
    if not work.is_own and not foreign:
        why = "another engine planned it, which may be about to carry it out"
        return StillScheduled(instant, why, Hindrance.FOREIGN)
    if not work.is_own and (why_young := _may_be_begun(table, snapshot, work)) is not None:
        return StillScheduled(instant, why_young, Hindrance.FOREIGN)
    if liveness.life is Life.ALIVE:
        why = f"a process is carrying it out; the heartbeat is {liveness.age_seconds:.0f} s old"
        return StillScheduled(instant, why, Hindrance.AT_WORK)
    if (maybe := Judge.of(table).why_maybe_at_work(snapshot, instant, liveness)) is not None:
        return StillScheduled(instant, maybe, Hindrance.AT_WORK)
    if (completed := attempt.files.find_completed()) is not None:
        return StillScheduled(instant, f"it is completed: {completed} exists", Hindrance.COMPLETED)
    if (why_not := _built_on(snapshot, work)) is not None:
        return StillScheduled(instant, why_not, Hindrance.BUILT_ON)
    return _Judged(work, attempt, liveness)


def _may_be_begun(table: ServicedTable, snapshot: TableSnapshot, work: PendingWork) -> str | None:
    """Why an engine may be about to carry its own plan out; None where no process is at work, or it is old."""
    silent_after, timeline = table.options.silent_after, snapshot.timeline
    if table.options.writers_stopped:
        return None
    changed = max(timeline.modified[each.file_name] for each in timeline.instants if each.time == work.instant)
    if silent_after is not None and table.clock.now() - changed >= silent_after:
        return None
    return "another engine planned it, and may be about to carry it out, since it changed within rollback.silent_after"


def _built_on(snapshot: TableSnapshot, work: PendingWork) -> str | None:
    """Pending work of others that would fit nothing any more, or that names the attempt's files."""
    for instant in snapshot.timeline.pending:
        # Its plan may name the attempt's files and its `.inflight`, and Hudi fails where they are gone.
        if instant.action == "rollback":
            return f"rollback {instant.time} is under way"
    if work.action is ServiceAction.LOG_COMPACTION:
        return None  # opens no slice, so nothing can be built on it
    groups = set(work.groups)
    for other in pending_work(snapshot):
        for operation in other.plan.operations:
            group_id = (operation.partition_path, operation.file_id)
            if other.instant != work.instant and group_id in groups and operation.base_instant == work.instant:
                return f"{label(other.action)} {other.instant} works on the file slice that it opens in {group_id[1]}"
    for group_id in work.groups:
        if (clustering := snapshot.pending_clusterings.get(group_id)) is not None:
            return f"clustering {clustering} is about to replace {group_id[1]}"
    return None


def why_scheduled(left: StillScheduled, work: PendingWork | None) -> LakewardError:
    """The error of an operator's request to unschedule it, with what can be done.

    Args:
        work: None where nothing of that instant is pending.
    """
    what, why = f"The plan {left.instant} was left as it is.", f"{left.why[:1].upper()}{left.why[1:]}."
    if work is None:
        return UsageError(what, why=why, remedy="`lakeward inspect` shows what is pending.")
    match left.hindrance:
        case Hindrance.AT_WORK:
            return TryLater(what, why=why, remedy="Wait until it ends, or stop it where it runs, and try again.")
        case Hindrance.GONE | Hindrance.COMPLETED:
            return AttemptLost(what, why=why, remedy="`lakeward inspect` shows what is pending now.")
        case Hindrance.FOREIGN:
            return Refused(what, why=why, remedy=_remedy_of_hudi(work))
        case Hindrance.BUILT_ON | Hindrance.NAMED_BY:
            return Refused(what, why=why, remedy="Let its owner finish that first.")


def _remedy_of_hudi(work: PendingWork) -> str:
    if work.action is ServiceAction.LOG_COMPACTION:
        return "Let a Hudi writer that compacts logs carry it out or roll it back, or `lakeward compact` carry it out."
    return (
        "Let the engine carry it out, or unschedule it by Hudi's own command line: "
        f"compaction unschedule --instant {work.instant}; or, where that engine will not, add --foreign."
    )

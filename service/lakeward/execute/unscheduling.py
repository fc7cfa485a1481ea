"""Take a plan back that waits for too long, so that its file groups are not hostage to it.

    nobody alive, nothing completed, nothing built on it -> undo the attempt, if any, and what is left of it in the
    metadata table -> delete `.requested`

A requested compaction opens file slices: logs that complete after it lie in a new slice. On layout 2 nothing but their
completion time says so, so when the plan goes they belong to the old slice again, and every reader sees the rows it saw
before, since a reader folds the logs of both slices together while a plan is pending. Hudi's own administration client
deletes the file likewise (CompactionAdminClient.unscheduleCompactionPlan since 1.0), without these checks.

Touches: files of the instant and the timeline, through `commit` and under the table lock.
Keeps:   1. a plan is taken back only with nobody at work on it and no other pending work built on its slices;
         2. a plan of somebody else is taken back only when asked to in so many words;
         3. stopped anywhere in between, the plan is still there, or all of it is gone.
See:     docs/decisions/0009-plans-expire.md
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.commit.attempt import remove_temp_folder
from lakeward.commit.heartbeat import Life, Sign
from lakeward.commit.metadata_recovery import take_back_metadata
from lakeward.commit.transition import ServiceAction, TimelineFiles
from lakeward.execute.pending_work import PendingWork, pending_work
from lakeward.execute.progress import Count
from lakeward.execute.serviced_table import ServicedTable, spell
from lakeward.execute.undoing import undo_dead_attempt
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Unscheduled:
    """A plan that is gone, and its file groups free."""

    instant: str
    action: ServiceAction
    attempt_undone: bool
    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class StillScheduled:
    """A plan that was left as it is."""

    instant: str
    why: str


def unschedule(table: ServicedTable, instant: str, *, foreign: bool) -> Unscheduled | StillScheduled:
    with table.locked() as fence:
        snapshot = table.look(only=())  # the timeline says all that matters
        work = next((work for work in pending_work(snapshot) if work.instant == instant), None)
        if work is None:
            return StillScheduled(instant, "it is no pending compaction or log compaction: completed, or gone already")
        files = table.timeline_files(snapshot, instant, work.action)
        sign = table.sign_of_life(instant)
        if (why := _stands_against(snapshot, work, files, sign, foreign=foreign)) is not None:
            return StillScheduled(instant, why)
        fence()
        has_attempt = files.is_inflight() or sign.life is not Life.ABSENT
        if has_attempt:
            undo_dead_attempt(table, files, work, sign, fence=fence)
        else:
            # What is complete there would count as soon as the plan is gone.
            by = table.owner.attempt
            take_back_metadata(table.storage, table.base_path, instant, by=by, clock=table.clock, fence=fence)
            remove_temp_folder(table.storage, table.base_path, instant)
        fence()
        files.unschedule()
    table.observer.counted(Count.UNSCHEDULED_PLAN)
    table.observer.step(f"{spell(work.action)} {instant} unscheduled, file groups: {len(work.groups)}")
    return Unscheduled(instant, work.action, has_attempt, work.groups)


def _stands_against(
    snapshot: TableSnapshot, work: PendingWork, files: TimelineFiles, sign: Sign, *, foreign: bool
) -> str | None:
    """Why the plan must stay; None when it may go."""
    if not work.is_ours and not foreign:
        return "another engine planned it, which may be about to carry it out"
    if sign.life is Life.ALIVE:
        return f"somebody is carrying it out; the heartbeat is {sign.age_seconds:.0f} s old"
    if (completed := files.find_completed()) is not None:
        return f"it is completed: {completed} exists"
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
                return f"{spell(other.action)} {other.instant} works on the file slice that it opens in {group_id[1]}"
    for group_id in work.groups:
        if (clustering := snapshot.pending_clusterings.get(group_id)) is not None:
            return f"clustering {clustering} is about to replace {group_id[1]}"
    return None

"""Become the one attempt at a plan: prove that nobody is alive, undo the dead, start the heartbeat, begin.

Touches: the heartbeat, the attempt's folder and `.inflight` of the instant, under the table lock.
Keeps:   a plan has one attempt at a time; what a dead one left is gone before the next one starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.commit.attempt import Attempt
from lakeward.commit.heartbeat import Heartbeat, Life
from lakeward.commit.transition import ServiceAction, TimelineFiles
from lakeward.errors import AlreadyExists, AttemptLost, Conflict, LakewardError, TryLater
from lakeward.execute.metadata_commit import indexed_columns_of
from lakeward.execute.pending_work import PendingWork, groups_of, pending_plan
from lakeward.execute.serviced_table import ServicedTable, spell
from lakeward.execute.targets import Targets, find_targets
from lakeward.execute.undoing import undo_attempt, undo_dead_attempt
from lakeward.format.compaction_plan import CompactionPlan
from lakeward.table.index_definitions import IndexedColumns
from lakeward.table.service_instants import PLANNED_BY
from lakeward.table.snapshot import TableSnapshot

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that is ours to carry out: our heartbeat beats, our attempt's folder and `.inflight` exist."""

    snapshot: TableSnapshot
    instant: str
    action: ServiceAction
    plan: CompactionPlan
    targets: Targets
    files: TimelineFiles
    heartbeat: Heartbeat
    attempt: Attempt
    indexed: IndexedColumns | None
    """Of which columns the metadata table wants statistics of the new files."""


def claim_plan(table: ServicedTable, work: PendingWork) -> Claim | None:
    """Wait for a living attempt to end, and take its place. None when it carried the plan out."""
    instant, action = work.instant, work.action
    started = table.clock.monotonic()
    table.watch([instant])
    while True:
        with table.locked() as fence:
            snapshot = table.look(only=frozenset(work.groups))
            files = table.timeline_files(snapshot, instant, action)
            if files.find_completed() is not None:
                return None
            sign = table.sign_of_life(instant)
            if sign.life is not Life.ALIVE:
                plan = pending_plan(snapshot, instant)
                if frozenset(groups_of(plan)) != frozenset(work.groups):
                    raise _changed(work)
                targets = find_targets(snapshot, instant, plan, action)
                indexed = indexed_columns_of(table, snapshot)
                fence()
                if files.is_inflight() or sign.life is not Life.ABSENT:
                    undo_dead_attempt(table, files, PendingWork(instant, action, plan), sign, fence=fence)
                claim = Claim(
                    snapshot=snapshot,
                    instant=instant,
                    action=action,
                    plan=plan,
                    targets=targets,
                    files=files,
                    heartbeat=Heartbeat(table.storage, table.base_path, instant, table.owner),
                    attempt=Attempt(table.storage, table.base_path, instant, table.owner.attempt),
                    indexed=indexed,
                )
                _begin(claim)
                return claim
        waited = table.clock.monotonic() - started
        if waited >= table.options.wait_seconds:
            whose = f" and comes from process {sign.owner.pid} on {sign.owner.host}" if sign.owner else ""
            raise TryLater(
                f"Somebody else is carrying out {spell(action)} {instant}.",
                why=f"Its heartbeat is {sign.age_seconds:.0f} s old{whose}.",
                remedy="Run the command again when it has finished, or raise --wait.",
            )
        table.guard()
        table.observer.waiting(f"another attempt at {spell(action)} {instant} is alive", waited)
        table.clock.sleep(POLL_SECONDS)
        table.watch([instant])


def _changed(work: PendingWork) -> Conflict:
    return Conflict(
        f"The plan of {spell(work.action)} {work.instant} is another one than a moment ago.",
        why="Its .requested file was written anew, for example by Hudi's command line.",
        remedy="Run the command again.",
    )


def _begin(claim: Claim) -> None:
    try:
        claim.heartbeat.start()
        claim.attempt.start()
        claim.files.begin()
    except (AlreadyExists, AttemptLost) as error:
        # t0 we prove the lock ours and are stopped; t1 it runs out, and another process begins, or takes the plan
        # back, so that nobody would look for our heartbeat any more; t2 we wake up.
        claim.heartbeat.stop()
        raise AttemptLost(
            f"We cannot begin {spell(claim.action)} {claim.instant} any more.",
            why=f"{error.what} The table lock was taken from us meanwhile.",
            remedy="Run the command again: it finishes what is left, if anything is.",
        ) from error


def check_ours(claim: Claim) -> None:
    """Raise `AttemptLost` unless our attempt is still the one at its plan. Under the lock."""
    completed = claim.files.find_completed()
    if completed is not None or not claim.heartbeat.is_ours() or not claim.files.is_inflight():
        raise AttemptLost(
            f"Our attempt at {spell(claim.action)} {claim.instant} was taken over.",
            why=f"{completed} exists." if completed else "Its heartbeat or its .inflight file is no longer ours.",
            remedy="Run the command again: it finishes what is left, if anything is.",
        )


def end_without_work(table: ServicedTable, claim: Claim) -> None:
    """Nothing of a log compaction can be carried out any more: undo the attempt, and unschedule a plan of ours."""
    with table.locked(to_undo=True) as fence:
        check_ours(claim)
        undo_attempt(table, claim.files, claim.instant, claim.plan, fence=fence)
        # Once the plan is gone nobody looks for the heartbeat of its instant any more.
        claim.heartbeat.stop()
        if PLANNED_BY in claim.plan.extra_metadata:
            claim.files.unschedule()
    table.observer.step(f"{spell(claim.action)} {claim.instant} has nothing left to do")


def give_up(table: ServicedTable, claim: Claim, error: BaseException) -> None:
    """After a failure, undo our attempt: unless it is not ours any more, or its commit exists."""
    try:
        with table.locked(to_undo=True) as fence:
            if claim.heartbeat.is_ours():
                if claim.files.find_completed() is None:
                    undo_attempt(table, claim.files, claim.instant, claim.plan, fence=fence)
                claim.heartbeat.stop()
    except (LakewardError, OSError) as second:
        error.add_note(f"What the attempt left could not be removed ({second}); the next run removes it.")

"""Take an attempt back, so that its plan can be carried out again: what a dead process left, or our own failed one.

    folder aside -> no completed file? -> metadata table -> stray files -> folder -> .inflight -> heartbeat

Touches: files of the instant, the timeline and the heartbeat, all through `commit` and under the table lock.
Keeps:   1. nothing is undone while a commit of the instant exists or might exist;
         2. stopped anywhere in between, the plan is still there and all of this can be done again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.commit.announced import exclude, finish_announced
from lakeward.commit.attempt import remove_temp_folder, strays
from lakeward.commit.heartbeat import Life, Sign, remove_dead
from lakeward.commit.metadata_recovery import take_back_metadata
from lakeward.commit.transition import ServiceAction, TimelineFiles
from lakeward.execute.pending_work import PendingWork, groups_of, pending_work
from lakeward.execute.progress import Count
from lakeward.execute.serviced_table import Fence, ServicedTable, spell
from lakeward.format.compaction_plan import CompactionPlan
from lakeward.storage.storage import delete_all
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class UndoneAttempt:
    instant: str
    action: ServiceAction


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan that nobody has carried out."""

    work: PendingWork
    is_inflight: bool
    sign: Sign
    """Of whoever carries it out."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found at a table, and what of it was taken back."""

    undone: tuple[UndoneAttempt, ...]
    pending: tuple[WaitingPlan, ...]
    """As they are afterwards, oldest first."""


def undo_attempt(
    table: ServicedTable, files: TimelineFiles, instant: str, plan: CompactionPlan, *, fence: Fence
) -> None:
    """The plan stays, and so does the heartbeat, which the caller removes last. Under the lock.

    Whoever is stopped in here may wake up when its lock is long another's, and the plan carried out by a new attempt:

        t0 A finds nothing completed and is stopped; t1 B publishes; t2 A wakes, lists, and deletes what B published.

    So what is deleted was listed before the lock was proved once more: no attempt that began later can be among it.
    The folder and `.inflight`, which have the same name in every attempt, may be a later one's all the same. That one
    finds that it is lost, and is undone: without them it publishes nothing.
    """
    exclude(table.storage, table.base_path, instant, files, by=table.owner, clock=table.clock, fence=fence)
    # Nobody can publish any more, so from here on the answer to this question stays true.
    files.check_uncompleted()
    by = table.owner.attempt
    take_back_metadata(table.storage, table.base_path, instant, by=by, clock=table.clock, fence=fence)
    left = strays(table.storage, table.base_path, instant, groups_of(plan))
    fence()
    delete_all(table.storage, (stray.path for stray in left))
    fence()
    remove_temp_folder(table.storage, table.base_path, instant)
    files.undo()
    table.observer.counted(Count.UNDONE_ATTEMPT)


def undo_dead_attempt(
    table: ServicedTable, files: TimelineFiles, work: PendingWork, judged: Sign, *, fence: Fence
) -> None:
    """With its heartbeat, if that is still the one that was judged. Under the lock, after nobody was seen alive."""
    table.observer.step(f"{spell(work.action)} {work.instant}: undoing an attempt that died")
    undo_attempt(table, files, work.instant, work.plan, fence=fence)
    remove_dead(table.storage, table.base_path, work.instant, judged, by=table.owner)


def recover(table: ServicedTable, snapshot: TableSnapshot, *, fence: Fence) -> Recovery:
    """Remove leftovers of ours, and undo the attempts of processes of ours that died, or publish what they had
    announced. Under the lock.

    A left-over `.logcompaction.inflight` can stop Hudi's writers, so this comes before all other work.
    """
    table.tidy(snapshot)
    undone, waiting = [], []
    for work in pending_work(snapshot):
        files = table.timeline_files(snapshot, work.instant, work.action)
        sign = table.sign_of_life(work.instant)
        if sign.life is not Life.ALIVE and _finish(table, work, files, fence):
            table.observer.step(f"{spell(work.action)} {work.instant}: published what was announced before it died")
            table.tidy(snapshot)
            continue
        if sign.life is not Life.ALIVE and _is_attempt_of_ours(work, files, sign):
            undo_dead_attempt(table, files, work, sign, fence=fence)
            undone.append(UndoneAttempt(work.instant, work.action))
            sign = table.sign_of_life(work.instant)
        waiting.append(WaitingPlan(work, files.is_inflight(), sign))
    return Recovery(tuple(undone), tuple(waiting))


def _finish(table: ServicedTable, work: PendingWork, files: TimelineFiles, fence: Fence) -> bool:
    return finish_announced(table.storage, table.base_path, work.instant, files, clock=table.clock, fence=fence)


def _is_attempt_of_ours(work: PendingWork, files: TimelineFiles, sign: Sign) -> bool:
    """An attempt of ours has a heartbeat that says so, from before its `.inflight` exists until after that is gone."""
    if sign.owner is not None:
        return True
    return work.action is ServiceAction.LOG_COMPACTION and work.is_ours and files.is_inflight()

"""Recover a table's plans from processes that died: roll their attempts back, or forward what they were publishing.

Touches: files of the instants, the timeline and the heartbeats, all through `commit` and under the table lock.
Keeps:   1. an attempt is rolled back only where it may not be alive, and is this process's own or about to be followed
            by its own;
         2. stopped anywhere in between, the plan is still there and all of this can be done again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.attempts.heartbeat import Life, Liveness
from lakeward.protocol.life_cycle import settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import ServiceAction
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A dead attempt that was rolled back."""

    instant: str
    action: ServiceAction


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan that was not carried out."""

    work: PendingWork
    is_inflight: bool
    liveness: Liveness
    """Whether an attempt at it is alive."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found at a table, and what of it was rolled back."""

    rolled_back: tuple[RolledBack, ...]
    pending: tuple[WaitingPlan, ...]
    """Plans that still wait, as they are afterwards, oldest first."""


def roll_back_dead(
    table: ServicedTable, attempt: Attempt, work: PendingWork, judged: Liveness, *, fence: Fence
) -> None:
    """Roll back a dead attempt with its heartbeat, if that is still the one that was judged. Under the lock, after no
    attempt was seen alive.

    Raises `AttemptLost` where it had stated its intent; then it is rolled forward.
    """
    table.observer.step(f"{label(work.action)} {work.instant}: rolling back an attempt that died")
    if not settle(table, attempt, work.groups, judged.owner, check_intent=_fits, fence=fence):
        attempt.files.check_uncompleted()


def recover(table: ServicedTable, snapshot: TableSnapshot, *, fence: Fence) -> Recovery:
    """Remove leftovers of Lakeward, and roll the attempts of processes of Lakeward that died back, or forward where
    they had stated their intent. Under the lock.

    A left-over `.logcompaction.inflight` can stop Hudi's writers, so this comes before all other work.
    """
    table.sweep(snapshot)
    rolled_back, waiting = [], []
    for work in pending_work(snapshot):
        attempt = table.attempt(snapshot, work.instant, work.action)
        liveness = table.liveness(work.instant)
        if liveness.life is not Life.ALIVE and attempt.roll_forward(fence=fence) is not None:
            table.observer.step(f"{label(work.action)} {work.instant}: rolled forward what its process had stated")
            table.sweep(snapshot)
            continue
        if liveness.life is not Life.ALIVE and _is_own_attempt(attempt, work, liveness):
            roll_back_dead(table, attempt, work, liveness, fence=fence)
            rolled_back.append(RolledBack(work.instant, work.action))
            liveness = table.liveness(work.instant)
        waiting.append(WaitingPlan(work, attempt.files.is_inflight(), liveness))
    return Recovery(tuple(rolled_back), tuple(waiting))


def _is_own_attempt(attempt: Attempt, work: PendingWork, liveness: Liveness) -> bool:
    """An attempt of Lakeward has a heartbeat that says so, from before its `.inflight` exists until after that is
    gone.
    """
    if liveness.owner is not None:
        return True
    return work.action is ServiceAction.LOG_COMPACTION and work.is_own and attempt.files.is_inflight()


def _fits() -> None:
    """The table's own slices are closed by the plan; its metadata table judges for itself."""

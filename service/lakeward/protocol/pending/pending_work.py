"""Compactions and log compactions that are on the timeline and not completed, as a snapshot shows them.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import Conflict
from lakeward.format.timeline.compaction_plan import CompactionPlan
from lakeward.protocol.transition import ServiceAction
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import PLANNED_BY, groups_of


@dataclass(frozen=True, slots=True)
class PendingWork:
    """One plan that waits to be carried out, or is being carried out."""

    instant: str
    action: ServiceAction
    plan: CompactionPlan

    @property
    def is_own(self) -> bool:
        """Whether Lakeward planned it, this process or another one."""
        return PLANNED_BY in self.plan.extra_metadata

    @property
    def groups(self) -> tuple[GroupId, ...]:
        return groups_of(self.plan)


_ACTIONS = {action.pending: action for action in (ServiceAction.COMPACTION, ServiceAction.LOG_COMPACTION)}


def pending_work(snapshot: TableSnapshot) -> list[PendingWork]:
    """Oldest first."""
    return [
        PendingWork(instant.time, _ACTIONS[instant.action], pending_plan(snapshot, instant.time))
        for instant in snapshot.timeline.pending
        if instant.action in _ACTIONS
    ]


def pending_plan(snapshot: TableSnapshot, instant: str) -> CompactionPlan:
    """Raises `Conflict` when there is none any more."""
    plan = snapshot.plans.get(instant)
    if plan is None:
        raise Conflict(
            f"The plan of compaction {instant} is gone.",
            why="Its .requested file was there and cannot be found or read any more.",
            remedy="Run the command again; it plans again.",
        )
    return plan

"""What the works of the daemon give back: of a poll, of a plan, of a job.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.daemon.scheduling.demand import Demand
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.state.records import ObservedPlan
from lakeward.table.timeline.service_instants import ServiceInstant
from lakeward.table.timeline.writer_conflicts import WriterConflict


@dataclass(frozen=True, slots=True)
class PollReport:
    changed: bool
    foreign: ServiceInstant | None
    """The newest instant of another service on the table."""
    seconds: float
    writer_bytes: int = 0
    """Written by writers since the poll before."""
    writer_conflicts: tuple[WriterConflict, ...] = ()
    """Writes that were rolled back since then, and that a service of Lakeward may have failed."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    outcome: PlanOutcome
    pending: tuple[ObservedPlan, ...]
    """Plans on the timeline, Lakeward's and those of other services."""
    demand: Demand
    at: float
    seconds: float

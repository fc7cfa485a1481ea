"""What the works of the daemon give back: of a poll, of a plan, of a job.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.daemon.scheduling.events import Demand, JobResult, WorkProblem
from lakeward.daemon.status import JobFigures, StorageSample
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
    """Writes that were rolled back since then, and that a service of ours may have failed."""
    storage: StorageSample | None = None
    """A count of what holds the storage, where one was behind."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    outcome: PlanOutcome
    pending: tuple[ObservedPlan, ...]
    """Plans on the timeline, ours and those of other services."""
    demand: Demand
    at: float
    seconds: float
    storage: StorageSample | None = None
    """A count of what holds the storage, where it was time for one."""


@dataclass(frozen=True, slots=True)
class JobReport:
    result: JobResult
    figures: JobFigures = field(default_factory=JobFigures)
    instants: tuple[str, ...] = ()
    """Instants of the plans that were brought to an end."""
    problems: tuple[WorkProblem, ...] = ()
    """File groups that went wrong while the rest went on."""
    reasons: tuple[str, ...] = ()
    """Why each of these instants was ended, where a job may end several for reasons of their own."""

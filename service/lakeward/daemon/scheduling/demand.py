"""What a plan of one table would do now, for the scheduler and for those that show it.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.protocol.job_kind import JobKind
from lakeward.services.service import ServiceDemand


@dataclass(frozen=True, slots=True)
class Demand:
    """What a plan would do now."""

    operations: int
    read_bytes: int = 0
    write_bytes: int = 0
    benefit: float = 0.0
    """Benefit in any unit that is the same for all tables; what counts is the benefit per byte read and written."""
    oldest_unmerged_at: float | None = None
    """Completion time of the oldest record that no base file holds; also given where there are no operations."""
    due_by_objective_at: float | None = None
    """When the objective makes the next file group due that it does not make due now."""
    due_by_price_at: float | None = None
    """When a merge will have begun to pay that does not pay now, if nothing is written until then."""
    expired_plans: tuple[str, ...] = ()
    """Instants of pending plans that are older than allowed and that Lakeward may unschedule."""
    memory_bytes: int | None = None
    """Predicted peak of the job; None leaves it to the schedule."""
    no_work: str = ""
    """Why such a table has no work for us at all, in a few words; empty where it may have."""
    refused: Mapping[JobKind, str] = field(default_factory=dict)
    """Refused services of the table, each with the reason and the remedy, in sentences; the others go on."""
    services: Mapping[JobKind, ServiceDemand] = field(default_factory=dict)
    """What the other services have to do, by kinds of job; one that the table does not get is not there."""

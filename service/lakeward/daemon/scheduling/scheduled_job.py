"""A job as the scheduler gives it out, and while it runs.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Reason
from lakeward.table.file_system_view import GroupId


@dataclass(frozen=True, slots=True)
class Job:
    """Lakeward's promise to do one thing on one table."""

    id: str
    table: str
    service: JobKind
    excluded: Mapping[GroupId, Reason]
    """File groups that this job must not touch: `Reason.PARKED`, `Reason.PAUSED`."""
    operations: int
    """Operations that the plan saw; the job plans again under the lock."""
    read_bytes: int
    write_bytes: int
    memory_bytes: int
    deadline: float
    """When the scheduler stops waiting and cancels it."""
    started_at: float
    expired_plans: tuple[str, ...] = ()
    """For PLAN_EXPIRY."""
    cancelled: str | None = None
    """Why it was cancelled."""
    stuck: bool = False
    """It had not answered by its deadline; it keeps its place until it does."""

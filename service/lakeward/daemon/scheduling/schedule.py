"""What the scheduler needs of the settings: those of one table, and the limits that all tables share.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.config.choices import ForeignServices
from lakeward.config.window import Window
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import PARKED_SECONDS
from lakeward.services.services import NAMED

JOB_BYTES_PER_SECOND = 8 * 1024**2
"""What a job reads in a second at the least: less than half of the slowest merge in one process (benchmarks/README.md),
and a fraction of what several do."""


JOB_UNSIZED = 4
"""A job of unknown size may take so many times as long as one that reads little."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the scheduler needs of a table's settings. Durations are seconds."""

    enabled: bool = True
    group: str = "default"
    services: frozenset[JobKind] = frozenset(NAMED)
    """Recovery and plan expiry belong to compaction."""
    interval: float = 10.0
    """Between two polls."""
    replan: float = 900.0
    """An unchanged table is planned again after this, because triggers depend on the time too."""
    objective: float | None = 86400.0
    """No committed record stays unmerged longer; None: it may."""
    windows: tuple[Window, ...] = ()
    """Data jobs start while one of these is open; none given: always."""
    shadow: str | None = None
    """Why the table is planned and never changed, as a sentence; None where it may be changed."""
    foreign_services: ForeignServices = ForeignServices.SHADOW
    memory_bytes: int = 512 * 1024 * 1024
    """What a data job holds where its demand does not say."""
    verification_interval: float = 86400.0
    retry_first: float = 30.0
    retry_max: float = 1800.0
    failures_max: int = 5
    parked_for: float = PARKED_SECONDS
    poll_deadline: float = 60.0
    plan_deadline: float = 300.0
    job_deadline: float = 1800.0
    """What a job that reads next to nothing may take."""

    def job_seconds(self, read_bytes: int | None) -> float:
        """How long a job may take that reads so many bytes; None: it is not known how many."""
        if read_bytes is None:
            return JOB_UNSIZED * self.job_deadline
        return self.job_deadline + read_bytes / JOB_BYTES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Limits:
    """What all tables share."""

    jobs_max: int = 2
    memory_bytes: int = 2 * 1024 * 1024 * 1024
    io_per_hour: int | None = None
    """Bytes read and written by data jobs."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Jobs at once per named group of tables; a group that is not named has no limit of its own."""
    plans_max: int = 4
    """Plans at once. Planning is computing, and a deadline that runs while a thread is waited for means nothing."""

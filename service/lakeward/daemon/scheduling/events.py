"""What the scheduler hears and what it says: events in, instructions out, and the values that both are made of.

Events are facts that the daemon found out (a poll's result, an operator's control, the time). Instructions are
work for the daemon; the part that carries one out ends with an event that holds its work id.

    instruction   ends with
    Poll          Polled | WorkFailed
    Plan          Planned | WorkFailed
    Run           JobEnded
    Cancel        the result of the work it names, sooner than otherwise
    Record        nothing; it is a fact to remember

Touches: nothing.
Keeps:   1. `table` is a table's name, the configured one or else its base path;
         2. times are seconds since the epoch; `until` None means: until an operator says otherwise;
         3. the values of enumerations stand in the store and in metrics, so they never change their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.config.foreign_services import ForeignServices
from lakeward.config.window import Window
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult, WorkProblem
from lakeward.protocol.service import ServiceDemand
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.metadata.plan.trigger import MetadataTrigger
from lakeward.table.file_system_view import GroupId


class TableState(StrEnum):
    """States of a table; the head of `daemon/scheduling/scheduler.py` draws the way between these."""

    DISABLED = "disabled"
    WAITING = "waiting"
    RECOVERING = "recovering"
    IDLE = "idle"
    POLLING = "polling"
    PLANNING = "planning"
    QUEUED = "queued"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    PARKED = "parked"
    PAUSED = "paused"
    SHADOW = "shadow"
    REFUSED = "refused"


class ControlTargetKind(StrEnum):
    TABLE = "table"
    GROUP = "group"
    """A named group of tables."""
    FILE_GROUP = "file_group"


class FactKind(StrEnum):
    """What the scheduler decided by itself; what an operator said is remembered where it was said."""

    SCAN_FAILED = "scan-failed"
    """A poll or a plan failed; reported once, until one succeeds."""
    STUCK = "stuck"
    """A poll, a plan or a job has not answered by its deadline."""
    REFUSED = "refused"
    SERVICE_FAILED = "service-failed"
    """A rollback, a clean or an archiving failed, and the table goes on; reported once for a row of the same
    failures.
    """
    PARKED = "parked"
    """A fact to be remembered across restarts, with its file group if it names one, and handed back as `Parked`."""
    UNPARKED = "unparked"
    SHADOW = "shadow"
    PAUSE_ENDED = "pause-ended"
    """It expired by itself. The target is named in the text; `table` is empty where that is a group of tables."""


# ---- what the scheduler hears about tables and the machine

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
    services: frozenset[JobKind] = frozenset(
        {
            JobKind.ROLLBACK,
            JobKind.COMPACTION,
            JobKind.INDEX,
            JobKind.CLEAN,
            JobKind.ARCHIVE,
            JobKind.VERIFICATION,
        }
    )
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
    parked_for: float = 86400.0
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
    expired_plans: tuple[str, ...] = ()
    """Instants of pending plans that are older than allowed and that Lakeward may unschedule."""
    memory_bytes: int | None = None
    """Predicted peak of the job; None leaves it to the schedule."""
    no_work: str = ""
    """Why such a table has no work for us at all, in a few words; empty where it may have."""
    refused: Mapping[JobKind, str] = field(default_factory=dict)
    """Refused services of the table, each with the reason and the remedy, in sentences; the others go on."""
    services: Mapping[JobKind, ServiceDemand] = field(default_factory=dict)
    """What the other services of `TABLE_SERVICES` have to do; one that the table does not get is not there."""
    metadata: MetadataTrigger | None = None
    """Whether the services of the metadata table are due; None where there is none, or it is left to its writers."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    result: JobResult
    problems: tuple[WorkProblem, ...] = ()
    """Why it failed; with COMMITTED and NOTHING, the file groups that had to be left out."""


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
    expired_plans: tuple[str, ...] = ()
    """For PLAN_EXPIRY."""


@dataclass(frozen=True, slots=True)
class ControlTarget:
    """What an operator speaks about."""

    kind: ControlTargetKind
    name: str
    """The table, or the group of tables."""
    file_group: GroupId | None = None

    def __str__(self) -> str:
        if self.file_group is not None:
            partition, file_id = self.file_group
            return f"file group {file_id} of partition '{partition}'"
        return "the table" if self.kind is ControlTargetKind.TABLE else f"group {self.name}"


@dataclass(frozen=True, slots=True)
class Control:
    """A pause or a cancellation; `id` is the store's."""

    id: str
    target: ControlTarget
    reason: str
    by: str = ""
    until: float | None = None


# ---- events


@dataclass(frozen=True, slots=True)
class TableAdded:
    """A table is to be watched; of a table that is known already it is a `ScheduleChanged`."""

    table: str
    schedule: Schedule
    verified_at: float | None = None
    """When a sample was last verified, if anybody remembers."""


@dataclass(frozen=True, slots=True)
class TableRemoved:
    table: str
    why: str


@dataclass(frozen=True, slots=True)
class ScheduleChanged:
    table: str
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class LimitsChanged:
    limits: Limits


@dataclass(frozen=True, slots=True)
class LeaseGained:
    table: str


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """The lease ended, or another daemon holds it from the start: `why` is what the page shows."""

    table: str
    why: str


@dataclass(frozen=True, slots=True)
class Polled:
    table: str
    work_id: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Planned:
    table: str
    work_id: str
    demand: Demand | None


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """A poll or a plan failed."""

    table: str
    work_id: str
    problem: WorkProblem


@dataclass(frozen=True, slots=True)
class JobSized:
    """What a job has to read by what it found itself: its plans of so far, all together."""

    job_id: str
    read_bytes: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    job_id: str
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class ForeignServiceSeen:
    """Another service worked on the table: an instant that no daemon of this store wrote."""

    table: str
    instant: str
    action: str
    by: str
    """Who planned it, as far as its plan says so."""
    at: float
    """When it was requested, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Remembered from before a restart: the table, or one file group, is to be excluded."""

    table: str
    reason: str
    until: float
    file_group: GroupId | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """No new job on the target; the running one is let finish."""

    control: Control


@dataclass(frozen=True, slots=True)
class Resumed:
    """Ends pauses of exactly this target; of a table also its parking, back-off and shadow mode; of a file group also
    its parking."""

    target: ControlTarget
    foreign_seen_until: str | None = None
    """The newest foreign instant that the operator knew of: what is not newer starts no shadow mode again. None: the
    newest that the scheduler knows of."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The target's running jobs stop now. With `until`, nothing new starts before that either."""

    control: Control


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """No new work from here on."""


Event = (
    TableAdded
    | TableRemoved
    | ScheduleChanged
    | LimitsChanged
    | LeaseGained
    | LeaseEnded
    | Polled
    | Planned
    | WorkFailed
    | JobSized
    | JobEnded
    | ForeignServiceSeen
    | Parked
    | Paused
    | Resumed
    | CancelRequested
    | Tick
    | Stopping
)


# ---- instructions


@dataclass(frozen=True, slots=True)
class Poll:
    """Has the timeline changed? At most one poll or plan of a table is under way."""

    table: str
    work_id: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan on what the last poll saw, and write nothing."""

    table: str
    work_id: str
    deadline: float
    excluded: Mapping[GroupId, Reason]
    """Excluded file groups, so that decisions say PARKED and PAUSED, and the demand does not count them."""


@dataclass(frozen=True, slots=True)
class Run:
    job: Job


@dataclass(frozen=True, slots=True)
class Cancel:
    work_id: str
    """Id of a poll or a plan, or a job's id."""
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    kind: FactKind
    table: str
    text: str
    file_group: GroupId | None = None
    until: float | None = None


Instruction = Poll | Plan | Run | Cancel | Record


# ---- what the scheduler shows


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    file_group: GroupId
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class RunningJob:
    job: Job
    started_at: float
    cancelled: str | None = None
    """Why it was cancelled."""
    stuck: bool = False
    """It had not answered by its deadline; it keeps its place until it does."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps jobs from a table."""

    state: TableState
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceTrouble:
    """What prevented a service whose troubles are its own; the table goes on."""

    service: JobKind
    text: str
    """In a sentence; empty where it found nothing to do."""
    failures: int
    """In a row."""
    retry_at: float


@dataclass(frozen=True, slots=True)
class TableView:
    """One table for pages and metrics."""

    table: str
    group: str
    state: TableState
    reason: str
    """A sentence; where several things hold the table, one for each, what went wrong first."""
    holds: tuple[Hold, ...]
    """All that keeps jobs from it, what went wrong first."""
    next_action: str
    """`poll`, `plan`, `recovery`, `compaction` ..., `next try` of what was refused, or `none`."""
    next_action_at: float | None
    """None: as soon as what the reason says comes about."""
    scanned_at: float | None
    """When the last poll or plan succeeded; None: never by this daemon."""
    scan_overdue: bool
    """Not polled for two intervals although this daemon polls it."""
    planned_at: float | None
    demand: Demand | None
    objective_at: float | None
    """When the oldest unmerged record breaches the objective; None also where there is no objective."""
    failures: int
    """Failed jobs in a row."""
    retry_at: float | None
    parked_groups: tuple[ParkedGroup, ...]
    paused_groups: tuple[GroupId, ...]
    foreign_instant: str | None
    """The newest sign that another service works on the table; what a `Resumed` of it says it knows of."""
    queue_position: int | None
    """The position from 1, among all tables."""
    queued_at: float | None
    running: tuple[RunningJob, ...]
    service_troubles: tuple[ServiceTrouble, ...] = ()
    refused: Mapping[JobKind, str] = field(default_factory=dict)
    """Refused services, each with the reason, as the last plan said, or their last job; empty where the whole plan was
    refused.
    """
    unreadable: str = ""
    """Why the table could not be read when it was polled or planned last, in sentences; empty where it could."""

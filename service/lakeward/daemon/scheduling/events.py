"""What the scheduler hears and what it says: events in, instructions out.

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
         2. times are seconds since the epoch; `until` None means: until an operator says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.pauses import Control, ControlTarget
from lakeward.daemon.scheduling.schedule import Limits, Schedule
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.protocol.job_report import JobReport, WorkProblem
from lakeward.services.compaction.plan.decision import Reason
from lakeward.table.file_system_view import GroupId


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
    report: JobReport


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

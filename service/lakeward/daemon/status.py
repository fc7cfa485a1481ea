"""What the daemon shows of itself at one moment: the values behind the pages and behind every gauge.

The service's loop makes a `ServiceStatus` after each step and leaves it where the HTTP thread finds it. No reader waits
for the loop, and the loop waits for no reader.

    ServiceStatus
      |- TableStatus, one for each table
      |    |- ServedTable     where it is, and how it is to be serviced
      |    |- Outlook         its state, why, what runs and what comes next
      |    |- Backlog         what the table's files and timeline say
      |    |- JobProgress     how far a running job is, or what it waits for
      |    `- JobRecord       the job that ended last
      `- Limitation           what this daemon cannot do now, and the remedy
    TablePage               made when a request asks for a table's page
      |- GroupStatus          a file group: its backlog, and the last decision about it
      |- JobRecord with its Card, PlanStatus, EventStatus, MonthlyCost
      `- HoldStatus           what holds the table or a file group, with its reason and expiry
    JobPage                 made when a request asks for a job's page: the job with its trail

Touches: nothing.
Keeps:   1. values never change, so a page or a scrape is of one moment;
         2. times are seconds since the epoch, except where the name says monotonic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from lakeward.config.job_card import Card
from lakeward.config.short_name import find_by_short_name
from lakeward.daemon.backlog_history import BacklogHistory
from lakeward.daemon.scheduling.outlook import Outlook
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.served_table import ServedTable
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.protocol.progress import DeletedSoFar, Merged, Phase
from lakeward.services.compaction.plan.decision import Decision
from lakeward.services.service import Fact, ServiceDemand
from lakeward.state.records import (
    AttemptRecord,
    CleanerProgress,
    ExaminationRecord,
    JobRecord,
    MonthBesideHudi,
    MonthlyCost,
)
from lakeward.table.backlog import Backlog, GroupBacklog
from lakeward.table.file_system_view import GroupId


class ServicePhase(StrEnum):
    STARTING = "starting"
    """Recovering and taking leases; not ready."""
    RUNNING = "running"
    STOPPING = "stopping"
    """No new work; not ready."""


class JobEnd(StrEnum):
    """How a job ended, and where it failed of what kind that was. Stable names: they stand in metrics and logs."""

    COMMITTED = "committed"
    NOTHING = "nothing"
    TEMPORARY = "temporary"
    REFUSED = "refused"
    FAILED = "failed"
    VERIFICATION = "verification"
    CANCELLED = "cancelled"
    LOST = "lost"


GOOD_ENDS = frozenset[str]({JobEnd.COMMITTED, JobEnd.NOTHING})
"""What the store has as text compares with these, too."""


def end_of(report: JobReport) -> JobEnd:
    """The first problem of a failed job names its end."""
    if report.result is not JobResult.FAILED:
        return JobEnd(report.result.value)
    return JobEnd(report.problems[0].kind.value) if report.problems else JobEnd.FAILED


class SparkState(StrEnum):
    NOT_STARTED = "not-started"
    """No job has asked for it since the daemon started, or since it ended for being idle."""
    UP = "up"
    DOWN = "down"
    """It died, or could not be started."""


@dataclass(frozen=True, slots=True)
class Limitation:
    """What this daemon cannot do now; the page of all tables says it first."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class JobWait:
    """What a job waits for that others do: nothing of it goes on meanwhile."""

    what: str
    """`write 2026… would fail for what is published`."""
    since: float


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a running job is."""

    step: str
    """`merging on Spark, file slices: 12`."""
    merged: Merged | None = None
    deleted: DeletedSoFar | None = None
    wait: JobWait | None = None
    """None while it works."""

    def as_json(self) -> dict[str, Any]:
        """What `lakeward jobs` shows of a job that another process runs."""
        found: dict[str, Any] = {"step": self.step}
        if self.merged is not None:
            found |= {**asdict(self.merged), "phase": self.merged.doing, "sentence": self.merged.sentence}
        if self.wait is not None:
            found |= {"waiting_for": self.wait.what, "waiting_since": self.wait.since}
        return found

    @property
    def ratio(self) -> float | None:
        """The done part, from 0 to 1; None while it is unknown."""
        if self.merged is not None:
            return self.merged.ratio
        if self.deleted is not None and self.deleted.files_total:
            return min(1.0, self.deleted.files / self.deleted.files_total)
        return None


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase of a job that ended; seconds since the epoch."""

    phase: Phase
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class JobSpent:
    """What the seconds of a job went into."""

    waited_seconds: float = 0.0
    """It waited for others so long: for a lock, or for writers that would fail."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase, each second in one."""


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """What keeps services from the target, such as a pause, or a parking after failures, until it ends."""

    kind: str
    """`paused`, `parked`, `refused`, `backing-off` or `shadow`."""
    table: str
    file_group: GroupId | None
    """None: the whole table."""
    reason: str
    since: float
    """0 where nothing says."""
    until: float | None
    """When it ends; None: when an operator resumes it, or the configuration says otherwise."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class StorageSample:
    """What a table's storage was held by at one moment."""

    at: float
    bytes: Mapping[str, int]
    """The bytes of each state (`services/service.CountingService`); a sample of an older release may lack some."""

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class TableStatus:
    served: ServedTable
    """The place of the table, and how it is to be serviced."""
    outlook: Outlook
    """What the scheduler says of it: state, reason, next action, running jobs, failures, parked groups."""
    backlog: Backlog | None
    """None before the first scan, and while the table cannot be read."""
    write_amplification: float | None = None
    """Bytes written by writers and by us, over those written by writers; None before anybody could say."""
    progress: Mapping[str, JobProgress] = field(default_factory=dict)
    """How far each running job is, by its id."""
    last_job: JobRecord | None = None
    """The one that ended last."""
    last_success_at: Mapping[JobKind, float] = field(default_factory=dict)
    """When a job of each service last ended well."""
    storage: StorageSample | None = None
    """The newest count; None before the first."""
    remembered: Mapping[JobKind, Any] = field(default_factory=dict)
    """What each service remembers of the table."""
    examination: ExaminationRecord | None = None
    """The doctor's newest, which says nothing before the first; None where the store has not said it."""
    history: BacklogHistory = field(default_factory=BacklogHistory)
    """How the backlog went since this daemon watches the table."""

    @property
    def name(self) -> str:
        return self.served.name

    @property
    def running(self) -> tuple[Job, ...]:
        return self.outlook.running

    @property
    def demands(self) -> Mapping[JobKind, ServiceDemand]:
        """What services beside compaction have to do, as of the newest plan."""
        return {} if self.outlook.demand is None else self.outlook.demand.services

    @property
    def title(self) -> str:
        """The name that people read: a short one, where it has one."""
        return self.served.shown_as or self.name

    @property
    def state(self) -> TableState:
        return self.outlook.state

    @property
    def no_work(self) -> str:
        """Why there is no work for us on such a table; empty where there may be."""
        return self.outlook.demand.no_work if self.outlook.demand is not None else ""

    @property
    def objective(self) -> float | None:
        """Seconds that a record may stay unmerged; None where it may for ever, and in shadow: where nothing may be
        written, nothing is promised. The one definition behind pages, metrics and alerts."""
        outlook, shadow = self.outlook, TableState.SHADOW
        if outlook.state is shadow or (outlook.holds and any(hold.state is shadow for hold in outlook.holds)):
            return None
        return self.served.settings.objective_kept

    @property
    def age_unknown(self) -> str:
        """Why it is not known how old the oldest unmerged record is, in a few words; empty where it is, and where
        everything is merged."""
        if self.backlog is None:
            return "cannot be read" if self.outlook.unreadable else "not read yet"
        if self.no_work or self.backlog.oldest_unmerged_at is not None:
            return ""
        if self.outlook.unreadable:
            return "cannot be read"
        if self.backlog.damaged_files:
            return "not known: files are damaged"
        if self.state is TableState.REFUSED or JobKind.COMPACTION in self.outlook.refused:
            return "not known: refused"
        # Where the table's time zone is not known, or an instant's name is no time.
        return "not known" if self.backlog.log_files or self.backlog.superseded_log_files else ""

    def oldest_unmerged_age(self, now: float) -> float | None:
        """Seconds; None when every committed record is merged, that is not Lakeward's to do, or it is not known."""
        if self.no_work or self.backlog is None or self.backlog.oldest_unmerged_at is None:
            return None
        return max(0.0, now - self.backlog.oldest_unmerged_at)

    def is_breached(self, now: float) -> bool:
        """A committed record stays unmerged for longer than the objective allows."""
        return self.breach_seconds(now) > 0

    def breach_seconds(self, now: float) -> float:
        """Seconds by which the objective is missed; 0 where it is kept, or there is none."""
        age = self.oldest_unmerged_age(now)
        objective = None if age is None else self.objective
        return 0.0 if age is None or objective is None else max(0.0, age - objective)


@dataclass(frozen=True, slots=True)
class ConfigStatus:
    path: str
    loaded_at: float
    """When the settings that are in force were read."""
    problem: str = ""
    """Why the newest attempt to reload them failed; empty when it did not."""


@dataclass(frozen=True, slots=True)
class SparkStatus:
    state: SparkState = SparkState.NOT_STARTED
    where: str = ""
    """Master or Connect address, without credentials."""
    ui: str = ""
    """The address of its pages; empty where it has none, or they are not known."""
    where_work_runs: str = ""
    """A sentence: which jobs run on it and which in processes of this machine, and what says so."""


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    holder: str
    """The name of this daemon among those that share a store."""
    held: int
    daemons: int
    """Daemons that are alive, this one included."""
    leader: bool
    """This daemon may service tables now: it can reach the store and is one of those among which they are shared."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    name: str
    version: str
    phase: ServicePhase
    at: float
    """When this status was made."""
    at_monotonic: float
    started_at: float
    tables: tuple[TableStatus, ...]
    limitations: tuple[Limitation, ...]
    config: ConfigStatus
    lease: LeaseStatus
    jobs_max: int
    memory_bytes: int
    """Permits for all running operations together."""
    memory_reserved_bytes: int = 0
    spark: SparkStatus = field(default_factory=SparkStatus)
    cores: int = 1
    """How many this process may use."""

    @property
    def is_ready(self) -> bool:
        """Tables are serviced: the daemon has begun, does not end, and has its store."""
        return self.phase is ServicePhase.RUNNING and self.lease.leader

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for table in self.tables for job in table.running)

    @property
    def waiting(self) -> int:
        """How many of the running jobs wait for others."""
        return sum(progress.wait is not None for table in self.tables for progress in table.progress.values())

    def table(self, name: str) -> TableStatus | None:
        """The table of that name or short name; None where there is none, or there are several."""
        if (shown := [table for table in self.tables if table.title == name]) and len(shown) == 1:
            return shown[0]
        found = find_by_short_name(name, {table.name: table.served.base_path for table in self.tables})
        return next((table for table in self.tables if (table.name,) == found), None)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A file group, and what was decided about it last."""

    partition_path: str
    file_id: str
    slices: int
    backlog: GroupBacklog
    """What readers of the group read, in figures."""
    decision: Decision | None
    """None for a group that no plan has seen yet."""
    hold: HoldStatus | None = None


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """A plan on the timeline that is not carried out yet."""

    instant: str
    action: str
    requested_at: float | None
    """None where nothing says."""
    operations: int
    planned_by: str
    """`us`, or what is known of the other."""


@dataclass(frozen=True, slots=True)
class EventStatus:
    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class InstantMark:
    """An instant of the timeline, in the furthest state that it reached."""

    time: str
    action: str
    state: str
    """`requested`, `inflight` or `completed`."""
    at: float
    is_own: bool
    """A job that the store knows made it."""


@dataclass(frozen=True, slots=True)
class DayTotal:
    """What the jobs on a table took that ended on a day."""

    at: float
    """When the day began, in UTC."""
    jobs: int
    read_bytes: int
    written_bytes: int
    core_seconds: float
    saved_seconds_a_day: float
    """What readers save in each day that follows, at the read rates that were assumed."""


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting that is in force."""

    text: str
    """`interval = "10s"`"""
    where: str
    """The place of the configuration that says so, or `default`."""


@dataclass(frozen=True, slots=True)
class MonthTotal:
    """What all jobs on a table took that ended in a month."""

    month: str
    jobs: int
    failed: int
    seconds: float
    waited_seconds: float
    read_bytes: int
    written_bytes: int
    core_seconds: float | None
    """None where no job says it."""

    @classmethod
    def of(cls, months: Sequence[MonthlyCost]) -> MonthTotal | None:
        """The sum of the newest month; None where there is none.

        Args:
            months: the newest first.
        """
        of = [month for month in months if month.month == months[0].month]
        if not of:
            return None
        known = [month.actual_seconds for month in of if month.actual_seconds is not None]
        return cls(
            of[0].month,
            jobs=sum(month.jobs for month in of),
            failed=sum(month.failed for month in of),
            seconds=sum(month.seconds for month in of),
            waited_seconds=sum(month.waited_seconds for month in of),
            read_bytes=sum(month.read_bytes for month in of),
            written_bytes=sum(month.written_bytes for month in of),
            core_seconds=sum(known) if known else None,
        )


@dataclass(frozen=True, slots=True)
class TablePage:
    """What a table's own page shows."""

    table: TableStatus
    at: float
    facts: tuple[Fact, ...]
    plans: tuple[PlanStatus, ...]
    groups: tuple[GroupStatus, ...]
    ended: tuple[JobRecord, ...]
    """Jobs that have ended, newest first."""
    events: tuple[EventStatus, ...]
    """Newest first."""
    holds: tuple[HoldStatus, ...]
    planned_at: float | None = None
    """When the decisions were taken."""
    storage: tuple[StorageSample, ...] = ()
    """Oldest first."""
    cards: Mapping[str, Card] = field(default_factory=dict)
    """Cards of the jobs that have ended, by their ids."""
    months: tuple[MonthlyCost, ...] = ()
    """The newest first."""
    beside_hudi: tuple[MonthBesideHudi, ...] = ()
    """The same months beside Hudi's default, the newest first."""
    examination: ExaminationRecord | None = None
    """The doctor's newest, by whichever daemon; None before the first."""
    timeline: tuple[InstantMark, ...] = ()
    """The newest instants, oldest first."""
    days: tuple[DayTotal, ...] = ()
    """Days of the last month on which a job ended, oldest first."""
    settings: tuple[SettingLine, ...] = ()
    """All that are in force."""
    cores: int = 1
    """How many this process may use."""

    @property
    def last_jobs(self) -> tuple[JobRecord, ...]:
        """The newest one of each service that has ended, the newest first."""
        found: dict[str, JobRecord] = {}
        for job in self.ended:
            found.setdefault(job.service, job)
        return tuple(found.values())

    @property
    def newest_month(self) -> MonthTotal | None:
        """None where no job has ended in the months that are shown."""
        return MonthTotal.of(self.months)


@dataclass(frozen=True, slots=True)
class JobPage:
    """What a job's own page shows."""

    record: JobRecord
    at: float
    table: TableStatus | None
    """None where this daemon does not watch its table any more."""
    running: Job | None
    """The job as this daemon runs it; None where it has ended, or another daemon runs it."""
    progress: JobProgress | None
    """How far it is; None where it has ended, or nothing says."""
    card: Card | None
    """None while it runs, and for one that another release ended."""
    attempts: tuple[AttemptRecord, ...] = ()
    """Oldest first."""
    events: tuple[EventStatus, ...] = ()
    """Events that name the job, oldest first."""
    cleans: tuple[CleanerProgress, ...] = ()
    """How far its deletions are."""
    chosen: tuple[Decision, ...] = ()
    """What was chosen for a compaction when it began, the greatest first; it plans again under the lock."""
    chosen_total: int = 0
    spark: SparkStatus | None = None
    """The session; None where the job does not run here."""

    @property
    def is_running(self) -> bool:
        return self.record.ended_at is None

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return max(0.0, (self.at if self.record.ended_at is None else self.record.ended_at) - self.record.began_at)


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """Result of a request to reload."""

    applied: bool
    problems: tuple[str, ...] = ()
    """Why not, each with its place in the file; the old settings stay in force."""

"""What the scheduler remembers of one table, and the questions that its own facts answer.

A table has no state variable that could contradict the facts: what keeps jobs from it is `hold`, what it would do
next is `wanted`, and the state that is shown follows from both (`daemon/scheduling/outlook.py`).

Touches: nothing; time is handed in.
Keeps:   1. at most one poll or plan is under way, and at most one job;
         2. no time but a running job's deadline lies further ahead than the setting it was made from, also after the
            clock was set back;
         3. a group is parked with a reason and an end, and after the end one more failure parks it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from lakeward.base.quantities import format_time
from lakeward.config.choices import ForeignServices
from lakeward.daemon.scheduling.admission import Candidate
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import ForeignServiceSeen
from lakeward.daemon.scheduling.job_traits import TRAITS
from lakeward.daemon.scheduling.pauses import Control
from lakeward.daemon.scheduling.schedule import Schedule
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import Hold, ParkedGroup, TableState
from lakeward.protocol.job_kind import JobKind
from lakeward.services.service import ServiceDemand
from lakeward.services.services import ROUND
from lakeward.table.file_system_view import GroupId

_FLOOR_INTERVALS = 10
_FLOOR_OBJECTIVE = 0.5
_FLOOR_SECONDS_MAX = 1800.0
"""Waiting longer than ten intervals, and than half the objective or half an hour, a table goes ahead of all that wait
less long."""

_METADATA_SERVICES = (JobKind.METADATA_CLEAN, JobKind.METADATA_COMPACTION)
"""In this order what a compaction replaces stays for a whole round, as with Hudi, whose cleaner waits after one."""

HELD_ALONE = frozenset({JobKind.PLAN_EXPIRY, JobKind.COMPACTION, JobKind.VERIFICATION})
"""What is held alone, so that the others go on, where a job of it is refused though the plan had not said so.
`OWN_TROUBLES` keep more to themselves, and nothing is begun before a recovery."""

OWN_TROUBLES = frozenset({*_METADATA_SERVICES, *ROUND} - {JobKind.COMPACTION})
"""What fails here holds nothing else back: rows are merged also where cleaning is refused."""


class Parking:
    """The file groups of one table that failed, and those that are excluded for a while because of it.

    counted --(failures_max in a row, or a failed verification)--> parked --(its time is over)--> counted, one try
       ^------------------ a job without it among the problems: forgotten ---------------------------+
    """

    def __init__(self) -> None:
        self.parked: dict[GroupId, ParkedGroup] = {}
        self._failures: dict[GroupId, int] = {}

    def count(self, group: GroupId) -> int:
        """One more failure; returns how many in a row."""
        self._failures[group] = self._failures.get(group, 0) + 1
        return self._failures[group]

    def forgive_all_but(self, groups: Collection[GroupId]) -> None:
        """A job went well, apart from these."""
        self._failures = {group: count for group, count in self._failures.items() if group in groups}

    def park(self, group: GroupId, reason: str, until: float) -> None:
        self.parked[group] = ParkedGroup(group, reason, until)

    def unpark(self, group: GroupId) -> bool:
        """An operator's word: the group starts without blame. False where it was not parked."""
        self._failures.pop(group, None)
        return self.parked.pop(group, None) is not None

    def expire(self, now: float, *, failures_max: int) -> list[ParkedGroup]:
        """Let those go whose time is over, and return them."""
        over = [group for group in self.parked.values() if group.until <= now]
        for group in over:
            del self.parked[group.file_group]
            self._failures[group.file_group] = failures_max - 1
        return over

    def next_expiry(self) -> float | None:
        return min((group.until for group in self.parked.values()), default=None)


@dataclass(frozen=True, slots=True)
class Scan:
    """A poll or a plan under way."""

    work_id: str
    is_plan: bool
    started_at: float
    deadline: float
    is_stale: bool = False
    """A job has ended since it began, so it may have seen the table before."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the last try did not do, and when the next one is."""

    state: TableState
    """BACKING_OFF, REFUSED or PARKED."""
    text: str
    until: float
    sooner_at: float | None = None
    """When at the earliest, once the timeline has changed; None: that changes nothing."""
    is_failure: bool = True
    """False after a job that was cancelled."""


@dataclass(frozen=True, slots=True)
class ServiceRetry:
    """A service whose troubles are its own is tried again, while the table goes on."""

    at: float
    """Not before this."""
    failures: int
    """How often in a row it was refused, or found nothing to do."""
    text: str = ""
    """Why it was refused, in a sentence."""


@dataclass(slots=True)
class TrackedTable:
    name: str
    schedule: Schedule
    verify_at: float = inf

    lease_text: str = "No lease is held yet."
    leased_at: float | None = None
    recovered: bool = False

    scan: Scan | None = None
    scanned_at: float | None = None
    poll_at: float = inf
    plan_wanted: bool = True
    planned_at: float | None = None
    replan_at: float = inf
    scan_failures: int = 0
    scan_trouble: Trouble | None = None
    scan_trouble_of_plan: bool = False

    demand: Demand | None = None
    queued_at: float | None = None
    """The time since which a job of the table could run, as far as the table is concerned."""
    expiry_tried: tuple[str, ...] = ()
    """Expired plans that a job has already scanned; compaction is not kept waiting for them twice."""
    service_retries: dict[JobKind, ServiceRetry] = field(default_factory=dict)
    """The services of `OWN_TROUBLES` that were refused last time."""
    served: JobKind | None = None
    """The service of `ROUND` that ran last, while there is something to do: the next ones come first, so that
    a table which always has something to compact is cleaned all the same."""
    metadata_is_cleaned: bool = False
    """A clean has scanned the metadata table since its services became due."""
    running: Job | None = None
    retries: int = 0
    """Jobs in a row that got nothing done; what back-off grows with."""
    failures: int = 0
    """Jobs in a row that failed for the table's sake; what the circuit breaker counts."""
    job_trouble: Trouble | None = None
    refusal_recorded: str = ""
    refused: Mapping[JobKind, str] = field(default_factory=dict)
    """Why single services are refused, as the last plan said; it stays until the next one, whatever job ends."""
    refused_jobs: dict[JobKind, Trouble] = field(default_factory=dict)
    """Services of `HELD_ALONE` of which the last job was refused."""
    parking: Parking = field(default_factory=Parking)

    foreign: ForeignServiceSeen | None = None
    """The newest sign that another service works on the table."""

    wake_at: float = inf
    """The entry of this table in the scheduler's heap that counts."""
    _window_open: bool = True
    _window_edge: float = -inf

    @property
    def is_watched(self) -> bool:
        """This daemon polls the table."""
        return self.schedule.enabled and self.leased_at is not None

    def holds(self, pause: Control | None) -> tuple[Hold, ...]:
        """Everything that keeps jobs from the table, what went wrong first; scans go on in all states but the first
        two, which come alone."""
        if not self.schedule.enabled:
            return (Hold(TableState.DISABLED, "It is disabled in the configuration."),)
        if self.leased_at is None:
            return (Hold(TableState.WAITING, self.lease_text),)
        troubles = [trouble for trouble in (self.scan_trouble, self.job_trouble) if trouble is not None]
        if self.refused_jobs and self.schedule.services <= self.all_refused.keys():
            troubles += self.refused_jobs.values()
        troubles.sort(key=lambda trouble: _ERRORS.index(trouble.state))
        holds = [_hold_of(trouble) for trouble in troubles if trouble.is_failure]
        if pause is not None:
            by = f" by {pause.by}" if pause.by else ""
            end = "it is resumed" if pause.until is None else format_time(pause.until)
            holds.append(Hold(TableState.PAUSED, f"Paused{by} until {end}: {pause.reason}", pause.until))
        if self.schedule.shadow is not None and not self.is_quiet:
            holds.append(Hold(TableState.SHADOW, self.schedule.shadow))
        if self.is_foreign:
            holds.append(Hold(TableState.SHADOW, self.foreign_text))
        return (*holds, *(_hold_of(trouble) for trouble in troubles if not trouble.is_failure))

    @property
    def unreadable(self) -> str:
        """Why the last poll or plan of a table of this daemon could not read it; empty where it could. A plan that is
        refused has read the table; a poll that is has not."""
        trouble = self.scan_trouble
        if trouble is None or not self.is_watched:
            return ""
        return "" if self.scan_trouble_of_plan and trouble.state is TableState.REFUSED else trouble.text

    @property
    def all_refused(self) -> Mapping[JobKind, str]:
        """Why single services are refused, as plans and jobs said."""
        return {**{kind: trouble.text for kind, trouble in self.refused_jobs.items()}, **self.refused}

    @property
    def no_work(self) -> str:
        """Why there is nothing to do on such a table, as its last plan said; empty where there may be."""
        return self.demand.no_work if self.demand is not None else ""

    @property
    def is_quiet(self) -> bool:
        """There is nothing to do on such a table, for no service."""
        return bool(self.no_work) and not any(each.is_due for each in self._services.values())

    @property
    def _services(self) -> Mapping[JobKind, ServiceDemand]:
        return {} if self.demand is None else self.demand.services

    @property
    def is_foreign(self) -> bool:
        """Another service works on the table and the operator has not said that both may."""
        is_shared = self.schedule.foreign_services is ForeignServices.SHARE
        return self.foreign is not None and not is_shared and not self.no_work

    @property
    def foreign_text(self) -> str:
        assert self.foreign is not None
        seen = self.foreign
        return (
            f"Another service works on the table: {seen.by} requested {seen.action} {seen.instant} at "
            f"{format_time(seen.at)}. Lakeward plans the table and does not change it; stop the other service and "
            "resume the table, or set foreign_services to share."
        )

    def wanted(self, now: float) -> JobKind | None:
        """The job that the table needs next."""
        compacts = JobKind.COMPACTION in self.schedule.services
        if compacts and not self.recovered:
            return JobKind.RECOVERY
        if self._is_due(JobKind.ROLLBACK, now):
            return JobKind.ROLLBACK
        if self.no_work:
            return self._next_in_round(now)
        # A verification gives way to everything, also to a plan that is about to be made, but not for ever: a table
        # that always has something to compact would never be verified.
        verification = self._may_run(JobKind.VERIFICATION) and self.verify_at <= now
        if verification and self.verify_at + self.schedule.verification_interval <= now:
            return JobKind.VERIFICATION
        if compacts and self.demand is not None:
            expired = self.demand.expired_plans
            if expired and expired != self.expiry_tried and JobKind.PLAN_EXPIRY not in self.refused_jobs:
                return JobKind.PLAN_EXPIRY
            # Before a compaction, whose commit is one more in the metadata table.
            for service in _METADATA_SERVICES:
                if self._metadata_is_due(service) and self._retry_at(service) <= now:
                    return service
        if (service_due := self._next_in_round(now)) is not None:
            return service_due
        is_planned = self.plan_wanted or (self.scan is not None and self.scan.is_plan)
        return JobKind.VERIFICATION if verification and not is_planned else None

    def _metadata_is_due(self, service: JobKind) -> bool:
        return self._has_demand(service) and not (service is JobKind.METADATA_CLEAN and self.metadata_is_cleaned)

    def _next_in_round(self, now: float) -> JobKind | None:
        """What is due after what ran last; what waits for a window comes after what does not."""
        begin = 0 if self.served is None else ROUND.index(self.served) + 1
        due = [each for each in (*ROUND[begin:], *ROUND[:begin]) if self._is_due(each, now)]
        free = [each for each in due if not TRAITS[each].waits_for_window or self.window_is_open(now)]
        return next(iter((*free, *due)), None)

    def _is_due(self, service: JobKind, now: float) -> bool:
        """One of `ROUND` has something to do, and may try."""
        if not self._may_run(service):
            return False
        if service is JobKind.COMPACTION:
            return not self.no_work and self.demand is not None and bool(self.demand.operations)
        return self._has_demand(service) and self._retry_at(service) <= now

    def _may_run(self, service: JobKind) -> bool:
        return service in self.schedule.services and service not in self.all_refused

    def _has_demand(self, service: JobKind) -> bool:
        return (demand := self._services.get(service)) is not None and demand.is_due

    def _retry_at(self, service: JobKind) -> float:
        retry = self.service_retries.get(service)
        return -inf if retry is None else retry.at

    def candidate(self, now: float) -> Candidate | None:
        """The job that could run now as far as the table itself is concerned, nothing holding it."""
        service = self.wanted(now)
        if service is None or (TRAITS[service].waits_for_window and not self.window_is_open(now)):
            return None
        schedule, demand = self.schedule, self.demand
        queued_at = now if self.queued_at is None else self.queued_at
        half = _FLOOR_SECONDS_MAX if schedule.objective is None else _FLOOR_OBJECTIVE * schedule.objective
        floor = max(_FLOOR_INTERVALS * schedule.interval, min(half, _FLOOR_SECONDS_MAX))
        if service is not JobKind.COMPACTION or demand is None:
            asked = self._services.get(service, ServiceDemand(False))
            return Candidate(
                table=self.name,
                group=schedule.group,
                service=service,
                queued_at=queued_at,
                floor_at=queued_at + floor,
                read_bytes=asked.read_bytes,
                write_bytes=asked.write_bytes,
                memory_bytes=schedule.memory_bytes if TRAITS[service].takes_memory else 0,
                deadline=self.objective_at or inf,
            )
        return Candidate(
            table=self.name,
            group=schedule.group,
            service=service,
            queued_at=queued_at,
            floor_at=queued_at + floor,
            operations=demand.operations,
            read_bytes=demand.read_bytes,
            write_bytes=demand.write_bytes,
            memory_bytes=schedule.memory_bytes if demand.memory_bytes is None else demand.memory_bytes,
            deadline=self.objective_at or inf,
            benefit=demand.benefit,
        )

    def keep_demand(self, demand: Demand | None, now: float) -> None:
        """A plan has said what the table needs."""
        self.demand, self.planned_at = demand, now
        self.refused = {} if demand is None else demand.refused
        self.replan_at = self.next_plan_at(now)
        if not self._has_demand(JobKind.METADATA_COMPACTION):
            self.metadata_is_cleaned = False  # this round is over, by us or another
        for service in ROUND:
            if service in self.service_retries and not self._has_demand(service):
                del self.service_retries[service]  # it was done, by us or another
        if self._next_in_round(now) is None:
            self.served = None

    @property
    def objective_at(self) -> float | None:
        """When the oldest unmerged record has been unmerged for too long."""
        oldest = self.demand.oldest_unmerged_at if self.demand else None
        objective = self.schedule.objective
        return None if oldest is None or objective is None else oldest + objective

    def next_plan_at(self, now: float) -> float:
        """When a plan that was made now is out of date even if nothing changes."""
        dues = [each.due_at for each in self._services.values()]
        if self.demand is not None:
            dues += [self.demand.due_by_objective_at, self.demand.due_by_price_at]
        return min([now + self.schedule.replan, *(due for due in dues if due is not None)])

    def window_is_open(self, now: float) -> bool:
        """Computed once for every opening and closing, because a queue asks often."""
        windows = self.schedule.windows
        if not windows:
            return True
        if now >= self._window_edge:
            self._window_open = any(window.is_open(now) for window in windows)
            edges = [window.closes_at(now) for window in windows if window.is_open(now)]
            self._window_edge = min(edges) if edges else min(window.opens_at(now) for window in windows)
        return self._window_open

    def window_edge(self, now: float) -> float | None:
        """When the answer of `window_is_open` may change; None: never."""
        if not self.schedule.windows:
            return None
        self.window_is_open(now)
        return self._window_edge

    def next_timer(self, now: float, *, is_held: bool, stopping: bool) -> float:
        """When the table has to be looked after again although nothing was heard."""
        timers = [self.parking.next_expiry() or inf]
        if self.scan is not None:
            timers.append(self.scan.deadline)
        elif self.is_watched and not stopping:
            timers.append(self.poll_at)
        if self.job_trouble is not None:
            timers.append(self.job_trouble.until)
        timers += [trouble.until for trouble in self.refused_jobs.values()]
        if self.running is not None:
            timers.append(inf if self.running.stuck else self.running.deadline)
        elif not is_held and not stopping:
            verifications = (self.verify_at, self.verify_at + self.schedule.verification_interval)
            timers += [at for at in verifications if at > now]
            retries = [self._retry_at(each) for each in _METADATA_SERVICES if self._metadata_is_due(each)]
            retries += [self._retry_at(each) for each in ROUND if self._has_demand(each)]
            timers += [at for at in retries if at > now]
            wanted = self.wanted(now)
            if wanted is not None and TRAITS[wanted].waits_for_window:
                timers.append(self.window_edge(now) or inf)
        return min(timers)

    def change_schedule(self, schedule: Schedule, now: float) -> None:
        if self.leased_at is not None and not self.schedule.enabled:
            # While it was disabled it was not this daemon's to poll, so it is not overdue.
            self.leased_at = now
        self.schedule = schedule
        self.plan_wanted = True
        self.no_later_than_settings(now)

    def no_later_than_settings(self, now: float) -> None:
        """After the clock was set back, or a setting shortened, no time lies further ahead than it could."""
        schedule = self.schedule
        if self.poll_at < inf:
            ahead = schedule.retry_max if self.scan_trouble else schedule.interval
            self.poll_at = min(self.poll_at, now + ahead)
        if self.replan_at < inf:
            self.replan_at = min(self.replan_at, now + schedule.replan)
        if self.verify_at < inf:
            self.verify_at = min(self.verify_at, now + schedule.verification_interval)
        for service, retry in self.service_retries.items():
            self.service_retries[service] = replace(retry, at=min(retry.at, now + schedule.retry_max))
        if self.queued_at is not None:
            self.queued_at = min(self.queued_at, now)
        if self.leased_at is not None:
            self.leased_at = min(self.leased_at, now)
        if self.scanned_at is not None:
            self.scanned_at = min(self.scanned_at, now)
        if self.scan is not None:
            timeout = schedule.plan_deadline if self.scan.is_plan else schedule.poll_deadline
            self.scan = replace(self.scan, deadline=min(self.scan.deadline, now + timeout))
        self.scan_trouble = _no_later(self.scan_trouble, now + schedule.retry_max)
        ahead = schedule.parked_for if _is_parked(self.job_trouble) else schedule.retry_max
        self.job_trouble = _no_later(self.job_trouble, now + ahead)
        self.refused_jobs = {
            kind: trouble
            for kind, each in self.refused_jobs.items()
            if (trouble := _no_later(each, now + schedule.retry_max)) is not None
        }
        self._window_edge = -inf


_ERRORS = (TableState.REFUSED, TableState.PARKED, TableState.BACKING_OFF)
"""The states of troubles, the longest first."""


def _hold_of(trouble: Trouble) -> Hold:
    match trouble.state:
        case TableState.REFUSED:
            words = "Refused"
        case TableState.PARKED:
            words = f"Parked until {format_time(trouble.until)}"
        case _:
            words = f"Tried again at {format_time(trouble.until)}"
    return Hold(trouble.state, f"{words}: {trouble.text}", trouble.until)


def _is_parked(trouble: Trouble | None) -> bool:
    return trouble is not None and trouble.state is TableState.PARKED


def _no_later(trouble: Trouble | None, latest: float) -> Trouble | None:
    if trouble is None or trouble.until <= latest:
        return trouble
    return replace(trouble, until=latest)

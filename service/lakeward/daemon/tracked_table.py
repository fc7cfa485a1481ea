"""What the scheduler remembers of one table, and the questions that its own facts answer.

A table has no state variable that could contradict the facts: what keeps jobs from it is `hold`, what it would do
next is `wanted`, and the state that is shown follows from both (`daemon/table_view.py`).

Touches: nothing; time is handed in.
Keeps:   1. at most one poll or plan is under way, and at most one job;
         2. no time but a running job's deadline lies further ahead than the setting it was made from, also after the
            clock was set back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from lakeward.daemon.admission import Candidate
from lakeward.daemon.events import (
    Control,
    ForeignServices,
    RunningJob,
    Schedule,
    Service,
    TableState,
    Wish,
)
from lakeward.daemon.parking import Parking
from lakeward.quantities import spell_time

_FLOOR_INTERVALS = 10
_FLOOR_OBJECTIVE = 0.5
"""Waiting longer than half the objective and ten intervals, a table goes ahead of all that wait less long."""

_NEAR_OBJECTIVE = 0.9
"""After this part of the objective the oldest unmerged record is near its deadline, and the table is planned again."""

_DATA_SERVICES = frozenset({Service.COMPACTION, Service.VERIFICATION})
"""What windows are about. Recovery and plan expiry move no data and free what is stuck, so they do not wait for one;
nor does the metadata table, which a writer would compact instead whatever the window."""

_NEED_MEMORY = frozenset({Service.METADATA, Service.VERIFICATION})
"""What merges, beside compaction, whose plan says how much it needs."""


@dataclass(frozen=True, slots=True)
class Look:
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


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps jobs from a table."""

    state: TableState
    reason: str
    until: float | None = None


@dataclass(slots=True)
class TrackedTable:
    name: str
    schedule: Schedule
    verify_at: float = inf

    lease_text: str = "No lease is held yet."
    leased_at: float | None = None
    recovered: bool = False

    look: Look | None = None
    looked_at: float | None = None
    poll_at: float = inf
    plan_wanted: bool = True
    planned_at: float | None = None
    replan_at: float = inf
    look_failures: int = 0
    look_trouble: Trouble | None = None
    look_trouble_of_plan: bool = False

    wish: Wish | None = None
    queued_at: float | None = None
    """Since when a job of the table could run, as far as the table is concerned."""
    expiry_tried: tuple[str, ...] = ()
    """Expired plans that a job has already looked at; compaction is not kept waiting for them twice."""
    metadata_at: float = -inf
    """Not before this is the metadata table tried again, against which something stood last time."""
    metadata_setbacks: int = 0
    """How often in a row something stood against it."""
    running: RunningJob | None = None
    setbacks: int = 0
    """Jobs in a row that got nothing done; what back-off grows with."""
    failures: int = 0
    """Jobs in a row that failed for the table's sake; what the circuit breaker counts."""
    job_trouble: Trouble | None = None
    refusal_recorded: str = ""
    parking: Parking = field(default_factory=Parking)

    foreign: tuple[str, str] | None = None
    """Instant and action of the newest sign that somebody else services the table."""

    wake_at: float = inf
    """The entry of this table in the scheduler's heap that counts."""
    _window_open: bool = True
    _window_edge: float = -inf

    @property
    def is_watched(self) -> bool:
        """It is ours to look at."""
        return self.schedule.enabled and self.leased_at is not None

    def hold(self, pause: Control | None) -> Hold | None:
        """The first thing that keeps jobs from the table; looking goes on in all states but the first two."""
        if not self.schedule.enabled:
            return Hold(TableState.DISABLED, "It is disabled in the configuration.")
        if self.leased_at is None:
            return Hold(TableState.WAITING, self.lease_text)
        troubles = [trouble for trouble in (self.look_trouble, self.job_trouble) if trouble is not None]
        for trouble in troubles:
            if trouble.state is TableState.REFUSED:
                return Hold(trouble.state, f"Refused: {trouble.text}", trouble.until)
        if pause is not None:
            by = f" by {pause.by}" if pause.by else ""
            end = "it is resumed" if pause.until is None else spell_time(pause.until)
            return Hold(TableState.PAUSED, f"Paused{by} until {end}: {pause.reason}", pause.until)
        if self.schedule.shadow is not None:
            return Hold(TableState.SHADOW, self.schedule.shadow)
        if self.is_foreign:
            return Hold(TableState.SHADOW, self.foreign_text)
        for state, words in ((TableState.PARKED, "Parked"), (TableState.BACKING_OFF, "Tried again")):
            for trouble in troubles:
                if trouble.state is state:
                    joint = "until" if state is TableState.PARKED else "at"
                    return Hold(state, f"{words} {joint} {spell_time(trouble.until)}: {trouble.text}", trouble.until)
        return None

    @property
    def is_foreign(self) -> bool:
        """Somebody else services the table and the operator has not said that both may."""
        return self.foreign is not None and self.schedule.foreign_services is ForeignServices.SHADOW

    @property
    def foreign_text(self) -> str:
        assert self.foreign is not None
        instant, action = self.foreign
        return (
            f"Somebody else services the table ({action} {instant} is not ours), so it is planned and not changed; "
            "stop the other service and resume the table, or set foreign_services to share."
        )

    def wanted(self, now: float) -> Service | None:
        """The job that the table needs next."""
        compacts = Service.COMPACTION in self.schedule.services
        if compacts and not self.recovered:
            return Service.RECOVERY
        # A verification gives way to everything, also to a plan that is about to be made, but not for ever: a table
        # that always has something to compact would never be verified.
        verification = Service.VERIFICATION in self.schedule.services and self.verify_at <= now
        if verification and self.verify_at + self.schedule.verification_interval <= now:
            return Service.VERIFICATION
        if compacts and self.wish is not None:
            if self.wish.expired_plans and self.wish.expired_plans != self.expiry_tried:
                return Service.PLAN_EXPIRY
            # Before a compaction, whose commit is one more in the metadata table.
            if self._metadata_is_due and self.metadata_at <= now:
                return Service.METADATA
            if self.wish.operations:
                return Service.COMPACTION
        is_planned = self.plan_wanted or (self.look is not None and self.look.is_plan)
        return Service.VERIFICATION if verification and not is_planned else None

    @property
    def _metadata_is_due(self) -> bool:
        return self.wish is not None and self.wish.metadata is not None and self.wish.metadata.is_due

    def candidate(self, now: float) -> Candidate | None:
        """The job that could run now as far as the table itself is concerned, nothing holding it."""
        service = self.wanted(now)
        if service is None or (service in _DATA_SERVICES and not self.window_is_open(now)):
            return None
        schedule, wish = self.schedule, self.wish
        queued_at = now if self.queued_at is None else self.queued_at
        floor = max(_FLOOR_INTERVALS * schedule.interval, _FLOOR_OBJECTIVE * schedule.objective)
        if service is not Service.COMPACTION or wish is None:
            return Candidate(
                table=self.name,
                group=schedule.group,
                service=service,
                queued_at=queued_at,
                floor_at=queued_at + floor,
                memory_bytes=schedule.memory_bytes if service in _NEED_MEMORY else 0,
                deadline=self.objective_at or inf,
            )
        return Candidate(
            table=self.name,
            group=schedule.group,
            service=service,
            queued_at=queued_at,
            floor_at=queued_at + floor,
            operations=wish.operations,
            read_bytes=wish.read_bytes,
            write_bytes=wish.write_bytes,
            memory_bytes=schedule.memory_bytes if wish.memory_bytes is None else wish.memory_bytes,
            deadline=self.objective_at or inf,
            benefit=wish.benefit,
        )

    @property
    def objective_at(self) -> float | None:
        """When the oldest unmerged record has been unmerged for too long."""
        oldest = self.wish.oldest_unmerged_at if self.wish else None
        return None if oldest is None else oldest + self.schedule.objective

    def next_plan_at(self, now: float) -> float:
        """When a plan that was made now is out of date even if nothing changes."""
        latest = now + self.schedule.replan
        oldest = self.wish.oldest_unmerged_at if self.wish else None
        if oldest is None:
            return latest
        near = oldest + _NEAR_OBJECTIVE * self.schedule.objective
        # Once it is near, this plan has seen it: the next one is due as if nothing were near.
        return min(latest, near) if near > now else latest

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
        if self.look is not None:
            timers.append(self.look.deadline)
        elif self.is_watched and not stopping:
            timers.append(self.poll_at)
        if self.job_trouble is not None:
            timers.append(self.job_trouble.until)
        if self.running is not None:
            timers.append(inf if self.running.stuck else self.running.job.deadline)
        elif not is_held and not stopping:
            verifications = (self.verify_at, self.verify_at + self.schedule.verification_interval)
            timers += [at for at in verifications if at > now]
            if self._metadata_is_due and self.metadata_at > now:
                timers.append(self.metadata_at)
            if self.wanted(now) in _DATA_SERVICES:
                timers.append(self.window_edge(now) or inf)
        return min(timers)

    def change_schedule(self, schedule: Schedule, now: float) -> None:
        if self.leased_at is not None and not self.schedule.enabled:
            # While it was disabled it was not ours to look at, so it is not overdue.
            self.leased_at = now
        self.schedule = schedule
        self.plan_wanted = True
        self.no_later_than_settings(now)

    def no_later_than_settings(self, now: float) -> None:
        """After the clock was set back, or a setting shortened, no time lies further ahead than it could."""
        schedule = self.schedule
        if self.poll_at < inf:
            ahead = schedule.retry_max if self.look_trouble else schedule.interval
            self.poll_at = min(self.poll_at, now + ahead)
        if self.replan_at < inf:
            self.replan_at = min(self.replan_at, now + schedule.replan)
        if self.verify_at < inf:
            self.verify_at = min(self.verify_at, now + schedule.verification_interval)
        self.metadata_at = min(self.metadata_at, now + schedule.retry_max)
        if self.queued_at is not None:
            self.queued_at = min(self.queued_at, now)
        if self.leased_at is not None:
            self.leased_at = min(self.leased_at, now)
        if self.looked_at is not None:
            self.looked_at = min(self.looked_at, now)
        if self.look is not None:
            patience = schedule.plan_deadline if self.look.is_plan else schedule.poll_deadline
            self.look = replace(self.look, deadline=min(self.look.deadline, now + patience))
        self.look_trouble = _no_later(self.look_trouble, now + schedule.retry_max)
        ahead = schedule.parked_for if _is_parked(self.job_trouble) else schedule.retry_max
        self.job_trouble = _no_later(self.job_trouble, now + ahead)
        self._window_edge = -inf


def _is_parked(trouble: Trouble | None) -> bool:
    return trouble is not None and trouble.state is TableState.PARKED


def _no_later(trouble: Trouble | None, latest: float) -> Trouble | None:
    if trouble is None or trouble.until <= latest:
        return trouble
    return replace(trouble, until=latest)

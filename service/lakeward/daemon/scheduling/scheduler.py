"""Decides what the daemon does next: one event and the time in, instructions out.

The way of a table, and what keeps it from going on. Scanning (a poll, and a plan after the poll that asks for one)
goes on beside all of it, so that pages stay true; only a table that is DISABLED or WAITING is not scanned.

    TableAdded --> WAITING --LeaseGained--> RECOVERING --JobEnded--> IDLE <----------------------------+
                      ^                                               | interval                       |
                      +--LeaseEnded, from everywhere               POLLING --unchanged---------------->|
                                                                      | changed, or due                |
                                                                   PLANNING --nothing to do----------->|
                                                                      | a demand                       |
                                                                    QUEUED --admission--> RUNNING -----+

    hold           because                                                       until
    DISABLED       the configuration says so                                     it says otherwise
    WAITING        another daemon has the lease                                  LeaseGained
    REFUSED        the table is not one that we may change                       retry_max, or the timeline changed
    PAUSED         an operator said so, of the table or its group                the pause expires, or Resumed
    SHADOW         nothing is said about its writers, or another one services    Resumed, or the configuration
    PARKED         too many jobs failed in a row: circuit breaker                parked_for, then one try; or Resumed
    BACKING_OFF    the last try failed                                           a growing, jittered while

A problem that names a file group counts against that group first: it is parked alone and its table goes on.

Touches: nothing. No storage, clock, thread or database; chance comes from the generator that is handed in.
Keeps:   1. a table vanishes by TableRemoved only, and every table of this daemon is polled every interval, whatever
            else happens to it (a poll that fails is repeated with back-off, for ever);
         2. one job per table; all limits of `daemon/scheduling/admission.py`, until the job has answered;
         3. nothing runs on a table that is held, and no job touches a parked or paused file group (`excluded`);
         4. the first job after a lease was gained is a recovery;
         5. work that does not answer by its deadline is cancelled and recorded; a result that comes after that, or
            for work that is not under way, changes nothing but the place that it frees;
         6. after Stopping nothing is instructed but Cancel and Record;
         7. after a Tick, `next_wake` lies in the future; equal events, times and chance give equal instructions;
         8. a deadline is judged on Tick only: when the process was stopped for an hour (SIGSTOP, a paused machine),
            the results that came meanwhile stand in the inbox before the Tick, and all of them are heard first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from random import Random

from lakeward.base.quantities import format_time
from lakeward.daemon.scheduling.admission import Admission, Candidate, in_order
from lakeward.daemon.scheduling.events import (
    Cancel,
    CancelRequested,
    Event,
    FactKind,
    ForeignServiceSeen,
    Instruction,
    JobEnded,
    JobSized,
    LeaseEnded,
    LeaseGained,
    LimitsChanged,
    Parked,
    Paused,
    Plan,
    Planned,
    Poll,
    Polled,
    Record,
    Resumed,
    Run,
    ScheduleChanged,
    Stopping,
    TableAdded,
    TableRemoved,
    Tick,
    WorkFailed,
)
from lakeward.daemon.scheduling.outlook import Outlook, outlook_of
from lakeward.daemon.scheduling.pauses import Control, ControlTarget, ControlTargetKind, Pauses
from lakeward.daemon.scheduling.retry import (
    blame_groups,
    expire,
    fail_scan,
    reconsider_refusals,
    report_refused,
    settle,
    yield_for_a_while,
)
from lakeward.daemon.scheduling.schedule import Limits, Schedule
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import Hold, TableState
from lakeward.daemon.scheduling.tracked_table import Scan, TrackedTable, Trouble
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import ProblemKind, WorkProblem
from lakeward.services.compaction.plan.decision import Reason
from lakeward.table.file_system_view import GroupId

_CLOCK_NOISE = 1.0
"""Seconds that two readings of a wall clock may be out of order without anybody having set it."""


class Scheduler:
    def __init__(self, limits: Limits, chance: Random) -> None:
        self._chance = chance
        self._limits = limits
        self._admission = Admission(limits)
        self._pauses = Pauses()
        self._tables: dict[str, TrackedTable] = {}
        self._running: dict[str, Job] = {}
        """Running jobs, also those of tables that were removed meanwhile."""
        self._queue: dict[str, Candidate] = {}
        self._plans_due: dict[str, None] = {}
        """Tables whose last poll asked for a plan and that wait for their turn, in order."""
        self._plans_running = 0
        self._foreign_seen_until: dict[str, str] = {}
        """Maps a table to the instant up to which the operator knows of foreign services. Outlives the table's
        removal."""
        self._timers: list[tuple[float, str]] = []
        """A heap; an entry counts where it equals its table's `wake_at`."""
        self._touched: dict[str, None] = {}
        self._admission_due = False
        self._stopping = False
        self._now = 0.0
        self._out: list[Instruction] = []

    # ---- the API

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """What to do because of this event. Events of one table come in the order in which they happened."""
        self._pass_time_to(now)
        self._hear(event)
        touched, self._touched = self._touched, {}
        for name in touched:
            if name in self._tables:
                self._advance(self._tables[name])
        self._start_plans()
        self._admit()
        out, self._out = self._out, []
        return out

    @property
    def next_wake(self) -> float | None:
        """When to send a Tick if nothing else happens; None: not at all."""
        while self._timers and not self._counts(self._timers[0]):
            heappop(self._timers)
        timers = (self._timers[0][0] if self._timers else None, self._pauses.next_expiry(), self._admission.retry_at)
        return min((timer for timer in timers if timer is not None), default=None)

    def outlooks(self) -> Mapping[str, Outlook]:
        """All tables as of the last event."""
        return {
            table.name: outlook_of(
                table,
                self._now,
                holds=self._holds(table),
                obstacle=self._obstacle(table),
                paused_groups=self._pauses.file_groups(table.name),
                waits_for_plan=table.name in self._plans_due,
                stopping=self._stopping,
            )
            for table in self._tables.values()
        }

    # ---- events

    def _hear(self, event: Event) -> None:
        match event:
            case Polled():
                self._polled(event)
            case Planned():
                self._planned(event)
            case Tick():
                self._tick()
            case JobEnded():
                self._job_ended(event)
            case JobSized():
                self._size_job(event)
            case WorkFailed():
                self._scan_failed(event)
            case TableAdded():
                self._add(event)
            case TableRemoved():
                self._remove(event)
            case ScheduleChanged():
                self._change_schedule(event.table, event.schedule)
            case LimitsChanged():
                self._limits = event.limits
                self._admission.change(event.limits, self._now)
                self._admission_due = True
            case LeaseGained():
                self._gain_lease(event.table)
            case LeaseEnded():
                self._lose_lease(event)
            case ForeignServiceSeen():
                self._see_foreign_service(event)
            case Parked():
                self._remember_parked(event)
            case Paused():
                self._pause(event.control)
            case Resumed():
                self._resume(event)
            case CancelRequested():
                self._cancel_jobs_of(event.control)
            case Stopping():
                self._stopping = True
                self._plans_due.clear()
                self._touch_all(self._tables)

    def _tick(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            timer = heappop(self._timers)
            if self._counts(timer):
                self._tables[timer[1]].wake_at = inf
                self._watch_deadlines(self._tables[timer[1]])
                self._touch(timer[1])
        for pause in self._pauses.expire(self._now):
            self._record_pause_end(pause)
            self._touch_all(self._tables_of(pause.target))
        if self._admission.retry_at is not None and self._admission.retry_at <= self._now:
            self._admission_due = True

    def _add(self, event: TableAdded) -> None:
        if event.table in self._tables:
            self._change_schedule(event.table, event.schedule)
            return
        schedule = event.schedule
        if event.verified_at is None:
            # Many tables that are added together are not verified together, now and for ever after.
            verify_at = self._now + self._chance.uniform(0, schedule.verification_interval)
        else:
            verify_at = max(self._now, event.verified_at + schedule.verification_interval)
        table = TrackedTable(event.table, schedule, verify_at)
        # Added again while a job of its first life has not answered yet: still one job per table.
        table.running = next((job for job in self._running.values() if job.table == event.table), None)
        self._tables[event.table] = table
        self._touch(event.table)

    def _remove(self, event: TableRemoved) -> None:
        table = self._tables.pop(event.table, None)
        if table is None:
            return
        if table.scan is not None:
            self._stop_scan(table, event.why)
        if table.running is not None:
            self._cancel_job(table, event.why)
        self._queue.pop(event.table, None)
        self._plans_due.pop(event.table, None)

    def _change_schedule(self, name: str, schedule: Schedule) -> None:
        if (table := self._tables.get(name)) is not None:
            table.change_schedule(schedule, self._now)
            self._touch(name)

    def _gain_lease(self, name: str) -> None:
        table = self._tables.get(name)
        if table is None or table.leased_at is not None:
            return
        table.leased_at = self._now
        table.plan_wanted = True
        # A hundred tables whose leases come at once do not poll at once, now and in every later interval.
        table.poll_at = self._now + self._chance.uniform(0, table.schedule.interval)
        self._touch(name)

    def _lose_lease(self, event: LeaseEnded) -> None:
        """Another daemon may write from here on. This daemon's job is cancelled, and the table waits."""
        table = self._tables.get(event.table)
        if table is None:
            return
        table.lease_text = event.why
        if table.leased_at is None:
            return
        if table.scan is not None:
            self._stop_scan(table, event.why)
        if table.running is not None:
            self._cancel_job(table, event.why)
        self._plans_due.pop(event.table, None)
        table.leased_at = None
        table.recovered = False
        table.demand, table.refused, table.refused_jobs = None, {}, {}
        table.poll_at = inf
        table.scan_trouble, table.scan_failures = None, 0
        self._touch(event.table)

    def _polled(self, event: Polled) -> None:
        table = self._waiting_for(event.table, event.work_id)
        if table is None:
            return
        scan = self._end_scan(table)
        table.scanned_at = self._now
        table.poll_at = max(self._now, scan.started_at + table.schedule.interval)
        if not table.scan_trouble_of_plan:
            table.scan_trouble, table.scan_failures = None, 0
        if event.changed:
            reconsider_refusals(table, self._now)
        table.plan_wanted = table.plan_wanted or event.changed or table.replan_at <= self._now
        if scan.is_stale:
            table.poll_at = self._now
        elif table.plan_wanted and self._may_plan(table):
            self._plans_due[event.table] = None
        self._touch(event.table)

    def _planned(self, event: Planned) -> None:
        table = self._waiting_for(event.table, event.work_id)
        if table is None:
            return
        scan = self._end_scan(table)
        table.scanned_at = self._now
        table.scan_trouble, table.scan_failures = None, 0
        if scan.is_stale:
            table.plan_wanted, table.poll_at = True, self._now
        else:
            self._out += report_refused(table, event.demand)
            table.keep_demand(event.demand, self._now)
        self._touch(event.table)

    def _scan_failed(self, event: WorkFailed) -> None:
        table = self._waiting_for(event.table, event.work_id)
        if table is not None:
            scan = self._end_scan(table)
            self._out += fail_scan(table, scan, event.problem, self._now, self._chance)
            self._touch(event.table)

    def _job_ended(self, event: JobEnded) -> None:
        running = self._running.pop(event.job_id, None)
        if running is None:
            return
        self._admission.end(event.job_id)
        self._admission_due = True
        table = self._tables.get(running.table)
        if table is None:
            return
        # What the table looks like now decides what comes next, whatever the outcome; a scan that is under way may
        # have seen it before the job ended.
        table.running = table.demand = None
        table.plan_wanted = True
        if table.scan is not None:
            table.scan = replace(table.scan, is_stale=True)
        if table.leased_at is None:
            self._out += blame_groups(table, event.report, self._now)
        else:
            table.poll_at = self._now
            self._out += settle(table, running, event.report, self._now, self._chance)
        self._touch(table.name)

    def _size_job(self, event: JobSized) -> None:
        """A job that has more to read than its plan said, or than anybody knew, gets the time for it."""
        running = self._running.get(event.job_id)
        table = None if running is None else self._tables.get(running.table)
        if running is None or table is None or running.cancelled is not None:
            return
        deadline = running.started_at + table.schedule.job_seconds(event.read_bytes)
        if deadline > running.deadline:
            self._keep_running(table, replace(running, deadline=deadline))
            self._touch(table.name)

    def _see_foreign_service(self, event: ForeignServiceSeen) -> None:
        table = self._tables.get(event.table)
        if table is None or event.instant <= self._foreign_seen_until.get(event.table, ""):
            return
        was_foreign = table.is_foreign
        if table.foreign is None or table.foreign.instant < event.instant:
            table.foreign = event
        # A running job is let finish: it has the lock and a heartbeat, and leaving its plan behind helps no service.
        if table.is_foreign and not was_foreign:
            self._record(FactKind.SHADOW, table, table.foreign_text)
        self._touch(event.table)

    def _remember_parked(self, event: Parked) -> None:
        table = self._tables.get(event.table)
        if table is None or event.until <= self._now:
            return
        if event.file_group is not None:
            table.parking.park(event.file_group, event.reason, event.until)
        else:
            table.job_trouble = Trouble(TableState.PARKED, event.reason, event.until)
            table.failures = table.schedule.failures_max
        self._touch(event.table)

    def _pause(self, control: Control) -> None:
        if control.until is None or control.until > self._now:
            self._pauses.add(control)
            self._touch_all(self._tables_of(control.target))

    def _resume(self, event: Resumed) -> None:
        target = event.target
        self._pauses.lift(target)
        table = self._tables.get(target.name)
        if target.kind is ControlTargetKind.TABLE:
            newest = table.foreign.instant if table is not None and table.foreign is not None else ""
            seen_until = newest if event.foreign_seen_until is None else event.foreign_seen_until
            known = self._foreign_seen_until.get(target.name, "")
            self._foreign_seen_until[target.name] = max(known, seen_until)
            if table is not None:
                self._start_afresh(table)
        elif target.file_group is not None and table is not None and table.parking.unpark(target.file_group):
            self._record(FactKind.UNPARKED, table, "Resumed by an operator.", target.file_group)
            table.plan_wanted = True
        self._touch_all(self._tables_of(target))

    def _start_afresh(self, table: TrackedTable) -> None:
        """An operator says that what was in the way is dealt with."""
        if table.job_trouble is not None and table.job_trouble.state is TableState.PARKED:
            self._record(FactKind.UNPARKED, table, "Resumed by an operator.")
        table.job_trouble, table.failures, table.retries = None, 0, 0
        table.refused_jobs.clear()
        table.scan_trouble, table.scan_failures = None, 0
        seen_until = self._foreign_seen_until.get(table.name, "")
        if table.foreign is not None and table.foreign.instant <= seen_until:
            table.foreign = None
        table.plan_wanted = True
        if table.leased_at is not None:
            table.poll_at = self._now

    def _cancel_jobs_of(self, control: Control) -> None:
        """Stop what runs. With `until` it is also a pause; else the table goes on after a first back-off."""
        if control.until is not None:
            self._pause(control)
        by = f" by {control.by}" if control.by else ""
        text = f"Cancelled{by}: {control.reason}"
        for name in self._tables_of(control.target):
            table = self._tables[name]
            if table.running is not None:
                self._cancel_job(table, text)
            elif table.name in self._queue and control.target.file_group is None:
                yield_for_a_while(table, text, self._now, self._chance)
            self._touch(name)

    # ---- what is due

    def _advance(self, table: TrackedTable) -> None:
        """Do what this table is due for now, offer its job to admission, and set its next timer."""
        self._out += expire(table, self._now)
        self._scan(table)
        self._offer(table)
        self._set_timer(table)

    def _scan(self, table: TrackedTable) -> None:
        """The plan that the last poll asked for, or else the next poll."""
        if table.scan is not None or self._stopping or not table.is_watched:
            return
        if table.name in self._plans_due and self._plans_running < self._limits.plans_max:
            del self._plans_due[table.name]
            if self._may_plan(table):
                self._plan(table)
                return
        # A table that waits for its turn to be planned is polled meanwhile, and keeps its turn.
        if table.poll_at <= self._now:
            self._poll(table)

    def _watch_deadlines(self, table: TrackedTable) -> None:
        scan, running = table.scan, table.running
        if scan is not None and scan.deadline <= self._now:
            what = "plan" if scan.is_plan else "poll"
            text = f"The {what} had not answered by its deadline at {format_time(scan.deadline)}."
            self._stop_scan(table, text)
            problem = WorkProblem(ProblemKind.TEMPORARY, text)
            self._out += fail_scan(table, scan, problem, self._now, self._chance, kind=FactKind.STUCK)
        if running is not None and not running.stuck and running.deadline <= self._now:
            # The job keeps its place, slot and memory until it answers, even when its lease or its table has gone: a
            # thread cannot be killed, so it still holds what it holds, and one that counts as gone would let the
            # next one in on memory that is not there. One table can thus cost all others a slot; the alert on stuck
            # jobs and a restart free it, and the timeline stays safe, since a cancelled job passes no more fences.
            text = f"Job {running.id} had not answered by its deadline at {format_time(running.deadline)}."
            self._cancel_job(table, text)
            self._keep_running(table, replace(table.running or running, stuck=True))
            self._record(FactKind.STUCK, table, text)

    def _may_plan(self, table: TrackedTable) -> bool:
        """Not while a job changes the table or a recovery is about to, and not before a failed plan's time."""
        if self._stopping or table.running is not None or not table.is_watched:
            return False
        if table.scan_trouble is not None and table.scan_trouble.until > self._now:
            return False
        return table.wanted(self._now) is not JobKind.RECOVERY or bool(self._holds(table))

    def _start_plans(self) -> None:
        """Start plans that waited for their turn, the longest first; one that is being polled is passed."""
        for name in list(self._plans_due):
            if self._plans_running >= self._limits.plans_max:
                return
            self._advance(self._tables[name])

    def _offer(self, table: TrackedTable) -> None:
        """Put the table into the queue, or take it out, as its facts say."""
        candidate = None
        if not self._stopping and table.running is None and not self._holds(table):
            candidate = table.candidate(self._now)
        if candidate != self._queue.get(table.name):
            self._admission_due = True
        if candidate is None:
            table.queued_at = None
            self._queue.pop(table.name, None)
        else:
            table.queued_at = candidate.queued_at
            self._queue[table.name] = candidate

    def _admit(self) -> None:
        if not self._admission_due:
            return
        self._admission_due = False
        for candidate in self._admission.admit(tuple(self._queue.values()), self._now):
            self._run(self._tables[candidate.table], candidate)

    def _set_timer(self, table: TrackedTable) -> None:
        at = table.next_timer(self._now, is_held=bool(self._holds(table)), stopping=self._stopping)
        if at != table.wake_at:
            table.wake_at = at
            if at < inf:
                heappush(self._timers, (at, table.name))

    # ---- work begins and is cancelled

    def _poll(self, table: TrackedTable) -> None:
        table.scan = Scan(self._new_id(), False, self._now, self._now + table.schedule.poll_deadline)
        self._out.append(Poll(table.name, table.scan.work_id, table.scan.deadline))

    def _plan(self, table: TrackedTable) -> None:
        table.scan = Scan(self._new_id(), True, self._now, self._now + table.schedule.plan_deadline)
        table.plan_wanted = False
        self._plans_running += 1
        self._out.append(Plan(table.name, table.scan.work_id, table.scan.deadline, self._excluded(table)))

    def _run(self, table: TrackedTable, candidate: Candidate) -> None:
        job = Job(
            id=self._new_id(),
            table=table.name,
            service=candidate.service,
            excluded=self._excluded(table),
            operations=candidate.operations,
            read_bytes=candidate.read_bytes,
            write_bytes=candidate.write_bytes,
            memory_bytes=candidate.memory_bytes,
            deadline=self._now + table.schedule.job_seconds(candidate.read_bytes or None),
            started_at=self._now,
            expired_plans=table.demand.expired_plans
            if table.demand and candidate.service is JobKind.PLAN_EXPIRY
            else (),
        )
        self._admission.begin(job.id, candidate, self._now)
        self._keep_running(table, job)
        del self._queue[table.name]
        self._plans_due.pop(table.name, None)
        table.queued_at = None
        self._out.append(Run(job))
        self._set_timer(table)

    def _cancel_job(self, table: TrackedTable, why: str) -> None:
        assert table.running is not None
        self._out.append(Cancel(table.running.id, why))
        self._keep_running(table, replace(table.running, cancelled=why))

    def _keep_running(self, table: TrackedTable, running: Job) -> None:
        table.running = self._running[running.id] = running

    def _stop_scan(self, table: TrackedTable, why: str) -> None:
        """Its result will not count any more. It writes nothing, so its place is free at once."""
        self._out.append(Cancel(self._end_scan(table).work_id, why))

    def _end_scan(self, table: TrackedTable) -> Scan:
        scan, table.scan = table.scan, None
        assert scan is not None
        self._plans_running -= scan.is_plan
        return scan

    # ---- small questions

    def _pass_time_to(self, now: float) -> None:
        if now < self._now - _CLOCK_NOISE:
            # The clock was set back by hours: without this no timer would fire for as long.
            self._now = now
            for table in self._tables.values():
                table.no_later_than_settings(now)
                self._touch(table.name)
            self._admission_due = True
        self._now = max(self._now, now)

    def _waiting_for(self, name: str, work_id: str) -> TrackedTable | None:
        """The table whose poll or plan ended so; None where the scheduler does not wait for it any more."""
        table = self._tables.get(name)
        return table if table is not None and table.scan is not None and table.scan.work_id == work_id else None

    def _holds(self, table: TrackedTable) -> tuple[Hold, ...]:
        return table.holds(self._pauses.of_table(table.name, table.schedule.group))

    def _excluded(self, table: TrackedTable) -> dict[GroupId, Reason]:
        paused = dict.fromkeys(self._pauses.file_groups(table.name), Reason.PAUSED)
        return paused | dict.fromkeys(table.parking.parked, Reason.PARKED)

    def _tables_of(self, target: ControlTarget) -> list[str]:
        if target.kind is ControlTargetKind.GROUP:
            return [table.name for table in self._tables.values() if table.schedule.group == target.name]
        return [target.name] if target.name in self._tables else []

    def _in_order(self) -> list[Candidate]:
        return in_order(self._queue.values(), self._now)

    def _obstacle(self, table: TrackedTable) -> str | None:
        """What a queued table waits for; None where it is not in the queue."""
        candidate = self._queue.get(table.name)
        if candidate is None:
            return None
        obstacle = self._admission.obstacle(candidate, self._now)
        return "others waited longer" if obstacle is None else obstacle.text

    def _new_id(self) -> str:
        """Unique among the daemons that share a store, as long as their generators differ."""
        return f"{self._chance.getrandbits(64):016x}"

    def _touch(self, name: str) -> None:
        self._touched[name] = None

    def _touch_all(self, names: Iterable[str]) -> None:
        for name in names:
            self._touch(name)

    def _counts(self, timer: tuple[float, str]) -> bool:
        at, name = timer
        return name in self._tables and self._tables[name].wake_at == at

    def _record(
        self,
        kind: FactKind,
        table: TrackedTable,
        text: str,
        file_group: GroupId | None = None,
        until: float | None = None,
    ) -> None:
        self._out.append(Record(kind, table.name, text, file_group, until))

    def _record_pause_end(self, pause: Control) -> None:
        table = "" if pause.target.kind is ControlTargetKind.GROUP else pause.target.name
        text = f"The pause of {pause.target} is over: {pause.reason}"
        self._out.append(Record(FactKind.PAUSE_ENDED, table, text, pause.target.file_group))

"""The loop of the daemon: results and controls come in, the scheduler says what follows, and work is handed out.

    ticks, operators, results of works  ->  events  ->  scheduler (pure)  ->  instructions  ->  works on threads

Everything that is decided is decided here, on one thread; everything that takes time runs elsewhere, on a `Runner`,
and its result is taken in on this thread by `step`. So the whole daemon runs in a simulation: with another runner,
clock, storage and store.

What is remembered across restarts goes to the store, after it happened; a store that does not answer delays
remembering and costs the leases, and nothing else.

Touches: the store, and whatever the works touch.
Keeps:   1. a table that was once added leaves only when it is not configured, or not there, any more;
         2. no result and no instruction is dropped: what fails unforeseen is a failure of its table, with a traceback
            in the log, and never the end of the loop;
         3. nothing is written to a table whose lease is not held;
         4. what hangs (a storage, the store) holds up itself only: of discoveries, of questions about controls and of
            scans of other hosts' locks one is under way at a time, and this thread waits for no result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from structlog.stdlib import BoundLogger

from lakeward.base.clock import Clock
from lakeward.base.errors import Cancelled, EngineFailure
from lakeward.config.discovery import Discovered
from lakeward.config.settings import Settings
from lakeward.config.short_name import short_name
from lakeward.daemon.backlog_history import BacklogHistory
from lakeward.daemon.history.outbox import AWAY
from lakeward.daemon.history.recorder import Recorder, Remembered, cost_record
from lakeward.daemon.jobs.registry import JobRegistry
from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.log import FailureLog
from lakeward.daemon.loop.comparisons import DailyComparisons
from lakeward.daemon.loop.control_registry import ControlRegistry
from lakeward.daemon.loop.examinations import Examinations, FindingChange
from lakeward.daemon.loop.leases import LeaseChanges, Leases
from lakeward.daemon.loop.under_way import DeadLocks, Scans, SingleFlight, StorageCounts
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.metrics.specs import PollOutcome
from lakeward.daemon.metrics.table_labels import OTHER
from lakeward.daemon.runner import Lane, Runner
from lakeward.daemon.scheduling.events import (
    Cancel,
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
    Plan,
    Planned,
    Poll,
    Polled,
    Record,
    Run,
    ScheduleChanged,
    Stopping,
    TableAdded,
    TableRemoved,
    Tick,
    WorkFailed,
)
from lakeward.daemon.scheduling.outlook import Outlook
from lakeward.daemon.scheduling.schedule import Limits
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.scheduler import Scheduler
from lakeward.daemon.served_table import ServedTable, served_table
from lakeward.daemon.status import (
    GOOD_ENDS,
    ConfigStatus,
    LeaseStatus,
    PhaseSpan,
    ServicePhase,
    ServiceStatus,
    SparkStatus,
    StorageSample,
    TableStatus,
)
from lakeward.daemon.status_report import limitations
from lakeward.daemon.work.reports import PlanReport, PollReport
from lakeward.daemon.work.worker import Worker
from lakeward.engine.dispatch.machine import cores
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.protocol.problem import is_foreseen, problem_of, problems_of
from lakeward.services.compaction.plan.learned_reads import LearnedReads
from lakeward.state.records import ComparedDay, ControlRecord, JobRecord
from lakeward.state.records import TargetKind as StoredTarget
from lakeward.state.store import Store
from lakeward.table.backlog import Backlog

T = TypeVar("T")

TraceJob = Callable[[JobRecord, Sequence[PhaseSpan]], None]
"""Takes a job that ended, and its newest phases."""

TICK_SECONDS = 1.0
"""The longest time between two looks at what is due."""

TOGETHER_SECONDS = 0.5
"""What becomes due within so short a time is begun at once: each coming round costs as much as what it begins."""


@dataclass(slots=True)
class _Written:
    """Bytes, since this daemon watches a table."""

    by_writers: int = 0
    by_us: int = 0

    @property
    def amplification(self) -> float | None:
        return (self.by_writers + self.by_us) / self.by_writers if self.by_writers else None


class DaemonLoop:
    """One daemon's loop. All methods but `post` belong to one thread."""

    def __init__(
        self,
        *,
        settings: Settings,
        scheduler: Scheduler,
        worker: Worker,
        runner: Runner,
        store: Store,
        leases: Leases,
        find_tables: Callable[[Settings], Discovered],
        metrics: Metrics,
        clock: Clock,
        log: BoundLogger,
        trace_job: TraceJob | None = None,
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._worker = worker
        self._runner = runner
        self._failures = FailureLog(log)
        self._recorder = Recorder(
            store, leases.holder, submit=self._submit, problem=self._failures.problem, clock=clock, log=log
        )
        self._leases = leases
        self._find_tables = find_tables
        self._metrics = metrics
        self._trace_job = trace_job
        self._cores = cores()
        self._clock = clock
        self._log = log

        self._inbox: deque[Event] = deque()
        self._posted: deque[Callable[[], None]] = deque()
        self._tables: dict[str, ServedTable] = {}
        self._adding: dict[str, str] = {}
        """Name to base path of tables that the store is being asked about."""
        self._found: Mapping[str, str] = {}
        """Name to base path of all tables that the last search found."""
        self._missing_once: set[str] = set()
        self._scans = Scans()
        self._written: dict[str, _Written] = {}
        self._histories: dict[str, BacklogHistory] = {}
        self._discovery = SingleFlight()
        self._controls_reading = SingleFlight()
        self._dead_locks = DeadLocks(worker.free_dead_locks, submit=self._submit, problem=self._failures.problem)
        self._counts = StorageCounts(worker, submit=self._submit, counted=self._counted, problem=self._failures.problem)
        self._examinations = Examinations(
            worker,
            self._recorder,
            submit=self._submit,
            changed=self._finding_changed,
            problem=self._failures.problem,
            clock=clock,
        )
        self._comparisons = DailyComparisons(
            worker,
            self._recorder,
            submit=self._submit,
            compared=self._compared,
            problem=self._failures.problem,
            clock=clock,
        )
        self._lease_keeping = SingleFlight()
        self._daemons = 1
        self._held_by: Mapping[str, str] = {}
        self._spark_problem: str | None = None
        self._discovery_problems: tuple[str, ...] = ()
        self._stopping = False
        self._discovered_once = False
        self._leases_kept_once = False
        self._watching_leases = False
        """True while daemons are watched that may have died; what they held will soon be this daemon's, or they
        still hold it.
        """
        self.jobs = JobRegistry()
        self._controls = ControlRegistry(foreign_seen=self._foreign_seen)

    # -------------------------------------------------------------------------------------------------- API

    def post(self, call: Callable[[], None]) -> None:
        """Have `call` called on the loop's thread, at the next step. From any thread."""
        self._posted.append(call)

    def step(self) -> float:
        """Take in what happened, hand out what follows. Returns seconds until there is something to do again."""
        self._runner.deliver()  # first, because it ends a `wake`: what is posted from here on is done now, or wakes
        while self._posted:
            self._survive(self._posted.popleft())
        for table, why in self._leases.expire().items():
            self._lose_lease(table, why)
        for watch in self.jobs.watches():
            if (read_bytes := watch.take_size()) is not None:
                self._inbox.append(JobSized(watch.job.id, read_bytes))
        self._inbox.append(Tick())
        now = self._clock.now()
        while self._inbox:
            for instruction in self._scheduler.handle(self._inbox.popleft(), now):
                self._carry_out_or_fail(instruction, now)
        self._failures.say_of_scans()
        for watch in self.jobs.watches():
            watch.count_seconds()
            self._report_deleted(watch, now)
            if (progress := watch.take_progress()) is not None:
                self._recorder.under_way(watch.job.id, progress, at=now)
            if self._stopping and watch.only_waits:
                watch.stop("The daemon stops, and the job only waited.")
        self._recorder.send()
        wake = self._scheduler.next_wake
        return TICK_SECONDS if wake is None else min(TICK_SECONDS, max(TOGETHER_SECONDS, wake - self._clock.now()))

    def apply(self, settings: Settings) -> None:
        """Go on with other settings, for all tables at once."""
        self._settings = settings
        self._inbox.append(LimitsChanged(limits_of(settings)))
        for name, table in self._tables.items():
            wanted = settings.table(name, table.base_path)
            changed = self._by_policy(replace(table, settings=wanted, shadow_settings=None))
            if changed.serviced_since is None and changed.is_serviced:
                changed = replace(changed, serviced_since=self._clock.now())
                self._recorder.serviced(changed)
            self._tables[name] = changed
            self._inbox.append(ScheduleChanged(name, changed.schedule))
        self.discover()

    def begin_stop(self) -> None:
        """Nothing new begins. What works goes on; what only waits for others, then or later, ends at its next look."""
        self._stopping = True
        self._inbox.append(Stopping())

    def cancel_all(self, why: str) -> None:
        """What runs ends at its next fence or report."""
        for watch in self.jobs.watches():
            watch.stop(why)

    def leave(self) -> None:
        """Give everything back. The last call, when nothing runs any more. Raises nothing: a store that is away finds
        out by itself that we are gone, when our leases are over."""
        try:
            self._leases.release(self._leases.held)
            self._recorder.leave()
        except AWAY as error:
            self._log.warning("could not release leases", error=str(error))

    @property
    def outlooks(self) -> Mapping[str, Outlook]:
        """What the scheduler says of each table."""
        return self._scheduler.outlooks()

    @property
    def held_tables(self) -> frozenset[str]:
        """Tables whose lease this daemon has."""
        return self._leases.held

    @property
    def has_begun(self) -> bool:
        """True once tables were looked for and leases asked for."""
        return self._discovered_once and self._leases_kept_once

    @property
    def is_settled(self) -> bool:
        """Every table was planned for, or cannot be, and nothing is left to do now: the end of a single pass."""
        if (
            not self.has_begun
            or self._adding
            or not self.is_idle
            or self._lease_keeping.is_under_way
            or self._scans.are_any
            or self._counts.are_any
            or self._examinations.are_any
            or self._comparisons.is_any
        ):
            return False
        if self._watching_leases:
            return False
        outlooks = self.outlooks.values()
        return len(outlooks) == len(self._tables) and all(outlook.is_settled for outlook in outlooks)

    @property
    def troubled_tables(self) -> tuple[str, ...]:
        """Tables that could not be serviced."""
        return tuple(name for name, outlook in self.outlooks.items() if outlook.is_troubled)

    @property
    def unread(self) -> tuple[str, ...]:
        """A sentence for each place of the configuration in which no table could be looked for, or was found."""
        if self._discovery_problems or self._tables:
            return self._discovery_problems
        return (f"No table is below {', '.join(self._settings.discovery.roots)}.",)

    def status(
        self, *, phase: ServicePhase, started_at: float, config: ConfigStatus, spark: SparkStatus, version: str
    ) -> ServiceStatus:
        """The status of everything. As much work as there are tables."""
        outlooks = self.outlooks
        return ServiceStatus(
            name=self._settings.service.name,
            version=version,
            phase=phase,
            at=self._clock.now(),
            at_monotonic=self._clock.monotonic(),
            started_at=started_at,
            tables=tuple(
                self._table_status(table, outlooks[name])
                for name, table in sorted(self._tables.items())
                if name in outlooks
            ),
            limitations=limitations(
                store_problem=self._recorder.store_problem,
                spark_problem=self._spark_problem,
                discovery_problems=self._discovery_problems,
                tables=self._tables.values(),
                configured=self._settings.names_tables,
            ),
            config=config,
            lease=LeaseStatus(
                self._leases.holder, len(self._leases.held), self._daemons, leader=self._recorder.store_problem is None
            ),
            jobs_max=self._settings.service.jobs_max,
            memory_bytes=self._settings.service.memory,
            memory_reserved_bytes=self.jobs.memory_bytes,
            spark=spark,
            cores=self._cores,
        )

    def _table_status(self, table: ServedTable, outlook: Outlook) -> TableStatus:
        name, cache = table.name, self._worker.caches.find(table.name)
        return TableStatus(
            served=table,
            outlook=outlook,
            backlog=None if cache is None else cache.backlog,
            write_amplification=self._written_of(name).amplification,
            progress=self.jobs.progress(name),
            last_job=self.jobs.last(name),
            last_success_at=self.jobs.last_successes(name),
            storage=None if cache is None else cache.storage,
            # Copies: a job that runs goes on to change what its service remembers.
            remembered={} if cache is None else {kind: copy(memory) for kind, memory in cache.memories.items()},
            examination=self._examinations.newest(table),
            history=self._history_of(name, None if cache is None else cache.backlog),
        )

    def _history_of(self, table: str, backlog: Backlog | None) -> BacklogHistory:
        """How the backlog went, this moment included; it is as fine as statuses are made."""
        history = self._histories.get(table, BacklogHistory())
        if backlog is not None:
            history = self._histories[table] = history.seen(self._clock.now(), backlog)
        return history

    @property
    def is_idle(self) -> bool:
        """Nothing runs, and everything that ended is remembered, unless the store does not answer."""
        nothing_new = not self._posted and not self._inbox
        return nothing_new and not self.jobs.busy_tables and self._recorder.is_settled

    # ------------------------------------------------------------------------------------------------ ticks

    def discover(self) -> None:
        """Look for tables that came or went. One search at a time: one that hangs is not joined by others."""
        if self._stopping or not self._discovery.begin():
            return
        self._submit(
            Lane.SCAN,
            partial(self._find_tables, self._settings),
            then=partial(self._discovered, self._settings),
            failed=self._not_discovered,
        )

    def keep_leases(self) -> None:
        """Renew, take and give back leases. While the daemon stops only those of tables at work are kept."""
        if not self._lease_keeping.begin():
            return
        busy = self.jobs.busy_tables
        names = sorted(name for name, table in self._tables.items() if table.settings.enabled)
        if self._stopping:
            names = sorted(busy)
        self._submit(
            Lane.LEASE,
            partial(self._leases.keep, names, busy=busy),
            then=self._leases_kept,
            failed=self._leases_not_kept,
        )

    def read_controls(self) -> None:
        """Read what operators ordered, and send the store again what it has not taken."""
        self._recorder.send(again=True)
        if self._controls_reading.begin():
            self._recorder.ask_for_controls(self._controls_read, self._controls_not_read)

    def trim(self) -> None:
        """Let the store forget what is old, and jobs whose daemons are gone."""
        self._recorder.trim()

    def _by_policy(self, table: ServedTable) -> ServedTable:
        """A table whose settings may have changed. Where it is to be planned by cost from now on, that is in shadow
        until the store says since when."""
        if table.is_by_cost == (table.cost_since is not None):
            return table.at(self._clock.now())
        ask = partial(self._recorder.cost_since, table.name, by_cost=table.is_by_cost)
        self._recorder.ask(ask, partial(self._cost_since_known, table.name))
        now = self._clock.now()
        return replace(table, cost_since=now if table.is_by_cost else None).at(now)

    def _cost_since_known(self, name: str, since: float | None) -> None:
        if (table := self._tables.get(name)) is not None:
            self._act_by(replace(table, cost_since=since).at(self._clock.now()))

    def _act_by(self, table: ServedTable) -> None:
        """Go on with a table whose planner may be of another policy."""
        self._tables[table.name] = table
        self._inbox.append(ScheduleChanged(table.name, table.schedule))

    def learn_reads(self) -> None:
        """Let planners know how often tables are read by now, and have cost act where its time in shadow is over."""
        now = self._clock.now()
        for table in list(self._tables.values()):
            if table.shadow_until is not None and table.shadow_until <= now:
                self._log.info("cost acts", table=table.name)
                self._act_by(table.at(now))
        self._recorder.ask(partial(self._recorder.learned, tuple(self._tables)), self._reads_learned)

    def _reads_learned(self, learned: Mapping[str, LearnedReads | None]) -> None:
        for name, reads in learned.items():
            if (table := self._tables.get(name)) is not None:
                self._tables[name] = replace(table, learned=reads)

    # ----------------------------------------------------------------------------------------------- tables

    def _not_discovered(self, error: Exception) -> None:
        self._discovery_problems = (self._failures.problem(error, what="discovery").text,)
        if self._discovery.end():
            self.discover()

    def _discovered(self, settings: Settings, found: Discovered) -> None:
        if self._discovery.end():
            self.discover()
        if settings is not self._settings:
            return  # a search in places that do not count any more; the next one is under way
        self._discovered_once = True
        self._discovery_problems = tuple(f"{problem.path}: {problem.why}" for problem in found.problems)
        for problem in self._discovery_problems:
            self._log.warning("discovery problem", problem=problem)
        wanted = dict(self._settings.named_tables)
        named = set(wanted.values())
        wanted |= {table: table for table in found.tables if table not in named}
        self._found = wanted | self._adding
        for name in sorted(wanted.keys() - self._tables.keys() - self._adding.keys()):
            self._adding[name] = wanted[name]
            self._recorder.ask(
                partial(self._recorder.recall, name, wanted[name], **self._said_of(name, wanted[name])),
                partial(self._add, name),
                partial(self._not_added, name),
            )
        gone = {name for name in self._tables if wanted.get(name) != self._tables[name].base_path}
        # A folder that cannot be listed for a moment does not make its tables vanish, nor does a table being moved.
        removed = self._unconfigured(gone, wanted)
        if not found.problems:
            removed |= gone & self._missing_once
        self._missing_once = gone - removed
        for name in sorted(removed):
            self._remove(name)
        self.keep_leases()
        self._dead_locks.free(table for name, table in self._tables.items() if name not in self._leases.held)

    def _short_name(self, name: str) -> str:
        """Free among all tables that are there, and among those that keep their short name."""
        short = short_name(name, self._found)
        taken = {OTHER, *(table.shown_as for table in self._tables.values())}
        return name if short in taken else short

    def _said_of(self, name: str, base_path: str) -> dict[str, bool]:
        """What the configuration says that the store is to know of a table."""
        table = served_table(self._settings, name, base_path, watched_since=0.0)
        return {"is_serviced": table.is_serviced, "by_cost": table.is_by_cost}

    def _unconfigured(self, gone: Iterable[str], wanted: Mapping[str, str]) -> set[str]:
        """Names among `gone` that are out because the configuration does not name them any more, or names what is there
        otherwise."""
        paths = set(wanted.values())
        tables = {name: self._tables[name].base_path for name in gone}
        return {name for name, base_path in tables.items() if name != base_path or base_path in paths}

    def _add(self, name: str, remembered: Remembered) -> None:
        base_path = self._adding.pop(name)
        self._found = {name: base_path, **self._found}
        table = served_table(
            self._settings,
            name,
            base_path,
            watched_since=remembered.watched.since,
            serviced_since=remembered.watched.serviced_since,
        )
        if table.serviced_since is None and table.is_serviced:  # the settings changed while the store was asked
            table = replace(table, serviced_since=self._clock.now())
            self._recorder.serviced(table)
        table = replace(table, shown_as=self._short_name(name), costs=remembered.costs, learned=remembered.learned)
        table = replace(table, cost_since=remembered.cost_since).at(self._clock.now())
        self._tables[name] = table
        self._log.info("table added", table=name, base_path=base_path)
        self.jobs.learn(remembered.jobs)
        # All that anybody said of the table is heard before anything can begin on it.
        self._hear_controls(remembered.controls)
        self._inbox.append(TableAdded(name, table.schedule, self.jobs.last_successes(name).get(JobKind.VERIFICATION)))
        self._inbox.extend(self._controls.for_table(name, table.settings.group))
        for record in remembered.parked:
            if record.until is not None:
                self._inbox.append(Parked(name, record.reason, record.until, record.file_group))
        if name in self._leases.held:  # it was removed a moment ago, and its lease is not given back yet
            self._inbox.append(LeaseGained(name))
        self._metrics.keep({name: table.shown_as for name, table in self._tables.items()})
        self.keep_leases()

    def _not_added(self, name: str, error: Exception) -> None:
        self._adding.pop(name, None)  # the next discovery asks again
        self._recorder.failed(error)

    def _remove(self, name: str) -> None:
        table = self._tables.pop(name)
        self._log.info("table removed", table=name, base_path=table.base_path)
        self._inbox.append(TableRemoved(name, "It is not configured, or not there, any more."))
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Forget a table that is not this daemon's any more; also what a result that came late has brought back."""
        self._worker.forget(name)
        self.jobs.forget(name)
        self._written.pop(name, None)
        self._histories.pop(name, None)
        self._failures.forget(name)
        self._examinations.known.forget(name)
        self._comparisons.known.forget(name)
        self._metrics.keep({name: table.shown_as for name, table in self._tables.items()})

    # ----------------------------------------------------------------------------------------------- leases

    def _leases_kept(self, changes: LeaseChanges) -> None:
        wanted_again = self._lease_keeping.end()
        if changes.problem is None:
            self._leases_kept_once = True
            self._recorder.answered()
            self._daemons = changes.daemons
            self._watching_leases = changes.is_watching
        else:
            self._recorder.failed(changes.problem)
        held = self._leases.held
        gained = [table for table in changes.gained if table in held]  # it may have run out since
        for table in gained:
            self._metrics.lease_gained()
            self._inbox.append(LeaseGained(table))
        if gained:
            self._recorder.end_jobs_of_others(frozenset(gained))
        self._examinations.known.keep(held & self._tables.keys())
        self._comparisons.known.keep(held & self._tables.keys())
        for table, why in changes.lost.items():
            self._lose_lease(table, why)
        for table, holder in changes.held_by.items():
            if self._held_by.get(table) != holder and table not in changes.lost:
                self._inbox.append(LeaseEnded(table, f"Another Lakeward holds the table's lease: {holder}."))
        if changes.problem is None:
            self._held_by = changes.held_by
        if wanted_again:  # a table was added while the store was asked
            self.keep_leases()

    def _leases_not_kept(self, error: Exception) -> None:
        self._lease_keeping.end()
        self._recorder.failed(error)

    def _lose_lease(self, table: str, why: str) -> None:
        self._metrics.lease_lost()
        self._drop_unless_held(table)
        self._inbox.append(LeaseEnded(table, why))

    def _drop_unless_held(self, table: str) -> None:
        """What we saw of another daemon's table grows old, and is not to be shown as the table's state."""
        if table not in self._leases.held:
            self._worker.forget(table)

    # --------------------------------------------------------------------------------------------- controls

    def _controls_read(self, controls: Sequence[ControlRecord]) -> None:
        self._controls_reading.end()
        self._recorder.answered()
        self._hear_controls(controls)

    def _controls_not_read(self, error: Exception) -> None:
        self._controls_reading.end()
        self._recorder.failed(error)

    def _hear_controls(self, controls: Sequence[ControlRecord]) -> None:
        now = self._clock.now()
        self._inbox.extend(self._controls.update(controls, now))
        for control, all_know in self._controls.cancels(now):
            outcome = self._cancel(control, all_know=all_know)
            if outcome is not None and control.id is not None:
                self._controls.end(control)
                self._recorder.end_control(control.id, outcome)

    def _cancel(self, control: ControlRecord, *, all_know: bool) -> str | None:
        """What happened to it; None while it is for another daemon, or for all of them. What runs on a table or a group
        of tables is stopped by the scheduler."""
        if control.target_kind is StoredTarget.JOB:
            watch = self.jobs.watch(control.target)
            if watch is not None:
                watch.stop(f"{control.by or 'An operator'} cancelled it: {control.reason}")
                return "The job was asked to stop."
            return "No daemon runs such a job any more." if all_know else None
        if control.target_kind is StoredTarget.GROUP:
            return "Every daemon was asked to stop the group's jobs." if all_know else None
        if control.target in self._leases.held:
            return "The table's jobs were asked to stop."
        return "No daemon services that table." if all_know else None

    def _foreign_seen(self, resume: ControlRecord) -> str | None:
        """The instant at which the table was resumed, in its own zone; None while that is not known."""
        cache = self._worker.caches.find(resume.target)
        zone = None if cache is None else cache.zone
        return None if zone is None else format_instant_time(int(resume.at * 1000), zone)

    # ----------------------------------------------------------------------------------------- instructions

    def _carry_out_or_fail(self, instruction: Instruction, now: float) -> None:
        """An instruction that cannot even begin has failed: the scheduler waits for no result that never comes."""
        try:
            self._carry_out(instruction, now)
        except Exception as error:
            problem = self._failures.problem(error, what=type(instruction).__name__)
            match instruction:
                case Poll() | Plan():
                    self._scans.end(instruction.work_id)
                    self._inbox.append(WorkFailed(instruction.table, instruction.work_id, problem))
                case Run():
                    self._job_failed(instruction.job, error)

    def _carry_out(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case Poll():
                self._poll(instruction)
            case Plan():
                self._plan(instruction)
            case Run():
                self._run(instruction.job)
            case Cancel():
                self._stop_work(instruction)
            case Record():
                self._record(instruction, now)

    def _poll(self, poll: Poll) -> None:
        table = self._table(poll.table)
        self._scans.begin(poll.work_id, poll.table, is_plan=False)
        self._submit(
            Lane.SCAN,
            partial(self._worker.poll, table),
            then=partial(self._polled, poll),
            failed=partial(self._scan_failed, poll),
        )

    def _polled(self, poll: Poll, report: PollReport) -> None:
        self._scans.end(poll.work_id)
        if poll.table not in self._tables:
            self._forget(poll.table)
            return
        self._written_of(poll.table).by_writers += report.writer_bytes
        result = PollOutcome.CHANGED if report.changed else PollOutcome.UNCHANGED
        self._metrics.polled(poll.table, result, report.seconds)
        self._metrics.writers_failed(poll.table, len(report.writer_conflicts))
        for each in report.writer_conflicts:
            self._log.warning(
                "a write was rolled back over whose file groups a Lakeward compaction completed",
                table=poll.table,
                write=each.write,
                rollback=each.rollback,
                own=each.by,
            )
        foreign, resumed_at = report.foreign, self._controls.resumed_at(poll.table)
        # After a restart the scheduler does not know what the operator had seen when the table was resumed.
        if foreign is not None and (resumed_at is None or foreign.requested_at > resumed_at):
            self._inbox.append(
                ForeignServiceSeen(
                    poll.table, foreign.time, foreign.action, by=foreign.planner, at=foreign.requested_at
                )
            )
        self._inbox.append(Polled(poll.table, poll.work_id, report.changed))
        self._drop_unless_held(poll.table)
        self._count_storage(poll.table)
        self._examine(poll.table)

    def _plan(self, plan: Plan) -> None:
        table = self._table(plan.table)
        scan = self._scans.begin(plan.work_id, plan.table, is_plan=True)
        self._submit(
            Lane.SCAN,
            partial(self._worker.plan, table, plan.excluded, scan.guard),
            then=partial(self._planned, plan),
            failed=partial(self._scan_failed, plan),
        )

    def _planned(self, plan: Plan, report: PlanReport) -> None:
        self._scans.end(plan.work_id)
        if plan.table not in self._tables:
            self._forget(plan.table)
            return
        self._inbox.append(Planned(plan.table, plan.work_id, report.demand))
        self._metrics.planned(plan.table, report.outcome, report.seconds)
        self._log.debug("planned", table=plan.table, operations=report.demand.operations, seconds=report.seconds)
        self._recorder.planned(plan.table, report)
        self._drop_unless_held(plan.table)
        self._count_storage(plan.table)

    def _count_storage(self, name: str) -> None:
        if not self._stopping and (table := self._tables.get(name)) is not None:
            self._counts.begin(table)

    def _examine(self, name: str) -> None:
        """What is looked at once a day."""
        if not self._stopping and (table := self._tables.get(name)) is not None:
            self._examinations.begin(table, is_busy=name in self.jobs.busy_tables)
            self._comparisons.begin(table)

    def _finding_changed(self, table: str, change: FindingChange) -> None:
        level = self._log.warning if change.has_come and change.grade != "advice" else self._log.info
        level("doctor", table=table, code=change.code, text=change.text)

    def _compared(self, found: ComparedDay) -> None:
        if found.table in self._tables:
            self._metrics.compared(found)

    def _counted(self, table: str, sample: StorageSample) -> None:
        if table in self._tables:
            self._recorder.counted(table, sample)

    def _scan_failed(self, scan: Poll | Plan, error: Exception) -> None:
        self._scans.end(scan.work_id)
        if scan.table not in self._tables:
            self._forget(scan.table)
            return
        if isinstance(scan, Poll):
            self._metrics.polled(scan.table, PollOutcome.FAILED, 0.0)
        self._inbox.append(WorkFailed(scan.table, scan.work_id, self._failures.of_scan(scan.table, error)))
        self._count_storage(scan.table)
        self._examine(scan.table)

    def _run(self, job: Job) -> None:
        table = self._table(job.table)
        log = self._log.bind(table=job.table, job=job.id, service=job.service.value)
        watch = JobWatch(
            job,
            clock=self._clock,
            is_safe=partial(self._leases.is_safe, job.table),
            metrics=self._metrics,
            log=log,
        )
        self.jobs.begin(watch)
        log.info("job began", operations=job.operations, read_bytes=job.read_bytes)
        self._recorder.job_began(job, token=self._leases.token(job.table))
        self._submit(
            Lane.JOB,
            partial(self._worker.run, job, table, guard=watch.guard, observer=watch),
            then=partial(self._job_done, job),
            failed=partial(self._job_failed, job),
        )

    def _report_deleted(self, watch: JobWatch, now: float) -> None:
        if (state := watch.take_deleted()) is not None:
            self._recorder.deleted(watch.job.id, state, at=now)

    def _job_done(self, job: Job, report: JobReport) -> None:
        if report.figures.operations:
            self._spark_problem = None
        self._job_ended(job, report)

    def _job_failed(self, job: Job, error: Exception) -> None:
        # What was foreseen, the line of the job's end says.
        foreseen = is_foreseen(error)
        problem = problem_of(error) if foreseen else self._failures.problem(error, table=job.table, job=job.id)
        if isinstance(error, EngineFailure):
            self._spark_problem = problem.text
        self._job_ended(job, JobReport(JobResult.FAILED, problems=problems_of(error)))

    def _job_ended(self, job: Job, report: JobReport) -> None:
        self._inbox.append(JobEnded(job.id, report))
        if (watch := self.jobs.watch(job.id)) is None:
            return  # it never began, or what follows failed when it was heard of first
        watch.count_seconds()
        self._report_deleted(watch, self._clock.now())
        ended = self.jobs.end(job.id, report, at=self._clock.now())
        cost = cost_record(ended, report, watch.spent)
        if job.table in self._tables:
            self._tables[job.table] = self._tables[job.table].with_cost(cost)
            self._count_job(job, ended, report)
        else:
            self._forget(job.table)
        self._log_job_end(ended, report.instants)
        self._recorder.job_ended(ended, report, cost)
        if self._trace_job is not None:
            self._trace_job(ended, watch.phases)

    def _log_job_end(self, ended: JobRecord, instants: Sequence[str]) -> None:
        assert ended.ended_at is not None, "it has ended"
        log = self._log.bind(table=ended.table, job=ended.id, service=ended.service)
        if ended.error:
            log = log.bind(error=ended.error)
        level = log.info if ended.result in GOOD_ENDS else log.warning
        seconds = round(ended.ended_at - ended.began_at, 3)
        level("job ended", end=ended.result, seconds=seconds, instants=list(instants))

    def _count_job(self, job: Job, ended: JobRecord, report: JobReport) -> None:
        self._written_of(job.table).by_us += report.figures.written_bytes
        self._metrics.job_ended(ended, report.figures)
        if report.cost is not None:
            self._metrics.job_predicted(job.table, report.cost)

    def _stop_work(self, cancel: Cancel) -> None:
        if (watch := self.jobs.watch(cancel.work_id)) is not None:
            watch.stop(cancel.why)
        else:
            self._scans.stop(cancel.work_id, cancel.why)

    def _record(self, record: Record, now: float) -> None:
        level = self._log.warning if record.kind in _WARNINGS else self._log.info
        level(record.kind.value, table=record.table, text=record.text)
        self._failures.recorded(record.table, record.text)
        self._recorder.happened(record, at=now)
        if record.kind is FactKind.STUCK:
            self._metrics.watchdog_fired(record.table, self._scans.stuck_step(record.table))

    # ---------------------------------------------------------------------------------------------- failures

    def _survive(self, call: Callable[[], None]) -> None:
        """What fails here is no work's result: the log says so, and the loop goes on."""
        try:
            call()
        except Exception as error:
            self._failures.problem(error, what="the loop")

    def _submit(
        self, lane: Lane, work: Callable[[], T], *, then: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Have it done, and hear of it whatever happens: a result that we fail to take in counts as a failure."""

        def fail(error: Exception) -> None:
            self._survive(partial(failed, error))

        def take_in(result: T) -> None:
            try:
                then(result)
            except Exception as error:
                fail(error)

        self._runner.submit(lane, work, then=take_in, failed=fail)

    def _table(self, name: str) -> ServedTable:
        table = self._tables.get(name)
        if table is None:  # the scheduler has not heard yet that it was removed
            raise Cancelled(f"Nothing is begun on {name}.", why="It was removed.", remedy="Nothing has to be done.")
        return table

    def _written_of(self, table: str) -> _Written:
        return self._written.setdefault(table, _Written())


_WARNINGS = frozenset(
    {
        FactKind.SCAN_FAILED,
        FactKind.STUCK,
        FactKind.REFUSED,
        FactKind.SERVICE_FAILED,
        FactKind.PARKED,
        FactKind.SHADOW,
    }
)


def limits_of(settings: Settings) -> Limits:
    """What all tables share."""
    service = settings.service
    return Limits(service.jobs_max, service.memory, service.io_per_hour, service.groups)

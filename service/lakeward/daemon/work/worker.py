"""Carries out what the scheduler asks for: polls one table, plans for it, or does one job on it.

    poll   -> watcher                      -> has the timeline changed, did another service work on the table
    plan   -> watcher, daemon/work/table_planner     -> a decision for every file group, and what it would cost
    count  -> services/services            -> what holds the storage, in a work of its own after a poll or a plan
    examine -> services/together/doctor    -> what breaks tables, once a day, in a work of its own after a poll
    compare -> services/compaction/simulation -> a day beside Hudi's default, in a work of its own after a poll
    run    -> execute, through commit      -> committed, nothing, or an error

Every method is called on a thread of its own and returns, or raises, when it is done; nothing here decides what is
done next. What one call leaves for the next is in two places: the watcher's views, and the table's cache
(`daemon/work/table_cache.py`); `forget` empties both.

One at a time, unless a caller takes long: for work that needs much memory for a moment.

When several tables are polled for the first time, or planned, at once, what each leaves for good lies
between what all of them need for a moment only, and the process never gets that memory back: with a hundred tables
of a thousand file groups it was twice as large. Python computes one at a time anyway. What is waited for is the
storage, and one that hangs is not to hold up other tables, so a thread waits for as long as turns are short, and goes
on beside one that is not.

A count goes over all files, so no poll and no plan waits for it, and it comes no sooner than a thousand times of what
the one before took.

Touches: tables, through `execute`; Spark, through a dispatcher.
Keeps:   1. a job stops before it publishes when its lease is not safe any more, or when it was cancelled;
         2. what a table's settings do not allow is refused before its storage is written;
         3. a table of a kind that leaves us no work is no failure, unless its services are named;
         4. counting storage takes no more than a thousandth of a core for each table, and nothing for one that does not
            change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, LakewardError, Refused
from lakeward.base.quantities import DAY_SECONDS
from lakeward.config.permitted_services import permitted_services_of
from lakeward.config.settings import Writers
from lakeward.daemon.log import log_context
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import StorageSample
from lakeward.daemon.work.reports import PlanReport, PollReport
from lakeward.daemon.work.table_cache import TableCaches
from lakeward.daemon.work.table_planner import Dispatchers, TablePlanner
from lakeward.daemon.work.watcher import Watcher
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.format.timeline.instant import Instant, State
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.protocol.lock.lock_choice import open_lock
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.progress import Observer
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.planner import reads_everywhere_of
from lakeward.services.compaction.simulation.comparison import Carried, compare_day
from lakeward.services.compaction.simulation.table_trace import read_trace
from lakeward.services.service import JobOrder, Service, StoredIndexes
from lakeward.services.services import counting_service, load_doctor, load_services
from lakeward.services.together.doctor.diagnosis import Diagnosis, diagnosis_as_json
from lakeward.state.records import ComparedDay, ExaminationRecord
from lakeward.storage.storage import Storage
from lakeward.table.backlog import Backlog
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing_source import listing_source
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import ServiceName, foreign_instants
from lakeward.table.timeline.writer_conflicts import WriterConflict

COUNT_SECONDS_MIN = 60.0
"""Between two counts of a table's storage."""
COUNT_TIMES_ITS_COST = 1000.0

EVIDENCE_MAX = 50
"""Places of a pattern that are remembered, and lines of evidence of each; `lakeward doctor --json` names all."""

TURN_SECONDS = 1.5
"""How long one table keeps others from a first scan or a plan; all threads in a row stay below a poll's deadline."""


class Turn:
    """For any thread."""

    def __init__(self) -> None:
        self._is_free = threading.Condition()
        self._taken_at: float | None = None

    @contextmanager
    def taken(self, *, timeout: float) -> Iterator[None]:
        """Wait for the turn, or until the thread that has it has had it for `timeout` seconds; then go on beside it."""
        is_own = self._take(timeout)
        try:
            yield
        finally:
            if is_own:
                with self._is_free:
                    self._taken_at = None
                    self._is_free.notify()

    def _take(self, timeout: float) -> bool:
        with self._is_free:
            while self._taken_at is not None:
                left = self._taken_at + timeout - time.monotonic()
                if left <= 0:
                    return False
                self._is_free.wait(left)
            self._taken_at = time.monotonic()
            return True


class Worker:
    def __init__(
        self,
        *,
        watcher: Watcher,
        open_storage: Callable[[str], tuple[Storage, str]],
        dispatchers: Dispatchers,
        database: StoredIndexes,
        identity: ServiceName,
        processes: Processes,
        state_folder: Path,
        clock: Clock,
        before_jobs: Callable[[Guard, Observer], None] = lambda guard, observer: None,
        task_at: Callable[[Callable[..., Any], str], Callable[..., Any]] = partial,
    ) -> None:
        """
        Args:
            task_at: from a service's task and a location to that task there, wherever it runs.
            before_jobs: returns when jobs may begin; each job calls it first.
        """
        self._watcher = watcher
        self._open_storage = open_storage
        self._dispatchers = dispatchers
        self._task_at = task_at
        self._database = database
        self._identity = identity
        self._processes = processes
        self._state_folder = state_folder
        self._clock = clock
        self._before_jobs = before_jobs
        self._turn = Turn()
        self._planner = TablePlanner(
            open_storage=open_storage,
            open_serviced=lambda table, guard: self._opened(table, guard, None),
            dispatchers=dispatchers,
            processes=processes,
            database=database,
            clock=clock,
        )
        self.caches = TableCaches()

    # ------------------------------------------------------------------------------------------------- scans

    def poll(self, table: ServedTable) -> PollReport:
        """One listing of the timeline; more only when it changed. Raises what the storage raises."""
        with log_context(table=table.name):
            return self._poll(table)

    def _poll(self, table: ServedTable) -> PollReport:
        started, cache = self._clock.monotonic(), self.caches.of(table.name)
        is_first = not self._watcher.is_watched(table.name)
        with self._turn.taken(timeout=TURN_SECONDS) if is_first else nullcontext():
            polled = self._watcher.poll(
                table.name,
                table.base_path,
                timezone=table.settings.timezone,
                listing=listing_source(table.base_path),
            )
        if polled.changed or not cache.foreign_is_known:
            instants = self._watcher.service_instants(table.name)
            foreign = foreign_instants(instants, self._identity, since=table.serviced_since)
            cache.keep_newest_foreign(max(foreign, key=lambda instant: instant.time, default=None))
        return PollReport(
            polled.changed,
            cache.newest_foreign,
            self._clock.monotonic() - started,
            polled.writer_bytes,
            () if is_first else self._writer_conflicts(table, polled.instants),
        )

    def _writer_conflicts(self, table: ServedTable, instants: Iterable[Instant]) -> tuple[WriterConflict, ...]:
        rollbacks = [each for each in instants if each.action == "rollback" and each.state is State.COMPLETED]
        return self._watcher.writer_conflicts(table.name, rollbacks) if rollbacks else ()

    def plan(self, table: ServedTable, excluded: Mapping[GroupId, Reason], guard: Guard) -> PlanReport:
        """Decide for every file group, on what the last poll saw. Writes nothing. Raises `Refused`."""
        with log_context(table=table.name), self._turn.taken(timeout=TURN_SECONDS):
            return self._plan(table, excluded, guard)

    def _plan(self, table: ServedTable, excluded: Mapping[GroupId, Reason], guard: Guard) -> PlanReport:
        started, cache = self._clock.monotonic(), self.caches.of(table.name)
        snapshot = self._watcher.snapshot(table.name)
        cache.keep_plan_facts(self._watcher.backlog(table.name), snapshot.zone.zone)
        report = self._planner.plan(table, cache, snapshot, excluded, guard)
        return replace(report, seconds=self._clock.monotonic() - started)

    def is_count_due(self, table: str) -> bool:
        """The table changed since its storage was counted, and that is long enough ago."""
        cache = self.caches.find(table)
        if _COUNTING is None or cache is None or not cache.storage_is_behind:
            return False
        return self._clock.monotonic() >= cache.storage_due_at

    def count(self, table: ServedTable) -> StorageSample | None:
        """Count what holds the table's storage, on what the last poll saw; None where that cannot be read, which plans
        and jobs say."""
        cache = self.caches.find(table.name)
        if cache is None or _COUNTING is None:
            return None
        with log_context(table=table.name), self._turn.taken(timeout=TURN_SECONDS):
            cache.begin_storage_count()
            began, snapshot = self._clock.monotonic(), self._watcher.snapshot(table.name)
            care = table.care_of(_COUNTING, cache.memory(_COUNTING.kind), {})
            try:
                held = _COUNTING.count(self._planner.facts(table, snapshot, None), care)
            except LakewardError:
                return None
            sample = StorageSample(self._clock.now(), held)
            took = self._clock.monotonic() - began
            cache.keep_storage(sample, due_at=began + max(COUNT_SECONDS_MIN, took * COUNT_TIMES_ITS_COST))
            return sample

    def examine(self, table: ServedTable, guard: Guard) -> ExaminationRecord:
        """Look for all that the doctor knows and that reads no rows. Raises what the guard raises."""
        with log_context(table=table.name):
            with self._turn.taken(timeout=TURN_SECONDS):
                serviced = self._opened(table, guard, None)
                shares_lock = table.locks.writers is Writers.SHARE
                diagnosis: Diagnosis = load_doctor()(serviced, shares_lock=shares_lock, guard=guard)
            at = self._clock.now()
            if not diagnosis.found and not diagnosis.absent:
                return ExaminationRecord(at, problem=diagnosis.failed[0].why)
            return ExaminationRecord(at, at, diagnosis_as_json(serviced.base_path, diagnosis, most=EVIDENCE_MAX))

    def compare(self, table: ServedTable, day: int, before: ComparedDay | None, guard: Guard) -> ComparedDay | None:
        """A day of a table that is over, beside Hudi's default; None for a table without logs. Raises what the guard
        raises.

        Args:
            before: the day before it; None where nothing is known of that.
        """
        begins, ends = round(day * DAY_SECONDS * 1000), round((day + 1) * DAY_SECONDS * 1000)
        carried = Carried(begins)
        if before is not None and before.carried is not None:
            carried = Carried(**before.carried)
        with log_context(table=table.name):
            with self._turn.taken(timeout=TURN_SECONDS):
                snapshot = self._watcher.snapshot(table.name)
            if not snapshot.config.is_merge_on_read:
                return None
            storage, _ = self._open_storage(table.base_path)
            now = self._clock.now()
            try:
                last = now - carried.merged_at / 1000
                trace = read_trace(storage, snapshot, last_seconds=last, now=now, on_step=lambda text: guard())
                found = compare_day(
                    trace.between(carried.merged_at, ends),
                    carried,
                    begins=begins,
                    reads_per_day=reads_everywhere_of(table.settings.planner),
                    on_step=lambda done: guard(),
                )
            except (Refused, BrokenFile) as error:
                return ComparedDay(table.name, day, now, problem=error.why or error.what)
        return ComparedDay(
            table.name,
            day,
            now,
            written_bytes=found.happened.written_bytes,
            hudi_written_bytes=found.hudi.written_bytes,
            job_seconds=found.happened.job_seconds,
            hudi_job_seconds=found.hudi.job_seconds,
            reader_seconds=found.happened.reader_seconds,
            hudi_reader_seconds=found.hudi.reader_seconds,
            storage_bytes=found.happened.storage_bytes,
            hudi_storage_bytes=found.hudi.storage_bytes,
            real_bytes=found.real_bytes,
            modelled_bytes=found.modelled_bytes,
            carried=found.carried.as_json(),
        )

    def free_dead_locks(self, table: ServedTable) -> None:
        """Free locks of a table that another daemon services: it may not judge processes of this host, and would wait
        for ever.
        """
        storage, base_path = self._open_storage(table.base_path)
        open_lock(
            storage,
            base_path,
            self._processes.new_owner(),
            table.locks.options,
            clock=self._clock,
            processes=self._processes,
        ).free_dead()

    # -------------------------------------------------------------------------------------------------- jobs

    def run(self, job: Job, table: ServedTable, *, guard: Guard, observer: Observer) -> JobReport:
        """Do the job. Raises what went wrong; then nothing of it was published after the error."""
        with log_context(table=table.name, job=job.id):
            try:
                self._before_jobs(guard, observer)
                return self._serve(table, job, guard, observer)
            except Refused:
                # A recovery is the first job of any table, and comes before the plan that says which services go on.
                if job.service is not JobKind.RECOVERY or self._is_refused(table):
                    raise
                return JobReport(JobResult.NOTHING)

    def _is_refused(self, table: ServedTable) -> bool:
        """No service of the table may run; also true where the table is not what refuses."""
        self._poll(table)
        snapshot = self._watcher.snapshot(table.name)
        permitted = permitted_services_of(table.settings, snapshot, beside_writers=table.is_beside_writers)
        return permitted.is_refused or not (permitted.no_work or JobKind.COMPACTION in permitted.stopped)

    def _serve(self, table: ServedTable, job: Job, guard: Guard, observer: Observer) -> JobReport:
        service, cache = _SERVICES[job.service], self.caches.of(table.name)
        backlog, settings = cache.backlog, table.settings
        if service.jobs[job.service].writes:
            self._check_may_write(table)
        care = table.care_of(service, cache.memory(service.kind), job.excluded, self._identity.as_metadata())
        _, base_path = self._open_storage(table.base_path)
        order = JobOrder(
            job.service,
            job.expired_plans,
            choose=self._choosing(table, job),
            task=lambda task: self._task_at(task, base_path),
            scanned=partial(self._watcher.snapshot, table.name),
            doubt=partial(self._watcher.doubt, table.name),
            bytes_of=lambda groups: _bytes_of(cache.backlog, file_groups=groups),
            table_bytes=0 if backlog is None else backlog.base_bytes + backlog.log_bytes,
            here=partial(self._dispatchers.here, memory_bytes=settings.memory, permit_bytes=job.memory_bytes),
            database=self._database,
            unsampled=cache.unsampled,
        )
        return service.run(self._opened(table, guard, observer), care, order)

    def _opened(self, table: ServedTable, guard: Guard, observer: Observer | None) -> ServicedTable:
        """One attempt of Lakeward at the table."""
        storage, base_path = self._open_storage(table.base_path)
        return ServicedTable.for_one_attempt(
            storage,
            base_path,
            self._options(table, base_path),
            clock=self._clock,
            processes=self._processes,
            observer=observer,
            guard=guard,
        )

    def _check_may_write(self, table: ServedTable) -> None:
        if table.locks.why_nothing_is_written is not None:
            raise Refused(
                f"Nothing was said about the other writers of {table.name}.",
                why="A service beside a writer that does not share its lock can lose that writer's rows.",
                remedy='Set locks.writers to "share" or "stopped" for this table in the configuration.',
            )

    def _choosing(self, table: ServedTable, job: Job) -> Callable[[int], Dispatcher]:
        """From what a plan reads to what runs it, within what the job may take."""
        return partial(self._dispatchers.choose, memory_bytes=table.settings.memory, permit_bytes=job.memory_bytes)

    def _options(self, table: ServedTable, base_path: str) -> CompactionOptions:
        settings = table.settings
        return CompactionOptions(
            writers_stopped=table.locks.writers is Writers.STOPPED,
            lock=table.locks.options,
            yielding=table.locks.yielding,
            wait_seconds=0.0,  # a daemon comes back instead of waiting on a thread
            silent_after=settings.silent_after,
            timezone=settings.timezone,
            listing=listing_source(base_path),
            codec=settings.codec.value,
            verify=settings.verify,
            memory_bytes=settings.memory,
            state_folder=self._state_folder,
        )

    # ----------------------------------------------------------------------------------------------- caches

    def snapshot(self, table: str) -> TableSnapshot | None:
        """The snapshot as of the last poll; None before the first plan. Waits for a poll that is under way."""
        cache = self.caches.find(table)
        return None if cache is None or cache.backlog is None else self._watcher.snapshot(table)

    def forget(self, table: str) -> None:
        self._watcher.forget(table)
        self.caches.forget(table)


_COUNTING = counting_service()
_SERVICES: Mapping[JobKind, Service[Any]] = {kind: service for service in load_services() for kind in service.jobs}


def _bytes_of(backlog: Backlog | None, *, file_groups: int) -> int:
    """The bytes of so many of a table's file groups, on average."""
    if backlog is None or not backlog.file_groups:
        return 0
    return (backlog.base_bytes + backlog.log_bytes) * file_groups // backlog.file_groups

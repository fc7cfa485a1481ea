"""Carries out what the scheduler asks for: looks at one table, plans for it, or does one job on it.

    poll   -> watcher                      -> has the timeline changed, did somebody else service the table
    plan   -> watcher, planner (pure)      -> a decision for every file group, and what it would cost
    run    -> execute, through commit      -> committed, nothing, or an error

Every method is called on a thread of its own and returns, or raises, when it is done; nothing here decides what is
done next, and nothing is remembered between two calls but what the watcher knows.

Touches: tables, through `execute`; Spark, through a dispatcher.
Keeps:   1. a job stops before it publishes when its lease is not safe any more, or when it was cancelled;
         2. what a table's settings do not allow is refused before its storage is written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakeward.clock import Clock
from lakeward.commit.lock import open_lock
from lakeward.commit.owner import Processes
from lakeward.daemon.config import Writers
from lakeward.daemon.events import Job, JobResult, Problem, ProblemKind, Service, Wish
from lakeward.daemon.log import log_context
from lakeward.daemon.problem import problem_of
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import JobFigures
from lakeward.daemon.turn import Turn
from lakeward.daemon.watcher import Watcher
from lakeward.dispatch.dispatcher import Dispatcher
from lakeward.errors import BrokenFile, LakewardError, Refused, Unsupported, VerificationFailed
from lakeward.execute.compaction import CompactionReport, Compactor
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.merging import RunOperation
from lakeward.execute.metadata_trigger import look_at_trigger, service_metadata
from lakeward.execute.observation import observe_plans
from lakeward.execute.operation_spec import OperationKind
from lakeward.execute.pending_work import pending_work
from lakeward.execute.progress import Observer
from lakeward.execute.refusal import refuse
from lakeward.execute.sample_verification import RunCheck, verify_sample
from lakeward.execute.serviced_table import Guard, zone_of
from lakeward.execute.unscheduling import Unscheduled
from lakeward.format.instant import format_instant_time, parse_instant_time
from lakeward.plan.decision import PlanOutcome, Reason
from lakeward.plan.eligibility import find_refusals
from lakeward.plan.metadata_trigger import MetadataTrigger
from lakeward.plan.planner import planner_of
from lakeward.state.records import ObservedPlan
from lakeward.storage.storage import Storage
from lakeward.table.backlog import Backlog
from lakeward.table.file_group import LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing import listing_source
from lakeward.table.service_instants import ServiceInstant, ServiceName, foreign_instants
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline_reader import Memory

if TYPE_CHECKING:
    from lakeward.execute.metadata_services import MetadataDone

FIRST_LOOK_PATIENCE_SECONDS = 10.0
PLAN_PATIENCE_SECONDS = 1.0
"""Commits wait for their plan, so it waits for others no longer than this."""

COMMITTED_MAX = 1000
"""Instants that are remembered for the next sample; older ones have long been compacted again."""


class Dispatchers(Protocol):
    """Where data jobs run."""

    @property
    def at_once(self) -> int:
        """How many operations of a job run at the same time, at most."""

    def choose(self, input_bytes: int) -> Dispatcher:
        """By what a plan reads."""


@dataclass(frozen=True, slots=True)
class PollAnswer:
    changed: bool
    foreign: ServiceInstant | None
    """The newest instant by which somebody else serviced the table."""
    seconds: float
    writer_bytes: int = 0
    """Written by writers since the poll before."""


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    outcome: PlanOutcome
    pending: tuple[ObservedPlan, ...]
    """Plans on the timeline, whoever made them."""
    wish: Wish
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class JobReport:
    result: JobResult
    figures: JobFigures = field(default_factory=JobFigures)
    instants: tuple[str, ...] = ()
    """Of the plans that were brought to an end."""
    problems: tuple[Problem, ...] = ()
    """File groups that went wrong while the rest went on."""


class Worker:
    def __init__(
        self,
        *,
        watcher: Watcher,
        open_storage: Callable[[str], tuple[Storage, str]],
        dispatchers: Dispatchers,
        run_operation_at: Callable[[str], RunOperation],
        run_check_at: Callable[[str], RunCheck],
        identity: ServiceName,
        processes: Processes,
        state_folder: Path,
        clock: Clock,
    ) -> None:
        """
        Args:
            run_operation_at: from a base path to what runs one operation there, wherever that is.
            run_check_at: the same for the check of one file slice.
        """
        self._watcher = watcher
        self._open_storage = open_storage
        self._dispatchers = dispatchers
        self._run_operation_at = run_operation_at
        self._run_check_at = run_check_at
        self._identity = identity
        self._processes = processes
        self._state_folder = state_folder
        self._clock = clock
        self._unmergeable: dict[str, dict[GroupId, _Unmergeable]] = {}
        self._backlogs: dict[str, Backlog | None] = {}
        self._turn = Turn()
        self._foreign: dict[str, ServiceInstant | None] = {}
        """The newest of each table, as of the last poll that found a change."""
        self._zones: dict[str, tzinfo | None] = {}
        self._metadata_plans: dict[str, Memory] = {}
        """By table: plans on the timeline of its metadata table that were read."""
        self._committed: dict[str, list[str]] = {}
        """By table: instants of ours that no sample was taken from yet."""

    # ------------------------------------------------------------------------------------------------- looks

    def poll(self, table: ServedTable) -> PollAnswer:
        """One listing of the timeline; more only when it changed. Raises what the storage raises."""
        with log_context(table=table.name):
            return self._poll(table)

    def _poll(self, table: ServedTable) -> PollAnswer:
        started = self._clock.monotonic()
        is_first = not self._watcher.is_watched(table.name)
        with self._turn.taken(patience=FIRST_LOOK_PATIENCE_SECONDS) if is_first else nullcontext():
            polled = self._watcher.poll(
                table.name,
                table.base_path,
                timezone=table.settings.timezone,
                listing=listing_source(table.base_path, table.settings.listing),
            )
        if polled.changed or table.name not in self._foreign:
            instants = self._watcher.service_instants(table.name)
            foreign = foreign_instants(instants, self._identity, watched_since=table.watched_since)
            self._foreign[table.name] = max(foreign, key=lambda instant: instant.time, default=None)
        newest = self._foreign[table.name]
        return PollAnswer(polled.changed, newest, self._clock.monotonic() - started, polled.writer_bytes)

    def plan(self, table: ServedTable, left_alone: Mapping[GroupId, Reason], guard: Guard) -> PlanAnswer:
        """Decide for every file group, on what the last poll saw. Writes nothing. Raises `Refused`."""
        with log_context(table=table.name), self._turn.taken(patience=PLAN_PATIENCE_SECONDS):
            return self._plan(table, left_alone, guard)

    def _plan(self, table: ServedTable, left_alone: Mapping[GroupId, Reason], guard: Guard) -> PlanAnswer:
        started = self._clock.monotonic()
        snapshot = self._watcher.snapshot(table.name)
        self._backlogs[table.name] = self._watcher.backlog(table.name)
        self._zones[table.name] = snapshot.zone.zone
        refuse(table.base_path, find_refusals(snapshot))
        guard()
        now = self._clock.now()
        planner = planner_of(table.settings.type, table.group_filter, table.settings.planner)
        at = format_instant_time(int(now * 1000), zone_of(snapshot))
        outcome = planner(snapshot, at, {**self._unmergeable_now(table.name, snapshot), **left_alone})
        wish = self._wish(table, snapshot, outcome, left_alone, now)
        pending = tuple(observe_plans(snapshot))
        return PlanAnswer(outcome, pending, wish, now, self._clock.monotonic() - started)

    def _wish(
        self,
        table: ServedTable,
        snapshot: TableSnapshot,
        outcome: PlanOutcome,
        left_alone: Mapping[GroupId, Reason],
        now: float,
    ) -> Wish:
        # A plan of another engine that holds a group to leave alone is neither carried out nor taken back: no work.
        pending = [work for work in pending_work(snapshot) if work.is_ours or left_alone.keys().isdisjoint(work.groups)]
        expired = tuple(
            work.instant
            for work in pending
            if work.is_ours and _age(work.instant, zone_of(snapshot), now) > table.settings.plan_expiry
        )
        # Those that expired are work, too: where one cannot be taken back, it is to be carried out.
        operations = [*outcome.operations, *(operation for work in pending for operation in work.plan.operations)]
        at_once = min(len(operations), self._dispatchers.at_once)
        metadata = self._metadata_trigger(table, snapshot)
        backlog = self.backlog(table.name)
        return Wish(
            operations=len(operations),
            read_bytes=sum(operation.read_bytes for operation in operations),
            write_bytes=sum(operation.write_bytes for operation in operations),
            benefit=float(sum(decision.numbers.get("saved_bytes", 0) for decision in outcome.decisions)),
            oldest_unmerged_at=backlog.oldest_unmerged_at if backlog is not None else None,
            expired_plans=expired,
            memory_bytes=at_once * table.settings.memory,
            metadata=metadata,
        )

    def _metadata_trigger(self, table: ServedTable, snapshot: TableSnapshot) -> MetadataTrigger | None:
        storage, base_path = self._open_storage(table.base_path)
        try:
            return look_at_trigger(
                storage,
                base_path,
                snapshot.config,
                after=table.settings.metadata_compact_after,
                clock=self._clock,
                memory=self._metadata_plans.setdefault(table.name, {}),
            )
        except (Unsupported, BrokenFile):
            return None  # what cannot be read is not compacted; a compaction of the table, which writes to it, says why

    def free_dead_locks(self, table: ServedTable) -> None:
        """Of a table that another daemon services: it may not judge processes of this host, and would wait for ever."""
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
            return self._run(job, table, guard, observer)

    def _run(self, job: Job, table: ServedTable, guard: Guard, observer: Observer) -> JobReport:
        match job.service:
            case Service.RECOVERY:
                undone = self._compactor(table, job, guard, observer).recover().undone
                done = tuple(attempt.instant for attempt in undone)
                return JobReport(JobResult.COMMITTED if done else JobResult.NOTHING, instants=done)
            case Service.PLAN_EXPIRY:
                return self._expire_plans(self._compactor(table, job, guard, observer), job)
            case Service.COMPACTION:
                compactor = self._compactor(table, job, guard, observer)
                report = compactor.compact()
                compacted = _compacted(report)
                self._learn(table.name, report)
                if report.damage:
                    self._watcher.doubt(table.name)
                written = [*self._committed.get(table.name, ()), *compacted.instants]
                self._committed[table.name] = written[-COMMITTED_MAX:]
                return compacted
            case Service.METADATA:
                return self._service_metadata(table, guard, observer)
            case Service.VERIFICATION:
                return self._verify(table, guard)

    def _check_may_write(self, table: ServedTable) -> None:
        if table.locks.why_nothing_is_written is not None:
            raise Refused(
                f"Nothing was said about the other writers of {table.name}.",
                why="A compaction beside a writer that does not share its lock can lose that writer's rows.",
                remedy='Set locks.writers to "share" or "stopped" for this table in the configuration.',
            )

    def _compactor(self, table: ServedTable, job: Job, guard: Guard, observer: Observer) -> Compactor:
        self._check_may_write(table)
        storage, base_path = self._open_storage(table.base_path)
        settings = table.settings
        return Compactor(
            storage,
            base_path,
            self._options(table, base_path),
            planner=planner_of(settings.type, table.group_filter, settings.planner),
            choose_dispatcher=self._dispatchers.choose,
            run_operation=self._run_operation_at(base_path),
            clock=self._clock,
            processes=self._processes,
            observer=observer,
            guard=guard,
            left_alone=job.left_alone,
            planned_by=self._identity.as_metadata(),
        )

    def _options(self, table: ServedTable, base_path: str) -> CompactionOptions:
        settings = table.settings
        return CompactionOptions(
            writers_stopped=table.locks.writers is Writers.STOPPED,
            lock=table.locks.options,
            wait_seconds=0.0,  # a daemon comes back instead of waiting on a thread
            timezone=settings.timezone,
            listing=listing_source(base_path, settings.listing),
            codec=settings.codec.value,
            verify=settings.verify,
            memory_bytes=settings.memory,
            state_folder=self._state_folder,
        )

    def _service_metadata(self, table: ServedTable, guard: Guard, observer: Observer) -> JobReport:
        """What stands against it passes, and is no failure of the job."""
        self._check_may_write(table)
        storage, base_path = self._open_storage(table.base_path)
        report = service_metadata(
            storage,
            base_path,
            self._options(table, base_path),
            after=table.settings.metadata_compact_after,
            clock=self._clock,
            processes=self._processes,
            observer=observer,
            guard=guard,
            planned_by=self._identity.as_metadata(),
        )
        if isinstance(report.left, VerificationFailed):
            raise report.left
        if report.left is not None:
            return JobReport(JobResult.NOTHING, problems=(problem_of(report.left),))
        return _serviced(report.done)

    def _expire_plans(self, compactor: Compactor, job: Job) -> JobReport:
        ended = [compactor.unschedule(instant) for instant in job.expired_plans]
        gone = tuple(each.instant for each in ended if isinstance(each, Unscheduled))
        return JobReport(JobResult.COMMITTED if gone else JobResult.NOTHING, instants=gone)

    def _verify(self, table: ServedTable, guard: Guard) -> JobReport:
        storage, base_path = self._open_storage(table.base_path)
        lately = self._committed.get(table.name, [])
        number = table.settings.verification_groups
        report = verify_sample(
            storage,
            base_path,
            number=number,
            seed=random.SystemRandom().getrandbits(32),
            dispatcher=self._dispatchers.choose(self._bytes_of(table.name, file_groups=number)),
            run_check=self._run_check_at(base_path),
            clock=self._clock,
            timezone=table.settings.timezone,
            lately=lately,
            memory_bytes=table.settings.memory,
            guard=guard,
        )
        self._committed.pop(table.name, None)  # not before: a sample that failed is taken again
        problems = tuple(Problem(ProblemKind.VERIFICATION, problem.what, problem.group) for problem in report.problems)
        wrong = len({problem.group for problem in report.problems})
        figures = JobFigures(groups_verified=len(report.groups), groups_mismatched=wrong)
        return JobReport(JobResult.COMMITTED if report.groups else JobResult.NOTHING, figures, problems=problems)

    def _bytes_of(self, table: str, *, file_groups: int) -> int:
        """Of so many of the table's file groups, on average."""
        backlog = self.backlog(table)
        if backlog is None or not backlog.file_groups:
            return 0
        return (backlog.base_bytes + backlog.log_bytes) * file_groups // backlog.file_groups

    # ------------------------------------------------------------------------------------------------ memory

    def snapshot(self, table: str) -> TableSnapshot | None:
        """As of the last poll; None before the first plan. May wait for a look that is under way."""
        return self._watcher.snapshot(table) if self.backlog(table) is not None else None

    def backlog(self, table: str) -> Backlog | None:
        """As of the last plan; None before the first. Waits for nobody."""
        return self._backlogs.get(table)

    def time_in_zone_of(self, table: str, at: float) -> str | None:
        """The instant at that time, as the table spells it; None while its zone is not known. Waits for nobody."""
        zone = self._zones.get(table)
        return None if zone is None else format_instant_time(int(at * 1000), zone)

    def forget(self, table: str) -> None:
        self._watcher.forget(table)
        self._backlogs.pop(table, None)
        self._foreign.pop(table, None)
        self._zones.pop(table, None)
        self._unmergeable.pop(table, None)
        self._metadata_plans.pop(table, None)
        self._committed.pop(table, None)

    def _learn(self, table: str, report: CompactionReport) -> None:
        """A job opened logs that it then could not merge; the next plan need not ask for them again."""
        found = {
            (decision.partition_path, decision.file_id): decision.reason
            for decision in report.outcome.decisions
            if decision.reason in _FOUND_IN_LOGS
        }
        self._unmergeable.pop(table, None)
        if not found:
            return
        try:
            slices = self._watcher.snapshot(table).latest_slices
        except (LakewardError, OSError):
            return  # the job is committed all the same, and the next one finds these logs again
        logs = {slice_.group_id: frozenset(slice_.log_files) for slice_ in slices}
        self._unmergeable[table] = {
            group_id: _Unmergeable(reason, logs[group_id]) for group_id, reason in found.items() if group_id in logs
        }

    def _unmergeable_now(self, table: str, snapshot: TableSnapshot) -> dict[GroupId, Reason]:
        """What was learned, of groups whose logs are still there."""
        known = self._unmergeable.get(table)
        if not known:
            return {}
        return {
            slice_.group_id: found.reason
            for slice_ in snapshot.latest_slices
            if (found := known.get(slice_.group_id)) is not None and found.logs <= frozenset(slice_.log_files)
        }


_FOUND_IN_LOGS = frozenset({Reason.UNSUPPORTED_LOGS, Reason.PARTIAL_UPDATES})
"""Reasons that only the blocks of a log can tell; planning does not open them."""


@dataclass(frozen=True, slots=True)
class _Unmergeable:
    reason: Reason
    logs: frozenset[LogFile]


def _compacted(report: CompactionReport) -> JobReport:
    done = [plan for plan in report.plans if plan.completion_time is not None]
    operations = [operation for plan in done for operation in plan.operations]
    counts = [operation.counts for operation in operations]
    figures = JobFigures(
        full_operations=sum(operation.kind is OperationKind.FULL for operation in operations),
        log_operations=sum(operation.kind is OperationKind.LOG for operation in operations),
        read_bytes=sum(operation.input_bytes for operation in operations),
        written_bytes=sum(operation.size_bytes for operation in operations),
        log_files=sum(count.log_files for count in counts),
        log_bytes=sum(plan.merged_log_bytes for plan in done),
        rows_written=sum(count.rows for count in counts),
        rows_inserted=sum(count.inserted for count in counts),
        rows_updated=sum(count.updated for count in counts),
        rows_deleted=sum(count.deleted for count in counts),
        peak_memory_bytes=max((plan.peak_memory_bytes for plan in done), default=0),
        operations_verified=sum(bool(operation.digest) for operation in operations),
    )
    ended = (*(plan.instant for plan in report.plans), *(gone.instant for gone in report.unscheduled))
    # A plan that the job itself made and that came to nothing is no progress: the next plan would wish it again.
    achieved = report.unscheduled or any(plan.completion_time is not None or plan.recovered for plan in report.plans)
    return JobReport(JobResult.COMMITTED if achieved else JobResult.NOTHING, figures, ended)


def _serviced(done: MetadataDone | None) -> JobReport:
    """None where somebody else did it meanwhile."""
    made = [] if done is None else [each for each in (done.clean, done.compaction) if each is not None]
    if done is None or not made:
        return JobReport(JobResult.NOTHING)
    compaction = done.compaction
    figures = JobFigures(
        read_bytes=compaction.input_bytes if compaction else 0,
        written_bytes=compaction.output_bytes if compaction else 0,
    )
    return JobReport(JobResult.COMMITTED, figures, tuple(each.instant for each in made))


def _age(instant: str, zone: tzinfo, now: float) -> float:
    """Seconds since an instant was requested."""
    return now - parse_instant_time(instant, zone) / 1000

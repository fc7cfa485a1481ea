"""What the daemon writes to its store, and asks of it: jobs, plans, events, parkings, each after it happened.

    loop --what happened--> outbox --in order--> the store's lane --> store
                                       ^------- did not answer -------'

A store that is away delays remembering and nothing else: what waits is kept, up to a bound, and one sentence says
what is wrong with the store until it answers again.

Touches: the store, on its own lane; all else on the loop's thread.
Keeps:   1. the loop never waits for the store;
         2. letters are taken in the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from structlog.stdlib import BoundLogger

from lakeward.base.clock import Clock
from lakeward.base.quantities import format_month
from lakeward.config.job_card import detail_of
from lakeward.config.job_summary import summarise_job
from lakeward.daemon.history.outbox import Letter, Outbox, Sent, send
from lakeward.daemon.runner import Lane
from lakeward.daemon.scheduling.events import FactKind, Record
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.served_table import COSTS_MAX, ServedTable
from lakeward.daemon.status import JobEnd, JobProgress, JobSpent, StorageSample
from lakeward.daemon.work.reports import PlanReport
from lakeward.protocol.job_report import JobReport, WorkProblem
from lakeward.protocol.problem import problem_of
from lakeward.protocol.progress import DeletedSoFar
from lakeward.services.compaction.plan.decision import REASONS_OF_COST, Decision
from lakeward.services.compaction.plan.learned_reads import DAYS_MAX, LearnedReads, day_of_time, learn
from lakeward.state.records import (
    AttemptRecord,
    CleanerProgress,
    ComparedDay,
    ControlRecord,
    CostRecord,
    DecisionRecord,
    EventRecord,
    ExaminationRecord,
    JobRecord,
    ParkedRecord,
    StorageRecord,
    Watched,
)
from lakeward.state.store import Store

T = TypeVar("T")

REMEMBERED_MAX = 10_000
"""Facts that may wait for the store, beside one planning a table; each is small. Beyond it the oldest are dropped."""

JOBS_REMEMBERED = 50
"""Jobs of a table that are read when it is added: enough to find its last ones of each service."""

GONE_SECONDS = 3600.0
"""A daemon that has not said for so long that it lives does not run the jobs any more that it began."""


_FAILURES = frozenset[str]({JobEnd.FAILED, JobEnd.REFUSED, JobEnd.VERIFICATION})


FINDING, FINDING_GONE = "finding", "finding-gone"
"""Kinds of events: the doctor found a pattern, or it found no more one that the table had."""


class FindingText(Protocol):
    """A finding of the doctor that came or went, as an event says it."""

    @property
    def has_come(self) -> bool: ...

    @property
    def text(self) -> str: ...


class Submit(Protocol):
    def __call__(
        self, lane: Lane, work: Callable[[], T], *, then: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Have `work` done elsewhere, and hear of it on the loop's thread whatever happens."""


class ReportProblem(Protocol):
    def __call__(self, error: Exception, **about: str) -> WorkProblem:
        """Log what went wrong, and say what it means."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store said of a table when it was added."""

    watched: Watched
    jobs: Sequence[JobRecord]
    """Newest first."""
    parked: Sequence[ParkedRecord]
    controls: Sequence[ControlRecord]
    costs: tuple[CostRecord, ...] = ()
    """What its newest jobs took of which that was predicted, oldest first."""
    learned: LearnedReads | None = None
    """How often readers read it."""
    cost_since: float | None = None
    """When it was first to be planned by cost."""


class Recorder:
    def __init__(
        self, store: Store, holder: str, *, submit: Submit, problem: ReportProblem, clock: Clock, log: BoundLogger
    ) -> None:
        """`holder` is this daemon's name in the store."""
        self._store = store
        self._holder = holder
        self._submit = submit
        self._problem = problem
        self._clock = clock
        self._log = log
        self._outbox = Outbox(REMEMBERED_MAX)
        self.store_problem: str | None = None
        """Why the store does not answer; None while it does."""

    @property
    def is_settled(self) -> bool:
        """Everything is remembered, or cannot be now."""
        return self._outbox.is_empty or self._outbox.is_blocked

    # ----------------------------------------------------------------------------------------------- asking

    def ask(
        self,
        ask: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Have the store asked, after what waits for it now."""
        self._submit(Lane.STORE, ask, then=then, failed=failed or self.failed)

    def ask_for_controls(
        self, then: Callable[[Sequence[ControlRecord]], None], failed: Callable[[Exception], None]
    ) -> None:
        self.ask(partial(self._store.controls.in_force, self._clock.now()), then, failed)

    def recall(self, name: str, base_path: str, *, is_serviced: bool, by_cost: bool) -> Remembered:
        """What is known of a table that is watched from now on. On the store's lane, by `ask`."""
        now = self._clock.now()
        since = now if is_serviced else None
        watched = self._store.observations.watch(name, base_path, now, serviced_since=since)
        parked = [record for record in self._store.controls.parked(now) if record.table == name]
        jobs = self._store.jobs.latest(name, limit=JOBS_REMEMBERED)
        in_force = self._store.controls.in_force(now)
        costs = self._store.jobs.predicted_costs(name, COSTS_MAX)
        since_cost = self.cost_since(name, by_cost=by_cost)
        return Remembered(watched, jobs, parked, in_force, costs, self.learned([name])[name], since_cost)

    def cost_since(self, name: str, *, by_cost: bool) -> float | None:
        """When a table was first to be planned by cost. On the store's lane, by `ask`."""
        return self._store.observations.cost_since(
            name, self._clock.now(), by_cost=by_cost, reasons=[reason.value for reason in REASONS_OF_COST]
        )

    def learned(self, names: Iterable[str]) -> dict[str, LearnedReads | None]:
        """How often readers read these tables. On the store's lane, by `ask`."""
        today = day_of_time(self._clock.now())
        days = {name: self._store.reads.days(name, since_day=today - DAYS_MAX) for name in names}
        return {name: learn(of_table, today=today) for name, of_table in days.items()}

    def examined(self, tables: Iterable[str]) -> Mapping[str, ExaminationRecord]:
        """The newest examinations of tables. On the store's lane, by `ask`."""
        return self._store.observations.examinations(tables)

    def newest_compared(self, tables: Iterable[str]) -> Mapping[str, ComparedDay]:
        """The newest day of each table that was compared. On the store's lane, by `ask`."""
        return self._store.compared_days.newest(tables)

    def answered(self) -> None:
        if not self._outbox.is_blocked and self.store_problem is not None:
            self.store_problem = None
            self._log.info("store answers again")

    def failed(self, error: Exception) -> None:
        """Logged once, however often asking fails."""
        text = problem_of(error).text
        if text != self.store_problem:
            self.store_problem = self._problem(error, what="store").text

    # ---------------------------------------------------------------------------------------------- telling

    def send(self, *, again: bool = False) -> None:
        """Hand over what waits. While the store does not answer, only `again` tries."""
        if self._outbox.is_blocked and not again:
            return
        letters = self._outbox.take()
        if letters:
            self._submit(Lane.STORE, partial(send, letters), then=self._sent, failed=self._not_sent)

    def planned(self, table: str, report: PlanReport) -> None:
        # One planning a table waits for the store, the newest: a hundred thousand decisions are no small thing.
        self._remember("plan", partial(self._record_plan, table, report), key=f"plan {table}")

    def counted(self, table: str, sample: StorageSample) -> None:
        """What holds a table's storage."""
        record = partial(self._store.observations.record_storage, table, StorageRecord(sample.at, sample.bytes))
        self._remember("storage", record, key=f"storage {table}")

    def examined_table(self, table: str, found: ExaminationRecord, changes: Iterable[FindingText]) -> None:
        """What the doctor found, and what of it is new or gone."""
        record = partial(self._store.observations.record_examination, table, found)
        self._remember("examination", record, key=f"examination {table}")
        for each in changes:
            kind = FINDING if each.has_come else FINDING_GONE
            event = EventRecord(found.tried_at, kind, each.text, table, holder=self._holder)
            self._remember("event", partial(self._store.events.record, event))

    def compared(self, found: ComparedDay) -> None:
        """A day of a table beside Hudi's default."""
        record = partial(self._store.compared_days.record, found)
        self._remember("compared day", record, key=f"compared day {found.table} {found.day}")

    def serviced(self, table: ServedTable) -> None:
        """Something was said about the writers of a table that was only watched."""
        watch = partial(self._store.observations.watch, table.name, table.base_path, self._clock.now())
        self._remember("serviced", partial(watch, serviced_since=table.serviced_since))

    def job_began(self, job: Job, *, token: int | None) -> None:
        record = JobRecord(
            job.id,
            job.table,
            job.service.value,
            job.started_at,
            holder=self._holder,
            token=token,
            operations=job.operations,
            read_bytes=job.read_bytes,
            write_bytes=job.write_bytes,
            memory_bytes=job.memory_bytes,
        )
        self._remember("begin_job", partial(self._store.jobs.begin, record))

    def deleted(self, job_id: str, state: DeletedSoFar, *, at: float) -> None:
        """How far a clean is."""
        progress = CleanerProgress(job_id, state.instant, state.files, state.files_total, at)
        record = partial(self._store.jobs.record_progress, progress)
        self._remember("progress", record, key=f"progress {job_id} {state.instant}")

    def under_way(self, job_id: str, progress: JobProgress, *, at: float) -> None:
        """How far a running job is, and what it waits for."""
        record = partial(self._store.jobs.under_way, job_id, {**progress.as_json(), "at": at})
        self._remember("progress", record, key=f"progress {job_id}")

    def job_ended(self, ended: JobRecord, report: JobReport, cost: CostRecord) -> None:
        assert ended.ended_at is not None and ended.result is not None, "only ended jobs are remembered as such"
        for number, instant in enumerate(report.instants):
            attempt = AttemptRecord(
                f"{ended.id}-{number}",
                ended.id,
                ended.began_at,
                instant,
                self._holder,
                ended.ended_at,
                ended.result,
            )
            self._remember("attempt", partial(self._store.jobs.record_attempt, attempt))
        self._remember(
            "end_job",
            partial(
                self._store.jobs.end,
                ended.id,
                ended.result,
                ended.error,
                at=ended.ended_at,
                instant=ended.instant,
                figures=ended.figures,
            ),
        )
        self._remember("cost", partial(self._store.jobs.record_cost, cost))
        self._report_end(ended, report)

    def _report_end(self, ended: JobRecord, report: JobReport) -> None:
        """What a job achieved, or that it failed and what it found all the same, is an event; that there was nothing to
        do, or that it is tried again soon, is none."""
        assert ended.ended_at is not None, "only ended jobs become events"
        if ended.result == JobEnd.COMMITTED:
            done = ". ".join(each for each in (summarise_job(ended.figures), *report.reasons) if each)
            kind, text = ended.service, ": ".join(filter(None, (" and ".join(report.instants), done)))
        elif ended.result in _FAILURES:
            kind, text = "job-failed", f"{ended.service}: {' '.join([ended.error or '', *report.reasons])}"
        else:
            return
        event = EventRecord(
            ended.ended_at,
            kind,
            text,
            ended.table,
            instant=ended.instant,
            job_id=ended.id,
            holder=self._holder,
        )
        self._remember("event", partial(self._store.events.record, event))

    def happened(self, record: Record, *, at: float) -> None:
        """An event, and what it changes for the daemon that starts next."""
        kind, table, file_group = record.kind, record.table, record.file_group
        event = EventRecord(at, kind.value, record.text, table or None, file_group, holder=self._holder)
        self._remember("event", partial(self._store.events.record, event))
        if kind is FactKind.PARKED:
            parked = ParkedRecord(table, file_group, kind.value, record.text, 0, at, record.until)
            self._remember("park", partial(self._store.controls.park, parked))
        elif kind is FactKind.UNPARKED:
            # The table itself: its file groups stay parked, each until its own time is over.
            self._remember("unpark", partial(self._store.controls.unpark, table, file_group))

    def end_control(self, control_id: int, outcome: str) -> None:
        self._remember("end_control", partial(self._store.controls.end, control_id, outcome, at=self._clock.now()))

    def end_jobs_of_others(self, tables: AbstractSet[str]) -> None:
        """The holder of the lease before us runs nothing any more, and may not have lived to say so."""
        self._remember("lost jobs", partial(self._end_jobs_of_others, tables, self._clock.now()))

    def trim(self) -> None:
        """Let the store forget what is old, and jobs whose daemons are gone, of tables, too, that no daemon
        services."""
        self._remember("trim", partial(self._store.trim, self._clock.now()), key="trim")
        self._remember("lost jobs", self._end_jobs_of_the_gone, key="lost jobs")

    def leave(self) -> None:
        """Remove this daemon from the store, at once."""
        self._store.daemons.leave(self._holder)

    # ---------------------------------------------------------------------------------- on the store's lane

    def _record_plan(self, table: str, report: PlanReport) -> None:
        decisions = [_decision_record(decision) for decision in report.outcome.decisions]
        self._store.observations.record_decisions(table, report.at, None, decisions)
        self._store.observations.record_plans(table, report.pending)

    def _end_jobs_of_others(self, tables: AbstractSet[str], now: float) -> None:
        for job in self._store.jobs.running():
            if job.table in tables and job.holder != self._holder:
                self._end_lost(job, now)

    def _end_jobs_of_the_gone(self) -> None:
        now = self._clock.now()
        living = {daemon.holder for daemon in self._store.daemons.alive(now, within=GONE_SECONDS)}
        for job in self._store.jobs.running():
            if job.holder not in living and job.holder != self._holder:
                self._end_lost(job, now)

    def _end_lost(self, job: JobRecord, now: float) -> None:
        self._store.jobs.end(job.id, JobEnd.LOST.value, f"Daemon {job.holder} ended before it said how.", at=now)

    # ------------------------------------------------------------------------------------------ the outbox

    def _remember(self, what: str, write: Callable[[], object], *, key: str | None = None) -> None:
        dropped = self._outbox.add(Letter(what, write, key))
        if dropped is not None:
            self._log.warning("not remembered", what=dropped.what, why="too much waits for the store")

    def _sent(self, sent: Sent) -> None:
        self._outbox.settle(sent)
        for letter, error in sent.refused:
            self._problem(error, what=letter.what)
        if sent.error is None:
            self.answered()
        else:
            self.failed(sent.error)

    def _not_sent(self, error: Exception) -> None:
        self._outbox.settle(Sent())
        self.failed(error)


def cost_record(ended: JobRecord, report: JobReport, spent: JobSpent) -> CostRecord:
    """What a job took that ended, as the store keeps it."""
    assert ended.ended_at is not None and ended.result is not None, "only ended jobs have taken something"
    cost = report.cost
    return CostRecord(
        ended.id,
        ended.table,
        ended.service,
        format_month(ended.ended_at),
        ended.ended_at,
        ended.result,
        ended.ended_at - ended.began_at,
        waited_seconds=spent.waited_seconds,
        read_bytes=report.figures.read_bytes,
        written_bytes=report.figures.written_bytes,
        predicted_seconds=None if cost is None else cost.predicted_seconds,
        cpu_seconds=None if cost is None else cost.cpu_seconds,
        task_seconds=None if cost is None else cost.task_seconds,
        saved_seconds_a_day=None if cost is None else cost.saved_seconds_a_day,
        detail=detail_of(report, spent.phases),
    )


def _decision_record(decision: Decision) -> DecisionRecord:
    return DecisionRecord(
        decision.partition_path,
        decision.file_id,
        decision.choice.value,
        decision.reason.value,
        decision.numbers,
        decision.instant,
        decision.instead_of.value if decision.instead_of is not None else None,
    )

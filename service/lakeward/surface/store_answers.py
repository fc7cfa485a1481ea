"""What the store says of jobs, costs and events, and of a table's decisions, storage and examination: the same answers
for the command line and for the API.

Touches: the store, reading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import UsageError
from lakeward.config.job_card import Card, card_of
from lakeward.protocol.job_kind import JobKind
from lakeward.state.records import AttemptRecord, CleanerProgress, DecisionRecord, EventRecord, JobRecord
from lakeward.state.store import Store
from lakeward.surface.documents import EventDocument, JobDocument, MonthDocument, is_clean
from lakeward.surface.table_documents import ExaminationDocument, StorageDocument


@dataclass(frozen=True, slots=True)
class JobAnswer:
    record: JobRecord
    cleans: Sequence[CleanerProgress] | None
    """How far its deletions are; None for what is no clean."""
    card: Card | None
    """None for a job that runs, or was ended by another release."""

    @property
    def document(self) -> JobDocument:
        return JobDocument.of(self.record, self.cleans).with_card(self.card)


@dataclass(frozen=True, slots=True)
class JobTrail:
    """What was written down about a job beside its end."""

    attempts: Sequence[AttemptRecord]
    """Oldest first."""
    events: Sequence[EventRecord]
    """Events that name the job, oldest first."""
    chosen: Sequence[DecisionRecord]
    """What had been decided for the table's file groups when it began."""


@dataclass(frozen=True, slots=True)
class StoreAnswers:
    """Tables are named as the store names them; None is every table."""

    store: Store
    clock: Clock

    def jobs(self, table: str | None, limit: int) -> list[JobDocument]:
        """The newest first."""
        return [JobDocument.of(job, self._cleans(job)) for job in self.store.jobs.latest(table, limit)]

    def job(self, job_id: str) -> JobAnswer:
        """Raises `UsageError` for one that the store does not know."""
        jobs = self.store.jobs
        found = jobs.find(job_id)
        if found is None:
            raise UsageError(
                f"There is no job {job_id}.",
                why="The store does not know it; ended jobs are forgotten after 90 days.",
                remedy="Run `lakeward jobs` to see which there are.",
            )
        cost = jobs.costs(found.table, [found.id]).get(found.id)
        later = () if cost is None else jobs.costs_since(found.table, cost.ended_at)
        card = None if cost is None else card_of(cost, later, now=self.clock.now())
        return JobAnswer(found, self._cleans(found), card)

    def trail(self, job: JobRecord) -> JobTrail:
        return JobTrail(
            self.store.jobs.attempts(job.id),
            self.store.events.of_job(job),
            self.store.observations.decided_at(job.table, job.began_at)[1],
        )

    def costs(self, table: str | None) -> list[MonthDocument]:
        """The newest month first; beside that of compactions stands what Hudi's default would have taken."""
        costs = {(each.month, each.table, each.service): each for each in self.store.jobs.monthly_costs(table)}
        found = {key: MonthDocument.of(cost) for key, cost in costs.items()}
        for each in self.store.compared_days.months(table):
            key = (each.month, each.table, JobKind.COMPACTION.value)
            found[key] = MonthDocument.of_compactions(costs.get(key), each)
        in_order = sorted(found, key=lambda key: key[1:])
        return [found[key] for key in sorted(in_order, key=lambda key: key[0], reverse=True)]

    def events(self, table: str | None, limit: int, before: int | None) -> list[EventDocument]:
        """The newest first.

        Args:
            before: only events whose id is less.
        """
        return [EventDocument.of(event) for event in self.store.events.latest(table, limit, before_id=before)]

    def events_after(self, event_id: int, limit: int) -> list[EventDocument]:
        """Events of all tables whose id is greater, oldest first."""
        return [EventDocument.of(event) for event in self.store.events.after(event_id, limit)]

    def newest_event(self) -> int:
        """The greatest id of an event; 0 where there is none."""
        return self.store.events.newest_id()

    def decisions(self, table: str, at: float | None) -> Sequence[DecisionRecord]:
        """The newest, or those of a time."""
        observations = self.store.observations
        return observations.decided(table)[1] if at is None else observations.decided_at(table, at)[1]

    def storage(self, table: str) -> list[StorageDocument]:
        """The oldest count first."""
        return [StorageDocument.of(sample) for sample in self.store.observations.storage(table)]

    def examination(self, table: str) -> ExaminationDocument:
        return ExaminationDocument.of(self.store.observations.examinations([table]).get(table))

    def _cleans(self, job: JobRecord) -> Sequence[CleanerProgress] | None:
        return self.store.jobs.progress(job.id) if is_clean(job) else None

"""Jobs, which are promises to do one thing on one table, their attempts, what they took, and how far their cleans are.

Touches: the database, through `StoreAccess`.
Keeps:   the first end of a job counts; a job that is begun again, and an attempt or a cost that is recorded again,
         change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Row, case, cast, func, select, update

from lakeward.state.access import StoreAccess, cut, execute, fields_of, plain
from lakeward.state.records import PROGRESS, AttemptRecord, CleanerProgress, CostRecord, JobRecord, MonthlyCost
from lakeward.state.store_tables import attempts, cleaner_progress, job_costs, jobs

_GOOD_ENDS = ("committed", "nothing")


class Jobs:
    """What was run, for which table, and how it ended."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def begin(self, job: JobRecord) -> None:
        """Promise a job. The same id again changes nothing."""
        self._access.insert_new("begin_job", jobs, _job_row(job))

    def end(
        self,
        job_id: str,
        result: str,
        error: str | None,
        *,
        at: float,
        instant: str | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        """Say how a job ended; the first end counts."""
        values: dict[str, Any] = {"ended_at": at, "result": result, "error": cut(error), "figures": plain(figures)}
        if instant is not None:
            values["instant"] = instant
        statement = update(jobs).where(jobs.c.id == job_id, jobs.c.ended_at.is_(None)).values(**values)
        self._access.write("end_job", lambda connection: execute(connection, statement))

    def under_way(self, job_id: str, progress: Mapping[str, Any]) -> None:
        """Say how far a job is, in place of its figures; nothing where it has ended, or never began."""
        statement = update(jobs).where(jobs.c.id == job_id, jobs.c.ended_at.is_(None))
        statement = statement.values(figures=plain({PROGRESS: progress}))
        self._access.write("job_under_way", lambda connection: execute(connection, statement))

    def record_cost(self, cost: CostRecord) -> None:
        """What a job took that has ended. The same job again changes nothing."""
        row = {**fields_of(cost), "detail": plain(cost.detail)}
        row["table_name"] = row.pop("table")
        self._access.insert_new("record_cost", job_costs, row)

    def costs(self, table: str, job_ids: Iterable[str]) -> Mapping[str, CostRecord]:
        """What these jobs of the table took, by their ids."""
        query = select(job_costs).where(job_costs.c.table_name == table, job_costs.c.job_id.in_(list(job_ids)))
        return {row.job_id: _cost(row) for row in self._access.rows("costs", query)}

    def costs_since(self, table: str, at: float, limit: int = 1000) -> tuple[CostRecord, ...]:
        """What jobs of the table took that ended later than that, oldest first."""
        query = select(job_costs).where(job_costs.c.table_name == table, job_costs.c.ended_at > at)
        query = query.order_by(job_costs.c.ended_at, job_costs.c.job_id).limit(limit)
        return tuple(_cost(row) for row in self._access.rows("costs_since", query))

    def spent_since(self, table: str, at: float, limit: int = 5000) -> tuple[CostRecord, ...]:
        """What the newest jobs of the table took that ended later than that, without the details, oldest first."""
        columns = [column for column in job_costs.c if column.name != "detail"]
        query = select(*columns).where(job_costs.c.table_name == table, job_costs.c.ended_at > at)
        query = query.order_by(job_costs.c.ended_at.desc(), job_costs.c.job_id).limit(limit)
        return tuple(_cost(row) for row in self._access.rows("spent_since", query))[::-1]

    def instants(self, table: str, since: float) -> frozenset[str]:
        """Instants that jobs of the table made which began later than that."""
        with_attempts = jobs.outerjoin(attempts, attempts.c.job_id == jobs.c.id)
        query = select(jobs.c.instant, attempts.c.instant).select_from(with_attempts)
        query = query.where(jobs.c.table_name == table, jobs.c.began_at > since)
        rows = self._access.rows("instants_of_jobs", query)
        return frozenset(instant for row in rows for instant in row if instant is not None)

    def predicted_costs(self, table: str, limit: int) -> tuple[CostRecord, ...]:
        """What the newest jobs of the table took of which that was predicted, oldest first."""
        query = select(job_costs).where(job_costs.c.table_name == table, job_costs.c.predicted_seconds.is_not(None))
        query = query.order_by(job_costs.c.ended_at.desc(), job_costs.c.job_id).limit(limit)
        return tuple(_cost(row) for row in self._access.rows("predicted_costs", query))[::-1]

    def monthly_costs(self, table: str | None = None, *, since: float | None = None) -> tuple[MonthlyCost, ...]:
        """The newest month first.

        Args:
            since: jobs that ended earlier are left out, and not read.
        """
        of = job_costs.c
        keys = (of.month, of.table_name, of.service)
        has_failed = case((of.result.in_(_GOOD_ENDS), 0), else_=1)
        # Sums of integers are decimals in PostgreSQL.
        query = select(
            *keys,
            func.count().label("jobs"),
            cast(func.sum(has_failed), BigInteger).label("failed"),
            *(func.sum(each).label(each.name) for each in (of.seconds, of.waited_seconds)),
            *(cast(func.sum(each), BigInteger).label(each.name) for each in (of.read_bytes, of.written_bytes)),
            func.sum(of.predicted_seconds).label("predicted_seconds"),
            func.sum(func.coalesce(of.cpu_seconds, of.task_seconds)).label("actual_seconds"),
            func.sum(case((of.cpu_seconds.is_(None), of.task_seconds))).label("actual_by_clock_seconds"),
        )
        query = query.group_by(*keys).order_by(of.month.desc(), of.table_name, of.service)
        if table is not None:
            query = query.where(of.table_name == table)
        if since is not None:
            query = query.where(of.ended_at >= since)
        rows = self._access.rows("monthly_costs", query)
        return tuple(MonthlyCost(table=fields.pop("table_name"), **fields) for fields in map(_fields, rows))

    def latest(self, table: str | None = None, limit: int = 100) -> tuple[JobRecord, ...]:
        """Newest first."""
        query = select(jobs) if table is None else select(jobs).where(jobs.c.table_name == table)
        query = query.order_by(jobs.c.began_at.desc(), jobs.c.id).limit(limit)
        return tuple(_job(row) for row in self._access.rows("jobs", query))

    def find(self, job_id: str) -> JobRecord | None:
        return next((_job(row) for row in self._access.rows("job", select(jobs).where(jobs.c.id == job_id))), None)

    def running(self, holder: str | None = None) -> tuple[JobRecord, ...]:
        """Jobs without an end, oldest first; those of a daemon that died are among them until another daemon ends
        them."""
        query = select(jobs).where(jobs.c.ended_at.is_(None))
        if holder is not None:
            query = query.where(jobs.c.holder == holder)
        return tuple(_job(row) for row in self._access.rows("running_jobs", query.order_by(jobs.c.began_at, jobs.c.id)))

    def record_progress(self, progress: CleanerProgress) -> None:
        """How far a clean is; the newest word counts."""
        row = fields_of(progress)
        self._access.write(
            "record_progress", lambda connection: self._access.upsert(connection, cleaner_progress, [row])
        )

    def progress(self, job_id: str) -> tuple[CleanerProgress, ...]:
        """Each clean that the job has begun, oldest first."""
        table = cleaner_progress
        query = select(table).where(table.c.job_id == job_id).order_by(table.c.instant)
        return tuple(CleanerProgress(**row._mapping) for row in self._access.rows("progress", query))

    def record_attempt(self, attempt: AttemptRecord) -> None:
        """One run of a job, which has ended. The same id again changes nothing."""
        row = {**fields_of(attempt), "error": cut(attempt.error), "figures": plain(attempt.figures)}
        self._access.insert_new("begin_attempt", attempts, row)

    def attempts(self, job_id: str) -> tuple[AttemptRecord, ...]:
        """Oldest first."""
        query = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.began_at, attempts.c.id)
        return tuple(AttemptRecord(**row._mapping) for row in self._access.rows("attempts", query))


def _job_row(job: JobRecord) -> dict[str, Any]:
    row = {**fields_of(job), "error": cut(job.error), "figures": plain(job.figures)}
    row["table_name"] = row.pop("table")
    return row


def _job(row: Row[Any]) -> JobRecord:
    fields = _fields(row)
    return JobRecord(table=fields.pop("table_name"), **fields)


def _cost(row: Row[Any]) -> CostRecord:
    fields = _fields(row)
    return CostRecord(table=fields.pop("table_name"), **fields)


def _fields(row: Row[Any]) -> dict[str, Any]:
    return dict(row._mapping)

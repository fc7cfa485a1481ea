"""Jobs, which are promises to do one thing on one table, their attempts, and how far their cleans are.

Touches: the database, through `StoreAccess`.
Keeps:   the first end of a job counts; a job that is begun again, and an attempt that is recorded again, change
         nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, select, update

from lakeward.state.access import StoreAccess, cut, execute, fields_of, plain
from lakeward.state.records import PROGRESS, AttemptRecord, CleanerProgress, JobRecord
from lakeward.state.store_tables import attempts, cleaner_progress, jobs


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
    fields = dict(row._mapping)
    return JobRecord(table=fields.pop("table_name"), **fields)

"""What runs, what ended last, and since when things went well: the jobs of this daemon, as pages and metrics show them.

What the store says of jobs before this daemon's counts until a job of its own has ended.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.status import JobEnd, JobStatus, end_of
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.state.records import JobRecord


class JobRegistry:
    def __init__(self) -> None:
        self._running: dict[str, JobWatch] = {}
        self._last: dict[str, JobStatus] = {}
        self._successes: dict[str, dict[JobKind, float]] = {}

    def begin(self, watch: JobWatch) -> None:
        self._running[watch.job.id] = watch

    def end(self, job_id: str, report: JobReport, *, at: float) -> JobStatus:
        """The job as it ended."""
        watch = self._running.pop(job_id)
        ended = replace(
            watch.status,
            progress=None,
            instants=report.instants,
            ended_at=at,
            end=end_of(report),
            error=" ".join(problem.text for problem in report.problems),
            figures=report.figures,
        )
        self._last[ended.table] = ended
        if report.result is not JobResult.FAILED:
            self._successes.setdefault(ended.table, {})[ended.service] = at
        return ended

    def learn(self, records: Iterable[JobRecord]) -> None:
        """What the store remembers, of any daemon. It replaces nothing that is newer."""
        for record in records:
            job = job_status_of(record)
            if job is None or job.ended_at is None:
                continue
            last = self._last.get(job.table)
            if last is None or (last.ended_at or 0.0) < job.ended_at:
                self._last[job.table] = job
            if job.end is not None and job.end.is_good:
                successes = self._successes.setdefault(job.table, {})
                successes[job.service] = max(successes.get(job.service, 0.0), job.ended_at)

    def forget(self, table: str) -> None:
        self._last.pop(table, None)
        self._successes.pop(table, None)

    def watch(self, job_id: str) -> JobWatch | None:
        return self._running.get(job_id)

    def watches(self) -> tuple[JobWatch, ...]:
        return tuple(self._running.values())

    @property
    def busy_tables(self) -> frozenset[str]:
        return frozenset(watch.job.table for watch in self._running.values())

    @property
    def memory_bytes(self) -> int:
        """Permits that running jobs hold."""
        return sum(watch.job.memory_bytes for watch in self._running.values())

    def running(self, table: str, deadlines: Mapping[str, float]) -> tuple[JobStatus, ...]:
        """The table's jobs, with the deadlines that the scheduler has for them."""
        running = ((job_id, watch.status) for job_id, watch in self._running.items() if watch.job.table == table)
        return tuple(replace(status, deadline=deadlines.get(job_id)) for job_id, status in running)

    def last(self, table: str) -> JobStatus | None:
        return self._last.get(table)

    def last_successes(self, table: str) -> Mapping[JobKind, float]:
        return dict(self._successes.get(table, {}))


def job_status_of(record: JobRecord) -> JobStatus | None:
    """A job as the store remembers it; None for a service that only a newer release knows, which shares the store."""
    if record.service not in _SERVICES:
        return None
    figures: dict[str, Any] = {
        name: value for name, value in record.figures.items() if name in JobFigures.__dataclass_fields__
    }
    return JobStatus(
        record.id,
        record.table,
        JobKind(record.service),
        record.began_at,
        instants=(record.instant,) if record.instant else (),
        ended_at=record.ended_at,
        end=JobEnd(record.result) if record.result in _ENDS else None,
        error=record.error or "",
        figures=JobFigures(**figures),
    )


_SERVICES = frozenset(service.value for service in JobKind)
_ENDS = frozenset(end.value for end in JobEnd)

"""What runs, what ended last, and since when things went well: the jobs of this daemon, as pages and metrics show them.

What the store says of jobs before this daemon's counts until a job of its own has ended.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.status import GOOD_ENDS, JobProgress, end_of
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.state.records import JobRecord


class JobRegistry:
    def __init__(self) -> None:
        self._running: dict[str, JobWatch] = {}
        self._last: dict[str, JobRecord] = {}
        self._successes: dict[str, dict[JobKind, float]] = {}

    def begin(self, watch: JobWatch) -> None:
        self._running[watch.job.id] = watch

    def end(self, job_id: str, report: JobReport, *, at: float) -> JobRecord:
        """The job as it ended."""
        job = self._running.pop(job_id).job
        ended = JobRecord(
            job.id,
            job.table,
            job.service.value,
            job.started_at,
            instant=report.instants[-1] if report.instants else None,
            ended_at=at,
            result=end_of(report).value,
            error=" ".join(problem.text for problem in report.problems) or None,
            figures=asdict(report.figures),
        )
        self._last[ended.table] = ended
        if report.result is not JobResult.FAILED:
            self._successes.setdefault(ended.table, {})[job.service] = at
        return ended

    def learn(self, records: Iterable[JobRecord]) -> None:
        """What the store remembers, of any daemon. It replaces nothing that is newer."""
        for job in records:
            if job.ended_at is None or job.service not in _SERVICES:
                continue  # a service that only a newer release knows, which shares the store
            last = self._last.get(job.table)
            if last is None or (last.ended_at or 0.0) < job.ended_at:
                self._last[job.table] = job
            if job.result in GOOD_ENDS:
                successes, service = self._successes.setdefault(job.table, {}), JobKind(job.service)
                successes[service] = max(successes.get(service, 0.0), job.ended_at)

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

    def progress(self, table: str) -> Mapping[str, JobProgress]:
        """How far the table's running jobs are, by their ids."""
        return {job_id: watch.progress for job_id, watch in self._running.items() if watch.job.table == table}

    def last(self, table: str) -> JobRecord | None:
        return self._last.get(table)

    def last_successes(self, table: str) -> Mapping[JobKind, float]:
        return dict(self._successes.get(table, {}))


_SERVICES = frozenset(service.value for service in JobKind)

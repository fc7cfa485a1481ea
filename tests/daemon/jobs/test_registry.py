"""What runs and what ended last, of this daemon and of those before it."""

from __future__ import annotations

from dataclasses import replace

import structlog
from prometheus_client import CollectorRegistry

from lakeward.daemon.jobs.registry import JobRegistry
from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.status import JobProgress
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.state.records import JobRecord
from tests.clocks import SettableClock

RECORD = JobRecord(
    "old", "orders", "compaction", 10.0, "20270101", ended_at=20.0, result="committed", figures={"read_bytes": 7}
)


def watch(id_: str = "j1", table: str = "orders") -> JobWatch:
    job = Job(id_, table, JobKind.COMPACTION, {}, 1, 1, 1, 64, deadline=100.0, started_at=50.0)
    log = structlog.stdlib.get_logger("test")
    return JobWatch(
        job,
        clock=SettableClock(50.0),
        is_safe=lambda: True,
        metrics=Metrics(CollectorRegistry()),
        log=log,
    )


def end(jobs: JobRegistry, result: JobResult, *problems: WorkProblem, at: float = 60.0) -> None:
    report = JobReport(result, JobFigures(read_bytes=5), instants=("20270115",), problems=problems)
    jobs.end("j1", report, at=at)


def test_a_job_runs_until_it_ends() -> None:
    """Meanwhile its table is busy and its memory taken; afterwards it is the table's last one."""
    jobs = JobRegistry()
    jobs.begin(watch())
    assert jobs.busy_tables == {"orders"} and jobs.memory_bytes == 64
    assert jobs.progress("orders") == {"j1": JobProgress("starting")}
    assert not jobs.progress("others")

    end(jobs, JobResult.COMMITTED)

    assert not jobs.busy_tables and jobs.memory_bytes == 0 and jobs.watch("j1") is None
    last = jobs.last("orders")
    assert last is not None and (last.result, last.instant, last.figures["read_bytes"]) == ("committed", "20270115", 5)
    assert jobs.last_successes("orders") == {JobKind.COMPACTION: 60.0}


def test_a_failure_is_last_and_no_success() -> None:
    """Its end is the kind of its first problem, its error all of them."""
    jobs = JobRegistry()
    jobs.begin(watch())

    end(jobs, JobResult.FAILED, WorkProblem(ProblemKind.LOST, "One."), WorkProblem(ProblemKind.FAILED, "Two."))

    last = jobs.last("orders")
    assert last is not None and (last.result, last.error) == ("lost", "One. Two.")
    assert jobs.last_successes("orders") == {}


def test_what_the_store_remembers_counts_until_something_newer() -> None:
    """Whatever comes first; what runs, as far as the store knows, has no end to show."""
    jobs = JobRegistry()
    jobs.learn([replace(RECORD, id="ghost", ended_at=None, result=None), RECORD])
    last = jobs.last("orders")
    assert last is not None and last.id == "old" and jobs.last_successes("orders") == {JobKind.COMPACTION: 20.0}

    jobs.begin(watch())
    end(jobs, JobResult.COMMITTED)
    jobs.learn([RECORD])

    last = jobs.last("orders")
    assert last is not None and last.id == "j1" and jobs.last_successes("orders") == {JobKind.COMPACTION: 60.0}


def test_a_table_that_left_is_forgotten() -> None:
    """A daemon that runs for years does not grow by the tables that it once saw."""
    jobs = JobRegistry()
    jobs.learn([RECORD])
    jobs.forget("orders")
    jobs.forget("orders")
    assert jobs.last("orders") is None and jobs.last_successes("orders") == {}


def test_what_only_a_newer_release_knows_breaks_nothing() -> None:
    """It shares the store: a service that this release does not know is no last job, and an end is shown as it is."""
    jobs = JobRegistry()
    jobs.learn([replace(RECORD, service="levitation")])
    assert jobs.last("orders") is None
    jobs.learn([replace(RECORD, result="sublimated", figures={"height": 3})])
    last = jobs.last("orders")
    assert last is not None and last.result == "sublimated" and jobs.last_successes("orders") == {}

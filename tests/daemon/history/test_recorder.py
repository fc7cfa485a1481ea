"""What the daemon writes into its store, while the store answers and while it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from lakeward.base.errors import StoreUnavailable
from lakeward.config.job_summary import summarise_job
from lakeward.daemon.history.recorder import Recorder, cost_record
from lakeward.daemon.runner import Lane
from lakeward.daemon.scheduling.events import FactKind, Record
from lakeward.daemon.status import JobEnd, JobSpent
from lakeward.protocol.job_report import JobCost, JobFigures, JobReport, JobResult, ReadLoad, WorkProblem
from lakeward.protocol.problem import problem_of
from lakeward.state.records import JobRecord
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock
from tests.daemon import synthetic_status as synthetic


@pytest.fixture
def store(clock: SettableClock) -> Store:
    return open_store("sqlite://", clock=clock)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(1_800_000_000.0)


class Reported:
    """A recorder whose work is done at once, and what it complained of."""

    def __init__(self, store: Store, clock: SettableClock) -> None:
        self.problems: list[str] = []
        self.recorder = Recorder(
            store, "a", submit=self.submit, problem=self.problem, clock=clock, log=structlog.stdlib.get_logger()
        )

    def submit(
        self, lane: Lane, work: Callable[[], Any], *, then: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        assert lane is Lane.STORE
        try:
            answer = work()
        except Exception as error:
            failed(error)
        else:
            then(answer)

    def problem(self, error: Exception, **about: str) -> WorkProblem:
        self.problems.append(str(error))
        return problem_of(error)


@pytest.fixture
def shown(store: Store, clock: SettableClock) -> Reported:
    return Reported(store, clock)


def event(text: str, kind: FactKind = FactKind.PARKED) -> Record:
    return Record(kind, "orders", text, ("p=1", "f1"), None)


def ended(shown: Reported, job: JobRecord, report: JobReport, spent: JobSpent | None = None) -> None:
    shown.recorder.job_ended(job, report, cost_record(job, report, spent or JobSpent()))


def test_what_happened_is_shown_in_order_when_it_is_sent(shown: Reported, store: Store) -> None:
    """Nothing is stored before: the loop does not wait for the store."""
    shown.recorder.happened(event("first"), at=1.0)
    shown.recorder.happened(event("second", FactKind.UNPARKED), at=2.0)
    assert not store.events.latest("orders") and not shown.recorder.is_settled

    shown.recorder.send()

    assert [each.text for each in store.events.latest("orders")] == ["second", "first"]
    assert not store.controls.parked(3.0), "parked first, unparked afterwards"
    assert shown.recorder.is_settled


def test_what_a_job_achieved_or_why_it_failed_is_an_event(shown: Reported, store: Store) -> None:
    """Compactions stand among the events, with what they did, and why where a job says so; a job that found nothing, or
    that is tried again, is no event."""
    ends = {JobEnd.COMMITTED: "", JobEnd.NOTHING: "", JobEnd.TEMPORARY: "the lock is held", JobEnd.FAILED: "It broke."}
    for end, error in ends.items():
        job = synthetic.job(result=end.value, error=error, id=end.value)
        instants = (job.instant,) if job.instant else ()
        ended(
            shown,
            job,
            JobReport(JobResult.COMMITTED, instants=instants, reasons=("compaction 7, release: it was silent",)),
        )
    shown.recorder.send()

    failed, done = store.events.latest("orders")
    assert (done.kind, done.instant, done.job_id) == ("compaction", "20270115075640123", "committed")
    summary = summarise_job(synthetic.job().figures)
    assert done.text == f"20270115075640123: {summary}. compaction 7, release: it was silent"
    assert "9 LOG · 62 logs of 180.0 MiB merged" in done.text
    assert (failed.kind, failed.text) == ("job-failed", "compaction: It broke. compaction 7, release: it was silent")


def test_what_a_job_took_is_kept_with_its_month(shown: Reported, store: Store) -> None:
    """The month in which it ended, in UTC; of a service without a model of its costs the seconds alone."""
    job = synthetic.job(ended_at=1_801_439_999.0, began_at=1_801_439_900.0)
    load = ReadLoad(5, 100, 4, 60, 2.0)
    cost = JobCost({"pays-back": 2}, load, ReadLoad(), 9.0, 3.0, 4.0, None, {"t9": 2}, {"t1": 1})
    spent = JobSpent(7.0, {"merge": 5.0})
    figures = JobFigures(read_bytes=10, written_bytes=11)
    ended(shown, job, JobReport(JobResult.COMMITTED, figures, cost=cost), spent)
    later = replace(job, id="j9", ended_at=1_801_440_000.0)
    ended(shown, later, JobReport(JobResult.COMMITTED))
    shown.recorder.send()

    first, second = store.jobs.costs_since("orders", 0)
    assert (first.month, second.month) == ("2027-01", "2027-02")
    assert (first.seconds, first.waited_seconds, first.read_bytes, first.written_bytes) == (99.0, 7.0, 10, 11)
    assert (first.predicted_seconds, first.cpu_seconds, first.task_seconds, first.actual_seconds) == (3.0, None, 4.0, 4)
    assert first.saved_seconds_a_day == 9.0
    assert first.detail == {
        "phases": {"merge": 5.0},
        "reasons": {"pays-back": 2},
        "before": {
            "files": 5,
            "bytes": 100,
            "logs_opened": 4,
            "merged_bytes": 60,
            "core_seconds": 2.0,
            "point_bytes": 0,
        },
        "after": {"files": 0, "bytes": 0, "logs_opened": 0, "merged_bytes": 0, "core_seconds": 0.0, "point_bytes": 0},
        "price": 1.0,
        "written": {"t9": 2},
        "rewritten": {"t1": 1},
    }
    assert (second.predicted_seconds, second.actual_seconds, second.detail) == (None, None, {"phases": {}})


def test_a_job_without_instants_says_what_it_did(shown: Reported, store: Store) -> None:
    """An update of an index commits nothing to the table."""
    job = synthetic.job(figures=JobFigures(index_commits=2), instant=None)
    ended(shown, job, JobReport(JobResult.COMMITTED))
    shown.recorder.send()
    (done,) = store.events.latest("orders")
    assert done.text == "2 commits indexed"


def test_a_store_that_is_away_is_shown_later(shown: Reported, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its problem is said once; only a try that is meant to be one asks again; when it answers nothing is missing."""

    report, is_away = store.events.record, [True]

    def record_event(*given: Any) -> None:
        if is_away:
            raise StoreUnavailable("The store is away.", why="It is.", remedy="Wait.")
        report(*given)

    monkeypatch.setattr(store.events, "record", record_event)
    shown.recorder.happened(event("first"), at=1.0)
    for _ in range(3):
        shown.recorder.send(again=True)
    assert shown.recorder.store_problem is not None and len(shown.problems) == 1
    assert shown.recorder.is_settled, "it cannot be known now"

    is_away.clear()
    shown.recorder.send()
    assert not store.events.latest("orders"), "that was no try"
    shown.recorder.send(again=True)
    assert [each.text for each in store.events.latest("orders")] == ["first"]
    assert shown.recorder.store_problem is None


def test_jobs_of_a_holder_before_us_are_ended_as_lost(shown: Reported, store: Store) -> None:
    """Jobs of the tables that we have now are ended; those of this daemon run on."""
    for job, table, holder in (("j1", "orders", "b"), ("j2", "orders", "a"), ("j3", "items", "b")):
        store.jobs.begin(JobRecord(job, table, "compaction", 1.0, holder=holder))
    shown.recorder.end_jobs_of_others(frozenset({"orders"}))
    shown.recorder.send()

    assert {job.id for job in store.jobs.running()} == {"j2", "j3"}
    shown.recorder.trim()
    shown.recorder.send()
    assert {job.id for job in store.jobs.running()} == {"j2"}, "no daemon renewed b for an hour"

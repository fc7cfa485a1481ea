"""What a job's page shows, put together from statuses and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakeward.daemon.job_detail import CHOSEN_SHOWN, job_detail
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import JobPage
from lakeward.state.records import AttemptRecord, CostRecord, DecisionRecord, EventRecord, JobRecord
from lakeward.state.store import Store, open_store
from lakeward.surface.store_answers import StoreAnswers
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW, running_job, service, table

STATUS = service(table("orders", TableState.RUNNING, running=(running_job(),)))


@pytest.fixture
def store() -> Iterator[Store]:
    store = open_store("sqlite://", clock=SettableClock(NOW))
    yield store
    store.close()


def found(store: Store, job_id: str) -> JobPage:
    page = job_detail(STATUS, StoreAnswers(store, SettableClock(NOW)), job_id)
    assert page is not None
    return page


def test_a_job_that_runs_here_has_a_page_before_the_store_knows_it(store: Store):
    """What the daemon says of it is there, and how far it is."""
    page = found(store, "j2")

    assert page.is_running and page.running is not None and page.seconds == 24
    assert page.progress is not None and page.progress.ratio == pytest.approx(0.42)
    assert page.record.operations == 12
    assert page.spark == STATUS.spark
    assert job_detail(STATUS, StoreAnswers(store, SettableClock(NOW)), "none") is None


def test_a_job_that_ended_has_its_trail(store: Store):
    """Attempts, events that name it, its card, and the file groups that were chosen when it began: the greatest first,
    fifty at most, and those alone that got an operation. What came after the status is left out."""
    store.observations.watch("orders", "/data/orders", NOW - 900)
    numbers = {"base_bytes": 1, "log_files": 1}
    decided = [
        DecisionRecord("p", f"f{number:02}", "FULL", "log-ratio", {**numbers, "log_bytes": number})
        for number in range(CHOSEN_SHOWN + 9)
    ]
    store.observations.record_decisions(
        "orders", NOW - 300, None, [*decided, DecisionRecord("p", "idle", "NONE", "no-logs")]
    )
    store.jobs.begin(JobRecord("j1", "orders", "compaction", NOW - 200, holder="host-1"))
    store.observations.record_decisions("orders", NOW - 100, None, [DecisionRecord("p", "f01", "NONE", "no-logs")])
    store.jobs.record_attempt(AttemptRecord("j1-0", "j1", NOW - 200, "t1", "host-1", NOW - 170, "failed", "No space."))
    store.jobs.end("j1", "failed", "No space.", at=NOW - 170)
    store.jobs.record_cost(CostRecord("j1", "orders", "compaction", "2027-01", NOW - 170, "failed", 30.0, 4.0))
    for at, job_id in ((NOW - 170, "j1"), (NOW - 160, "other"), (NOW + 5, "j1")):
        store.events.record(EventRecord(at, "job-failed", f"of {job_id}", "orders", job_id=job_id))

    page = found(store, "j1")

    assert not page.is_running and page.running is None and page.seconds == 30
    assert [attempt.error for attempt in page.attempts] == ["No space."]
    assert [event.text for event in page.events] == ["of j1"]
    assert page.card is not None and page.card.cost.waited_seconds == 4
    assert page.chosen_total == CHOSEN_SHOWN + 9 and len(page.chosen) == CHOSEN_SHOWN
    assert page.chosen[0].file_id == f"f{CHOSEN_SHOWN + 8:02}"
    assert page.spark is None


def test_a_job_that_the_status_has_running_does_not_end_before_it(store: Store):
    """The store may be ahead of the status, and a page is of one moment."""
    store.jobs.begin(JobRecord("j2", "orders", "clean", NOW - 24))
    store.jobs.end("j2", "committed", None, at=NOW + 1, figures={"files_deleted": 3})

    page = found(store, "j2")

    assert page.is_running and page.record.figures == {} and page.card is None
    assert page.chosen == ()


def test_how_far_a_job_of_another_daemon_is(store: Store):
    """What the other one wrote to the store last, with what it waits for."""
    store.jobs.begin(JobRecord("far", "gone", "compaction", NOW - 50, holder="host-2"))
    progress = {"step": "merging", "sentence": "merging, 10%", "waiting_for": "a writer", "waiting_since": NOW - 9}
    store.jobs.under_way("far", progress)

    page = found(store, "far")

    assert page.table is None and page.running is None
    assert page.progress is not None and page.progress.step == "merging: merging, 10%"
    assert page.progress.wait is not None and page.progress.wait.since == NOW - 9
    assert replace(page, at=NOW + 10).seconds == 60

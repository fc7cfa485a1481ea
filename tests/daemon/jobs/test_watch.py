"""A job seen from outside, without the job."""

from __future__ import annotations

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from lakeward.base.errors import Cancelled, LeaseLost
from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.status import JobWait
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.progress import Count, DeletedSoFar, Merged, Phase
from tests.clocks import SettableClock

JOB = Job("j1", "orders", JobKind.COMPACTION, {}, 3, 10, 10, 10, deadline=100.0, started_at=50.0)


class Watched:
    def __init__(self) -> None:
        self.safe = True
        self.clock = SettableClock(50.0)
        self.registry = CollectorRegistry()
        self.watch = JobWatch(
            JOB,
            clock=self.clock,
            is_safe=lambda: self.safe,
            metrics=Metrics(self.registry),
            log=structlog.stdlib.get_logger("test"),
        )


def test_the_guard_lets_go_on_what_is_own_and_not_stopped() -> None:
    """It may be asked as often as one likes."""
    watched = Watched()
    watched.watch.guard()
    watched.watch.guard()


def test_a_stopped_job_is_shown_why() -> None:
    """The reason is the operator's or the scheduler's own; it goes into the job's end."""
    watched = Watched()
    watched.watch.stop("anna cancelled it")
    with pytest.raises(Cancelled, match="anna cancelled it"):
        watched.watch.guard()


def test_a_lease_that_is_not_safe_stops_the_job() -> None:
    """The lease is asked again at every fence, on its own clock."""
    watched = Watched()
    watched.safe = False
    with pytest.raises(LeaseLost, match="orders"):
        watched.watch.guard()


def test_what_the_job_reports_is_what_a_page_shows() -> None:
    """Its step and how much is merged; each report keeps what the others said."""
    watch = Watched().watch
    watch.merged(Merged(1, 4, 10, 40, 5))
    watch.step("committing")
    progress = watch.progress
    assert (progress.step, progress.merged, progress.ratio) == ("committing", Merged(1, 4, 10, 40, 5), 0.25)


def test_waiting_is_distinguished_from_working() -> None:
    """For what it waits and since when, also where the words change; until it goes on. A look at the table meanwhile is
    part of the wait."""
    watched = Watched()
    watch, clock = watched.watch, watched.clock
    watch.step("committing")
    assert watch.progress.wait is None
    clock.sleep(10.0)
    watch.waiting("write 001 of 3 s", 2.0)
    clock.sleep(5.0)
    watch.phase(Phase.SCAN, 0.1)
    watch.waiting("write 001 of 8 s", 7.0)
    progress = watch.progress
    assert (progress.step, progress.wait) == ("committing", JobWait("write 001 of 8 s", 58.0))
    watch.phase(Phase.YIELD, 7.0)
    assert watch.progress.wait is None


def test_a_wait_that_lasts_is_in_the_log_once() -> None:
    """For what, and how long it has waited by then; the next wait is another one."""
    with capture_logs() as logs:
        watched = Watched()
        for _ in range(2):
            for at in range(30):
                watched.watch.waiting(f"write 001 of {at} s", float(at))
                watched.clock.sleep(1.0)
            watched.watch.phase(Phase.YIELD, 30.0)
    assert [(entry["event"], entry["step"], entry["seconds"]) for entry in logs] == [
        ("waiting", "write 001 of 10 s", 10)
    ] * 2


def test_each_second_is_counted_once_as_waited_or_worked() -> None:
    """Keeps 1 of daemon/jobs/watch, counted as they go: a job that waits for hours is seen to."""
    watched = Watched()
    watch, clock = watched.watch, watched.clock

    def seconds(doing: str) -> float | None:
        return watched.registry.get_sample_value(
            "lakeward_job_seconds_total", {"service": "compaction", "doing": doing}
        )

    assert (seconds("working"), seconds("waiting")) == (0.0, 0.0)
    clock.sleep(10.0)
    watch.waiting("the lock", 0.0)
    clock.sleep(4.0)
    watch.count_seconds()
    assert (seconds("working"), seconds("waiting")) == (10.0, 4.0)
    clock.sleep(1.0)
    watch.step("merging")
    clock.sleep(3.0)
    watch.count_seconds()
    assert (seconds("working"), seconds("waiting")) == (13.0, 5.0)


def test_a_job_that_has_merged_does_not_only_wait() -> None:
    """Keeps 2 of daemon/jobs/watch: what it merged would be lost if it were ended while it waits to publish, and once
    that is done it would not."""
    watch = Watched().watch
    assert not watch.only_waits
    watch.waiting("another attempt", 1.0)
    assert watch.only_waits
    watch.merged(Merged(1, 4, 10, 40, 5))
    watch.waiting("a writer", 1.0)
    assert watch.progress.wait is not None and not watch.only_waits
    watch.phase(Phase.COMMIT, 1.0)
    watch.waiting("the lock", 1.0)
    assert watch.only_waits


def test_how_far_it_is_is_taken_now_and_then() -> None:
    """A short job is never written to the store; a long one every ten seconds."""
    watched = Watched()
    watched.watch.step("merging")
    assert watched.watch.take_progress() is None
    watched.clock.sleep(10.0)
    assert watched.watch.take_progress() is watched.watch.progress
    watched.clock.sleep(9.0)
    assert watched.watch.take_progress() is None


def test_seconds_and_counts_are_metrics_as_they_come() -> None:
    """A job that fails in the end has still been counted."""
    watched = Watched()
    watched.watch.phase(Phase.MERGE, 2.0)
    watched.watch.phase(Phase.BESIDE_WRITES, 0.3)
    watched.watch.counted(Count.CONFLICT)

    value = watched.registry.get_sample_value
    assert value("lakeward_phase_duration_seconds_sum", {"phase": "merge"}) == 2.0
    assert value("lakeward_conflicts_total", {"table": "orders"}) == 1.0
    assert value("lakeward_lock_held_beside_writes_seconds_total", {"table": "orders"}) == 0.3


def test_how_far_a_clean_is_taken_once() -> None:
    """The loop takes it for the store, the newest only; a page shows it all the same."""
    watch = Watched().watch
    watch.deleted(DeletedSoFar("001", 500, 1200))
    watch.deleted(DeletedSoFar("001", 1000, 1200))
    assert watch.take_deleted() == DeletedSoFar("001", 1000, 1200) and watch.take_deleted() is None
    assert watch.progress.deleted == DeletedSoFar("001", 1000, 1200)


def test_a_job_says_once_what_each_of_its_plans_reads() -> None:
    """The scheduler gives it the time for it; a recovery may find plans of any size."""
    watch = Watched().watch
    assert watch.take_size() is None
    for done in (0, 30):
        watch.merged(Merged(0, 4, done, 40, 0))
    assert (watch.take_size(), watch.take_size()) == (40, None)
    watch.merged(Merged(0, 1, 0, 100, 0))
    assert (watch.take_size(), watch.take_size()) == (140, None)


def test_a_second_is_in_the_innermost_of_its_phases() -> None:
    """Keeps 3 of daemon/jobs/watch: a commit waits for the lock, holds it and looks at the table; what is said of
    writers besides is no phase. What was waited stands apart."""
    watched = Watched()
    watch, clock = watched.watch, watched.clock
    clock.sleep(30.0)
    watch.phase(Phase.MERGE, 30.0)
    watch.waiting("the lock", 0.0)
    clock.sleep(4.0)
    watch.phase(Phase.LOCK_WAIT, 4.0)
    clock.sleep(1.0)
    for _ in range(2):
        clock.sleep(2.0)
        watch.phase(Phase.SCAN, 2.0)
    clock.sleep(0.5)
    watch.phase(Phase.BESIDE_WRITES, 5.5)
    watch.phase(Phase.LOCK_HOLD, 5.5)
    watch.phase(Phase.COMMIT, 9.5)
    watch.count_seconds()
    assert watch.spent.waited_seconds == 4.0
    assert watch.spent.phases == {"merge": 30.0, "lock_wait": 4.0, "look": 4.0, "lock_hold": 1.5, "commit": 0.0}

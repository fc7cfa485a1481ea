"""A job seen from outside, without the job."""

from __future__ import annotations

import pytest
import structlog
from prometheus_client import CollectorRegistry

from lakeward.config.job_kind import JobKind
from lakeward.daemon.jobs.watch import JobWatch
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.scheduling.events import Job
from lakeward.errors import Cancelled, LeaseLost
from lakeward.execute.progress import Count, DeletedSoFar, Merged, Phase

JOB = Job("j1", "orders", JobKind.COMPACTION, {}, 3, 10, 10, 10, deadline=100.0)


class Watched:
    def __init__(self) -> None:
        self.safe = True
        self.registry = CollectorRegistry()
        self.watch = JobWatch(
            JOB,
            began_at=50.0,
            is_safe=lambda: self.safe,
            metrics=Metrics(self.registry),
            log=structlog.stdlib.get_logger("test"),
        )


def test_the_guard_lets_go_on_what_is_ours_and_not_stopped() -> None:
    """It may be asked as often as one likes."""
    watched = Watched()
    watched.watch.guard()
    watched.watch.guard()


def test_a_stopped_job_is_told_why() -> None:
    """The reason is the operator's or the scheduler's own; it goes into the job's end."""
    watched = Watched()
    watched.watch.stop("anna cancelled it")
    with pytest.raises(Cancelled, match="anna cancelled it"):
        watched.watch.guard()


def test_a_lease_that_is_not_safe_stops_the_job() -> None:
    """The lease is asked anew at every fence, on our own clock."""
    watched = Watched()
    watched.safe = False
    with pytest.raises(LeaseLost, match="orders"):
        watched.watch.guard()


def test_what_the_job_reports_is_what_a_page_shows() -> None:
    """Its step, how much is merged, what it waits for; each report keeps what the others said."""
    watch = Watched().watch
    assert watch.status.is_running and watch.status.began_at == 50.0
    watch.merged(Merged(1, 4, 10, 40, 5, 7))
    watch.step("merging")
    progress = watch.status.progress
    assert progress is not None
    assert (progress.step, progress.operations, progress.operations_total) == ("merging", 1, 4)
    assert progress.ratio == 0.25
    watch.waiting("the lock", 3.0)
    progress = watch.status.progress
    assert progress is not None and progress.step == "waiting: the lock" and progress.operations == 1


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
    progress = watch.status.progress
    assert progress is not None and (progress.operations, progress.operations_total) == (1000, 1200)


def test_a_job_says_once_what_each_of_its_plans_reads() -> None:
    """The scheduler gives it the time for it; a recovery may find plans of any size."""
    watch = Watched().watch
    assert watch.take_size() is None
    for done in (0, 30):
        watch.merged(Merged(0, 4, done, 40, 0, 0))
    assert (watch.take_size(), watch.take_size()) == (40, None)
    watch.merged(Merged(0, 1, 0, 100, 0, 0))
    assert (watch.take_size(), watch.take_size()) == (140, None)

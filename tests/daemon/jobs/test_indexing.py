"""The daemon's watch over indexes: when a check is due, what it finds, what is told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.config.job_kind import JobKind
from lakeward.daemon.scheduling.events import Job, JobResult, ServiceDemand
from lakeward.errors import Cancelled, StoreUnavailable
from lakeward.execute.progress import Silent
from lakeward.state.records import Watermark
from tests.daemon.test_worker import Bench
from tests.verify.metadata_damage import put_record, records

DAY = 86_400.0


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.INDEX]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A table with Hudi's record index, just found by the daemon."""
    return Bench(tmp_path, golden="v9_metadata")


def a_day_later(bench: Bench) -> None:
    bench.serving.clock.sleep(DAY)


def test_an_index_is_checked_once_a_round(bench: Bench) -> None:
    """Keeps 1 of daemon/jobs/indexing: not at once, but when the round in which the daemon came is over; then not
    again before the next is. Nothing is written."""
    before = bench.files()
    assert demand(bench) == ServiceDemand(False)
    a_day_later(bench)
    assert demand(bench).is_due and demand(bench).is_due

    report = bench.run(JobKind.INDEX)

    assert (report.result, report.figures.index_keys_verified) == (JobResult.COMMITTED, 8)
    (index,) = bench.worker.caches.of("orders").indexes
    assert (index.name, index.checked, index.wrong, index.excluded_rate) == ("metadata", 8, 0, 0.0)
    assert index.checked_at is not None
    assert not demand(bench).is_due
    a_day_later(bench)
    assert demand(bench).is_due
    assert bench.files() == before


def test_a_wrong_index_is_told(bench: Bench) -> None:
    """Keeps 2 of daemon/jobs/indexing: the job ends well, since it found what there is to find; the table's page and
    its demand say what is wrong until a check finds nothing."""
    put_record(bench.path, "record_index", "zzz", replace(records(bench.path, "record_index")["k1"]))
    demand(bench)
    a_day_later(bench)
    assert demand(bench).is_due

    report = bench.run(JobKind.INDEX)

    assert (report.result, report.problems, report.figures.index_keys_wrong) == (JobResult.COMMITTED, (), 1)
    assert report.reasons[0].startswith("metadata: zzz: the index says that it is in p")
    assert "is wrong in 1 of 9 keys" in demand(bench).why and not demand(bench).is_due
    (index,) = bench.worker.caches.of("orders").indexes
    assert (index.wrong, index.excluded_rate) == (1, None)
    assert "0 of 4 rows and 1 of 5 entries were found wrong, such as zzz: " in index.out_of_use

    bench.worker.forget("orders")
    assert demand(bench).why.startswith("The index metadata is wrong: writers that go by it")


def test_without_a_word_about_writers_nothing_is_taken_out_of_use(bench: Bench) -> None:
    """A wrong index is told all the same."""
    put_record(bench.path, "record_index", "zzz", replace(records(bench.path, "record_index")["k1"]))
    locks = bench.table.locks.model_copy(update={"writers": None})
    bench.table = replace(bench.table, settings=bench.table.settings.model_copy(update={"locks": locks}))
    demand(bench)
    a_day_later(bench)
    demand(bench)
    before = bench.files()
    assert bench.run(JobKind.INDEX).figures.index_keys_wrong == 1
    assert bench.files() == before
    assert "is wrong in 1 of 9 keys" in demand(bench).why


def test_a_table_without_such_an_index(tmp_path: Path) -> None:
    """It has nothing to check, however long it is watched."""
    bench = Bench(tmp_path)
    demand(bench)
    a_day_later(bench)
    assert demand(bench) == ServiceDemand(False)
    assert bench.run(JobKind.INDEX).result is JobResult.NOTHING


def test_a_check_is_stopped(bench: Bench) -> None:
    """The guard is asked while slices and parts of the index are read; the check is due all the same afterwards."""
    demand(bench)
    a_day_later(bench)
    demand(bench)

    def stop() -> None:
        raise Cancelled("It is late.")

    job = Job("j1", "orders", JobKind.INDEX, {}, 0, 0, 0, 0, deadline=0.0)
    with pytest.raises(Cancelled):
        bench.worker.run(job, bench.table, guard=stop, observer=Silent())
    assert demand(bench).is_due


def test_how_far_an_index_in_the_database_is_behind(bench: Bench) -> None:
    """It is told at each plan, grows older between plans, stays as it was while the store is away, and is no other
    index's: that of Hudi's is checked as ever, and alone."""
    timeline = bench.serving.watcher.snapshot("orders").timeline if bench.plan() else None
    assert timeline is not None
    first, *later = sorted(each.completion_time or "" for each in timeline.completed_writes)
    watermark: Watermark = (first, {})
    bench.serving.watermarks = lambda base_path: {"keys": watermark, "keys.rebuilt": (None, {})}
    demand(bench)
    of_hudi, ours = bench.worker.caches.of("orders").indexes
    assert (of_hudi.name, of_hudi.behind, of_hudi.seconds_behind(0.0)) == ("metadata", None, None)
    assert ours.name == "postgres" and ours.behind is not None
    assert ours.behind.commits == len(later) > 0 and ours.behind.bytes > 0
    now = bench.serving.clock.now()
    assert (ours.seconds_behind(now + 60) or 0) - (ours.seconds_behind(now) or 0) == pytest.approx(60)

    def away(base_path: str) -> dict[str, Watermark]:
        raise StoreUnavailable("It is away.")

    bench.serving.watermarks = away
    a_day_later(bench)
    assert demand(bench).is_due
    assert bench.run(JobKind.INDEX).figures.index_keys_verified == 8
    of_hudi, kept = bench.worker.caches.of("orders").indexes
    assert (of_hudi.checked, kept) == (8, ours)

    watermark = (None, {str(number): each for number, each in enumerate((first, *later))})
    bench.serving.watermarks = lambda base_path: {"keys": watermark}
    demand(bench)
    *_, ours = bench.worker.caches.of("orders").indexes
    assert ours.behind is not None and ours.behind.commits == 0 and ours.seconds_behind(now + 1e6) == 0.0

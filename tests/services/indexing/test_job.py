"""The daemon's watch over indexes: when a check is due, what it finds, what is reported of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, StoreUnavailable
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.record.index_growth import Scaling
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.protocol.progress import Silent
from lakeward.services.indexing.run.index_build import build_index
from lakeward.services.indexing.settings import record_options_of
from lakeward.services.service import ServiceDemand
from lakeward.state.records import Watermark
from lakeward.storage.local import LocalStorage
from tests.daemon.work.test_worker import Bench
from tests.index.builds import in_process
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.services.indexing.upkeep.parts import memory_of
from tests.services.verification.metadata_damage import put_record, records

DAY = 86_400.0
STORAGE = LocalStorage()


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.INDEX]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A table with Hudi's record index, just found by the daemon."""
    return Bench(tmp_path, golden="v9_metadata")


def a_day_later(bench: Bench) -> None:
    bench.serving.clock.sleep(DAY)


def test_an_index_is_checked_once_a_round(bench: Bench) -> None:
    """Keeps 1 of services/indexing/upkeep/checks: not at once, but when the round in which the daemon came is over;
    then not again before the next is. Nothing is written."""
    before = bench.files()
    assert demand(bench) == ServiceDemand(False)
    a_day_later(bench)
    assert demand(bench).is_due and demand(bench).is_due

    report = bench.run(JobKind.INDEX)

    assert (report.result, report.figures.index_keys_verified) == (JobResult.COMMITTED, 8)
    (index,) = memory_of(bench).indexes
    assert (index.name, index.checked, index.wrong, index.excluded_rate) == ("metadata", 8, 0, 0.0)
    assert index.checked_at is not None
    assert not demand(bench).is_due
    a_day_later(bench)
    assert demand(bench).is_due
    assert bench.files() == before


def test_a_wrong_index_is_shown(bench: Bench) -> None:
    """Keeps 2 of services/indexing/upkeep/checks: the job ends well, since it found what there is to find; the table's
    page and its demand say what is wrong until a check finds nothing."""
    put_record(bench.path, "record_index", "zzz", replace(records(bench.path, "record_index")["k1"]))
    demand(bench)
    a_day_later(bench)
    assert demand(bench).is_due

    report = bench.run(JobKind.INDEX)

    assert (report.result, report.problems, report.figures.index_keys_wrong) == (JobResult.COMMITTED, (), 1)
    assert report.reasons[0].startswith("metadata: zzz: the index says that it is in p")
    assert "is wrong in 1 of 9 keys" in demand(bench).why and not demand(bench).is_due
    (index,) = memory_of(bench).indexes
    assert (index.wrong, index.excluded_rate) == (1, None)
    assert "0 of 4 rows and 1 of 5 entries were found wrong, such as zzz: " in index.out_of_use

    bench.worker.forget("orders")
    assert demand(bench).why.startswith("The index metadata is wrong: writers that use it")


def test_without_a_word_about_writers_nothing_is_taken_out_of_use(bench: Bench) -> None:
    """A wrong index is reported all the same."""
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

    job = Job("j1", "orders", JobKind.INDEX, {}, 0, 0, 0, 0, deadline=0.0, started_at=0.0)
    with pytest.raises(Cancelled):
        bench.worker.run(job, bench.table, guard=stop, observer=Silent())
    assert demand(bench).is_due


def test_how_far_an_index_in_the_database_is_behind(bench: Bench) -> None:
    """It is reported at each plan, grows older between plans, stays as it was while the store is away, and is no other
    index's: that of Hudi's is checked as ever, and alone."""
    timeline = bench.serving.watcher.snapshot("orders").timeline if bench.plan() else None
    assert timeline is not None
    first, *later = sorted(each.completion_time or "" for each in timeline.completed_writes)
    watermark: Watermark = (first, {})
    bench.serving.watermarks = lambda base_path: {"keys": watermark, "keys.rebuilt": (None, {})}
    demand(bench)
    of_hudi, own = memory_of(bench).indexes
    assert (of_hudi.name, of_hudi.behind, of_hudi.seconds_behind(0.0)) == ("metadata", None, None)
    assert own.name == "postgres" and own.behind is not None and own.load is None
    assert own.behind.commits == len(later) > 0 and own.behind.bytes > 0
    now = bench.serving.clock.now()
    assert (own.seconds_behind(now + 60) or 0) - (own.seconds_behind(now) or 0) == pytest.approx(60)

    def away(base_path: str) -> dict[str, Watermark]:
        raise StoreUnavailable("It is away.")

    bench.serving.watermarks = away
    a_day_later(bench)
    assert demand(bench).is_due
    assert bench.run(JobKind.INDEX).figures.index_keys_verified == 8
    of_hudi, kept = memory_of(bench).indexes
    assert (of_hudi.checked, kept) == (8, own)

    watermark = (None, {str(number): each for number, each in enumerate((first, *later))})
    bench.serving.watermarks = lambda base_path: {"keys": watermark}
    demand(bench)
    *_, own = memory_of(bench).indexes
    assert own.behind is not None and own.behind.commits == 0 and own.seconds_behind(now + 1e6) == 0.0


@pytest.mark.parametrize("place", ["below the table", "elsewhere"])
def test_how_far_and_how_full_the_record_index_is(tmp_path: Path, place: str) -> None:
    """It is reported of a table that others write, beside an index in the database; one that is not built yet is
    none."""
    location = tmp_path / "indexes"
    settings = {} if place == "below the table" else {"defaults.index.record.location": str(location)}
    bench = Bench(tmp_path, settings=settings)
    folder = Path(record_options_of(bench.table.settings).folder(str(bench.path)))
    assert folder.is_relative_to(bench.path if place == "below the table" else location)
    new_record_index(folder, buckets=3, scaling=Scaling(entries_max=4))
    bench.serving.watermarks = lambda base_path: {"keys": (None, {"1": "1"})}
    demand(bench)
    (outside,) = memory_of(bench).indexes
    assert outside.type is IndexType.POSTGRES

    build_index(
        STORAGE,
        lambda snapshot: RecordIndexWriter.of(STORAGE, snapshot, str(folder)),
        lambda: scan(bench.path),
        in_process(bench.path),
    )
    demand(bench)
    below, outside = memory_of(bench).indexes
    assert (below.name, outside.name, below.behind) == ("record", "postgres", Staleness())
    assert below.load is not None and below.load.mean == pytest.approx(4 / 12) and below.load.fullest >= 0.5
    assert outside.behind is not None and outside.behind.commits > 0


def test_an_index_that_cannot_be_read_hides_no_other_one(bench: Bench) -> None:
    """Keeps 1 of services/indexing/upkeep/statuses: a broken manifest is reported, and Hudi's index is checked."""
    folder = Path(record_options_of(bench.table.settings).folder(str(bench.path)))
    folder.mkdir(parents=True)
    (folder / f"manifest-{0:020}.json").write_text("{}")
    demand(bench)
    a_day_later(bench)
    shown = demand(bench)
    _, below = memory_of(bench).indexes
    assert shown.is_due and "of a record index is broken" in below.problem and below.behind is None
    assert bench.run(JobKind.INDEX).figures.index_keys_verified == 8
    assert "What the index record lacks is unknown. The manifest" in demand(bench).why

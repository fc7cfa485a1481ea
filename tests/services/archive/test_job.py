"""The daemon's archiving: when it is due, and what is reported where something holds the timeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.config.settings import LockSettings
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.archive import job as module
from lakeward.services.service import ServiceDemand
from tests.daemon.work.test_worker import Bench
from tests.golden_tables import expected_rows
from tests.our_reader import read_rows
from tests.services.archive.run.archiving import archived_rows, completed

AT_ONCE = {
    "defaults.archive.hudi": '{ "hoodie.keep.min.commits" = 1, "hoodie.keep.max.commits" = 1 }',
    "defaults.clean.retain": "1",
    "defaults.planner": '{ "hoodie.compact.inline.max.delta.commits" = "1" }',
}


def bench_of(folder: Path, **settings: str) -> Bench:
    """A table of four commits; with these settings two of them may go."""
    return Bench(
        folder, settings=AT_ONCE | {f"defaults.{key.replace('__', '.')}": text for key, text in settings.items()}
    )


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.ARCHIVE]


@pytest.fixture(autouse=True)
def without_min_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeline of one commit is too short for a clean, which the rules of the configuration say."""
    monkeypatch.setattr("lakeward.services.archive.settings.ArchiveSettings.problems", lambda *_: ())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no further commit."""
    monkeypatch.setattr(module, "AFTER_COMMITS", 1)


def test_what_could_go_is_a_demand_and_a_job_archives_it(tmp_path: Path) -> None:
    """Afterwards nothing is due, and the table reads as before."""
    bench = bench_of(tmp_path)
    due = demand(bench)
    assert due.is_due and due.instants == 2

    report = bench.run(JobKind.ARCHIVE)

    assert (report.result, report.figures.instants_archived) == (JobResult.COMMITTED, 2)
    assert (len(archived_rows(bench.path)), len(completed(bench.path))) == (2, 2)
    assert read_rows(bench.path) == expected_rows("v9")
    assert not demand(bench).is_due
    assert bench.run(JobKind.ARCHIVE).result is JobResult.NOTHING


def test_by_default_it_waits_for_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty may be, and writers that archive leave five more at no time."""
    bench = Bench(tmp_path)
    assert demand(bench) == ServiceDemand(False)
    assert bench.run(JobKind.ARCHIVE).result is JobResult.NOTHING
    monkeypatch.setattr(module, "AFTER_COMMITS", 4)
    (folder := tmp_path / "later").mkdir()
    assert demand(bench_of(folder)) == ServiceDemand(False)


def test_what_holds_the_timeline_is_shown_and_no_job_begun(tmp_path: Path) -> None:
    """Keeps of services/archive/job. It is asked again once enough commits have come."""
    bench = bench_of(tmp_path)
    first = completed(bench.path)[0].time
    (bench.path / ".hoodie" / "timeline" / f"{first}.savepoint.inflight").touch()
    held = demand(bench)
    assert not held.is_due and held.why.endswith(f"Not completed yet is the savepoint of {first}.")
    look = bench.worker.caches.of("orders").memory(JobKind.ARCHIVE).look
    assert demand(bench) == held and bench.worker.caches.of("orders").memory(JobKind.ARCHIVE).look is look


def test_what_let_go_of_the_timeline_is_noticed_without_a_commit(tmp_path: Path) -> None:
    """Its writers may have stopped, and a rollback or clean come since."""
    bench = bench_of(tmp_path, timezone='"UTC"')
    savepoint = bench.path / ".hoodie" / "timeline" / f"{completed(bench.path)[0].time}.savepoint.inflight"
    savepoint.touch()
    assert not demand(bench).is_due
    savepoint.unlink()
    bench.serving.clock.sleep(300.0)
    assert not demand(bench).is_due
    bench.serving.clock.sleep(400.0)
    assert demand(bench).is_due


def test_without_a_word_about_writers_nothing_is_archived(tmp_path: Path) -> None:
    """This is the rule for every service."""
    bench = bench_of(tmp_path)
    bench.table = replace(bench.table, settings=bench.table.settings.model_copy(update={"locks": LockSettings()}))
    before = bench.files()
    with pytest.raises(Refused, match="writers"):
        bench.run(JobKind.ARCHIVE)
    assert bench.files() == before

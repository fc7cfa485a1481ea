"""The daemon's cleans: when one is due, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Refused
from lakeward.cli.main import run
from lakeward.config.settings import LockSettings
from lakeward.daemon.served_table import served_table
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.clean import job as module
from lakeward.services.clean.run.clean_choice import find_retention
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.service import ServiceDemand
from tests.daemon.serving import Serving
from tests.daemon.work.test_worker import Bench
from tests.services.clean.run.cleaning import completed_cleans, data_files

AT_ONCE = {
    "defaults.clean.policy": "versions",
    "defaults.clean.retain": "1",
    "defaults.clean.reader_window": "0s",
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no further commit."""
    monkeypatch.setattr(module, "AFTER_COMMITS", 1)


def compacted(folder: Path, settings: dict[str, str] | None = None) -> Bench:
    """A table whose one file group has a slice that nothing needs any more."""
    bench = Bench(folder, settings=AT_ONCE if settings is None else settings)
    assert bench.run(JobKind.COMPACTION).result is JobResult.COMMITTED
    return bench


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.CLEAN]


def test_a_count_of_the_storage_brings_no_old_look_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of daemon/work/table_cache. A clean ends while the storage is counted: what could have gone before it is
    not remembered again, and the plan after it asks again."""
    bench = compacted(tmp_path)
    assert demand(bench).is_due
    cache = bench.worker.caches.of("orders")
    assert cache.memory(JobKind.CLEAN).look is not None

    def find_while_a_clean_ends(*given: Any, **named: Any) -> Any:
        if cache.memory(JobKind.CLEAN).look is not None:
            assert bench.run(JobKind.CLEAN).result is JobResult.COMMITTED
        return find_retention(*given, **named)

    monkeypatch.setattr("lakeward.services.clean.job.find_retention", find_while_a_clean_ends)
    bench.serving.clock.sleep(3600.0)
    assert bench.worker.count(bench.table) is not None

    assert cache.memory(JobKind.CLEAN).look is None


def test_what_could_go_is_a_demand_and_a_job_deletes_it(tmp_path: Path) -> None:
    """In files and bytes, as the poll saw them; afterwards nothing is due, and the clean says whose it is."""
    bench = compacted(tmp_path)
    before, due = data_files(bench.path), demand(bench)
    assert due.is_due and due.files > 1 and due.bytes > 0

    report = bench.run(JobKind.CLEAN)

    assert report.result is JobResult.COMMITTED
    assert (report.figures.files_deleted, report.figures.bytes_deleted) == (due.files, due.bytes)
    assert len(before - data_files(bench.path)) == due.files
    (metadata,) = completed_cleans(bench.path).values()
    assert metadata.instant == report.instants[0]
    assert metadata.extra_metadata["planned_by_service"] == bench.serving.settings.service.name
    assert not demand(bench).is_due


def test_by_default_it_waits_for_commits(tmp_path: Path) -> None:
    """Ten are kept, and five more could have cleaned: nothing is due on a young table."""
    bench = compacted(tmp_path, {})
    assert not demand(bench).is_due
    assert bench.run(JobKind.CLEAN).result is JobResult.NOTHING


def test_what_is_paused_or_left_out_stays(tmp_path: Path) -> None:
    """Keeps of services/clean/job. Neither the plan counts it, nor does a job touch it."""
    bench = compacted(tmp_path)
    bench.worker.poll(bench.table)
    excluded = {bench.group: Reason.PAUSED}
    assert not bench.plan(excluded).demand.services[JobKind.CLEAN].is_due
    assert bench.run(JobKind.CLEAN, excluded=excluded).result is JobResult.NOTHING
    for number, settings in enumerate(({"defaults.partitions": '["q*"]'}, {"defaults.exclude_partitions": '["p"]'})):
        (folder := tmp_path / str(number)).mkdir()
        other = compacted(folder, AT_ONCE)
        loaded = Serving.load(folder / "tables", folder / "state", settings | AT_ONCE)
        other.table = served_table(loaded, "orders", str(other.path), watched_since=0.0)
        assert not demand(other).is_due
        assert other.run(JobKind.CLEAN).result is JobResult.NOTHING


def test_a_table_whose_writers_clean_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked for until as many commits have come since the newest clean of any engine."""
    monkeypatch.setattr(module, "AFTER_COMMITS", 2)
    bench = compacted(tmp_path, AT_ONCE)
    assert bench.run(JobKind.CLEAN).result is JobResult.COMMITTED
    assert demand(bench) == ServiceDemand(False)
    assert bench.worker.caches.of("orders").memory(JobKind.CLEAN).look is None


def test_a_table_whose_writers_have_stopped_is_cleaned_to_the_end(tmp_path: Path) -> None:
    """What a query may still read is due once none can, without a commit that would make it so."""
    bench = compacted(tmp_path, AT_ONCE | {"defaults.clean.reader_window": "2h", "defaults.timezone": "UTC"})
    assert not demand(bench).is_due
    bench.serving.clock.sleep(3600.0)
    assert not demand(bench).is_due
    bench.serving.clock.sleep(3700.0)
    assert demand(bench).is_due
    assert bench.run(JobKind.CLEAN).result is JobResult.COMMITTED
    assert not demand(bench).is_due


def test_what_let_go_of_slices_is_noticed_without_a_commit(tmp_path: Path) -> None:
    """A savepoint or a pending write that held them may be gone, and the writers may have stopped."""
    bench = compacted(tmp_path, AT_ONCE | {"defaults.clean.reader_window": "0s", "defaults.timezone": "UTC"})
    newest = max(path.name for path in (bench.path / ".hoodie" / "timeline").glob("*.deltacommit"))[:17]
    stopped = (str(bench.path), newest, "--writers", "stopped", "--timezone", "UTC")
    assert run(["savepoint", "create", *stopped]) == 0
    assert not demand(bench).is_due
    assert run(["savepoint", "delete", *stopped]) == 0
    bench.serving.clock.sleep(300.0)
    assert not demand(bench).is_due
    bench.serving.clock.sleep(400.0)
    assert demand(bench).is_due


def test_without_a_word_about_writers_nothing_is_deleted(tmp_path: Path) -> None:
    """This is the rule for every service."""
    bench = compacted(tmp_path)
    silent = bench.table.settings.model_copy(update={"locks": LockSettings()})
    bench.table = replace(bench.table, settings=silent)
    before = bench.files()
    with pytest.raises(Refused, match="writers"):
        bench.run(JobKind.CLEAN)
    assert bench.files() == before


def test_what_prevents_a_clean_is_shown(tmp_path: Path) -> None:
    """It holds no compaction back: here a clean that cannot be read, by which writers might say how much is kept."""
    bench = compacted(tmp_path, {})
    timeline = bench.path / ".hoodie/timeline"
    (timeline / "20260701000000000.clean.requested").write_bytes(b"torn")
    (timeline / "20260701000000000.clean.inflight").write_bytes(b"")
    (timeline / "20260701000000000_20260701000001000.clean").write_bytes(b"torn")
    found = bench.plan().demand
    assert not found.services[JobKind.CLEAN].is_due and "clean" in found.services[JobKind.CLEAN].why


def test_what_a_job_takes_away_is_kept_and_purged_by_its_time(tmp_path: Path) -> None:
    """It stays for as long as clean.keep_deleted says: then it is a demand of its own, and a job deletes it."""
    kept = AT_ONCE | {"defaults.clean.keep_deleted": "1h"}
    bench = compacted(tmp_path, kept)
    due = demand(bench)
    assert due.quarantined_bytes == 0
    assert bench.run(JobKind.CLEAN).result is JobResult.COMMITTED
    held = demand(bench)
    assert not held.is_due and held.quarantined_bytes == due.bytes

    bench.serving.clock.sleep(3700.0)
    overdue = demand(bench)
    assert overdue.is_due and "quarantine" in overdue.why
    report = bench.run(JobKind.CLEAN)
    assert report.result is JobResult.COMMITTED and report.figures.runs_capped == 0
    assert demand(bench).quarantined_bytes == 0 and not demand(bench).is_due


def test_a_cap_that_is_met_is_counted(tmp_path: Path) -> None:
    """What is more than clean.quarantine_max goes with the clean that brought it."""
    bench = compacted(tmp_path, AT_ONCE | {"defaults.clean.keep_deleted": "1h", "defaults.clean.quarantine_max": "1"})
    assert bench.run(JobKind.CLEAN).figures.runs_capped == 1
    assert demand(bench).quarantined_bytes == 0


def test_what_a_clean_has_deleted_is_remembered(tmp_path: Path) -> None:
    """The store has it, batch by batch, and `lakeward jobs` and scripts read it there."""
    bench = compacted(tmp_path)
    serving = bench.serving
    serving.settle()
    serving.run(120)
    (job,) = [each for each in serving.store.jobs.latest(limit=50) if each.service == JobKind.CLEAN]
    (progress,) = serving.store.jobs.progress(job.id)
    assert progress.instant == job.instant
    assert progress.files == progress.files_total == job.figures["files_deleted"] > 0

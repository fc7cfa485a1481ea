"""The daemon's rollbacks: which write counts as failed, and what happens to it."""

from __future__ import annotations

import os
from pathlib import Path

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.service import ServiceDemand
from tests.crash.compacting import everything
from tests.daemon.work.test_worker import Bench
from tests.metadata_golden import DATA_TIMELINE
from tests.services.bench import PENDING
from tests.services.clean.run.cleaning import data_files
from tests.services.rollback.run.failed_tables import fail_last_write


def failed(folder: Path, *, seconds_ago: float) -> tuple[Bench, str]:
    """A table whose last write never completed, and its instant; nothing of it has changed for so long."""
    bench = Bench(folder)
    instant = fail_last_write(bench.path)
    then = bench.serving.clock.now() - seconds_ago
    for path in (bench.path / DATA_TIMELINE).glob(f"{instant}*"):
        os.utime(path, (then, then))
    return bench, instant


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.ROLLBACK]


def test_a_write_that_failed_is_rolled_back(tmp_path: Path) -> None:
    """Once nothing of it has changed for ten minutes; the demand names it, and afterwards nothing is due."""
    bench, instant = failed(tmp_path, seconds_ago=601)
    due = demand(bench)
    assert due.is_due and due.instants == 1 and instant in due.why
    assert any(instant in name for name in data_files(bench.path))

    report = bench.run(JobKind.ROLLBACK)

    assert (report.result, report.figures.writes_rolled_back) == (JobResult.COMMITTED, 1)
    assert not any(instant in name for name in data_files(bench.path))
    assert not demand(bench).is_due


def test_a_write_that_is_young_is_left_alone(tmp_path: Path) -> None:
    """Keeps of services/rollback/job: its writer may be about to come back to it, and Hudi's own rolls it back."""
    bench, instant = failed(tmp_path, seconds_ago=60)
    before = bench.files()
    assert not demand(bench).is_due
    assert bench.run(JobKind.ROLLBACK).result is JobResult.NOTHING
    assert any(instant in name for name in data_files(bench.path)) and bench.files() == before


def test_a_write_whose_heartbeat_beats_is_left_alone(tmp_path: Path) -> None:
    """However long it has been under way."""
    bench, instant = failed(tmp_path, seconds_ago=7200)
    heartbeat = bench.path / ".hoodie/.heartbeat" / instant
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    heartbeat.touch()
    now = bench.serving.clock.now()
    os.utime(heartbeat, (now, now))
    assert not demand(bench).is_due
    assert bench.run(JobKind.ROLLBACK).result is JobResult.NOTHING
    assert any(instant in name for name in data_files(bench.path))


def begun(folder: Path, *, hours_ago: float, writers: str = "share") -> Bench:
    """A compaction of Hudi's that was begun so long ago, without a heartbeat."""
    bench = Bench(folder, pending=True, settings={"locks.writers": writers})
    inflight = bench.path / DATA_TIMELINE / f"{PENDING}.compaction.inflight"
    inflight.touch()
    then = bench.serving.clock.now() - hours_ago * 3600
    for path in (inflight, inflight.with_suffix(".requested")):
        os.utime(path, (then, then))
    return bench


def test_a_compaction_that_may_be_at_work_is_left(tmp_path: Path) -> None:
    """Both jobs leave it; the demand says why, and until when, and that there is nothing to compact."""
    bench = begun(tmp_path, hours_ago=5)
    before = everything(bench.path)
    left = demand(bench)
    assert not left.is_due
    assert f"compaction {PENDING} is left: another engine began it" in left.why and "which is at 20" in left.why
    assert bench.plan().demand.operations == 0
    assert bench.run(JobKind.ROLLBACK).result is JobResult.NOTHING
    assert bench.run(JobKind.COMPACTION).result is JobResult.NOTHING
    assert everything(bench.path) == before


def test_one_that_was_silent_is_released_and_carried_out(tmp_path: Path) -> None:
    """After the six hours of the default; the job names its instant."""
    bench = begun(tmp_path, hours_ago=7)
    due = demand(bench)
    assert due.is_due and PENDING in due.why and "rollback.silent_after" in due.why
    report = bench.run(JobKind.ROLLBACK)
    assert (report.result, report.instants) == (JobResult.COMMITTED, (PENDING,))
    assert report.reasons[0].startswith(f"compaction {PENDING}, release: it has no heartbeat")
    assert not demand(bench).is_due
    assert bench.plan().demand.operations == 1
    assert bench.run(JobKind.COMPACTION).instants == (PENDING,)

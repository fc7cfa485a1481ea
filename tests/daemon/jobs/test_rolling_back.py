"""The daemon's rollbacks: which write counts as failed, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path

from lakeward.config.job_kind import JobKind
from lakeward.daemon.scheduling.events import JobResult, ServiceDemand
from tests.daemon.test_worker import Bench
from tests.execute.clean.cleaning import data_files
from tests.execute.rollback.failed_tables import fail_last_write
from tests.metadata_golden import DATA_TIMELINE


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
    """Keeps of daemon/jobs/rolling_back: its writer may be about to come back to it, and Hudi's own rolls it back."""
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

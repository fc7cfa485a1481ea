"""The daemon on a table of version 10: what is due there is reported in all of its files, and jobs do it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lakeward.cli.main import run
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.served_table import served_table
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.protocol.progress import Silent
from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from lakeward.table.backlog import backlog_of
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.daemon.work.test_worker import Bench, proceed
from tests.metadata_golden import DATA_TIMELINE
from tests.native_table import NativeTable, Record
from tests.our_reader import scan
from tests.services.archive.test_job import AT_ONCE
from tests.services.clean import test_job as test_cleaning
from tests.services.clean.run.cleaning import data_files
from tests.services.rollback.run.failed_tables import fail_last_write
from tests.version_10 import judged_rows, made_native

OLDEST = "20261121043703223"


def sizes_of(base: Path, *kinds: str) -> list[int]:
    return [(base / path).stat().st_size for path in data_files(base) if any(kind in path for kind in kinds)]


def test_it_is_watched_rolled_back_and_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page, the metrics and `inspect` say of logs are the files of rows and of deletes. A failed write
    goes with its own, then the oldest instants go, and the rows stay."""
    monkeypatch.setattr("lakeward.services.archive.settings.ArchiveSettings.problems", lambda *_: ())
    monkeypatch.setattr("lakeward.services.archive.job.AFTER_COMMITS", 1)
    bench = Bench(tmp_path, settings=AT_ONCE)
    made_native(bench.path)
    failed = fail_last_write(bench.path)
    for path in (bench.path / DATA_TIMELINE).glob(f"{failed}*"):
        os.utime(path, (0.0, 0.0))
    rows = judged_rows(bench.path)
    assert bench.plan().demand.services[JobKind.ROLLBACK].is_due
    assert bench.run(JobKind.ROLLBACK).result is JobResult.COMMITTED
    assert not any(failed in name for name in data_files(bench.path))

    logs = sizes_of(bench.path, ".log.", ".deletes.")
    due = bench.plan().demand.services[JobKind.ARCHIVE]
    backlog = bench.serving.watcher.backlog("orders")
    totals = inspect_table(LocalStorage(), str(bench.path), timezone=None, clock=SkippingClock())["totals"]
    assert (totals["log_files"], totals["log_bytes"], totals["base_files"]) == (len(logs), sum(logs), 1)
    assert (backlog.log_files, backlog.log_bytes) == (len(logs), sum(logs))
    assert due.is_due and bench.run(JobKind.ARCHIVE).figures.instants_archived == due.instants
    assert judged_rows(bench.path) == rows


def test_it_is_compacted_and_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job merges its logs into a base file of the rows that the second reader finds; then the demand and the job of a
    clean count every file of the old slice."""
    monkeypatch.setattr("lakeward.services.clean.job.AFTER_COMMITS", 1)
    bench = Bench(tmp_path, settings=test_cleaning.AT_ONCE)
    made_native(bench.path)
    rows = judged_rows(bench.path)
    assert bench.run(JobKind.COMPACTION).result is JobResult.COMMITTED
    assert judged_rows(bench.path) == rows
    before = data_files(bench.path)
    due = bench.plan().demand.services[JobKind.CLEAN]
    assert (due.files, due.bytes) == (6, sum(sizes_of(bench.path, ".log.", ".deletes.", OLDEST)))

    report = bench.run(JobKind.CLEAN)

    assert (report.figures.files_deleted, report.figures.bytes_deleted) == (due.files, due.bytes)
    assert {OLDEST in path or path.count("_") == 3 for path in before - data_files(bench.path)} == {True}
    assert judged_rows(bench.path) == rows
    assert not bench.plan().demand.services[JobKind.CLEAN].is_due


LOG_FROM_FIVE = {
    "planner.small_base_size": "1KiB",
    "planner.log_ratio": "10",
    "planner.large_log_ratio": "10",
    "hoodie.compaction.logfile.size.threshold": "1",
}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["command", "daemon"])
def test_twelve_logs_of_the_layout_lsm_tree_become_few(tmp_path: Path, by: str) -> None:
    """They stayed as they were until FULL came with the twenty-first, by command and by daemon. LOG merges them, and
    again as more come; a clean takes away what it merged, so that few are live, and few are there."""
    table = lsm_table(tmp_path / "tables/orders")
    for at in range(12):
        table.write({"g-0": [Record(f"w{at}", at, f"{at}"), Record("n", at, f"{at}")]})
    do = by_command if by == "command" else by_daemon(tmp_path)
    assert live_logs_of(table.base) == 12
    do(table.base, JobKind.COMPACTION)
    assert live_logs_of(table.base) == 1
    table.check()
    for _ in range(2):
        for at in range(6):
            table.write({"g-0": [Record(f"w{at}", 100 + at, f"{at}")]})
        do(table.base, JobKind.COMPACTION)
        assert live_logs_of(table.base) <= 3
        table.check()
    for _ in range(2):
        do(table.base, JobKind.CLEAN)
        table.check()
    assert len(scan(table.base).latest_slices[0].log_files) <= 9, "of 26: the last run's, and outputs"


@pytest.mark.parametrize("given", [{"services": '["compaction"]'}, {"clean.policy": "versions"}], ids=str)
def test_no_log_compaction_is_made_there_where_no_clean_follows(tmp_path: Path, given: dict[str, str]) -> None:
    """Readers would read the logs and the output, for good: FULL comes with more than twenty, as before."""
    table = lsm_table(tmp_path / "tables/orders")
    for at in range(21):
        table.write({"g-0": [Record("n", at, f"{at}")]})
        if at == 12:
            by_daemon(tmp_path, **given)(table.base, JobKind.COMPACTION)
            assert live_logs_of(table.base) == 13
    by_daemon(tmp_path, **given)(table.base, JobKind.COMPACTION)
    assert live_logs_of(table.base) == 0


def lsm_table(base: Path) -> NativeTable:
    table = NativeTable(base, by_event_time=True, hoodie__table__storage__layout="LSM_TREE")
    chance = Random(0)
    table.insert("g-0", [Record(f"w{number}", 0, chance.randbytes(40).hex()) for number in range(900)])
    return table


def live_logs_of(base: Path) -> int:
    return backlog_of(scan(base)).log_files


KEEPS_ONE = ["--retain", "1", "--reader-window", "0s"]


def by_command(base: Path, kind: JobKind) -> None:
    settings = [word for key, value in LOG_FROM_FIVE.items() for word in ("--set", f"{key}={value}")]
    given = ["clean", *KEEPS_ONE] if kind is JobKind.CLEAN else ["compact", "--engine", "local", *settings]
    assert run([*given, str(base), "--writers", "stopped"]) == 0


def by_daemon(folder: Path, **given: str) -> Callable[[Path, JobKind], None]:
    planner = ", ".join(f'"{key}" = "{value}"' for key, value in LOG_FROM_FIVE.items())
    settings = {"planner": f"{{ {planner} }}", "objective": "none"}
    settings |= {"clean.retain": "1", "clean.reader_window": "0s"} | given
    defaults = {f"defaults.{key}": value for key, value in settings.items()}
    serving = Serving(folder / "tables", folder / "state", settings=defaults)
    table = served_table(serving.settings, "orders", str(folder / "tables/orders"), watched_since=serving.clock.now())

    def do(base: Path, kind: JobKind) -> None:
        serving.worker.poll(table)
        if kind is JobKind.CLEAN or serving.worker.plan(table, {}, proceed).demand.operations:
            job = Job("j1", "orders", kind, {}, 1, 1, 1, 1, deadline=0.0, started_at=0.0)
            serving.worker.run(job, table, guard=proceed, observer=Silent())

    return do

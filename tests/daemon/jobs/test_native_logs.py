"""The daemon on a table of version 10: what is due there is reported in all of its files, and jobs do it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.together.inspection import inspect_table
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.daemon.work.test_worker import Bench
from tests.metadata_golden import DATA_TIMELINE
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

"""Batch writers of Hudi 1.2.0, each write in a JVM of its own, on a table under our care: none has to compact the
metadata table, over which it would fail (docs/decisions/0018-the-metadata-table-before-its-writers.md)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_metadata_services import compactions, instants, plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.usefixtures("short_waits")]

WRITES = 30
ROWS = 20
SHAPE = TableShape(
    partition_fields="part",
    options={
        "hoodie.metadata.enable": "true",
        # Hudi's defaults, which the harness turns off.
        "hoodie.clean.automatic": "true",
        "hoodie.archive.automatic": "true",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    },
)
"""A table that batches are inserted into: it has no logs, so nothing of it is ever compacted but its metadata."""

CONFIG = """
[service]
name = "before-writers"
state_folder = "{folder}/state"
listen = "127.0.0.1:0"

[locks]
writers = "share"

[defaults]
interval = "1s"

[[tables]]
name = "orders"
path = "{table}"
"""


def batch(number: int) -> str:
    return (
        f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {number}L AS ts, 'batch {number}' AS v "
        f"FROM range({number * ROWS}, {(number + 1) * ROWS})"
    )


def write_in_fresh_jvm(path: Path, number: int, scratch: Path) -> None:
    """One write is the first and the last that its JVM does. Fails where Hudi does."""
    with OtherRelease(HUDI_VERSION, scratch / str(number)) as hudi:
        hudi.table(path, SHAPE).write(batch(number), "insert")


@contextmanager
def daemon(folder: Path, table: Path) -> Iterator[None]:
    """`lakeward run` beside the writers; it ends well when it is asked to."""
    (folder / "lakeward.toml").write_text(CONFIG.format(folder=folder, table=table))
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeward.cli.main", "run", "--config", str(folder / "lakeward.toml")],
            stdout=log,
            stderr=log,
        )
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, (folder / "daemon.log").read_text()[-3000:]
        finally:
            process.kill()


@pytest.mark.timeout(7200)
def test_no_writer_has_to_compact_the_metadata_table(spark: SparkSession, tmp_path: Path):
    """Thirty batches, one JVM each, none fails: fifteen with the command after each, and fifteen with the daemon
    beside them. Every compaction of the metadata table is Lakeward's, in time; the rows are all there."""
    table, first = HudiTable(spark, tmp_path / "table", SHAPE), WRITES // 2
    for number in range(first):
        write_in_fresh_jvm(table.path, number, tmp_path / "jvm")
        exit_code, printed = lakeward("compact", str(table.path), "--lock", "filesystem")
        assert exit_code == 0, printed
        assert printed["metadata_left"] is None
    by_command = compactions(table)
    with daemon(tmp_path, table.path):
        for number in range(first, WRITES):
            write_in_fresh_jvm(table.path, number, tmp_path / "jvm")
    found = compactions(table)
    assert by_command and len(found) > len(by_command), "the daemon compacted it, too"
    plans = [plan_of(table, each) for each in {i.time for i in instants(table) if i.action == "compaction"}]
    assert plans and all(plan.extra_metadata["planned_by"] == "lakeward" for plan in plans)
    assert table.frame().count() == table.frame(**{"hoodie.metadata.enable": "false"}).count() == WRITES * ROWS


@pytest.fixture(scope="module")
def full(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """A table that we never touched and whose next writer compacts its metadata table: three builds, seven writes."""
    table = HudiTable(spark, tmp_path_factory.mktemp("full") / "table", SHAPE)
    for number in range(7):
        table.write(spark.sql(batch(number)), "insert")
    return table


def test_a_writer_in_a_fresh_jvm_does_not_fail_after_us(full: HudiTable, tmp_path: Path):
    """There is nothing to compact but the metadata table, and the next writer finds that done."""
    table = full.copy_to(tmp_path / "table")

    exit_code, printed = lakeward("compact", str(table.path), "--lock", "filesystem")

    assert (exit_code, printed["compactions"]) == (0, [])
    assert (printed["metadata_table"]["delta_commits"], printed["metadata_table"]["limit"]) == (10, 10)
    assert printed["metadata_compaction"]["delta_commits"] == 10
    write_in_fresh_jvm(table.path, 7, tmp_path / "jvm")
    assert table.frame().count() == 8 * ROWS
    assert compactions(table) == [printed["metadata_compaction"]["instant"]]


def test_without_us_it_fails(full: HudiTable, tmp_path: Path):
    """Which is Hudi's and not Lakeward's; once this no longer holds, decision 0018 is to be thought over."""
    table = full.copy_to(tmp_path / "table")
    with pytest.raises(AssertionError, match="streaming commit to metadata"):
        write_in_fresh_jvm(table.path, 7, tmp_path / "jvm")
    assert len(compactions(table)) == 1
    write_in_fresh_jvm(table.path, 8, tmp_path / "jvm")
    assert table.frame().count() == 8 * ROWS, "the failed write is not there, the next one is"

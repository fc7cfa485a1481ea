"""Beside the matrix: Hudi with its defaults after us, Hudi writing while we work, its indexes on our files. Its writers
go on without a pause in optimistic concurrency mode, and no write fails for a log compaction of Lakeward; the longer
story, with both locks that run here and writers with and without pauses, is `make soak-locks`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat import Heartbeat
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.owner import Processes
from lakeward.protocol.writers_conflict import Verdict
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.writer_conflicts import find_writer_conflicts
from tests.crash.compacting import instants
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.made_once import made_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARED_LOCK = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def rows(spark: SparkSession, first: int, last: int, ts: int, value: str) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, {ts}L AS ts, concat('{value}', id) AS v FROM range({first}, {last})"
    )


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """A copy of a table with logs, which Hudi writes once for all tests."""
    folder = made_once(tmp_path_factory, "with-logs", lambda folder: write_with_logs(spark, folder, TableShape()))
    return HudiTable(spark, folder, TableShape()).copy_to(tmp_path / "table")


def write_with_logs(spark: SparkSession, path: Path, shape: TableShape) -> HudiTable:
    """Keys 0 to 39 with value a, of which 5 to 14 were updated to b."""
    table = HudiTable(spark, path, shape)
    table.write(rows(spark, 0, 40, 10, "a"), "insert")
    table.write(rows(spark, 5, 15, 11, "b"), "upsert")
    return table


def values(table: HudiTable, **options: str) -> dict[str, str]:
    found = [json.loads(row) for row in table.snapshot(with_meta=False, **options)]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


@pytest.mark.usefixtures("short_waits")
def test_hudi_goes_on_with_its_defaults(spark: SparkSession, table: HudiTable):
    """After us an upsert with pure defaults builds Hudi's metadata table over our files, and rows are right with it and
    without; our next compact writes into it, and rows are right again."""
    compact(table)
    defaults = HudiTable(spark, table.path, TableShape())

    defaults.write(rows(spark, 10, 45, 12, "c"), "upsert", **{"hoodie.metadata.enable": "true"})

    expected = {f"k{n}": f"{'c' if n >= 10 else 'b' if n >= 5 else 'a'}{n}" for n in range(45)}
    assert (table.path / ".hoodie" / "metadata").is_dir()
    assert values(table, **{"hoodie.metadata.enable": "true"}) == expected
    assert values(table, **{"hoodie.metadata.enable": "false"}) == expected
    assert compact(table)["compactions"]
    assert values(table, **{"hoodie.metadata.enable": "true"}) == expected
    assert values(table, **{"hoodie.metadata.enable": "false"}) == expected


@pytest.mark.usefixtures("short_waits")
def test_a_write_lands_while_we_compact(spark: SparkSession, table: HudiTable, monkeypatch: pytest.MonkeyPatch):
    """With a shared lock a delta commit may complete between our schedule and our commit; its rows are read afterwards,
    and stay in logs until the next compaction."""
    table = table.reshaped(options=SHARED_LOCK)
    merge = SparkDispatcher.run
    landed: list[str] = []

    def merge_and_write(dispatcher: SparkDispatcher, *arguments: Any, **options: Any) -> Any:
        merged = merge(dispatcher, *arguments, **options)
        if not landed and table.pending_instants():
            landed.append("")
            table.write(rows(spark, 10, 20, 12, "c"), "upsert")
        return merged

    monkeypatch.setattr(SparkDispatcher, "run", merge_and_write)
    printed = compact(table, "--lock", "filesystem")

    assert landed, printed
    expected = {f"k{n}": f"{'c' if 10 <= n < 20 else 'b' if 5 <= n < 10 else 'a'}{n}" for n in range(40)}
    assert values(table) == expected
    assert [name for name in table.data_files() if ".log." in name]
    assert not (table.path / ".hoodie" / "lock").exists()
    compact(table, "--lock", "filesystem")
    assert values(table) == expected
    assert table.read_optimized() == table.snapshot()


IN_MATRIX = [pytest.param(index, marks=pytest.mark.wide) for index in ("SIMPLE", "BLOOM", "BUCKET")]
"""Indexes by which tables of `cases.py` are written to after us."""


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM", *IN_MATRIX])
def test_every_index_of_hudi_finds_its_keys_in_our_files(
    spark: SparkSession, tmp_path: Path, table: HudiTable, index: str
):
    """After us an upsert updates the rows that are there, whatever index looks them up: no key doubles."""
    if index == "BUCKET":
        table = write_with_logs(spark, tmp_path / "buckets", TableShape(index=index))
    else:
        table = table.reshaped(index=index)
    compact(table)

    table.write(rows(spark, 0, 42, 12, "c"), "upsert")

    assert values(table) == {f"k{n}": f"c{n}" for n in range(42)}


@pytest.mark.usefixtures("short_waits")
def test_a_group_without_rows_left(spark: SparkSession, table: HudiTable):
    """All its rows are deleted: we write a base file without rows, which Hudi reads, writes to and compacts."""
    table.write(rows(spark, 0, 40, 12, "x"), "delete")
    compact(table)
    assert table.snapshot() == table.read_optimized() == ()

    table.write(rows(spark, 0, 3, 13, "back"), "upsert")

    assert values(table) == {"k0": "back0", "k1": "back1", "k2": "back2"}


@pytest.mark.usefixtures("short_waits")
@pytest.mark.turns
def test_the_command_as_installed(table: HudiTable):
    """A process of its own, which starts its own Spark, writes data to stdout, all else to stderr, and exits with 0."""
    before = table.snapshot()

    command = [sys.executable, "-m", "lakeward.cli.main", "compact", str(table.path)]
    done = subprocess.run(
        [*command, "--type", "full", "--writers", "stopped", "--engine", "spark", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert table.snapshot() == table.read_optimized() == before


@pytest.mark.usefixtures("short_waits")
def test_hudi_judges_our_heartbeat_by_its_file_time_alone(spark: SparkSession, table: HudiTable):
    """The line that we write into the file means nothing to Hudi's own client: fresh is alive, old is expired."""
    heartbeat = Heartbeat(LocalStorage(), str(table.path), "20261121050000000", Processes().new_owner())
    heartbeat.start()
    jvm = spark._jvm
    storage = jvm.org.apache.hudi.storage.HoodieStorageUtils.getStorage(
        str(table.path), jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    )
    client = jvm.org.apache.hudi.client.heartbeat.HoodieHeartbeatClient(storage, str(table.path), 60_000, 2)
    assert not client.isHeartbeatExpired("20261121050000000")
    path = heartbeat_path(str(table.path), "20261121050000000")
    then = time.time() - 3600
    os.utime(path, (then, then))
    assert client.isHeartbeatExpired("20261121050000000")
    heartbeat.beat()
    assert not client.isHeartbeatExpired("20261121050000000")


@pytest.mark.usefixtures("short_waits")
@pytest.mark.wide
def test_hudi_doubles_a_key_that_comes_back_before_its_delete_is_compacted(spark: SparkSession, table: HudiTable):
    """With Hudi alone: the writer finds keys in base files only, so the row that came back into the log is one that it
    does not find once the base file has lost the key."""
    table.write(rows(spark, 7, 8, 12, "gone"), "delete")
    plan = table.schedule_compaction()
    table.write(rows(spark, 7, 8, 13, "back"), "upsert")
    table.compact_pending(plan)
    table.write(rows(spark, 7, 8, 14, "again"), "upsert")

    found = [json.loads(row) for row in table.snapshot(with_meta=False)]
    assert [row["v"] for row in found if row["id"] == "k7"] == ["back7", "again7"]


LOGS = 2
RUNS_MAX = 10
OPTIONS = SHARED_LOCK | {"hoodie.write.lock.client.wait_time_ms_between_retry": "100"}
SETTINGS = ("hoodie.compaction.logfile.num.threshold=2", "hoodie.compaction.logfile.size.threshold=1")


class Writing:
    """A writer's thread."""

    def __init__(self, spark: SparkSession, table: HudiTable) -> None:
        self.writes = 0
        self.failed: Exception | None = None
        self._spark, self._table = spark, table
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._enough.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._enough.is_set():
                ts = 20 + self.writes
                self._table.write(rows(self._spark, 0, 40, ts, f"w{self.writes}-"), "upsert")
                self.writes += 1
        except Exception as error:
            self.failed = error


@pytest.mark.turns
def test_no_write_fails_for_a_log_compaction(spark: SparkSession, tmp_path: Path) -> None:
    """Each is published in a gap or overtaken: for every write that is open at that moment, a commit younger than its
    plan was complete when the write began. One that is planned during a write is not published during that write."""
    table = write_with_logs(spark, tmp_path / "table", TableShape(options=OPTIONS))
    writing = Writing(spark, table)
    done: dict[str, str] = {}
    with writing.under_way():
        for _ in range(RUNS_MAX):
            exit_code, printed = lakeward(
                *("compact", str(table.path), "--type", "log", "--no-metadata-services"),
                *(part for setting in SETTINGS for part in ("--set", setting)),
                *("--lock", "filesystem", "--engine", "local"),
            )
            assert exit_code in (0, 75), printed
            plans = printed.get("compactions", ())
            done |= {plan["instant"]: plan["completion_time"] for plan in plans if plan["completion_time"]}
            if len(done) >= LOGS or writing.failed is not None:
                break
    if writing.failed is not None:
        raise writing.failed
    assert len(done) >= LOGS
    ends = {each.time: str(each.completion_time) for each in instants(table.path) if each.state is State.COMPLETED}
    writes = ends.keys() - done.keys()
    for planned, published in done.items():
        for write in writes:
            if write < published < ends[write]:
                assert any(planned < begun and end < write for begun, end in ends.items()), (planned, write)
            assert not write < planned < published < ends[write]
    assert any(write < planned < ends[write] for planned in done for write in writes), (
        "else this would have shown little"
    )
    assert set(values(table).values()) == {f"w{writing.writes - 1}-{number}" for number in range(40)}


@pytest.mark.wide
def test_what_hudi_rolls_back_is_found(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it asked no writer, Lakeward published while a write is under way, which fails; Hudi's next writer rolls it
    back, and from the plan of that rollback the conflict is counted as Lakeward's."""
    table = write_with_logs(spark, tmp_path / "table", TableShape(options=OPTIONS))
    monkeypatch.setattr("lakeward.services.compaction.run.publication.decide", lambda *_, **__: Verdict())
    writing = Writing(spark, table)
    with writing.under_way():
        for _ in range(RUNS_MAX):
            exit_code, printed = lakeward(
                *("compact", str(table.path), "--lock", "filesystem", "--type", "log", "--no-metadata-services"),
                *(part for setting in SETTINGS for part in ("--set", setting)),
                *("--engine", "local"),
            )
            assert exit_code in (0, 75), printed
            if writing.failed is not None:
                break
    assert "HoodieWriteConflictException" in str(writing.failed)
    table.write(rows(spark, 0, 40, 99, "z"), "upsert", **{"hoodie.clean.automatic": "true"})

    storage, clock = LocalStorage(), SystemClock()
    loaded = load_table_config(storage, str(table.path), clock=clock)
    timeline = load_timeline(storage, str(table.path), loaded.config)
    rollbacks = [each for each in timeline.completed if each.action == "rollback"]
    (found,) = find_writer_conflicts(storage, str(table.path), loaded.config, timeline, rollbacks)
    assert found.write in str(writing.failed) or found.by in str(writing.failed)

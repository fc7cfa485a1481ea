"""Real Hudi writes without a pause in optimistic concurrency mode, and no write fails for a log compaction of Lakeward.
The longer story, with both locks that run here and writers with and without pauses, is `make soak-locks`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.format.timeline.instant import State
from lakeward.protocol.writers_conflict import Verdict
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.writer_conflicts import find_writer_conflicts
from tests.crash.compacting import instants
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_living_with_hudi import SHARED_LOCK, rows, values, write_with_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

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

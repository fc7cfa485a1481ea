"""Services of Hudi's that died in the middle are released, unscheduled or rolled back, and Hudi lives on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.hudi.client import carry_out_log_compaction, hudi_client, schedule_log_compaction
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_rollback import CLEANED, LAZY, SHAPES, check_right, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("short_waits")]

WIDE = pytest.mark.wide
TIMELINE = ".hoodie/timeline"
SHARED = ("--lock", "filesystem")
STOPPED = ("--writers", "stopped")


def table_of(spark: SparkSession, path: Path, name: str) -> HudiTable:
    """Two writes of the same keys: each file group has a base file and a log."""
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=SHAPES[name]))
    table.write(rows(spark, 0, 10, 1), "bulk_insert")
    table.write(rows(spark, 0, 6, 2), "upsert")
    return table


def die(table: HudiTable, instant: str, completed: str) -> None:
    """The service's process died right before its commit; what it had in the metadata table is complete there."""
    (file,) = (table.path / TIMELINE).glob(f"{instant}_*.{completed}")
    file.unlink()
    (table.path / ".hoodie/.heartbeat" / instant).unlink(missing_ok=True)


def age(table: HudiTable, instant: str) -> None:
    """All that is on the timeline of it, and its markers, are seven hours old."""
    then = time.time() - 7 * 3600
    markers = (table.path / ".hoodie/.temp" / instant).rglob("*")
    for file in (*(table.path / TIMELINE).glob(f"{instant}*"), *markers):
        os.utime(file, (then, then))


def check_lives_on(spark: SparkSession, table: HudiTable, second: str, rows_then: Any) -> None:
    """Hudi goes back in time, upserts, compacts, cleans, and the metadata table is right."""
    assert table.as_of(second) == rows_then
    table.write(rows(spark, 2, 12, 5), "upsert")
    after = table.snapshot(with_meta=False)
    table.compact()
    assert table.snapshot(with_meta=False) == after
    table.write(rows(spark, 12, 14, 6), "upsert", **CLEANED)
    assert table.frame().count() == len(after) + 2
    check_right(table)


@pytest.mark.turns(26)
@pytest.mark.parametrize("name", ["metadata", pytest.param("plain", marks=WIDE), pytest.param("version-8", marks=WIDE)])
def test_a_compaction_is_released(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Logs that a write put into the slice that its plan opens stay, where Hudi's own rollback deletes them. Beside
    writers it waits until it was silent for long enough; then Hudi carries its plan out."""
    table = table_of(spark, tmp_path / "table", name)
    (_, (second, _), *_) = table.completed_instants()
    then, before = table.as_of(second), set(table.data_files())
    instant = table.compact()
    die(table, instant, "commit")
    written = set(table.data_files()) - before
    assert written
    table.write(rows(spark, 3, 8, 3), "upsert")
    expected, later = table.snapshot(), set(table.data_files()) - before - written
    assert later, "the write's logs lie in the slice that the plan opens"

    code, left = lakeward("rollback", str(table.path), *SHARED)
    assert (code, [(each["instant"], each["reason"]) for each in left["left"]]) == (0, [(instant, "maybe-at-work")])
    age(table, instant)
    code, planned = lakeward("rollback", str(table.path), "--dry-run", *SHARED)
    assert (code, [each["step"] for each in planned["rolled_back"]]) == (0, ["release"]), planned
    code, done = lakeward("rollback", str(table.path), instant, *SHARED)

    assert (code, [(each["step"], each["reason"]) for each in done["rolled_back"]]) == (0, [("release", "silent")]), (
        done
    )
    assert {Path(name).name for name in written} == {file["name"] for file in done["rolled_back"][0]["files"]}
    assert set(table.data_files()) == before | later
    assert table.snapshot() == expected
    table.compact_pending(instant)
    assert table.snapshot() == expected
    check_lives_on(spark, table, second, then)


@pytest.mark.parametrize("name", [pytest.param("metadata", marks=WIDE), pytest.param("plain", marks=WIDE)])
def test_we_carry_a_released_plan_out(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """In one command, with all else that is due."""
    table = table_of(spark, tmp_path / "table", name)
    (_, (second, _), *_) = table.completed_instants()
    then = table.as_of(second)
    instant = table.compact()
    die(table, instant, "commit")
    table.write(rows(spark, 3, 8, 3), "upsert")
    expected = table.snapshot()
    age(table, instant)

    code, done = lakeward("compact", str(table.path), *SHARED)

    assert (code, done["compactions"][0]["instant"]) == (0, instant), done
    assert table.pending_instants() == ()
    assert table.snapshot() == expected
    check_lives_on(spark, table, second, then)


@WIDE
@pytest.mark.parametrize("name", ["metadata", pytest.param("plain", marks=WIDE)])
def test_a_log_compaction_is_unscheduled(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Its log goes, and its plan; the table is as before, and Hudi compacts logs again."""
    table = table_of(spark, tmp_path / "table", name)
    (_, (second, _), *_) = table.completed_instants()
    then = table.as_of(second)
    table.write(rows(spark, 0, 6, 3), "upsert")
    expected, before = table.snapshot(), set(table.data_files())
    instant = schedule_log_compaction(spark, table)
    carry_out_log_compaction(spark, table, instant)
    die(table, instant, "deltacommit")
    assert set(table.data_files()) > before

    code, done = lakeward("rollback", str(table.path), *STOPPED)

    assert (code, [each["step"] for each in done["rolled_back"]]) == (0, ["unschedule"]), done
    assert (set(table.data_files()), table.pending_instants()) == (before, ())
    assert table.snapshot() == expected
    rows_then_seen = table.snapshot(with_meta=False)  # Hudi's own log compaction says that it wrote them
    carry_out_log_compaction(spark, table, schedule_log_compaction(spark, table))
    assert table.snapshot(with_meta=False) == rows_then_seen
    check_lives_on(spark, table, second, then)


@WIDE
def test_a_clustering_that_was_silent_is_rolled_back(spark: SparkSession, tmp_path: Path) -> None:
    """Beside writers, with its plan, by a rollback on the timeline."""
    options = {**SHAPES["metadata"], "hoodie.metadata.record.index.enable": "false"}
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=options))
    table.write(rows(spark, 0, 10, 1), "insert")
    table.write(rows(spark, 10, 20, 1), "insert")
    expected, before = table.snapshot(), table.data_files()
    settings = ",".join(f"{key}={value}" for key, value in options.items() if key.startswith("hoodie.metadata."))
    spark.sql(
        f"CALL run_clustering(path => '{table.path}', op => 'scheduleAndExecute', options => '{settings}')"
    ).collect()
    (completed,) = (table.path / TIMELINE).glob("[0-9]*_*.replacecommit")
    instant = completed.name.partition("_")[0]
    die(table, instant, "replacecommit")
    code, left = lakeward("rollback", str(table.path), *SHARED)
    assert (code, left["left"][0]["reason"]) == (0, "maybe-at-work")
    age(table, instant)

    code, done = lakeward("rollback", str(table.path), *SHARED)

    assert (code, [each["reason"] for each in done["rolled_back"]]) == (0, ["silent"]), done
    assert (table.data_files(), table.snapshot(), table.pending_instants()) == (before, expected, ())
    table.write(rows(spark, 0, 5, 2), "upsert")
    check_right(table)


@WIDE
def test_an_indexing_that_failed_is_aborted(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi leaves it for good: to index again fails, to drop the index and to write leave it. Without it the table is
    serviced, and Hudi builds the index with its next write."""
    options = {**LAZY, "hoodie.metadata.enable": "true", "hoodie.datasource.write.precombine.field": "ts"}
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=options))
    table.write(rows(spark, 0, 10, 1), "bulk_insert")
    table.write(rows(spark, 0, 6, 2), "upsert")
    indexed = {
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    }
    hudi: Any = spark._jvm.org.apache.hudi  # type: ignore[union-attr]
    partitions: Any = spark._jvm.java.util.Collections  # type: ignore[union-attr]
    with hudi_client(spark, table, **indexed) as client:
        wanted = partitions.singletonList(hudi.metadata.MetadataPartitionType.RECORD_INDEX)
        instant = str(client.scheduleIndexing(wanted, partitions.emptyList()).get())
        for _ in range(2):
            with pytest.raises(Py4JJavaError):
                client.index(instant)  # the client's schema lacks the ordering field
    with hudi_client(spark, table) as client:
        client.dropIndex(partitions.singletonList("record_index"))
    assert table.pending_instants() == (instant,)
    table.write(rows(spark, 3, 8, 3), "upsert")
    expected = table.snapshot()
    assert table.pending_instants() == (instant,)
    assert lakeward("compact", str(table.path), *STOPPED)[0] == 2

    code, left = lakeward("metadata", "abort-indexing", str(table.path), *SHARED)
    assert code == 2, left
    code, done = lakeward("metadata", "abort-indexing", str(table.path), *STOPPED)

    assert (code, done["aborted"]["instant"]) == (0, instant), done
    assert (table.pending_instants(), table.snapshot()) == ((), expected)
    assert lakeward("compact", str(table.path), *STOPPED)[0] == 0
    table.write(rows(spark, 6, 12, 4), "upsert", **indexed)
    assert "record_index" in (table.path / ".hoodie/hoodie.properties").read_text()
    assert table.frame().count() == 12
    check_right(table)

"""A write of Hudi's that failed is rolled back as Hudi does it: the same files are left, the same rows, and Hudi lives
on. Services of Hudi's that died in the middle are released, unscheduled or rolled back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from lakeward.storage.local import LocalStorage
from tests.called_storage import WRITES
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.client import carry_out_log_compaction, hudi_client, schedule_log_compaction
from tests.hudi.metadata_table import INDEXES
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.processes import ScriptedProcesses
from tests.services.rollback.run.failed_tables import fail_last_write, roll_back

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LAZY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
IN_LISTS = {"hoodie.write.markers.type": "TIMELINE_SERVER_BASED", "hoodie.embed.timeline.server": "true"}
METADATA = {**INDEXES, "hoodie.datasource.write.precombine.field": "ts"}

SHAPES = {
    "metadata": LAZY | METADATA | IN_LISTS,
    "plain": dict(LAZY),
    "copy-on-write": LAZY | METADATA | {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "version-8": LAZY | METADATA | {"hoodie.write.table.version": "8"},
    "eager": {"hoodie.metadata.enable": "true"},
}

FAILS = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator",
    "hoodie.precommit.validators.equality.sql.queries": "select count(*) from <TABLE_NAME>",
}
"""The rows are there then, and no commit."""

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


def rows(spark: SparkSession, first: int, last: int, ts: int) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v "
        f"FROM range({first}, {last})"
    )


def failed(spark: SparkSession, factory: pytest.TempPathFactory, name: str) -> HudiTable:
    """Two writes, and a third that fails when its files are there; its writer's heartbeat is gone."""
    shape = TableShape(partition_fields="part", options=SHAPES[name])

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", shape)
        table.write(rows(spark, 0, 10, 1), "insert")
        table.write(rows(spark, 0, 5, 2), "upsert")
        with pytest.raises(Py4JJavaError, match="Failed to upsert"):
            table.write(rows(spark, 3, 14, 3), "upsert", **FAILS)

    return HudiTable(spark, made_once(factory, f"failed-{name}", make) / "table", shape)


def left_alone(table: HudiTable, path: Path) -> HudiTable:
    """A copy, in which the heartbeat of a writer whose JVM goes on stays behind."""
    copy = table.copy_to(path)
    for beat in (path / ".hoodie/.heartbeat").glob("*"):
        beat.unlink()
    return copy


def check_right(table: HudiTable) -> None:
    """The metadata table lists what is stored, and its indexes know every row."""
    exit_code, printed = lakeward("verify", "--all", str(table.path))
    assert exit_code == 0, printed


def check_lives_on(spark: SparkSession, table: HudiTable, twin: HudiTable) -> None:
    """Hudi upserts, cleans and goes back in time, with the results that it has on the twin."""
    (_, (second, _), *_) = table.completed_instants()
    for each in (table, twin):
        each.write(rows(spark, 2, 12, 4), "upsert")
    assert table.as_of(second) == twin.as_of(second) != ()
    for each in (table, twin):
        each.write(rows(spark, 4, 6, 5), "upsert", **CLEANED)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    check_right(table)


@pytest.mark.wide
def test_what_is_in_the_metadata_table_goes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
):
    """A writer died within its delta commit there, and its markers are gone: the table is as it was before the
    write."""
    table = left_alone(failed(spark, tmp_path_factory, "metadata"), tmp_path / "table")
    lakeward("rollback", str(table.path), "--writers", "stopped")
    twin = table.copy_to(tmp_path / "twin")
    before, files = table.snapshot(), table.data_files()
    table.write(rows(spark, 3, 14, 6), "upsert")
    instant = fail_last_write(table.path)
    (completed,) = (table.path / ".hoodie/metadata/.hoodie/timeline").glob(f"{instant}_*")
    completed.unlink()

    exit_code, printed = lakeward("rollback", str(table.path), instant, "--writers", "stopped")

    assert exit_code == 0, printed
    assert printed["rolled_back"][0]["found_by"] == "listing"
    assert [name for name in table.files() if instant in name] == []
    assert (table.snapshot(), table.data_files()) == (before, files)
    check_right(table)
    check_lives_on(spark, table, twin)


def kills(base: Path) -> Iterator[tuple[str, int]]:
    """Calls of a rollback after which its process may die, so that Hudi finds something begun."""
    trial = FaultyStorage()
    roll_back(base, trial)
    writes = [(number, call) for number, call in enumerate(trial.calls) if call.split()[0] in WRITES]
    for what in ("rollback.requested", "rollback.inflight", ".parquet", "deltacommit.inflight", "attempt-1000/commit"):
        yield what, next(number for number, call in writes if what in call)


@pytest.mark.turns
def test_hudi_ends_what_we_began(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path):
    """A process of Lakeward dies in the middle; the next write of Hudi's ends our rollback, under our instant."""
    table = failed(spark, tmp_path_factory, "eager")
    (instant,) = table.pending_instants()
    for number, (what, call) in enumerate(kills(left_alone(table, tmp_path / "trial").path)):
        struck = left_alone(table, tmp_path / str(number))
        with suppress(Killed):
            roll_back(struck.path, FaultyStorage(Fault(FaultKind.KILL, call)), ScriptedProcesses())
        (struck.path / ".hoodie/lock").unlink(missing_ok=True)
        (requested,) = (struck.path / ".hoodie/timeline").glob("*.rollback.requested")
        struck.write(rows(spark, 2, 12, 4), "upsert")
        assert [name for name in struck.files() if instant in name and "/.temp/" not in name] == [], what
        (completed,) = (struck.path / ".hoodie/timeline").glob("*_*.rollback")
        assert completed.name.partition("_")[0] == requested.name.partition(".")[0], what
        assert struck.frame().count() == 12, what
        check_right(struck)
        assert roll_back(struck.path, LocalStorage()).rolled_back == ()


def test_a_rollback_that_hudi_cannot_end_is_taken_away(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Its plan is cut short, as after a full disk: Hudi's next write uses it and leaves it pending. Then the failed
    write is rolled back, and Hudi writes on."""
    table = left_alone(failed(spark, tmp_path_factory, "eager"), tmp_path / "table")
    (instant,) = table.pending_instants()
    dead = f"{table.path}/.hoodie/timeline/{int(instant) + 1000}.rollback"
    for state in ("requested", "inflight"):
        Path(f"{dead}.{state}").touch()
    left_behind = left_alone(table, tmp_path / "by-hudi")
    with suppress(Py4JJavaError):
        left_behind.write(rows(spark, 2, 12, 4), "upsert")
    assert f"{int(instant) + 1000}" in left_behind.pending_instants()

    code, done = lakeward("rollback", str(table.path), "--writers", "stopped")

    assert (code, [each["step"] for each in done["rolled_back"]]) == (0, ["drop", "roll-back"]), done
    assert table.pending_instants() == ()
    table.write(rows(spark, 2, 12, 4), "upsert")
    assert table.frame().count() == 12
    check_right(table)


@pytest.mark.turns
@pytest.mark.parametrize("name", ["metadata", pytest.param("copy-on-write", marks=pytest.mark.wide)])
def test_a_clustering_that_died(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """It died right before its commit, when its files and its part of the metadata table are there: after a rollback
    Hudi reads the same rows, updates file groups that it held, and clusters them."""
    options = {**SHAPES[name], "hoodie.metadata.record.index.enable": "false"}
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=options))
    table.write(rows(spark, 0, 10, 1), "insert")
    table.write(rows(spark, 10, 20, 1), "insert")
    expected, before = table.snapshot(), table.data_files()
    settings = ",".join(f"{key}={value}" for key, value in options.items() if key.startswith("hoodie.metadata."))
    cluster = f"CALL run_clustering(path => '{table.path}', op => 'scheduleAndExecute', options => '{settings}')"
    spark.sql(cluster).collect()
    (completed,) = (table.path / ".hoodie/timeline").glob("[0-9]*_*.replacecommit")
    completed.unlink()
    instant = completed.name.partition("_")[0]
    assert set(table.data_files()) > set(before)

    code, done = lakeward("rollback", str(table.path), "--writers", "stopped")

    assert (code, [each["instant"] for each in done["rolled_back"]]) == (0, [instant]), done
    assert table.data_files() == before
    assert table.pending_instants() == ()
    assert table.snapshot() == expected
    table.write(rows(spark, 0, 5, 2), "upsert")
    after = table.snapshot(with_meta=False)
    spark.sql(cluster).collect()
    assert list((table.path / ".hoodie/timeline").glob("[0-9]*_*.replacecommit"))
    assert table.snapshot(with_meta=False) == after


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


def check_goes_on(spark: SparkSession, table: HudiTable, second: str, rows_then: Any) -> None:
    """Hudi goes back in time, upserts, compacts, cleans, and the metadata table is right."""
    assert table.as_of(second) == rows_then
    table.write(rows(spark, 2, 12, 5), "upsert")
    after = table.snapshot(with_meta=False)
    table.compact()
    assert table.snapshot(with_meta=False) == after
    table.write(rows(spark, 12, 14, 6), "upsert", **CLEANED)
    assert table.frame().count() == len(after) + 2
    check_right(table)


@pytest.mark.usefixtures("short_waits")
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
    check_goes_on(spark, table, second, then)


@pytest.mark.usefixtures("short_waits")
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
    check_goes_on(spark, table, second, then)


@pytest.mark.usefixtures("short_waits")
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
    check_goes_on(spark, table, second, then)


@pytest.mark.usefixtures("short_waits")
@WIDE
def test_a_clustering_that_was_silent_is_rolled_back(spark: SparkSession, tmp_path: Path) -> None:
    """Beside writers, with its plan, by a rollback on the timeline."""
    options = {**SHAPES["metadata"], "hoodie.metadata.record.index.enable": "false"}
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", options=options))
    table.write(rows(spark, 0, 10, 1), "insert")
    table.write(rows(spark, 10, 20, 1), "insert")
    expected, before = table.snapshot(), table.data_files()
    settings = ",".join(f"{key}={value}" for key, value in options.items() if key.startswith("hoodie.metadata."))
    cluster = f"CALL run_clustering(path => '{table.path}', op => 'scheduleAndExecute', options => '{settings}')"
    spark.sql(cluster).collect()
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

    # A plan that nobody carries out: Hudi's writers refuse its file groups until an operator has it rolled back.
    table.write(rows(spark, 20, 30, 1), "insert")
    spark.sql(cluster.replace("scheduleAndExecute", "schedule")).collect()
    (stuck,) = table.pending_instants()
    with pytest.raises(Py4JJavaError):
        table.write(rows(spark, 0, 5, 3), "upsert")
    lakeward("rollback", str(table.path), "--writers", "stopped")
    assert stuck in table.pending_instants()
    code, done = lakeward("rollback", str(table.path), stuck, "--writers", "stopped")
    assert (code, [each["instant"] for each in done["rolled_back"]]) == (0, [stuck]), done
    table.write(rows(spark, 0, 5, 3), "upsert")
    assert stuck not in table.pending_instants()
    check_right(table)


@pytest.mark.usefixtures("short_waits")
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

"""A write of Hudi's that failed is rolled back as Hudi does it: the same files are left, the same rows, and Hudi lives
on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from lakeward.storage.local import LocalStorage
from tests.called_storage import WRITES
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
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

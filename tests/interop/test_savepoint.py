"""A savepoint of Lakeward beside one that Hudi makes of the same commit: the same files; Hudi's cleaner and archiver
leave what it keeps, Hudi lists it, restores the table to it, and deletes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import TableConfig, load_table_config
from lakeward.table.timeline.cleans import Clean, read_cleans
from lakeward.table.timeline.savepoints import Savepoint, read_savepoints
from lakeward.table.timeline.timeline import Timeline, load_timeline
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SERVICED = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    # Or Hudi archives nothing.
    "hoodie.metadata.compact.max.delta.commits": "1",
}
"""Hudi cleans and archives after each write as much as it may."""
COMPACTED = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}


def shape(table_type: str, version: int, metadata: bool) -> TableShape:
    options = {"hoodie.datasource.write.table.type": table_type, "hoodie.metadata.enable": str(metadata).lower()}
    if version == 8:
        options |= {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
    return TableShape(partition_fields="part", options=options)


def write(spark: SparkSession, table: HudiTable, ts: int, operation: str = "upsert", **options: str) -> None:
    where = "WHERE id % 2 = 0" if operation == "insert_overwrite" else ""
    rows = spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v FROM range(10) {where}"
    )
    table.write(rows, operation, **options)


def reported(table: HudiTable) -> tuple[TableConfig, Timeline]:
    storage = LocalStorage()
    config = load_table_config(storage, str(table.path), clock=SystemClock()).config
    return config, load_timeline(storage, str(table.path), config)


def savepoints(table: HudiTable) -> tuple[Savepoint, ...]:
    return read_savepoints(LocalStorage(), str(table.path), *reported(table))


def cleans(table: HudiTable) -> tuple[Clean, ...]:
    return read_cleans(LocalStorage(), str(table.path), *reported(table))


@pytest.mark.parametrize(
    ("table_type", "version", "metadata"),
    [
        ("MERGE_ON_READ", 9, False),
        pytest.param("COPY_ON_WRITE", 8, False, marks=pytest.mark.wide),
        pytest.param("MERGE_ON_READ", 8, False, marks=pytest.mark.wide),
        pytest.param("MERGE_ON_READ", 9, True, marks=pytest.mark.wide),
        pytest.param("COPY_ON_WRITE", 9, True, marks=pytest.mark.wide),
    ],
)
def test_a_savepoint_of_lakeward_is_hudis(
    table_type: str, version: int, metadata: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """From the moment it is made to the moment Hudi deletes it."""
    table = HudiTable(spark, tmp_path / "own", shape(table_type, version, metadata))
    write(spark, table, 1, "insert")
    write(spark, table, 2)
    write(spark, table, 3)
    instants = [requested for requested, _ in table.completed_instants()]
    older = instants[1]
    expected = table.snapshot()
    twin = table.copy_to(tmp_path / "hudis")
    path = str(table.path)

    # Each makes the same two.
    for instant in (instants[-1], older):
        code, printed = lakeward("savepoint", "create", path, instant, "--writers", "stopped", "--comment", "why")
        assert (code, printed["savepoint"]) == (0, instant)
        spark.sql(
            f"CALL create_savepoint(path => '{twin.path}', commit_time => '{instant}', user => 'h', comments => 'why')"
        ).collect()
    assert [each.files for each in savepoints(table)] == [each.files for each in savepoints(twin)]
    assert [each.comment for each in savepoints(table)] == ["why", "why"]
    (first, last) = savepoints(table)
    shown = spark.sql(f"CALL show_savepoints(path => '{path}')").collect()
    assert sorted(row["savepoint_time"] for row in shown) == [first.instant, last.instant]

    # Ours deletes the older one on both.
    for each in (table, twin):
        assert lakeward("savepoint", "delete", str(each.path), older, "--writers", "stopped")[0] == 0
        assert [found.instant for found in savepoints(each)] == [last.instant]

    # Hudi replaces a partition, compacts, cleans and archives.
    write(spark, table, 4, "insert_overwrite", **SERVICED)
    compacted = COMPACTED if table_type == "MERGE_ON_READ" else {}
    for ts in range(5, 10):
        write(spark, table, ts, **SERVICED, **compacted)
    assert any(each.deleted for each in cleans(table)), "nothing was cleaned that a savepoint could be proved by"
    for partition, names in last.files.items():
        assert names <= {file.name for file in (table.path / partition).iterdir()}
    _, timeline = reported(table)
    assert timeline.find_write(last.instant) is not None
    assert timeline.find_write(instants[0]) is None, "nothing was archived"
    code, printed = lakeward("savepoint", "list", path)
    (listed,) = printed["savepoints"]
    assert (listed["instant"], listed["files_gone"]) == (last.instant, 0)
    # Logs that came to its slices since stay with them.
    assert listed["bytes_only_it_keeps"] >= listed["bytes"] > 0

    # What is too old now is refused.
    code, _ = lakeward("savepoint", "create", path, timeline.completed_writes[1].time, "--writers", "stopped")
    assert code == 2

    restored = table.copy_to(tmp_path / "restored")
    spark.sql(f"CALL rollback_to_savepoint(path => '{restored.path}', instant_time => '{last.instant}')").collect()
    assert restored.snapshot() == expected
    write(spark, restored, 20)

    spark.sql(f"CALL delete_savepoint(path => '{path}', instant_time => '{last.instant}')").collect()
    assert savepoints(table) == ()
    for ts in range(10, 12):
        write(spark, table, ts, **SERVICED, **compacted)
    left = {file.name for partition in last.files for file in (table.path / partition).iterdir()}
    assert left.isdisjoint(name for names in last.files.values() for name in names)

"""What we say can be archived is what Hudi's archiver takes, on a copy of the same table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.timeline.instant import Instant, State, parse_instant
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
SHAPE = TableShape(
    partition_fields="part",
    options={"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "1"},
)


def write(table: HudiTable, spark: SparkSession, ts: int, operation: str = "upsert", **options: str) -> None:
    where = "WHERE id % 2 = 0" if operation == "insert_overwrite" else ""
    rows = spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, 'v{ts}' AS v FROM range(6) {where}"
    )
    table.write(rows, operation, **options)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Eight commits and some cleans, none of them archived."""

    def make(folder: Path) -> None:
        made = HudiTable(spark, folder / "table", SHAPE)
        write(made, spark, 1, "insert")
        for ts in range(2, 6):
            write(made, spark, ts, **CLEANED)
        made.compact()
        for ts in range(6, 8):
            write(made, spark, ts, **CLEANED)

    return HudiTable(spark, made_once(tmp_path_factory, "archiving", make) / "table", SHAPE).copy_to(tmp_path / "table")


def completed(table: HudiTable) -> set[tuple[str, str]]:
    found = [parse_instant(file.name, 2) for file in (table.path / ".hoodie" / "timeline").iterdir()]
    instants: list[Instant] = [instant for instant in found if instant is not None]
    return {(each.time, each.action) for each in instants if each.state is State.COMPLETED}


def nothing(table: HudiTable, spark: SparkSession) -> None:
    """It stays as it was made."""


def savepoint(table: HudiTable, spark: SparkSession) -> None:
    newest = table.completed_instants()[-1][0]
    assert lakeward("savepoint", "create", str(table.path), newest, "--writers", "stopped")[0] == 0
    for ts in range(8, 11):
        write(table, spark, ts)


def pending_compaction(table: HudiTable, spark: SparkSession) -> None:
    table.schedule_compaction()
    for ts in range(8, 11):
        write(table, spark, ts)


def replaced(table: HudiTable, spark: SparkSession) -> None:
    write(table, spark, 8, "insert_overwrite")
    for ts in range(9, 12):
        write(table, spark, ts)


def replaced_and_cleaned(table: HudiTable, spark: SparkSession) -> None:
    write(table, spark, 8, "insert_overwrite", **CLEANED)
    for ts in range(9, 12):
        write(table, spark, ts, **CLEANED)


@pytest.mark.parametrize(
    ("history", "kept_for"),
    [
        (nothing, None),
        (savepoint, "savepoint"),
        (pending_compaction, "pending"),
        (replaced, "replaced-files"),
        (replaced_and_cleaned, None),
    ],
)
def test_hudi_archives_what_is_planned(
    history: Callable[[HudiTable, SparkSession], None],
    kept_for: str | None,
    table: HudiTable,
    spark: SparkSession,
) -> None:
    """Keeps 3 of plan/archiving, and nothing less."""
    history(table, spark)
    numbers = ("--keep-min", "2", "--keep-max", "3", "--commits-retained", "1")
    code, plan = lakeward("archive", str(table.path), "--dry-run", *numbers)
    assert code == 0
    before = completed(table)

    spark.sql(
        f"CALL archive_commits(path => '{table.path}', min_commits => 2, max_commits => 3, retain_commits => 1, "
        "enable_metadata => true)"
    ).collect()

    gone = before - completed(table)
    assert {(each["instant"], each["action"]) for each in plan["archived"]} == gone, plan
    assert len(gone) > 1
    if kept_for is not None:
        assert kept_for in {each["reason"] for each in plan["kept"]}

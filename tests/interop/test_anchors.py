"""Merged logs that retired in the layout `default`, and what released Hudi makes of a table without them: every query
reads the same, and whatever it does next has the rows that it has on a copy that kept all logs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.file_name import parse_any_log
from tests.crash.metadata_compacting import check_agrees
from tests.hudi.metadata_table import INDEXES
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION
from tests.hudi.table import HudiTable, TableShape
from tests.interop.every_query import BEGIN, QUERY, judge_every_query
from tests.interop.lakeward_cli import lakeward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHAPES = {
    "by listing": TableShape(),
    "by commit time": TableShape(ordering_fields="", merge_mode="COMMIT_TIME_ORDERING"),
    "metadata table": TableShape(options={**INDEXES, "hoodie.metadata.compact.max.delta.commits": "100"}),
    "parquet logs": TableShape(log_format="parquet", index="BUCKET", buckets=1),
}
MULTI_WRITER = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.blocks.threshold": "1",
}


def write(spark: SparkSession, table: HudiTable, number: int, operation: str = "upsert", **options: str) -> None:
    """Another value for each even key, a new key, and an older value for one that loses by event time."""
    if operation == "delete":
        rows = f"SELECT 'k{number}' AS id, {number + 50}L AS ts, 'gone' AS v, 0L AS n"
    else:
        rows = (
            f"SELECT concat('k', id) AS id, IF(id = 4, 0L, {number}L) AS ts, concat('v', {number}) AS v, "
            f"{number}L AS n FROM range(0, 10, 2) UNION ALL SELECT 'n{number}', {number}L, 'new', 1L"
        )
    table.write(spark.sql(rows), operation, **options)


def begun(spark: SparkSession, path: Path, shape: TableShape) -> HudiTable:
    """A base file, a LOG of three logs, one of its output and two more logs, and three logs behind it."""
    table = HudiTable(spark, path, shape)
    rows = "SELECT concat('k', id) AS id, 1L AS ts, 'base' AS v, 0L AS n FROM range(0, 10)"
    table.write(spark.sql(rows), "insert")
    for number in (11, 12, 13):
        write(spark, table, number)
    log_compact(table)
    write(spark, table, 15)
    write(spark, table, 3, "delete")
    log_compact(table)
    for number in (16, 17, 18):
        write(spark, table, number)
    return table


def log_compact(table: HudiTable) -> None:
    exit_code, printed = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
    assert exit_code == 0 and printed["compactions"], printed


def retire(table: HudiTable, *more: str) -> list[int]:
    """The number of files of each clean."""
    given = ("--policy", "commits", "--retain", "2", "--reader-window", "0", "--writers", "stopped")
    exit_code, printed = lakeward("clean", str(table.path), *given, *(more or ("--retire-merged-logs",)))
    assert exit_code == 0, printed
    return [clean["files"] for clean in printed["cleans"]]


def logs(table: HudiTable) -> set[str]:
    names = (file.name for file in table.path.iterdir())
    return {name for name in names if parse_any_log(name, native=True) is not None}


def verify(table: HudiTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    if "hoodie.metadata.enable" in table.shape.options:
        check_agrees(table.path)


def retired(spark: SparkSession, path: Path, shape: TableShape) -> tuple[HudiTable, HudiTable]:
    """The table without what could retire in two cleans, and a copy with all."""
    table = begun(spark, path / "table", shape)
    whole = table.copy_to(path / "whole")
    before, rows = logs(table), table.snapshot()
    assert retire(table, "--keep-merged-logs") == []
    assert retire(table) == [4]
    assert table.snapshot() == rows
    assert retire(table) == [1], "the output that was merged goes after the logs that it names"
    assert retire(table) == []
    assert table.snapshot() == rows
    assert len(before - logs(table)) == 5 and len(logs(table)) == len(before) - 5
    return table, whole


@pytest.mark.turns(20)
def test_hudi_goes_on_without_merged_logs(spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot query, an upsert and a full compaction of Hudi's have the rows that they have with all logs."""
    table, whole = retired(spark, tmp_path, SHAPES["by listing"])
    for each in (table, whole):
        write(spark, each, 21)
        each.compact()
    assert table.snapshot(with_meta=False) == whole.snapshot(with_meta=False)
    verify(table)


def _log_compaction(spark: SparkSession, table: HudiTable) -> None:
    for number in (22, 23):
        write(spark, table, number, **MULTI_WRITER)
    write(spark, table, 24)


def _clean_and_archive(spark: SparkSession, table: HudiTable) -> None:
    table.compact()
    for number in (25, 26, 27):
        write(spark, table, number)
    table.compact()
    clean = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    archive = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    write(spark, table, 28, **clean)
    write(spark, table, 29, **clean, **archive)


def _rollback(spark: SparkSession, table: HudiTable) -> None:
    newest = max(instant for instant, _ in table.completed_instants())
    named(spark, table, "rollback_to_instant(table => '{table}', instant_time => '" + newest + "')")
    write(spark, table, 30)


def _restore(spark: SparkSession, table: HudiTable) -> None:
    newest = max(instant for instant, _ in table.completed_instants())
    spark.sql(f"CALL create_savepoint(path => '{table.path}', commit_time => '{newest}')").collect()
    for number in (31, 32):
        write(spark, table, number)
    named(spark, table, "rollback_to_savepoint(table => '{table}', instant_time => '" + newest + "')")
    write(spark, table, 33)


def named(spark: SparkSession, table: HudiTable, procedure: str) -> None:
    name = f"anchors_{abs(hash(table.path))}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table.path}'")
    spark.sql(f"CALL {procedure.format(table=name)}").collect()
    spark.sql(f"DROP TABLE {name}")


NEXT: dict[str, Callable[[SparkSession, HudiTable], None]] = {
    "upsert": lambda spark, table: write(spark, table, 20),
    "delete": lambda spark, table: write(spark, table, 2, "delete"),
    "log compaction": _log_compaction,
    "compaction": lambda _, table: (table.compact(), None)[1],
    "clean and archive": _clean_and_archive,
    "rollback": _rollback,
    "restore": _restore,
}


@pytest.mark.wide
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_hudi_does_next(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    """All queries, at every moment and of every window, and each service of Hudi's, behind it an upsert and a
    compaction of it: with the rows of a copy that has all logs."""
    table, whole = retired(spark, tmp_path, SHAPES[shape])
    by_metadata = shape == "metadata table"
    print(judge_every_query(table, by_metadata=by_metadata))
    verify(table)
    for name, act in NEXT.items():
        pair = [each.copy_to(tmp_path / f"{each.path.name}-{name.replace(' ', '-')}") for each in (table, whole)]
        for each in pair:
            act(spark, each)
        assert pair[0].snapshot(with_meta=False) == pair[1].snapshot(with_meta=False), name
        verify(pair[0])
        print(name, judge_every_query(pair[0], by_metadata=by_metadata))
        for each in pair:
            write(spark, each, 40)
            each.compact()
        assert pair[0].snapshot(with_meta=False) == pair[1].snapshot(with_meta=False), f"after {name}"


@pytest.mark.wide
@pytest.mark.timeout(1800)
def test_a_lost_anchor_loses_rows_in_hudi(spark: SparkSession, tmp_path: Path) -> None:
    """Why the setting is off by default: Hudi reads the output no more, and says nothing. Lakeward calls it damage."""
    table, _ = retired(spark, tmp_path, SHAPES["by listing"])
    rows = table.snapshot()
    exit_code, said = lakeward(
        "clean",
        str(table.path),
        "--policy",
        "commits",
        "--retain",
        "2",
        "--retire-merged-logs",
        "--reader-window",
        "0",
        "--dry-run",
    )
    assert exit_code == 0, said
    (anchor,) = (each["file"] for each in said["retiring_later"] if "anchor" in str(each["reasons"]))
    (table.path / anchor).unlink()
    assert table.snapshot() != rows
    exit_code, _ = lakeward("verify", str(table.path))
    assert exit_code != 0


@pytest.mark.wide
@pytest.mark.timeout(1800)
def test_the_oldest_release_without_merged_logs(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi 1.1.1 reads all moments and windows, upserts, cleans, archives, rolls back and compacts behind logs that
    retired, with the rows that it has on a copy with all logs."""
    shape = SHAPES["by listing"]
    table, whole = retired(spark, tmp_path, shape)
    rows, instants = table.snapshot(with_meta=False), [instant for instant, _ in sorted(table.completed_instants())]
    more = "SELECT concat('k', id) AS id, {0}L AS ts, 'oldest{0}' AS v, 9L AS n FROM range(0, 4)"
    clean = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    archive = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    with OtherRelease(OLDEST_VERSION, tmp_path / "scratch") as oldest:
        seen, beside = oldest.table(table.path, shape), oldest.table(whole.path, shape)
        assert seen.snapshot() == beside.snapshot() == rows
        assert seen.read_optimized() == beside.read_optimized()
        for instant in instants[-2:]:
            as_of = {"as.of.instant": instant}
            assert seen.snapshot(**as_of) == beside.snapshot(**as_of), f"as of {instant}"
            since = {QUERY: "incremental", BEGIN: instant}
            assert seen.snapshot(**since) == beside.snapshot(**since), f"since {instant}"
        for each in (seen, beside):
            each.write(more.format(90), "upsert")
            newest = max(instant for instant, _ in HudiTable(spark, each.path, shape).completed_instants())
            each.procedure("rollback_to_instant(table => '{table}', instant_time => '" + newest + "')")
        assert seen.snapshot() == beside.snapshot() == rows
        for each in (seen, beside):
            each.write(more.format(91), "upsert")
            each.compaction("op => 'scheduleAndExecute'")
            each.write(more.format(92), "upsert", **clean)
            each.write(more.format(93), "upsert", **clean, **archive)
        assert seen.snapshot() == beside.snapshot()
    assert table.snapshot(with_meta=False) == whole.snapshot(with_meta=False)
    verify(table)

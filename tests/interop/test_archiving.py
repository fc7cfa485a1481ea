"""What we archive is what Hudi's archiver takes, on a copy of the same table; and Hudi lives on what we archived."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.timeline.history import HistoryRow
from lakeward.format.timeline.history_file import decode_rows
from lakeward.format.timeline.instant import Instant, State, parse_instant
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.archived import load_history
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.interop.test_compaction import assert_verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("short_waits")]

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
SHARES = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.archive.automatic": "true",
}
METADATA = ".hoodie/metadata"
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


def completed(table: HudiTable, below: str = "") -> set[tuple[str, str]]:
    """On the active timeline of the table, or of its metadata table."""
    found = [parse_instant(file.name, 2) for file in (table.path / below / ".hoodie" / "timeline").iterdir()]
    instants: list[Instant] = [instant for instant in found if instant is not None]
    return {(each.time, each.action) for each in instants if each.state is State.COMPLETED}


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


@pytest.mark.wide
@pytest.mark.parametrize(
    ("history", "kept_for"),
    [(savepoint, "savepoint"), (pending_compaction, "pending"), (replaced, "replaced-files")],
)
def test_hudi_archives_what_is_planned(
    history: Callable[[HudiTable, SparkSession], None],
    kept_for: str,
    table: HudiTable,
    spark: SparkSession,
) -> None:
    """Keeps 3 of services/archive/plan/archive_plan, and nothing less."""
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
    assert kept_for in {each["reason"] for each in plan["kept"]}


def rows_of(table: HudiTable, below: str = "") -> list[HistoryRow]:
    """All rows of the archive of the table, or of its metadata table, by time."""
    folder = str(table.path / below / ".hoodie" / "timeline" / "history")
    rows = []
    for file in load_history(LocalStorage(), folder).sizes:
        with (Path(folder) / file.name).open("rb") as source:
            rows += list(decode_rows(source, path=file.name))
    return sorted(rows, key=lambda row: row.time)


def by_hudi(spark: SparkSession, table: HudiTable, fewest: int = 2, most: int = 3) -> None:
    spark.sql(
        f"CALL archive_commits(path => '{table.path}', min_commits => {fewest}, max_commits => {most}, "
        "retain_commits => 1, enable_metadata => true)"
    ).collect()


def by_us(table: HudiTable, *words: str) -> dict[str, Any]:
    numbers = ("--keep-min", "2", "--keep-max", "3", "--commits-retained", "1", *words)
    code, report = lakeward("archive", str(table.path), "--writers", "stopped", *numbers)
    assert code == 0, report
    return report


def in_archive(spark: SparkSession, table: HudiTable) -> list[tuple[str, str]]:
    """The completed commits in the archive, as Hudi lists them."""
    spark.sql(f"CREATE TABLE archived USING hudi LOCATION '{table.path}'")
    try:
        shown = spark.sql(
            "CALL show_archived_commits(table => 'archived', limit => 1000, "
            "start_ts => '20000101000000000', end_ts => '21000101000000000')"
        ).collect()
    finally:
        spark.sql("DROP TABLE archived")
    return sorted((str(row["commit_time"]), str(row["state_transition_time"])) for row in shown)


@pytest.mark.turns(25)
def test_hudi_goes_on_where_our_archiver_died(table: HudiTable, spark: SparkSession, tmp_path: Path) -> None:
    """Between publishing and the first deletion, the instants are in both places: Hudi reads, upserts and archives.
    What is in the archive twice then, our next merge of levels makes one."""
    unhurt = table.copy_to(tmp_path / "unhurt")
    by_us(unhurt, "--keep-min", "4", "--keep-max", "4")  # fewer than may go
    history = Path(".hoodie", "timeline", "history")
    shutil.copytree(unhurt.path / history, table.path / history, dirs_exist_ok=True)
    before = table.snapshot()
    assert table.snapshot() == before
    write(table, spark, 30, **CLEANED)
    write(table, spark, 31, **CLEANED)
    by_hudi(spark, table)
    rows = rows_of(table)
    assert len(set(rows)) < len(rows)
    assert {row.time for row in rows_of(unhurt)} < {row.time for row in rows}
    assert in_archive(spark, table)
    by_us(table, "--set", "hoodie.timeline.compaction.batch.size=2")
    assert rows_of(table) == sorted(set(rows), key=lambda row: row.time)
    write(table, spark, 32, **CLEANED)
    assert_verified(table)


@pytest.mark.turns(40)
def test_the_metadata_table_of_a_table_that_lakeward_alone_writes_to(
    table: HudiTable, spark: SparkSession, tmp_path: Path
) -> None:
    """Its timeline is archived with the table's, the first builds of its partitions too; Hudi lists and prunes by it,
    writes, cleans, compacts and archives further."""
    before = completed(table, METADATA)
    rows = tmp_path / "rows.jsonl"
    for ts in range(20, 44):
        rows.write_text("".join(f'{{"id":"k{n}","part":"p{n % 2}","ts":{ts},"v":"v{ts}"}}\n' for n in range(6)))
        code, report = lakeward("write", str(table.path), "--input", str(rows), "--writers", "stopped")
        assert code == 0, report
    for verb in ("compact", "clean", "metadata compact"):
        code, report = lakeward(*verb.split(), str(table.path), "--writers", "stopped")
        assert code == 0, report
    grown = completed(table, METADATA)
    assert len(grown) > len(before) + 24

    report = by_us(table)["metadata_table"]

    gone = {(each["instant"], each["action"]) for each in report["archived"]}
    assert gone and gone == grown - completed(table, METADATA)
    assert {(row.time, row.action) for row in rows_of(table, METADATA)} == gone
    assert any(time.startswith("00000000000000") for time, _ in gone)
    assert_verified(table)
    assert all('"v":"v43"' in row for row in table.snapshot()) and len(table.snapshot()) == 6
    keep = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    for ts in range(50, 56):
        write(table, spark, ts, **CLEANED, **keep)
    assert all('"v":"v55"' in row for row in table.snapshot()) and len(table.snapshot()) == 6
    assert {(row.time, row.action) for row in rows_of(table, METADATA)} > gone, "Hudi archives into it"
    assert_verified(table)


@pytest.mark.wide
def test_levels_as_with_hudi(table: HudiTable, spark: SparkSession, tmp_path: Path) -> None:
    """Hudi archives some and we the rest, by turns, with levels of two files; it reads all of it in the end."""
    options = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    options |= {"hoodie.timeline.compaction.batch.size": "2", **CLEANED}
    known: set[tuple[str, str]] = set()
    for ts in range(30, 42):
        known |= completed(table)
        if ts % 2:
            write(table, spark, ts, **options)
        else:
            write(table, spark, ts, **CLEANED)
            by_us(table, "--set", "hoodie.timeline.compaction.batch.size=2")
    levels = {file.level for file in load_history(LocalStorage(), str(table.path / ".hoodie/timeline/history")).sizes}
    assert max(levels) > 1
    rows = rows_of(table)
    assert len({row.time for row in rows}) == len(rows)
    assert {(row.time, row.action) for row in rows} | completed(table) >= known
    assert in_archive(spark, table)
    assert_verified(table)


@pytest.mark.wide
@pytest.mark.timeout(1800)
def test_beside_a_writer_that_archives(table: HudiTable, spark: SparkSession) -> None:
    """A Hudi writer archives with every other of its commits, and Lakeward archives without a pause, the lock shared:
    each instant is on the timeline or once in the archive, and Hudi reads all of it."""
    failed: list[BaseException] = []

    def write_all() -> None:
        try:
            for ts in range(50, 66):
                keep = ("2", "3") if ts % 2 else ("20", "30")
                numbers = dict(zip(("hoodie.keep.min.commits", "hoodie.keep.max.commits"), keep, strict=True))
                write(table, spark, ts, **SHARES, **CLEANED, **numbers)
        except BaseException as error:
            failed.append(error)

    known, own = completed(table), set()
    writer = Thread(target=write_all)
    writer.start()
    while writer.is_alive():
        known |= completed(table)
        numbers = ("--keep-min", "2", "--keep-max", "3", "--commits-retained", "1")
        code, report = lakeward("archive", str(table.path), "--lock", "filesystem", *numbers)
        assert code in (0, 5, 75), report
        own |= {(each["instant"], each["action"]) for each in report.get("archived", ())}
    writer.join()
    assert failed == []

    rows = rows_of(table)
    archived = {(row.time, row.action) for row in rows}
    assert len(archived) == len(rows), "an instant is in the archive twice"
    assert known <= archived | completed(table), "an instant is gone"
    assert not archived & completed(table)
    assert own and own < archived, "both have archived"
    of_metadata = [(row.time, row.action) for row in rows_of(table, METADATA)]
    assert len(set(of_metadata)) == len(of_metadata)
    assert not set(of_metadata) & completed(table, METADATA)
    assert in_archive(spark, table)
    assert len(table.snapshot()) == 6
    assert all('"v":"v65"' in row for row in table.snapshot())
    assert_verified(table)

"""Our compactions of tables whose metadata table is on: what we write into it is what Hudi would, and Hudi goes on.
What we take away of a metadata table Hudi builds again, and reads the right rows before and after.

One table by Hudi 1.2.0, one compaction plan by Hudi, two copies: Hudi carries it out on the one, we on the other.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.file_name import parse_log_file
from lakeward.format.metadata.record import BloomFilterRecord, FilesRecord, MetadataRecord
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from tests.clocks import SkippingClock
from tests.crash.compacting import compact as compact_in_process
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.metadata_table import COLUMNS, OPTIONS, WITHOUT_METADATA, comparable_records, written_records
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.made_once import made_once
from tests.interop.test_metadata_reading import Seen, assert_as_hudi_sees_it
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARES_TWINS = pytest.mark.turns(30, together="metadata writing")
"""What takes long is to make the twins."""

PARTITIONS = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
SHAPE = TableShape(partition_fields="part", options=OPTIONS)
KEYS = {f"k{number}" for number in range(3500)}
"""Keys of the table before we write to it."""


@dataclass(frozen=True)
class Twins:
    instant: str
    scheduled: HudiTable
    by_hudi: HudiTable
    by_us: HudiTable


@pytest.fixture(scope="module")
def twins(spark: SparkSession, table_with_metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Twins:
    def make(folder: Path) -> None:
        by_hudi = HudiTable(spark, table_with_metadata, SHAPE).copy_to(folder / "hudi")
        instant = by_hudi.schedule_compaction()
        by_hudi.copy_to(folder / "scheduled")
        by_us = by_hudi.copy_to(folder / "own")
        by_hudi.compact_pending(instant)
        printed = compact(by_us)
        assert [plan["instant"] for plan in printed["compactions"]] == [instant]
        (folder / "instant").write_text(instant)

    folder = made_once(tmp_path_factory, "compacted-twins", make)
    scheduled, by_hudi, by_us = (HudiTable(spark, folder / name, SHAPE) for name in ("scheduled", "hudi", "own"))
    return Twins((folder / "instant").read_text(), scheduled, by_hudi, by_us)


@SHARES_TWINS
def test_records_are_hudis(twins: Twins):
    """Every partition has the same keys and records, but for what the files themselves differ in: names, sizes, the
    bits of bloom filters."""
    for partition in PARTITIONS:
        hudis, own = (
            comparable_records(table.path, twins.instant, partition) for table in (twins.by_hudi, twins.by_us)
        )
        assert own == hudis, partition
    assert len(written_records(twins.by_us.path, twins.instant, "column_stats")) == 51
    assert written_records(twins.by_us.path, twins.instant, "record_index") == {}


@SHARES_TWINS
def test_files_and_commit_are_hudis(twins: Twins):
    """One log file for each file group with records, in the commit with its size and count; complete before the data
    table's commit."""
    hudis, own = (shape_of(table, twins.instant) for table in (twins.by_hudi, twins.by_us))
    assert own["files"] == hudis["files"]
    (metadata,) = completed(twins.by_us.path / ".hoodie" / "metadata", twins.instant)
    (data,) = completed(twins.by_us.path, twins.instant)
    assert twins.instant < metadata < data


@SHARES_TWINS
def test_queries_with_and_without_it(spark: SparkSession, twins: Twins, tmp_path: Path):
    """Hudi reads the same rows by the metadata table, without it, and from its own compaction; and our reader of the
    metadata table, Hudi's and the storage agree."""
    hudis, own = twins.by_hudi, twins.by_us
    rows = hudis.snapshot()
    assert len(rows) == len(KEYS)
    assert own.snapshot() == rows
    assert own.snapshot(**WITHOUT_METADATA) == rows
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert own.snapshot(**optimized) == own.snapshot(**optimized, **WITHOUT_METADATA) == hudis.read_optimized()
    assert_as_hudi_sees_it(spark, own.path, tmp_path)


@SHARES_TWINS
@pytest.mark.parametrize("condition", ["small >= 3499", "day = date'1970-01-04'"])
def test_data_skipping_finds_all_rows(twins: Twins, condition: str):
    """A filter on a column with statistics, at the ends of a file's range and within."""
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    assert len(twins.by_us.frame(**skipping).where(condition).collect()) == 1


@SHARES_TWINS
def test_what_hudi_left_is_rolled_back(spark: SparkSession, twins: Twins, tmp_path: Path):
    """Hudi died between the metadata table's commit and its own: we roll both parts back and carry its plan out."""
    table = twins.by_hudi.copy_to(tmp_path / "table")
    (commit,) = (table.path / ".hoodie" / "timeline").glob(f"{twins.instant}_*.commit")
    commit.unlink()
    hudis, files = (read(table.path, twins.instant, "column_stats") for read in (comparable_records, written_records))

    assert [plan["instant"] for plan in compact(table)["compactions"]] == [twins.instant]

    assert comparable_records(table.path, twins.instant, "column_stats") == hudis
    assert written_records(table.path, twins.instant, "column_stats").keys().isdisjoint(files)
    assert len(completed(table.path / ".hoodie" / "metadata", twins.instant)) == 1
    assert table.snapshot() == twins.by_us.snapshot()
    assert_as_hudi_sees_it(spark, table.path, tmp_path)


@SHARES_TWINS
def test_hudi_goes_on(spark: SparkSession, twins: Twins, tmp_path: Path):
    """Upserts that find their keys by the record index, and by key ranges and bloom filters of the metadata table, make
    no duplicates, although Hudi built all of these filters again over our files; it compacts the metadata table with
    our log files in it, and reads the same again."""
    table = twins.by_us.copy_to(tmp_path / "table")
    drop_bloom_filters(table)
    expected = values(table)
    for index, numbers in (("GLOBAL_RECORD_LEVEL_INDEX", range(2990, 3010)), ("BLOOM", range(3490, 3520))):
        options = {"hoodie.bloom.index.use.metadata": "true", "hoodie.metadata.compact.max.delta.commits": "1"}
        table.reshaped(index=index).write(some_rows(spark, numbers, index), "upsert", **options)
        expected |= {f"k{number}": index for number in numbers}
        assert values(table) == values(table, **WITHOUT_METADATA) == expected
    compactions = [
        name.partition("_")[0] for name in names_of(table.path / ".hoodie" / "metadata") if name.endswith(".commit")
    ]
    assert max(compactions) > twins.instant
    seen = assert_as_hudi_sees_it(spark, table.path, tmp_path)
    assert kinds_of_filters(seen) == {"DYNAMIC_V0"}


@pytest.mark.wide
def test_bloom_filters_of_the_kind_that_writers_are_set_to(spark: SparkSession, tmp_path: Path):
    """Hudi's writers call every filter so that they build again, also Lakeward's, and find their keys by it."""
    kind = {"hoodie.bloom.index.filter.type": "SIMPLE"}
    table = HudiTable(spark, tmp_path / "table", replace(SHAPE, options=OPTIONS | kind, index="BLOOM"))
    table.write(some_rows(spark, range(300), "a"), "insert")
    table.write(some_rows(spark, range(100, 250), "b"), "upsert")
    assert compact(table)["compactions"]
    expected = values(table)
    drop_bloom_filters(table)

    for value, numbers in (("c", range(20)), ("d", range(90, 310))):
        table.write(some_rows(spark, numbers, value), "upsert", **{"hoodie.bloom.index.use.metadata": "true"})
        expected |= {f"k{number}": value for number in numbers}
    assert values(table) == values(table, **WITHOUT_METADATA) == expected
    assert kinds_of_filters(Seen(table.path)) == {"SIMPLE"}


@SHARES_TWINS
def test_a_log_compaction(spark: SparkSession, table_with_metadata: Path, tmp_path: Path):
    """The new log files are listed, with statistics, and nothing else changes for readers."""
    table = HudiTable(spark, table_with_metadata, SHAPE).copy_to(tmp_path / "table")
    rows = table.snapshot()
    exit_code, printed = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
    assert exit_code == 0, printed
    (instant,) = {plan["instant"] for plan in printed["compactions"]}

    def written(partition: str) -> dict[str, MetadataRecord]:
        return written_records(table.path, instant, partition)

    listed = [record for record in written("files").values() if isinstance(record, FilesRecord)]
    made = {name for record in listed if not record.is_all_partitions for name in record.entries}
    assert made == {name.rpartition("/")[2] for name in table.data_files() if instant in name}
    assert len(made) == 3
    assert len(written("column_stats")) == 51
    assert len(written("partition_stats")) == 51
    assert written("bloom_filters") == written("record_index") == {}
    assert table.snapshot() == table.snapshot(**WITHOUT_METADATA) == rows
    assert_as_hudi_sees_it(spark, table.path, tmp_path)


FILES_ALONE = {
    name: value for name, value in OPTIONS.items() if "column.stats" not in name and "bloom.filter" not in name
} | {"hoodie.metadata.index.column.stats.enable": "false"}
"""Hudi 1.2.0 cannot write a table that has statistics of partitions and one of the indexes below: its reader of the
metadata table loses the base file of `files` on the way to a task."""


@pytest.mark.wide
def test_hudi_rolls_back_what_we_left(spark: SparkSession, twins: Twins, tmp_path: Path):
    """We died after the metadata table's commit; Hudi rolls that back by itself and carries the plan out."""
    clean = FaultyStorage()
    compact_in_process(twins.scheduled.copy_to(tmp_path / "clean").path, clean, ScriptedProcesses())
    committed = next(number for number, call in enumerate(clean.calls) if call.startswith("link"))
    table = twins.scheduled.copy_to(tmp_path / "table")
    with pytest.raises(Killed):
        compact_in_process(table.path, FaultyStorage(Fault(FaultKind.KILL, committed)), ScriptedProcesses())
    (table.path / ".hoodie" / "lock").unlink()
    os.utime(table.path / ".hoodie" / ".heartbeat" / twins.instant, (0, 0))
    own = set((table.path / ".hoodie" / "metadata").glob(f"*/.*_{twins.instant}.log.*"))
    assert len(own) > 4 and completed(table.path / ".hoodie" / "metadata", twins.instant)

    table.compact_pending(twins.instant)

    assert not [path for path in own if path.exists()]
    assert len(completed(table.path / ".hoodie" / "metadata", twins.instant)) == 1
    assert table.snapshot() == table.snapshot(**WITHOUT_METADATA) == twins.by_us.snapshot()


@pytest.mark.wide
def test_a_secondary_index(spark: SparkSession, tmp_path: Path):
    """A filter on its column finds all rows after our compaction, and after an upsert on top of that."""
    table = HudiTable(spark, tmp_path / "table", replace(SHAPE, options=FILES_ALONE, index="GLOBAL_RECORD_LEVEL_INDEX"))
    table.write(some_rows(spark, range(300), "a"), "insert")
    table.write(some_rows(spark, range(100, 110), "b"), "upsert")
    provider = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    spark.sql(f"CREATE TABLE with_secondary_index USING hudi LOCATION '{table.path}'")
    for name, value in (FILES_ALONE | provider).items():
        spark.sql(f"SET {name}={value}")
    spark.sql("CREATE INDEX by_v ON with_secondary_index (v)")
    for name in FILES_ALONE | provider:
        spark.sql(f"RESET {name}")
    assert "secondary_index_by_v" in (table.path / ".hoodie" / "hoodie.properties").read_text()
    expected = values(table)

    def by_value() -> list[int]:
        frame = table.frame(**{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
        return [len(frame.where(f"v = '{value}'").collect()) for value in ("a", "b", "new")]

    assert compact(table)["compactions"]
    assert values(table) == values(table, **WITHOUT_METADATA) == expected
    assert by_value() == [290, 10, 0]
    table.write(some_rows(spark, range(20), "new"), "upsert", **{"hoodie.metadata.compact.max.delta.commits": "1"})
    assert values(table) == expected | {f"k{number}": "new" for number in range(20)}
    assert by_value() == [270, 10, 20]


@pytest.mark.wide
def test_a_record_index_of_each_partition(spark: SparkSession, tmp_path: Path):
    """An upsert that finds its keys by it makes no duplicates after our compaction."""
    options = {name: value for name, value in FILES_ALONE.items() if "record.index" not in name}
    options |= {"hoodie.metadata.record.level.index.enable": "true"}
    table = HudiTable(spark, tmp_path / "table", replace(SHAPE, options=options, index="RECORD_LEVEL_INDEX"))
    table.write(some_rows(spark, range(300), "a"), "upsert")
    table.write(some_rows(spark, range(100, 350), "b"), "upsert")
    expected = values(table)

    assert compact(table)["compactions"]
    assert values(table) == values(table, **WITHOUT_METADATA) == expected
    table.write(some_rows(spark, range(340, 360), "c"), "upsert")
    assert values(table) == values(table, **WITHOUT_METADATA)
    assert values(table) == expected | {f"k{number}": "c" for number in range(340, 360)}


def drop_bloom_filters(table: HudiTable) -> None:
    exit_code, printed = lakeward("metadata", "drop", str(table.path), "bloom_filters", "--writers", "stopped")
    assert (exit_code, printed["named"]) == (0, ["bloom_filters"])


def kinds_of_filters(seen: Seen) -> set[str]:
    records = seen.records()["bloom_filters"].values()
    return {record.type_code for record in records if isinstance(record, BloomFilterRecord)}


def shape_of(table: HudiTable, instant: str) -> dict[str, list[str]]:
    """What a commit wrote into each file group, since names have tokens in them."""
    metadata = table.path / ".hoodie" / "metadata"
    logs = [log for path in metadata.glob(f"*/.*_{instant}.log.*") if (log := parse_log_file(path.name)) is not None]
    return {"files": sorted(f"{log.file_id} {log.version}" for log in logs if log.file_id[:5] != "bloom")}


def names_of(base: Path) -> list[str]:
    return sorted(path.name for path in (base / ".hoodie" / "timeline").iterdir() if path.name[0] != ".")


def completed(base: Path, instant: str) -> list[str]:
    parsed = [found for name in names_of(base) if (found := parse_instant(name, 2)) is not None]
    return [str(each.completion_time) for each in parsed if each.time == instant and each.state is State.COMPLETED]


def some_rows(spark: SparkSession, numbers: range, value: str) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, 9000L AS ts, '{value}' AS v, "
        f"false AS _hoodie_is_deleted, {COLUMNS} FROM range({numbers.start}, {numbers.stop})"
    )


def values(table: HudiTable, **options: str) -> dict[str, str]:
    found = [json.loads(row) for row in table.snapshot(with_meta=False, **options)]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


ALL_PARTITIONS = {"bloom_filters", "column_stats", "files", "partition_stats", "record_index"}
WITH_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
LISTED = {"hoodie.metadata.enable": "false"}


def partitions(table: HudiTable) -> set[str]:
    config = load_table_config(LocalStorage(), str(table.path), clock=SkippingClock()).config
    assert config.inflight_metadata_partitions == ()
    return set(config.built_metadata_partitions)


def upsert(spark: SparkSession, table: HudiTable, first: int, last: int) -> None:
    table.write(
        spark.sql(
            f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, 9000L + {last} AS ts, 'new' AS v, "
            f"false AS _hoodie_is_deleted, {COLUMNS} FROM range({first}, {last})"
        ),
        "upsert",
    )


def values_of(table: HudiTable, **options: str) -> dict[str, str]:
    rows = table.frame(**options).select("id", "v").collect()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


LATE_DELETES = frozenset(f"k{number}" for number in range(5))
"""Their deletes came with an older event time than the rows, so the rows are still there; Hudi's record index forgets
such keys all the same (its issue 12984), which `verify` rightly reports when it draws one of them."""


def check(table: HudiTable, expected: dict[str, str]) -> None:
    """Hudi finds the same rows with and without the metadata table, and by its statistics; and it is sound."""
    assert values_of(table, **WITH_METADATA) == values_of(table, **LISTED) == expected
    found = table.frame(**WITH_METADATA).where("small = 3499").collect()
    assert [row["id"] for row in found] == ["k3499"]
    _, printed = lakeward("verify", str(table.path), "--all")
    assert [problem for problem in printed["problems"] if problem["subject"] not in LATE_DELETES] == []


@pytest.mark.wide
def test_hudi_builds_again_what_was_removed(spark: SparkSession, table_with_metadata: Path, tmp_path: Path):
    """One partition, then all of it, over a folder that an interrupted removal left half deleted."""
    table = HudiTable(spark, table_with_metadata, SHAPE).copy_to(tmp_path / "table")
    metadata = table.path / ".hoodie" / "metadata"
    expected = values_of(table, **LISTED)
    check(table, expected)

    exit_code, printed = lakeward("metadata", "drop", str(table.path), "column_stats", "--writers", "stopped")
    assert (exit_code, printed["named"]) == (0, ["column_stats"])
    check(table, expected)
    upsert(spark, table, 0, 3)
    expected |= {f"k{number}": "new" for number in range(3)}
    assert partitions(table) == ALL_PARTITIONS
    check(table, expected)

    shutil.copytree(metadata, tmp_path / "left")
    exit_code, printed = lakeward("metadata", "disable", str(table.path), "--writers", "stopped")
    assert (exit_code, set(printed["named"])) == (0, ALL_PARTITIONS)
    assert not metadata.exists()
    assert values_of(table) == expected
    for partition in ("column_stats", "files"):
        shutil.copytree(tmp_path / "left" / partition, metadata / partition)
    upsert(spark, table, 2999, 3001)
    expected |= {f"k{number}": "new" for number in (2999, 3000)}
    assert partitions(table) == ALL_PARTITIONS
    check(table, expected)

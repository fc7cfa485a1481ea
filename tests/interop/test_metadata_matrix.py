"""Every combination of what a metadata table can hold: our compaction is Hudi's, and Hudi goes on by each index.

Two tables by Hudi 1.2.0, one with partitions and one without, are written with the metadata table off. Each combination
is a copy on which one more write turned it on, so that Hudi built its indexes over what was there; Hudi plans a
compaction, and carries it out on another copy.

    statistics     none; of columns alone, which Hudi has of tables without partitions; of columns and partitions
    bloom filters  with and without
    record index   none, global, global with a secondary index on top, one for each partition

What is left out, because Hudi 1.2.0 has it not or goes wrong there: statistics of columns alone in a table with
partitions (they come together); a secondary index beside a record index for each partition (it is not built); and
statistics of partitions beside either of the two (the write fails: a task gets the base file of `files` without its
path). A secondary index that write options ask for at a table's first write fails, too; here it is not the first. And
the write that builds a secondary index leaves out what it changes in its column itself, so it changes nothing there.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.metadata_table import WITHOUT_METADATA, assert_same_records
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.cases import BLOOMS, FILES_ALONE, RECORD_INDEX, STATS
from tests.interop.lakeward_cli import compact
from tests.interop.test_compaction import assert_metadata_agrees, assert_verified, our_slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

SECONDARY_INDEX = {
    "hoodie.metadata.index.secondary.enable": "true",
    "hoodie.metadata.index.secondary.column": "v",
}
PARTITIONED_RECORD_INDEX = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.record.level.index.max.filegroup.count": "2",
}
INDEXES: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "global": RECORD_INDEX,
    "secondary": RECORD_INDEX | SECONDARY_INDEX,
    "partitioned": PARTITIONED_RECORD_INDEX,
}
FAIL_BESIDE_PARTITIONS = ("secondary", "partitioned")


@dataclass(frozen=True)
class Combination:
    stats: str
    """none, columns, or partitions: of columns and partitions."""
    has_blooms: bool
    index: str

    def __str__(self) -> str:
        return f"{self.stats}-{'blooms' if self.has_blooms else 'no_blooms'}-{self.index}"

    @property
    def table(self) -> str:
        return "flat" if self.stats == "columns" else "parted"

    @property
    def options(self) -> dict[str, str]:
        stats = FILES_ALONE if self.stats == "none" else STATS
        return {**stats, **(BLOOMS if self.has_blooms else {}), **INDEXES[self.index]}

    @property
    def partitions(self) -> set[str]:
        """Partitions of the metadata table."""
        found = {"files"}
        found |= {"column_stats"} if self.stats != "none" else set()
        found |= {"partition_stats"} if self.stats == "partitions" else set()
        found |= {"bloom_filters"} if self.has_blooms else set()
        found |= {"record_index"} if self.index != "none" else set()
        return found | ({"secondary_index_v"} if self.index == "secondary" else set())

    @property
    def writers(self) -> list[dict[str, str]]:
        """How writers can find keys by it; where there is no such way, as they do without a metadata table."""
        by_record_index = {"none": "", "partitioned": "RECORD_LEVEL_INDEX"}.get(self.index, "GLOBAL_RECORD_LEVEL_INDEX")
        ways = [{"hoodie.index.type": by_record_index}] if by_record_index else []
        if self.has_blooms:
            ways.append({"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"})
        return ways or [{}]


COMBINATIONS = [
    combination
    for each in itertools.product(("none", "columns", "partitions"), (False, True), INDEXES)
    if not ((combination := Combination(*each)).stats == "partitions" and combination.index in FAIL_BESIDE_PARTITIONS)
]


def test_every_combination_is_there():
    """Every combination of the switches that go together is tried, but for four that Hudi cannot write."""
    assert len(set(COMBINATIONS)) == 3 * 2 * 4 - 4
    assert {(each.stats, each.has_blooms) for each in COMBINATIONS if each.index == "global"} == {
        *itertools.product(("none", "columns", "partitions"), (False, True))
    }


@pytest.fixture(scope="module")
def without_metadata(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, HudiTable]:
    folder = tmp_path_factory.mktemp("tables")
    tables = {}
    for name, fields in (("parted", "part"), ("flat", "")):
        options = {"hoodie.index.bloom.num_entries": "300"}
        table = tables[name] = HudiTable(spark, folder / name, TableShape(partition_fields=fields, options=options))
        table.write(some_rows(spark, range(90), 1, "a"), "insert")
        table.write(some_rows(spark, range(30, 60), 2, "b"), "upsert")
        table.write(some_rows(spark, range(50, 55), 2, "b"), "delete")
    return tables


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_hudi_goes_on(
    spark: SparkSession, without_metadata: Mapping[str, HudiTable], tmp_path: Path, combination: Combination
):
    """The records are those of Hudi's own compaction; queries answer alike with the metadata table and without it, and
    by each index; then writers find their keys by each, make no duplicates, and Hudi compacts both tables."""
    table = without_metadata[combination.table].copy_to(tmp_path / "table")
    options = {**table.shape.options, **combination.options}
    table = table.reshaped(options=options)
    expected = {f"k{n}": "a" if n < 30 or n >= 60 else "b" for n in range(90) if n not in range(50, 55)}
    upsert(table, spark, range(80, 90), 3, "a", expected)
    assert partitions_of(table) == combination.partitions
    table.schedule_compaction()
    (pending,) = table.pending_instants()
    twin = table.copy_to(tmp_path / "twin")

    twin.compact_pending(pending)
    assert [plan["instant"] for plan in compact(table)["compactions"]] == [pending]

    assert_same_records(table, twin)
    rows = table.snapshot()
    assert values_of(rows) == expected
    assert_metadata_agrees(table, rows)
    if combination.index == "secondary":
        assert len(by_value(table, "b")) == len(by_value(twin, "b")) == 25
    assert table.slices_by_hudi_rs() == our_slices(table)

    compacted = {"hoodie.metadata.compact.max.delta.commits": "1"}
    for number, way in enumerate(combination.writers):
        first = 20 + 40 * number
        upsert(table, spark, range(first, first + 45), 4 + number, f"d{number}", expected, **way, **compacted)
        assert values(table) == values(table, **WITHOUT_METADATA) == expected
    table.compact()
    assert values(table) == expected
    assert len(list((table.path / ".hoodie/metadata/files").glob("*.hfile"))) > 1, "Hudi compacted the metadata table"
    assert_verified(table)
    assert table.slices_by_hudi_rs() == our_slices(table)


def upsert(
    table: HudiTable,
    spark: SparkSession,
    numbers: range,
    ts: int,
    value: str,
    expected: dict[str, str],
    **options: str,
) -> None:
    table.write(some_rows(spark, numbers, ts, value), "upsert", **options)
    expected |= {f"k{number}": value for number in numbers}


def some_rows(spark: SparkSession, numbers: range, ts: int, value: str) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {ts}L AS ts, '{value}' AS v, "
        "CAST(id AS INT) AS small, CAST(id AS DOUBLE) / 3 AS real, date_add(DATE '1969-12-30', CAST(id AS INT)) AS day "
        f"FROM range({numbers.start}, {numbers.stop})"
    )


def partitions_of(table: HudiTable) -> set[str]:
    text = (table.path / ".hoodie" / "hoodie.properties").read_text()
    (named,) = [line for line in text.splitlines() if line.startswith("hoodie.table.metadata.partitions=")]
    return set(named.partition("=")[2].split(","))


def values(table: HudiTable, **options: str) -> dict[str, str]:
    return values_of(table.snapshot(with_meta=False, **options))


def values_of(rows: Rows) -> dict[str, str]:
    found = [json.loads(row) for row in rows]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def by_value(table: HudiTable, value: str) -> list[str]:
    """Rows that Hudi finds through the secondary index."""
    frame = table.frame(**{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
    return [str(row["id"]) for row in frame.where(f"v = '{value}'").select("id").collect()]

"""Partitions of any name, links in a table, and partitions one below another (`p1` and `p1/x`) in a table that released
Hudi writes with its metadata table, with Hudi as judge of the rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.table.listing_source import ListingSource
from tests.hudi.metadata_table import WITHOUT_METADATA
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES_TABLE = pytest.mark.turns(10, together="nested partitions")
"""What takes long is to make the table."""


WITHOUT = {"hoodie.metadata.enable": "false"}
NAMES = ("a\\b", "line\nbreak", "esc\x1b[2J", "ü{#}")


def written(spark: SparkSession, path: Path, partitions: tuple[str, ...], rows: int) -> HudiTable:
    """A table with a metadata table, whose every row was updated once, in logs."""
    shape = TableShape(partition_fields="p", options={"hoodie.metadata.enable": "true"})
    table = HudiTable(spark, path, shape)
    for ts, operation in ((1, "insert"), (2, "upsert")):
        upsert(spark, table, partitions, rows, ts, operation)
    return table


def upsert(
    spark: SparkSession, table: HudiTable, partitions: tuple[str, ...], rows: int, ts: int, operation: str = "upsert"
) -> None:
    values = [(number, partitions[number % len(partitions)], ts, f"v{ts}") for number in range(rows)]
    table.write(spark.createDataFrame(values, "id int, p string, ts long, v string"), operation)


@pytest.mark.interop
@pytest.mark.wide
def test_a_linked_partition_doubles_no_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is listed by its folders is refused for the link; one that is listed by its metadata table is
    compacted without it. Hudi's readers have the 20 rows throughout: compacting through the link made them 30."""
    table = written(spark, tmp_path / "table", ("one", "two"), 20)
    before = table.snapshot()
    assert len(before) == 20
    (table.path / "three").symlink_to("one")
    files = table.files()

    arguments = ("compact", str(table.path), "--type", "full", "--writers", "stopped")
    code, _ = lakeward(*arguments)
    assert code == 2
    assert table.files() == files
    with monkeypatch.context() as in_object_store:
        for module in ("cli.options.compaction", "cli.configured_table"):
            in_object_store.setattr(f"lakeward.{module}.listing_source", lambda _: ListingSource.METADATA)
        code, printed = lakeward(*arguments)
    assert code == 0
    compacted = [operation["partition_path"] for each in printed["compactions"] for operation in each["operations"]]
    assert sorted(compacted) == ["one", "two"]
    assert table.snapshot() == before

    (table.path / "three").unlink()
    assert table.snapshot(**WITHOUT) == before
    upsert(spark, table, ("one", "two"), 20, 3)
    compact(table)
    after = table.snapshot()
    assert len(after) == 20 and all('"v3"' in row for row in after)
    assert table.snapshot(**WITHOUT) == after


@pytest.mark.interop
@pytest.mark.wide
def test_partitions_of_any_name(spark: SparkSession, tmp_path: Path):
    """What Hudi writes under such names we compact, and Hudi reads it, updates it and compacts it again."""
    table = written(spark, tmp_path / "table", NAMES, 12)
    before = table.snapshot()
    assert len(before) == 12

    report = compact(table)

    assert {operation["partition_path"] for each in report["compactions"] for operation in each["operations"]} == set(
        NAMES
    )
    assert table.snapshot() == before == table.read_optimized()
    assert table.snapshot(**WITHOUT) == before
    upsert(spark, table, NAMES, 12, 3)
    table.compact()
    after = table.read_optimized()
    assert len(after) == 12 and all('"v3"' in row for row in after)
    assert table.snapshot(**WITHOUT) == after


SHAPE = TableShape(partition_fields="part", options={"hoodie.metadata.enable": "true"})
PARTITIONS = ("p1", "p1/x", "p1/x/y", "p2")

Row = tuple[str, int, str, str]
"""Key, ordering value, partition and value."""


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, "id string, ts long, part string, v string").coalesce(1)


def first_rows() -> list[Row]:
    return [(f"k{at}", 1, PARTITIONS[at % len(PARTITIONS)], "first") for at in range(8)]


def read(table: HudiTable, **options: str) -> list[Row]:
    rows = table._spark.read.format("hudi").options(**options).load(str(table.path))
    return sorted((row.id, row.ts, row.part, row.v) for row in rows.select("id", "ts", "part", "v").collect())


def write(table: HudiTable, tmp_path: Path, operation: str, rows: list[Row], *words: str) -> None:
    path = tmp_path / "rows.parquet"
    columns = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])
    pq.write_table(pa.Table.from_arrays([pa.array(each) for each in zip(*rows, strict=True)], schema=columns), path)
    exit_code, printed = lakeward(
        "write", str(table.path), "--input", str(path), "--operation", operation, "--writers", "stopped", *words
    )
    assert exit_code == 0, printed


@pytest.fixture(scope="module")
def nested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Two rows in each partition, the first one updated in a log."""
    table = HudiTable(spark, tmp_path_factory.mktemp("nested") / "table", SHAPE)
    table.write(frame(spark, first_rows()), "upsert")
    table.write(frame(spark, [(key, 2, part, "second") for key, _, part, _ in first_rows()[:4]]), "upsert")
    return table


def updated() -> dict[str, Row]:
    return {row[0]: (row[0], 2, row[2], "second") if at < 4 else row for at, row in enumerate(first_rows())}


@SHARES_TABLE
@pytest.mark.interop
@pytest.mark.slow
def test_they_are_compacted(nested: HudiTable, tmp_path: Path):
    """Each partition has its compaction; Hudi reads the same rows, goes on writing, and compacts again."""
    table = nested.copy_to(tmp_path / "table")
    assert read(table) == sorted(updated().values())
    assert {row[2] for row in read(table, **WITHOUT_METADATA)} == {"p1", "p2"}, "by listing Hudi sees the upper one"

    compact(table)

    assert read(table) == sorted(updated().values())
    assert table.read_optimized() == table.snapshot()
    table.write(frame(table._spark, [("k1", 3, "p1/x", "third"), ("n", 3, "p1/x/z", "new")]), "upsert")
    table.compact()
    expected = updated() | {"k1": ("k1", 3, "p1/x", "third"), "n": ("n", 3, "p1/x/z", "new")}
    assert read(table) == sorted(expected.values())
    exit_code, printed = lakeward("inspect", str(table.path))
    assert exit_code == 0
    assert printed["partitions"] == ["p1", "p1/x", "p1/x/y", "p1/x/z", "p2"]
    exit_code, printed = lakeward("verify", str(table.path))
    assert exit_code == 0, printed


@SHARES_TABLE
@pytest.mark.interop
@pytest.mark.slow
def test_they_are_written(nested: HudiTable, tmp_path: Path):
    """Keys of a lower partition are found by writes, a delete and an index; nothing is there twice or left."""
    table = nested.copy_to(tmp_path / "table")
    expected = updated()

    write(table, tmp_path, "upsert", [("k1", 3, "p1/x", "own"), ("m", 3, "p1/x/y", "own")])
    expected |= {"k1": ("k1", 3, "p1/x", "own"), "m": ("m", 3, "p1/x/y", "own")}
    assert read(table) == sorted(expected.values())

    write(table, tmp_path, "delete", [("k5", 9, "p1/x", "")])
    del expected["k5"]
    assert read(table) == sorted(expected.values())

    exit_code, printed = lakeward("index", "build", str(table.path), "--type", "record")
    assert exit_code == 0, printed
    exit_code, printed = lakeward("index", "lookup", str(table.path), "k1", "--type", "record")
    assert exit_code == 0, printed
    assert "p1/x" in str(printed)

    table.write(frame(table._spark, [("k2", 4, "p1/x/y", "hudis")]), "upsert")
    expected["k2"] = ("k2", 4, "p1/x/y", "hudis")
    assert read(table) == sorted(expected.values())

    write(table, tmp_path, "insert_overwrite_table", [("only", 5, "p2", "left")])
    assert read(table) == [("only", 5, "p2", "left")]


@SHARES_TABLE
@pytest.mark.interop
@pytest.mark.slow
def test_the_metadata_table_stays(nested: HudiTable, tmp_path: Path):
    """Without it their rows would be hidden: nothing takes it away."""
    table = nested.copy_to(tmp_path / "table")

    exit_code, _ = lakeward("metadata", "disable", str(table.path), "--writers", "stopped")

    assert exit_code == 2
    assert read(table) == sorted(updated().values())

"""Links in a table, and partitions of any name, with released Hudi as judge of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.table.listing_source import ListingSource
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

"""Base files that are sorted, and whose footers say so: real Hudi reads them, writes over them, and compacts them.

File groups that begin with logs have one after their first compaction, and every later one is merged by order. In CI
the matrix of `test_compaction` has such a group.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from lakeward.format.parquet.base_file import SORTED_BY_KEY
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(spark: SparkSession, first: int, last: int, ts: int) -> DataFrame:
    """Keys of different lengths, not in their order."""
    numbers = spark.range(first, last).orderBy(f.rand(7))
    return numbers.select(
        f.concat(f.lit("kéy-"), f.col("id")).alias("id"), f.lit(ts).alias("ts"), (f.col("id") * ts).alias("v")
    )


def sorted_files(table: HudiTable) -> set[bool]:
    """What the base files of the newest compaction say of being sorted; those that say it must be."""
    newest = max(path.name.rpartition("_")[2] for path in table.path.glob("*.parquet"))
    says = set()
    for path in table.path.glob(f"*_{newest}"):
        metadata = pq.read_metadata(path).metadata or {}
        is_said = SORTED_BY_KEY.encode() in metadata
        says.add(is_said)
        keys = [key.encode() for key in pq.read_table(path).column("_hoodie_record_key").to_pylist()]
        assert not is_said or keys == sorted(keys)
    return says


@pytest.mark.interop
@pytest.mark.wide
def test_hudi_lives_on_with_sorted_base_files(spark: SparkSession, tmp_path: Path) -> None:
    """Lakeward's files are sorted from the first one on, and what they say stays true over base files of Hudi's in
    between."""
    table = HudiTable(spark, tmp_path / "table", TableShape(index="INMEMORY"))
    table.write(rows(spark, 0, 400, 1), "upsert")
    for ts, (first, last) in enumerate([(100, 500), (390, 620)], start=2):
        table.write(rows(spark, first, last, ts), "upsert")
        before = table.snapshot()
        compact(table)
        assert table.snapshot() == table.read_optimized() == before
        assert sorted_files(table) == {True}
    table.write(rows(spark, 0, 50, 4), "delete")
    table.compact()
    table.write(rows(spark, 40, 60, 5), "upsert")
    before = table.snapshot()
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    assert len(before) == 580
    sorted_files(table)

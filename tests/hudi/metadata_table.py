"""A small Hudi table with every partition of the metadata table that its release has, base files and logs in each.

Touches: one table folder, through Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    # The second write is compacted, the third stays in logs.
    "hoodie.metadata.compact.max.delta.commits": "2",
    # As releases before 1.1 call it.
    "hoodie.datasource.write.precombine.field": "ts",
}


COLUMNS = """
    id % 2 = 0 AS truth, CAST(id AS INT) AS small, CAST(id / 3 AS FLOAT) AS half, CAST(id AS DOUBLE) / 3 AS real,
    CAST(concat('b', id) AS BINARY) AS raw, CAST(id AS DECIMAL(12, 3)) / 8 AS price, CAST(NULL AS STRING) AS nothing,
    date_add(DATE '1969-12-30', CAST(id AS INT)) AS day, timestamp_micros(id * 1000001 - 7) AS at
"""
"""One of each type that has statistics."""


def write_table_with_metadata(spark: SparkSession, path: Path) -> Path:
    """Returns the folder of the metadata table. The third write deletes half of the ten rows it touches."""
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=OPTIONS))
    for first, last, deleted in ((0, 3000, 0), (2500, 3500, 0), (0, 10, 5)):
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {last}L AS ts, concat('ü', id) AS v, "
            f"id < {deleted} AS _hoodie_is_deleted, {COLUMNS} FROM range({first}, {last})"
        )
        table.write(rows, "upsert")
    return path / ".hoodie" / "metadata"

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


def write_table_with_metadata(spark: SparkSession, path: Path) -> Path:
    """Returns the folder of the metadata table."""
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=OPTIONS))
    for first, last in ((0, 3000), (2500, 3500), (0, 10)):
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {last}L AS ts, concat('ü', id) AS v "
            f"FROM range({first}, {last})"
        )
        table.write(rows, "upsert")
    return path / ".hoodie" / "metadata"

"""The rows of a table as the input format gives them by which Hive and Presto read tables of Hudi: no Spark reads.

Touches: the table, by reading, through the JVM of a Spark session with the Hudi bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.hudi.hfile_java import java_object
from tests.hudi.table import FILE_NAME_COLUMN, META_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = {"HoodieFileGroupReaderBasedRecordReader": "true", "HoodieRealtimeRecordReader": "false"}
"""The two by which the input format reads logs, the one by default first, and what the setting says for each."""
_INPUT_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"


def rows_by_hive(
    spark: SparkSession, table: Path, columns: Mapping[str, str], reader: str
) -> list[tuple[str | None, ...]]:
    """The values of each row as text, in the order of the columns; the rows are sorted.

    Args:
        columns: all of the table's, but for meta columns, and their types in Hive.
        reader: one of `READERS`.
    """
    every = {**dict.fromkeys((*META_COLUMNS, FILE_NAME_COLUMN), "string"), **columns}
    settings = {
        "columns": ",".join(every),
        "columns.types": ",".join(every.values()),
        "hive.io.file.readcolumn.names": ",".join(every),
        "hive.io.file.readcolumn.ids": ",".join(map(str, range(len(every)))),
        "hoodie.file.group.reader.enabled": READERS[reader],
    }
    marks = [path for path in sorted(table.rglob(".hoodie_partition_metadata")) if ".hoodie" not in path.parts]
    java: Any = java_object(spark, "HiveRows", _INPUT_FORMAT)
    util: Any = spark._jvm.java.util  # type: ignore[union-attr]
    asked, said = util.ArrayList(), util.HashMap()
    for mark in marks:
        asked.add(mark.parent.as_uri())
    for key, value in settings.items():
        said.put(key, value)
    found = java.read(asked, len(every), said, reader)
    return sorted(tuple(row)[-len(columns) :] for row in found)

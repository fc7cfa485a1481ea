"""Paimon's compaction of a table with the same rows: one bucket, so one task of Spark.

The base rows are written and compacted to the last level first, then each log's rows become one sorted file of level
0. The columns are those of the slice without Hudi's; Paimon adds three of its own.

Touches: a warehouse beside the slice; starts a JVM, which fetches Paimon the first time on a machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from benchmarks.merge.files import SliceFiles
from benchmarks.merge.shape import KEY_COLUMN, ORDERING_COLUMN
from benchmarks.merge.watched import Watched, watched
from lakeward.engine.dispatch.java import ensure_java
from lakeward.format.avro.column_names import META_COLUMNS
from tests.hudi.spark import HudiMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAIMON_VERSION = "0.9.0"
OPTIONS = {
    "primary-key": KEY_COLUMN,
    "sequence.field": ORDERING_COLUMN,
    "bucket": "1",
    "file.format": "parquet",
    "file.compression": "zstd",
    "file.compression.zstd-level": "1",
    "write-only": "true",
    "write-buffer-size": "1 gb",
    "target-file-size": "4 gb",
}


def write_paimon_table(files: SliceFiles) -> None:
    """Write the table, in a process that is not measured."""
    shutil.rmtree(files.folder / "paimon", ignore_errors=True)
    spark = _start(files)
    spark.sql("CREATE DATABASE paimon.bench")
    base = _columns(spark.read.parquet(str(files.base_file)))
    options = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
    types = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in base.schema)
    spark.sql(f"CREATE TABLE paimon.bench.t ({types}) TBLPROPERTIES ({options})")
    _insert(spark, base)
    spark.sql("CALL paimon.sys.compact(table => 'bench.t')").collect()
    for path in files.runs:
        _insert(spark, _columns(spark.read.parquet(str(path))))
    spark.stop()


def by_paimon(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    """The first compaction of a new JVM; then, on a copy, the same once more by a JVM that is warm.

    The table must be one that `write_paimon_table` just wrote.
    """
    database = files.folder / "paimon" / "bench.db"
    shutil.copytree(database / "t", database / "again")
    spark = _start(files)
    cost, out = _compact(spark, database, "t")
    warm, _ = _compact(spark, database, "again")
    spark.stop()
    return cost, out, {"version": PAIMON_VERSION, "warm": asdict(warm)}


def _compact(spark: SparkSession, database: Path, table: str) -> tuple[Watched, list[Path]]:
    bucket = database / table / "bucket-0"
    before = set(bucket.iterdir())
    cost, _ = watched(lambda: spark.sql(f"CALL paimon.sys.compact(table => 'bench.{table}')").collect())
    levels = spark.sql(f"SELECT level, count(*) AS files FROM paimon.bench.`{table}$files` GROUP BY level").collect()
    assert len(levels) == 1, f"not compacted in full: {levels}"
    return cost, sorted(path for path in set(bucket.iterdir()) - before if path.suffix == ".parquet")


def _columns(frame: DataFrame) -> DataFrame:
    return frame.drop(*META_COLUMNS, "_deleted")


def _insert(spark: SparkSession, frame: DataFrame) -> None:
    frame.coalesce(1).createOrReplaceTempView("rows")
    spark.sql("INSERT INTO paimon.bench.t SELECT * FROM rows")


def _start(files: SliceFiles) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ensure_java()
    builder = SparkSession.builder.master("local[2]").appName("paimon")
    for key, value in {
        "spark.jars.packages": f"org.apache.paimon:paimon-spark-3.5:{PAIMON_VERSION}",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": f"file:{files.folder / 'paimon'}",
        "spark.local.dir": str(files.folder / "spark"),
        "spark.sql.warehouse.dir": str(files.folder / "spark" / "warehouse"),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise HudiMissing(f"Spark did not start with Paimon {PAIMON_VERSION}: {error}") from error


if __name__ == "__main__":
    write_paimon_table(SliceFiles.open(Path(sys.argv[1])))

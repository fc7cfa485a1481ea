"""One engine's writes, in a process of its own: the same operation on each table. Prints the seconds of each as JSON.

python -m benchmarks.write_process lakeward|hudi OPERATION BUCKETS verify|no-verify ROWS TABLE...
python -m benchmarks.write_process digest TABLE...
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="write-process-") as scratch:
        spark = start_spark(scratch=Path(scratch), memory="4g", at_full_speed=True)
        try:
            if arguments[0] == "digest":
                print(json.dumps([digest(spark, table) for table in arguments[1:]]))
            else:
                print(json.dumps(write(spark, *arguments)))
        finally:
            spark.stop()


def digest(spark: SparkSession, table: str) -> tuple[int, int]:
    """The digest of the rows without what differs between writes."""
    frame = spark.read.format("hudi").load(table)
    rows = frame.drop(*(name for name in frame.columns if name.startswith("_hoodie")))
    return HudiTable(spark, Path(table), TableShape(name="trips")).digest(rows)


def write(
    spark: SparkSession, engine: str, operation: str, buckets: str, verify: str, rows: str, *tables: str
) -> list[float]:
    act = by_hudi(spark, operation, int(buckets)) if engine == "hudi" else by_lakeward(operation, int(buckets), verify)
    seconds = []
    for table in tables:
        begin = time.perf_counter()
        act(spark.read.parquet(rows), table)
        seconds.append(time.perf_counter() - begin)
    return seconds


def by_lakeward(operation: str, buckets: int, verify: str) -> Callable[[DataFrame, str], object]:
    from lakeward.write import write as write_rows

    def act(frame: DataFrame, table: str) -> object:
        return write_rows(
            frame, table, operation=operation, buckets=buckets, writers_stopped=True, verify=verify == "verify"
        )

    return act


def by_hudi(spark: SparkSession, operation: str, buckets: int) -> Callable[[DataFrame, str], object]:
    # The row writer opens new groups in buckets that have one; without it bulk_insert writes what others go on from.
    options = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.row.writer.enable": "false"}
    shape = TableShape(name="trips", partition_fields="part", index="BUCKET", buckets=buckets, options=options)

    def act(frame: DataFrame, table: str) -> object:
        HudiTable(spark, Path(table), shape).write(frame, operation)
        return None

    return act


if __name__ == "__main__":
    main(sys.argv[1:])

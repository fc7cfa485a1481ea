"""A Hudi table with a column of every type that column statistics know, and what Hudi's services make of it.

    python -m tests.hudi.typed_table FOLDER SCRATCH VERSION

writes it by another release, in a process of its own since a process has one Hudi: FOLDER/table, and the instant of
Hudi's compaction in FOLDER/instant.

Touches: one table folder, through Spark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.hudi.spark import HUDI_VERSION, HudiMissing, start_spark
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING = 3
"""Exit code: the bundle cannot be had."""

PARTITIONS = ("p0", "p1")
FIRST_ROWS = 600
DELETED = range(90, 100)

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.record.index.max.filegroup.count": "1",
    # Every record stays in the log file of its own instant.
    "hoodie.metadata.compact.max.delta.commits": "100",
    # Several row groups in a file.
    "hoodie.parquet.block.size": "5000",
    "hoodie.parquet.page.size": "1000",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    # As releases before 1.1 call it.
    "hoodie.datasource.write.precombine.field": "ts",
}

# `n` is the number of the row, `k` turns later values away from earlier ones.
COLUMNS = {
    "flag": "n % 3 = 0",
    "i": "cast({k} * (n - 300) AS int)",
    "l": "{k} * n * 10000000000L",
    "f": "cast({k} * n / 3 AS float)",
    "d": "{k} * n / 7D",
    "text": "concat(chr(97 + n % 26), 'ü鍵😀', n)",
    "bytes": "cast(concat('b', {k} * n) AS binary)",
    "dec7": "cast({k} * (n - 300) / 100 AS decimal(7, 2))",
    "dec18": "cast({k} * n * 1000003 / 1000 AS decimal(18, 4))",
    "day": "date_add(date'1969-06-01', cast({k} * n AS int))",
    "at": "timestamp_micros({k} * n * 1000003)",
    "no_int": "cast(null AS int)",
    "no_text": "cast(null AS string)",
    "no_double": "cast(null AS double)",
    "no_decimal": "cast(null AS decimal(7, 2))",
    "no_flag": "cast(null AS boolean)",
    "half_int": "if(n % 4 < 2, cast(n AS int), null)",
    "late_text": "if(n < 400, null, concat('x', n))",
    "endless": "if(n % 2 = 0, double('Infinity'), -n / 3D)",
    # Where we know better than Hudi.
    "with_nan": "if(n % 100 = 7, double('NaN'), n / 3D)",
    "long_text": "if(n % 97 = 5, repeat('z', 5000), concat('b', n))",
    "high_bytes": "unhex(lpad(hex(n * 40503 % 65536), 4, '0'))",
    # Without statistics.
    "record": "named_struct('a', n, 'b', concat('n', n))",
    "list": "array(n, n + 1)",
    "map": "map('k', n)",
}
NEWER_COLUMNS = {
    "dec38": "cast({k} * n * 12345678901234567 AS decimal(38, 10))",
    "local": "cast(timestamp_micros({k} * n * 1000003) AS timestamp_ntz)",
    "no_day": "cast(null AS date)",  # Hudi 1.0.2 fails on it while it writes a log
}

KNOWN_BETTER = ("with_nan", "long_text", "high_bytes")
"""Columns of which Hudi's statistics leave out values that are there."""


def write_typed_table(spark: SparkSession, path: Path, *, version: str = HUDI_VERSION) -> HudiTable:
    """A base file and three log files in each of two partitions; the second log file is of deletes alone."""
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=OPTIONS))
    table.write(rows(spark, range(FIRST_ROWS), version=version), "insert")
    table.write(rows(spark, range(50, 110), ts=2, k=3, version=version), "upsert")
    table.write(rows(spark, DELETED, ts=3, version=version), "delete")
    table.write(rows(spark, range(100, 120), ts=3, k=-2, version=version), "upsert")
    return table


def rows(spark: SparkSession, numbers: range, *, ts: int = 1, k: int = 1, version: str = HUDI_VERSION) -> DataFrame:
    columns = COLUMNS | (NEWER_COLUMNS if version == HUDI_VERSION else {})
    formatted = ", ".join(f"{encoding.format(k=k)} AS {name}" for name, encoding in columns.items())
    return spark.sql(
        f"SELECT concat('k', lpad(n, 5, '0')) AS id, concat('p', n % 2) AS part, {ts}L AS ts, {formatted} "
        f"FROM (SELECT id AS n FROM range({numbers.start}, {numbers.stop}))"
    )


def compact(table: HudiTable, spark: SparkSession, what: str = "op => 'scheduleAndExecute'") -> str:
    """Hudi's compaction with the metadata table on. Returns the instant."""
    settings = ",".join(f"{key}={value}" for key, value in OPTIONS.items())
    (row,) = spark.sql(f"CALL run_compaction({what}, path => '{table.path}', options => '{settings}')").collect()
    return str(row["timestamp"])


def log_compact(table: HudiTable, spark: SparkSession) -> str:
    """Hudi's log compaction with the metadata table on; there is no SQL procedure for it. Returns the instant."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in table.shape.write_options().items():
        options.put(key, value)
    # The schema that matters is the table's own, which Hudi looks up.
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
    client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
        spark._jsc, schema, str(table.path), table.shape.name, options
    )
    instant = client.scheduleLogCompaction(jvm.org.apache.hudi.common.util.Option.empty()).get()
    client.logCompact(instant, True)
    client.close()
    return str(instant)


def main(folder: Path, scratch: Path, version: str) -> None:
    try:
        spark = start_spark(scratch=scratch, version=version)
    except HudiMissing as missing:
        print(missing, file=sys.stderr)
        sys.exit(MISSING)
    table = write_typed_table(spark, folder / "table", version=version)
    (folder / "instant").write_text(compact(table, spark))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

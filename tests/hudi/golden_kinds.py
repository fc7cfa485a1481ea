"""Makes tests/golden/keyless, in_part and operations: tables of the kinds of decision 0052, by Hudi 1.2.0.

    python -m tests.hudi.golden_kinds FOLDER SCRATCH

each has the table as `table.tar.xz`, without Hadoop's checksum files; `expected.json` has what snapshot queries gave,
without the file's name.

    keyless     `hoodie.populate.meta.fields=false`: a base file of Spark's row writer, an update, a late one, a new key
                and a delete in logs.
    in_part     a base file, and MERGE INTO of some columns over it, over each other and over a whole row, with nulls.
    operations  partitions p, q and r, each with a base file without `_hoodie_operation`. Then "marked": changes with it
                to p and q; "unmarked": an update without it in r, after which queries heed no mark; "marked again":
                one with it in p, after which queries fail for r. `expected.json` has the rows of each, null where they
                fail.

Touches: FOLDER and SCRATCH.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tests.hudi.client import write_records
from tests.hudi.evolved_table import maybe, schema
from tests.hudi.spark import start_spark
from tests.hudi.table import FILE_NAME_COLUMN, HudiTable, TableShape

SMALL_FILTER = {"hoodie.index.bloom.num_entries": "10"}
CHANGELOG = {"hoodie.allow.operation.metadata.field": "true", "hoodie.combine.before.upsert": "false"}


def keyless(spark: SparkSession, path: Path) -> HudiTable:
    table = HudiTable(spark, path, TableShape(options=SMALL_FILTER | {"hoodie.populate.meta.fields": "false"}))

    def write(operation: str, *rows: tuple[str, int, str]) -> None:
        values = ", ".join(map(str, rows))
        given = spark.sql(f"SELECT id, CAST(ts AS bigint) ts, v FROM VALUES {values} AS t(id, ts, v)")
        table.write(given.coalesce(1), operation)

    write("bulk_insert", *((key, 10, f"first {key}") for key in "abcd"))
    write("upsert", ("a", 11, "later"), ("b", 9, "late"), ("x", 10, "new"))
    write("delete", ("c", 12, ""))
    return table


def in_part(spark: SparkSession, path: Path) -> HudiTable:
    table = HudiTable(spark, path, TableShape(name="in_part"))
    properties = {
        **SMALL_FILTER,
        "type": "mor",
        "primaryKey": "id",
        "preCombineField": "ts",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
    }
    written = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    spark.sql("SET hoodie.spark.sql.merge.into.partial.updates=true")
    spark.sql("SET hoodie.parquet.small.file.limit=0")
    spark.sql(
        f"CREATE TABLE in_part (id string, ts bigint, v string, n int) USING hudi TBLPROPERTIES ({written}) "
        f"LOCATION '{path}'"
    )
    spark.sql("INSERT INTO in_part VALUES ('a', 10, 'a', 1), ('b', 10, 'b', 1), ('c', 10, 'c', 1), ('d', 10, 'd', 1)")
    for key, ts, assigned in (("a", 11, "'x' v"), ("b", 11, "6 n"), ("c", 9, "'late' v")):
        _merge_into(spark, key, ts, assigned)
    spark.sql("UPDATE in_part SET v = 'whole', ts = 12 WHERE id = 'b'")
    for key, ts, assigned in (("a", 12, "CAST(NULL AS int) n"), ("b", 13, "7 n")):
        _merge_into(spark, key, ts, assigned)
    return table


def _merge_into(spark: SparkSession, key: str, ts: int, assigned: str) -> None:
    column = assigned.rsplit(" ", 1)[1]
    spark.sql(
        f"MERGE INTO in_part t USING (SELECT '{key}' id, {ts}L ts, {assigned}) s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET ts = s.ts, {column} = s.{column}"
    )


def operations(spark: SparkSession, path: Path) -> dict[str, list[dict[str, Any]] | None]:
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=SMALL_FILTER))
    columns = schema(maybe("v", "string"))
    for part in "pqr":
        rows = f"SELECT concat(k, '{part}') id, '{part}' part, 10L ts, k v FROM VALUES ('a'), ('b'), ('c') AS t(k)"
        table.write(spark.sql(rows).coalesce(1), "bulk_insert")

    def write(*changes: tuple[str, str, str, int], **options: str) -> None:
        given = [
            {"id": key + part, "part": part, "ts": ts, "v": f"{operation} {ts}", "operation": operation}
            for operation, key, part, ts in changes
        ]
        write_records(spark, table, columns, given, "upsert", **options)

    found = {}
    write(("D", "a", "p", 11), ("U", "b", "p", 11), ("D", "c", "p", 9), ("-U", "a", "q", 11), **CHANGELOG)
    found["marked"] = _rows(table)
    write(("U", "a", "r", 11))
    found["unmarked"] = _rows(table)
    write(("U", "b", "p", 12), **CHANGELOG)
    found["marked again"] = _rows(table)
    return found


def _rows(table: HudiTable) -> list[dict[str, Any]] | None:
    try:
        rows = [row.asDict() for row in table.frame().drop(FILE_NAME_COLUMN).collect()]
    except Py4JError:
        return None
    return sorted(rows, key=lambda row: row["id"])


def main(folder: Path, scratch: Path) -> None:
    spark = start_spark(scratch=scratch)
    expected: dict[str, Any] = {}
    for make in (keyless, in_part):
        expected[make.__name__] = _rows(make(spark, scratch / make.__name__))
    expected["operations"] = operations(spark, scratch / "operations")
    spark.stop()
    for name, rows in expected.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "expected.json").write_text(json.dumps(rows, indent=1) + "\n")
        with tarfile.open(folder / name / "table.tar.xz", "w:xz") as archive:
            archive.add(scratch / name, ".", filter=lambda entry: None if entry.name.endswith(".crc") else entry)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

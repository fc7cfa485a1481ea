"""Remake the files beside this script: rows of all Spark types as released Hudi writes them.

    PYTHONPATH=service python tests/format/log/types/make.py

`row_writer.parquet` and `avro_writer.parquet` are base files by bulk insert and by Hudi's own compaction, `avro.log`,
`hfile.log` and `parquet.log` are log files with one data block; `expected.json` holds for each what Hudi's reader says,
but for `hfile.log`, which Hudi 1.2.0 on Spark cannot read: its rows are those of `avro.log`.
"""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))  # run as a script: the tests are not a package that is installed

COLUMNS = """id string, ts long, p string, s string, b binary, bo boolean, sh short, i int, l long, f float, d double,
    dc decimal(12,3), dcl decimal(38,10), da date, t timestamp, tn timestamp_ntz,
    st struct<a:int, b:string, c:struct<x:decimal(5,2), y:timestamp>>, ar array<int>,
    ars array<struct<p:string, q:double>>, aa array<array<string>>, m map<string,int>,
    ms map<string, struct<u:date, v:array<long>>>"""


def row(i: int, ts: int, *, nulls_in_lists: bool) -> tuple[Any, ...]:
    """Every third row has a given column null; values lie before and after 1970, and beyond ASCII."""

    def maybe(column: int, value: Any) -> Any:
        return None if (i + column) % 3 == 0 else value

    def element(value: Any) -> Any:
        # Hudi's own Avro writer of base files cannot write a null inside of a list; its logs can.
        return None if nulls_in_lists and i % 2 else value

    start = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    moment = start + datetime.timedelta(days=i * 1000 - 3000, microseconds=i)
    return (
        f"k{i}é" if i % 4 == 0 else f"k{i}",
        ts,
        "p0",
        maybe(0, f"s{i}ü😀"),
        maybe(1, bytes([i % 256, 0, 255])),
        maybe(2, i % 2 == 0),
        maybe(4, -i * 100),
        maybe(5, i * 100000 - 500000),
        maybe(6, i * 10**15 - 5 * 10**15),
        maybe(7, i * 1.1),
        maybe(8, -i * 2.2e-5),
        maybe(9, decimal.Decimal(i) / 8 - decimal.Decimal("1.5")),
        maybe(10, decimal.Decimal("-12345678901234567890.0123456789") * i),
        maybe(11, moment.date()),
        maybe(12, moment),
        maybe(13, moment),
        maybe(14, (element(i), maybe(3, f"n{i}"), maybe(5, (element(decimal.Decimal("1.25") * i), moment)))),
        maybe(15, [1, element(i), -3][: i % 4]),
        maybe(16, [(f"p{i}", element(0.5 * i)), (None, 2.0)][: i % 3]),
        maybe(17, [[f"a{i}", element("b")], [], ["c"]][: i % 4]),
        maybe(18, {f"k{i}": element(i), "z": 2} if i % 3 else {}),
        maybe(19, {f"k{i}": (moment.date(), [1, element(i)]), "y": (None, None)}),
    )


def as_text(value: Any) -> Any:
    """A value as JSON can hold it without loss; the test does the same with what it decodes."""
    if isinstance(value, dict):
        return {str(key): as_text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_text(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, (datetime.date, decimal.Decimal)):
        return str(value)
    return value


def main() -> None:
    from tests.hudi.spark import start_spark

    scratch = Path(tempfile.mkdtemp())
    spark = start_spark(scratch=scratch)
    # Hudi 1.2.0 cannot read a short that the row writer wrote through Spark's vectorized reader.
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")

    def write(name: str, rows: range, ts: int, operation: str, nulls_in_lists: bool, **settings: str) -> None:
        options = {
            "hoodie.table.name": "types",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": "false",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": "20",
            **settings,
        }
        frame = spark.createDataFrame([row(i, ts, nulls_in_lists=nulls_in_lists) for i in rows], COLUMNS).coalesce(1)
        frame.write.format("hudi").options(**options).mode("append").save(str(scratch / name))

    def read(name: str) -> list[dict[str, Any]]:
        frame = spark.read.format("hudi").load(str(scratch / name)).orderBy("ts", "id")
        return [as_text(found.asDict(recursive=True)) for found in frame.collect()]

    def copy(name: str, pattern: str, target: str) -> None:
        (found,) = (scratch / name / "p0").glob(pattern)
        shutil.copyfile(found, HERE / target)

    expected: dict[str, list[dict[str, Any]]] = {}
    compact = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}

    write("avro", range(12), 10, "bulk_insert", True)
    expected["row_writer.parquet"] = read("avro")
    write("avro", range(12), 11, "upsert", True)
    expected["avro.log"] = read("avro")
    copy("avro", "*_0-*.parquet", "row_writer.parquet")
    copy("avro", ".[!.]*.log.*[0-9]", "avro.log")

    write("hfile", range(12), 10, "bulk_insert", True)
    write("hfile", range(12), 11, "upsert", True, **{"hoodie.logfile.data.block.format": "hfile"})
    copy("hfile", ".[!.]*.log.*[0-9]", "hfile.log")

    write("parquet", range(12), 10, "bulk_insert", True)
    write("parquet", range(12), 11, "upsert", False, **{"hoodie.logfile.data.block.format": "parquet"})
    expected["parquet.log"] = read("parquet")
    copy("parquet", ".[!.]*.log.*[0-9]", "parquet.log")

    write("compacted", range(12), 10, "bulk_insert", False)
    (before,) = (scratch / "compacted" / "p0").glob("*.parquet")
    write("compacted", range(12), 11, "upsert", False, **compact)
    before.unlink()
    expected["avro_writer.parquet"] = read("compacted")
    copy("compacted", "*.parquet", "avro_writer.parquet")
    spark.stop()

    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()

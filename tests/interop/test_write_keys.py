"""Keys, partition paths and buckets, row by row as released Hudi has them: in tables that it wrote, and by its classes.

The constants of `tests/write/keys` are of these runs.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.java_properties import parse_properties
from lakeward.index.simple_bucket import bucket_numbers
from lakeward.table.table_config import SLASHES_IN_DATES, TableConfig
from lakeward.write.keys.key_generator import key_generator, names_its_field
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

ROWS = """
SELECT id, part, maybe, 10L AS ts, CAST(n AS int) AS n, CAST(n * 1000000007 AS bigint) AS big,
    CAST(n / 8 AS double) AS real, CAST(n * 1e9 AS double) AS large, CAST(n / 4 AS float) AS half,
    CAST(n - 2.5 AS decimal(10,2)) AS price, CAST(n / 1000000000 AS decimal(20,10)) AS fine,
    date_add(DATE'2024-02-27', n) AS day,
    CAST(date_add(DATE'2024-02-27', n) AS string) AS day_text,
    timestamp_micros(1709528767123456 - n * 86400000001 * 7000) AS at,
    CAST(timestamp_micros(n * 12345678901) AS timestamp_ntz) AS local, n % 2 = 0 AS truth,
    CAST(1700000000123 - n * 3600000 * 7001 AS bigint) AS ms, named_struct('a', concat('in', n), 'b', n) AS inner
FROM VALUES
    ('k1', 'p1', 'x', 0), ('k,2', 'a b', '', 1), ('k:3', 'c%é^d', CAST(NULL AS string), 2), ('é', 'deep/er', 'm,a', 3),
    ('日本', 'x=y', 'm:b', 4), ('a😀b', CAST(NULL AS string), 'z', 5), ('n:1,id:9', '', 'n:1,id:9', 6),
    ('id:7,part:p', '.x', '__null__', 7), ('__empty__', '日/本', ',', 8), ('x"y*?', 'q-r', ':', 9)
AS t(id, part, maybe, n)
"""

LOCAL = "CAST(timestamp_micros(n * 12345678901) AS timestamp_ntz) AS local"

TIMESTAMP = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
ALL = "id,maybe,n,big,real,large,half,price,fine,day,at,local,truth"


def of_times(field: str, **options: str) -> TableShape:
    shown = {f"hoodie.keygen.timebased.{name.replace('_', '.')}": value for name, value in options.items()}
    return TableShape(
        partition_fields=field, options={"hoodie.datasource.write.keygenerator.class": TIMESTAMP, **shown}
    )


SHAPES = {
    "simple": TableShape(partition_fields="part"),
    "simple, hive style, escaped, a timestamp": TableShape(
        key_fields="at", partition_fields="part", hive_style=True, url_encode=True
    ),
    "simple, a path of moments, escaped": TableShape(partition_fields="at", url_encode=True),
    "simple, slashes in dates": TableShape(partition_fields="day_text", options={SLASHES_IN_DATES: "true"}),
    "complex, all types, buckets": TableShape(
        key_fields=ALL, partition_fields="truth,real,price,day,half,part", index="BUCKET", buckets=7
    ),
    "complex, hive style, escaped": TableShape(
        key_fields="n,id", partition_fields="part,maybe,at,fine", hive_style=True, url_encode=True
    ),
    "complex, one field, buckets": TableShape(partition_fields="truth,n", index="BUCKET", buckets=5),
    "not partitioned, one field, buckets": TableShape(index="BUCKET", buckets=256),
    "not partitioned, hashed by some fields": TableShape(
        key_fields="maybe,id,n", index="BUCKET", buckets=64, options={"hoodie.bucket.index.hash.field": "id,n"}
    ),
    "inside of structs": TableShape(key_fields="inner.a", partition_fields="inner.b"),
    "times, numbers": of_times("ms", timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyy/MM/dd/HH"),
    "times, texts": of_times(
        "day_text", timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd", output_dateformat="yyyyMM"
    ),
    "times, a timestamp in a zone": replace(
        of_times(
            "at",
            timestamp_type="SCALAR",
            timestamp_scalar_time_unit="microseconds",
            output_dateformat="yyyy-MM-dd HH",
            timezone="America/New_York",
        ),
        hive_style=True,
    ),
}


def check_rows(table: Path, shape: TableShape, **shown: bool | None) -> int:
    """Each row of the base files has the key and path that Lakeward's are, and lies in the file group of its bucket."""
    config = TableConfig(parse_properties((table / ".hoodie/hoodie.properties").read_bytes()))
    generator = key_generator(config, writers_zone=datetime.UTC, **shown)
    rows = 0
    for file in table.rglob("*.parquet"):
        if ".hoodie" in file.relative_to(table).parts:
            continue
        (batch,) = pq.ParquetFile(file).read().combine_chunks().to_batches()
        keys, paths = generator.keys(batch)
        assert keys.to_pylist() == batch.column("_hoodie_record_key").to_pylist()
        assert paths.to_pylist() == batch.column("_hoodie_partition_path").to_pylist()
        assert {*paths.to_pylist()} == {str(file.parent.relative_to(table)).replace(".", "", file.parent == table)}
        if shape.index == "BUCKET":
            fields = shape.write_options()["hoodie.bucket.index.hash.field"].split(",")
            assert {*bucket_numbers(keys, tuple(fields), shape.buckets).tolist()} == {int(file.name[:8])}
        rows += batch.num_rows
    return rows


@pytest.mark.parametrize("name", SHAPES)
def test_tables_that_hudi_wrote(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Keeps 1 of write/keys/key_generator, Keeps 3 of write/keys/key_generator, and Keeps 1 of index/simple_bucket."""
    table = HudiTable(spark, tmp_path / "t", SHAPES[name])
    table.write(spark.sql(ROWS).coalesce(1), "upsert")

    assert check_rows(table.path, table.shape) == 10


def test_tables_of_version_8(tmp_path: Path) -> None:
    """Hudi 1.0.2 writes one key field by COMPLEX without its name, which its keys show; all else is the same."""
    with OtherRelease(OLDEST_VERSION_OF_8, tmp_path / "older") as hudi:
        for number, name in enumerate(("complex, all types, buckets", "complex, one field, buckets")):
            table = hudi.table(tmp_path / str(number), SHAPES[name])
            table.write(ROWS.replace(LOCAL, "n AS local"), "upsert")  # it has no times without a zone
    existing = [
        key
        for file in (tmp_path / "1").glob("[tf]*/*/*.parquet")
        for key in pq.ParquetFile(file).read(columns=["_hoodie_record_key"]).column(0).to_pylist()
    ]

    assert len(existing) == 10
    assert names_its_field([key for key in existing if key != "id:7,part:p"], "id") is False
    assert check_rows(tmp_path / "0", SHAPES["complex, all types, buckets"]) == 10
    assert check_rows(tmp_path / "1", SHAPES["complex, one field, buckets"], names_single_field=False) == 10


def test_buckets_as_hudi_has_them(spark: SparkSession) -> None:
    """Keys of any form, with Hudi's own class as the judge, but for those on which it hangs."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    jvm = spark._jvm
    pieces = ["a", "b", "a:", ",b:", ",a:", ",", "__null__", "__empty__", "é", "日", "😀", "x y", "7"]
    fields = jvm.java.util.ArrayList()
    for field in ("a", "b"):
        fields.add(field)
    for _ in range(1000):
        key = "".join(chance.choices(pieces, k=chance.randrange(8)))
        try:
            own = bucket_numbers(pa.array([key]), ("a", "b"), 1009)
        except Unsupported:
            continue
        assert own.tolist() == [jvm.org.apache.hudi.index.bucket.BucketIdentifier.getBucketId(key, fields, 1009)], key


def test_paths_of_times_as_hudi_has_them(spark: SparkSession) -> None:
    """Keeps 1 of write/keys/timestamp_path, and Keeps 1 of write/keys/joda_pattern: random numbers and texts."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    jvm = spark._jvm
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "GMT+8", "GMT-03:30")
    outputs = ("yyyy/MM/dd/HH", "yyyyMMdd", "yyyy-MM", "yyyy/D", "yy-M-d H", "yyyyy.MM.dd HH-mm-ss.SSS", "'d='dd SSSS")
    kinds = {"EPOCHMILLISECONDS": 1, "EPOCHMICROSECONDS": 1000, "DATE_STRING": None}
    for _ in range(300):
        kind, scale = chance.choice([*kinds.items()])
        options = {"timestamp.type": kind, "output.dateformat": chance.choice(outputs)}
        options |= {f"{way}.timezone": chance.choice(zones) for way in ("input", "output") if chance.random() < 0.7}
        moment = chance.randrange(0, 4 * 10**12)  # before, releases of the time zone database differ
        if scale is None:
            options["input.dateformat"] = "yyyy-MM-dd HH:mm:ss.SSS"
            there = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=moment)
            value = there.isoformat(" ", "milliseconds")
            given = value
        else:
            value = moment * scale + chance.randrange(scale)
            given = jvm.java.lang.Long.valueOf(str(value))
        properties = {f"hoodie.keygen.timebased.{name}": text for name, text in options.items()}
        judge = jvm.org.apache.hudi.common.config.TypedProperties()
        for name, text in properties.items():
            judge.setProperty(name, text)
        judge.setProperty("hoodie.datasource.write.recordkey.field", "id")
        judge.setProperty("hoodie.datasource.write.partitionpath.field", "at")
        expected = jvm.org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator(judge).getPartitionPath(given)
        table = {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "at",
            "hoodie.table.keygenerator.type": "TIMESTAMP",
        }
        generator = key_generator(TableConfig(table | properties), writers_zone=datetime.UTC)

        _, paths = generator.keys(pa.record_batch({"id": ["k"], "at": [value]}))

        assert paths.to_pylist() == [expected], (value, options)

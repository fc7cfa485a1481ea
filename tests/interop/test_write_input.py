"""What a write makes of its input is what released Hudi makes of the same rows: keys, partition paths and buckets, row
by row, in tables that it wrote and by its classes; the schema that is left, and what its readers make of it; and names
and values that it cannot read back, which are refused.

The constants of `tests/write/keys` are of these runs.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import secrets
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.pandas.types import to_arrow_schema

import lakeward.write
from lakeward.base.errors import LakewardError, Unsupported, UsageError
from lakeward.format.avro.column_names import find_bad_names
from lakeward.format.java_properties import parse_properties
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.index.simple_bucket import bucket_numbers
from lakeward.table.table_config import SLASHES_IN_DATES, TableConfig
from lakeward.write.flow import row_keys
from lakeward.write.input import input_schema
from lakeward.write.input.input_schema import evolve
from lakeward.write.keys.key_generator import key_generator, names_its_field
from tests.format.avro.test_column_names import ILLEGAL, LEGAL
from tests.format.avro.test_column_names import schema_of as schema_of_names
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


FIRST = {
    "id": "'k1'",
    "ts": "1L",
    "n": "CAST(1 AS int)",
    "d": "2.5d",
    "p": "CAST(1.25 AS decimal(6,2))",
    "s": "'x'",
    "st": "named_struct('a', 1, 'b', 'x')",
    "li": "array(1, 2)",
    "at": "timestamp'2024-01-01 00:00:00'",
    "opt": "CAST(NULL AS string)",
}
NULL_OR = "IF(CAST('t' AS boolean), {}, NULL)"
STRUCT = "named_struct('q', CAST('1' AS int), 'r', array(named_struct('w', CAST('1' AS decimal(5,1)))))"

CASES = {
    "the same": {},
    "another order": {"order": ["opt", "li", "s", "id", "p", "n", "d", "ts", "st", "at"]},
    "new columns": {
        "z": "CAST('5' AS int)",
        "y": NULL_OR.format(STRUCT),
        "x": NULL_OR.format("map('a', array(CAST('1' AS int)))"),
    },
    "a long for an int": {"n": "5000000000L"},
    "an int for a long": {"ts": "CAST(3 AS int)"},
    "a short for an int": {"n": "CAST(2 AS smallint)"},
    "an int for a double": {"d": "CAST(2 AS int)"},
    "a decimal of fewer digits": {"p": "CAST(2.25 AS decimal(4,2))"},
    "new fields of a struct": {
        "st": f"named_struct('b', 'y', 'a', 2, 'c', CAST('1' AS decimal(9,3)), 'd', {NULL_OR.format(STRUCT)})"
    },
    "a missing column": {"opt": None, "fill": True},
}
REFUSED = {
    "a missing column": {"opt": None},
    "a missing field": {"st": "named_struct('a', 2)"},
    "a time without a zone": {"at": "CAST('2024-01-02 00:00:00' AS timestamp_ntz)"},
}
UNREADABLE = {
    "a long in a struct": {"st": "named_struct('a', 2L, 'b', 'y')"},
    "longs in a list": {"li": "array(3L)"},
}


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    options = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    table = HudiTable(spark, tmp_path_factory.mktemp("schema") / "t", TableShape(options=options))
    table.write(spark.sql(query(FIRST)), "upsert")
    return table


def query(columns: dict[str, str | None], order: list[str] | None = None) -> str:
    named = [f"{columns[name]} AS {name}" for name in order or columns if columns[name] is not None]
    return f"SELECT {', '.join(named)}"


def schema_of(table: HudiTable) -> str:
    files = sorted((table.path / ".hoodie/timeline").glob("*_*.commit"))
    return read_commit_metadata(files[-1].read_bytes(), file=files[-1].name, layout=2).extra_metadata["schema"]


def given(spark: SparkSession, changes: dict) -> DataFrame:
    columns = {name: value for name, value in changes.items() if name not in ("order", "fill")}
    return spark.sql(query(FIRST | {"id": "'k2'"} | columns, changes.get("order")))


def own(first: HudiTable, rows: DataFrame, changes: dict) -> str:
    """The table's schema by us once these rows are in it."""
    fill = "fill" in changes
    return evolve(schema_of(first), to_arrow_schema(rows.schema), table_name="t", fill_missing=fill).schema_json


@pytest.mark.parametrize("name", CASES)
def test_hudi_leaves_the_same_schema(spark: SparkSession, first: HudiTable, tmp_path: Path, name: str) -> None:
    """To the letter; and its reader reads the rows from before in it (Keeps 2 of write/input/input_schema)."""
    changes = CASES[name]
    rows, table = given(spark, changes), first.copy_to(tmp_path / "t")
    table.write(rows, "upsert", **({"hoodie.write.set.null.for.missing.columns": "true"} if "fill" in changes else {}))

    assert own(first, rows, changes) == schema_of(table)
    assert len(table.snapshot()) == 2


@pytest.mark.parametrize("name", REFUSED)
def test_hudi_refuses_what_is_refused(spark: SparkSession, first: HudiTable, tmp_path: Path, name: str) -> None:
    rows = given(spark, REFUSED[name])

    with pytest.raises(LakewardError):
        own(first, rows, REFUSED[name])
    with pytest.raises(Exception, match="Schema validation"):
        first.copy_to(tmp_path / "t").write(rows, "upsert")


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_hudi_writes_and_cannot_read_is_refused(
    spark: SparkSession, first: HudiTable, tmp_path: Path, name: str
) -> None:
    rows, table = given(spark, UNREADABLE[name]), first.copy_to(tmp_path / "t")
    table.write(rows, "upsert")

    with pytest.raises(Unsupported, match="does not fit the table's"):
        own(first, rows, UNREADABLE[name])
    with pytest.raises(Exception, match="Nested types with type changes"):
        table.snapshot()


def test_the_names_that_are_taken_are_those_of_avro(spark: SparkSession) -> None:
    """Hudi's parser is asked of each name of the unit test, and of characters by chance, in the first place and after
    it; only characters that all releases of Python and Java know."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    known = [each for each in map(chr, range(0xD800)) if unicodedata.ucd_3_2_0.category(each) != "Cn"]
    drawn = [form.format(each) for each in chance.sample(known, 300) for form in ("{}", "x{}")]
    parser = spark._jvm.org.apache.avro.Schema.Parser  # type: ignore[union-attr]

    for name in (*LEGAL, *ILLEGAL, *drawn):
        text = json.dumps(schema_of_names(name))
        try:
            parser().parse(text)
            is_taken = True
        except Py4JJavaError:
            is_taken = False
        assert is_taken == (not find_bad_names(text)), (name, seed)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_goes_on_from_odd_names(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A table has every odd name that is taken: as new columns, with one letter in two cases on different levels, and
    inside of a struct those that are reserved outside."""
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.metadata.enable": "true"}
    table = HudiTable(spark, tmp_path / "t", TableShape(options=options))
    table.write(spark.sql("SELECT 'k1' id, 1L ts"), "upsert")
    inner = {"Z": 1, "_hoodie_operation": "D", "_tmp_metadata_row_index": 7, "y": {"Z": 1, "ID": 1}}
    names = [name for name in LEGAL if name != "_hoodie_is_deleted"]
    rows = pa.table({"id": ["k2"], "ts": [2], **{name: ["x"] for name in names}, "z": [{"a": inner}]})

    lakeward.write.write(rows, str(table.path), writers_stopped=True)
    lakeward.write.write(rows.set_column(0, "id", pa.array(["k3"])), str(table.path), writers_stopped=True)
    fill = {"hoodie.write.set.null.for.missing.columns": "true"}
    table.write(spark.sql("SELECT 'k4' id, 2L ts"), "upsert", **fill)

    found = {row["id"]: row for row in map(json.loads, table.snapshot(with_meta=False))}
    assert found["k2"] == {"id": "k2", "ts": 2, **dict.fromkeys(names, "x"), "z": {"a": inner}}
    assert found["k3"] == found["k2"] | {"id": "k3"} and len(found) == 4


@pytest.mark.parametrize("new", ["V", "s.X", "_tmp_metadata_row_index"])
def test_names_that_spark_cannot_distinguish(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str
) -> None:
    """Hudi's readers fail on a table with them, or return another value than was written."""
    table = HudiTable(
        spark, tmp_path / "t", TableShape(options={"hoodie.datasource.write.table.type": "COPY_ON_WRITE"})
    )
    table.write(spark.sql("SELECT 'k1' id, 1L ts, 'v' v, named_struct('x', 1) s"), "upsert")
    struct = {"x": 1, "X": 2} if new == "s.X" else {"x": 1}
    columns = {"id": ["k2"], "ts": [2], "v": ["w"], "s": [struct], **({} if new == "s.X" else {new: [77]})}
    rows = pa.table(columns)
    rows = rows.cast(_with_ints(rows.schema))
    with pytest.raises(UsageError, match="a column that the table cannot have"):
        lakeward.write.write(rows, str(table.path), writers_stopped=True)

    monkeypatch.setattr(input_schema, "_check_loadable", lambda evolved, before: None)
    lakeward.write.write(rows, str(table.path), writers_stopped=True)

    if new.startswith("_"):
        assert ": 77" not in "".join(table.snapshot(with_meta=False)).replace('":', '": ')
    else:
        with pytest.raises(Exception, match="already exists"):
            table.snapshot()


def _with_ints(schema: pa.Schema) -> pa.Schema:
    """The struct with fields of ints, as the table has them."""
    struct = schema.field("s").type
    return schema.set(3, pa.field("s", pa.struct([(field.name, pa.int32()) for field in struct])))


@pytest.mark.parametrize(("kind", "fails"), [("bigint", True), ("string", True), ("int", False)])
def test_rows_without_ordering_value(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fails: bool
) -> None:
    """Hudi's queries fail where one meets a row that has one, so it is refused; in a column of ints it is 0."""
    table = HudiTable(spark, tmp_path / "t", TableShape(index="BUCKET"))
    table.write(spark.sql(f"SELECT 'k1' id, {NULL_OR.format(f'CAST(1 AS {kind})')} ts, 'v' v"), "upsert")
    rows = pa.table(
        {
            "id": ["k1"],
            "ts": pa.nulls(1, {"bigint": pa.int64(), "string": pa.string(), "int": pa.int32()}[kind]),
            "v": ["w"],
        }
    )
    if fails:
        with pytest.raises(UsageError, match="Row 1 has no value in ts"):
            lakeward.write.write(rows, str(table.path), writers_stopped=True, buckets=2)
        monkeypatch.setattr(row_keys, "_check_ordering", lambda rows, fields, rows_before: None)

    lakeward.write.write(rows, str(table.path), writers_stopped=True, buckets=2)

    if fails:
        with pytest.raises(Exception, match="ClassCastException"):
            table.snapshot()
    else:
        assert '"v":"v"' in "".join(table.snapshot())

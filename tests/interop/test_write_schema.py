"""The schema that a write leaves, as released Hudi leaves it after the same rows, and what its readers make of it; and
names and values that it cannot read back, which are refused."""

from __future__ import annotations

import json
import os
import random
import secrets
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.pandas.types import to_arrow_schema

import lakeward.write
from lakeward.base.errors import LakewardError, Unsupported, UsageError
from lakeward.format.avro.column_names import find_bad_names
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.write.flow import row_keys
from lakeward.write.input import input_schema
from lakeward.write.input.input_schema import evolve
from tests.format.avro.test_column_names import ILLEGAL, LEGAL
from tests.format.avro.test_column_names import schema_of as schema_of_names
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

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

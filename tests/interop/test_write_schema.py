"""The schema that a write leaves, as released Hudi leaves it after the same rows, and what its readers make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from lakeward.errors import LakewardError, Unsupported
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.write.input.schema import evolve
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


def ours(first: HudiTable, rows: DataFrame, changes: dict) -> str:
    """The table's schema by us once these rows are in it."""
    fill = "fill" in changes
    return evolve(schema_of(first), to_arrow_schema(rows.schema), table_name="t", fill_missing=fill).schema_json


@pytest.mark.parametrize("name", CASES)
def test_hudi_leaves_the_same_schema(spark: SparkSession, first: HudiTable, tmp_path: Path, name: str) -> None:
    """To the letter; and its reader reads the rows from before in it (Keeps 2 of write/input/schema)."""
    changes = CASES[name]
    rows, table = given(spark, changes), first.copy_to(tmp_path / "t")
    table.write(rows, "upsert", **({"hoodie.write.set.null.for.missing.columns": "true"} if "fill" in changes else {}))

    assert ours(first, rows, changes) == schema_of(table)
    assert len(table.snapshot()) == 2


@pytest.mark.parametrize("name", REFUSED)
def test_hudi_refuses_what_is_refused(spark: SparkSession, first: HudiTable, tmp_path: Path, name: str) -> None:
    rows = given(spark, REFUSED[name])

    with pytest.raises(LakewardError):
        ours(first, rows, REFUSED[name])
    with pytest.raises(Exception, match="Schema validation"):
        first.copy_to(tmp_path / "t").write(rows, "upsert")


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_hudi_writes_and_cannot_read_is_refused(
    spark: SparkSession, first: HudiTable, tmp_path: Path, name: str
) -> None:
    rows, table = given(spark, UNREADABLE[name]), first.copy_to(tmp_path / "t")
    table.write(rows, "upsert")

    with pytest.raises(Unsupported, match="does not fit the table's"):
        ours(first, rows, UNREADABLE[name])
    with pytest.raises(Exception, match="Nested types with type changes"):
        table.snapshot()

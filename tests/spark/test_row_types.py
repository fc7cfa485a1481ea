"""The types of a table's columns in Spark, without a session."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import types

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.schema import table_schema
from lakeward.spark.row_types import SparkBatches, column_types, spark_types

NUMBER = "long"
MAYBE = ["null", "long"]


def schema(**fields: object) -> str:
    of = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "r", "fields": of})


def record(**fields: object) -> dict[str, object]:
    return {"type": "record", "name": "inner", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def test_what_may_be_null_follows_the_schema() -> None:
    """At every level; meta columns may be."""
    text = schema(
        n=NUMBER,
        m=MAYBE,
        s=["null", record(a=NUMBER, b=MAYBE)],
        l={"type": "array", "items": NUMBER},
        w={"type": "map", "values": MAYBE},
        local={"type": "long", "logicalType": "local-timestamp-millis"},
        at={"type": "long", "logicalType": "timestamp-millis"},
    )
    found = spark_types(table_schema(text), column_types(text))
    number = types.LongType()
    inner = types.StructType([types.StructField("a", number, False), types.StructField("b", number)])
    assert found[0] == types.StructField("_hoodie_commit_time", types.StringType())
    assert found[5:] == types.StructType(
        [
            types.StructField("n", number, False),
            types.StructField("m", number),
            types.StructField("s", inner),
            types.StructField("l", types.ArrayType(number, False), False),
            types.StructField("w", types.MapType(types.StringType(), number, True), False),
            types.StructField("local", types.TimestampNTZType(), False),
            types.StructField("at", types.TimestampType(), False),
        ]
    )


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (NUMBER, 1, None),
        (["null", record(a=NUMBER)], [None, {"a": 1}], {"a": None}),
        (["null", {"type": "array", "items": NUMBER}], [None, [1]], [None]),
        (["null", {"type": "map", "values": NUMBER}], [None, [("k", 1)]], [("k", None)]),
        (["null", {"type": "map", "values": record(a=NUMBER)}], [[("k", {"a": 1})]], [("k", {"a": None})]),
    ],
)
def test_a_null_where_none_may_be_is_an_error(kind: object, good: object, bad: object) -> None:
    """Keeps 2 of spark/row_types: Spark would take what lies there for a value."""
    text = schema(c=kind)
    rows = pa.schema([table_schema(text).field("c")])
    batches = SparkBatches(rows, column_types(text))
    values = good if isinstance(good, list) else [good]
    plain = pa.schema([pa.field("c", rows.field("c").type)])
    of = pa.RecordBatch.from_arrays([pa.array(values, plain.field("c").type)], schema=plain)
    assert batches.of(of, where="File group f").column(0).to_pylist() == values
    broken = pa.RecordBatch.from_arrays([pa.array([*values, bad], plain.field("c").type)], schema=plain)
    assert batches.of(broken.slice(0, len(values)), where="File group f").num_rows == len(values)
    with pytest.raises(BrokenFile, match="File group f has rows without a value in 'c"):
        batches.of(broken, where="File group f")

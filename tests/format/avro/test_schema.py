"""Avro schemas of Hudi as Arrow schemas."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import DEFAULT_KEY, REQUIRED_KEY, block_schema, table_schema


def record(*fields: tuple[str, Any], name: str = "r", namespace: str = "hoodie.t") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [{"name": field, "type": schema, "default": None} for field, schema in fields],
    }


def test_table_schema_leads_with_the_meta_columns():
    """The commit's schema has no meta columns; a base file has five, once, in Hudi's order."""
    bare = table_schema(json.dumps(record(("id", "string"))))
    with_meta = table_schema(json.dumps(record(*((name, "string") for name in META_COLUMNS), ("id", "string"))))

    assert bare.names == [*META_COLUMNS, "id"]
    assert bare == with_meta


def test_block_schema_is_what_the_writer_had():
    """A partial block may lack columns, and keeps its own order."""
    assert block_schema(json.dumps(record(("b", "int"), ("a", "string"))), where="x").names == ["b", "a"]


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        (
            {"type": "fixed", "name": "f", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 3},
            pa.decimal128(12, 3),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, pa.decimal128(38, 0)),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary()),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string()),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.field("element", pa.int32()))),
        ({"type": "map", "values": ["null", "long"]}, pa.map_(pa.string(), pa.int64())),
        (record(("x", ["int", "null"]), name="inner"), pa.struct([("x", pa.int32())])),
    ],
)
def test_types(avro: Any, arrow: pa.DataType):
    """Each type that Spark can store has one Arrow type, nullable or not and whichever branch null is."""
    for schema in (avro, ["null", avro], [avro, "null"]):
        (column,) = block_schema(json.dumps(record(("c", schema))), where="x")

        assert column == pa.field("c", arrow)


def test_fields_carry_their_defaults():
    """Keeps 3 of format/avro/schema: at every level what may not be null says so, and a default that is not null goes
    along."""
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int", "default": 7}]}
    fields = [
        {"name": "a", "type": ["null", inner], "default": None},
        {"name": "b", "type": ["string", "null"], "default": "B"},
    ]
    schema = block_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), where="x")

    assert schema.field("a").metadata is None
    assert schema.field("b").metadata == {DEFAULT_KEY: b'"B"'}
    assert schema.field("a").type.field("x").metadata == {REQUIRED_KEY: b"", DEFAULT_KEY: b"7"}


def test_named_types_may_be_repeated():
    """A fixed or record that was named before is found by its full name or by the name alone in its namespace."""
    fixed = {
        "type": "fixed",
        "name": "d",
        "namespace": "n.s",
        "size": 5,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    }
    inner = record(("x", fixed), ("y", ["null", "d"]), name="inner", namespace="n.s")
    schema = block_schema(json.dumps(record(("a", inner), ("b", ["null", "n.s.inner"]), namespace="m")), where="x")

    assert schema.field("b").type == schema.field("a").type
    assert schema.field("b").type.field("y").type == pa.decimal128(10, 2)


@pytest.mark.parametrize(
    "avro",
    [
        "null",
        "other",
        ["null", "int", "string"],
        ["null"],
        [],
        {"type": "enum", "name": "e", "symbols": []},
        {"type": "enum", "name": "e", "symbols": [1]},
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"},
        {"type": "fixed", "name": "f", "size": 17, "logicalType": "decimal", "precision": 38, "scale": 0},
        {"type": "fixed", "name": "f", "size": 16, "logicalType": "decimal", "precision": 39, "scale": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 6},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "record", "name": "empty", "fields": []},
        {"type": "record", "name": "twice", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]},
        {"type": "record", "name": "loop", "fields": [{"name": "next", "type": ["null", "loop"]}]},
    ],
)
def test_other_types_are_refused_by_the_field(avro: Any):
    """A type that no test proves to survive a compaction is refused, with the path of the field."""
    schema = record(("outer", {"type": "array", "items": record(("col", avro), name="element")}))
    with pytest.raises(Unsupported, match=r"outer\.element\.col"):
        block_schema(json.dumps(schema), where="the table schema")


def test_a_schema_that_doubles_by_names_is_refused():
    """Two kilobytes of schema stood for 33 million types, took 2.5 GB and half a minute: each level names the one
    before it a second time."""
    kind: Any = "long"
    for level in range(24):
        again = f"R{level - 1}" if level else "long"
        kind = record(("a", kind), ("b", again), name=f"R{level}")
    with pytest.raises(Unsupported, match="made of more than 20000 types"):
        block_schema(json.dumps(kind), where="x")


def test_hostile_nesting_is_refused():
    """A schema nested without end is refused, it does not exhaust the stack."""
    schema: Any = "int"
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    with pytest.raises(Unsupported, match="64 levels"):
        block_schema(json.dumps(record(("a", schema))), where="x")
    with pytest.raises(BrokenFile):
        block_schema('{"type":' * 100_000, where="x")


@pytest.mark.parametrize(
    "text", ["", "[]", '"int"', '{"type": "int"}', '{"type":"record","name":"r","fields":[{"name":"a"}]}', "{"]
)
def test_not_a_record_schema(text: str):
    """Anything but a record schema is a broken file that says where it was found."""
    with pytest.raises(BrokenFile, match=r"x\.log"):
        block_schema(text, where="x.log")

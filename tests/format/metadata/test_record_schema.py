"""Schemas of metadata tables: what is understood, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.metadata.record_schema import MetadataSchema, RecordLayout, parse_metadata_schema
from tests.format.metadata.metadata_schemas import metadata_schema, nullable, record

OLDEST = MetadataSchema(
    meta_columns=5,
    bloom_filter=RecordLayout(4),
    stats=RecordLayout(9),
    wrappers=11,
    record_index=RecordLayout(7),
    secondary_index=None,
    others=0,
)
SECOND = MetadataSchema(
    meta_columns=5,
    bloom_filter=RecordLayout(4),
    stats=RecordLayout(10),
    wrappers=12,
    record_index=RecordLayout(8),
    secondary_index=RecordLayout(1),
    others=0,
)
NEWEST = MetadataSchema(
    meta_columns=5,
    bloom_filter=RecordLayout(4),
    stats=RecordLayout(11),
    wrappers=13,
    record_index=RecordLayout(8),
    secondary_index=RecordLayout(1),
    others=0,
)


@pytest.mark.parametrize(("release", "expected"), [("0.15", OLDEST), ("1.0", SECOND), ("1.2", NEWEST)])
def test_releases(release: str, expected: MetadataSchema):
    """Each added to the end of what there was."""
    assert parse_metadata_schema(json.dumps(metadata_schema(release))) == expected


def test_documentation_and_defaults_do_not_matter():
    """Namespaces matter as little, and what Avro's Java library notes about strings."""
    schema = metadata_schema()
    schema["doc"] = "x"
    for field in schema["fields"]:
        field |= {"doc": "x", "default": None}
    schema["fields"][5]["type"] = "string"

    assert parse_metadata_schema(json.dumps(schema)) == NEWEST
    bare = parse_metadata_schema(json.dumps(metadata_schema(meta_columns=False)))
    assert bare.meta_columns == 0 and bare.stats == NEWEST.stats


def field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return next(field for field in schema["fields"] if field["name"] == name)


def nested(schema: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return field(schema, name)["type"][1]["fields"]


def test_nullable_fields_of_a_newer_release():
    """They are counted: behind all, and behind those of a record."""
    schema = metadata_schema()
    schema["fields"].append({"name": "vectorIndexMetadata", "type": nullable(record("V", a="int"))})
    nested(schema, "ColumnStatsMetadata").append({"name": "distinct", "type": nullable("long")})

    parsed = parse_metadata_schema(json.dumps(schema))
    assert parsed.others == 1 and parsed.stats == RecordLayout(11, others=1)


def set_type(name: str, kind: Any) -> Callable[[dict[str, Any]], None]:
    return lambda schema: field(schema, name).update(type=kind)


def set_nested(name: str, inner: str, kind: Any) -> Callable[[dict[str, Any]], None]:
    return lambda schema: next(each for each in nested(schema, name) if each["name"] == inner).update(type=kind)


def cut(name: str, length: int) -> Callable[[dict[str, Any]], None]:
    return lambda schema: nested(schema, name).__delitem__(slice(length, None))


SELF = {"type": "record", "name": "HoodieMetadataRecord", "fields": [{"name": "a", "type": "HoodieMetadataRecord"}]}
DEEP: Any = "int"
for _ in range(100):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema.update(name="Other"),
        lambda schema: schema.update(type="enum", symbols=["a"]),
        lambda schema: (
            schema["fields"].pop(0).clear() or schema["fields"].insert(0, {"name": "_hoodie_x", "type": "int"})
        ),
        lambda schema: schema["fields"].reverse(),
        lambda schema: schema["fields"].append({"name": "x", "type": "int"}),
        lambda schema: schema["fields"].append({"name": "x"}),
        lambda schema: schema["fields"].append({"name": "x", "type": nullable("unknown")}),
        lambda schema: schema["fields"].append({"name": "x", "type": nullable(DEEP)}),
        set_type("type", "long"),
        set_type("key", nullable("string")),
        set_type("filesystemMetadata", nullable({"type": "map", "values": "long"})),
        set_type("BloomFilterMetadata", record("HoodieMetadataBloomFilter", type="string")),
        set_nested("BloomFilterMetadata", "bloomFilter", "string"),
        set_nested("ColumnStatsMetadata", "nullCount", nullable("int")),
        set_nested("ColumnStatsMetadata", "maxValue", nullable("IntWrapper")),
        set_nested("ColumnStatsMetadata", "minValue", nullable(record("OtherWrapper", value="int"))),
        set_nested("recordIndexMetadata", "fileIdEncoding", "long"),
        cut("ColumnStatsMetadata", 8),
        cut("ColumnStatsMetadata", 2),
        cut("recordIndexMetadata", 6),
        cut("BloomFilterMetadata", 3),
        cut("SecondaryIndexMetadata", 0),
        set_nested("SecondaryIndexMetadata", "isDeleted", "int"),
    ],
)
def test_what_differs_is_refused(change: Callable[[dict[str, Any]], Any]):
    """It is refused before anything is decoded by it."""
    schema = metadata_schema()
    change(schema)
    with pytest.raises(Unsupported):
        parse_metadata_schema(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"int"', "null", json.dumps(SELF), "[" * 100_000])
def test_what_is_no_schema_is_refused(text: str):
    """So is one that refers to itself."""
    with pytest.raises(Unsupported):
        parse_metadata_schema(text)

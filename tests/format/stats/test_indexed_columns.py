"""Which columns have statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.stats.indexed_columns import DEFAULT_COLUMNS_MAX, INDEXED_META_COLUMNS, indexed_columns
from lakeward.format.stats.stats_value import StatsVersion

V1, V2 = StatsVersion.V1, StatsVersion.V2

RECORD = {"type": "record", "name": "in", "fields": [{"name": "a", "type": ["null", "int"]}]}
TYPES: dict[str, Any] = {
    "id": "string",
    "record": ["null", RECORD],
    "list": {"type": "array", "items": "int"},
    "map": {"type": "map", "values": "int"},
    "enum": {"type": "enum", "name": "e", "symbols": ["A"]},
    "vector": {"type": "fixed", "name": "v", "size": 8, "logicalType": "vector"},
    "small": {"type": "fixed", "name": "f1", "size": 16, "logicalType": "decimal", "precision": 30, "scale": 15},
    "wide": {"type": "fixed", "name": "f2", "size": 16, "logicalType": "decimal", "precision": 30, "scale": 10},
    "bytes": ["null", "bytes"],
}


def schema(types: dict[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}
    )


def test_by_default_what_can_have_them():
    """Meta columns come first, then the table's; no records, lists, maps, enums, vectors; wide decimals in version 2
    only."""
    assert [*indexed_columns(schema(TYPES), (), version=V2)] == [*INDEXED_META_COLUMNS, "id", "small", "wide", "bytes"]
    assert [*indexed_columns(schema(TYPES), (), version=V1)] == [*INDEXED_META_COLUMNS, "id", "small", "bytes"]


def test_the_first_32():
    """Meta columns not counted, whether the schema has them or not."""
    own = {f"c{number}": "int" for number in range(40)}
    with_meta = dict.fromkeys((*INDEXED_META_COLUMNS, "_hoodie_operation"), "string") | own
    for types in (own, with_meta):
        found = [*indexed_columns(schema(types), (), version=V2)]
        assert found == [*INDEXED_META_COLUMNS, *list(own)[:DEFAULT_COLUMNS_MAX]]
    assert DEFAULT_COLUMNS_MAX == 32
    assert len(indexed_columns(schema(own), (), version=V2, has_meta_columns=False)) == DEFAULT_COLUMNS_MAX


def test_the_columns_that_are_named():
    """They come in their order, also from below records, without those that the table does not have or that have no
    statistics."""
    named = ("_hoodie_commit_time", "record.a", "id", "gone", "record.b", "list", "id.x", "_hoodie_record_key")

    found = indexed_columns(schema(TYPES), named, version=V2)

    assert found == dict.fromkeys(INDEXED_META_COLUMNS, "string") | {"record.a": ["null", "int"], "id": "string"}
    assert [*indexed_columns(schema(TYPES), ("id",), version=V2, has_meta_columns=False)] == ["id"]


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"fields": [1]}', '{"fields": [{"name": "a"}]}', "[" * 100_000])
def test_a_broken_schema(broken: str):
    """It is refused."""
    with pytest.raises(BrokenFile):
        indexed_columns(broken, (), version=V2)

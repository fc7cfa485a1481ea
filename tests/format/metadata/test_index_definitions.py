"""The index definitions of a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.metadata.index_definitions import (
    NO_INDEX_DEFINITIONS,
    IndexDefinition,
    IndexDefinitions,
    dump_index_definitions,
    parse_index_definitions,
    with_source_fields,
)
from lakeward.format.stats.stats_value import StatsVersion

COLUMNS = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "ü"]


def definition(name: str, **changes: Any) -> dict[str, Any]:
    """A definition in the form that Hudi writes."""
    return {
        "indexName": name,
        "indexType": name,
        "indexFunction": name,
        "sourceFields": [],
        "indexOptions": {},
        "version": "V1",
    } | changes


def parse(*definitions: dict[str, Any]) -> IndexDefinitions:
    by_name = {each["indexName"]: each for each in definitions}
    return parse_index_definitions(json.dumps({"indexDefinitions": by_name}).encode(), file="index.json")


def test_definitions_are_read():
    """Hudi 1.2.0 writes them so."""
    found = parse(
        definition("record_index", indexFunction="", indexOptions={"isPartitioned": "false"}),
        definition("column_stats", sourceFields=COLUMNS, version="V2"),
    )

    assert found.by_name["column_stats"] == IndexDefinition(
        name="column_stats",
        type="column_stats",
        function="column_stats",
        source_fields=tuple(COLUMNS),
        options={},
        version=2,
    )
    assert found.column_stats_columns == tuple(COLUMNS)
    assert found.stats_version(has_typed_stats=True) is StatsVersion.V2
    assert not found.is_partitioned_record_index


def test_a_definition_may_lack_what_older_releases_had_not():
    """Such as the version, and what is null."""
    found = parse({"indexName": "a", "indexType": "b"}, definition("c", indexFunction=None, sourceFields=None, new=1))

    assert found.by_name["a"] == IndexDefinition("a", "b", "", (), {}, None)
    assert found.by_name["c"].source_fields == ()


@pytest.mark.parametrize(
    ("version", "typed", "expected"),
    [("V1", True, 1), ("V2", False, 2), ("V2", True, 2), (None, True, 2), (None, False, 1)],
)
def test_the_version_of_statistics(version: str | None, typed: bool, expected: int):
    """It is the index's own, else follows from the table's."""
    assert parse(definition("column_stats", version=version)).stats_version(has_typed_stats=typed) == expected


def test_no_definitions():
    """A table without the file, with an empty file or an empty document has no columns, and the table's version
    decides."""
    for found in (NO_INDEX_DEFINITIONS, *(parse_index_definitions(data, file="x") for data in (b"", b" \n", b"{}"))):
        assert found == NO_INDEX_DEFINITIONS
        assert (found.column_stats_columns, found.stats_version(has_typed_stats=True)) == ((), StatsVersion.V2)
        assert not found.is_partitioned_record_index


def test_the_record_index_of_each_partition():
    """Its options say so."""
    assert parse(definition("record_index", indexOptions={"isPartitioned": "true"})).is_partitioned_record_index
    assert not parse(definition("record_index")).is_partitioned_record_index


@pytest.mark.parametrize(
    "definitions",
    [
        [],
        {"a": definition("b")},
        {"a": []},
        {"a": definition("a", indexType=None)},
        {"a": definition("a", sourceFields=[1])},
        {"a": definition("a", sourceFields=7)},
        {"a": definition("a", version=["V1"])},
        {"a": definition("a", indexOptions={"isPartitioned": True})},
        {"a": {"indexName": "a"}},
    ],
)
def test_what_is_no_definition_is_broken(definitions: Any):
    """None of the others is taken then."""
    data = json.dumps({"indexDefinitions": definitions}).encode()
    if definitions == []:
        data = b'{"indexDefinitions": [1]}'
    with pytest.raises(BrokenFile, match=r"index\.json"):
        parse_index_definitions(data, file="index.json")


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff", b'"x"', b"7"])
def test_what_is_no_document_is_broken(data: bytes):
    """It was cut short, or is something else."""
    with pytest.raises(BrokenFile):
        parse_index_definitions(data, file="index.json")


@pytest.mark.parametrize("version", ["V3", "2", 2])
def test_an_unknown_version_is_refused(version: Any):
    """The error names its index."""
    with pytest.raises(Unsupported, match="column_stats"):
        parse(definition("column_stats", version=version))


def test_columns_are_named_again_and_all_else_stays():
    """Other indexes, and fields that a later release may bring, are as they were. Keeps 3 of
    format/metadata/index_definitions."""
    stats, other = definition("column_stats", sourceFields=COLUMNS, later="x"), definition("record_index")
    document: dict[str, Any] = {"indexDefinitions": {"column_stats": stats, "record_index": other}, "of": {"later": 1}}
    changed = with_source_fields(json.dumps(document).encode(), "column_stats", [*COLUMNS, "c"], file="index.json")

    stats["sourceFields"] = [*COLUMNS, "c"]
    assert json.loads(changed) == document
    assert b'"indexName" : "column_stats"' in changed, "as Hudi lays it out"


def test_what_is_written_is_read_back():
    """With a version, and without one, as Hudi 1.0 has it."""
    definitions = parse(definition("column_stats", sourceFields=COLUMNS, version="V2"), definition("record_index"))
    assert parse_index_definitions(dump_index_definitions(definitions), file="index.json") == definitions
    older = IndexDefinitions({"column_stats": IndexDefinition("column_stats", "column_stats", "", ("id",), {}, None)})
    written = dump_index_definitions(older)
    assert b"version" not in written and parse_index_definitions(written, file="index.json") == older

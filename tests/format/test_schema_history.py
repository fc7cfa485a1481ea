"""Versions of a schema as Hudi 1.2.0 writes them, and what changed between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.schema_history import (
    find_change_of_names,
    find_change_of_types,
    read_schema_history,
    read_schema_version,
)


def column(number: int, name: str, kind: Any = "string") -> dict[str, Any]:
    return {"id": number, "name": name, "optional": True, "type": kind}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": list(fields)}


def version(number: int, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"max_column_id": 99, "version_id": number, **struct(column(0, "_hoodie_commit_time"), *fields)}


LIST = {"type": "array", "element_id": 7, "element": struct(column(8, "x", "int")), "element_optional": True}
MAP = {"type": "map", "key_id": 9, "key": "string", "value_id": 10, "value": "int", "value_optional": True}


def versions(*found: dict[str, Any]) -> Any:
    """Given oldest first."""
    return read_schema_history(json.dumps({"schemas": found[::-1]}).encode(), file="x.schemacommit")


def test_every_field_has_its_id():
    """Structs, elements of lists, keys and values of maps; meta columns are no columns of the table."""
    found = read_schema_version(json.dumps(version(20, column(5, "l", LIST), column(6, "m", MAP))), where="a commit")

    assert {name: (field.id, field.type) for name, field in found.fields.items()} == {
        "_hoodie_commit_time": (0, "string"),
        "l": (5, "array"),
        "l.element": (7, "record"),
        "l.element.x": (8, "int"),
        "m": (6, "map"),
        "m.key": (9, "string"),
        "m.value": (10, "int"),
    }
    assert (found.id, found.columns) == (20, {"l", "m"})


def test_names_that_do():
    """Columns that were added, dropped and moved, and an int that became a long, at every level."""
    found = versions(
        version(0, column(1, "a", "int"), column(2, "b"), column(3, "s", struct(column(4, "x", "int")))),
        version(10, column(2, "b"), column(3, "s", struct(column(5, "y"), column(4, "x", "long")))),
        version(20, column(6, "c"), column(2, "b"), column(3, "s", struct(column(5, "y"), column(4, "x", "long")))),
    )
    assert find_change_of_names(found) is None and find_change_of_types(found) is None


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ([column(1, "b")], "a was renamed to b, or moved there"),
        ([column(2, "a")], "a was dropped, and another column of the name added"),
        ([column(3, "s", struct(column(1, "a")))], "a was renamed to s.a, or moved there"),
    ],
)
def test_names_that_do_not(fields: list[dict[str, Any]], what: str):
    """Also where they are as they were again in the end."""
    first = version(0, column(1, "a"))
    assert find_change_of_names(versions(first, version(10, *fields))) == what
    assert find_change_of_names(versions(first, version(10, *fields), version(20, column(1, "a")))) is not None


def test_types_that_are_not_known():
    """Hudi's conversions by id are other code than those by name."""
    found = versions(version(0, column(1, "a", "float")), version(10, column(1, "a", "double")))
    assert find_change_of_types(found) == "a became double, and was float"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        json.dumps({"version_id": 1, "type": "array"}),
        json.dumps(version(1, {"name": "a", "type": "int"})),
        json.dumps(version(1, column(1, "a"), column(2, "a"))),
        json.dumps(version(1, column(1, "a", {"type": "variant"}))),
    ],
)
def test_what_is_not_understood(text: str):
    """Keeps of format/schema_history: it is an error, never a version with less in it."""
    with pytest.raises(BrokenFile, match="a commit"):
        read_schema_version(text, where="a commit")

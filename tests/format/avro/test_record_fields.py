"""Typed fields out of records that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.record_fields import RecordFields

ASK: dict[str, Callable[[RecordFields, str], Any]] = {
    "text": RecordFields.text,
    "boolean": RecordFields.boolean,
    "integer": RecordFields.integer,
    "record": RecordFields.record,
    "records": RecordFields.records,
    "records_by_key": RecordFields.records_by_key,
    "texts": RecordFields.texts,
    "texts_by_key": RecordFields.texts_by_key,
    "text_by_key": RecordFields.text_by_key,
    "integer_by_key": RecordFields.integer_by_key,
    "number_by_key": RecordFields.number_by_key,
}


def fields(values: object) -> RecordFields:
    return RecordFields(values, file="t.commit")


@pytest.mark.parametrize("kind", ASK)
def test_absent_and_null_are_the_same(kind: str) -> None:
    """A field that a writer left out reads as one that it left empty."""
    absent, null = ASK[kind](fields({}), "a"), ASK[kind](fields({"a": None}), "a")
    assert absent == null
    assert not absent


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("text", "x", "x"),
        ("boolean", False, False),
        ("integer", 3, 3),
        ("texts", ["x", "y"], ("x", "y")),
        ("texts_by_key", {"k": ["x"], "none": None}, {"k": ("x",), "none": ()}),
        ("text_by_key", {"k": "x", "none": None}, {"k": "x"}),
        ("integer_by_key", {"k": 1}, {"k": 1}),
        ("number_by_key", {"k": 1, "l": 0.5}, {"k": 1.0, "l": 0.5}),
    ],
)
def test_values_are_read_as_what_they_are(kind: str, value: object, read: object) -> None:
    """A value of the type asked for comes through; collections become tuples and dicts of it."""
    assert ASK[kind](fields({"a": value}), "a") == read


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        ("text", 1, "a"),
        ("text", b"x", "a"),
        ("boolean", 1, "a"),
        ("integer", True, "a"),
        ("integer", 1.0, "a"),
        ("integer", "1", "a"),
        ("record", [], "a"),
        ("records", {}, "a"),
        ("records", [{}, None], r"a\[1\]"),
        ("records_by_key", {"k": [1]}, r"a\['k'\]\[0\]"),
        ("records_by_key", {"k": {}}, r"a\['k'\]"),
        ("texts", "x", "a"),
        ("texts", ["x", None], r"a\[1\]"),
        ("texts_by_key", {"k": [1]}, r"a\['k'\]\[0\]"),
        ("text_by_key", {"k": 1}, r"a\['k'\]"),
        ("integer_by_key", {"k": True}, r"a\['k'\]"),
        ("number_by_key", {"k": True}, r"a\['k'\]"),
        ("number_by_key", {"k": None}, r"a\['k'\]"),
    ],
)
def test_value_of_another_type_is_refused_by_name(kind: str, value: object, path: str) -> None:
    """The error names the file and the way to the field."""
    with pytest.raises(BrokenFile, match=rf"t\.commit .* In it, {path} is "):
        ASK[kind](fields({"a": value}), "a")


def test_nested_fields_are_named_from_the_top() -> None:
    """The way to a field leads through the records it is in."""
    inner = fields({"groups": [{"slice": {"id": 7}}]}).records("groups")[0].record("slice")
    assert inner is not None
    with pytest.raises(BrokenFile, match=r"groups\[0\]\.slice\.id is 7"):
        inner.text("id")


@pytest.mark.parametrize("values", [None, [], "x", 1])
def test_content_must_be_a_record(values: object) -> None:
    """A file whose top is a list or a number holds no record."""
    with pytest.raises(BrokenFile, match="its content"):
        fields(values)


def test_errors_stay_short() -> None:
    """A megabyte in the wrong place does not fill the terminal."""
    with pytest.raises(BrokenFile) as refused:
        fields({"a": "x" * 1_000_000}).integer("a")
    assert len(str(refused.value)) < 400

"""The reference of JSON documents is what the verbs print."""

from __future__ import annotations

import pytest

from deploy.json_page import COMMANDS, DOCUMENT, _lines, _merged, _shape, page
from tests.cli.test_verbs import all_verbs


@pytest.mark.slow
def test_the_documents_are_current() -> None:
    """Remade by `make json-page`: a field that goes or changes its type is a line of a diff."""
    assert DOCUMENT.read_text() == page()


def test_verbs_are_named_as_they_are() -> None:
    """An option stands with a verb that prints another document by it."""
    assert {words.partition(" --")[0] for words, _ in COMMANDS} <= {words for words, _ in all_verbs()}


def test_fields_of_several_documents_are_one_shape() -> None:
    """A field that is null in one, or not there, is marked; of a list of objects each field is named once."""
    one = {"a": 1, "b": None, "c": [{"d": "x"}, {"d": None, "e": True}], "numbers": {"x": 1.5}}
    other = {"a": 2, "b": "text", "c": [], "numbers": {"y": 2}, "f": []}
    assert list(_lines(_merged(_shape(one), _shape(other)))) == [
        "a: number",
        "b: text?",
        "c: list of object",
        "  d: text?",
        "  e: boolean?",
        "numbers: by name, number",
        "f: list?",
    ]

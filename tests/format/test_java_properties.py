r"""Java's Properties text. The cases marked so were read by java.util.Properties itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile
from lakeward.format.java_properties import dump_properties, parse_properties

GOLDEN = Path(__file__).parents[1] / "golden"

any_text = st.text(st.characters(codec=None), max_size=20)


@given(st.dictionaries(any_text, any_text, max_size=5))
def test_values_survive_being_written(values: dict[str, str]) -> None:
    """What is written is read back, whatever the text, and is plain ASCII."""
    # Two halves of a surrogate pair next to each other are one character to Java, and so to us.
    values = {_joined(key): _joined(value) for key, value in values.items()}
    data = dump_properties(values)

    assert data.isascii()
    assert parse_properties(data) == values


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes make the reader fail in a way that callers do not expect."""
    try:
        values = parse_properties(data)
    except BrokenFile:
        return
    assert parse_properties(dump_properties(values)) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a \t=\f b ", {"a": "b "}),
        ("a==b", {"a": "=b"}),
        ("a= = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# c\n! c\n  #c=d\na=#b", {"a": "#b"}),
        ("#c\\\na=b", {"a": "b"}),  # a comment does not go on
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\r\nc", {"a": "bc"}),
        ("a=1\ra=2\r\na=3\n\n", {"a": "3"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n#c\na=b", {"a": "b"}),
        ("a\\ b\\=c=d\\:\\e", {"a b=c": "d:e"}),
        ("a=\\u00e9\\u00E9é", {"a": "ééé"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\t\\n\\r\\f\\ b", {"a": "\t\n\r\f b"}),
        ("", {}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    """Separators, comments, continuations and escapes are each compared with java.util.Properties."""
    assert parse_properties(text.encode("iso-8859-1")) == values


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a", "b", "a=b"),
        ("a b", " b  c", "a\\ b=\\ b  c"),
        ("a:b", '{"type":"record"}', 'a\\:b={"type"\\:"record"}'),
        ("#", "é😀\x7f", "\\#=\\u00E9\\uD83D\\uDE00\\u007F"),
        ("t", "\t\n\r\f\\!", "t=\\t\\n\\r\\f\\\\\\!"),
    ],
)
def test_lines_are_written_as_java_writes_them(key: str, value: str, line: str) -> None:
    """The same bytes as java.util.Properties, so that no diff of a rewritten file shows more than the change."""
    assert dump_properties({key: value}).decode() == line + "\n"


@pytest.mark.parametrize("data", [b"a=\\u12", b"a=\\uzzzz", b"\\u=1", b"a=\\u"])
def test_broken_escapes_are_refused(data: bytes) -> None:
    r"""Java fails on `\u` without four digits; guessing would change a value silently."""
    with pytest.raises(BrokenFile):
        parse_properties(data)


@pytest.mark.parametrize("path", ["v6/table/.hoodie/hoodie.properties", "v9/table/.hoodie/hoodie.properties"])
def test_hudis_own_properties_are_written_as_hudi_wrote_them(path: str) -> None:
    """Reading and writing a real hoodie.properties gives the same lines but for the two comments on top."""
    data = (GOLDEN / path).read_bytes()
    values = parse_properties(data)

    assert values["hoodie.table.name"] == "golden"
    assert dump_properties(values).splitlines() == data.splitlines()[2:]

"""Avro's primitive types, against fastavro."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.format import avro_primitive as avro

KINDS: dict[str, tuple[Any, Any]] = {
    "long": (avro.spell_long, avro.read_long),
    "int": (avro.spell_int, avro.read_int),
    "bytes": (avro.spell_bytes, avro.read_bytes),
    "string": (avro.spell_text, avro.read_text),
    "boolean": (avro.spell_boolean, avro.read_boolean),
}
values = st.one_of(
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("bytes"), st.binary(max_size=200)),
    st.tuples(st.just("string"), st.text(max_size=200)),
    st.tuples(st.just("boolean"), st.booleans()),
)


def by_fastavro(kind: str, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": kind}, value)
    return out.getvalue()


@given(values)
@example(("long", -(2**63)))
@example(("long", 2**63 - 1))
@example(("long", 64))
@example(("long", -65))
def test_values_are_spelled_and_read_as_fastavro_does(kind_and_value: tuple[str, Any]):
    """Both ways, in the middle of other bytes; every cut is an end that comes too early."""
    kind, value = kind_and_value
    spell, read = KINDS[kind]
    spelled = by_fastavro(kind, value)

    assert spell(value) == spelled
    assert read(b"xx" + spelled + b"yy", 2) == (value, 2 + len(spelled))
    for length in range(len(spelled)):
        with pytest.raises(IndexError):
            read(spelled[:length], 0)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (avro.read_long, b"\xff" * 9 + b"\x7f"),
        (avro.read_long, b"\xff" * 100),
        (avro.read_int, avro.spell_long(2**31)),
        (avro.read_bytes, avro.spell_long(-1)),
        (avro.read_text, b"\x02\xff"),
        (avro.read_boolean, b"\x02"),
    ],
)
def test_what_nobody_writes_is_broken(read: Any, data: bytes):
    """Numbers too large, negative lengths, broken text."""
    with pytest.raises(ValueError):
        read(data, 0)


@pytest.mark.parametrize(
    ("spell", "value"),
    [(avro.spell_long, 2**63), (avro.spell_int, 2**31), (avro.spell_int, -(2**31) - 1), (avro.spell_text, "\ud800")],
)
def test_what_does_not_fit_is_not_spelled(spell: Any, value: Any):
    """Instead of being cut."""
    with pytest.raises(ValueError):
        spell(value)

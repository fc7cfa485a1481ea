"""Avro's primitive types, against fastavro."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.format.avro import primitive as avro

KINDS: dict[str, tuple[Any, Any]] = {
    "long": (avro.encode_long, avro.read_long),
    "int": (avro.encode_int, avro.read_int),
    "bytes": (avro.encode_bytes, avro.read_bytes),
    "string": (avro.encode_text, avro.read_text),
    "boolean": (avro.encode_boolean, avro.read_boolean),
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
def test_values_are_encoded_and_read_as_fastavro_does(kind_and_value: tuple[str, Any]):
    """Both ways, in the middle of other bytes; every cut is an end that comes too early."""
    kind, value = kind_and_value
    encode, read = KINDS[kind]
    encoded = by_fastavro(kind, value)

    assert encode(value) == encoded
    assert read(b"xx" + encoded + b"yy", 2) == (value, 2 + len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(IndexError):
            read(encoded[:length], 0)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (avro.read_long, b"\xff" * 9 + b"\x7f"),
        (avro.read_long, b"\xff" * 100),
        (avro.read_int, avro.encode_long(2**31)),
        (avro.read_bytes, avro.encode_long(-1)),
        (avro.read_text, b"\x02\xff"),
        (avro.read_boolean, b"\x02"),
    ],
)
def test_what_no_writer_writes_is_broken(read: Any, data: bytes):
    """Numbers too large, negative lengths and broken text are refused."""
    with pytest.raises(ValueError):
        read(data, 0)


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (avro.encode_long, 2**63),
        (avro.encode_int, 2**31),
        (avro.encode_int, -(2**31) - 1),
        (avro.encode_text, "\ud800"),
    ],
)
def test_what_does_not_fit_is_not_encoded(encode: Any, value: Any):
    """It is refused instead of being cut."""
    with pytest.raises(ValueError):
        encode(value)

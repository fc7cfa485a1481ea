"""Protobuf messages as numbered fields."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.protobuf import BrokenMessage, decode_message, encode_message, read_varint, write_varint

values = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=200))


@given(fields=st.lists(st.tuples(st.integers(1, 1000), values), max_size=10))
def test_fields_come_back(fields: list[tuple[int, int | bytes]]):
    """What is encoded is decoded, in order, repeated fields included."""
    assert decode_message(encode_message(fields)) == fields


def test_the_bytes_are_protobufs():
    """They are those of the examples of protobuf's own description, of fields of fixed width, and of minus one as an
    int64."""
    assert encode_message([(1, 150)]) == bytes.fromhex("089601")
    assert encode_message([(2, b"testing")]) == bytes.fromhex("120774657374696e67")
    assert write_varint(-1) == bytes.fromhex("ffffffffffffffffff01")
    assert decode_message(bytes.fromhex("0d01000000 1102000000000000000801")) == [
        (1, b"\1\0\0\0"),
        (2, b"\2" + bytes(7)),
        (1, 1),
    ]


@pytest.mark.parametrize("data", ["08", "0896", "1203aabb", "0b", "0d0000", "12ffffffffffffffffff01", "80" * 11])
def test_what_is_cut_short_is_broken(data: str):
    """A field that reaches beyond the message, or a number without an end, is reported."""
    with pytest.raises(BrokenMessage):
        decode_message(bytes.fromhex(data))


@given(data=st.binary(max_size=40))
def test_noise_is_fields_or_broken(data: bytes):
    """Any bytes end in fields or in the one error."""
    with suppress(BrokenMessage):
        decode_message(data)


def test_a_number_says_where_it_ends():
    """The place behind a number is returned with it."""
    assert read_varint(b"xx\x96\x01yy", 2) == (150, 4)
    with pytest.raises(BrokenMessage):
        read_varint(b"", 0)

"""Positions of rows as text."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.log.native_log.record_positions import decode_positions, encode_positions
from tests.native_log_judge import positions as second_reading


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([0, 5, 300], "AAAAAwAFrAI="), ([2, 2, 16384], "AAAAAwICgIAB"), ([], "AAAAAA==")],
)
def test_the_bytes_are_those_of_the_facts(numbers: list[int], text: str) -> None:
    """A count, then seven bits a byte."""
    assert encode_positions(np.array(numbers, dtype=np.int64)) == text
    assert decode_positions(text).tolist() == second_reading(text) == numbers


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), max_size=40))
def test_numbers_read_back(numbers: list[int]) -> None:
    """Any size, any order, each as often as it comes. Keeps 1 of format/log/native_log/record_positions."""
    text = encode_positions(np.array(numbers, dtype=np.int64))
    assert decode_positions(text).tolist() == second_reading(text) == numbers


def test_many_numbers_read_back() -> None:
    """More than are encoded at once."""
    numbers = np.arange(40_000, dtype=np.int64) * 3
    assert (decode_positions(encode_positions(numbers)) == numbers).all()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0", "no count"),
        (b"\xff\xff\xff\xff", "count is -1"),
        (b"\0\0\0\1", "not the 1 numbers"),
        (b"\0\0\0\1\x80", "not the 1 numbers"),
        (b"\0\0\0\1\1\1", "not the 1 numbers"),
        (b"\0\0\0\1\1\x80", "not the 1 numbers"),
        (b"\0\0\0\0\1", "not the 0 numbers"),
        (b"\x7f\xff\xff\xff\1", "not the 2147483647 numbers"),
        (b"\0\0\0\1" + b"\x80" * 9 + b"\1", "no place of a row"),
    ],
)
def test_other_bytes_are_refused(data: bytes, why: str) -> None:
    """A count is held against the bytes before anything is made. Keeps 2 of format/log/native_log/record_positions."""
    with pytest.raises(ValueError, match=why):
        decode_positions(base64.b64encode(data).decode())


@pytest.mark.parametrize("text", ["AAAA A==", "AAAAA", "ü", "AAAAAA==\n"])
def test_other_text_is_refused(text: str) -> None:
    """Java's decoder takes nothing but Base64."""
    with pytest.raises(ValueError, match="not Base64"):
        decode_positions(text)

"""Thrift's compact protocol, as much of it as Parquet's headers need."""

from __future__ import annotations

import pytest

from lakeward.format.parquet.thrift_compact import CompactReader, EndsTooEarly

# 1: 3 (i32), 2: -300 (i64), 5: {1: 7, a string, a list of two bools}, 6: true
STRUCTURE = bytes([0x15, 6, 0x16, 0xD7, 0x04, 0x3C, 0x15, 14, 0x18, 2, 65, 66, 0x19, 0x21, 1, 2, 0, 0x11, 0])


def test_integers_are_found_and_the_rest_is_passed():
    """Integers are found by field number, structures in structures; the reader is behind them."""
    reader = CompactReader(b"head" + STRUCTURE + b"tail", 4)
    assert reader.struct() == {1: 3, 2: -300, 5: {1: 7}}
    assert reader.position == 4 + len(STRUCTURE)
    assert CompactReader(STRUCTURE).struct_fields() == {1, 2, 5, 6}


@pytest.mark.parametrize("length", range(len(STRUCTURE)))
def test_a_cut_is_distinguished_from_damage(length: int):
    """Wherever it ends too early, that is what is said: more bytes may follow."""
    with pytest.raises(EndsTooEarly):
        CompactReader(STRUCTURE[:length]).struct()


def test_nesting_is_bounded():
    """A structure in a structure a thousand times is refused before the stack is exhausted."""
    with pytest.raises(ValueError, match="nested too deeply"):
        CompactReader(bytes([0x1C]) * 1000).struct()
    with pytest.raises(ValueError, match="nested too deeply"):
        CompactReader(bytes([0x1C]) * 1000).struct_fields()

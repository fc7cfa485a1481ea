"""The stretch of a file that holds an HFile."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lakeward.errors import BrokenFile
from lakeward.format.hfile.range import HFileRange

DATA = bytes(range(256)) * 1000


def test_offsets_are_relative_to_the_range():
    """Bytes are found from the range's own first byte, near its end and far from it."""
    source = HFileRange(io.BytesIO(DATA), offset=1000, length=200_000, name="x")

    for offset, length in ((0, 10), (100_000, 5000), (199_990, 10), (200_000, 0), (130_000, 10_000)):
        assert source.read(offset, length, "it") == DATA[1000 + offset : 1000 + offset + length]


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, 200_001), (199_999, 2), (200_001, 0), (5, -1), (2**70, 1)])
def test_nothing_outside_of_the_range_is_read(offset: int, length: int):
    """A length or place that the range does not hold is an error before anything is read."""
    source = HFileRange(io.BytesIO(DATA), offset=1000, length=200_000, name="x")

    with pytest.raises(BrokenFile, match=r"HFile x is broken at byte \d+\..*lies outside"):
        source.read(offset, length, "it")


def test_short_reads_are_continued():
    """An unbuffered file may return less than it was asked for."""

    class Dripping(io.BytesIO):
        def read(self, size: Any = -1) -> bytes:
            return super().read(min(size, 7))

    assert HFileRange(Dripping(DATA), offset=3, length=100, name="x").read(0, 100, "it") == DATA[3:103]


def test_a_file_shorter_than_the_range_is_broken():
    """A claim about the range is compared with the file, at little cost."""
    with pytest.raises(BrokenFile, match="ended after"):
        HFileRange(io.BytesIO(DATA), offset=0, length=2**50, name="x")

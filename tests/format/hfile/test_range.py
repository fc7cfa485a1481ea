"""The stretch of a file that holds an HFile."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.hfile.range import HFileRange

DATA = bytes(range(256)) * 1000


def test_offsets_are_relative_to_the_range():
    """Bytes are found from the range's own first byte, near its end and far from it."""
    source = HFileRange(io.BytesIO(DATA), offset=1000, length=200_000, name="x")

    for offset, length in ((0, 10), (100_000, 5000), (199_990, 10), (200_000, 0), (130_000, 10_000)):
        assert source.read(offset, length, "it") == DATA[1000 + offset : 1000 + offset + length]


def test_what_was_read_ahead_is_not_read_again():
    """Bytes of a stretch that was read ahead come out of memory; those around it, and it once another is, do not."""

    class Counting(io.BytesIO):
        reads = 0

        def read(self, size: Any = -1) -> bytes:
            self.reads += 1
            return super().read(size)

    file = Counting(DATA)
    source = HFileRange(file, offset=1000, length=200_000, name="x")
    source.read_ahead(500, 1000, "it")
    file.reads = 0

    for offset, length in ((500, 10), (600, 900), (1500, 0)):
        assert source.read(offset, length, "it") == DATA[1000 + offset : 1000 + offset + length]
    assert file.reads == 0
    for offset, length in ((499, 10), (600, 901)):
        assert source.read(offset, length, "it") == DATA[1000 + offset : 1000 + offset + length]
    assert file.reads == 2
    source.read_ahead(2000, 10, "it")
    assert source.read(500, 10, "it") == DATA[1500:1510]
    with pytest.raises(BrokenFile, match="lies outside"):
        source.read_ahead(199_999, 2, "it")


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

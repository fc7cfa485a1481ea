"""Hashes of the record index, against Java's rule written down slowly."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.index.record.bucket_hash import HASHES, bucket_numbers, default_bucket_count

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("aZ0\x7f\x80é\U0001f600", max_size=40)
KEYS = st.lists(TEXTS | st.text("az\x7f", max_size=40), max_size=40)


def java_hash(key: str) -> int:
    units = key.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(keys=KEYS, count=st.integers(1, 2**31 - 1))
def test_java_string(keys: list[str], count: int):
    """A key's bucket is Java's hash over UTF-16 units, surrogate pairs included, floor-mod the count."""
    found = bucket_numbers(pa.array(keys, pa.string()), hash_name="java-string", count=count)

    assert found.tolist() == [java_hash(key) % count for key in keys]


def test_java_string_is_javas():
    """The numbers are those that a JVM gives: 2112 for `Aa` and `BB`, -2147483648 for `polygenelubricants`."""
    keys = pa.array(["Aa", "BB", "polygenelubricants", "", "\U0001f600", "é"])

    found = bucket_numbers(keys, hash_name="java-string", count=2**31 - 1).tolist()

    assert found == [2112, 2112, -(2**31) % (2**31 - 1), 0, 1772899, 233]


def test_other_hash_spreads_otherwise():
    """The second hash is no function of the first: keys of one bucket of the one are in many of the other, and it does
    not change from release to release."""
    keys = pa.array([f"key-{number}" for number in range(20_000)])
    first = bucket_numbers(keys, hash_name="java-string", count=16)

    second = bucket_numbers(keys, hash_name="lakeward-64", count=16)

    assert set(second[first == 3].tolist()) == set(range(16))
    assert second[:8].tolist() == [7, 1, 11, 5, 7, 14, 1, 2]


def test_unknown_hash_is_refused():
    """An index whose hash this release does not know is refused with the names that it knows."""
    with pytest.raises(Unsupported, match="'fnv'"):
        bucket_numbers(pa.array(["a"]), hash_name="fnv", count=2)
    assert set(HASHES) == {"java-string", "lakeward-64"}


def test_slices_of_arrays():
    """A part of an array has the buckets that its keys have anywhere."""
    keys = pa.array([f"k{number}" for number in range(50)])
    for name in HASHES:
        whole = bucket_numbers(keys, hash_name=name, count=7)
        assert bucket_numbers(keys.slice(13, 9), hash_name=name, count=7).tolist() == whole[13:22].tolist()


@pytest.mark.parametrize(("rows", "count"), [(0, 1), (700_000, 1), (1_000_000, 2), (10_000_000, 13)])
def test_default_count(rows: int, count: int):
    """A bucket has a million of the rows that are expected and 30 % more."""
    assert default_bucket_count(rows) == count

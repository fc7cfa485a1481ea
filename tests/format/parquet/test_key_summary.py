"""Filter and range of the keys of a file, and the seal on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE
from lakeward.format.parquet.key_summary import (
    BLOOM_KEY,
    BLOOM_TYPE_KEY,
    MAX_KEY,
    MIN_KEY,
    SEAL_KEY,
    Extent,
    KeySummary,
    key_range,
    read_sealed_keys,
    seal,
)

KEYS = pa.array(["b", "c", "d", "é"])
EXTENTS = [Extent(4, 40, 2, b"b", b"c"), Extent(40, 60, 2, b"d", "é".encode())]
CHECKSUMS = [7, 0xFFFFFFFF]


def sealed(bloom_type: str = TYPE_CODE) -> dict[str, str]:
    summary = KeySummary(keys_expected=None, bloom_type=bloom_type)
    summary.add(KEYS)
    entries = summary.entries()
    return entries | {SEAL_KEY: seal(entries, EXTENTS, CHECKSUMS)}


def test_key_range_is_javas() -> None:
    """Java compares UTF-16 units: a key beyond U+FFFF lies below one at U+FFFD, though its bytes are greater."""
    assert key_range(pa.array(["b", "a", "é"])) == ("a", "é")
    assert key_range(pa.array(["😀", "\ufffd"])) == ("😀", "\ufffd")
    assert key_range(pa.array(["\ufffd", "", "z", "😀", "\ufffd"]).slice(2, 2)) == ("z", "😀")


@pytest.mark.parametrize("bloom_type", [TYPE_CODE, SIMPLE_TYPE_CODE])
def test_what_is_sealed_is_found(bloom_type: str) -> None:
    """The filter with its keys, the range, and a checksum for each row group."""
    entries = sealed(bloom_type)
    found = read_sealed_keys(entries | {"another": "entry"}, EXTENTS)
    assert found is not None
    assert (found.min_key, found.max_key, list(found.checksums)) == ("b", "é", CHECKSUMS)
    assert found.bloom.has_all(KEYS)
    assert not found.bloom.has_all(pa.array(["b", "not there"]))


@pytest.mark.parametrize(
    "entries",
    [
        {BLOOM_KEY: BloomFilter(4).to_base64()},
        {BLOOM_TYPE_KEY: SIMPLE_TYPE_CODE},
        {MIN_KEY: "a"},
        {MAX_KEY: "z"},
        {SEAL_KEY: ""},
        {SEAL_KEY: "2" + sealed()[SEAL_KEY][1:]},
        {SEAL_KEY: sealed()[SEAL_KEY][:-1] + "e"},
        {SEAL_KEY: sealed()[SEAL_KEY] + " 00000000"},
        {SEAL_KEY: sealed()[SEAL_KEY] + " x"},
    ],
)
def test_no_seal_holds_on_other_entries(entries: dict[str, str]) -> None:
    """Another filter, type, range or checksum. Keeps 3 of format/parquet/key_summary."""
    assert read_sealed_keys(sealed() | entries, EXTENTS) is None


@pytest.mark.parametrize(
    "change", [{"start": 5}, {"end": 41}, {"rows": 3}, {"min_key": b"a"}, {"max_key": b"cc"}, {"start": -1}]
)
def test_no_seal_holds_on_other_row_groups(change: dict[str, Any]) -> None:
    """Another place, size, number of rows or range; none, one more. Keeps 3 of format/parquet/key_summary."""
    assert read_sealed_keys(sealed(), [replace(EXTENTS[0], **change), EXTENTS[1]]) is None
    assert read_sealed_keys(sealed(), EXTENTS[::-1]) is None
    assert read_sealed_keys(sealed(), EXTENTS[:1]) is None
    assert read_sealed_keys(sealed(), [*EXTENTS, EXTENTS[0]]) is None


def test_what_is_taken_over_is_covered() -> None:
    """The filter has the old keys and the new ones, and counts the file's. Keeps 1 of format/parquet/key_summary."""
    before = read_sealed_keys(sealed(), EXTENTS)
    assert before is not None
    summary = KeySummary(keys_expected=9, bloom_type=TYPE_CODE)
    summary.begin_with(before)
    summary.take_over(b"b", b"c", rows=2)
    summary.add(pa.array(["x", "y", "z"]))
    entries = summary.entries()
    assert (entries[MIN_KEY], entries[MAX_KEY]) == ("b", "z")
    bloom = BloomFilter.from_base64(entries[BLOOM_KEY].encode(), TYPE_CODE)
    assert bloom.has_all(pa.array(["b", "c", "x", "y", "z"]))
    whole = BloomFilter(4)
    whole.add(pa.concat_arrays([KEYS, pa.array(["x"])]))
    assert len(entries[BLOOM_KEY]) == len(whole.to_base64())
    assert entries[BLOOM_KEY][:40] == whole.to_base64()[:40]  # of five keys, where four were expected


@pytest.mark.parametrize(
    ("smallest", "largest", "expected"),
    [
        ("m", "p", ("m", "p")),
        ("é", "ключ", ("é", "ключ")),
        # Between these in bytes is "m😀", and with a greatest key of "m\ufffd" Java's would be another.
        ("m", "m\ufffd", ("a", "\ufffd")),
        ("\ue000", "😀", ("a", "\ufffd")),
    ],
)
def test_the_range_of_what_is_taken_over(smallest: str, largest: str, expected: tuple[str, str]) -> None:
    """That of the file before, where bytes and Java may differ in order. Keeps 2 of format/parquet/key_summary."""
    keys = pa.array(["a", "\ufffd"])
    before = KeySummary(keys_expected=2, bloom_type=TYPE_CODE)
    before.add(keys)
    entries = before.entries()
    found = read_sealed_keys(entries | {SEAL_KEY: seal(entries, EXTENTS, CHECKSUMS)}, EXTENTS)
    assert found is not None
    summary = KeySummary(keys_expected=2, bloom_type=TYPE_CODE)
    summary.begin_with(found)
    summary.take_over(smallest.encode(), largest.encode(), rows=2)
    assert (summary.min_key, summary.max_key) == expected

"""Keys of the metadata table, and the file groups that they live in."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeward.format.metadata.key import (
    ALL_PARTITIONS,
    bloom_filter_key,
    column_prefix,
    column_stats_key,
    file_group_index,
    file_group_indexes,
    files_key,
    hash_id,
    hashed_secondary_value,
    partition_stats_key,
)

FILE = "02cc0074-4fa0-4040-a49b-a811a0b664b5-0_0-49-109_20261121114053599.parquet"
COLUMN_PIECE, PARTITION_PIECE = "F5SYxeUa1U8=", "t7lWL8M5YXw="


def test_keys_are_made_of_pieces():
    """They are column, then partition, then file; a prefix is the front of each key."""
    key = column_stats_key("name", "part=0", FILE)

    assert key[:12] == COLUMN_PIECE and key[12:24] == PARTITION_PIECE and len(key) == 48
    assert partition_stats_key("name", "part=0") == key[:24] == column_prefix("name", "part=0")
    assert bloom_filter_key("part=0", FILE) == key[12:]
    assert column_prefix("name") == key[:12]


def test_hashes_are_hudis():
    """Keeps 3 of format/metadata/key: the expected hashes were found in the keys of a metadata table that Hudi wrote;
    any text has eight bytes, those of its UTF-8."""
    assert base64.b64encode(hash_id("part=0")).decode() == PARTITION_PIECE
    assert base64.b64encode(hash_id("name")).decode() == COLUMN_PIECE
    assert {len(hash_id(text)) for text in ("", "ü", "鍵😀")} == {8}
    assert hash_id("ü") != hash_id("u")


def test_the_empty_partition_path_is_a_dot():
    """It is one in the names of `files`, and before hashing."""
    assert files_key("") == "." and files_key("a/b") == "a/b"
    assert column_stats_key("c", "", FILE) == column_stats_key("c", ".", FILE)
    assert partition_stats_key("c", "") == partition_stats_key("c", ".") != column_prefix("c")
    assert bloom_filter_key("", FILE) == bloom_filter_key(".", FILE)
    assert ALL_PARTITIONS == "__all_partitions__"


def java_hash(text: str) -> int:
    """`String.hashCode`, step by step."""
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


def java_index(text: str, count: int) -> int:
    """abs(abs(h) % n) with Java's abs, which leaves the smallest int as it is, and its remainder, which keeps signs."""
    value = java_hash(text)
    positive = value if value == -(2**31) else abs(value)
    remainder = positive % count if positive >= 0 else -(-positive % count)
    return abs(remainder)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=12), max_size=8), st.integers(1, 10_000))
@example(["polygenelubricants"], 10)  # whose hash is the smallest int
@example(["", "😀", "ü", "a\0"], 7)
def test_the_file_group_is_javas(keys: list[str], count: int):
    """It is, whatever the key, one by one and all at once."""
    expected = [java_index(key, count) for key in keys]

    assert file_group_indexes(keys, count).tolist() == expected
    assert [file_group_index(key, count) for key in keys] == expected


def test_the_smallest_hash():
    """The one whose absolute value Java cannot say."""
    assert java_hash("polygenelubricants") == -(2**31)
    assert file_group_index("polygenelubricants", 10) == 8


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("a$k", "a$"),
        ("$k", "$"),
        ("\0$k", "\0$"),
        (r"a\$b$k$", r"a\$b$"),
        (r"a\\$k", r"a\\$"),
        (r"a\\\$b$k", r"a\\\$b$"),
        ("a$k$l", "a$"),
    ],
)
def test_a_secondary_key_is_hashed_by_its_value(key: str, hashed: str):
    """Up to the first separator that is not escaped, and with it."""
    assert hashed_secondary_value(key) == hashed


def test_a_hundred_thousand_keys_take_no_time():
    """A commit maps that many while it holds the lock. (Measured: 20 ms; here only: not by orders more.)"""
    keys = [f"{n:048d}" for n in range(100_000)]
    file_group_indexes(keys[:2], 4)

    before = time.perf_counter()
    assert len(set(file_group_indexes(keys, 4).tolist())) == 4
    assert time.perf_counter() - before < 1

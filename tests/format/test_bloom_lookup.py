"""Many keys asked of a filter at once, against the slow hashing of `test_bloom_filter`."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pyarrow as pa
import pytest

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE, BloomRows
from tests.format.test_bloom_filter import Reader, filter_of, keys_of


def dynamic_of(rows: list[bytes], keys_a_row: int) -> bytes:
    """A dynamic filter of several rows, as Hudi puts it together."""
    return rows[0][:13] + struct.pack(">iii", keys_a_row, 1, len(rows)) + b"".join(rows)


def rows_of(keys: list[str], count: int) -> list[bytes]:
    """Simple filters of equal size, each of which has a part of the keys."""
    found = []
    for number in range(count):
        row = BloomFilter(len(keys) // count + 1, SIMPLE_TYPE_CODE)
        row.add(pa.array(keys[number::count], pa.string()))
        found.append(row.to_bytes())
    return found


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_a_key_is_found_in_whichever_row_it_is(count: int):
    """Keys of all rows are found, and of two thousand others none: Keeps 1 of format/bloom_lookup."""
    keys = keys_of(2000)
    rows = BloomRows.of_bytes(dynamic_of(rows_of(keys, count), 2000 // count + 1), TYPE_CODE)

    assert rows.count == count
    assert rows.lookup(pa.array(keys)).all()
    assert not rows.lookup(pa.array([f"absent-{i}" for i in range(2000)])).any()


@pytest.mark.parametrize("keys", [[], ["a"], ["", "ü", "a" * 100], keys_of(100)])
@pytest.mark.parametrize("kind", [TYPE_CODE, SIMPLE_TYPE_CODE])
def test_answers_are_those_of_a_slow_reader(keys: list[str], kind: str):
    """Key by key, for a filter so small that it errs: of arrays that begin anywhere, and of keys of any length."""
    bloom = BloomFilter(50, bytes_max=20)
    bloom.add(pa.array(keys, pa.string()))
    asked = [*keys, *(f"absent-{i}"[: i % 12] for i in range(500))]
    rows = BloomRows.of_bytes(bloom.to_bytes() if kind == TYPE_CODE else bloom.to_bytes()[25:], kind)
    reader = Reader(bloom.to_bytes())

    found = rows.lookup(pa.array(["before", *asked, "behind"]).slice(1, len(asked)))

    assert found.dtype == np.bool_
    assert found.tolist() == [reader.might_contain(key) for key in asked]


def test_bits_of_a_key_that_lie_in_two_rows_are_no_key():
    """A key is there where one row has all of its bits."""
    whole = filter_of(["the key"])[25:]
    first, second = bytearray(whole), bytearray(whole)
    bits = [at for at in range(13 * 8, len(whole) * 8) if whole[at // 8] >> at % 8 & 1]
    first[bits[0] // 8] &= ~(1 << bits[0] % 8)
    second[bits[1] // 8] &= ~(1 << bits[1] % 8)
    rows = BloomRows.of_bytes(dynamic_of([bytes(first), bytes(second)], 1), TYPE_CODE)

    assert not rows.lookup(pa.array(["the key"])).any()


def test_no_keys_are_asked():
    """Nothing is found among none."""
    assert BloomRows.of_bytes(filter_of(["a"]), TYPE_CODE).lookup(pa.array([], pa.string())).tolist() == []


def test_what_is_no_filter_is_an_error():
    """Cut short, too long, of another hash or type, without rows, or of rows that differ: Keeps 2 of
    format/bloom_lookup."""
    good = dynamic_of(rows_of(keys_of(100), 3), 40)
    other = BloomFilter(60, SIMPLE_TYPE_CODE).to_bytes()
    bad = [b"", good[:20], good[:-1], good + b"x", good[:21] + b"\0\0\0\0" + good[25:], good[:8] + b"\0" + good[9:]]
    bad += [good[:25] + other + good[25 + len(other) :], good[:21] + b"\0\0\0\2" + good[25:]]
    for data in bad:
        with pytest.raises(ValueError, match="bloom filter"):
            BloomRows.of_bytes(data, TYPE_CODE)
    with pytest.raises(ValueError, match="type"):
        BloomRows.of_bytes(good, "CUCKOO")
    with pytest.raises(ValueError):
        BloomRows.of_base64(b"no base64!", TYPE_CODE)
    assert BloomRows.of_base64(base64.b64encode(good), TYPE_CODE).count == 3

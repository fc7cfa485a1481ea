"""The bloom filter's bytes, tested by a slow reader that follows the format's description."""

from __future__ import annotations

import base64
import struct

import pyarrow as pa
import pytest

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE
from lakeward.format.bloom_size import NOTABLE_RATE, ROW_BYTES_MAX, error_rate, size_for


def murmur2(key: bytes, seed: int) -> int:
    """Murmur2 like Hudi's, with Java's signed bytes and 32-bit integers."""

    def signed(byte: int) -> int:
        return byte - 256 if byte > 127 else byte

    factor, low = 0x5BD1E995, 0xFFFFFFFF
    value = (seed ^ len(key)) & low
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & low
        word = (word ^ word >> 24) * factor & low
        value = value * factor & low ^ word
    tail = key[whole:]
    for index, byte in enumerate(reversed(tail)):  # the last byte counts lowest
        value = (value ^ signed(byte) << 8 * index) & low
    if tail:
        value = value * factor & low
    value = (value ^ value >> 13) * factor & low
    return value ^ value >> 15


class Reader:
    """Membership from the bytes alone."""

    def __init__(self, data: bytes) -> None:
        head = struct.unpack_from(">iibi", data)
        self.keys_per_row, self.keys, rows = struct.unpack_from(">iii", data, 13)
        assert rows == 1
        assert struct.unpack_from(">iibi", data, 25) == head
        version, self.hashes, murmur, self.bits = head
        assert (version, murmur) == (-1, 1)
        self.row = data[38:]
        assert len(self.row) == (self.bits + 7) // 8

    def might_contain(self, key: str) -> bool:
        value = 0
        for _ in range(self.hashes):
            value = murmur2(key.encode(), value)
            signed = value - 2**32 if value >= 2**31 else value
            index = abs(signed) % self.bits  # |h mod bits| in Java: its remainder has the sign of h
            if not self.row[index // 8] >> index % 8 & 1:
                return False
        return True


def slow_row(keys: list[str], like: Reader) -> bytes:
    row = bytearray(len(like.row))
    for key in keys:
        value = 0
        for _ in range(like.hashes):
            value = murmur2(key.encode(), value)
            index = abs(value - 2**32 if value >= 2**31 else value) % like.bits
            row[index // 8] |= 1 << index % 8
    return bytes(row)


def keys_of(count: int) -> list[str]:
    """Keys of all tail lengths, some beyond ASCII."""
    return [("k", "ключ", "ü", "鍵", "😀x")[i % 5] + str(i) for i in range(count)]


def filter_of(keys: list[str], expected: int | None = None) -> bytes:
    bloom = BloomFilter(len(keys) if expected is None else expected)
    bloom.add(pa.array(keys, pa.string()))
    return bloom.to_bytes()


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_every_key_is_found_and_others_are_not(count: int):
    """All keys are contained; of two thousand others not one is, at an error rate of 1e-9."""
    keys = keys_of(count)
    reader = Reader(filter_of(keys))

    assert all(reader.might_contain(key) for key in keys)
    assert not any(reader.might_contain(f"absent-{i}") for i in range(2_000))
    assert (reader.keys_per_row, reader.keys) == (count, count)


def test_bits_are_those_of_the_keys_and_no_others():
    """However many keys of one length are hashed side by side, each sets its own bits: keys of 0 to 40 bytes."""
    keys = [f"{i:x}".ljust(length, "ü")[:length] for length in range(21) for i in range(1 + length * 7 % 17)]
    reader = Reader(filter_of(keys))

    assert reader.row == slow_row(keys, reader)


def test_bytes_of_a_filter_made_by_hudi():
    """The filter of k1 to k6 in a base file that Hudi 1.2.0 wrote has 192 bits and 7 hashes."""
    row = base64.b64decode("/////wAAAAcBAAAAwFCIAATUICQRAgAGJAoIAIhsCFADhCpASA==")
    dynamic = row[:13] + struct.pack(">iii", 6, 6, 1) + row
    reader = Reader(dynamic)

    assert [key for key in (f"k{i}" for i in range(100)) if reader.might_contain(key)] == [f"k{i}" for i in range(1, 7)]


def test_a_simple_filter_is_the_row_alone():
    """Head and bits as Hudi writes them: what the other kind has after its counts."""
    keys = keys_of(1000)
    simple = BloomFilter(1000, SIMPLE_TYPE_CODE)
    simple.add(pa.array(keys))

    assert simple.to_bytes() == filter_of(keys)[25:]


def test_size_follows_the_key_count():
    """1000 keys at 1e-9 take 43,133 bits and 30 hashes, as Hudi computes them."""
    reader = Reader(filter_of(keys_of(1000)))

    assert (reader.bits, reader.hashes) == (43_133, 30)


def test_large_filters_stay_small_and_useful():
    """Beyond its size limit the row has fewer hashes, says how often it errs, and still sorts most absent keys out."""
    keys = keys_of(3_000)
    bloom = BloomFilter(3_000, bytes_max=2_048)
    bloom.add(pa.array(keys))
    reader = Reader(bloom.to_bytes())

    assert len(reader.row) == 2_048
    assert all(reader.might_contain(key) for key in keys)
    wrong = sum(reader.might_contain(f"absent-{i}") for i in range(2000))
    assert bloom.error_rate / 2 < wrong / 2000 < bloom.error_rate * 2


def test_two_million_keys_are_found_as_surely_as_few():
    """The rate of 1e-9 holds up to 3.1 million keys where nothing else is said; a megabyte gives one in eight."""
    bits, hashes = size_for(2_000_000, ROW_BYTES_MAX)
    few_bits, few_hashes = size_for(2_000_000, 1024**2)

    assert error_rate(2_000_000, bits, hashes) < 1.1e-9
    assert 1 / 9 < error_rate(2_000_000, few_bits, few_hashes) < 1 / 7
    assert error_rate(3_100_000, *size_for(3_100_000, ROW_BYTES_MAX)) < NOTABLE_RATE
    assert error_rate(4_000_000, *size_for(4_000_000, ROW_BYTES_MAX)) > NOTABLE_RATE


def test_more_keys_than_expected_are_found_too():
    """An estimate that was too low costs sharpness, never a key."""
    keys = keys_of(100)
    reader = Reader(filter_of(keys, expected=10))

    assert all(reader.might_contain(key) for key in keys)


def test_order_and_slices_do_not_matter():
    """Equal keys give equal bytes, however they are cut into arrays and wherever those start."""
    keys = keys_of(1000)
    split = BloomFilter(1000)
    array = pa.array(["before", *reversed(keys), "behind"])
    split.add(array.slice(1, 600))
    split.add(array.slice(601, 400))
    split.add(array.slice(5, 0))

    assert split.to_bytes() == filter_of(keys)


def test_no_keys():
    """A file without rows has a filter too, in which nothing is found."""
    reader = Reader(BloomFilter(0).to_bytes())

    assert not reader.might_contain("a")


@pytest.mark.parametrize("type_code", [TYPE_CODE, SIMPLE_TYPE_CODE])
def test_a_filter_that_is_read_back_goes_on(type_code: str):
    """It has the keys that it had and those that come; nothing else changes. Keeps 1 of format/bloom_filter."""
    whole, first = BloomFilter(1000, type_code), BloomFilter(1000, type_code)
    whole.add(pa.array(keys_of(900)))
    first.add(pa.array(keys_of(900)[:500]))
    back = BloomFilter.from_base64(first.to_base64().encode(), type_code)
    back.count(500)
    back.add(pa.array(keys_of(900)[500:]))

    assert back.to_base64() == whole.to_base64()
    assert back.has_all(pa.array(keys_of(900)))
    assert not back.has_all(pa.array(["k0", "absent"]))
    assert back.to_base64() == whole.to_base64()


def test_filters_of_others_are_not_read_back():
    """Filters of several rows, of another hash, too large, cut short, or of another type."""
    data = filter_of(keys_of(10))
    changed = [data[:30], data[:-1], data + b"x", data[:21] + b"\0\0\0\2" + data[25:]]
    for at, value in ((3, b"\0"), (8, b"\0"), (9, b"\x7f"), (9, b"\xff"), (7, b"\0")):
        changed.append(b"".join((data[:at], value, data[at + 1 : 25 + at], value, data[26 + at :])))
    for other in changed:
        with pytest.raises(ValueError, match="bloom filter"):
            BloomFilter.from_base64(base64.b64encode(other), TYPE_CODE)
    with pytest.raises(ValueError, match="type"):
        BloomFilter.from_base64(base64.b64encode(data), "CUCKOO")


@pytest.mark.parametrize(
    ("expected", "held", "keys", "more", "serves"),
    [
        (1000, 1000, 1000, 0, True),
        (1000, 1000, 1000, 100, True),
        (1000, 1000, 1000, 200, False),  # it would err ten times as often as it should
        (1300, 1000, 1000, 200, True),  # it has room
        (1300, 1000, 700, 0, False),  # a third of its keys are gone
        (1300, 1000, 850, 0, True),
        (5000, 4800, 4800, 0, True),  # bounded, as are those below
        (5000, 4800, 4500, 0, True),
        (5000, 4800, 4000, 0, False),
        (2000, 3900, 3900, 0, False),  # one for so many would have fewer hashes
        (50_000, 50_000, 41_000, 0, True),  # no filter of this size is sharp
        (50_000, 50_000, 39_000, 0, False),
        (5000, 0, 1, 0, True),
    ],
)
def test_when_a_filter_still_serves(expected: int, held: int, keys: int, more: int, serves: bool):
    """Few keys in it are gone or to come, and it errs hardly more than a new one. Keeps 3 of format/bloom_filter."""
    bloom = BloomFilter(expected, bytes_max=8_192)
    bloom.add(pa.array(keys_of(held), pa.string()))

    assert bloom.still_serves(keys, more=more, bytes_max=8_192) is serves


def test_a_filter_that_is_larger_than_asked_does_not_serve():
    """A new filter is made where filters are to be smaller from now on."""
    bloom = BloomFilter(1000)
    bloom.add(pa.array(keys_of(1000)))

    assert bloom.still_serves(1000, more=0)
    assert not bloom.still_serves(1000, more=0, bytes_max=4_096)

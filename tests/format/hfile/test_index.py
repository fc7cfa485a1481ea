"""Index blocks: offsets, sizes and keys."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile
from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.index import IndexEntry, decode_inner_index, decode_root_index, encode_root_index
from lakeward.format.hfile.range import HFileRange
from tests.format.hfile.hfile_files import FAKE_SUFFIX, SUFFIX, hadoop_vint, protobuf_varint

SOURCE = HFileRange(io.BytesIO(b""), offset=0, length=0, name="x")


def decode(payload: bytes, count: int, *, of_data: bool = True, above_others: bool = False) -> list[IndexEntry]:
    block = HFileBlock(offset=0, size=0, payload=payload)
    return decode_root_index(SOURCE, block, count, of_data=of_data, above_others=above_others)


@given(
    keys=st.lists(st.one_of(st.binary(max_size=10), st.integers(100, 32_767).map(lambda n: b"k" * n)), max_size=8),
    of_data=st.booleans(),
)
def test_a_root_index_comes_back(keys: list[bytes], of_data: bool):
    """Every offset, size and key does, whatever the key's length."""
    entries = [IndexEntry(n * 100 * 2**30, 2**31 - 1, key) for n, key in enumerate(keys)]

    assert decode(encode_root_index(entries, of_data=of_data), len(entries), of_data=of_data) == entries


@pytest.mark.parametrize("length", [0, 1, 114, 115, 116, 125, 126, 127, 254, 255, 1000, 16_371, 16_383, 32_767])
@pytest.mark.parametrize("suffix", [b"", SUFFIX, FAKE_SUFFIX])
@pytest.mark.parametrize("encode", [hadoop_vint, protobuf_varint])
@pytest.mark.parametrize("first_byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_every_encoding_of_a_key_is_read(length: int, suffix: bytes, encode, first_byte: int):
    """With the ten bytes and without, the length as Hadoop encodes it or as Hudi 1.1 did."""
    key = bytes([first_byte]) * length
    encoded = struct.pack(">H", length) + key + suffix
    payload = struct.pack(">qi", 7, 50) + encode(len(encoded)) + encoded

    assert decode(payload, 1) == [IndexEntry(7, 50, key)]
    assert decode(payload + bytes(16), 1, above_others=True) == [IndexEntry(7, 50, key)]


def test_a_root_index_that_does_not_add_up_is_broken():
    """Too few bytes, too many, or blocks that do not follow each other."""
    entries = [IndexEntry(0, 50, b"a"), IndexEntry(50, 50, b"b")]
    payload = encode_root_index(entries, of_data=True)
    for length in range(len(payload)):
        with pytest.raises(BrokenFile):
            decode(payload[:length], 2)
    for bad, count in ((payload, 1), (payload, 3), (payload + b"\0", 2), (payload + bytes(16), 2)):
        with pytest.raises(BrokenFile):
            decode(bad, count)
    with pytest.raises(BrokenFile, match="points back"):
        decode(encode_root_index(reversed(entries), of_data=True), 2)
    with pytest.raises(BrokenFile, match="points back"):
        decode(encode_root_index([IndexEntry(-1, 50, b"a")], of_data=True), 1)


def test_an_inner_index_that_does_not_add_up_is_broken():
    """Offsets inside of the block are checked before they are used."""
    entry = struct.pack(">qi", 7, 50) + b"\0\1a" + SUFFIX
    good = struct.pack(">iii", 1, 0, len(entry)) + entry
    assert decode_inner_index(SOURCE, HFileBlock(0, 0, good)) == [IndexEntry(7, 50, b"a")]

    for head in (
        (-1, 0, 25),
        (2, 0, 25),
        (0, 0, 25),
        (1, 0, 26),
        (1, 0, -1),
        (1, 14, 25),
        (1, 25, 0),
        (2**31 - 1, 0, 0),
    ):
        with pytest.raises(BrokenFile):
            decode_inner_index(SOURCE, HFileBlock(0, 0, struct.pack(">iii", *head) + entry))
    for length in range(len(good)):
        with pytest.raises(BrokenFile):
            decode_inner_index(SOURCE, HFileBlock(0, 0, good[:length]))

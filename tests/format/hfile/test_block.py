"""Blocks of HFiles, from bytes laid out by hand."""

from __future__ import annotations

import gzip
import io
import struct

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.hfile.block import HFileBlockType, HFileCodec, encode_block, read_block
from lakeward.format.hfile.checksum import ChecksumType
from lakeward.format.hfile.range import HFileRange
from tests.format.hfile.hfile_files import Form, block

GZIP, NONE, ZSTD = HFileCodec.GZIP, HFileCodec.NONE, HFileCodec.ZSTD
META = HFileBlockType.META


def read(data: bytes, codec: HFileCodec = GZIP, size: int | None = None) -> bytes:
    return read_block(
        HFileRange(io.BytesIO(data), offset=0, length=len(data), name="x"), 0, META, codec, size=size
    ).payload


@pytest.mark.parametrize("payload", [b"", b"x", b"payload" * 100_000])
@pytest.mark.parametrize("codec", [GZIP, NONE, ZSTD])
def test_a_block_comes_back(payload: bytes, codec: HFileCodec):
    """A block of Lakeward and one with checksums give back what went in, with the index's word for its size and
    without.
    """
    for data in (
        encode_block(META, payload, codec),
        encode_block(META, payload, codec, checksum=ChecksumType.CRC32),
        *(block(META.value, payload, Form(codec=codec, checksum=kind, bytes_per_checksum=1000)) for kind in (0, 1, 2)),
    ):
        assert read(data + b"next", codec) == payload
        assert read(data + b"next", codec, size=len(data)) == payload


def header(data: bytes, **changes: int) -> bytes:
    names = ("on_disk", "uncompressed", "previous", "checksum", "bytes_each", "with_header")
    values = dict(zip(names, struct.unpack_from(">iiqBii", data, 8), strict=True)) | changes
    return data[:8] + struct.pack(">iiqBii", *values.values()) + data[33:]


@pytest.mark.parametrize("codec", [GZIP, NONE, ZSTD])
@pytest.mark.parametrize(
    "changes",
    [
        {"on_disk": -1},
        {"on_disk": 2**31 - 1},
        {"on_disk": 0},
        {"uncompressed": -1},
        {"uncompressed": 0},
        {"uncompressed": 6},
        {"uncompressed": 8},
        {"uncompressed": 2**31 - 1},
        {"with_header": 0},
        {"with_header": -1},
        {"with_header": 32},
        {"with_header": 33},
        {"with_header": 2**31 - 1},
        {"checksum": 3},
        {"checksum": 1, "bytes_each": 0},
        {"checksum": 1, "bytes_each": -1},
        {"checksum": 2},
    ],
)
def test_lengths_that_contradict_each_other_are_broken(codec: HFileCodec, changes: dict[str, int]):
    """A header is believed only where all of it fits together and into the range."""
    data = header(encode_block(META, b"payload", codec), **changes)

    with pytest.raises(BrokenFile, match="HFile x is broken at byte"):
        read(data, codec)


def test_a_claim_of_more_than_deflate_can_give_is_broken():
    """Few bytes that claim gigabytes are refused before any are allocated, and so is more than was claimed."""
    bomb = block(META.value, bytes(10_000_000), Form())

    with pytest.raises(BrokenFile, match="cannot hold"):
        read(header(bomb, uncompressed=2**31 - 1))
    with pytest.raises(BrokenFile, match="does not end where it should"):
        read(header(bomb, uncompressed=1000))


def test_what_is_no_gzip_is_broken():
    """A payload that is damaged, cut short or none at all is reported with its place."""
    stored = gzip.compress(b"payload", mtime=0)
    for bad in (b"", b"\0" * 30, stored[:-1], stored[:-4] + bytes(4)):
        data = header(block(META.value, bad, Form(codec=NONE)), uncompressed=7)
        with pytest.raises(BrokenFile, match="at byte 0"):
            read(data)


def test_a_checksum_that_is_there_is_checked():
    """A flipped bit anywhere in a block that is not compressed shows, its header's unused fields included."""
    for kind in (1, 2):
        data = block(META.value, b"payload" * 10, Form(codec=NONE, checksum=kind, bytes_per_checksum=40))
        for place in range(len(data)):
            flipped = bytearray(data)
            flipped[place] ^= 0x10
            with pytest.raises(BrokenFile):
                read(bytes(flipped), NONE)


def test_another_kind_of_block_is_broken():
    """The magic must be that of the block that is looked for."""
    with pytest.raises(BrokenFile, match=r"DATABLK.*METABLKc belongs"):
        read(encode_block(HFileBlockType.DATA, b"", NONE), NONE)
    with pytest.raises(BrokenFile, match="by the index"):
        read(encode_block(META, b"abc", NONE) + b"next", NONE, size=41)
    with pytest.raises(BrokenFile, match="3 bytes"):
        read(encode_block(META, b"abc", NONE), NONE, size=3)


def test_checksum_of_lakeward_says_every_bit():
    """A block that was written with a checksum is refused with any bit changed but those that say nothing: the way to
    the block before, and whether there is a checksum at all."""
    data = encode_block(META, b"payload" * 5, ZSTD, checksum=ChecksumType.CRC32)
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            try:
                assert read(bytes(changed), ZSTD, len(data)) == b"payload" * 5
            except BrokenFile:
                continue
            assert place == 24, place

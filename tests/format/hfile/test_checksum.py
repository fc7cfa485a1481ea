"""Checksums of blocks."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.hfile.checksum import ChecksumType, checksums, crc32c
from tests.format.hfile.hfile_files import slow_crc32c


def test_the_published_check_values():
    """CRC32C of `123456789` and of zeros, as the standards give them."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0


@given(data=st.binary(max_size=300), bytes_each=st.integers(1, 100))
def test_each_stretch_has_one(data: bytes, bytes_each: int):
    """One checksum for each stretch and one for the rest, equal to the bit-by-bit definition."""
    parts = [data[at : at + bytes_each] for at in range(0, len(data), bytes_each)]

    assert checksums(data, bytes_each=bytes_each, kind=ChecksumType.CRC32C) == b"".join(
        slow_crc32c(part).to_bytes(4, "big") for part in parts
    )
    assert checksums(data, bytes_each=bytes_each, kind=ChecksumType.CRC32) == b"".join(
        zlib.crc32(part).to_bytes(4, "big") for part in parts
    )

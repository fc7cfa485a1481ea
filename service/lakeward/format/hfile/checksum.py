"""The checksums that HBase's writer appends to each block: CRC32, or its default CRC32C, of every stretch of the block.

Hudi's own writer appends zeros in their place, and its readers check nothing. We check what is there.

Touches: nothing.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeward.base.kernel import U8_IN, U32_IN, kernel, types

CHECKSUM_BYTES = 4

_CASTAGNOLI = 0x82F63B78


class ChecksumType(IntEnum):
    """Types of checksum, by the number on disk."""

    NULL = 0
    CRC32 = 1
    CRC32C = 2


def checksums(data: bytes | memoryview, *, bytes_each: int, kind: ChecksumType) -> bytes:
    """One big-endian checksum for each `bytes_each` bytes of data, the last one for what is left."""
    assert kind is not ChecksumType.NULL and bytes_each > 0
    parts = (data[start : start + bytes_each] for start in range(0, len(data), bytes_each))
    return b"".join(
        struct.pack(">I", zlib.crc32(part) if kind is ChecksumType.CRC32 else crc32c(part)) for part in parts
    )


def crc32c(data: bytes | memoryview) -> int:
    return int(_crc32c(np.frombuffer(data, dtype=np.uint8), _TABLE))


def _make_table() -> npt.NDArray[np.uint32]:
    """What each byte does to the checksum."""
    table = np.empty(256, dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table[byte] = value
    return table


_TABLE = _make_table()


@kernel(types.uint32(U8_IN, U32_IN))
def _crc32c(data: Any, table: Any) -> Any:
    """`table` has 256 entries."""
    value = np.uint32(0xFFFFFFFF)
    for index in range(len(data)):
        value = np.uint32(table[(value ^ data[index]) & np.uint32(0xFF)] ^ (value >> np.uint32(8)))
    return value ^ np.uint32(0xFFFFFFFF)

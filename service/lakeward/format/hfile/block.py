"""One block of an HFile: a header, a payload that may be compressed, checksums.

All integers are big-endian:

    off  len  field
      0    8  magic, which says what the payload is
      8    4  onDiskSizeWithoutHeader        payload as stored + checksums
     12    4  uncompressedSizeWithoutHeader  payload once decompressed, without checksums
     16    8  offset of the previous block of the same type, -1 for none; only data blocks have it in what we write
     24    1  checksum type: 0 none, 1 CRC32, 2 CRC32C
     25    4  bytesPerChecksum               stretch that one checksum covers
     29    4  onDiskDataSizeWithHeader       33 + payload as stored
     33    .  payload, a gzip stream or a zstd frame of its own where the file is compressed
      .    .  4 bytes of checksum for each stretch of header and stored payload, zeros for type 0

What we write for Hudi has no checksums and a bytesPerChecksum of 0x7FFFFFFF, so one stretch: readers up to Hudi 1.2.0
take four bytes for each stretch off the end of the decompressed payload, where the checksums are not, and lose the
entries that lie in them. Four bytes are less than any entry. The four zeros on disk are wanted by HBase's reader. Files
that only Lakeward opens (`index/record`) have one CRC32 in those four bytes.

Touches: the range it is given, by reading; encoding gives bytes.
Keeps:   1. the payload's length is the header's word for it and nothing else's, so the last entry is never lost;
         2. no length is allocated before it is known to fit into the range, or what can be decompressed from it;
         3. checksums that are there are checked; a payload decompresses to exactly the length that the header says.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import Enum, IntEnum

import pyarrow as pa

from lakeward.format.hfile.checksum import CHECKSUM_BYTES, ChecksumType, checksums
from lakeward.format.hfile.range import HFileRange

HEADER_BYTES = 33
NO_PREVIOUS_BLOCK = -1

_HEADER = struct.Struct(">8siiqBii")
assert _HEADER.size == HEADER_BYTES

_BYTES_PER_CHECKSUM = 0x7FFFFFFF
_GZIP_WBITS = 31
_GZIP_LEVEL = 6
_DEFLATE_RATIO_MAX = 1032
"""A deflate stream cannot become more than this many times longer."""
_ZSTD_LEVEL = 1
_ZSTD_RATIO_MAX = 32 * 1024
"""A zstd block has four bytes at least, and 128 KiB at most of what they stand for."""


class HFileBlockType(Enum):
    """What a block holds, by its magic."""

    DATA = b"DATABLK*"
    META = b"METABLKc"
    LEAF_INDEX = b"IDXLEAF2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    ROOT_INDEX = b"IDXROOT2"
    FILE_INFO = b"FILEINF2"


class HFileCodec(IntEnum):
    """How payloads are compressed, by HBase's number on disk. Of others than GZIP and NONE Hudi writes none."""

    GZIP = 1
    NONE = 2
    ZSTD = 6


@dataclass(frozen=True, slots=True)
class HFileBlock:
    offset: int
    size: int
    """The size on disk, header and checksums included."""
    payload: bytes


def read_block(
    source: HFileRange, offset: int, kind: HFileBlockType, codec: HFileCodec, *, size: int | None = None
) -> HFileBlock:
    """The block at `offset`, which must be of this kind.

    Args:
        size: what an index says that the block takes on disk; then it is read at once.
    """
    what = f"the block {kind.value.decode()}"
    if size is not None and size < HEADER_BYTES:
        raise source.broken(offset, f"the index gives {what} {size} bytes")
    data = source.read(offset, HEADER_BYTES if size is None else size, what)
    if len(data) < HEADER_BYTES:
        raise source.broken(offset, f"{what} is cut short")
    magic, on_disk, uncompressed, _, checksum, bytes_each, with_header = _HEADER.unpack_from(data)
    if magic != kind.value:
        raise source.broken(offset, f"it starts with {magic!r}, where {what} belongs")
    if not HEADER_BYTES <= with_header <= HEADER_BYTES + on_disk or uncompressed < 0:
        raise source.broken(offset, f"the lengths of {what} contradict each other")
    if size is None:
        data += source.read(offset + HEADER_BYTES, on_disk, what)
    elif size != HEADER_BYTES + on_disk:
        raise source.broken(offset, f"{what} has {HEADER_BYTES + on_disk} bytes, and {size} by the index")
    _check(source, offset, data, with_header, checksum, bytes_each, what)
    stored = data[HEADER_BYTES:with_header]
    payload = _decompress(source, offset, stored, uncompressed, codec, what)
    if len(payload) != uncompressed:
        raise source.broken(offset, f"{what} holds {len(payload)} bytes instead of {uncompressed}")
    return HFileBlock(offset, len(data), payload)


def encode_block(
    kind: HFileBlockType,
    payload: bytes,
    codec: HFileCodec,
    *,
    previous: int = NO_PREVIOUS_BLOCK,
    checksum: ChecksumType = ChecksumType.NULL,
) -> bytes:
    """`previous` is the offset of the data block before this one."""
    stored = _compress(payload, codec)
    head = _HEADER.pack(
        kind.value,
        len(stored) + CHECKSUM_BYTES,
        len(payload),
        previous,
        checksum,
        _BYTES_PER_CHECKSUM,
        HEADER_BYTES + len(stored),
    )
    data = head + stored
    if checksum is ChecksumType.NULL:
        return data + bytes(CHECKSUM_BYTES)
    return data + checksums(data, bytes_each=_BYTES_PER_CHECKSUM, kind=checksum)


def _check(
    source: HFileRange, offset: int, data: bytes, with_header: int, checksum: int, bytes_each: int, what: str
) -> None:
    if checksum == ChecksumType.NULL:
        return  # early releases wrote a bytesPerChecksum of 0 here, so it means nothing
    if checksum not in _CHECKSUM_TYPES:
        raise source.broken(offset, f"the checksums of {what} are of the unknown type {checksum}")
    if bytes_each <= 0 or CHECKSUM_BYTES * -(-with_header // bytes_each) != len(data) - with_header:
        raise source.broken(offset, f"{what} has no room for its checksums")
    covered = memoryview(data)[:with_header]
    if checksums(covered, bytes_each=bytes_each, kind=ChecksumType(checksum)) != data[with_header:]:
        raise source.broken(offset, f"{what} does not have the checksum that was written with it")


def _decompress(
    source: HFileRange, offset: int, stored: bytes, uncompressed: int, codec: HFileCodec, what: str
) -> bytes:
    if codec is HFileCodec.NONE:
        return stored
    if uncompressed > _RATIOS_MAX[codec] * len(stored):
        raise source.broken(offset, f"{what} claims {uncompressed} bytes, which {len(stored)} cannot hold")
    if codec is HFileCodec.ZSTD:
        try:
            payload: bytes = pa.Codec("zstd").decompress(stored, decompressed_size=uncompressed, asbytes=True)
        except (OSError, ValueError) as error:
            raise source.broken(offset, f"{what} cannot be decompressed: {error}") from None
        return payload
    stream = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        # One byte more than is wanted, to see the end of the stream behind it.
        payload = stream.decompress(stored, uncompressed + 1)
    except zlib.error as error:
        raise source.broken(offset, f"{what} cannot be decompressed: {error}") from None
    if not stream.eof:
        raise source.broken(offset, f"the compressed stream of {what} does not end where it should")
    return payload


_CHECKSUM_TYPES = frozenset(ChecksumType)
_RATIOS_MAX = {HFileCodec.GZIP: _DEFLATE_RATIO_MAX, HFileCodec.ZSTD: _ZSTD_RATIO_MAX}


def _compress(payload: bytes, codec: HFileCodec) -> bytes:
    """Without a time in a head, so that equal payloads give equal bytes."""
    if codec is HFileCodec.NONE:
        return payload
    if codec is HFileCodec.ZSTD:
        compressed: bytes = pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(payload, asbytes=True)
        return compressed
    stream = zlib.compressobj(level=_GZIP_LEVEL, wbits=_GZIP_WBITS)
    return stream.compress(payload) + stream.flush()

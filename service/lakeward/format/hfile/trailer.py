"""The trailer of an HFile: its last 4096 bytes, which say where everything else is.

    magic `TRABLK"$`, varint length, protobuf message, zeros up to 4092 bytes, 1 byte minor and 3 bytes major version

Fields of the message by number: 1 offset of the file info, 2 offset of what is loaded on opening, 3 uncompressed size
of the data index, 4 uncompressed size of all blocks, 5 entries of the root data index, 6 entries of the meta index, 7
entries of the file, 8 levels of the data index, 9 and 10 offsets of the first and last data block, 11 class name of the
comparator, 12 codec, 13 encryption key.

Touches: the range it is given, by reading.
Keeps:   1. fields 2, 5, 7 and 8 must be there: Hudi itself takes a file without field 7 for an empty one;
         2. an encryption key is never written, not even an empty one: HBase's reader fails on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.hfile.block import HFileCodec
from lakeward.format.hfile.range import HFileRange
from lakeward.format.protobuf import (
    BrokenMessage,
    FieldValue,
    decode_message,
    encode_message,
    read_varint,
    write_varint,
)

TRAILER_BYTES = 4096
MAGIC = b'TRABLK"$'
MAJOR_VERSION = 3
MINOR_VERSION = 3

COMPARATOR = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"
"""HBase's reader loads this class; Hudi's own has no use for it."""

LEVELS_MAX = 16
"""Levels of the data index. HBase adds a level when the root exceeds 128 KiB, so that a few levels hold any file."""

_FILE_INFO, _LOAD_ON_OPEN, _INDEX_BYTES, _UNCOMPRESSED_BYTES, _INDEX_COUNT, _META_COUNT, _ENTRY_COUNT = range(1, 8)
_LEVELS, _FIRST_DATA_BLOCK, _LAST_DATA_BLOCK, _COMPARATOR, _CODEC, _ENCRYPTION_KEY = range(8, 14)


@dataclass(frozen=True, slots=True)
class HFileTrailer:
    file_info_offset: int
    load_on_open_offset: int
    index_bytes: int
    uncompressed_bytes: int
    index_count: int
    meta_count: int
    entry_count: int
    levels: int
    first_data_block_offset: int
    last_data_block_offset: int
    codec: HFileCodec


def read_trailer(source: HFileRange) -> HFileTrailer:
    """Raises `BrokenFile`, and `Unsupported` for what Hudi does not write."""
    start = source.length - TRAILER_BYTES
    if start < 0:
        raise source.broken(0, f"it has {source.length} bytes, which is less than a trailer")
    data = source.read(start, TRAILER_BYTES, "the trailer")
    if not data.startswith(MAGIC):
        raise source.broken(start, "no trailer starts here, so the file was cut short or is no HFile")
    try:
        length, at = read_varint(data, len(MAGIC))
        if length > TRAILER_BYTES - 4 - at:
            raise BrokenMessage(f"its message of {length} bytes does not fit")
        fields: dict[int, FieldValue] = dict(decode_message(data[at : at + length]))
    except BrokenMessage as broken:
        raise source.broken(start, f"the trailer cannot be read: {broken}") from None
    major = int.from_bytes(data[-3:], "big")
    if major != MAJOR_VERSION:
        raise source.unsupported(start, f"it is an HFile of version {major}, and this release reads {MAJOR_VERSION}")
    if fields.get(_ENCRYPTION_KEY, b""):
        raise source.unsupported(start, "it is encrypted")

    def number(field: int, default: int | None = None) -> int:
        value = fields.get(field, default)
        if not isinstance(value, int):
            raise source.broken(start, f"the trailer has no number in field {field}")
        return value

    codec = number(_CODEC, HFileCodec.NONE)
    if codec not in tuple(HFileCodec):
        raise source.unsupported(start, f"its blocks are compressed with codec {codec}")
    levels = number(_LEVELS)
    if not 1 <= levels <= LEVELS_MAX:
        raise source.broken(start, f"the trailer claims an index of {levels} levels")
    return HFileTrailer(
        file_info_offset=number(_FILE_INFO, 0),
        load_on_open_offset=number(_LOAD_ON_OPEN),
        index_bytes=number(_INDEX_BYTES, 0),
        uncompressed_bytes=number(_UNCOMPRESSED_BYTES, 0),
        index_count=number(_INDEX_COUNT),
        meta_count=number(_META_COUNT, 0),
        entry_count=number(_ENTRY_COUNT),
        levels=levels,
        first_data_block_offset=number(_FIRST_DATA_BLOCK, 0),
        last_data_block_offset=number(_LAST_DATA_BLOCK, 0),
        codec=HFileCodec(codec),
    )


def encode_trailer(trailer: HFileTrailer) -> bytes:
    message = encode_message(
        [
            (_FILE_INFO, trailer.file_info_offset),
            (_LOAD_ON_OPEN, trailer.load_on_open_offset),
            (_INDEX_BYTES, trailer.index_bytes),
            (_UNCOMPRESSED_BYTES, trailer.uncompressed_bytes),
            (_INDEX_COUNT, trailer.index_count),
            (_META_COUNT, trailer.meta_count),
            (_ENTRY_COUNT, trailer.entry_count),
            (_LEVELS, trailer.levels),
            (_FIRST_DATA_BLOCK, trailer.first_data_block_offset),
            (_LAST_DATA_BLOCK, trailer.last_data_block_offset),
            (_COMPARATOR, COMPARATOR.encode()),
            (_CODEC, trailer.codec),
        ]
    )
    head = MAGIC + write_varint(len(message)) + message
    version = (MINOR_VERSION << 24 | MAJOR_VERSION).to_bytes(4, "big")
    return head.ljust(TRAILER_BYTES - len(version), b"\0") + version

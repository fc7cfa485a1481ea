"""The index blocks of an HFile: which block starts with which key.

    root, data:          (int64 offset, int32 size on disk, VInt length, encoded key)*
    root, meta:          the same, and the key is the bare name of a meta block
    leaf, intermediate:  int32 n, (n + 1) x int32 relative offset of each entry and of the end,
                         (int64 offset, int32 size, encoded key)*
    encoded key:         int16 length, key, then 10 bytes (no family, greatest timestamp, type);
                         Hudi 1.1 and 1.2 leave the 10 bytes out
    VInt:                Hadoop's: up to 127 in one byte, else a byte -112 - n and n big-endian bytes;
                         Hudi 1.1 encodes lengths above 127 as protobuf does instead, which no Hudi release can read

How many entries a root index has stands in the trailer; behind those of a root above other indexes are 16 bytes, the
place of the file's middle key. HBase may put a made-up key into an index, greater than the last one of the block before
and not greater than the block's first. Hudi's writer and this one write a single root level.

Touches: nothing.
Keeps:   1. entries lie inside of the block, and their blocks follow each other in the file;
         2. we write the 10 bytes: HBase's reader cannot seek without, and Hudi's does not mind.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lakeward.format.hfile.block import HFileBlock
from lakeward.format.hfile.range import HFileRange
from lakeward.format.protobuf import BrokenMessage, read_varint

KEY_BYTES_MAX = 0x7FFF
KEY_SUFFIX = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
"""What follows a key: no column family, the greatest timestamp, and the type Put."""

_PLACE = struct.Struct(">qi")
_VINT_BYTES_MAX = 4
_MIDDLE_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class IndexEntry:
    offset: int
    size: int
    """The size on disk, header included."""
    key: bytes


def encode_key(key: bytes) -> bytes:
    assert len(key) <= KEY_BYTES_MAX
    return len(key).to_bytes(2, "big") + key + KEY_SUFFIX


def encode_root_index(entries: Iterable[IndexEntry], *, of_data: bool) -> bytes:
    out = bytearray()
    for entry in entries:
        key = encode_key(entry.key) if of_data else entry.key
        out += _PLACE.pack(entry.offset, entry.size) + _vint(len(key)) + key
    return bytes(out)


def decode_root_index(
    source: HFileRange, block: HFileBlock, count: int, *, of_data: bool, above_others: bool = False
) -> list[IndexEntry]:
    data = block.payload
    entries: list[IndexEntry] = []
    at = 0
    for _ in range(count):
        start = at + _PLACE.size
        # Of two encodings of a length, the one is meant that fits the length of the key itself.
        for read_length in (_read_vint, _read_protobuf_varint):
            length, at = read_length(data, start)
            encoded = data[at : at + length]
            key = _key(encoded) if of_data else encoded
            if length == len(encoded) and key is not None:
                break
        else:
            raise source.broken(block.offset, f"entry {len(entries)} of the index's {count} cannot be read")
        at += length
        offset, size = _PLACE.unpack_from(data, start - _PLACE.size)
        entries.append(IndexEntry(offset, size, key))
    if len(data) - at != (_MIDDLE_KEY_BYTES if above_others else 0):
        raise source.broken(block.offset, f"the index holds more than the {count} entries that the trailer counts")
    if of_data:  # meta blocks are indexed by name
        _check_order(source, block, entries)
    return entries


def decode_inner_index(source: HFileRange, block: HFileBlock) -> list[IndexEntry]:
    """Decode a leaf or an intermediate block."""
    data = block.payload
    count = int.from_bytes(data[:4], "big")
    first = 4 + 4 * (count + 1)
    if len(data) < 4 or first > len(data):
        raise source.broken(block.offset, f"the index of {len(data)} bytes claims {count} entries")
    starts = struct.unpack_from(f">{count + 1}I", data, 4)
    entries: list[IndexEntry] = []
    for start, end in pairwise(starts):
        if not start + _PLACE.size <= end <= len(data) - first:
            raise source.broken(block.offset, f"entry {len(entries)} of the index lies outside of it")
        key = _key(data[first + start + _PLACE.size : first + end])
        if key is None:
            raise source.broken(block.offset, f"the key of entry {len(entries)} of the index cannot be read")
        offset, size = _PLACE.unpack_from(data, first + start)
        entries.append(IndexEntry(offset, size, key))
    if not entries:
        raise source.broken(block.offset, "the index below the root is empty")
    _check_order(source, block, entries)
    return entries


def _check_order(source: HFileRange, block: HFileBlock, entries: list[IndexEntry]) -> None:
    end = 0
    for number, entry in enumerate(entries):
        if entry.offset < end:
            raise source.broken(block.offset, f"entry {number} of the index points back, to byte {entry.offset}")
        end = entry.offset + max(entry.size, 1)


def _key(encoded: bytes) -> bytes | None:
    """None where the lengths contradict each other."""
    length = int.from_bytes(encoded[:2], "big")
    if len(encoded) - length not in (2, 2 + len(KEY_SUFFIX)):
        return None
    return encoded[2 : 2 + length]


def _read_vint(data: bytes, at: int) -> tuple[int, int]:
    """(a length, where it ends); the length is -1 where none stands."""
    if at >= len(data):
        return -1, at
    first = data[at]
    if first < 0x80:
        return first, at + 1
    width = 0x90 - first  # the byte is -112 - width, and -112 is 0x90
    if not 1 <= width <= _VINT_BYTES_MAX:
        return -1, at
    return int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width


def _read_protobuf_varint(data: bytes, at: int) -> tuple[int, int]:
    try:
        return read_varint(data, at)
    except BrokenMessage:
        return -1, at


def _vint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    width = (value.bit_length() + 7) // 8
    return bytes([0x90 - width]) + value.to_bytes(width, "big")

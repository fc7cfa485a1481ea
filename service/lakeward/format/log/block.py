"""Find the blocks of an inline log file (format version 1): an open file in, block heads out.

A block, all integers big-endian: magic `#HUDI#`, int64 S, int32 format version 1, int32 block type, a header map
(int32 count; per entry int32 key, int32 length, UTF-8 text), int64 content length, content, a footer map (always
empty), int64 S + 6. S counts the bytes from the format version to the end, so a block spans 14 + S bytes.

A writer that died leaves a torn block. A block is corrupt when it runs past the end of the file, when its last
eight bytes are not S + 6, or when neither the end of the file nor a magic follows it; then the scan goes on at the next
magic and the gap in between is reported as one `CorruptBlock`, which readers skip.

Touches: the file it is given, by seeking and reading; nothing is written.
Keeps:   1. only heads are read: content is skipped, `read_content` fetches it;
         2. no length found in the file is used before it is known to lie inside its block, inside of the file;
         3. a block that is framed well but broken within is an error naming file and offset, never a corrupt block:
            Hudi's readers stop there too, and to skip it would lose rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

from lakeward.base.errors import BrokenFile, Unsupported

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
KEY_COLUMN = "key"
"""The column that HFile data blocks do not keep (`data_block.py`)."""

_SIZE_START = len(MAGIC)
_FRAME_START = len(MAGIC) + 8  # where S begins to count
_FRAME_MIN = 4 + 4 + 4 + 8 + 4 + 8  # a block without headers, content and footer
_TAIL = 4 + 8  # footer count and the reverse pointer
_HEAD_CHUNK = 16 * 1024
_SEARCH_CHUNK = 1024 * 1024
_READ_BYTES_MAX = 16 * 1024 * 1024
"""What is asked of the file at once."""


class BlockType(IntEnum):
    """What a block holds, by the number on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """What a header entry says, by the number on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """The head of one block."""

    type: BlockType
    headers: dict[HeaderKey, str]
    content_offset: int
    content_length: int
    file: str
    offset: int
    """The position at which the block's magic starts."""

    @property
    def where(self) -> str:
        return f"{self.file}, block at byte {self.offset}"

    @property
    def is_partial(self) -> bool:
        """Its rows have some of the table's columns only."""
        return self.headers.get(HeaderKey.IS_PARTIAL, "false").lower() == "true"


@dataclass(frozen=True, slots=True)
class CorruptBlock:
    """A stretch of the file that is no block, from the magic of a torn one to the next magic or the end."""

    file: str
    offset: int
    length: int


def scan_blocks(file: BinaryIO, size: int, *, name: str, position: int = 0) -> Iterator[LogBlock | CorruptBlock]:
    """The blocks of a log file of `size` bytes, in file order.

    Args:
        name: how errors call the file.
        position: where a block begins, the first one that is asked for.
    """
    while position < size:
        if size - position < len(MAGIC):
            # Hudi takes a magic cut short for the end of the file.
            yield CorruptBlock(file=name, offset=position, length=size - position)
            return
        if _read_at(file, position, len(MAGIC), name) != MAGIC:
            # Behind a sound block there is always a magic (else it were not sound), so this is the file's first byte.
            raise _broken(name, position, "the file does not start with the magic of a log block")
        frame = _find_frame(file, position, size, name)
        if frame is None:
            end = _find_magic(file, position + len(MAGIC), size, name)
            yield CorruptBlock(file=name, offset=position, length=end - position)
        else:
            end = position + _FRAME_START + frame
            yield _read_head(file, position, end, name)
        position = end


def count_blocks_from_end(file: BinaryIO, size: int, *, name: str, at_most: int) -> int | None:
    """How many blocks a file of `size` bytes has by the way back that each ends with; None where these do not lead to
    the file's first byte, or there are more. One small read for each, where each but the first one also has to begin as
    it ends. Raises `BrokenFile` for a file that is shorter."""
    end = size
    (back,) = struct.unpack(">q", _read_at(file, size - 8, 8, name))
    for blocks in range(1, at_most + 1):
        start = end - 8 - back
        if back < _FRAME_MIN + len(MAGIC):
            return None
        if start == 0:
            return blocks
        if start < _FRAME_START + _FRAME_MIN:
            return None  # no block has room in front of it
        before, magic, frame = struct.unpack(">q6sq", _read_at(file, start - 8, 8 + _FRAME_START, name))
        if magic != MAGIC or frame + len(MAGIC) != back:
            return None
        end, back = start, before
    return None


def read_content(file: BinaryIO, block: LogBlock) -> bytes:
    """The whole content of a block; its length was checked against the file when the block was found."""
    return _read_at(file, block.content_offset, block.content_length, block.file)


def read_content_range(file: BinaryIO, block: LogBlock, start: int, length: int) -> bytes:
    """`length` bytes of the block's content from `start`, which must lie inside of it."""
    assert start >= 0 and length >= 0 and start + length <= block.content_length
    return _read_at(file, block.content_offset + start, length, block.file)


def _find_frame(file: BinaryIO, position: int, size: int, name: str) -> int | None:
    """S of the block at `position`, or None when the block is corrupt."""
    if size - position < _FRAME_START + _FRAME_MIN:
        return None
    (frame,) = struct.unpack(">q", _read_at(file, position + _SIZE_START, 8, name))
    end = position + _FRAME_START + int(frame)
    if frame < _FRAME_MIN or end > size:
        return None
    # One read serves both checks: the reverse pointer, then a magic or the end of the file.
    tail = _read_at(file, end - 8, min(8 + len(MAGIC), size - end + 8), name)
    if struct.unpack_from(">q", tail)[0] != frame + len(MAGIC):
        return None
    follows = tail[8:]
    if len(follows) == len(MAGIC) and follows != MAGIC:
        return None
    return int(frame)


def _find_magic(file: BinaryIO, position: int, size: int, name: str) -> int:
    """The position at which the next magic starts, or `size`."""
    while position < size:
        chunk = _read_at(file, position, min(_SEARCH_CHUNK, size - position), name)
        found = chunk.find(MAGIC)
        if found >= 0:
            return position + found
        if position + len(chunk) == size:
            break
        position += len(chunk) - len(MAGIC) + 1  # a magic may lie across two chunks
    return size


def _read_head(file: BinaryIO, start: int, end: int, name: str) -> LogBlock:
    """Parse the head of the block framed by `start` and `end`."""
    head = _Head(file, start, end - _TAIL, name)
    head.skip(_FRAME_START)
    version = head.int32("log format version")
    if version != FORMAT_VERSION:
        raise Unsupported(
            f"{name}, block at byte {start}: log format version {version} is not supported.",
            why=f"This release reads version {FORMAT_VERSION}.",
            remedy="Compact the file group with the Hudi release that wrote it.",
        )
    ordinal = head.int32("block type")
    try:
        block_type = BlockType(ordinal)
    except ValueError:
        raise Unsupported(
            f"{name}, block at byte {start}: block type {ordinal} is unknown.",
            why="Either a newer Hudi release wrote this log file or it is damaged; to skip the block would lose rows.",
            remedy="Compact the file group with the Hudi release that wrote it.",
        ) from None
    count = head.int32("header count")
    if not 0 <= count <= len(HeaderKey):
        raise _broken(name, start, f"it claims {count} headers")
    headers: dict[HeaderKey, str] = {}
    for _ in range(count):
        key = head.int32("header key")
        length = head.int32("header length")
        text = head.take(length, "header value")
        try:
            headers[HeaderKey(key)] = text.decode("utf-8")
        except UnicodeDecodeError:
            raise _broken(name, start, f"the value of header {key} is not UTF-8 text") from None
        except ValueError:
            raise Unsupported(
                f"{name}, block at byte {start}: header key {key} is unknown.",
                why="Either a newer Hudi release wrote this log file or it is damaged; what it means is unknown.",
                remedy="Compact the file group with the Hudi release that wrote it.",
            ) from None
    content_length = head.int64("content length")
    content_offset = head.position
    if not 0 <= content_length <= end - _TAIL - content_offset:
        raise _broken(name, start, f"its content of {content_length} bytes lies outside of the block")
    if content_offset + content_length != end - _TAIL:
        raise _broken(name, start, f"its content of {content_length} bytes does not end where its footer begins")
    if footer := int.from_bytes(_read_at(file, end - _TAIL, 4, name), "big", signed=True):
        raise _broken(name, start, f"its footer claims {footer} entries, and Hudi writes none")
    return LogBlock(
        type=block_type,
        headers=headers,
        content_offset=content_offset,
        content_length=content_length,
        file=name,
        offset=start,
    )


class _Head:
    """Reads forward through a block's head in chunks and never past `limit`."""

    def __init__(self, file: BinaryIO, start: int, limit: int, name: str) -> None:
        self._file = file
        self._start = start
        self._limit = limit
        self._name = name
        self._chunk = b""
        self._chunk_start = start
        self.position = start

    def skip(self, length: int) -> None:
        self.position += length

    def int32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def int64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "big", signed=True)

    def take(self, length: int, what: str) -> bytes:
        if not 0 <= length <= self._limit - self.position:
            raise _broken(self._name, self._start, f"its {what} lies outside of the block")
        if self.position + length > self._chunk_start + len(self._chunk):
            wanted = min(max(length, _HEAD_CHUNK), self._limit - self.position)
            self._chunk = _read_at(self._file, self.position, wanted, self._name)
            self._chunk_start = self.position
        first = self.position - self._chunk_start
        self.position += length
        return self._chunk[first : first + length]


def _read_at(file: BinaryIO, position: int, length: int, name: str) -> bytes:
    file.seek(position)
    parts: list[bytes] = []
    left = length
    while left:  # an unbuffered file may return less than it was asked for
        part = file.read(min(left, _READ_BYTES_MAX))
        if not part:
            raise _broken(name, position, f"the file ended after {length - left} of {length} bytes")
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _broken(name: str, offset: int, why: str) -> BrokenFile:
    return BrokenFile(
        f"The log file {name} is broken at byte {offset}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )

"""Bucket files inline in a log file: RFC-08's inline file system, a stretch of a log that is opened as a file.

A log file of Hudi's format (`format/log/block`) may hold, for each commit, a block of type HFILE_DATA whose content is
a whole bucket file, and whose header has the commit's instant. They are read as those that are files of their own;
Lakeward writes none, because that takes appending to a file, or a log file for each commit, which is a file of its own
with a frame around it.

Touches: the log file it is given, by reading.
"""

from __future__ import annotations

from typing import BinaryIO

from lakeward.errors import BrokenFile
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, scan_blocks
from lakeward.index.record.block_cache import BlockCache
from lakeward.index.record.bucket_file import BucketFile


def open_inline_files(file: BinaryIO, *, length: int, name: str, cache: BlockCache | None = None) -> list[BucketFile]:
    """The bucket files in a log file, newest first. Raises `BrokenFile`, also for a block that is none."""
    found = []
    for block in scan_blocks(file, length, name=name):
        if isinstance(block, CorruptBlock) or block.type is not BlockType.HFILE_DATA:
            raise BrokenFile(
                f"The index log {name} is broken at byte {block.offset}.",
                why="A block there is none of an index.",
                remedy="Restore the file, or build the index anew: it is made of the table alone.",
            )
        found.append(
            BucketFile(
                file,
                offset=block.content_offset,
                length=block.content_length,
                name=name,
                instant=block.headers.get(HeaderKey.INSTANT_TIME),
                cache=cache,
            )
        )
    return found[::-1]

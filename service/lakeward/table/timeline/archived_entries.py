"""What left the timeline of a table of layout 1, as its archive has it: log files of Avro data blocks.

    <archive folder>/.commits_.archive.<number>_<write token>

A record is one state of one instant: `commitTime`, `actionType`, `actionState`, and what the timeline's file said, in
the field of its kind. An archiver goes on with the file of the greatest number, or begins the next one; files that it
merges become one of a number that is greater than all.

Touches: the file it is given, by seeking and reading.
Keeps:   a block that is torn is passed over, as Hudi does: its archiver died over it and deleted nothing of the
         timeline; one that is whole and cannot be read is an error.
Source:  HoodieTimelineArchiver (Hudi 0.15), HoodieArchivedMetaEntry
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.record import decode_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.log.block import (
    MAGIC,
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    read_content_range,
    scan_blocks,
)
from lakeward.format.timeline.commit_metadata import CommitMetadata, commit_metadata_of

_NAME = re.compile(r"\.commits_\.archive\.(?P<number>[0-9]{1,18})(_[0-9]+-[0-9]+-[0-9]+)?")
_HEAD_BYTES = 8
_LENGTH_BYTES = 4
_MEMORY_MIN = 64 * 1024 * 1024
_MEMORY_OF_A_BYTE = 16
"""A record may take 64 MiB and 16 bytes more for each byte of it, as a file of the timeline may."""


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """A completed instant."""

    time: str
    action: str
    _fields: RecordFields
    where: str

    def commit_metadata(self) -> CommitMetadata:
        """What a commit said. Raises `BrokenFile` where nothing is said of it."""
        for name in ("hoodieReplaceCommitMetadata", "hoodieCommitMetadata"):
            if (found := self._fields.record(name)) is not None:
                return commit_metadata_of(found)
        raise BrokenFile(
            f"What the {self.action} of {self.time} did is unknown.",
            why=f"In {self.where} its record says nothing of it.",
        )

    def rolled_back(self) -> tuple[str, ...]:
        """The instants that a rollback rolled back. Raises `BrokenFile`."""
        found = self._fields.record("hoodieRollbackMetadata")
        if found is None:
            raise BrokenFile(
                f"What the rollback of {self.time} undid is unknown.",
                why=f"In {self.where} its record says nothing of it.",
            )
        return found.texts("commitsRollback")


def parse_archive_number(name: str) -> int | None:
    """The number of an archive file; None for what is none."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match["number"])


def read_archived_entries(file: BinaryIO, size: int, *, name: str, behind: int = 0) -> Iterator[ArchivedEntry]:
    """The completed instants of one file, in its order. Raises `BrokenFile` and `Unsupported`.

    Args:
        behind: what the file had once, of which nothing is asked; where an archiver was at it, all is returned.
    """
    file.seek(behind)
    position = behind if file.read(len(MAGIC)) == MAGIC else 0
    for block in scan_blocks(file, size, name=name, position=position):
        if isinstance(block, CorruptBlock) or block.type is not BlockType.AVRO_DATA:
            continue
        for record in _records(file, block):
            fields = RecordFields(record, file=block.where)
            time, action = fields.text("commitTime"), fields.text("actionType")
            if time and action and fields.text("actionState") in (None, "COMPLETED"):
                yield ArchivedEntry(time, action, fields, block.where)


def _records(file: BinaryIO, block: LogBlock) -> Iterator[dict[str, object]]:
    schema = block.headers.get(HeaderKey.SCHEMA, "").encode()
    if block.content_length < _HEAD_BYTES:
        raise _broken(block, "its content is shorter than its head")
    _, count = struct.unpack(">ii", read_content_range(file, block, 0, _HEAD_BYTES))
    at = _HEAD_BYTES
    for _ in range(count):
        if at + _LENGTH_BYTES > block.content_length:
            raise _broken(block, f"it ends before its {count} records do")
        (length,) = struct.unpack(">i", read_content_range(file, block, at, _LENGTH_BYTES))
        at += _LENGTH_BYTES
        if length < 0 or at + length > block.content_length:
            raise _broken(block, f"a record claims {length} bytes")
        data = read_content_range(file, block, at, length)
        at += length
        try:
            yield decode_record(schema, data, memory_max=_MEMORY_MIN + _MEMORY_OF_A_BYTE * length)
        except (ValueError, IndexError) as error:
            raise _broken(block, str(error)) from error


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(f"{block.where} has no archived instants.", why=f"It is broken: {why}.")

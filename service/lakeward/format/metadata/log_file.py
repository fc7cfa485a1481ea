"""Log files of the metadata table: one HFile in a block of its own, and the keys that are deleted in another.

    block of type HFILE_DATA: headers SCHEMA and INSTANT_TIME, an HFile as content | block of type DELETE

A write of more keys than are sorted at once has several of each, those of type DELETE last.

At table version 10 a log is the HFile alone (`.log.hfile`), with the same headers as one entry of its file info, and
the deleted keys are in one beside it (`.deletes.hfile`). The name alone says which form a file has.

Touches: the file it is given; a temporary file, where an HFile is too large to wait in memory for its length.
Keeps:   1. memory is bounded by `SPOOL_BYTES`, whatever the number of entries;
         2. what `metadata_blocks` and `native_metadata_block` make of a file is what it was written from.
Source:  HoodieNativeLogFormatWriter, HoodieNativeLogDeleteBlock and HoodieSchemas.createDeleteLogSchema of Hudi's
         master: what a writer of the metadata table deletes goes into `.deletes.` of the base files' format.
See:     docs/formats/native-logs.md
"""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.encoder import write_number
from lakeward.format.file_name import HFILE, NativeLogName, parse_native_log
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.delete_block import encode_deletes, no_deletes, read_delete_block
from lakeward.format.log.log_writer import block_head
from lakeward.format.log.native_log.delete_file import read_native_deletes
from lakeward.format.log.native_log.footer import NativeLogFooter, encode_footer
from lakeward.format.log.native_log.native_log_file import open_native_log

SPOOL_BYTES = 8 * 1024 * 1024

_COPY_BYTES = 1024 * 1024
_SCHEMA_INFO = "schema"
_DELETE_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "hudi_delete_log_record",
        "fields": [{"name": "_hoodie_record_key", "type": "string"}],
    },
    separators=(",", ":"),
)
"""What the values in a file of deletes are encoded by: the key once more, as in such files of any format."""


@dataclass(frozen=True, slots=True)
class MetadataLogStats:
    """What was written."""

    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MetadataBlock:
    """A block of a log file: entries, or deleted keys."""

    instant: str
    schema_json: str | None
    """What the values are decoded by. None in a delete block."""
    hfile: HFileReader | None
    """The HFile in place: the file must stay open as long as it is used. None for a delete block."""
    deleted_keys: tuple[str, ...]
    """Empty for a block of entries."""
    where: str
    """How errors call the block."""


def write_metadata_log(
    sink: BinaryIO, *, instant: str, schema_json: str, entries: Iterable[tuple[str, bytes]]
) -> MetadataLogStats:
    """Write a log file of one block, or a further block of one, from where the sink stands.

    Args:
        schema_json: what the values were encoded by.
        entries: key and value, strictly ascending by the key's UTF-8 bytes (sort by `str.encode`).
    """
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spooled:
        spool = cast("BinaryIO", spooled)
        writer = HFileWriter(spool)
        for key, value in entries:
            writer.add(key.encode("utf-8"), value)
        hfile = writer.finish({_SCHEMA_INFO: schema_json.encode("utf-8")})
        headers = {HeaderKey.SCHEMA: schema_json, HeaderKey.INSTANT_TIME: instant}
        head = block_head(BlockType.HFILE_DATA, headers, hfile.size_bytes)
        # No footer entries, then the way back to the block's start.
        tail = struct.pack(">iq", 0, len(head) + hfile.size_bytes + 4)
        sink.write(head)
        spool.seek(0)
        shutil.copyfileobj(spool, sink, _COPY_BYTES)
        sink.write(tail)
    return MetadataLogStats(entries=hfile.entries, size_bytes=len(head) + hfile.size_bytes + len(tail))


def write_native_metadata_log(
    sink: BinaryIO, *, instant: str, schema_json: str, entries: Iterable[tuple[str, bytes]]
) -> MetadataLogStats:
    """Write a log of table version 10; without entries it is what begins an empty file group. As `write_metadata_log`.

    The sink must stand at its beginning.
    """
    writer = HFileWriter(sink)
    for key, value in entries:
        writer.add(key.encode("utf-8"), value)
    footer = encode_footer(NativeLogFooter(instant, schema_json)) | {_SCHEMA_INFO: schema_json}
    hfile = writer.finish({key: value.encode("utf-8") for key, value in footer.items()})
    return MetadataLogStats(entries=hfile.entries, size_bytes=hfile.size_bytes)


def write_metadata_deletes(
    sink: BinaryIO, *, instant: str, schema_json: str, partition: str, keys: pa.StringArray
) -> MetadataLogStats:
    """Write blocks that take these keys out of the partition, as Hudi does where it deletes a record."""
    headers = {HeaderKey.SCHEMA: schema_json, HeaderKey.INSTANT_TIME: instant}
    size = 0
    for content in encode_deletes(keys, None, partition_path=partition, bytes_max=SPOOL_BYTES):
        head = block_head(BlockType.DELETE, headers, len(content))
        tail = struct.pack(">iq", 0, len(head) + len(content) + 4)
        for part in (head, content, tail):
            sink.write(part)
            size += len(part)
    return MetadataLogStats(entries=len(keys), size_bytes=size)


class NativeMetadataDeletes:
    """Writes one file of keys that are taken out, at table version 10. Close it, or the sink holds no file."""

    def __init__(self, sink: BinaryIO, *, instant: str, schema_json: str) -> None:
        """
        Args:
            sink: at its beginning.
            schema_json: what the values of records are encoded by.
        """
        self._writer = HFileWriter(sink)
        self._footer = encode_footer(NativeLogFooter(instant, schema_json)) | {_SCHEMA_INFO: _DELETE_SCHEMA}

    def add(self, keys: Iterable[str]) -> None:
        """Ascending by their UTF-8 bytes, from call to call, too."""
        for key in keys:
            encoded = key.encode("utf-8")
            self._writer.add(encoded, write_number(len(encoded)) + encoded)

    def close(self) -> MetadataLogStats:
        hfile = self._writer.finish({key: value.encode("utf-8") for key, value in self._footer.items()})
        return MetadataLogStats(entries=hfile.entries, size_bytes=hfile.size_bytes)


def empty_metadata_log(instant: str) -> bytes:
    """The log that begins a file group of the metadata table: a block that deletes nothing."""
    content = no_deletes()
    head = block_head(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, len(content))
    return head + content + struct.pack(">iq", 0, len(head) + len(content) + 4)


def metadata_blocks(file: BinaryIO, size: int, name: str) -> Iterator[MetadataBlock | CorruptBlock]:
    """The blocks of a log file of `size` bytes, in file order; torn ones as `CorruptBlock`, which readers skip.

    A native log, which is whole once it is visible, is one block, and a torn one an error.

    Args:
        name: of the file, or its path, by which errors call it.

    Raises `BrokenFile`, and `Unsupported` for blocks of other types and native logs of other formats.
    """
    if (native := parse_native_log(name.rpartition("/")[2])) is not None:
        yield native_metadata_block(file, size, native, where=name)
        return
    for block in scan_blocks(file, size, name=name):
        if isinstance(block, CorruptBlock):
            yield block
            continue
        instant = block.headers.get(HeaderKey.INSTANT_TIME)
        if instant is None:
            raise _broken(block, "it does not say of which instant it is")
        schema_json = block.headers.get(HeaderKey.SCHEMA)
        if block.type is BlockType.HFILE_DATA:
            if schema_json is None:
                raise _broken(block, "it does not say of which schema its values are")
            hfile = HFileReader(file, offset=block.content_offset, length=block.content_length, name=block.where)
            yield MetadataBlock(
                instant=instant, schema_json=schema_json, hfile=hfile, deleted_keys=(), where=block.where
            )
        elif block.type is BlockType.DELETE:
            keys = tuple(key for each in read_delete_block(file, block) for key in each.keys.to_pylist())
            yield MetadataBlock(
                instant=instant, schema_json=schema_json, hfile=None, deleted_keys=keys, where=block.where
            )
        else:
            raise Unsupported(
                f"The log block in {block.where} is not supported.",
                why=f"It is of type {block.type.name}, which only older releases write into a metadata table.",
                remedy="Disable the metadata table so that Hudi's next writer builds a new one.",
            )


def native_metadata_block(file: BinaryIO, size: int, name: NativeLogName, *, where: str) -> MetadataBlock:
    """What a native log of `size` bytes holds, as the block that it would be in an inline one.

    `where` is how errors call the file. Raises `BrokenFile`, and `Unsupported` for another format than HFile.
    """
    if name.format != HFILE:
        raise Unsupported(
            f"The native log {where} is of the format {name.format}.",
            why="Logs of a metadata table are HFiles.",
            remedy="Disable the metadata table so that Hudi's next writer builds a new one.",
        )
    log = open_native_log(file, size, name, where=where)
    if log.block.type is BlockType.DELETE:
        keys = tuple(key for each in read_native_deletes(file, log, pa.schema([])) for key in each.keys.to_pylist())
        return MetadataBlock(log.footer.instant, log.footer.schema_json, None, keys, where)
    hfile = HFileReader(file, length=size, name=where)
    return MetadataBlock(log.footer.instant, log.footer.schema_json, hfile, (), where)


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(
        f"The log file {block.file} is broken in its block at byte {block.offset}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Disable the metadata table so that Hudi's next writer builds a new one.",
    )

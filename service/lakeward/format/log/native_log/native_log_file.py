"""Open a native log of rows or deletes: a whole file of its format, which readers of blocks take for one block.

    name  ->  what it holds, in which format
    footer  ->  instant, schema, what it stands for (`footer.py`)
    rows  ->  `read_data_block(file, log.block)`; deletes  ->  `delete_file.read_native_deletes`

Logs of changes have no footer of this kind, and are read by `change_file.py`.

Touches: the log file it is given, by seeking and reading.
Keeps:   1. a format that this release does not read is refused by its name before a byte of the file is read;
         2. opening reads the end of the file, and no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from lakeward.base.errors import Unsupported
from lakeward.format.file_name import HFILE, PARQUET, NativeLogKind, NativeLogName
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.format.log.data_block import read_parquet_footer
from lakeward.format.log.native_log.footer import FOOTER_PREFIX, NativeLogFooter, broken_footer, decode_footer

_DATA_BLOCKS = {PARQUET: BlockType.PARQUET_DATA, HFILE: BlockType.HFILE_DATA}


@dataclass(frozen=True, slots=True)
class NativeLog:
    """An open log of rows or deletes. The file must stay open as long as it is read."""

    name: NativeLogName
    footer: NativeLogFooter
    block: LogBlock
    """The file as a block of an inline log: of a data type for rows, of the type DELETE for deletes."""
    rows: int
    """Rows or deletes."""


def open_native_log(file: BinaryIO, size: int, name: NativeLogName, *, where: str) -> NativeLog:
    """Read the footer. Raises `BrokenFile`, and `Unsupported` for a format or version that this release does not read.

    Args:
        where: how errors call the file.
    """
    assert name.kind is not NativeLogKind.CHANGES, "a log of changes has no such footer"
    if name.format not in _DATA_BLOCKS:
        raise unknown_format(name, where)
    kind = BlockType.DELETE if name.kind is NativeLogKind.DELETES else _DATA_BLOCKS[name.format]
    entries, rows = _footer_of(file, size, name, where)
    footer = decode_footer(entries, name, where=where)
    return NativeLog(name, footer, file_as_block(kind, size, where, footer), rows)


def file_as_block(kind: BlockType, size: int, where: str, footer: NativeLogFooter | None = None) -> LogBlock:
    """A whole file as the block that it would be in an inline log; its record positions stay in their own form."""
    headers = {} if footer is None else footer.headers
    if footer is not None and footer.positions is not None:
        headers[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = footer.positions.base_instant
        headers[HeaderKey.RECORD_POSITIONS] = footer.positions.text
    return LogBlock(
        type=kind,
        headers=headers,
        content_offset=0,
        content_length=size,
        file=where,
        offset=0,
    )


def unknown_format(name: NativeLogName, where: str) -> Unsupported:
    return Unsupported(
        f"The native log {where} is of the format {name.format}.",
        why=f"This release reads {PARQUET}, and {HFILE} in metadata tables.",
        remedy="Compact this table with the Hudi release that wrote it.",
    )


def _footer_of(file: BinaryIO, size: int, name: NativeLogName, where: str) -> tuple[Mapping[str, str], int]:
    """(the entries that are the log's own, the number of rows)"""
    found: Mapping[bytes, bytes]
    if name.format == HFILE:
        hfile = HFileReader(file, length=size, name=where)
        found, rows = {key.encode(): value for key, value in hfile.info.items()}, hfile.entry_count
    else:
        footer = read_parquet_footer(file, file_as_block(BlockType.PARQUET_DATA, size, where))
        found, rows = footer.entries, footer.rows
    try:
        own = {key.decode(): value.decode() for key, value in found.items() if key.startswith(FOOTER_PREFIX.encode())}
    except UnicodeDecodeError:
        raise broken_footer(where, f"an entry whose key begins with {FOOTER_PREFIX} is not UTF-8 text") from None
    return own, rows

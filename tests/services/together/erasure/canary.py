"""A search for a text in all decompressed bytes of a table: what `erase-status` is judged by. Slow and obvious."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.avro.container import open_container
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import BlockType, LogBlock, scan_blocks
from lakeward.format.log.key_list import read_key_list
from lakeward.format.log.log_tail import read_entry_tail, read_log_tail
from lakeward.format.parquet.footer import read_ending


def files_with(base: Path, text: str) -> set[str]:
    """The files below the table that have it, by path below the table."""
    files = (path for path in base.rglob("*") if path.is_file())
    return {
        path.relative_to(base).as_posix()
        for path in files
        if any(text.encode() in part for part in decompressed(path)) or text in path.relative_to(base).as_posix()
    }


def decompressed(path: Path) -> Iterator[bytes]:
    """All that is in a file: its bytes as they are, and each part that is compressed, decompressed."""
    data = path.read_bytes()
    yield data
    file = io.BytesIO(data)
    if data.startswith(b"PAR1"):
        yield from _parquet(data, file, path)
    elif data.startswith(b"#HUDI#"):
        for block in scan_blocks(file, len(data), name=path.name):
            if isinstance(block, LogBlock) and block.type is BlockType.HFILE_DATA:
                yield from _hfile(file, block.content_offset, block.content_length)
            elif isinstance(block, LogBlock) and block.type is BlockType.PARQUET_DATA:
                content = data[block.content_offset : block.content_offset + block.content_length]
                yield from _parquet(content, io.BytesIO(content), path)
        if (tail := read_log_tail(file, len(data))) is not None and tail.key_list is not None:
            yield from _listed(tail.key_list.read(file))
    elif data.startswith(b"DATABLK*"):
        yield from _hfile(file, 0, len(data))
    elif data.startswith(b"Obj\x01"):
        yield open_container(data)[1]
    elif data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)


def _parquet(data: bytes, file: io.BytesIO, path: Path) -> Iterator[bytes]:
    table = pq.read_table(file)
    yield repr(table.to_pydict()).encode()
    metadata = pq.read_metadata(io.BytesIO(data))
    yield repr(metadata.metadata).encode()
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield repr(metadata.row_group(group).column(column).statistics).encode()
    _, footer = read_ending(file, len(data), file=path.name)
    own = read_entry_tail(dict(metadata.metadata or {}), bytes_before=len(data) - 8 - len(footer))
    if own is not None and own[0].key_list is not None:
        yield from _listed(own[0].key_list.read(own[1]))


def _hfile(file: io.BytesIO, offset: int, length: int) -> Iterator[bytes]:
    reader = HFileReader(file, offset=offset, length=length, name="hfile")
    yield repr(dict(reader.info)).encode()
    for key, value in reader.entries():
        yield key
        yield value


def _listed(data: bytes | None) -> Iterator[bytes]:
    assert data is not None
    for run in read_key_list(data):
        yield repr(pa.array(run).to_pylist()).encode()

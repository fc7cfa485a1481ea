"""Show the library nulls for those pages of a Parquet file that hold no wanted row: they are neither read nor decoded.

The library decodes column chunks from their first page on. Where few rows of a row group are wanted, the pages without
one of them are hidden from it: in the place of such a page it finds one that says that as many values are null, and
behind it one of a kind that readers pass over. Nothing moves: each chunk has its pages where the footer says.

    stored   | header | data page, values 20,000 to 39,999                 | header | data page ...
    shown    | header | 20,000 nulls | header of an index page | any bytes | header | data page ...

Rows keep their places, and the reader takes those that are wanted. Pages of columns that may not be null, and of those
with lists or fields, stay as they are.

Touches: the file it is given, by seeking and reading.
Keeps:   1. a page that holds a wanted row is as it is stored;
         2. of a page that is hidden only the header is read.
Source:  Parquet's `PageHeader` and RLE of levels. Arrow's reader and parquet-mr pass over index pages.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.format.parquet.page_header import (
    DATA_PAGE,
    DATA_PAGE_V2,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    PageHeader,
    read_page_header,
)
from lakeward.format.parquet.pages import HEADER_BYTES_MAX, BadPage, Chunk, codec_name
from lakeward.format.parquet.thrift_compact import EndsTooEarly
from lakeward.format.parquet.thrift_tree import I32, STRUCT, Struct, write_struct
from lakeward.format.protobuf import write_varint

_HEAD_BYTES = 512
_INDEX_PAGE_HEAD = bytes.fromhex("1502 1500 15")
"""Fields 1 to 3 of a header: an index page, of no bytes, stored in as many as follows."""
_VARINT_BYTES_MAX = 5
_PLAIN, _RLE = 0, 3


@dataclass(slots=True)
class _Shown:
    """The pages of a chunk up to where it was read, in their order."""

    chunk: Chunk
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    nulls: list[bytes | None] = field(default_factory=list)
    """What is shown in the place of each page; None: the page itself."""
    rows: int = 0


class NullPages(io.RawIOBase):
    """The file, in which those pages of a row group are hidden that hold no wanted row."""

    def __init__(self, source: BinaryIO, chunks: Sequence[Chunk], wanted: npt.NDArray[np.int64]) -> None:
        """
        Args:
            chunks: of one row group.
            wanted: places of rows in the row group, ascending.
        """
        self._source = source
        self._at = 0
        self._wanted = wanted
        by_start = sorted((chunk for chunk in chunks if chunk.may_be_null), key=lambda chunk: chunk.start)
        self._shown = [_Shown(chunk) for chunk in by_start]
        self._starts = [chunk.start for chunk in by_start]
        self.bytes_read = 0
        """Stored bytes that were read, headers of hidden pages among them."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = self._at + offset if whence == io.SEEK_CUR else self._source.seek(offset, whence)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Raises `BadPage`."""
        if size < 0:
            size = self._source.seek(0, io.SEEK_END) - self._at
        pieces = []
        left = size
        while left > 0:
            piece = self._piece(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _stored(self, size: int) -> bytes:
        self._source.seek(self._at)
        data = self._source.read(size)
        self._at += len(data)
        self.bytes_read += len(data)
        return data

    def _piece(self, size: int) -> bytes:
        """The next bytes, up to the end of a page."""
        number = bisect_right(self._starts, self._at) - 1
        if number < 0 or self._at >= self._shown[number].chunk.end:
            following = self._starts[number + 1] - self._at if number + 1 < len(self._starts) else size
            return self._stored(min(size, following))
        shown = self._shown[number]
        page = self._page_at(shown)
        size = min(size, shown.ends[page] - self._at)
        nulls = shown.nulls[page]
        if nulls is None:
            return self._stored(size)
        inside = self._at - shown.starts[page]
        self._at += size
        return nulls[inside : inside + size].ljust(size, b"\0")

    def _page_at(self, shown: _Shown) -> int:
        """The number of the page at this place; headers are read up to it."""
        while not shown.ends or shown.ends[-1] <= self._at:
            self._see_next(shown)
        return bisect_right(shown.starts, self._at) - 1

    def _see_next(self, shown: _Shown) -> None:
        chunk = shown.chunk
        start = shown.ends[-1] if shown.ends else chunk.start
        header = self._header(chunk, start)
        end = start + header.end + header.stored_bytes
        nulls = None
        if min(header.stored_bytes, header.values) < 0 or end > chunk.end:
            end = chunk.end  # the library says what is wrong with it
        elif header.kind in (DATA_PAGE, DATA_PAGE_V2):
            first, last = np.searchsorted(self._wanted, (shown.rows, shown.rows + header.values))
            shown.rows += header.values
            if first == last:
                coded = header.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)
                nulls = _nulls(header.values, RLE_DICTIONARY if coded else _PLAIN, chunk.codec, end - start)
                self.bytes_read += 0 if nulls is None else header.end
        shown.starts.append(start)
        shown.ends.append(end)
        shown.nulls.append(nulls)

    def _header(self, chunk: Chunk, start: int) -> PageHeader:
        size = _HEAD_BYTES
        while True:
            self._source.seek(start)
            head = self._source.read(min(size, chunk.end - start))
            try:
                return read_page_header(head, 0)
            except EndsTooEarly:
                if len(head) < size or size > HEADER_BYTES_MAX:
                    raise BadPage(f"the page header of the column {chunk.path} at byte {start} does not end") from None
            except ValueError as error:
                raise BadPage(f"a page header of the column {chunk.path} at byte {start}: {error}") from None
            size *= 8


def _nulls(values: int, encoding: int, codec: str, size: int) -> bytes | None:
    """What begins a place of `size` bytes in which a page of nulls is seen; None where it does not fit."""
    page = _null_page(values, encoding, codec)
    if page is None:
        return None
    left = size - len(page)
    if left == 0:
        return page
    for length in range(1, _VARINT_BYTES_MAX + 1):
        behind = left - len(_INDEX_PAGE_HEAD) - length - 1
        size_of_rest = write_varint(behind << 1) if behind >= 0 else b""
        if len(size_of_rest) == length:
            return page + _INDEX_PAGE_HEAD + size_of_rest + b"\0"
    return None


@lru_cache(maxsize=64)
def _null_page(values: int, encoding: int, codec: str) -> bytes | None:
    """A page in which so many values are null, with its header; None where its codec is not at hand."""
    levels = write_varint(values << 1) + b"\0"
    content = len(levels).to_bytes(4, "little") + levels + (b"\0" if encoding == RLE_DICTIONARY else b"")
    try:
        stored = content if codec == "UNCOMPRESSED" else pa.compress(content, codec_name(codec), asbytes=True)
    except (pa.ArrowException, ValueError):
        return None
    of_data = Struct({1: (I32, values), 2: (I32, encoding), 3: (I32, _RLE), 4: (I32, _RLE)})
    header = Struct({1: (I32, DATA_PAGE), 2: (I32, len(content)), 3: (I32, len(stored)), 5: (STRUCT, of_data)})
    return write_struct(header) + stored

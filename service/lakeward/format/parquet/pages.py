"""What rows of a Parquet file need when they are decoded, known before they are: page headers read on their way past.

A page is decompressed whole, and its rows may take far more than it: a value in the dictionary page is stored once and
decoded as often as a row names it. How much that is stands in no footer, and what a footer says of sizes may be wrong.
So the library reads through a `PageWatch`, which looks at the header of each page among the bytes that it hands on, and
stops the reading where the rows that were asked for would need more than the budget.

    column chunk:  header | dictionary page | header | data page | header | data page | ...

Touches: the file it is given, by seeking and reading.
Keeps:   1. no page is handed on that takes the rows asked for above the budget: `TooMuch` comes before the allocation;
         2. nothing is read twice for it, but for dictionaries, by `longest_value`;
         3. a column of one value per row is counted by the rows asked for, one with lists by all values of its pages.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.kernel import U8_IN, kernel, types
from lakeward.format.parquet.page_header import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    PageHeader,
    read_page_header,
)
from lakeward.format.parquet.thrift_compact import EndsTooEarly

_HEAD_BYTES = 4096
HEADER_BYTES_MAX = 16 * 1024 * 1024
_LENGTH_BYTES = 4
_LEVEL_BYTES = 4  # a definition and a repetition level of each value

_DELTA_BYTE_ARRAY = 7
_BYTE_ARRAY = "BYTE_ARRAY"
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class BadPage(ValueError):
    """A page header is none."""


class TooMuch(Exception):
    """The rows that were asked for need more than the budget."""

    def __init__(self, chunk: Chunk, needed: int) -> None:
        super().__init__(f"the column {chunk.path} needs {needed} bytes")
        self.chunk = chunk
        self.needed = needed


@dataclass(slots=True)
class _Page:
    first_row: int
    values: int
    size_bytes: int
    encoding: int


@dataclass(slots=True, eq=False)
class Chunk:
    """One column in one row group, and what has been seen of its pages."""

    path: str
    start: int
    end: int
    values: int
    is_flat: bool
    """One value per row."""
    width: int
    """Bytes of a decoded value, 0 where that differs."""
    codec: str
    may_be_null: bool = False
    """A column by itself, at the top of the schema, whose values may be null."""
    dictionary_stored_bytes: int = 0
    """Stored bytes of the dictionary, by the footer."""
    dictionary_bytes: int = 0
    longest: int | None = None
    """Bytes of the longest of the dictionary's values, when it was read."""
    keeps_dictionary: bool = False
    """Values are decoded to places in the dictionary, which are made values afterwards."""
    stays_dictionary: bool = False
    """Values are decoded to places in the dictionary, as was asked for."""
    cost: int = 0
    _pages: list[_Page] = field(default_factory=list)
    _seen_values: int = 0
    _next_header: int = 0
    _partial: bytes = b""

    @property
    def has_dictionary(self) -> bool:
        """True if the footer says so, or the pages showed it."""
        return self.dictionary_stored_bytes > 0 or self.dictionary_bytes > 0

    @property
    def can_keep_dictionary(self) -> bool:
        """True where a row has several values; where it has one, fewer rows do as well, and cost less."""
        return (
            not self.is_flat
            and not self.width
            and self.has_dictionary
            and not (self.keeps_dictionary or self.stays_dictionary)
        )

    @property
    def rows_at_once(self) -> int:
        """How many rows must be decoded to have the next one: those of its page, if the page is what takes the room."""
        page = next(iter(self._pages), None)
        return page.values if page is not None and self.is_flat and page.size_bytes > self.cost // 2 else 1

    def begin(self) -> None:
        """Forget the pages: the chunk is read from its start."""
        self._pages = []
        self._seen_values = 0
        self._next_header = self.start
        self._partial = b""
        self.dictionary_bytes = 0

    def ask(self, first_row: int, end_row: int) -> None:
        """Count what these rows need, by the pages seen so far."""
        if self.is_flat:
            self._pages = [page for page in self._pages if page.first_row + page.values > first_row]
        else:
            self._pages = self._pages[-1:]  # which row a page begins with is not said, and it may be half read
        self.count(first_row, end_row)

    def count(self, first_row: int, end_row: int) -> None:
        self.cost = self.dictionary_bytes
        for page in self._pages:
            values = page.values
            if self.is_flat:
                values = min(end_row, page.first_row + page.values) - max(first_row, page.first_row)
            if values > 0:
                self.cost += max(page.size_bytes, self._decoded_bytes(page, values))

    def _decoded_bytes(self, page: _Page, values: int) -> int:
        levels = 0 if self.is_flat else _LEVEL_BYTES * values
        if self.keeps_dictionary or self.stays_dictionary:
            return levels + _LENGTH_BYTES * values
        if self.width:
            return levels + self.width * values
        if page.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY):
            longest = self.dictionary_bytes if self.longest is None else self.longest
            return levels + (longest + _LENGTH_BYTES) * values
        if page.encoding == _DELTA_BYTE_ARRAY:  # each value may begin with all that the one before it was
            return levels + page.size_bytes * values
        return levels + page.size_bytes

    def see(self, at: int, data: bytes) -> bool:
        """Look for headers among bytes of the chunk, which come in order. True when there was a page."""
        known = self._next_header + len(self._partial)
        if not at <= known < at + len(data) or self._next_header >= self.end or self._seen_values >= self.values:
            return False
        data = self._partial + data[known - at :] if self._partial else data
        offset = 0 if self._partial else known - at
        found = False
        while offset < len(data) and self._next_header < self.end and self._seen_values < self.values:
            try:
                header = read_page_header(data, offset)
            except EndsTooEarly:
                break
            except ValueError as error:
                raise BadPage(f"a page header of the column {self.path} at byte {self._next_header}: {error}") from None
            self._take(header)
            self._next_header += header.end - offset + header.stored_bytes
            offset = header.end + header.stored_bytes
            found = True
        self._partial = data[offset:]
        if len(self._partial) > HEADER_BYTES_MAX:
            raise BadPage(f"the page header of the column {self.path} at byte {self._next_header} does not end")
        return found

    def _take(self, page: PageHeader) -> None:
        if min(page.size_bytes, page.stored_bytes, page.values) < 0:
            raise BadPage(f"a page of the column {self.path} at byte {self._next_header} has a negative size")
        if page.kind == DICTIONARY_PAGE:
            self.dictionary_bytes = page.size_bytes
        elif page.kind in (DATA_PAGE, DATA_PAGE_V2):
            self._pages.append(_Page(self._seen_values, page.values, page.size_bytes, page.encoding))
            self._seen_values += page.values


class PageWatch(io.RawIOBase):
    """The file as the library reads it. Nothing is counted before `begin`."""

    def __init__(self, source: BinaryIO, bytes_max: int) -> None:
        self._source = source
        self._bytes_max = bytes_max
        self._chunks: list[Chunk] = []
        self._starts: list[int] = []
        self._rows = (0, 0)
        self._total = 0

    def begin(self, chunks: Sequence[Chunk]) -> None:
        """These chunks are read from their starts. Raises `BadPage` where two lie on one place."""
        self._chunks = sorted(chunks, key=lambda chunk: chunk.start)
        self._starts = [chunk.start for chunk in self._chunks]
        for one, other in zip(self._chunks, self._chunks[1:], strict=False):
            if one.end > other.start:
                raise BadPage(f"the columns {one.path} and {other.path} lie on one another")
        for chunk in self._chunks:
            chunk.begin()

    def ask(self, first_row: int, end_row: int) -> None:
        """The rows that are read next, as counted in the row group. Raises `TooMuch`."""
        self._rows = (first_row, end_row)
        for chunk in self._chunks:
            chunk.ask(first_row, end_row)
        self._total = sum(chunk.cost for chunk in self._chunks)
        self._check()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._source.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        at = self._source.tell()
        data = self._source.read(size)
        # Each read looks at few chunks, however many columns there are: mostly at one.
        for chunk in self._chunks[max(0, bisect_right(self._starts, at) - 1) :]:
            if chunk.start >= at + len(data):
                break
            if at < chunk.end and chunk.see(at, data):
                self._total -= chunk.cost
                chunk.count(*self._rows)
                self._total += chunk.cost
                self._check()
        return data

    def _check(self) -> None:
        if self._total > self._bytes_max:
            raise TooMuch(max(self._chunks, key=lambda chunk: chunk.cost), self._total)


def chunks_of(metadata: Any, group: int, columns: Sequence[str]) -> list[Chunk]:
    """The chunks of a row group that hold the columns (names at the top of the schema). Raises `BadPage`."""
    wanted = frozenset(columns)
    found = []
    for index in range(metadata.num_columns):
        chunk = metadata.row_group(group).column(index)
        if chunk.path_in_schema.split(".")[0] not in wanted and chunk.path_in_schema not in wanted:
            continue
        column = metadata.schema.column(index)
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
            start = chunk.dictionary_page_offset
        if start < 0 or chunk.total_compressed_size < 0:
            raise BadPage(f"the column {chunk.path_in_schema} begins or ends before the file does")
        width = (
            column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(column.physical_type, 0)
        )
        found.append(
            Chunk(
                path=chunk.path_in_schema,
                start=start,
                end=start + chunk.total_compressed_size,
                values=chunk.num_values,
                is_flat=column.max_repetition_level == 0,
                width=width,
                codec=chunk.compression,
                may_be_null=column.max_repetition_level == 0
                and column.max_definition_level == 1
                and column.path == column.name,
                dictionary_stored_bytes=chunk.data_page_offset - start,
            )
        )
    return found


def longest_value(source: BinaryIO, chunk: Chunk, *, bytes_max: int) -> int:
    """The length of the longest value in the dictionary of a column of byte arrays, or what it cannot be above."""
    source.seek(chunk.start)
    head = source.read(min(_HEAD_BYTES, chunk.end - chunk.start))
    try:
        header = read_page_header(head, 0)
    except ValueError:
        return bytes_max
    size, stored = header.size_bytes, header.stored_bytes
    is_dictionary = header.kind == DICTIONARY_PAGE
    if not is_dictionary or not 0 <= size <= bytes_max or not 0 <= stored <= chunk.end - chunk.start:
        return bytes_max
    page = head[header.end : header.end + stored]
    page += source.read(stored - len(page))
    try:
        data = page if chunk.codec == "UNCOMPRESSED" else _decompressed(page, size, chunk.codec)
    except (pa.ArrowException, OSError, ValueError):
        return size
    longest = int(_longest(np.frombuffer(data, dtype=np.uint8)))
    return longest if longest >= 0 else size


def _decompressed(page: bytes, size: int, codec: str) -> bytes:
    data: bytes = pa.decompress(page, size, codec_name(codec), asbytes=True)
    return data


def codec_name(codec: str) -> str:
    """What the library calls a codec of column chunks."""
    # What it calls LZ4 here has no frame around it.
    return "lz4_raw" if codec == "LZ4" else codec.lower()


@kernel(types.int64(U8_IN))
def _longest(data: npt.NDArray[np.uint8]) -> np.int64:
    """The largest of the lengths that stand before each value; -1 where they lead beyond the end."""
    longest = np.int64(0)
    at = np.int64(0)
    while at < len(data):
        if at + 4 > len(data):
            return np.int64(-1)
        length = (
            np.int64(data[at])
            | (np.int64(data[at + 1]) << 8)
            | (np.int64(data[at + 2]) << 16)
            | (np.int64(data[at + 3]) << 24)
        )
        at += 4 + length
        if length > longest:
            longest = length
    return longest if at == len(data) else np.int64(-1)

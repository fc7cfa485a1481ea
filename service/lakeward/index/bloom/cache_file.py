"""A file of the cache of filters: what footers say of the keys of several base files, in one.

    filters    their bytes, back to back
    entries    an Arrow stream in `ENTRIES`, a row for each base file: its range, and the place of its filter

What the manifest says of it has the place and the checksum of the entries, an entry those of its filter: the ranges of
many base files are one read, and a filter is read only where the range leaves a key possible.

`cached_keys` puts one together and reads filters of it. Here are no kernels: the daemon itself reports how much the
cache has of the table.

Touches: storage, reading.
Keeps:   what is read is what was added, or an error.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.storage.storage import Storage

ENTRIES: Final = pa.schema(
    [
        pa.field("path", pa.string()),  # of the base file, relative to the base path
        pa.field("size", pa.int64()),  # of the base file
        pa.field("low", pa.string()),
        pa.field("high", pa.string()),
        pa.field("filter_type", pa.string()),  # null without a filter; then the rest is 0
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("crc32", pa.int64()),
    ]
)
_BETWEEN = "\0"
"""Stands in no path."""
_NAME = re.compile(r"(?P<number>\d+)-[0-9a-f]{32}\.keys")


@dataclass(frozen=True, slots=True)
class CacheFile:
    """One of these files, as the manifest names it."""

    path: str
    """Below the folder of the cache."""
    size: int
    entries: int
    entries_at: int
    """The first byte of the entries."""
    crc32: int
    """The checksum of the entries' bytes."""

    def read_entries(self, storage: Storage, folder: str) -> pa.Table:
        """In `ENTRIES`. Raises `BrokenFile`, also where it is not there."""
        path = join(folder, self.path)
        try:
            data = read_checked(storage, path, self.entries_at, self.size - self.entries_at, self.crc32)
        except NotFound:
            raise broken_file(path, "it is not there") from None
        try:
            with pa.ipc.open_stream(data) as stream:
                found = stream.read_all()
        except pa.ArrowException as error:
            raise broken_file(path, f"{error}") from None
        if found.schema != ENTRIES or found.num_rows != self.entries:
            raise broken_file(path, "its entries are not those that the manifest says")
        return found


def number_of(name: str) -> int | None:
    """The manifest that the attempt had read which wrote the file of this name; None where the name is none of
    Lakeward.
    """
    match = _NAME.fullmatch(name)
    return None if match is None else int(match["number"])


def entry_names(paths: pa.ChunkedArray | pa.Array, sizes: pa.ChunkedArray | pa.Array) -> pa.Array:
    """What an entry is found by: path and size of its file."""
    names = pc.binary_join_element_wise(paths, sizes.cast(pa.string()), _BETWEEN)
    return names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names


def read_checked(storage: Storage, path: str, offset: int, length: int, crc32: int) -> bytes:
    """Raises `BrokenFile`, `NotFound`."""
    with storage.open_input(path) as source:
        source.seek(offset)
        data = source.read(length)
    if zlib.crc32(data) != crc32:
        raise broken_file(path, f"the {length:,} bytes from {offset:,} on have another checksum than they should")
    return data


def broken_file(path: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The file {path} of the cache of filters is broken.",
        why=f"{why[:1].upper()}{why[1:]}.",
        remedy="Have it made again: `lakeward index rebuild TABLE --type bloom`.",
    )

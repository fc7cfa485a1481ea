"""A file of the cache of filters: what footers say of the keys of several base files, in one.

    filters    their bytes, back to back
    entries    an Arrow stream in `ENTRIES`, a row for each base file: its range, and the place of its filter

What the manifest says of it has the place and the checksum of the entries, an entry those of its filter: the ranges of
many base files are one read, and a filter is read only where the range leaves a key possible.

Touches: nothing; storage, reading, where a filter is asked for.
Keeps:   what is read is what was added, or an error.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Self

import pyarrow as pa

from lakeward.errors import BrokenFile
from lakeward.format.bloom_lookup import BloomRows
from lakeward.index.bloom.file_keys import FileKeys, KeyRange
from lakeward.index.manifest_form import DATA_FOLDER
from lakeward.storage.storage import Storage, join

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
        """In `ENTRIES`. Raises `BrokenFile`, `NotFound`."""
        path = join(folder, self.path)
        data = _read(storage, path, self.entries_at, self.size - self.entries_at, self.crc32)
        try:
            with pa.ipc.open_stream(data) as stream:
                found = stream.read_all()
        except pa.ArrowException as error:
            raise broken_file(path, f"{error}") from None
        if found.schema != ENTRIES or found.num_rows != self.entries:
            raise broken_file(path, "its entries are not those that the manifest says")
        return found


@dataclass(frozen=True, slots=True)
class CachedKeys:
    """What the cache has of one base file."""

    range: KeyRange | None
    filter_file: str
    """The path of the file that the filter is in."""
    filter_type: str | None
    """None without a filter."""
    offset: int
    length: int
    crc32: int

    @classmethod
    def of_entry(cls, folder: str, file: CacheFile, entry: Mapping[str, Any]) -> Self:
        ends = entry["low"], entry["high"]
        return cls(
            None if None in ends else KeyRange(*ends),
            join(folder, file.path),
            entry["filter_type"],
            entry["offset"],
            entry["length"],
            entry["crc32"],
        )

    def read(self, storage: Storage) -> FileKeys:
        """With the filter. Raises `BrokenFile`, `NotFound`."""
        if self.filter_type is None:
            return FileKeys(self.range, None)
        data = _read(storage, self.filter_file, self.offset, self.length, self.crc32)
        try:
            return FileKeys(self.range, BloomRows.of_bytes(data, self.filter_type))
        except ValueError as error:
            raise broken_file(self.filter_file, f"it has {error}") from None


class CacheFileBuilder:
    """Puts a file together in memory."""

    def __init__(self) -> None:
        self._filters = BytesIO()
        self._rows: list[dict[str, Any]] = []

    @property
    def filter_bytes(self) -> int:
        """What its filters take."""
        return self._filters.tell()

    @property
    def entries(self) -> int:
        return len(self._rows)

    def add(self, path: str, size: int, keys: FileKeys) -> None:
        row = {"path": path, "size": size, "offset": self._filters.tell(), "length": 0, "crc32": 0}
        if keys.range is not None:
            row |= {"low": keys.range.low, "high": keys.range.high}
        if keys.filter is not None:
            data = keys.filter.data.tobytes()
            self._filters.write(data)
            row |= {"filter_type": keys.filter.type_code, "length": len(data), "crc32": zlib.crc32(data)}
        self._rows.append(row)

    def finish(self, number: int) -> tuple[CacheFile, bytes]:
        """The file, and its content.

        Args:
            number: of the manifest that the attempt has read.
        """
        entries_at = self._filters.tell()
        with pa.ipc.new_stream(self._filters, ENTRIES) as stream:
            stream.write_table(pa.Table.from_pylist(self._rows, ENTRIES))
        content = self._filters.getvalue()
        path = f"{DATA_FOLDER}/{number}-{hashlib.sha256(content).hexdigest()[:32]}.keys"
        return CacheFile(path, len(content), len(self._rows), entries_at, zlib.crc32(content[entries_at:])), content


def number_of(name: str) -> int | None:
    """The manifest that the attempt had read which wrote the file of this name; None where the name is none of ours."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match["number"])


def _read(storage: Storage, path: str, offset: int, length: int, crc32: int) -> bytes:
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
        remedy="Have it made anew: `lakeward index rebuild TABLE --type bloom`.",
    )

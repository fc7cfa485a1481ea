"""What the cache of filters has of one file, with its filter; and a file of the cache put together of such.

Touches: nothing; storage, reading, where a filter is asked for.
Keeps:   what is read is what was added, or an error.
See:     `cache_file`, the bytes
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.format.bloom_lookup import BloomRows
from lakeward.index.bloom.cache_file import ENTRIES, CacheFile, broken_file, read_checked
from lakeward.index.bloom.file_keys import FileKeys, KeyRange
from lakeward.index.manifest_form import DATA_FOLDER
from lakeward.storage.storage import Storage


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
        data = read_checked(storage, self.filter_file, self.offset, self.length, self.crc32)
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

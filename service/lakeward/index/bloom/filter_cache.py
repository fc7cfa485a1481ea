"""The filters and ranges of a table's base files, gathered in a few files below the table, so that lookups open no
footer for them; and those of logs, which have none of their own, where that is asked for.

    .hoodie/.lakeward/index/bloom/manifest-…    which files the cache has (`cache_manifest`)
                                  data/…        `cache_file`

It is a cache. What is not in it, or is broken, or belongs to a base file of another size, is read from the footer; what
is in it of base files that are gone is passed over. A base file of one name and size never changes.

Touches: storage, reading; the log, where something is broken.
Keeps:   whatever happens to the cache, answers stay.
See:     docs/decisions/0081-the-cache-of-filters.md
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, LakewardError, Unsupported
from lakeward.index.bloom.cache_file import ENTRIES, CacheFile, entry_names
from lakeward.index.bloom.cache_manifest import CacheManifest, cache_folder, find_cache
from lakeward.index.bloom.cached_keys import CachedKeys
from lakeward.index.index_type import IndexType
from lakeward.index.out_of_use import why_out_of_use
from lakeward.storage.storage import Storage

_log = logging.getLogger(__name__)

_FILE: Final = "file"


@dataclass(frozen=True, slots=True)
class FilterCache:
    folder: str
    manifest: CacheManifest
    entries: pa.Table
    """In `ENTRIES`, and the number of the file that each is in; of a base file that is there twice the first counts."""
    broken: Mapping[str, BrokenFile]
    """The files whose entries cannot be read, by their paths."""

    @classmethod
    def of(cls, storage: Storage, folder: str) -> Self | None:
        """The cache as it is; None where there is none. Raises `BrokenFile` and `Unsupported` for its manifest."""
        manifest = find_cache(storage, folder)
        return None if manifest is None else cls._read(storage, folder, manifest)

    @classmethod
    def _read(cls, storage: Storage, folder: str, manifest: CacheManifest) -> Self:
        found: list[pa.Table] = []
        broken: dict[str, BrokenFile] = {}
        for number, file in enumerate(manifest.files):
            try:
                entries = file.read_entries(storage, folder)
            except BrokenFile as error:
                broken[file.path] = error
            else:
                found.append(entries.append_column(_FILE, pa.array([number] * len(entries), pa.int32())))
        schema = ENTRIES.append(pa.field(_FILE, pa.int32()))
        return cls(folder, manifest, pa.concat_tables([schema.empty_table(), *reversed(found)]), broken)

    def rows_of(self, paths: Sequence[str], sizes: Sequence[int]) -> list[int | None]:
        """The row that each of these base files has in `entries`."""
        held = entry_names(self.entries.column("path"), self.entries.column("size"))
        asked = entry_names(pa.array(paths, pa.string()), pa.array(sizes, pa.int64()))
        rows: list[int | None] = pc.index_in(asked, value_set=held).to_pylist()
        return rows

    def covers(self, paths: Sequence[str], sizes: Sequence[int]) -> bool:
        """Whether it has all of these base files."""
        return None not in self.rows_of(paths, sizes)

    def keys_of(self, rows: Sequence[int]) -> list[CachedKeys]:
        files = self.manifest.files
        entries = self.entries.take(pa.array(rows, pa.int64())).to_pylist()
        return [CachedKeys.of_entry(self.folder, files[entry[_FILE]], entry) for entry in entries]

    def files_of(self, rows: Sequence[int]) -> list[CacheFile]:
        """The file that each of these rows is in."""
        numbers = self.entries.column(_FILE).take(pa.array(rows, pa.int64())).to_pylist()
        return [self.manifest.files[number] for number in numbers]


def usable_cache(storage: Storage, base_path: str) -> FilterCache | None:
    """The cache, for lookups; None, with a line in the log, where there is none that can be used."""
    try:
        why = why_out_of_use(storage, base_path, IndexType.BLOOM)
        if why is not None:
            _log.warning("The cache of filters is out of use, footers are read instead: %s", why)
            return None
        cache = FilterCache.of(storage, cache_folder(base_path))
    except (BrokenFile, Unsupported) as error:
        report_broken(error)
        return None
    for broken in cache.broken.values() if cache is not None else ():
        report_broken(broken)
    return cache


def report_broken(error: LakewardError) -> None:
    _log.warning("Footers are read instead: %s %s %s", error.what, error.why, error.remedy)

"""The cache of filters below a table, written: what is added goes into files of some size, then the next manifest names
them.

*Stopped anywhere*, files lie there that no manifest names.

Touches: the folder of the cache.
Keeps:   1. a change is there whole or not at all, and none is lost to another process's;
         2. memory is bounded by one file and one filter.
See:     docs/decisions/0081-the-cache-of-filters.md
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from secrets import token_hex

from lakeward.base.errors import BrokenFile, IndexMoved, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.index.bloom.cache_file import CacheFile
from lakeward.index.bloom.cache_manifest import CACHE_FORM, CacheManifest, cache_folder
from lakeward.index.bloom.cache_merge import FILE_BYTES
from lakeward.index.bloom.cached_keys import CacheFileBuilder
from lakeward.index.bloom.file_keys import FileKeys
from lakeward.index.index_type import IndexType
from lakeward.index.manifest_form import DATA_FOLDER, manifest_path
from lakeward.protocol.creation import create_once
from lakeward.protocol.index.manifests import delete_unnamed, publish
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.storage.storage import Storage


class FilterCacheWriter:
    def __init__(self, storage: Storage, folder: str, read: CacheManifest, *, file_bytes: int = FILE_BYTES) -> None:
        """
        Args:
            read: the manifest that the change is made with.
            file_bytes: filters of a file, after which the next one is begun.
        """
        self._storage = storage
        self._folder = folder
        self._read = read
        self._file_bytes = file_bytes
        self._builder = CacheFileBuilder()
        self._written: list[CacheFile] = []

    def add(self, path: str, size: int, keys: FileKeys) -> None:
        """What is known of the keys of a file."""
        self._builder.add(path, size, keys)
        if self._builder.filter_bytes >= self._file_bytes:
            self._write()

    def publish(
        self,
        *,
        without: Collection[str],
        with_logs: bool,
        unread: tuple[tuple[str, int], ...] = (),
    ) -> CacheManifest:
        """Make what was added part of the cache, if that changes it. Raises `IndexMoved` where others are always
        faster, or dropped it.

        Args:
            without: paths of files that are no part of it any more.
            with_logs: the cache is to have logs, too.
            unread: path and size of the files that could not be read.
        """
        if self._builder.entries:
            self._write()
        said = replace(self._read, with_logs=with_logs, unread=unread)
        if self._read.is_built and not self._written and not without and said == self._read:
            return self._read

        def change(newest: CacheManifest) -> CacheManifest:
            if newest.is_dropped:
                raise IndexMoved(
                    "The cache of filters is not changed: another process dropped it.",
                    remedy="Build it, if it is wanted: `lakeward index build TABLE --type bloom`.",
                )
            written = {file.path for file in self._written}
            kept = (file for file in newest.files if file.path not in without and file.path not in written)
            return replace(newest, files=(*kept, *self._written), with_logs=with_logs, unread=unread)

        manifest = publish(self._storage, self._folder, CACHE_FORM, self._read, change, by=token_hex(8))
        delete_unnamed(self._storage, self._folder, CACHE_FORM)
        return manifest

    def _write(self) -> None:
        file, content = self._builder.finish(self._read.number)
        self._storage.make_folder(join(self._folder, DATA_FOLDER))
        create_once(self._storage, join(self._folder, file.path), content)
        self._written.append(file)
        self._builder = CacheFileBuilder()


def create_filter_cache(storage: Storage, folder: str, *, with_logs: bool) -> CacheManifest:
    """The cache that is there, or one that has nothing. What was dropped before, by a process that died over it, or is
    broken, is deleted.

    Args:
        with_logs: a new one is to have logs, too.
    """
    try:
        newest = CACHE_FORM.read_newest(storage, folder)
    except BrokenFile:
        storage.delete_folder(folder)
    else:
        if newest is not None and not newest.is_dropped:
            return newest
        storage.delete_folder(folder)
    storage.make_folder(folder)
    empty = CacheManifest(0, with_logs=with_logs)
    create_once(storage, manifest_path(folder, empty.number), CACHE_FORM.encode(empty))
    return empty


def drop_filter_cache(storage: Storage, base_path: str) -> bool:
    """Take the cache away, and leave nothing of it, nor what was said of it; False where there was none.

    A manifest says that it is dropped before anything is deleted, for processes that are about to change it."""
    folder = cache_folder(base_path)
    try:
        newest = CACHE_FORM.read_newest(storage, folder)
        if newest is not None and not newest.is_dropped:
            publish(storage, folder, CACHE_FORM, newest, lambda each: replace(each, is_dropped=True), by="drop")
    except (BrokenFile, NotFound, Unsupported):
        pass
    put_in_use(storage, base_path, IndexType.BLOOM)
    return storage.delete_folder(folder)

"""The cache of filters of a table, filled from footers of base files and keys of logs, and kept up to date.

    build      the footers of all live base files; the logs of the newest slices too, where that is asked for
    update     those that it lacks, and that its broken files had; what is gone goes with the files it is in
               (`index/bloom/cache_merge`)
    rebuild    as build, beside the cache that is there, whose files one manifest leaves out

A table of any kind that can be inspected has base files: a footer without filter and range is known to have none. What
comes while the cache is filled, lookups read from the footers, and the next update takes in.

Touches: the folder of the cache; the table, reading: footers, eight at once, and logs.
Keeps:   1. what the cache has of a file is what its footer, or the keys of the log, say;
         2. after an update it has every file that was live when it began, whatever of it was broken, or says that the
            file could not be read.
Memory:  eight footers, or the keys of one log; and one file of the cache.
See:     docs/decisions/0081-the-cache-of-filters.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from lakeward.base.errors import BrokenFile, LakewardError, NotFound, Refused, Unsupported
from lakeward.index.bloom.cache_manifest import cache_folder
from lakeward.index.bloom.cache_merge import FILE_BYTES, files_to_replace
from lakeward.index.bloom.cached_keys import CachedKeys
from lakeward.index.bloom.data_files import DataFile, data_files
from lakeward.index.bloom.file_keys import FileKeys, read_file_keys
from lakeward.index.bloom.filter_cache import FilterCache
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import check_commits_are_known
from lakeward.protocol.index.filter_cache_writer import FilterCacheWriter, create_filter_cache
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

FOOTERS_AT_ONCE: Final = 8

OnFile = Callable[[int, int], None]
"""Called with how many files were read, and of how many."""


@dataclass(frozen=True, slots=True)
class CacheChange:
    """What happened to the cache."""

    covered: int
    """The files of the table that it has now."""
    read: int
    """Footers and logs that were read for it."""
    gone: int
    """Entries of files that are gone, which it has no more."""
    files: int
    """The files that it is in."""
    bytes: int
    commits: int
    """Commits of whose files any was read."""
    notes: tuple[str, ...] = ()
    """What was broken: files of the cache, whose entries were read again, and of the table, which are left out; so are
    logs that cannot be known."""


def build_filter_cache(
    storage: Storage, snapshot: TableSnapshot, *, with_logs: bool, on_file: OnFile, file_bytes: int = FILE_BYTES
) -> CacheChange:
    """Raises `Refused` where there is one, and what `rebuild_filter_cache` does."""
    folder = cache_folder(snapshot.base_path)
    with suppress(BrokenFile):
        found = FilterCache.of(storage, folder)
        if found is not None and found.manifest.files:
            raise Refused(
                "The table has a cache of filters already.",
                why=f"It is in {folder}.",
                remedy="Bring it up to date (`lakeward index update`), make it again (`rebuild`), or drop it first.",
            )
    return rebuild_filter_cache(storage, snapshot, with_logs=with_logs, on_file=on_file, file_bytes=file_bytes)


def rebuild_filter_cache(
    storage: Storage,
    snapshot: TableSnapshot,
    *,
    with_logs: bool | None = None,
    on_file: OnFile,
    file_bytes: int = FILE_BYTES,
) -> CacheChange:
    """Raises `Refused` for a table of which Lakeward keeps no indexes, `Unsupported` for a cache of a later release,
    and `TryLater`.

    Args:
        with_logs: the cache is to have logs, too; None: as the one that is there.
    """
    check_commits_are_known(snapshot)
    folder = cache_folder(snapshot.base_path)
    read = create_filter_cache(storage, folder, with_logs=bool(with_logs))
    filling = _Filling(storage, snapshot, FilterCacheWriter(storage, folder, read, file_bytes=file_bytes))
    with_logs = read.with_logs if with_logs is None else with_logs
    filling.read(data_files(snapshot, with_logs=with_logs), on_file)
    gone = sum(file.entries for file in read.files)
    change = filling.published(without=read.paths, gone=gone, with_logs=with_logs)
    put_in_use(storage, snapshot.base_path, IndexType.BLOOM)
    return change


def update_filter_cache(
    storage: Storage, snapshot: TableSnapshot, *, on_file: OnFile, file_bytes: int = FILE_BYTES
) -> CacheChange:
    """Raises `Refused` where there is none, and what `rebuild_filter_cache` does."""
    check_commits_are_known(snapshot)
    folder = cache_folder(snapshot.base_path)
    try:
        cache = FilterCache.of(storage, folder)
    except BrokenFile as error:
        change = rebuild_filter_cache(storage, snapshot, on_file=on_file, file_bytes=file_bytes)
        unknown = "Whether it had logs is not known, and it has none now."
        return replace(change, notes=(_sentence(error), unknown, *change.notes))
    if cache is None:
        raise Refused(
            "The table has no cache of filters.",
            why=f"There is none in {folder}.",
            remedy="Build it: `lakeward index build TABLE --type bloom`.",
        )
    live = data_files(snapshot, with_logs=cache.manifest.with_logs)
    rows = cache.rows_of([file.path for file in live], [file.size for file in live])
    held = {file: row for file, row in zip(live, rows, strict=True) if row is not None}
    in_file = dict(zip(held, cache.files_of([*held.values()]), strict=True))
    counts = Counter(in_file.values())
    whole = [file for file in cache.manifest.files if file.path not in cache.broken]
    replaced = files_to_replace({file: counts[file] for file in whole})

    filling = _Filling(storage, snapshot, FilterCacheWriter(storage, folder, cache.manifest, file_bytes=file_bytes))
    filling.notes += map(_sentence, cache.broken.values())
    missing = [file for file in live if file not in held]
    moved = [file for file in held if in_file[file] in replaced]
    for file, cached in zip(moved, cache.keys_of([held[file] for file in moved]), strict=True):
        if not filling.copy(file, cached):
            missing.append(file)
    filling.covered += len(held) - len(moved)
    filling.read(sorted(missing), on_file)
    return filling.published(
        without={*cache.broken, *(file.path for file in replaced)},
        gone=sum(file.entries - counts[file] for file in replaced),
        with_logs=cache.manifest.with_logs,
    )


class _Filling:
    """What a change of the cache has done until now."""

    def __init__(self, storage: Storage, snapshot: TableSnapshot, writer: FilterCacheWriter) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._writer = writer
        self._files: list[DataFile] = []
        self._unread: list[DataFile] = []
        self.covered = 0
        self.notes: list[str] = []

    def copy(self, file: DataFile, cached: CachedKeys) -> bool:
        """Take over what the cache has in another file; False where that is broken, or gone."""
        try:
            keys = cached.read(self._storage)
        except BrokenFile as error:
            self.notes.append(_sentence(error))
            return False
        except NotFound:
            return False
        self._add(file, keys)
        return True

    def read(self, files: Sequence[DataFile], on_file: OnFile) -> None:
        bases = [file for file in files if not file.is_log]
        with ThreadPoolExecutor(FOOTERS_AT_ONCE, thread_name_prefix="lakeward-footer") as pool:
            for start in range(0, len(bases), FOOTERS_AT_ONCE):
                on_file(start, len(files))
                some = bases[start : start + FOOTERS_AT_ONCE]
                for file, keys in zip(some, pool.map(self._keys_of, some), strict=True):
                    self._take(file, keys)
        for done, log in enumerate(file for file in files if file.is_log):
            on_file(len(bases) + done, len(files))
            self._take(log, self._keys_of(log))

    def published(self, *, without: Collection[str], gone: int, with_logs: bool) -> CacheChange:
        unread = tuple((file.path, file.size) for file in sorted(self._unread))
        manifest = self._writer.publish(without=without, with_logs=with_logs, unread=unread)
        return CacheChange(
            self.covered,
            len(self._files),
            gone,
            len(manifest.files),
            manifest.size_bytes,
            commits=len({file.instant for file in self._files}),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _keys_of(self, file: DataFile) -> FileKeys | LakewardError | None:
        """None for a file that is not there: a clean took it away meanwhile, or the table is damaged."""
        try:
            return read_file_keys(self._storage, self._snapshot, file)
        except (BrokenFile, Unsupported) as error:
            return error
        except NotFound:
            return None

    def _take(self, file: DataFile, keys: FileKeys | LakewardError | None) -> None:
        if isinstance(keys, FileKeys):
            self._files.append(file)
            self._add(file, keys)
            return
        self._unread.append(file)
        if keys is not None:
            self.notes.append(_sentence(keys))

    def _add(self, file: DataFile, keys: FileKeys) -> None:
        self._writer.add(file.path, file.size, keys)
        self.covered += 1


def _sentence(error: LakewardError) -> str:
    return f"{error.what} {error.why}"

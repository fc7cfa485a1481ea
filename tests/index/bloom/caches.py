"""Caches of filters for tests: built, and spoiled in one of the ways in which a file can be."""

from __future__ import annotations

from pathlib import Path
from random import Random

from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import TYPE_CODE, BloomRows
from lakeward.index.bloom.cache_manifest import cache_folder
from lakeward.index.bloom.file_keys import FileKeys, KeyRange
from lakeward.index.bloom.filter_cache import FilterCache
from lakeward.protocol.index.filter_cache_writer import FilterCacheWriter
from lakeward.services.indexing.run.filter_cache_update import CacheChange, rebuild_filter_cache, update_filter_cache
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot

STORAGE = LocalStorage()


def quiet(done: int, of: int) -> None:
    pass


def rebuilt(snapshot: TableSnapshot, **options) -> CacheChange:
    return rebuild_filter_cache(STORAGE, snapshot, on_file=quiet, **options)


def updated(snapshot: TableSnapshot, **options) -> CacheChange:
    return update_filter_cache(STORAGE, snapshot, on_file=quiet, **options)


def cache_files(table: Path) -> list[Path]:
    return sorted(path for path in (table / ".hoodie/.lakeward/index/bloom").rglob("*") if path.is_file())


def spoil_cache(table: Path, chance: Random) -> str:
    """One file of the cache is cut short, lost, or has another byte."""
    path = chance.choice(cache_files(table))
    data = path.read_bytes()
    match chance.choice(["cut", "lost", "bent"]):
        case "cut":
            path.write_bytes(data[: chance.randrange(len(data))])
        case "lost":
            path.unlink()
        case _:
            at = chance.randrange(len(data))
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :])
    return path.name


def mislead_cache(table: Path, how: str) -> None:
    """The cache is whole, and says of its first base file what is not so: no key of it lies within its range, or passes
    its filter."""
    folder = cache_folder(str(table))
    cache = FilterCache.of(STORAGE, folder)
    assert cache is not None
    writer = FilterCacheWriter(STORAGE, folder, cache.manifest)
    for number, (entry, cached) in enumerate(
        zip(cache.entries.to_pylist(), cache.keys_of(range(len(cache.entries))), strict=True)
    ):
        keys = cached.read(STORAGE)
        if number == 0:
            empty = BloomRows.of_bytes(BloomFilter(5).to_bytes(), TYPE_CODE)
            keys = FileKeys(KeyRange("~", "~~"), keys.filter) if how == "range" else FileKeys(keys.range, empty)
        writer.add(entry["path"], entry["size"], keys)
    writer.publish(without=cache.manifest.paths, with_logs=False)

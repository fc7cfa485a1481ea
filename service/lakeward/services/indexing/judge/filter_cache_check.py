"""Does the cache of filters say what the footers say, and the keys of logs? Its entries are held against the files that
they are of.

A difference would let a lookup pass over a file that has the key. What is broken would not: it is seen as it is read.

Touches: reads the cache, footers and logs; writes nothing and takes no lock.
Keeps:   an entry whose range or filter is another one than that of its file is found, where it is among those drawn.
See:     docs/decisions/0081-the-cache-of-filters.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.index.bloom.cache_manifest import cache_folder
from lakeward.index.bloom.cached_keys import CachedKeys
from lakeward.index.bloom.data_files import DataFile, data_files
from lakeward.index.bloom.file_keys import FileKeys, read_file_keys
from lakeward.index.bloom.filter_cache import FilterCache
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, order=True)
class WrongEntry:
    path: str
    """The file of the table."""
    what: str
    """The end of a sentence."""


@dataclass(frozen=True, slots=True)
class FilterCacheCheck:
    checked: int
    of: int
    """Entries of live files."""
    wrong: tuple[WrongEntry, ...] = ()
    broken: tuple[str, ...] = ()
    """What cannot be read of the cache, as sentences; it is read elsewhere."""

    @property
    def is_complete(self) -> bool:
        return self.checked == self.of and not self.broken

    @property
    def summary(self) -> str:
        """What is wrong, as the end of a sentence, with one file for all."""
        first = self.wrong[0]
        return f"{len(self.wrong):,} of {self.checked:,} entries were found wrong, such as {first.path}: {first.what}."


def check_filter_cache(
    storage: Storage,
    snapshot: TableSnapshot,
    size: CheckSize,
    *,
    on_step: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> FilterCacheCheck | None:
    """None where there is no cache. Raises `Unsupported` for one of a later release, and what reading footers raises.

    Args:
        on_step: called with what is done, how much of it, and how much there is of it.
    """
    try:
        cache = FilterCache.of(storage, cache_folder(snapshot.base_path))
    except BrokenFile as error:
        return FilterCacheCheck(0, 0, broken=(f"{error.what} {error.why}",))
    if cache is None:
        return None
    live = data_files(snapshot, with_logs=cache.manifest.with_logs)
    rows = cache.rows_of([file.path for file in live], [file.size for file in live])
    held = [(file, row) for file, row in zip(live, rows, strict=True) if row is not None]
    drawn = held if len(held) <= size.number else Random(size.seed).sample(held, size.number)
    wrong, checked = [], 0
    broken = [f"{error.what} {error.why}" for error in cache.broken.values()]
    for done, ((file, _), cached) in enumerate(zip(drawn, cache.keys_of([row for _, row in drawn]), strict=True)):
        on_step("held {} of {} cached filters against their files", done, len(drawn))
        try:
            what = _difference(storage, snapshot, file, cached)
        except BrokenFile as error:
            broken.append(f"{error.what} {error.why}")
        except NotFound:
            pass  # the file was cleaned meanwhile, or the cache made again
        else:
            checked += 1
            if what:
                wrong.append(WrongEntry(file.path, what))
    return FilterCacheCheck(checked, len(held), tuple(sorted(wrong)), tuple(dict.fromkeys(broken)))


def _difference(storage: Storage, snapshot: TableSnapshot, file: DataFile, cached: CachedKeys) -> str:
    """Empty where there is none."""
    there = read_file_keys(storage, snapshot, file)
    held = cached.read(storage)
    if held.range != there.range:
        return f"the cache says that its keys are {_range(held)}, and they are {_range(there)}"
    return "" if _filter(held) == _filter(there) else "its filter is another one than the cache has"


def _range(keys: FileKeys) -> str:
    return "of no known range" if keys.range is None else f"from {keys.range.low!r} to {keys.range.high!r}"


def _filter(keys: FileKeys) -> tuple[str, bytes] | None:
    return None if keys.filter is None else (keys.filter.type_code, keys.filter.data.tobytes())

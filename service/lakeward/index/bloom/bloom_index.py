"""The bloom index: the keys of the newest base file of each file group, of which range and filter say first which keys
they may have.

    range     the smallest and the greatest key
    filter    some keys that are not there pass
    exact     the keys themselves, of the row groups that may have those that are left

Range and filter are those of the footer, which the cache has (`filter_cache`), else the metadata table,
or which is read. What is known without the footer rules files out before any is opened.

Answers are those of the simple index: a range or a filter that is not there, or is broken, leaves all keys possible.

Touches: base files: the footer of each of which nothing else is known, and of some the column of record keys; the cache
         and the metadata table, reading; the log, where they are broken.
Keeps:   what it finds of a file's keys is what the simple index finds, whatever cache and metadata table have.
See:     docs/decisions/0071-the-bloom-index.md, docs/decisions/0081-the-cache-of-filters.md
Source:  HoodieBloomIndex, HoodieGlobalBloomIndex (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.format.bloom_lookup import BloomRows
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS
from lakeward.format.metadata.record import BloomFilterRecord, ColumnStatsRecord, MetadataRecord
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import row_groups
from lakeward.index.base_files import BaseFiles, KeyFile
from lakeward.index.bloom.cached_keys import CachedKeys
from lakeward.index.bloom.file_keys import FileKeys, KeyRange, filter_of
from lakeward.index.bloom.filter_cache import FilterCache, report_broken, usable_cache
from lakeward.index.bloom.key_spans import KeySpans
from lakeward.index.location import KEY_COLUMN, RECORD_KEY
from lakeward.read.slice_keys import base_keys
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.snapshot import TableSnapshot

_SAMPLED: Final = 256
"""Files whose ranges in the metadata table are compared to see whether ranges separate."""
_FILTERS_AT_ONCE: Final = 16
"""Filters that are held while those of the metadata table are asked."""


_ORDERS_DIFFER_FROM: Final = "\ue000"


@dataclass(frozen=True, slots=True)
class MetadataFilters:
    """Ranges and filters of base files from the metadata table, where Hudi or Lakeward keep them there.

        column_stats     the range of the record key
        bloom_filters    the text of the footer's filter

    The ends of a range there come from Parquet's statistics, whose order is that of UTF-8 bytes. Between them lie all
    keys of the file in Java's order, too, where no end has a character from U+E000 on: comparing a key with such an
    end, the first byte in which they differ decides alike in both orders. A range that has one is not taken. Nor is one
    that counts nulls, of which record keys have none: Hudi counts as such the rows of row groups whose keys are too
    long for Parquet's statistics, and their keys are not in the range.

    What is not there, deleted, or no range or filter, is not known; what cannot be read is logged, and not
    known.
    """

    table: MetadataTable

    @classmethod
    def of(cls, storage: Storage, snapshot: TableSnapshot, *, clock: Clock) -> Self | None:
        """None where the metadata table has neither."""
        config = snapshot.config
        there = [name for name in (COLUMN_STATS, BLOOM_FILTERS) if name in config.built_metadata_partitions]
        if not there:
            return None
        try:
            table = load_metadata_table(
                storage, snapshot.base_path, config, snapshot.timeline, clock=clock, partitions=there
            )
        except (BrokenFile, Unsupported) as error:
            report_broken(error)
            return None
        return cls(table)

    def ranges(self, storage: Storage, files: Sequence[KeyFile]) -> list[KeyRange | None]:
        keys = [column_stats_key(RECORD_KEY, file.partition_path, file.name) for file in files]
        found = self._lookup(storage, COLUMN_STATS, keys)
        return [_range(found.get(key)) for key in keys]

    def filters(self, storage: Storage, files: Iterable[KeyFile]) -> dict[KeyFile, BloomRows]:
        keys = {file: bloom_filter_key(file.partition_path, file.name) for file in files}
        found = self._lookup(storage, BLOOM_FILTERS, keys.values())
        filters = {file: _filter(found.get(key)) for file, key in keys.items()}
        return {file: filter_ for file, filter_ in filters.items() if filter_ is not None}

    def _lookup(self, storage: Storage, partition: str, keys: Iterable[str]) -> dict[str, MetadataRecord]:
        if not self.table.slices.get(partition):
            return {}
        try:
            return MetadataReader(storage, self.table).lookup(partition, keys)
        except (BrokenFile, Unsupported) as error:
            report_broken(error)
        except NotFound:
            pass  # compacted and cleaned meanwhile
        return {}


def _range(record: MetadataRecord | None) -> KeyRange | None:
    if not isinstance(record, ColumnStatsRecord) or record.is_deleted or record.null_count != 0:
        return None
    low, high = record.min_value, record.max_value
    if not isinstance(low, str) or not isinstance(high, str) or max(low + high, default="") >= _ORDERS_DIFFER_FROM:
        return None
    return KeyRange(low, high) if low <= high else None


def _filter(record: MetadataRecord | None) -> BloomRows | None:
    if not isinstance(record, BloomFilterRecord) or record.is_deleted:
        return None
    return filter_of(record.bloom_filter, record.type_code)


@dataclass(frozen=True, slots=True)
class BloomPart:
    file: KeyFile
    cached: CachedKeys | None = None
    """What the cache has of it."""

    @property
    def partition_path(self) -> str:
        return self.file.partition_path


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """Which files are asked for which keys, by the ranges that are known before a file is opened."""

    parts: Sequence[BloomPart]
    spans: KeySpans
    ranges: int
    """The files whose range is known."""

    @property
    def pairs(self) -> int:
        """A file is to be asked for a key so many times,"""
        return self.spans.pairs

    @property
    def pairs_of(self) -> int:
        """and without ranges so many times."""
        return len(self.parts) * len(self.spans.keys)

    @property
    def files_left(self) -> int:
        """The files that may have one of the keys."""
        return int((self.spans.ends > self.spans.starts).sum())

    @property
    def asked(self) -> Iterator[tuple[BloomPart, pa.Array]]:
        for number, part in enumerate(self.parts):
            keys = self.spans.of_file(number)
            if len(keys):
                yield part, keys


@dataclass(frozen=True, slots=True)
class BloomIndex:
    bases: BaseFiles
    is_global: bool = False
    cache: FilterCache | None = field(default=None, compare=False)
    metadata: MetadataFilters | None = field(default=None, compare=False)

    can_index_log_files = False

    @classmethod
    def of(cls, storage: Storage, snapshot: TableSnapshot, *, clock: Clock, is_global: bool = False) -> BloomIndex:
        index = cls(BaseFiles.of(snapshot), is_global, usable_cache(storage, snapshot.base_path))
        every = [file for files in index.bases.files.values() for file in files]
        if index.cache is not None and index.cache.covers([file.path for file in every], [file.size for file in every]):
            return index
        return replace(index, metadata=MetadataFilters.of(storage, snapshot, clock=clock))

    def __reduce__(self) -> tuple[object, ...]:
        """To tasks neither cache nor metadata table travel: each part has what the cache says of its file."""
        return BloomIndex, (self.bases, self.is_global)

    def parts(self, partitions: Collection[str] | None) -> Sequence[BloomPart]:
        """One base file each. Raises `Refused` where keys may be in logs alone."""
        return self.known(self.bases.within(partitions))

    def ranges(self, storage: Storage, parts: Sequence[BloomPart]) -> list[KeyRange | None]:
        """The range of each file's keys, where it is known without opening it."""
        ranges = [None if part.cached is None else part.cached.range for part in parts]
        unknown = [number for number, part in enumerate(parts) if part.cached is None]
        if self.metadata is not None:
            found = self.metadata.ranges(storage, [parts[number].file for number in unknown])
            for number, range_ in zip(unknown, found, strict=True):
                ranges[number] = range_
        return ranges

    def plan(self, storage: Storage, parts: Sequence[BloomPart], keys: pa.Array) -> LookupPlan:
        keys = keys.cast(pa.string())
        ranges = [None if part.cached is None else part.cached.range for part in parts]
        unknown = [number for number, part in enumerate(parts) if part.cached is None]
        if self.metadata is not None and unknown:
            few = set(unknown[:: len(unknown) // _SAMPLED + 1])
            for some in (sorted(few), [each for each in unknown if each not in few]):
                found = self.metadata.ranges(storage, [parts[number].file for number in some])
                for number, range_ in zip(some, found, strict=True):
                    ranges[number] = range_
                if not spans_of(keys, [ranges[number] for number in some]).separates:
                    break
        spans = spans_of(keys, ranges)
        return LookupPlan(parts, spans, sum(each is not None for each in ranges))

    def narrowed(
        self, storage: Storage, parts: Sequence[BloomPart], keys: pa.Array
    ) -> Iterator[tuple[BloomPart, pa.Array]]:
        """The parts that may have some of these keys, by what is known before one is opened, each with those."""
        asked = self.plan(storage, parts, keys).asked
        while some := list(islice(asked, _FILTERS_AT_ONCE)):
            unknown = [part.file for part, _ in some if part.cached is None]
            found = {} if self.metadata is None else self.metadata.filters(storage, unknown)
            for part, left in some:
                filter_ = found.get(part.file)
                possible = left if filter_ is None else FileKeys(None, filter_).possible(left)
                if len(possible):
                    yield part, possible

    def known(self, files: Sequence[KeyFile]) -> Sequence[BloomPart]:
        cached = self.cached([file.path for file in files], [file.size for file in files])
        return [BloomPart(file, each) for file, each in zip(files, cached, strict=True)]

    def cached(self, paths: Sequence[str], sizes: Sequence[int]) -> Sequence[CachedKeys | None]:
        """What the cache has of these files."""
        if self.cache is None:
            return [None] * len(paths)
        rows = self.cache.rows_of(paths, sizes)
        found = iter(self.cache.keys_of([row for row in rows if row is not None]))
        return [None if row is None else next(found) for row in rows]

    def look_up(self, storage: Storage, part: BloomPart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """The keys that the base file has of these, each once."""
        wanted = None if keys is None else _Wanted(keys)
        if wanted is not None and part.cached is not None and not wanted.may_be_in(storage, part.cached):
            return
        file = part.file
        choose = None if wanted is None else wanted.choose
        found = []
        for read in base_keys(storage, join(self.bases.base_path, file.path), name=file.path, choose=choose):
            found.append(read if wanted is None else read.filter(pc.is_in(read, wanted.keys)))
        there = pc.unique(pa.chunked_array(found, pa.string()))
        if len(there):
            yield file.locations(there)


def spans_of(keys: pa.StringArray, ranges: Sequence[KeyRange | None]) -> KeySpans:
    """
    Args:
        ranges: that of each file; None where it is not known.
    """
    lows = pa.array([None if each is None else each.low for each in ranges], pa.string())
    highs = pa.array([None if each is None else each.high for each in ranges], pa.string())
    return KeySpans.of(keys, lows, highs)


class _Wanted:
    """Keys that are looked for in one file; fewer, once it is known what it has."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._is_narrowed = False

    def may_be_in(self, storage: Storage, cached: CachedKeys) -> bool:
        """Whether the file may have one, by what the cache says of it."""
        try:
            self.keys = cached.read(storage).possible(self.keys)
        except BrokenFile as error:
            report_broken(error)
            return True
        except NotFound:
            return True  # the cache was made again or dropped meanwhile
        self._is_narrowed = True
        return len(self.keys) > 0

    def choose(self, file: ParquetBatches) -> Sequence[int]:
        """The row groups that may have any of the keys."""
        if not self._is_narrowed:
            self.keys = FileKeys.of_footer(file.metadata.metadata or {}).possible(self.keys)
        return _groups_with(file, self.keys) if len(self.keys) else []


def _groups_with(file: ParquetBatches, keys: pa.Array) -> Sequence[int]:
    """The numbers of the row groups whose statistics do not rule all of the keys out."""
    ordered = keys.cast(pa.binary()).sort()
    chosen = []
    for group in row_groups(file, KEY_COLUMN):
        if RECORD_KEY not in group.ranges:
            chosen.append(group.number)  # nothing is known of it
        elif (found := group.ranges[RECORD_KEY]) is not None:
            low, high = (pa.scalar(str(bound).encode(), pa.binary()) for bound in (found.low, found.high))
            before = pc.search_sorted(ordered, low, side="left").as_py()
            if before < pc.search_sorted(ordered, high, side="right").as_py():
                chosen.append(group.number)
    return chosen

"""Ranges and filters of base files from the metadata table, where Hudi or Lakeward keep them there.

    column_stats     the range of the record key
    bloom_filters    the text of the footer's filter

The ends of a range there come from Parquet's statistics, whose order is that of UTF-8 bytes. Between them lie all keys
of the file in Java's order, too, where no end has a character from U+E000 on: comparing a key with such an end, the
first byte in which they differ decides alike in both orders. A range that has one is not taken. Nor is one that counts
nulls, of which record keys have none: Hudi counts as such the rows of row groups whose keys are too long for Parquet's
statistics, and their keys are not in the range.

What is not there, deleted, or no range or filter, is not known; what cannot be read is told in the log, and not known.

Touches: the metadata table, reading; the log, where something is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.format.bloom_lookup import BloomRows
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS
from lakeward.format.metadata.record import BloomFilterRecord, ColumnStatsRecord, MetadataRecord
from lakeward.index.base_files import KeyFile
from lakeward.index.bloom.file_keys import KeyRange, filter_of
from lakeward.index.bloom.filter_cache import tell_broken
from lakeward.index.location import RECORD_KEY
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.snapshot import TableSnapshot

_ORDERS_DIFFER_FROM: Final = "\ue000"


@dataclass(frozen=True, slots=True)
class MetadataFilters:
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
            tell_broken(error)
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
            tell_broken(error)
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

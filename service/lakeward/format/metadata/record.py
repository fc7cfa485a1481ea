"""The records of the metadata table, as values.

Touches: nothing.
Keeps:   a record is what its bytes say; nothing in it is trusted as a name before `format/file_name.py` has checked it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from lakeward.format.stats.stats_value import StatsValue, StatsVersion, ValueType, Wrapper


class RecordType(IntEnum):
    """What a record is, by the number on disk."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a partition, or a partition of the table, whose size is 0."""

    size: int
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class FilesRecord:
    """A record of `files`: the files of a partition by name, or the partitions of the table by path (`.` for the empty
    one)."""

    entries: Mapping[str, FileEntry]
    is_all_partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRecord:
    """What column_stats, partition_stats and expression indexes know of one column. Use one of its two kinds."""

    file_name: str | None
    column: str | None
    min_value: StatsValue | None
    """The least value, in the form of `format/stats/stats_value.py`."""
    max_value: StatsValue | None
    value_count: int | None
    """Nulls included."""
    null_count: int | None
    total_size: int | None
    total_uncompressed_size: int | None
    is_deleted: bool = False
    is_tight: bool = False
    """Whether the range is exact, so that an older record of the key does not matter."""
    value_type: ValueType | None = None
    """The type in version 2; None in version 1, which has none."""
    wrapper: Wrapper | None = None
    """What the values lie in, in version 1 (where both are null, None); None in version 2, whose type says it."""

    @property
    def version(self) -> StatsVersion:
        return StatsVersion.V1 if self.value_type is None else StatsVersion.V2


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatsRecord(StatsRecord):
    """Statistics of one column in one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatsRecord(StatsRecord):
    """Statistics of one column in all files of a partition. `file_name` is the partition path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilterRecord:
    """The bloom filter of one base file."""

    type_code: str
    timestamp: str
    """The instant that wrote the file."""
    bloom_filter: bytes
    """The text of the file's footer: base64, not what it encodes."""
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndexRecord:
    """The file group and instant at which a record key lives."""

    partition: str | None
    file_id: str
    instant_millis: int | None
    """The instant of the base file in milliseconds since 1970, read in the table's time zone."""
    position: int | None = None


@dataclass(frozen=True, slots=True)
class SecondaryIndexRecord:
    """A record says that a row with this secondary value and this record key exists: the key says both."""

    is_deleted: bool = False


MetadataRecord = (
    FilesRecord
    | ColumnStatsRecord
    | PartitionStatsRecord
    | BloomFilterRecord
    | RecordIndexRecord
    | SecondaryIndexRecord
)

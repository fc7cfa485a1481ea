"""Two records of one key in the metadata table become one, as Hudi's payload merges them.

    files             the union; of a file in both the larger size; a deletion takes the older entry away, or stays as
                      one where there is none to take
    stats             the newer one if it is tight, or either is deleted; else the range over both, and the sums
    secondary index   the newer one, or nothing if that is a deletion
    others            the newer one

Touches: nothing.
Keeps:   how records are grouped does not matter, as long as they keep their order and no file is listed twice, which
         since table version 8 none is. One that is (older tables append to logs; a clean was undone, and the table not
         compacted since) and then deleted comes back where the
         two are merged before the first: so fold from the oldest on. Hudi does not, and has it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    SecondaryIndexRecord,
    StatsRecord,
)
from lakeward.format.stats.stats_value import StatsValue, ValueKind, stats_order


def merge_records(older: MetadataRecord, newer: MetadataRecord, *, where: str) -> MetadataRecord | None:
    """The record that stands for both; None where nothing does. `where` names file or partition in errors."""
    match older, newer:
        case FilesRecord(), FilesRecord() if older.is_all_partitions == newer.is_all_partitions:
            return _merge_files(older, newer, where)
        case ColumnStatsRecord(), ColumnStatsRecord():
            return _merge_stats(older, newer, where)
        case PartitionStatsRecord(), PartitionStatsRecord():
            return _merge_stats(older, newer, where)
        case SecondaryIndexRecord(), SecondaryIndexRecord():
            return None if newer.is_deleted else newer
        case (BloomFilterRecord(), BloomFilterRecord()) | (RecordIndexRecord(), RecordIndexRecord()):
            return newer
    raise _broken(where, "it holds records of different types under one key")


def _merge_files(older: FilesRecord, newer: FilesRecord, where: str) -> FilesRecord:
    entries = dict(older.entries)
    for name, entry in newer.entries.items():
        before = entries.get(name)
        if not entry.is_deleted:
            if entry.size <= 0 and not newer.is_all_partitions:
                raise _broken(where, f"it holds the file {name!r} with {entry.size} bytes")
            entries[name] = entry if before is None else FileEntry(max(entry.size, before.size))
        elif before is None or before.is_deleted:
            entries[name] = entry
        else:
            del entries[name]
    return FilesRecord(entries, is_all_partitions=newer.is_all_partitions)


_Stats = TypeVar("_Stats", bound=StatsRecord)


def _merge_stats(older: _Stats, newer: _Stats, where: str) -> _Stats:
    if older.column != newer.column:
        raise _broken(where, f"it holds the columns {older.column!r} and {newer.column!r} under one key")
    if newer.is_deleted or older.is_deleted or newer.is_tight:
        return newer
    typed = newer if _has_values(newer) or not _has_values(older) else older
    if _has_values(older) and (older.value_type, older.wrapper) != (typed.value_type, typed.wrapper):
        raise Unsupported(
            f"The statistics of the column {newer.column!r} in {where} cannot be merged.",
            why=f"Their values are of different types: {_text(older)} and {_text(newer)}.",
            remedy="Have Hudi rebuild this partition of the metadata table.",
        )
    is_uuid = typed.value_type is not None and typed.value_type.kind is ValueKind.UUID
    return replace(
        newer,
        min_value=_choose(older.min_value, newer.min_value, is_uuid=is_uuid, largest=False),
        max_value=_choose(older.max_value, newer.max_value, is_uuid=is_uuid, largest=True),
        value_count=_sum(older.value_count, newer.value_count),
        null_count=_sum(older.null_count, newer.null_count),
        total_size=_sum(older.total_size, newer.total_size),
        total_uncompressed_size=_sum(older.total_uncompressed_size, newer.total_uncompressed_size),
        value_type=typed.value_type,
        wrapper=typed.wrapper,
    )


def _has_values(record: StatsRecord) -> bool:
    return record.min_value is not None or record.max_value is not None


def _choose(one: StatsValue | None, other: StatsValue | None, *, is_uuid: bool, largest: bool) -> StatsValue | None:
    if one is None or other is None:
        return other if one is None else one
    before = stats_order(one, is_uuid=is_uuid) < stats_order(other, is_uuid=is_uuid)
    return other if before == largest else one


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _text(record: StatsRecord) -> str:
    if record.value_type is not None:
        return record.value_type.kind.name
    return "none" if record.wrapper is None else record.wrapper.name


def _broken(where: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The metadata table is broken in {where}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Disable the metadata table so that Hudi's next writer builds a new one.",
    )

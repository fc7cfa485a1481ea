"""What the metadata table of version 10 says after the writes and services that one of version 9 had is the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
)
from lakeward.index.index_type import IndexType
from lakeward.services.verification.metadata_check import SampleSize, check_metadata
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.new_table import NewIndex, NewIndexes
from tests.clocks import SkippingClock
from tests.our_reader import scan
from tests.services.metadata.run.compacting_metadata import compact_metadata
from tests.write.writing import Row, new_table, rows_of, write

FIRST: list[Row] = [("k1", 5, "p", "a"), ("k2", 5, "p", None), ("k3", 5, "q", "a"), ("k4", 5, "q", "a")]
SECOND: list[Row] = [("k1", 6, "p", "b"), ("k2", 6, "p", "b"), ("k3", 4, "q", "late"), ("k5", 1, "p", "new")]
MOVING = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
"""Columns whose values are times and names."""


def shown(base: Path) -> dict[str, Any]:
    """What it says, but for names, times and sizes of files."""
    storage, snapshot = LocalStorage(), scan(base)
    table = load_metadata_table(storage, str(base), snapshot.config, snapshot.timeline, clock=SkippingClock())
    reader = MetadataReader(storage, table)
    return {partition: _shown(reader.scan(partition)) for partition in sorted(table.slices)}


def _shown(entries: Any) -> Any:
    found: Counter[tuple[Any, ...]] = Counter()
    for key, record in entries:
        found.update([_without_names(key, record)] if _says_something(record) else [])
    return found


def _says_something(record: MetadataRecord) -> bool:
    """The range of a file of deletes is empty; on version 9 deletes lie in the file of the rows."""
    return not isinstance(record, ColumnStatsRecord) or bool(record.value_count) or record.min_value is not None


def _without_names(key: str, record: MetadataRecord) -> tuple[Any, ...]:
    match record:
        case FilesRecord():
            bases = [name for name in record.entries if name.endswith(".parquet") and name.count("_") == 2]
            return key, tuple(sorted(record.entries)) if record.is_all_partitions else len(bases)
        case PartitionStatsRecord() | ColumnStatsRecord():
            ends = None if record.column in MOVING else (str(record.min_value), str(record.max_value))
            where = record.file_name if isinstance(record, PartitionStatsRecord) else ""
            return where, record.column, ends, record.null_count, record.value_count, record.is_deleted
        case RecordIndexRecord():
            return key, record.partition
        case BloomFilterRecord():
            return record.type_code, record.is_deleted
    raise AssertionError(record)


def test_it_says_what_that_of_version_9_says(tmp_path: Path) -> None:
    """Rows that come, change, go and are replaced, by the record index, and after its own compaction."""
    indexes = NewIndexes(NewIndex.METADATA, bloom_filters=True)
    tables = {number: new_table(tmp_path / str(number), version=number, indexes=indexes) for number in (9, 10)}
    deleting = rows_of(SECOND).append_column("_hoodie_is_deleted", pa.array([False, True, False, False]))
    steps: list[tuple[Any, str]] = [
        (FIRST, "upsert"),
        (deleting, "upsert"),
        ([("k4", 9, "q", None)], "delete"),
        ([("k1", 1, "p", "over"), ("k6", 1, "p", "new")], "insert_overwrite"),
    ]
    for base in tables.values():
        for rows, operation in steps:
            write(base, rows, operation, index=IndexType.METADATA, fill_missing=True)
    of_9, of_10 = (shown(base) for base in tables.values())
    assert of_9.keys() == {BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX}
    assert of_9 == of_10
    compact_metadata(tables[10], LocalStorage())
    assert shown(tables[10]) == of_9
    report = check_metadata(LocalStorage(), lambda: scan(tables[10]), size=SampleSize(None, 9), clock=SkippingClock())
    assert report.problems == () and len(report.checks) >= 5
    logs = {path.name.rpartition("_")[2] for path in (tables[10] / ".hoodie" / "metadata").glob("*/*.hfile")}
    assert {"1.log.hfile", "1.deletes.hfile"} <= logs

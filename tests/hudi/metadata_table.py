"""A small Hudi table with every partition of the metadata table that its release has, base files and logs in each; and
what one commit wrote into a metadata table, Lakeward's or Hudi's, so that the former can be held against Hudi's.

Touches: one table folder, through Spark; reads metadata tables.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.format.file_name import BaseFileName, LogFileName, parse_base_file, parse_log_file
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    StatsRecord,
)
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
}
"""Options under names that every release knows."""
OPTIONS = {
    **INDEXES,
    # The second write is compacted, the third stays in logs.
    "hoodie.metadata.compact.max.delta.commits": "2",
    # As releases before 1.1 call it.
    "hoodie.datasource.write.precombine.field": "ts",
}


WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}

MADE_BY_COMPACTIONS = frozenset({"files", "column_stats", "partition_stats", "bloom_filters"})
"""The partitions of the metadata table that a compaction has records for."""

COLUMNS = """
    id % 2 = 0 AS truth, CAST(id AS INT) AS small, CAST(id / 3 AS FLOAT) AS half, CAST(id AS DOUBLE) / 3 AS real,
    CAST(concat('b', id) AS BINARY) AS raw, CAST(id AS DECIMAL(12, 3)) / 8 AS price, CAST(NULL AS STRING) AS nothing,
    date_add(DATE '1969-12-30', CAST(id AS INT)) AS day, timestamp_micros(id * 1000001 - 7) AS at
"""
"""One of each type that has statistics."""


def write_table_with_metadata(spark: SparkSession, path: Path) -> Path:
    """Returns the folder of the metadata table. The third write deletes half of the ten rows it touches."""
    table = HudiTable(spark, path, TableShape(partition_fields="part", options=OPTIONS))
    for first, last, deleted in ((0, 3000, 0), (2500, 3500, 0), (0, 10, 5)):
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, concat('p', id % 3) AS part, {last}L AS ts, concat('ü', id) AS v, "
            f"id < {deleted} AS _hoodie_is_deleted, {COLUMNS} FROM range({first}, {last})"
        )
        table.write(rows, "upsert")
    return path / ".hoodie" / "metadata"


def written_records(table: Path, instant: str, partition: str) -> dict[str, MetadataRecord]:
    """What the log files of the instant hold in this partition of the metadata table, by key."""
    records: dict[str, MetadataRecord] = {}
    for path in sorted((table / ".hoodie" / "metadata" / partition).glob(f".*_{instant}.log.*")):
        if parse_log_file(path.name) is None:
            continue
        with path.open("rb") as file:
            (block,) = metadata_blocks(file, path.stat().st_size, path.name)
            assert isinstance(block, MetadataBlock) and block.instant == instant
            assert block.hfile is not None and block.schema_json is not None
            codec = metadata_codec(block.schema_json)
            records |= {key.decode(): codec.decode(value, path.name) for key, value in block.hfile.entries()}
    return records


def comparable_records(table: Path, instant: str, partition: str, *, but: Collection[str] = ()) -> list[str]:
    """`written_records` without names of files (and so without keys that are made of them), the instant itself, and
    what depends on how files are written.

    Args:
        but: columns that are left out.
    """
    records = {
        key: record
        for key, record in written_records(table, instant, partition).items()
        if not (isinstance(record, StatsRecord) and record.column in but)
    }
    return sorted(repr(_comparable(key, record, instant)) for key, record in records.items())


def assert_same_records(table: HudiTable, twin: HudiTable, *, but: Collection[str] = ()) -> None:
    """Our compactions and Hudi's wrote the same into the metadata tables of both, in every partition."""
    own, hudis = table.compactions(), twin.compactions()
    assert own and len(own) == len(hudis)
    partitions = sorted(path.name for path in (table.path / ".hoodie" / "metadata").iterdir() if path.name[0] != ".")
    for instant, instant_there in zip(own, hudis, strict=True):
        for partition in partitions:
            made = comparable_records(table.path, instant, partition, but=but)
            assert made == comparable_records(twin.path, instant_there, partition, but=but), partition
            assert bool(made) == (partition in MADE_BY_COMPACTIONS), partition


def _comparable(key: str, record: MetadataRecord, instant: str) -> tuple[str, MetadataRecord]:
    match record:
        case FilesRecord():
            entries = record.entries
            if not record.is_all_partitions:
                entries = {_group_of(name): replace(entry, size=1) for name, entry in entries.items()}
            return key, replace(record, entries=dict(sorted(entries.items())))
        case ColumnStatsRecord():
            return key[:24], replace(_without_sizes(record), file_name=_group_of(record.file_name or ""))
        case PartitionStatsRecord():
            return key, _without_sizes(record)
        case BloomFilterRecord():
            assert record.timestamp == instant
            return key[:12], replace(record, bloom_filter=b"", timestamp="")
    return key, record


def _without_sizes(record: StatsRecord) -> StatsRecord:
    # Parquet of Java keeps -0.0 as the lower end where 0.0 is; the two are equal.
    smallest = 0.0 if record.min_value == 0.0 and isinstance(record.min_value, float) else record.min_value
    assert (record.total_size or 0) > 0
    return replace(record, total_size=1, total_uncompressed_size=1, min_value=smallest)


def _group_of(name: str) -> str:
    parsed = parse_base_file(name) or parse_log_file(name)
    assert isinstance(parsed, BaseFileName | LogFileName)
    return parsed.file_id

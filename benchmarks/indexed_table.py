"""A table with a metadata table as its writers would leave it, made in a minute: for the benchmark of commits.

Version 9, partitioned, 20 columns. Names, timelines, properties, index definitions and the whole metadata table are
real: every file is listed there, with statistics of every indexed column, every base file with its bloom filter. Data
files are real, too, but all base files have the same content, and so have all logs of a commit.

    one bulk insert -> delta commits, each into a part of the file groups, so that all have the same number of logs
    of the metadata table, the older commits in base files and the last few in logs, as after a compaction of it

Touches: the folder it is given.
"""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path

import pyarrow as pa

from lakeward.base.clock import SystemClock
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.log.block import BlockType
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.metadata.base_file_stats import columns_to_watch, read_bloom_filter, read_column_stats
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import ALL_PARTITIONS
from lakeward.format.metadata.log_file import write_metadata_log
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
)
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.format.stats.indexed_columns import indexed_columns
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import State, format_instant_time, instant_file_name
from lakeward.protocol.metadata.changes import (
    NewFile,
    bloom_filter_sources,
    by_file_group,
    column_stats_records,
    files_records,
    partition_stats_records,
)
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import TableConfig
from tests.golden_tables import copy_golden
from tests.our_reader import scan

PARTITIONS = 50
COMMITS = 30
LOGS_PER_GROUP = 4
COMMITS_IN_LOGS = 5
"""The newest commits of the metadata table, since it was compacted."""
BASE_ROWS, LOG_ROWS = 1_000, 100

KINDS = ("long", "int", "string", "double")
COLUMNS = {"id": "string", "ts": "long"} | {f"c{number:02}": KINDS[number % len(KINDS)] for number in range(18)}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in COLUMNS.items()],
    }
)
INDEXED = indexed_columns(SCHEMA, (), version=StatsVersion.V2)

FILE_GROUPS = {
    FILES: ("files", 1),
    COLUMN_STATS: ("col-stats", 2),
    PARTITION_STATS: ("partition-stats", 1),
    BLOOM_FILTERS: ("bloom-filters", 4),
}
"""File groups of each partition of the metadata table, by Hudi's defaults."""

SHARED = {
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}
PROPERTIES = SHARED | {
    "hoodie.table.name": "t",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "day",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.metadata.partitions": ",".join(sorted(FILE_GROUPS)),
}
METADATA_PROPERTIES = SHARED | {
    "hoodie.table.name": "t_metadata",
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.table.recordkey.fields": "key",
    "hoodie.populate.meta.fields": "false",
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
}
DEFINITION = {
    "indexName": COLUMN_STATS,
    "indexType": COLUMN_STATS,
    "indexFunction": COLUMN_STATS,
    "sourceFields": list(INDEXED),
    "indexOptions": {},
    "version": "V2",
}


@dataclass(frozen=True, slots=True)
class Template:
    """The content of files, and what the metadata table says of each."""

    content: bytes
    column_stats: tuple[ColumnStatsRecord, ...]
    bloom_filter: tuple[str, bytes] | None = None

    def file(self, partition_path: str, file_id: str, name: str) -> NewFile:
        stats = tuple(replace(record, file_name=name) for record in self.column_stats)
        return NewFile(partition_path, file_id, name, len(self.content), stats)


def base_file_template() -> Template:
    sink, rows = io.BytesIO(), _rows(BASE_ROWS)
    ranges = ColumnRangeAccumulator(columns_to_watch(INDEXED, rows.schema), rows.schema)
    ranges.add(rows)
    writer = BaseFileWriter(sink, rows.schema, file_name="f", keys_expected=BASE_ROWS)
    writer.write(rows)
    writer.close()
    stats = read_column_stats(sink, tuple(INDEXED), file_name="f", version=StatsVersion.V2, seen=ranges.ranges)
    return Template(sink.getvalue(), tuple(stats), read_bloom_filter(sink, file_name="f"))


def log_file_template(instant: str) -> Template:
    sink, rows = io.BytesIO(), _rows(LOG_ROWS)
    ranges = ColumnRangeAccumulator(INDEXED, rows.schema)
    ranges.add(rows)
    schema_json = log_block_schema(SCHEMA)
    writer = LogFileWriter(sink, rows.schema, instant=instant, schema_json=schema_json, block_type=BlockType.AVRO_DATA)
    writer.write(rows)
    writer.close()
    stats = log_column_stats("f", ranges.ranges, columns=INDEXED, version=StatsVersion.V2)
    return Template(sink.getvalue(), tuple(stats))


class IndexedTable:
    def __init__(self, base: Path, groups: int, seed: int) -> None:
        self.base = base
        ids = random.Random(seed)
        self.groups = [(f"day={n % PARTITIONS:02}", f"{ids.getrandbits(128):032x}-0") for n in range(groups)]
        self._clock_ms = int(time.time() * 1000) - 3_600_000
        for path in sorted({path for path, _ in self.groups}):
            (base / path).mkdir(parents=True)
            (base / path / ".hoodie_partition_metadata").touch()
        write_properties(base, PROPERTIES)
        definitions = base / ".hoodie" / ".index_defs" / "index.json"
        definitions.parent.mkdir()
        definitions.write_text(json.dumps({"indexDefinitions": {COLUMN_STATS: DEFINITION}}))
        metadata = WrittenMetadata(base / ".hoodie" / "metadata")
        compacted = self._commit(metadata, self.groups, base_file_template())
        for number in range(COMMITS):
            part = _part(self.groups, number)
            files = self._commit(metadata, part, None)
            if number < COMMITS - COMMITS_IN_LOGS:
                compacted += files
            else:
                metadata.write_logs(files, instant=self._instant)
            if number == COMMITS - COMMITS_IN_LOGS - 1:
                metadata.compact(compacted, instant=self._now(), completion_time=self._now())

    def _commit(
        self, metadata: WrittenMetadata, groups: Sequence[tuple[str, str]], template: Template | None
    ) -> list[NewFile]:
        """On both timelines. Without a template each group gets a log."""
        instant = self._instant = self._now()
        if template is not None:
            names = [f"{file_id}_0-1-0_{instant}.parquet" for _, file_id in groups]
            action, operation = "commit", "BULK_INSERT"
        else:
            template = log_file_template(instant)
            names = [f".{file_id}_{instant}.log.1_0-1-0" for _, file_id in groups]
            action, operation = "deltacommit", "UPSERT"
        files = [template.file(*group, name) for group, name in zip(groups, names, strict=True)]
        original = self.base / ".hoodie" / f"template-{instant}"
        original.write_bytes(template.content)
        for file in files:
            os.link(original, self.base / file.partition_path / file.name)
        original.unlink()
        complete(metadata.base, instant, self._now(), "deltacommit", "deltacommit", {})
        stats: dict[str, list[WriteStat]] = {}
        for file in files:
            stats.setdefault(file.partition_path, []).append(_stat(file))
        complete(self.base, instant, self._now(), action, action, stats, operation)
        return files

    def _now(self) -> str:
        self._clock_ms += 1000
        return format_instant_time(self._clock_ms, UTC)


class WrittenMetadata:
    """The files of the metadata table; its timeline is the caller's."""

    def __init__(self, base: Path, partitions: Collection[str] = tuple(FILE_GROUPS)) -> None:
        self.base = base
        self._partitions = partitions
        write_properties(base, METADATA_PROPERTIES)
        for partition in partitions:
            (base / partition).mkdir()
        self._schema_json = _metadata_schema()
        self._encode = metadata_codec(self._schema_json).encode
        self._bloom = base_file_template().bloom_filter

    def compact(self, files: Sequence[NewFile], *, instant: str, completion_time: str) -> None:
        """Write all of these files into base files."""
        for partition, records in self._records(files, instant).items():
            name, count = FILE_GROUPS[partition]
            groups = by_file_group(records, count)
            for group in range(count):
                with (self.base / partition / f"{name}-{group:04}-0_{group}-1-1_{instant}.hfile").open("wb") as sink:
                    writer = HFileWriter(sink)
                    for key, record in groups.get(group, ()):
                        writer.add(key.encode(), self._encode(record))
                    writer.finish({"schema": self._schema_json.encode()})
        complete(self.base, instant, completion_time, "compaction", "commit", {})
        requested = self.base / ".hoodie" / "timeline" / f"{instant}.compaction.requested"
        requested.write_bytes(write_compaction_plan(CompactionPlan(())))

    def write_logs(self, files: Sequence[NewFile], *, instant: str) -> None:
        for partition, records in self._records(files, instant).items():
            name, count = FILE_GROUPS[partition]
            for group, of_group in by_file_group(records, count).items():
                with (self.base / partition / f".{name}-{group:04}-0_{instant}.log.1_{group}-1-1").open("wb") as sink:
                    entries = ((key, self._encode(record)) for key, record in of_group)
                    write_metadata_log(sink, instant=instant, schema_json=self._schema_json, entries=entries)

    def _records(self, files: Sequence[NewFile], instant: str) -> dict[str, Mapping[str, MetadataRecord]]:
        assert self._bloom is not None
        code, text = self._bloom
        bloom = BloomFilterRecord(type_code=code, timestamp=instant, bloom_filter=text)
        found = files_records(files)
        assert isinstance(found[ALL_PARTITIONS], FilesRecord)
        made: dict[str, Mapping[str, MetadataRecord]] = {
            FILES: found,
            COLUMN_STATS: column_stats_records(files),
            PARTITION_STATS: partition_stats_records(_of_partitions(files)),
            BLOOM_FILTERS: dict.fromkeys(bloom_filter_sources(files), bloom),
        }
        return {partition: made[partition] for partition in self._partitions}


def complete(
    base: Path,
    instant: str,
    completion_time: str,
    pending: str,
    action: str,
    stats: Mapping[str, Sequence[WriteStat]],
    operation: str = "UPSERT_PREPPED",
    schema: str = SCHEMA,
) -> None:
    timeline = base / ".hoodie" / "timeline"
    for state in (State.REQUESTED, State.INFLIGHT):
        (timeline / instant_file_name(instant, pending, state, 2)).touch()
    metadata = CommitMetadata(
        {path: tuple(each) for path, each in stats.items()}, extra_metadata={"schema": schema}, operation_type=operation
    )
    (timeline / f"{instant}_{completion_time}.{action}").write_bytes(write_commit_metadata(metadata))


def _rows(count: int) -> pa.RecordBatch:
    chance = random.Random(count)
    schema = table_schema(SCHEMA)

    def value(name: str, kind: str, number: int) -> object:
        if name in META_COLUMNS or name == "id":
            return f"{name}-{number:08}"
        drawn = chance.randrange(1_000_000)
        return {"long": drawn << 20, "int": drawn, "string": f"{drawn:032}", "double": drawn / 7}[kind]

    kinds = dict.fromkeys(META_COLUMNS, "string") | COLUMNS
    rows = [{name: value(name, kind, number) for name, kind in kinds.items()} for number in range(count)]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _part(groups: Sequence[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    """Every group is in `LOGS_PER_GROUP` of the parts."""
    return [group for at, group in enumerate(groups) if (at + number) * LOGS_PER_GROUP % COMMITS < LOGS_PER_GROUP]


def _of_partitions(files: Sequence[NewFile]) -> list[PartitionStatsRecord]:
    paths = {file.partition_path: file for file in files}
    return [
        PartitionStatsRecord(
            file_name=path,
            column=record.column,
            min_value=record.min_value,
            max_value=record.max_value,
            value_count=record.value_count,
            null_count=record.null_count,
            total_size=record.total_size,
            total_uncompressed_size=record.total_uncompressed_size,
            value_type=record.value_type,
        )
        for path, file in paths.items()
        for record in file.column_stats
    ]


def _stat(file: NewFile) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition_path}/{file.name}",
        partition_path=file.partition_path,
        num_writes=BASE_ROWS if file.is_base_file else LOG_ROWS,
        file_size_in_bytes=file.size,
    )


def write_properties(base: Path, properties: Mapping[str, str]) -> None:
    (base / ".hoodie" / "timeline").mkdir(parents=True)
    properties = {**properties, "hoodie.table.checksum": str(TableConfig(properties).checksum)}
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    (base / ".hoodie" / "hoodie.properties").write_text(lines)


def _metadata_schema() -> str:
    """The schema of the records, in the form in which Hudi 1.2 writes it."""
    with tempfile.TemporaryDirectory() as folder:
        base = copy_golden("v9_metadata", Path(folder, "table"))
        return take_metadata_snapshot(LocalStorage(), scan(base), clock=SystemClock()).schema_json

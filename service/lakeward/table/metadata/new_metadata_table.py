"""What the metadata table of a new table is, file by file: as Hudi's first write makes it, without that write.

    partitions, in the order of their initial builds:
        files | column_stats | bloom_filters, record_index where asked for | partition_stats, where there are partitions

    of the n-th: 0…0n.deltacommit.requested, .inflight, 0…0n_<completion>.deltacommit
                 for each file group a log that deletes nothing; on version 10 one without records
    of `files` besides: a base file that says that the table has no partitions, and the folder's partition metadata

The other folders get their partition metadata with the first records, and so do index definitions further columns. The
numbers of file groups are those that Hudi gives an empty table where its writers' options name no others.

A time of another zone than the writers' may lie in their future, and what they commit then would lie below it. So the
builds are complete at a time that every clock on earth shows already: that of the zone 12 hours behind UTC.

Touches: nothing.
Keeps:   1. the files are those of Hudi 1.2.0 for a table of version 9, of 1.0.2 for one of version 8, but for times,
            write tokens and what is prose in a schema; of version 10 they are those of version 9 with native logs;
         2. equal tables born at one moment have equal files, byte for byte.
Source:  HoodieBackedTableMetadataWriter.initializeFromFilesystem; tables of both releases
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lakeward.base.paths import join
from lakeward.format.avro.schema import without_meta_columns
from lakeward.format.file_name import HFILE, BaseFileName, LogFileName, NativeLogKind, NativeLogName, WriteToken
from lakeward.format.metadata.base_file import write_metadata_base_file
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import IndexDefinition, IndexDefinitions, dump_index_definitions
from lakeward.format.metadata.key import ALL_PARTITIONS
from lakeward.format.metadata.log_file import empty_metadata_log, write_native_metadata_log
from lakeward.format.metadata.partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.format.metadata.record import FilesRecord
from lakeward.format.metadata.schema_text import metadata_schema
from lakeward.format.partition_metadata import PROPERTIES_NAME, PartitionMetadata, write_partition_metadata
from lakeward.format.stats.indexed_columns import indexed_columns
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import (
    NO_COMMIT,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    file_stat,
    write_commit_metadata,
)
from lakeward.format.timeline.instant import State, format_instant_time, instant_file_name
from lakeward.table.table_config import META_FIELDS_MODE, TableConfig
from lakeward.table.table_version import TableVersion
from lakeward.table.timeline.timezone import WESTERNMOST

_FILE_IDS: Final = {
    FILES: "files",
    COLUMN_STATS: "col-stats",
    BLOOM_FILTERS: "bloom-filters",
    RECORD_INDEX: "record-index",
    PARTITION_STATS: "partition-stats",
}
GLOBAL_RECORD_INDEX: Final = IndexDefinition(RECORD_INDEX, RECORD_INDEX, "", (), {"isPartitioned": "false"}, 1)
"""The definition of a record index over all partitions, on tables whose definitions have versions."""
FILE_GROUPS: Final = {FILES: 1, COLUMN_STATS: 2, BLOOM_FILTERS: 4, RECORD_INDEX: 10, PARTITION_STATS: 1}
_TOKEN: Final = str(WriteToken(0, 0, 0))
_LAYOUT: Final = 2
_ACTION: Final = "deltacommit"


@dataclass(frozen=True, slots=True)
class NewMetadataTable:
    of: str
    """The name of the table."""
    schema: str
    """The table's, in Avro JSON."""
    version: TableVersion
    """8, 9 or 10."""
    is_partitioned: bool
    has_record_index: bool = False
    has_bloom_filters: bool = False

    @property
    def partitions(self) -> tuple[str, ...]:
        """In the order of their initial builds."""
        wanted = {
            FILES: True,
            COLUMN_STATS: True,
            BLOOM_FILTERS: self.has_bloom_filters,
            RECORD_INDEX: self.has_record_index,
            PARTITION_STATS: self.is_partitioned,
        }
        return tuple(partition for partition, is_wanted in wanted.items() if is_wanted)

    @property
    def properties(self) -> dict[str, str]:
        """All keys and values of its own `hoodie.properties`."""
        number = str(self.version.number)
        values = {
            "hoodie.table.name": f"{self.of}_metadata",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": number,
            "hoodie.table.initial.version": number,
            "hoodie.timeline.layout.version": str(_LAYOUT),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.populate.meta.fields": "false",
            "hoodie.table.recordkey.fields": "key",
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
            "hoodie.datasource.write.drop.partition.columns": "false",
        }
        if self.version.has_meta_fields_mode:
            values[META_FIELDS_MODE] = "NONE"
        return {**values, "hoodie.table.checksum": str(TableConfig(values).checksum)}

    @property
    def index_definitions(self) -> IndexDefinitions:
        """The definitions of its indexes; Hudi 1.0 defines that of column statistics alone, without a version."""
        typed = self.version.has_typed_stats
        columns = indexed_columns(self.schema, (), version=StatsVersion.V2 if typed else StatsVersion.V1)
        defined = []
        if self.has_record_index and typed:
            defined.append(GLOBAL_RECORD_INDEX)
        stats_version = int(StatsVersion.V2) if typed else None
        defined.append(IndexDefinition(COLUMN_STATS, COLUMN_STATS, COLUMN_STATS, tuple(columns), {}, stats_version))
        return IndexDefinitions({each.name: each for each in defined})

    @property
    def folders(self) -> tuple[str, ...]:
        """Below its `.hoodie`, empty, beside those that every table has."""
        return (".heartbeat",) if self.version.has_typed_stats else ()

    def files(self, *, born: float) -> Iterator[tuple[str, bytes]]:
        """Everything but its properties: paths below its folder, and contents, in the order in which Hudi makes them.

        Args:
            born: seconds since 1970.
        """
        for number, partition in enumerate(self.partitions):
            yield from self._build(number, partition, int(born * 1000) + number)

    def definitions_file(self) -> bytes:
        """The content of the table's `index.json`."""
        return dump_index_definitions(self.index_definitions)

    def _build(self, number: int, partition: str, done_millis: int) -> Iterator[tuple[str, bytes]]:
        instant = f"{number:017d}"
        completed = format_instant_time(done_millis, WESTERNMOST)
        for state in (State.REQUESTED, State.INFLIGHT):
            yield _timeline_path(instant_file_name(instant, _ACTION, state, _LAYOUT)), b""
        for group in range(FILE_GROUPS[partition]):
            file_id, native = file_id_of(partition, group), self.version.has_native_logs
            name, content = first_log(file_id, instant, self._records_schema, native=native)
            yield join(partition, name), content
        stats: dict[str, tuple[WriteStat, ...]] = {}
        if partition == FILES:
            yield join(partition, PROPERTIES_NAME), write_partition_metadata(PartitionMetadata(instant, 1))
            name, content = self._no_partitions(instant)
            yield join(partition, name), content
            stats = {partition: (_stat(partition, name, len(content)),)}
        commit = CommitMetadata(
            partition_to_write_stats=stats,
            compacted=False,
            extra_metadata={"schema": without_meta_columns(self._records_schema)},
            operation_type="BULK_INSERT_PREPPED" if self.version.has_typed_stats else "BULK_INSERT",
        )
        name = instant_file_name(instant, _ACTION, State.COMPLETED, _LAYOUT, completed)
        yield _timeline_path(name), write_commit_metadata(commit)

    def _no_partitions(self, instant: str) -> tuple[str, bytes]:
        """The base file of `files` of a table without partitions."""
        schema = self._records_schema
        record = metadata_codec(schema).encode(FilesRecord({}, is_all_partitions=True))
        sink = io.BytesIO()
        entries = [(ALL_PARTITIONS.encode(), record)]
        write_metadata_base_file(sink, schema_json=schema, entries=entries, keys_expected=len(entries))
        return BaseFileName(file_id_of(FILES, 0), _TOKEN, instant, HFILE).text, sink.getvalue()

    @property
    def _records_schema(self) -> str:
        return metadata_schema(has_typed_stats=self.version.has_typed_stats)


def file_id_of(partition: str, group: int) -> str:
    """The file id of a file group of a partition, by its number."""
    prefix = partition.replace("_", "-") if partition.startswith(SECONDARY_INDEX_PREFIX) else _FILE_IDS[partition]
    return f"{prefix}-{group:04d}-0"


def first_log(file_id: str, instant: str, schema_json: str, *, native: bool) -> tuple[str, bytes]:
    """The log that begins a file group: its name and content."""
    if not native:
        return LogFileName(file_id, instant, 1, _TOKEN).text, empty_metadata_log(instant)
    sink = io.BytesIO()
    write_native_metadata_log(sink, instant=instant, schema_json=schema_json, entries=())
    return NativeLogName(file_id, _TOKEN, instant, 1, NativeLogKind.DATA, HFILE).text, sink.getvalue()


def _timeline_path(name: str) -> str:
    return join(".hoodie", "timeline", name)


def _stat(partition: str, name: str, size: int) -> WriteStat:
    """Field by field as Hudi writes it."""
    return replace(
        file_stat(partition, file_id_of(partition, 0), name, size),
        prev_commit=NO_COMMIT,
        num_writes=1,
        num_inserts=1,
        runtime_stats=RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
    )

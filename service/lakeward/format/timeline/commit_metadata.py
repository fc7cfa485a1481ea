"""Commit metadata: what a completed write says that it wrote. Avro in layout 2, JSON in layout 1.

    partition path -> write stats, one for each file written
    partition path -> file ids that the write replaced (replacecommit only)
    extra metadata, of which `schema` is the table's Avro schema without meta fields

Fields carry Hudi's names in snake case. The schema is that of Hudi 1.2's HoodieCommitMetadata.

Touches: nothing.
Keeps:   1. read_commit_metadata(write_commit_metadata(m, layout=l), layout=l) == m;
         2. names that could lead out of the table are refused (`UntrustedName`), not passed on;
         3. fields that we do not know are ignored;
         4. the files of a commit, and what it says beside write stats, are the same by kernels and without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import join
from lakeward.format.avro.container import MAGIC, read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_file_id, check_relative_path, parse_any_data_file
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key

if TYPE_CHECKING:
    from lakeward.format.timeline.commit_columns import CommitColumns

LATEST_SCHEMA = "latest_schema"
"""The entry of the extra metadata with the schema and its ids, where the table has schema on read."""


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """Milliseconds."""

    total_scan_time: int | None = None
    total_create_time: int | None = None
    total_upsert_time: int | None = None


@dataclass(frozen=True, slots=True)
class WriteStat:
    """What was written into one file. The order of the fields is the order on disk."""

    file_id: str | None = None
    path: str | None = None
    """The path below the base path."""
    prev_commit: str | None = None
    """The base instant of the slice before; the text `null` for a new file group."""
    num_writes: int | None = None
    num_deletes: int | None = None
    num_update_writes: int | None = None
    total_write_bytes: int | None = None
    total_write_errors: int | None = None
    partition_path: str | None = None
    total_log_records: int | None = None
    total_log_files: int | None = None
    total_updated_records_compacted: int | None = None
    num_inserts: int | None = None
    total_log_blocks: int | None = None
    total_corrupt_log_block: int | None = None
    total_rollback_blocks: int | None = None
    file_size_in_bytes: int | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    """Path of each change log to its size."""
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int | None = None
    total_log_read_time_ms: int | None = None
    total_log_size_compacted: int | None = None
    temp_path: str | None = None
    num_updates: int | None = None


NOTHING_COUNTED = WriteStat(
    num_writes=0,
    num_deletes=0,
    num_update_writes=0,
    total_write_bytes=0,
    total_write_errors=0,
    total_log_records=0,
    total_updated_records_compacted=0,
    num_inserts=0,
    total_log_blocks=0,
    total_corrupt_log_block=0,
    total_rollback_blocks=0,
    file_size_in_bytes=0,
    total_log_files_compacted=0,
    total_log_read_time_ms=0,
    total_log_size_compacted=0,
    num_updates=0,
)
"""What every stat begins with: numbers that nothing is said of are 0 in Hudi's commits, texts and lists are null."""

NO_COMMIT = "null"
"""What a new file group has as the commit before."""


def file_stat(partition_path: str, file_id: str, name: str, size_bytes: int) -> WriteStat:
    """A file that was written, of whose rows nothing is said yet."""
    return replace(
        NOTHING_COUNTED,
        file_id=file_id,
        path=join(partition_path, name),
        partition_path=partition_path,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
    )


def log_stat(stat: WriteStat, *, version: int = 1, names_before: Sequence[str] = ()) -> WriteStat:
    """The stat of a file that is a log, as writers leave it.

    Args:
        version: of the log.
        names_before: the logs of the same writer on the file group that were written before, which it names, too.
    """
    assert stat.path is not None
    name = stat.path.rpartition("/")[2]
    return replace(stat, log_version=version, log_offset=0, base_file="", log_files=(*names_before, name))


CLUSTER = "CLUSTER"
"""The operation type of clusterings: readers of changes find no changed row in such a commit."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    compacted: bool | None = None
    """True for compaction and for log compaction."""
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    operation_type: str | None = None
    """Hudi's name in upper case: UPSERT, COMPACT, ..."""
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """Avro JSON of the table's columns, without meta fields."""
        return self.extra_metadata.get("schema")

    @property
    def is_clustering(self) -> bool:
        return self.operation_type == CLUSTER

    @property
    def data_files(self) -> tuple[str, ...]:
        """Paths of the base files and logs that it wrote, logs of changes too, once each."""
        stats = [stat for of in self.partition_to_write_stats.values() for stat in of]
        paths = {path for stat in stats for path in (stat.path, *(stat.cdc_stats or ())) if path is not None}
        return tuple(sorted(path for path in paths if parse_any_data_file(path.rpartition("/")[2], native=True)))

    @property
    def file_groups(self) -> frozenset[tuple[str, str]]:
        """(partition path, file id) of each file group that was written or replaced."""
        written = (
            (path, stat.file_id)
            for path, stats in self.partition_to_write_stats.items()
            for stat in stats
            if stat.file_id
        )
        replaced = ((path, each) for path, ids in self.partition_to_replace_file_ids.items() for each in ids)
        return frozenset((*written, *replaced))


WrittenFiles = Mapping[str, Mapping[str, int | None]]
"""Maps a partition path to the path of each file that a commit wrote, and its size where the commit says it."""

_STATS = "partitionToWriteStats"

_TEXT_BY_KEY = by_key(TEXT)
_LONG_BY_KEY = by_key("long")


def _nullable(name: str, avro_type: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


_RUNTIME_STATS = {
    "type": "record",
    "name": "HoodieRuntimeStats",
    "fields": [_nullable(name, "long") for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")],
}

# The fields of WriteStat, in its order, by their names on disk.
_WRITE_STAT_TYPES: dict[str, object] = {
    "fileId": TEXT,
    "path": TEXT,
    "prevCommit": TEXT,
    "numWrites": "long",
    "numDeletes": "long",
    "numUpdateWrites": "long",
    "totalWriteBytes": "long",
    "totalWriteErrors": "long",
    "partitionPath": TEXT,
    "totalLogRecords": "long",
    "totalLogFiles": "long",
    "totalUpdatedRecordsCompacted": "long",
    "numInserts": "long",
    "totalLogBlocks": "long",
    "totalCorruptLogBlock": "long",
    "totalRollbackBlocks": "long",
    "fileSizeInBytes": "long",
    "logVersion": "int",
    "logOffset": "long",
    "baseFile": TEXT,
    "logFiles": TEXTS,
    "cdcStats": _LONG_BY_KEY,
    "prevBaseFile": TEXT,
    "minEventTime": "long",
    "maxEventTime": "long",
    "runtimeStats": _RUNTIME_STATS,
    "totalLogFilesCompacted": "long",
    "totalLogReadTimeMs": "long",
    "totalLogSizeCompacted": "long",
    "tempPath": TEXT,
    "numUpdates": "long",
}

_WRITE_STAT_FIELDS = tuple(field.name for field in dataclasses.fields(WriteStat))

_WRITE_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [_nullable(name, avro_type) for name, avro_type in _WRITE_STAT_TYPES.items()],
}

_COMMIT_METADATA_FIELDS = (
    _nullable(_STATS, by_key({"type": "array", "items": _WRITE_STAT})),
    _nullable("compacted", "boolean"),
    _nullable("extraMetadata", _TEXT_BY_KEY),
    {"name": "version", "type": ["int", "null"], "default": 1},
    _nullable("operationType", TEXT),
)
_COMMIT_METADATA = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [*_COMMIT_METADATA_FIELDS],
}

_REPLACE_METADATA = {
    **_COMMIT_METADATA,
    "name": "HoodieReplaceCommitMetadata",
    "fields": [
        *_COMMIT_METADATA_FIELDS,
        _nullable("partitionToReplaceFileIds", by_key(TEXTS)),
    ],
}


def read_commit_metadata(data: bytes, *, file: str, layout: int) -> CommitMetadata:
    """The content of a completed commit, deltacommit or replacecommit. Raises `BrokenFile`, `UntrustedName`."""
    fields = _read_fields(data, file=file, layout=layout)
    stats = fields.records_by_key(_STATS)
    written = {
        check_relative_path(partition): tuple(_write_stat(stat) for stat in each) for partition, each in stats.items()
    }
    return replace(_without_stats(fields), partition_to_write_stats=written)


def read_without_stats(data: bytes, *, file: str, layout: int, by_kernels: bool) -> CommitMetadata:
    """The same without its write stats, which are most of it; names of files are left to `read_written_files`.

    Args:
        by_kernels: Arrow and Numba may be loaded for it.
    """
    columns = _columns(data, layout=layout) if by_kernels else None
    if columns is None or (file_ids := columns.texts(_STATS, "fileId")) is None:
        return replace(read_commit_metadata(data, file=file, layout=layout), partition_to_write_stats={})
    for file_id in file_ids:
        check_file_id(file_id)
    for partition in (*columns.keys(_STATS), *(columns.texts(_STATS, "partitionPath") or ())):
        check_relative_path(partition)
    return _without_stats(RecordFields(columns.values_beside(_STATS), file=file))


def _without_stats(fields: RecordFields) -> CommitMetadata:
    replaced = fields.texts_by_key("partitionToReplaceFileIds")
    return CommitMetadata(
        compacted=fields.boolean("compacted"),
        extra_metadata=fields.text_by_key("extraMetadata"),
        operation_type=fields.text("operationType"),
        partition_to_replace_file_ids={
            check_relative_path(partition): tuple(check_file_id(file_id) for file_id in each)
            for partition, each in replaced.items()
        },
    )


def read_written_files(
    data: bytes, *, file: str, layout: int, by_kernels: bool = False, partitions: Collection[str] | None = None
) -> WrittenFiles:
    """What the same content says of files, and nothing else.

    Args:
        by_kernels: Arrow and Numba may be loaded for it.
        partitions: the partitions whose files matter; None for all.
    """
    columns = _columns(data, layout=layout) if by_kernels else None
    if columns is not None and (written := columns.written_files(_STATS, partitions)) is not None:
        return {check_relative_path(partition): _sizes(files) for partition, files in written}
    stats = _read_fields(data, file=file, layout=layout).records_by_key(_STATS)
    return {
        check_relative_path(partition): _sizes((stat.text("path"), stat.integer("fileSizeInBytes")) for stat in each)
        for partition, each in stats.items()
        if partitions is None or partition in partitions
    }


def _columns(data: bytes, *, layout: int) -> CommitColumns | None:
    """What kernels make of the content; None where it has to be read without."""
    if layout < 2 or not data.startswith(MAGIC):
        return None
    # Imported here: a process that reads commits of few files does without Arrow.
    from lakeward.format.timeline.commit_columns import read_commit_columns

    return read_commit_columns(data)


def _sizes(files: Iterable[tuple[str | None, int | None]]) -> dict[str, int | None]:
    sizes: dict[str, int | None] = {}
    for path, size in files:
        if path:
            # Where a log is appended to, a stat gives the bytes of that time; Flink adds them up before it commits
            # (WriteStatMerger, Hudi 1.x). What names a file twice all the same does not say how long it is.
            sizes[check_relative_path(path)] = None if path in sizes else size or None
    return sizes


def _read_fields(data: bytes, *, file: str, layout: int) -> RecordFields:
    if layout >= 2 and data.startswith(MAGIC):
        return RecordFields(read_record(data, file=file), file=file)
    # Timelines that were upgraded in place by early 1.x releases keep JSON in layout 2.
    try:
        values = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BrokenFile(
            f"{file} is no commit metadata.",
            why=f"It is neither Avro nor complete JSON: {error}.",
            remedy="Its writer died over it or it was damaged; restore it, or roll back the instant it belongs to.",
        ) from error
    return RecordFields(values, file=file)


def write_replace_metadata(metadata: CommitMetadata) -> bytes:
    """The bytes of a completed replacecommit, in layout 2."""
    record = {
        **_record(metadata),
        "partitionToReplaceFileIds": {
            partition: list(file_ids) for partition, file_ids in metadata.partition_to_replace_file_ids.items()
        },
    }
    return write_record(_REPLACE_METADATA, {**record, "version": None})


def write_commit_metadata(metadata: CommitMetadata, *, layout: int = 2) -> bytes:
    """The bytes of a completed commit or deltacommit."""
    assert not metadata.partition_to_replace_file_ids, "a replacecommit has a schema of its own"
    record = _record(metadata)
    if layout < 2:
        return orjson.dumps(_set_values(record), option=orjson.OPT_INDENT_2)
    # Hudi's Java writers leave the version empty.
    return write_record(_COMMIT_METADATA, {**record, "version": None})


def _record(metadata: CommitMetadata) -> dict[str, Any]:
    return {
        _STATS: {
            partition: [_stat_record(stat) for stat in stats]
            for partition, stats in metadata.partition_to_write_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra_metadata),
        "operationType": metadata.operation_type,
    }


def _set_values(record: Any) -> Any:
    """Without what is null: to Hudi's reader of JSON a field that is not there is one that is not set."""
    if isinstance(record, dict):
        return {name: _set_values(value) for name, value in record.items() if value is not None}
    return [_set_values(each) for each in record] if isinstance(record, list) else record


def _write_stat(fields: RecordFields) -> WriteStat:
    values = {
        own: _stat_value(fields, name, avro_type)
        for own, (name, avro_type) in zip(_WRITE_STAT_FIELDS, _WRITE_STAT_TYPES.items(), strict=True)
    }
    stat = WriteStat(**values)
    check_relative_path(stat.path or "")
    check_relative_path(stat.partition_path or "")
    if stat.file_id:
        check_file_id(stat.file_id)
    return stat


def _stat_value(fields: RecordFields, name: str, avro_type: object) -> Any:
    if not fields.has(name):
        return None
    if avro_type is TEXT:
        return fields.text(name)
    if avro_type is TEXTS:
        return fields.texts(name)
    if avro_type is _LONG_BY_KEY:
        return fields.integer_by_key(name)
    if avro_type is not _RUNTIME_STATS:
        return fields.integer(name)
    times = fields.record(name)
    assert times is not None, "the field is there"
    return RuntimeStats(
        total_scan_time=times.integer("totalScanTime"),
        total_create_time=times.integer("totalCreateTime"),
        total_upsert_time=times.integer("totalUpsertTime"),
    )


def _stat_record(stat: WriteStat) -> dict[str, Any]:
    record = {name: getattr(stat, own) for own, name in zip(_WRITE_STAT_FIELDS, _WRITE_STAT_TYPES, strict=True)}
    if stat.log_files is not None:
        record["logFiles"] = list(stat.log_files)
    if stat.cdc_stats is not None:
        record["cdcStats"] = dict(stat.cdc_stats)
    if stat.runtime_stats is not None:
        record["runtimeStats"] = {
            "totalScanTime": stat.runtime_stats.total_scan_time,
            "totalCreateTime": stat.runtime_stats.total_create_time,
            "totalUpsertTime": stat.runtime_stats.total_upsert_time,
        }
    return record

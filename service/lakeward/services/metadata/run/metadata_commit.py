"""What a compaction of the metadata table leaves on its timeline: the plan, and the commit. And whether a plan holds.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes them on the metadata table of a table of version 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakeward.format.avro.schema import without_meta_columns
from lakeward.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, RuntimeStats, WriteStat, file_stat
from lakeward.format.timeline.compaction_plan import MEBIBYTE, CompactionOperation, CompactionPlan
from lakeward.format.timeline.instant import comparable_time
from lakeward.table.file_group import FileSlice
from lakeward.table.metadata.metadata_table import MetadataTable
from lakeward.table.timeline.service_instants import PLANNED_BY


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """A base file that stands for a slice of the metadata table."""

    slice: FileSlice
    file_name: str
    entries: int
    size_bytes: int
    milliseconds: int


def metadata_compaction_plan(slices: Iterable[FileSlice], planned_by: Mapping[str, str]) -> CompactionPlan:
    operations = tuple(_operation(slice_) for slice_ in slices)
    return CompactionPlan(operations, extra_metadata={**planned_by, PLANNED_BY: "lakeward"})


def metadata_compaction_commit(made: Iterable[CompactedSlice], schema_json: str) -> CommitMetadata:
    """`schema_json` is that of the records, with Hudi's own columns."""
    stats: dict[str, list[WriteStat]] = {}
    for each in made:
        stats.setdefault(each.slice.partition_path, []).append(_write_stat(each))
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(of) for partition, of in stats.items()},
        compacted=True,
        extra_metadata={"schema": without_meta_columns(schema_json)},
        operation_type="COMPACT",
    )


def changed_operation(plan: CompactionPlan, instant: str, now: MetadataTable) -> CompactionOperation | None:
    """The first one whose slice does not hold, as of `instant`, what the plan says: a file of it was taken away, or one
    came whose commit completed before. A slice later than `instant` lies on top of what is made of the older ones."""
    found = {slice_.group_id: slice_ for slices in now.slices.values() for slice_ in slices}
    for operation in plan.operations:
        slice_ = found.get((operation.partition_path, operation.file_id))
        if slice_ is None:
            return operation
        if comparable_time(slice_.base_instant) > comparable_time(instant):
            continue
        base_file = slice_.base_file.name if slice_.base_file else None
        logs = tuple(log.name.text for log in slice_.log_files if _is_before(log.instant, instant, now))
        if (base_file, logs) != (operation.base_file, operation.log_files):
            return operation
    return None


def _is_before(log_instant: str, instant: str, now: MetadataTable) -> bool:
    completed = now.timeline.completion_time(log_instant)
    return completed is None or comparable_time(completed) < comparable_time(instant)


def _operation(slice_: FileSlice) -> CompactionOperation:
    read, written = (slice_.base_bytes + slice_.log_bytes) / MEBIBYTE, slice_.base_bytes / MEBIBYTE
    return CompactionOperation(
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_instant=slice_.base_instant,
        base_file=slice_.base_file.name if slice_.base_file else None,
        log_files=tuple(log.name.text for log in slice_.log_files),
        metrics={
            "TOTAL_LOG_FILES": float(len(slice_.log_files)),
            "TOTAL_LOG_FILES_SIZE": float(slice_.log_bytes),
            "TOTAL_IO_READ_MB": read,
            "TOTAL_IO_WRITE_MB": written,
            "TOTAL_IO_MB": read + written,
        },
    )


def _write_stat(made: CompactedSlice) -> WriteStat:
    slice_ = made.slice
    return replace(
        file_stat(slice_.partition_path, slice_.file_id, made.file_name, made.size_bytes),
        prev_commit=slice_.base_file.instant if slice_.base_file else NO_COMMIT,
        num_writes=made.entries,
        prev_base_file=slice_.base_file.name if slice_.base_file else None,
        runtime_stats=RuntimeStats(total_scan_time=made.milliseconds, total_create_time=0, total_upsert_time=0),
        total_log_files_compacted=len(slice_.log_files),
        total_log_read_time_ms=made.milliseconds,
        total_log_size_compacted=slice_.log_bytes,
    )

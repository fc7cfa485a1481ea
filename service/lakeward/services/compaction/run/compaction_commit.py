"""The commit metadata of compactions and log compactions, as Hudi's readers and cleaners expect it.

A log compaction is completed as a delta commit whose stats look like those of an append, with counts of what was
merged beside them. A hybrid plan has results of both kinds; its LOG operations have the stats of a log compaction.
How the file groups were merged is an entry of Lakeward in the extra metadata (`MERGED_BY_KEY`), which Hudi carries
along.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes them on table version 9 (HoodieWriteStat, HoodieDeltaWriteStat); for native
         logs FileGroupReaderBasedNativeLogAppendHandle (Hudi's master of August 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.format.timeline.commit_metadata import (
    LATEST_SCHEMA,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    file_stat,
    log_stat,
)
from lakeward.read.slice_input import MERGED_BY_KEY, count_merges
from lakeward.storage.storage import join
from lakeward.table.file_group import FileSlice


def compaction_commit(
    slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str, latest_schema: str | None = None
) -> CommitMetadata:
    """The metadata of a compaction: one result for each slice; `schema` is the table's, without meta fields, and
    `latest_schema` that by which the results were written, with its ids, where the table has schema on read."""
    return _commit(slices, results, schema, latest_schema, operation_type="COMPACT")


def log_compaction_commit(
    slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str, latest_schema: str | None = None
) -> CommitMetadata:
    """The metadata of a log compaction. `slices` are those that the operations took their logs from."""
    assert all(result.kind is OperationKind.LOG for result in results)
    return _commit(slices, results, schema, latest_schema, operation_type="LOG_COMPACT")


def _commit(
    slices: Sequence[FileSlice],
    results: Sequence[OperationResult],
    schema: str,
    latest_schema: str | None,
    *,
    operation_type: str,
) -> CommitMetadata:
    stats: dict[str, list[WriteStat]] = {}
    merges = [f"{by} {number}" for by, number in count_merges(result.counts for result in results).items()]
    if copied := sum(result.counts.row_groups_copied for result in results):
        merges.append(f"row groups copied {copied}")
    for slice_, result in zip(slices, results, strict=True):
        of_result = _log_stats(slice_, result) if result.kind is OperationKind.LOG else [_base_stat(slice_, result)]
        stats.setdefault(slice_.partition_path, []).extend(of_result)
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(each) for partition, each in stats.items()},
        compacted=True,
        extra_metadata={
            "schema": schema,
            **({} if latest_schema is None else {LATEST_SCHEMA: latest_schema}),
            MERGED_BY_KEY: ", ".join(merges),
        },
        operation_type=operation_type,
    )


def _base_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    return replace(
        _shared_stat(slice_, result),
        prev_base_file=slice_.base_file.name if slice_.base_file else None,
        num_update_writes=result.counts.updated,
        num_inserts=result.counts.inserted,
        total_log_size_compacted=slice_.log_bytes,
        cdc_stats=None if result.change_log is None else result.change_log.stats_in(slice_.partition_path),
    )


def _log_stats(slice_: FileSlice, result: OperationResult) -> list[WriteStat]:
    """One for each file; what was read for them is in the first alone."""
    stat = replace(
        log_stat(_shared_stat(slice_, result)),
        num_update_writes=result.counts.rows,
        num_inserts=0,
        total_log_size_compacted=result.input_bytes,
    )
    if (deletes := result.delete_log) is None:
        return [stat]
    of_file = file_stat(slice_.partition_path, slice_.file_id, deletes.file_name, deletes.size_bytes)
    of_deletes = replace(
        log_stat(of_file, names_before=(result.file_name,)),
        prev_commit=stat.prev_commit,
        num_deletes=stat.num_deletes,
        runtime_stats=RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
    )
    return [replace(stat, num_deletes=0), of_deletes]


def _shared_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    """The file that was written, and what was read for it."""
    assert result.file_id == slice_.file_id
    counts, milliseconds = result.counts, int(result.seconds * 1000)
    return WriteStat(
        file_id=slice_.file_id,
        path=join(slice_.partition_path, result.file_name),
        partition_path=slice_.partition_path,
        prev_commit=slice_.base_instant,
        num_writes=counts.rows,
        num_deletes=counts.deleted,
        num_updates=0,
        total_write_bytes=result.size_bytes,
        file_size_in_bytes=result.size_bytes,
        total_write_errors=0,
        total_log_records=counts.log_records,
        total_updated_records_compacted=counts.log_keys,
        total_log_blocks=counts.log_blocks,
        total_corrupt_log_block=counts.corrupt_blocks,
        total_rollback_blocks=counts.rollback_blocks,
        total_log_files_compacted=counts.log_files,
        total_log_read_time_ms=milliseconds,
        runtime_stats=RuntimeStats(total_scan_time=milliseconds, total_create_time=0, total_upsert_time=0),
    )

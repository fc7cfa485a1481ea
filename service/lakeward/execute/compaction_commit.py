"""The commit metadata of a compaction: from what the operations made to what Hudi's readers and cleaners expect.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes it (HoodieWriteStat of a compaction on table version 9).
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.execute.log_compaction_commit import log_write_stat
from lakeward.execute.operation_spec import OperationKind, OperationResult
from lakeward.format.commit_metadata import CommitMetadata, RuntimeStats, WriteStat
from lakeward.storage.storage import join
from lakeward.table.file_group import FileSlice


def compaction_commit(slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str) -> CommitMetadata:
    """The completed metadata; one result for each slice. `schema` is the table's, without meta fields.

    A hybrid plan has results of both kinds; LOG operations have the stats of a log compaction there too.
    """
    stats: dict[str, list[WriteStat]] = {}
    for slice_, result in zip(slices, results, strict=True):
        stat = log_write_stat(slice_, result) if result.kind is OperationKind.LOG else _write_stat(slice_, result)
        stats.setdefault(slice_.partition_path, []).append(stat)
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(each) for partition, each in stats.items()},
        compacted=True,
        extra_metadata={"schema": schema},
        operation_type="COMPACT",
    )


def _write_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    counts = result.counts
    return WriteStat(
        file_id=slice_.file_id,
        path=join(slice_.partition_path, result.file_name),
        partition_path=slice_.partition_path,
        prev_commit=slice_.base_instant,
        prev_base_file=slice_.base_file.name if slice_.base_file else None,
        num_writes=counts.rows,
        num_deletes=counts.deleted,
        num_update_writes=counts.updated,
        num_inserts=counts.inserted,
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
        total_log_size_compacted=slice_.log_bytes,
        total_log_read_time_ms=int(result.seconds * 1000),
        runtime_stats=RuntimeStats(
            total_scan_time=int(result.seconds * 1000), total_create_time=0, total_upsert_time=0
        ),
    )

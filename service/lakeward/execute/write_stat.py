"""What the write stats of FULL and LOG operations have in common.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes them on table version 9 (HoodieWriteStat, HoodieDeltaWriteStat).
"""

from __future__ import annotations

from lakeward.execute.operation_spec import OperationResult
from lakeward.format.commit_metadata import RuntimeStats, WriteStat
from lakeward.storage.storage import join
from lakeward.table.file_group import FileSlice


def shared_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    """The file that was written, and what was read for it; the caller adds what the kind of operation says."""
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

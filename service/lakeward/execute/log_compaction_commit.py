"""The metadata of LOG operations: a log compaction's commit, and the write stats that a hybrid commit has for them.

A log compaction is completed as a delta commit whose stats look like those of an append, with counts of what was
merged beside them.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes it (HoodieDeltaWriteStat of a log compaction on table version 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.execute.operation_spec import OperationKind, OperationResult
from lakeward.execute.write_stat import shared_stat
from lakeward.format.commit_metadata import CommitMetadata, WriteStat
from lakeward.table.file_group import FileSlice


def log_compaction_commit(
    slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str
) -> CommitMetadata:
    """The completed metadata of a log compaction; `schema` is the table's, without meta fields.

    `slices` are those that the operations took their logs from, one for each result, in its order.
    """
    stats: dict[str, list[WriteStat]] = {}
    for slice_, result in zip(slices, results, strict=True):
        stats.setdefault(slice_.partition_path, []).append(log_write_stat(slice_, result))
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(each) for partition, each in stats.items()},
        compacted=True,
        extra_metadata={"schema": schema},
        operation_type="LOG_COMPACT",
    )


def log_write_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    """What a LOG operation wrote into its slice."""
    assert result.kind is OperationKind.LOG
    return replace(
        shared_stat(slice_, result),
        base_file="",
        log_files=(result.file_name,),
        log_version=1,
        log_offset=0,
        num_update_writes=result.counts.rows,
        num_inserts=0,
        total_log_size_compacted=result.input_bytes,
    )

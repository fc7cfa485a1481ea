"""The commit metadata of a compaction: from what the operations made to what Hudi's readers and cleaners expect.

Touches: nothing.
Source:  field by field as Hudi 1.2 writes it (HoodieWriteStat of a compaction on table version 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.execute.log_compaction_commit import log_write_stat
from lakeward.execute.operation_spec import OperationKind, OperationResult
from lakeward.execute.write_stat import shared_stat
from lakeward.format.commit_metadata import CommitMetadata, WriteStat
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
    return replace(
        shared_stat(slice_, result),
        prev_base_file=slice_.base_file.name if slice_.base_file else None,
        num_update_writes=result.counts.updated,
        num_inserts=result.counts.inserted,
        total_log_size_compacted=slice_.log_bytes,
    )

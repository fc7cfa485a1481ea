"""What a write says of itself: while it is pending, the groups that it updates; completed, each file that it wrote.

    pending     for each partition a stat without a file id with the rows of new keys, and one for each group that rows
                go to with those of known ones (Hudi's workload profile)
    completed   the write stats of its files, the schema; of a replacecommit what was replaced

Touches: nothing.
Source:  BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight, CommitUtils.buildMetadata (Hudi 1.2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeward.format.timeline.commit_metadata import (
    NO_COMMIT,
    NOTHING_COUNTED,
    CommitMetadata,
    WriteStat,
    write_commit_metadata,
    write_replace_metadata,
)
from lakeward.write.request import WriteRequest
from lakeward.write.target import Assignment, HandleKind, TargetResult, rows_of_targets

_NO_GROUP = replace(NOTHING_COUNTED, file_id="", prev_commit=NO_COMMIT)


def write_profile(assignment: Assignment, operation_type: str) -> bytes:
    """What `.inflight` says, once it is known which rows go where."""
    stats: dict[str, list[WriteStat]] = {}
    known = rows_of_targets({place: shares for place, shares in assignment.places.items() if place[1] is not None})
    inserts = rows_of_targets({place: shares for place, shares in assignment.places.items() if place[1] is None})
    new: Counter[str] = Counter()
    for target in assignment.targets:
        of_partition = stats.setdefault(target.partition_path, [])
        new[target.partition_path] += inserts[target.index]
        if target.kind is HandleKind.CREATE:
            new[target.partition_path] += known[target.index]
            continue
        # A group that new rows alone go to is named, too, which Hudi leaves out: compactions wait for those that are.
        of_partition.append(
            replace(
                _NO_GROUP, file_id=target.file_id, prev_commit=target.prev_commit, num_update_writes=known[target.index]
            )
        )
    partitions = {
        path: (replace(_NO_GROUP, num_inserts=new[path]), *of_partition) for path, of_partition in stats.items()
    }
    return write_commit_metadata(
        CommitMetadata(partition_to_write_stats=partitions, compacted=False, operation_type=operation_type)
    )


def completed_write(
    request: WriteRequest,
    results: Sequence[TargetResult],
    schema: str,
    replaced: Mapping[str, tuple[str, ...]],
) -> bytes:
    """The bytes of the completed instant."""
    stats: dict[str, list[WriteStat]] = {}
    for result in results:
        for file in result.files:
            stats.setdefault(result.partition_path, []).append(file.stat)
    metadata = CommitMetadata(
        partition_to_write_stats={path: tuple(each) for path, each in stats.items()},
        compacted=False,
        extra_metadata={"schema": schema, **request.extra_metadata},
        operation_type=request.operation.operation_type,
    )
    if request.operation.replaces:
        return write_replace_metadata(replace(metadata, partition_to_replace_file_ids=replaced))
    return write_commit_metadata(metadata)

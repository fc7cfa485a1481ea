"""Write base files again with the same rows, by their keys: a write without rows of its own.

To every reader it is an upsert that changed nothing: a `commit`, or on a table that is merged on read a `deltacommit`,
with a new base file in each file group. Keys stay in their file groups, where indexes and buckets look for them, and
rows keep their commit times. It fails, is rolled back and is cleaned as any write.

Touches: the table, through `write/write_start.py` and `write/write_run.py`; through a dispatcher the files.
Keeps:   1. no key goes to another file group, and no row gets another commit time;
         2. a file group whose newest slice is no single base file any more makes the write fail.
See:     docs/decisions/0070-a-table-becomes-lsm-tree.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from lakeward.base.errors import Conflict
from lakeward.engine.dispatch.dispatcher import Dispatcher, make_ready
from lakeward.protocol.life_cycle import run_attempt
from lakeward.protocol.metadata.snapshot import check_rows_can_be_written
from lakeward.protocol.preconditions import check_space
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.table_rules import merge_rules
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.write.assignment import Unassigned
from lakeward.write.flow.rowless import RowlessFlow
from lakeward.write.placement import slice_to_merge
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.target import Assignment, HandleKind, TargetResult, WriteContext, WriteTarget
from lakeward.write.whole_write import known_schema
from lakeward.write.write_run import WriteRun
from lakeward.write.write_start import begin_write

SortTarget = Callable[[WriteContext, WriteTarget, int], TargetResult]

SORTED_KEY = "lakeward.sorted"
"""Entry of the commit: how many base files were rewritten by their keys."""


def sort_slices(
    table: ServicedTable,
    slices: Collection[FileSlice],
    choose_dispatcher: Callable[[int], Dispatcher],
    sort_target: SortTarget,
) -> None:
    """One commit with a sorted base file in place of that of each slice.

    Args:
        sort_target: called where the work runs; has its own access to the storage.

    Raises `Refused`, `Conflict` where a slice is another one meanwhile, and what the life cycle raises; then nothing is
    left of it."""
    snapshot = table.snapshot(only=(), service=TableService.WRITING)
    check_rows_can_be_written(table.storage, snapshot)
    schema = known_schema(snapshot)
    assert schema is not None, "there are base files"
    input_bytes = sum(each.base_bytes for each in slices)
    check_space(table, input_bytes, what="sorting", remedy="Make room, or clean the table first.")
    dispatcher = choose_dispatcher(input_bytes)
    make_ready(dispatcher, table)
    request = WriteRequest(WriteOperation.UPSERT, extra_metadata={SORTED_KEY: str(len(slices))})
    groups = [each.group_id for each in slices]
    flow = RowlessFlow(dispatcher, sort_target, lambda assignment: assignment.targets, description="sorting")
    run = WriteRun(table, begin_write(table, request), flow, schema, partial(_assign, groups))
    run_attempt(table, run)


def _assign(groups: Collection[GroupId], write: Unassigned) -> Assignment:
    snapshot = write.snapshot
    latest = {slice_.group_id: slice_ for slice_ in snapshot.latest_slices}
    targets = []
    for index, group in enumerate(groups):
        slice_ = latest.get(group)
        if slice_ is None or slice_.base_file is None or slice_.log_files:
            raise Conflict(
                f"File group {group[1]} has another newest slice than when it was chosen.",
                why="Another process works on the table.",
                remedy="Stop it, and run the command again; nothing was published.",
                file_group=group,
            )
        of_slice = slice_to_merge(
            snapshot,
            slice_,
            instant=write.instant,
            schema=write.schema,
            rules=merge_rules(snapshot),
            memory_bytes=write.table.options.memory_bytes,
        )
        target = WriteTarget(index, HandleKind.MERGE, *group, slice=of_slice, prev_commit=slice_.base_file.instant)
        targets.append(target)
    return Assignment(tuple(targets), {})

"""Delete the partitions of a table that expired, as one commit that replaces their file groups, as Hudi's TTL does.

    no lock   what dead processes of Lakeward left is ended -> plan -> no write at work in these partitions
    lock      the instant stands on the timeline as that of a delete_partition
    no lock   the plan is made again: each partition is expired still -> no write at work
    lock      no file group of them changed, none is new, no write is at work -> metadata table -> `.replacecommit`

The files stay until a clean takes them, which can keep them in quarantine; until then, and from there,
`lakeward restore` brings the partitions back.

Touches: the table, through `write/write_start.py` and `write/write_run.py`.
Keeps:   1. a partition that is younger once the instant stands, or in which a file group changed or came since, is not
            deleted, and nothing else is by that commit;
         2. nothing is published while a pending write may touch one of the partitions, where writers are not stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from lakeward.base.errors import Conflict
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.life_cycle import run_attempt
from lakeward.protocol.metadata.snapshot import check_rows_can_be_written
from lakeward.protocol.pause_of_writers import PauseOfWriters
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.services.ttl.plan.ttl_plan import TtlPlan, TtlReport
from lakeward.services.ttl.run.partition_ages import plan_expiry
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.assignment import Unassigned, assign_rows
from lakeward.write.flow.rowless import RowlessFlow
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.target import Assignment, TargetResult, WriteContext
from lakeward.write.whole_write import known_schema
from lakeward.write.write_run import WriteRun
from lakeward.write.write_start import begin_in_pause, end_dead_writes

TTL_KEY = "lakeward.ttl"
"""Entry of the commit: by which rule the partitions expired."""

Select = Callable[[Collection[str]], Collection[str] | None]


def expire_partitions(
    table: ServicedTable, options: TtlOptions, *, select: Select, excluded: Collection[GroupId] = ()
) -> TtlReport:
    """Raises `Refused`, `TryLater` where writers leave no gap, `Conflict` where a partition was written to meanwhile,
    and what the life cycle raises; then nothing is left of it."""
    end_dead_writes(table)
    snapshot = table.snapshot(service=TableService.WRITING)
    check_rows_can_be_written(table.storage, snapshot)

    def expired(at: TableSnapshot) -> TtlPlan:
        now, selected = table.clock.now(), select(at.partitions)
        return plan_expiry(table.storage, at, options, now=now, known={}, selected=selected, excluded=excluded)

    plan = expired(snapshot)
    if not plan.partitions:
        return TtlReport(plan)
    schema = known_schema(snapshot)
    assert schema is not None, "there are files"
    yielding = PauseOfWriters(table, set(plan.partitions))
    request = WriteRequest(
        WriteOperation.DELETE_PARTITION,
        partitions=plan.partitions,
        extra_metadata={TTL_KEY: f"{options.by}, {options.keep:.0f} s"},
    )

    def assign(write: Unassigned) -> Assignment:
        # t0 we plan; t1 a write completes; t2 our instant stands on the timeline: the plan does not know of that write.
        younger = sorted(set(plan.partitions) - set(expired(write.snapshot).partitions))
        if younger:
            raise Conflict(
                f"Partition {younger[0]} is not expired any more.",
                why="It was written to, or something pending or a savepoint names it now.",
                remedy="Run the command again; nothing was deleted.",
            )
        assigned = assign_rows(write)
        taken = tuple(each for each in write.snapshot.latest_slices if each.partition_path in assigned.replaced)
        return replace(assigned, taken=taken)

    begun = begin_in_pause(table, request, yielding)
    yielding.own = begun.instant
    flow = RowlessFlow[None](InProcessDispatcher(), _nothing, lambda _: (), description="ttl")
    run = WriteRun(table, begun, flow, schema, assign, yielding=yielding)
    completion_time = run_attempt(table, run, give_up=run.empty_publication)
    return TtlReport(plan, begun.instant, completion_time)


def _nothing(context: WriteContext, item: None, task_attempt: int) -> TargetResult:
    raise AssertionError("no file is written")

"""A gap between writes in which to plan a FULL, for tables with writers by the rules of Hudi 1.0.

To them a compaction that was requested after a write of theirs is a conflict, pending or completed, and one requested
before never is. Between its time and its `.requested` such a writer is not seen: it takes the time under the lock
and writes the file after giving it back. So the lock is held for a while before the scan.

Touches: reads the timeline and heartbeats; waits, under the table lock for UNSEEN_SECONDS.
Keeps:   no FULL is planned in a partition in which a live write may be at work, unless the operator said to go on.
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.yielding import WritersConflict, YieldThen
from lakeward.services.compaction.plan.decision import Choice, Form, PlanOutcome, Reason
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_version import TableVersion
from lakeward.table.timeline.timeline import Timeline

UNSEEN_SECONDS = 1.0
"""Ten times what was seen on a local disk from a writer's time to its `.requested`."""

POLL_SECONDS = 0.5


def needs_gap(table: ServicedTable, version: TableVersion) -> bool:
    options = table.options
    return (
        not options.writers_stopped
        and options.yielding.then is not YieldThen.GO_ON
        and options.yielding.rules_for(version) is WritersConflict.RELEASE_1_0
    )


def await_gap(table: ServicedTable, outcome: PlanOutcome) -> None:
    """Until no live write may touch a partition in which a FULL is wanted, or it was waited for long enough."""
    partitions = {operation.partition_path for operation in _full_operations(outcome)}
    started = table.clock.monotonic()
    while writes := table.writers.scan().touching(partitions):
        waited = table.clock.monotonic() - started
        if waited >= table.options.yielding.seconds:
            return
        what = f"write {writes[0].instant} is at work, and would fail for a plan"
        table.pause(what, waited, seconds=POLL_SECONDS)


def let_unseen_writes_appear(table: ServicedTable) -> None:
    table.clock.sleep(UNSEEN_SECONDS)


def groups_at_work(table: ServicedTable, snapshot: TableSnapshot, timeline: Timeline) -> dict[GroupId, Reason]:
    """The file groups of which nothing may be planned now, with the timeline as it is."""
    writes = table.writers.scan(timeline)
    busy = {partition for partition in snapshot.partitions if writes.touching((partition,))}
    return {slice_.group_id: Reason.WRITE_AT_WORK for slice_ in snapshot.latest_slices if slice_.partition_path in busy}


def _full_operations(outcome: PlanOutcome) -> list[CompactionOperation]:
    """The operations of its plan of compaction, which in the hybrid form are all."""
    return [
        operation
        for operation in outcome.operations
        if outcome.form is Form.HYBRID or operation.operation_type != Choice.LOG
    ]

"""Write the choice down: under the table lock, briefly, as plans on the timeline.

    choose, hold against the storage, encode       no lock
    look     does the choice still stand?          lock: two listings and a few small files, whatever the table's width
      yes -> take times, write the plans
      no  -> give the lock back, choose again, look again; after LOOKS_MAX times all of it under the lock

A gap between writes in which to plan a FULL, for tables with writers by the rules of Hudi 1.0.

To them a compaction that was requested after one of their writes is a conflict, pending or completed, and one requested
before never is. Between its time and its `.requested` such a writer is not seen: it takes the time under the lock
and writes the file after giving it back. So the lock is held for a while before the scan.

Touches: the table lock; writes `.requested` files; reads the timeline and heartbeats; waits, under the table lock for
         UNSEEN_SECONDS.
Keeps:   1. nothing is written before every refusal was considered, on a snapshot that is right under the lock;
         2. a plan says who planned it;
         3. beside writers a log compaction has few partitions, those first in which no write is at work;
         4. the lock is not held for a scan of the table, unless the table changed at each look;
         5. no FULL is planned in a partition in which a live write may be at work, unless the operator said to go on.
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from lakeward.base.errors import Conflict
from lakeward.engine.dispatch.dispatcher import make_ready
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.pending.pending_work import PendingWork
from lakeward.protocol.preconditions import check_metadata_table, check_space
from lakeward.protocol.progress import Phase
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import ServiceAction
from lakeward.protocol.writers_conflict import WritersConflict, few_partitions_each
from lakeward.services.compaction.plan.decision import Choice, Form, PlanOutcome, Reason
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.run.group_selection import choose, hold_against_storage
from lakeward.services.compaction.run.log_checks import CheckedLogs
from lakeward.services.compaction.run.operations import ChooseDispatcher
from lakeward.services.compaction.run.plan_preview import Preview, timeline_if_unchanged
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_version import TableVersion
from lakeward.table.timeline.service_instants import PLANNED_BY
from lakeward.table.timeline.timeline import Timeline

LOOKS_MAX = 3
"""A commit may come while a calm moment is waited for, and once more while a wide table is scanned."""


UNSEEN_SECONDS = 1.0
"""Ten times what was seen on a local disk from a writer's time to its `.requested`."""

POLL_SECONDS = 0.5


def needs_gap(table: ServicedTable, version: TableVersion) -> bool:
    options = table.options
    return not options.writers_stopped and options.yielding.rules_for(version) is WritersConflict.RELEASE_1_0


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


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """A plan as it is to be published."""

    action: ServiceAction
    plan: CompactionPlan
    content: bytes


def schedule(
    table: ServicedTable,
    planner: Planner,
    preview: Preview,
    choose_dispatcher: ChooseDispatcher,
    planned_by: Mapping[str, str],
) -> tuple[list[PendingWork], Preview]:
    """Write the choice down, as a few plans at most. Returns them in the order in which to carry them out, and the
    preview that they were made of."""
    input_bytes = preview.outcome.input_bytes
    make_ready(choose_dispatcher(input_bytes), table)
    check_space(
        table,
        input_bytes,
        what="the compaction",
        remedy="Free space, or compact a part of the table with --partition or --file-group.",
    )
    in_gap = needs_gap(table, preview.snapshot.config.version)
    if in_gap:
        await_gap(table, preview.outcome)
    with table.measured(Phase.SCHEDULE):
        for _ in range(LOOKS_MAX):
            if _timeline_if_it_stands(table, preview, in_gap=in_gap) is None:
                preview = _choose_again(table, planner, preview.checked, in_gap=in_gap)
            try:
                preview = _hold_against_table(table, planner, preview)
            except Conflict:
                if _timeline_if_it_stands(table, preview, in_gap=in_gap) is not None:
                    raise
                continue  # a writer ended between the two listings
            if not preview.outcome.operations:
                return [], preview
            plans = _encode(table, preview, planned_by)
            with table.locked() as fence:
                if in_gap:
                    let_unseen_writes_appear(table)
                if (timeline := _timeline_if_it_stands(table, preview, in_gap=in_gap)) is not None:
                    return _request(table, preview, plans, timeline, fence), preview
        with table.locked() as fence:
            if in_gap:
                let_unseen_writes_appear(table)
            preview = _choose_again(table, planner, preview.checked, in_gap=in_gap)
            preview = _hold_against_table(table, planner, preview)
            plans = _encode(table, preview, planned_by)
            return _request(table, preview, plans, preview.snapshot.timeline, fence), preview


def _timeline_if_it_stands(table: ServicedTable, preview: Preview, *, in_gap: bool) -> Timeline | None:
    """The timeline as it is now, where the preview may be written down now; else None."""
    timeline = timeline_if_unchanged(table, preview)
    if timeline is None or not in_gap:
        return timeline
    return timeline if preview.groups.isdisjoint(groups_at_work(table, preview.snapshot, timeline)) else None


def _choose_again(table: ServicedTable, planner: Planner, checked: CheckedLogs, *, in_gap: bool) -> Preview:
    snapshot = table.snapshot()
    excluded = groups_at_work(table, snapshot, snapshot.timeline) if in_gap else {}
    excluded |= {group_id: why for group_id, why in checked.excluded.items() if why is not Reason.WRITE_AT_WORK}
    return choose(table, planner, snapshot, replace(checked, excluded=excluded))


def _hold_against_table(table: ServicedTable, planner: Planner, preview: Preview) -> Preview:
    """Raises `Conflict` where the table was listed wrongly, `Unsupported` and `BrokenFile` where we could not write to
    its metadata table."""
    if preview.snapshot.schema is not None:  # it is without one only where nothing was ever written
        check_metadata_table(table, preview.snapshot)
    return hold_against_storage(table, planner, preview)


def _request(
    table: ServicedTable, preview: Preview, plans: Sequence[EncodedPlan], timeline: Timeline, fence: Fence
) -> list[PendingWork]:
    """Under the lock, with the timeline as it is."""
    if not plans:
        return []
    snapshot, scheduled = preview.snapshot, []
    times = table.minter(snapshot, timeline=timeline).mint(len(plans))
    for instant, each in zip(times, plans, strict=True):
        fence()
        table.attempt(snapshot, instant, each.action).files.request(each.content)
        scheduled.append(PendingWork(instant, each.action, each.plan))
        table.observer.step(f"{label(each.action)} {instant} scheduled, file slices: {len(each.plan.operations)}")
    return scheduled


def _encode(table: ServicedTable, preview: Preview, planned_by: Mapping[str, str]) -> list[EncodedPlan]:
    busy = None if table.options.writers_stopped else table.writers.scan().partitions
    native = preview.snapshot.config.version.has_native_logs
    return [
        EncodedPlan(action, plan, write_compaction_plan(plan, native=native))
        for action, plan in _plans_of(preview.outcome, planned_by, busy)
    ]


def _plans_of(
    outcome: PlanOutcome, planned_by: Mapping[str, str], busy: Set[str] | None
) -> list[tuple[ServiceAction, CompactionPlan]]:
    """The plans to publish, a few at most. In the split form log compactions come first: they are short.

    Args:
        busy: the partitions in which writes are at work; None where there are no writers.
    """
    plans: list[tuple[ServiceAction, CompactionPlan | None]]
    if outcome.form is Form.HYBRID:
        plans = [(ServiceAction.COMPACTION, outcome.hybrid_plan)]
    else:
        plans = [(ServiceAction.LOG_COMPACTION, plan) for plan in log_plans(outcome.log_plan, busy)]
        plans.append((ServiceAction.COMPACTION, outcome.full_plan))
    return [
        (action, replace(plan, extra_metadata={**plan.extra_metadata, **planned_by, PLANNED_BY: "lakeward"}))
        for action, plan in plans
        if plan is not None
    ]


def log_plans(plan: CompactionPlan | None, busy: Set[str] | None) -> list[CompactionPlan]:
    """The log compactions that a plan of LOG operations is written down as."""
    if plan is None or busy is None:
        return [] if plan is None else [plan]
    parts = few_partitions_each({operation.partition_path for operation in plan.operations}, busy)
    return [
        replace(plan, operations=tuple(each for each in plan.operations if each.partition_path in part))
        for part in parts
    ]

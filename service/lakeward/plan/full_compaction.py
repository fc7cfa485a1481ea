"""Full compaction of whatever has logs: one table snapshot in, one decision for each file group out.

The rule of `compact --type full`: a latest file slice with log files is rewritten whole, and every other group gets
NONE with the reason.

Touches: nothing. No storage, clock or database, so equal inputs give equal plans.
Keeps:   1. a file group with a pending operation of any service is never planned;
         2. a file group whose slices are not certain (frozen) is never planned;
         3. only log files that the snapshot calls completed are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.plan.cost import Cost, full_cost
from lakeward.plan.decision import Choice, Decision, PlanOutcome, Reason, decide_frozen, full_operation
from lakeward.plan.selection import GroupFilter
from lakeward.table.backlog import GroupBacklog, backlog_of_group
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


def plan_full_compaction(
    snapshot: TableSnapshot, groups: GroupFilter, *, excluded: Mapping[GroupId, Reason] | None = None
) -> PlanOutcome:
    """FULL for each selected file group that has log files, nothing pending, and is not excluded."""
    decisions: list[Decision] = []
    operations: list[CompactionOperation] = []
    for group in sorted(snapshot.file_groups, key=lambda group: (group.partition_path, group.file_id)):
        if (latest := group.latest_slice) is None:
            continue
        numbers = backlog_of_group(group, snapshot.log_compactions.get(latest.group_id, ()))
        decision = _decide(snapshot, latest, numbers, groups, excluded or {})
        if decision.choice is Choice.FULL:
            cost = _cost(numbers)
            decision = replace(decision, numbers=dict(decision.numbers) | cost.numbers)
            operations.append(full_operation(latest, latest.log_files, cost))
        decisions.append(decision)
    decisions += decide_frozen(snapshot.frozen)
    return PlanOutcome(tuple(decisions), tuple(operations))


def _cost(backlog: GroupBacklog) -> Cost:
    return full_cost(base_bytes=backlog.base_bytes, log_bytes=backlog.log_bytes, logs=backlog.log_files)


def _decide(
    snapshot: TableSnapshot,
    latest: FileSlice,
    backlog: GroupBacklog,
    groups: GroupFilter,
    excluded: Mapping[GroupId, Reason],
) -> Decision:
    group_id = latest.group_id

    def none(reason: Reason, instant: str | None = None) -> Decision:
        return Decision(*group_id, Choice.NONE, reason, backlog.numbers, instant)

    if not groups.selects(latest):
        return none(Reason.NOT_SELECTED)
    for pending, reason in (
        (snapshot.pending_compactions, Reason.PENDING_COMPACTION),
        (snapshot.pending_log_compactions, Reason.PENDING_LOG_COMPACTION),
        (snapshot.pending_clusterings, Reason.PENDING_CLUSTERING),
    ):
        if group_id in pending:
            return none(reason, pending[group_id])
    if not latest.log_files:
        return none(Reason.NO_LOGS)
    if (reason_against := excluded.get(group_id)) is not None:
        return replace(none(reason_against), instead_of=Choice.FULL)
    return Decision(*group_id, Choice.FULL, Reason.HAS_LOGS, backlog.numbers)

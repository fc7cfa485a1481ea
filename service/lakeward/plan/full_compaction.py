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

from lakeward.plan.cost import full_cost
from lakeward.plan.decision import Choice, Decision, PlanOutcome, Reason, decide_frozen, full_operation
from lakeward.plan.selection import GroupFilter
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


def plan_full_compaction(
    snapshot: TableSnapshot, groups: GroupFilter, *, excluded: Mapping[GroupId, Reason] | None = None
) -> PlanOutcome:
    """FULL for each selected file group that has log files, nothing pending, and is not excluded."""
    slices = sorted(snapshot.latest_slices, key=lambda slice_: (slice_.partition_path, slice_.file_id))
    decisions = [_decide(snapshot, slice_, groups, excluded or {}) for slice_ in slices]
    operations = [
        full_operation(slice_)
        for slice_, decision in zip(slices, decisions, strict=True)
        if decision.choice is Choice.FULL
    ]
    decisions += decide_frozen(snapshot.frozen)
    return PlanOutcome(tuple(decisions), tuple(operations))


def _decide(
    snapshot: TableSnapshot, latest: FileSlice, groups: GroupFilter, excluded: Mapping[GroupId, Reason]
) -> Decision:
    group_id = (latest.partition_path, latest.file_id)
    numbers: dict[str, int | float] = {
        "base_bytes": latest.base_bytes,
        "log_files": len(latest.log_files),
        "log_bytes": latest.log_bytes,
    }

    def none(reason: Reason, instant: str | None = None) -> Decision:
        return Decision(*group_id, Choice.NONE, reason, numbers, instant)

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
    cost = full_cost(base_bytes=latest.base_bytes, log_bytes=latest.log_bytes, logs=len(latest.log_files))
    return Decision(*group_id, Choice.FULL, Reason.HAS_LOGS, numbers | cost.numbers)

"""Choose what to compact: the planner's decisions, held against the logs that it wants merged.

The planner is pure and sees names and sizes only. What the blocks of a log hold can forbid merging it, so the heads of
the logs it chose are read, and it is asked again without those that cannot be merged.

Touches: what `services/compaction/run/log_checks.py` touches; reads the table.
Keeps:   a plan names files that the storage has, and all of them, whatever the table was listed by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeward.base.errors import Unsupported
from lakeward.base.paths import join
from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.protocol.progress import Phase
from lakeward.protocol.serviced_table import ServicedTable, planned_at
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.run.log_checks import (
    CheckedLogs,
    ask_newest_file,
    check_logs,
    folds_by_itself,
    out_of_step,
)
from lakeward.services.compaction.run.plan_preview import Preview
from lakeward.services.compaction.run.targets import ahead_and_run
from lakeward.table.file_group import FileSlice, FrozenGroup, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot


def choose(table: ServicedTable, planner: Planner, snapshot: TableSnapshot, checked: CheckedLogs) -> Preview:
    """Plan, read the heads of the logs that the plan wants to merge, and plan again without those that we cannot."""
    checked = checked.with_damage(file for group in snapshot.frozen for file in group.damage)
    at = planned_at(snapshot, table.clock.now())
    slices = {slice_.group_id: slice_ for slice_ in snapshot.latest_slices}
    heeds = ask_newest_file(table, snapshot)
    with table.measured(Phase.PLAN):
        while True:
            outcome = planner(snapshot, at, checked.excluded, checked.whole, checked.without_log)
            fresh = {_seen_as(snapshot, slices, operation): operation for operation in outcome.operations}
            unseen = sorted(fresh.keys() - checked.seen)
            if not unseen:
                return Preview(snapshot, outcome, checked, at)
            for operation in (fresh[key] for key in unseen):
                group_id = (operation.partition_path, operation.file_id)
                paths = [join(operation.partition_path, name) for name in operation.log_files]
                choice = Choice(operation.operation_type or Choice.FULL)
                ahead, run = ahead_and_run(snapshot, slices[group_id], operation)
                if operation.run is not None:
                    names = operation.run
                    if snapshot.config.is_lsm_tree:  # there what the logs of the run stand for is read beside them
                        names = tuple(log.name.text for log in run)
                    paths = [join(operation.partition_path, name) for name in names]
                of_slice = snapshot.live_logs(slices[group_id])
                superseded = of_slice.superseded_paths if choice is Choice.LOG else {}
                since = slices[group_id].since if choice is Choice.FULL else None
                try:
                    damage = check_logs(table, snapshot, group_id, paths, choice, superseded, heeds, since=since)
                    is_log = choice is Choice.LOG and not damage
                    if is_log and not folds_by_itself(table, snapshot, run=run, ahead=ahead):
                        checked = replace(checked, whole=checked.whole | {group_id})
                except Unsupported as error:
                    if choice is Choice.LOG and snapshot.config.is_lsm_tree:
                        table.observer.step(f"no log compaction: {error}")
                        checked = replace(checked, without_log=checked.without_log | {group_id})
                        continue  # FULL may merge them
                    table.observer.step(f"excluded: {error}")
                    checked = replace(checked, excluded={**checked.excluded, group_id: Reason.UNSUPPORTED_LOGS})
                else:
                    if damage:
                        table.observer.step(f"excluded: {damage[0].what}.")
                        checked = checked.without(group_id, damage)
            checked = replace(checked, seen=checked.seen | frozenset(unseen))


def _seen_as(
    snapshot: TableSnapshot, slices: Mapping[GroupId, FileSlice], operation: CompactionOperation
) -> tuple[str, ...]:
    """All that a check of an operation's logs depends on."""
    ahead: tuple[LogFile, ...] = ()
    if operation.operation_type == Choice.LOG:
        slice_ = slices[operation.partition_path, operation.file_id]
        ahead = ahead_and_run(snapshot, slice_, operation)[0]
    kind = operation.operation_type or Choice.FULL
    return (kind, operation.partition_path, *operation.log_files, "behind", *(log.name.text for log in ahead))


def hold_against_storage(table: ServicedTable, planner: Planner, preview: Preview) -> Preview:
    """What was chosen by the metadata table's listing, without the groups whose files the storage has otherwise than
    their commits say. Raises `Conflict` where the storage has other files than were listed, which it also has where a
    writer ended meanwhile."""
    if table.options.listing is ListingSource.STORAGE or not preview.groups:
        return preview
    if not (frozen := _check_listed(table, preview)):
        return preview
    checked = preview.checked
    for group in frozen:
        checked = checked.without((group.partition_path, group.file_id), group.damage)
    return choose(table, planner, preview.snapshot, checked)


def _check_listed(table: ServicedTable, preview: Preview) -> list[FrozenGroup]:
    """One listing a partition of the plan."""
    chosen = preview.groups
    listed = {slice_.group_id: slice_ for slice_ in preview.snapshot.latest_slices}
    found = table.snapshot(only=chosen)
    stored = {slice_.group_id: slice_ for slice_ in found.latest_slices}
    frozen = {(group.partition_path, group.file_id): group for group in found.frozen if group.damage}
    for group_id in sorted(chosen - frozen.keys()):
        if stored.get(group_id) != listed[group_id]:
            raise out_of_step(group_id)
    return [frozen[group_id] for group_id in sorted(chosen & frozen.keys())]

"""Choose what to compact and write the choice down: the planner's decisions, held against the logs it wants merged.

The planner is pure and sees names and sizes only. What the blocks of a log hold can forbid merging it, so the heads of
the logs it chose are read, and it is asked again without those that cannot be merged.

Touches: reads block heads and delete blocks of logs; under the table lock, the timeline.
Keeps:   1. nothing is written before every refusal was considered, under the lock, on a fresh snapshot;
         2. a plan names files that the storage has, and all of them, whatever the table was listed by;
         3. a plan says who planned it;
         4. a file group with a damaged file is in no plan that is made, and the others are;
         5. beside writers a log compaction has few partitions, those first in which no write is at work;
         6. a LOG that leaves out the oldest logs is planned only where what the logs hold allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from lakeward.commit.instant_time import later, next_times
from lakeward.commit.transition import ServiceAction
from lakeward.dispatch.dispatcher import Dispatcher
from lakeward.errors import BrokenFile, Conflict, LakewardError, NotFound, Unsupported
from lakeward.execute.before_writing import check_space
from lakeward.execute.compaction.gap import await_gap, groups_at_work, let_unseen_writes_appear, needs_gap
from lakeward.execute.compaction.merging import ChooseDispatcher, make_ready, raise_first
from lakeward.execute.compaction.targets import find_targets
from lakeward.execute.pending_work import PendingWork
from lakeward.execute.progress import Phase
from lakeward.execute.serviced_table import ServicedTable, label, zone_of
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time
from lakeward.plan.decision import Choice, Form, PlanOutcome, Reason
from lakeward.plan.log_runs import logs_ahead
from lakeward.plan.planner import Planner
from lakeward.plan.slice_profile import profile_slice
from lakeward.plan.yielding import LOG_PLANS_MAX, few_partitions_each
from lakeward.read.log_scan import NEWEST
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import join
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_group import FileSlice, FrozenGroup, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing import ListingSource
from lakeward.table.live_logs import live_logs
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.service_instants import PLANNED_BY
from lakeward.table.snapshot import TableSnapshot
from lakeward.task.operation_spec import OperationKind

PLANS_MAX = LOG_PLANS_MAX + 1
"""The log compactions, and one compaction."""


@dataclass(frozen=True, slots=True)
class CheckedLogs:
    """Log files whose block heads were read, and the file groups to exclude, for what was found or as told."""

    seen: frozenset[tuple[str, ...]] = frozenset()
    """FULL or LOG, which does not open superseded logs, partition path and names; for LOG also those that it leaves out
    before them."""
    excluded: Mapping[GroupId, Reason] = field(default_factory=dict)
    whole: frozenset[GroupId] = frozenset()
    """File groups whose LOG has to start at the oldest log, for the deletes that were found."""
    damage: tuple[DamagedFile, ...] = ()
    """Why groups are excluded that are frozen, or whose logs turned out to be damaged."""

    def without(self, group_id: GroupId, damage: Sequence[DamagedFile]) -> CheckedLogs:
        """The same, and this group excluded for its damage."""
        excluded = {**self.excluded, group_id: Reason.DAMAGED}
        return replace(self, excluded=excluded).with_damage(damage)

    def with_damage(self, damage: Iterable[DamagedFile]) -> CheckedLogs:
        return replace(self, damage=tuple(dict.fromkeys((*self.damage, *damage))))


def choose(
    table: ServicedTable, planner: Planner, snapshot: TableSnapshot, checked: CheckedLogs, *, at: str | None = None
) -> tuple[PlanOutcome, CheckedLogs]:
    """Plan, read the heads of the logs that the plan wants to merge, and plan again without those that we cannot."""
    checked = checked.with_damage(file for group in snapshot.frozen for file in group.damage)
    at = at or format_instant_time(int(table.clock.now() * 1000), zone_of(snapshot))
    slices = {slice_.group_id: slice_ for slice_ in snapshot.latest_slices}
    with table.measured(Phase.PLAN):
        while True:
            outcome = planner(snapshot, at, checked.excluded, checked.whole)
            fresh = {_seen_as(snapshot, slices, operation): operation for operation in outcome.operations}
            unseen = sorted(fresh.keys() - checked.seen)
            if not unseen:
                return outcome, checked
            for operation in (fresh[key] for key in unseen):
                group_id = (operation.partition_path, operation.file_id)
                paths = [join(operation.partition_path, name) for name in operation.log_files]
                choice = Choice(operation.operation_type or Choice.FULL)
                of_slice = live_logs(slices[group_id], snapshot.log_compactions.get(group_id, ()))
                superseded = of_slice.superseded_paths if choice is Choice.LOG else {}
                try:
                    damage = _check_logs(table, snapshot, group_id, paths, choice, superseded)
                    is_log = choice is Choice.LOG and not damage
                    if is_log and not _folds_by_itself(table, snapshot, slices[group_id], operation.log_files):
                        checked = replace(checked, whole=checked.whole | {group_id})
                except Unsupported as error:
                    table.observer.step(f"excluded: {error}")
                    checked = replace(checked, excluded={**checked.excluded, group_id: Reason.UNSUPPORTED_LOGS})
                else:
                    if damage:
                        checked = checked.without(group_id, damage)
            checked = replace(checked, seen=checked.seen | frozenset(unseen))


def _seen_as(
    snapshot: TableSnapshot, slices: Mapping[GroupId, FileSlice], operation: CompactionOperation
) -> tuple[str, ...]:
    """All that a check of an operation's logs depends on."""
    ahead: tuple[LogFile, ...] = ()
    if operation.operation_type == Choice.LOG:
        slice_ = slices[operation.partition_path, operation.file_id]
        ahead = _split(snapshot, slice_, operation.log_files)[0]
    kind = operation.operation_type or Choice.FULL
    return (kind, operation.partition_path, *operation.log_files, "behind", *(log.name.text for log in ahead))


def _split(
    snapshot: TableSnapshot, slice_: FileSlice, names: Collection[str]
) -> tuple[tuple[LogFile, ...], list[LogFile]]:
    """The live logs before those of a LOG, and the live ones among those of these names, which are its own."""
    profile, named = profile_slice(slice_, snapshot.log_compactions.get(slice_.group_id, ())), set(names)
    run = [log for log in profile.live if log.name.text in named]
    return logs_ahead(profile, run), run


def find_damaged(table: ServicedTable, snapshot: TableSnapshot, work: PendingWork) -> dict[GroupId, list[DamagedFile]]:
    """The same for a plan that was pending before this run, before anything of it is begun: its damaged file groups.
    Raises what else it finds."""
    frozen = {(group.partition_path, group.file_id): group.damage for group in snapshot.frozen if group.damage}
    damaged = {group_id: list(frozen[group_id]) for group_id in work.groups if group_id in frozen}
    if damaged:
        return damaged
    failures: list[LakewardError] = []
    for target in find_targets(snapshot, work.instant, work.plan, work.action).of:
        choice = Choice.LOG if target.kind is OperationKind.LOG else Choice.FULL
        try:
            paths = [log.path for log in target.logs]
            damage = _check_logs(table, snapshot, target.group_id, paths, choice, target.superseded)
        except Unsupported as error:
            failures.append(error)
        else:
            if damage:
                damaged[target.group_id] = damage
            elif choice is Choice.LOG:
                names = [log.name.text for log in target.logs]
                if not _folds_by_itself(table, snapshot, target.slice, names):
                    failures.append(_may_not_start_there(work, target.group_id))
    raise_first(failures)
    return damaged


def schedule(
    table: ServicedTable,
    planner: Planner,
    preview: PlanOutcome,
    checked: CheckedLogs,
    choose_dispatcher: ChooseDispatcher,
    planned_by: Mapping[str, str],
    *,
    seen: TableSnapshot,
) -> tuple[list[PendingWork], PlanOutcome, CheckedLogs]:
    """Write the choice down, as a few plans at most. Returns them in the order in which to carry them out, and what was
    found meanwhile.

    Args:
        seen: what the preview was made of.
    """
    dispatcher: Dispatcher = choose_dispatcher(preview.input_bytes)
    make_ready(dispatcher, table.observer)
    check_space(
        table,
        preview.input_bytes,
        what="the compaction",
        remedy="Free space, or compact a part of the table with --partition or --file-group.",
    )
    scheduled: list[PendingWork] = []
    in_gap = needs_gap(table, seen.config.version)
    if in_gap:
        await_gap(table, preview)
    busy = None if table.options.writers_stopped else table.writers.scan().partitions
    # Log heads were read before the lock is taken, and the plans encoded; under it, only what came since.
    encoded = [(plan, write_compaction_plan(plan)) for _, plan in _plans_of(preview, planned_by, busy)]
    _latest_time(table, seen)  # what it needs takes half a second to load
    with table.measured(Phase.SCHEDULE), table.locked() as fence:
        if in_gap:
            let_unseen_writes_appear(table)
        snapshot = table.snapshot()
        if in_gap:
            checked = replace(checked, excluded={**groups_at_work(table, snapshot), **checked.excluded})
        times = next_times(PLANS_MAX, floor=_latest_time(table, snapshot), zone=snapshot.zone, clock=table.clock)
        instant = times[0]
        outcome, checked = choose(table, planner, snapshot, checked, at=instant)
        is_told_by_metadata = table.options.listing is not ListingSource.STORAGE and bool(outcome.operations)
        if is_told_by_metadata and (frozen := _check_listed(table, snapshot, outcome)):
            for group in frozen:
                checked = checked.without((group.partition_path, group.file_id), group.damage)
            outcome, checked = choose(table, planner, snapshot, checked, at=instant)
        for instant, (action, plan) in zip(times, _plans_of(outcome, planned_by, busy), strict=False):
            content = next((content for known, content in encoded if known == plan), None)
            fence()
            table.attempt(snapshot, instant, action).files.request(content or write_compaction_plan(plan))
            scheduled.append(PendingWork(instant, action, plan))
            table.observer.step(f"{label(action)} {instant} scheduled, file slices: {len(plan.operations)}")
    return scheduled, outcome, checked


def _latest_time(table: ServicedTable, snapshot: TableSnapshot) -> str | None:
    """The greatest time on both timelines. Raises `Unsupported` and `BrokenFile` where we could not write to the
    metadata table."""
    if not has_metadata_table(snapshot.config) or snapshot.schema is None:
        return snapshot.timeline.latest_time
    # With kernels, which a table without one does not need.
    from lakeward.commit.metadata.snapshot import take_metadata_snapshot

    metadata = take_metadata_snapshot(table.storage, snapshot, clock=table.clock)
    return later(snapshot.timeline.latest_time, metadata.table.timeline.latest_time)


def _check_listed(table: ServicedTable, snapshot: TableSnapshot, outcome: PlanOutcome) -> list[FrozenGroup]:
    """What was chosen by the metadata table's listing is there like that: one listing a partition of the plan. Returns
    the groups whose files the storage has otherwise than their commits say."""
    chosen = frozenset((operation.partition_path, operation.file_id) for operation in outcome.operations)
    listed = {slice_.group_id: slice_ for slice_ in snapshot.latest_slices}
    found = table.snapshot(only=chosen)
    stored = {slice_.group_id: slice_ for slice_ in found.latest_slices}
    frozen = {(group.partition_path, group.file_id): group for group in found.frozen if group.damage}
    for group_id in sorted(chosen - frozen.keys()):
        if stored.get(group_id) != listed[group_id]:
            raise _out_of_step(group_id)
    return [frozen[group_id] for group_id in sorted(chosen & frozen.keys())]


def _check_logs(
    table: ServicedTable,
    snapshot: TableSnapshot,
    group_id: GroupId,
    logs: Sequence[str],
    choice: Choice,
    superseded: Mapping[str, tuple[str, ...]],
) -> list[DamagedFile]:
    """Read the block heads of a slice's logs, but of those that need not be opened. Returns what is damaged, unless
    that is accepted; raises `Unsupported` where we cannot merge them, or not by `choice`."""
    # Arrow, which takes 50 MB, is not needed before something is to be merged.
    from lakeward.format.avro.schema import table_schema
    from lakeward.read.log_scan import check_holds_records, check_ordering, check_schemas, scan_slice_heads

    try:
        scan = scan_slice_heads(table.storage, table.base_path, logs, instant=NEWEST, superseded=superseded)
        assert snapshot.schema is not None, "eligibility refuses a table without a schema"
        if scan.damage and not table.options.accept_damaged_logs:
            return list(scan.damage)
        schema = table_schema(snapshot.schema)
        check_ordering(scan, merge_rules(snapshot), schema)
        check_schemas(scan, schema)
        if choice is Choice.LOG:
            check_holds_records(scan)
        return []
    except Unsupported as error:
        error.file_group = group_id
        raise
    except BrokenFile as error:
        return [_broken_log(table, logs, error)]
    except NotFound as error:
        if table.options.listing is ListingSource.STORAGE:
            raise
        raise _out_of_step(group_id) from error


def _folds_by_itself(table: ServicedTable, snapshot: TableSnapshot, slice_: FileSlice, names: Collection[str]) -> bool:
    """Whether a LOG over the logs of these names, among them what its outputs stand for, is right where it starts."""
    from lakeward.format.avro.schema import table_schema
    from lakeward.read.log_deletes import folds_by_itself

    ahead, run = _split(snapshot, slice_, names)
    if not ahead:
        return True
    assert snapshot.schema is not None, "eligibility refuses a table without a schema"
    return folds_by_itself(
        table.storage,
        table.base_path,
        run=[log.path for log in run],
        ahead=[log.path for log in ahead],
        rules=merge_rules(snapshot),
        schema=table_schema(snapshot.schema),
    )


def _may_not_start_there(work: PendingWork, group_id: GroupId) -> Conflict:
    partition_path, file_id = group_id
    return Conflict(
        f"Log compaction {work.instant} leaves out the oldest logs of file group {file_id} in partition "
        f"'{partition_path}', and may not.",
        why="Deletes without an ordering value are among the logs, so that merging the later ones first would change "
        "rows.",
        remedy="`lakeward unschedule` removes the plan; nothing was written.",
        file_group=group_id,
    )


def _broken_log(table: ServicedTable, logs: Sequence[str], found: BrokenFile) -> DamagedFile:
    """Which of the logs it is."""
    from lakeward.read.log_scan import broken_log, scan_slice_heads

    path, why = logs[-1], found
    for log in logs:
        try:
            scan_slice_heads(table.storage, table.base_path, [log], instant=NEWEST)
        except BrokenFile as error:
            path, why = log, error
            break
    return broken_log(path, why)


def _out_of_step(group_id: GroupId) -> Conflict:
    partition_path, file_id = group_id
    return Conflict(
        f"The metadata table lists other files of file group {file_id} in partition '{partition_path}' than the "
        "storage has.",
        why="A writer wrote without it, or files were deleted or restored by hand. A plan made by it would miss rows, "
        "or name files that are gone.",
        remedy="Run `lakeward verify`, which names the files, and `lakeward metadata disable`, after which the next "
        "Hudi writer builds the metadata table anew; or set listing to 'storage' for this table. Nothing was written.",
        file_group=group_id,
    )


def _plans_of(
    outcome: PlanOutcome, planned_by: Mapping[str, str], busy: Set[str] | None
) -> list[tuple[ServiceAction, CompactionPlan]]:
    """The plans to publish, PLANS_MAX at most. In the split form log compactions come first: they are short.

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

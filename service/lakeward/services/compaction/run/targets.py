"""What the operations of a plan work on, held against the table as it is now.

A FULL operation must find its file slice exactly as the plan lists it, but for logs of changes; anything else means
that the plan does not describe this table, and nothing of it is carried out. A LOG operation may be overtaken by other
work without harm: then it is dropped, with the reason, and the rest goes on. So is either kind where the file group was
replaced: no reader of the table as it is now reads it, and as of an earlier time its slices read the same without the
operation.
Hudi compacts such a group all the same, and fails for good once its cleaner has taken a file that the plan names;
that a compaction commits fewer file groups than it planned it takes as it is.

Touches: nothing.
Keeps:   1. a LOG works on a run of the slice's logs in which no write that is still pending can add a log, and which
            has all logs of a write or none;
         2. a LOG whose group is compacted or clustered meanwhile is dropped;
         3. an operation on a file group that was replaced is dropped, whatever is left of its files.
Source:  HoodieCompactor, SparkInsertOverwriteCommitActionExecutor (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakeward.base.errors import Conflict
from lakeward.engine.task.operation_spec import OperationKind
from lakeward.format.file_name import is_change_log
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.plan.log_runs import (
    WRITES_MIN,
    PendingWrites,
    by_place,
    files_of_run,
    logs_ahead,
    output_ranks_last,
    pending_writes,
    pick_prefix,
)
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class Target:
    """What one operation works on."""

    kind: OperationKind
    slice: FileSlice
    """The slice on storage."""
    logs: tuple[LogFile, ...]
    """Logs that the plan names, in comparator order; of a LOG that has a run, the live ones of it."""
    live: frozenset[str]
    """Names of the slice's logs whose content readers merge, in the layout `lsm_tree` all."""
    superseded: Mapping[str, tuple[str, ...]]
    """Paths of logs that a LOG need not open, with the instants that each stands for itself."""
    ahead: tuple[LogFile, ...] = ()
    """The live logs before those of a LOG: whether it may start behind them was found out from what they hold."""

    @property
    def group_id(self) -> tuple[str, str]:
        return (self.slice.partition_path, self.slice.file_id)

    @property
    def input_bytes(self) -> int:
        """What is merged: superseded logs are not."""
        base_bytes = self.slice.base_bytes if self.kind is OperationKind.FULL else 0
        return base_bytes + sum(log.size for log in self.merged)

    @property
    def merged(self) -> tuple[LogFile, ...]:
        """The live logs among those that the plan names, which no reader merges any more afterwards."""
        return tuple(log for log in self.logs if log.name.text in self.live)

    @property
    def read_bytes(self) -> int:
        """What a reader of the slice reads before."""
        return self.slice.base_bytes + sum(log.size for log in self.slice.log_files if log.name.text in self.live)

    @property
    def kept_bytes(self) -> int:
        """What a reader of the slice reads beside the operation's output: for LOG the base and the later logs."""
        return self.read_bytes - self.input_bytes


@dataclass(frozen=True, slots=True)
class Dropped:
    """An operation that is not carried out, or whose result is thrown away."""

    partition_path: str
    file_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Targets:
    of: tuple[Target, ...]
    dropped: tuple[Dropped, ...]


def find_targets(snapshot: TableSnapshot, instant: str, plan: CompactionPlan, action: ServiceAction) -> Targets:
    """One target for each operation, in the plan's order, but for those that are dropped.

    Raises `Conflict`, and `DamagedFiles` for a group that is frozen for its files.
    """
    slices = {
        (slice_.partition_path, slice_.file_id, slice_.base_instant): slice_
        for group in snapshot.file_groups
        for slice_ in group.slices
    }
    now = _Now(
        snapshot, {slice_.group_id: slice_.base_instant for slice_ in snapshot.latest_slices}, pending_writes(snapshot)
    )
    targets, dropped = [], []
    damaged = {(group.partition_path, group.file_id): group.damage for group in snapshot.frozen if group.damage}
    for operation in plan.operations:
        group_id = (operation.partition_path, operation.file_id)
        if (replaced_by := snapshot.replaced.get(group_id)) is not None:
            dropped.append(Dropped(*group_id, f"the file group was replaced by {replaced_by}"))
            continue
        if damage := damaged.get(group_id):
            raise damaged_error(damage, file_group=group_id)
        slice_ = slices.get((*group_id, operation.base_instant or ""))
        # No type means FULL, as in plans of released Hudi.
        is_full = OperationKind(operation.operation_type or OperationKind.FULL) is OperationKind.FULL
        if is_full and action is not ServiceAction.LOG_COMPACTION:
            targets.append(_full_target(snapshot, instant, operation, slice_))
        elif (why := _stands_against(now, instant, operation, slice_)) is not None:
            dropped.append(Dropped(*group_id, why))
        else:
            assert slice_ is not None
            ahead, run = ahead_and_run(snapshot, slice_, operation)
            named = set(operation.log_files if operation.run is None else operation.run)
            listed = tuple(log for log in slice_.log_files if log.name.text in named)
            logs = run if snapshot.config.is_lsm_tree and operation.run is not None else listed
            targets.append(replace(_target(snapshot, OperationKind.LOG, slice_, logs), ahead=ahead))
    return Targets(tuple(targets), tuple(dropped))


def _target(snapshot: TableSnapshot, kind: OperationKind, slice_: FileSlice, named: tuple[LogFile, ...]) -> Target:
    logs = snapshot.live_logs(slice_)
    # A base file is for ever, so a FULL judges by the blocks of all logs.
    superseded = logs.superseded_paths if kind is OperationKind.LOG else {}
    merged = slice_.row_logs if logs.by_rank else logs.live
    return Target(kind, slice_, named, frozenset(log.name.text for log in merged), superseded)


def ahead_and_run(
    snapshot: TableSnapshot, slice_: FileSlice, operation: CompactionOperation
) -> tuple[tuple[LogFile, ...], tuple[LogFile, ...]]:
    """The live logs before those that a LOG takes, and these, of the slice as it is."""
    profile = profile_slice(slice_, snapshot.log_compactions.get(slice_.group_id, ()))
    run = live_run(profile, operation)
    return logs_ahead(profile, run), run


def live_run(profile: SliceProfile, operation: CompactionOperation) -> tuple[LogFile, ...]:
    named = set(operation.log_files if operation.run is None else operation.run)
    return tuple(log for log in profile.live if log.name.text in named)


def _full_target(
    snapshot: TableSnapshot, instant: str, operation: CompactionOperation, slice_: FileSlice | None
) -> Target:
    base_file = slice_.base_file.name if slice_ is not None and slice_.base_file is not None else None
    # Hudi's plans and Lakeward's name logs of changes, too; nothing of them is merged, so it does not matter if one
    # does not.
    logs = {log.name.text for log in slice_.row_logs} if slice_ is not None else set()
    planned = {name for name in operation.log_files if not is_change_log(name)}
    if slice_ is None or base_file != operation.base_file or logs != planned:
        raise Conflict(
            f"Compaction {instant} does not fit file group {operation.file_id} "
            f"in partition '{operation.partition_path}'.",
            why=f"It plans {operation.base_file} with {sorted(operation.log_files)}, "
            f"the table has {base_file} with {sorted(logs)}.",
            remedy="If Lakeward planned it, `lakeward unschedule` removes it; else let the engine that did carry it "
            "out or roll it back. Nothing was written.",
            file_group=(operation.partition_path, operation.file_id),
        )
    return _target(snapshot, OperationKind.FULL, slice_, slice_.log_files)


@dataclass(frozen=True, slots=True)
class _Now:
    """What is the same for all operations of a plan."""

    snapshot: TableSnapshot
    latest: Mapping[GroupId, str]
    """The base instant of each group's latest slice."""
    pending: PendingWrites


def _stands_against(now: _Now, instant: str, operation: CompactionOperation, slice_: FileSlice | None) -> str | None:
    """Why a LOG operation may not be carried out now, or may not be published; None when it may."""
    snapshot = now.snapshot
    group_id = (operation.partition_path, operation.file_id)
    for pending, name in (
        (snapshot.pending_compactions, "compaction"),
        (snapshot.pending_clusterings, "clustering"),
        (snapshot.pending_log_compactions, "log compaction"),
    ):
        if pending.get(group_id, instant) != instant:
            return f"{name} {pending[group_id]} was scheduled for the file group"
    if slice_ is None or slice_.base_instant != now.latest.get(group_id):
        return "the file group was compacted, so the file slice is no longer its latest"
    profile = profile_slice(slice_, snapshot.log_compactions.get(group_id, ()))
    named = set(operation.log_files if operation.run is None else operation.run)
    run = live_run(profile, operation)
    before = pick_prefix(profile, before=now.pending.first_into(*group_id))
    start = profile.live.index(run[0]) if run else 0
    if run != before[start : start + len(run)]:
        return "its logs are no neighbours any more: a write between them completed or is pending"
    if output_ranks_last(snapshot.config):
        behind = profile.live[start + len(run) :] if run else profile.live
        beside = [profile.place(log) for log in behind]
        pending_write = now.pending.first_into(*group_id)
        if any(place < instant for place in [*beside, *([] if pending_write is None else [pending_write])]):
            return "a write that began before it is pending or has completed meanwhile, and would lose to its output"
    around = profile.live[max(start - 1, 0) : start + len(run) + 1]
    writes = by_place(profile, run)
    if len(by_place(profile, around)) < len(writes) + len(around) - len(run):
        return "a write has logs outside of it, too"
    of_effect = {log.name.text for log in (*profile.live, *files_of_run(profile, profile.live))}
    if len(writes) < WRITES_MIN or named & of_effect != {log.name.text for log in files_of_run(profile, run)}:
        return "its logs were merged meanwhile, or some of them are gone"
    return None

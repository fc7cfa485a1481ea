"""Make the results of a plan visible: under the lock look again, move the files in, publish `T_C.commit`.

    look -> files in -> strays out -> metadata table's commit, where there is one -> commit

The metadata table's commit counts from the moment that ours is complete; in the other order there would be a time in
which readers who list by it do not see what is committed. In an object store both are announced before either.

Touches: the attempt's folder, files of the instant in the plan's file groups and in the metadata table, the timelines;
         under the table lock.
Keeps:   1. what is published is what is still right: an operation whose slice changed publishes nothing;
         2. past the commit no file of the instant is in the plan's groups but those that it names;
         3. completion times are greater than everything on both timelines, the commit's greater than the metadata
            table's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakeward.commit.attempt import Winner, strays
from lakeward.commit.instant_time import next_time
from lakeward.commit.transition import ServiceAction
from lakeward.errors import Conflict
from lakeward.execute.before_writing import check_writers_stopped
from lakeward.execute.claim import Claim, check_ours
from lakeward.execute.compaction_commit import compaction_commit
from lakeward.execute.log_compaction_commit import log_compaction_commit
from lakeward.execute.metadata_commit import (
    announce_with_metadata,
    later,
    new_files,
    open_metadata_commit,
    publish_metadata,
)
from lakeward.execute.operation_spec import OperationKind, OperationResult
from lakeward.execute.pending_work import groups_of, pending_plan
from lakeward.execute.progress import Phase
from lakeward.execute.serviced_table import Fence, ServicedTable, spell
from lakeward.execute.targets import Target, Targets, find_targets
from lakeward.format.commit_metadata import write_commit_metadata
from lakeward.storage.storage import RenamingStorage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.commit.metadata_publication import StagedCommit
    from lakeward.commit.metadata_writer import MetadataCommit


ACCEPTED_DAMAGE = "lakeward.accepted-damage"
"""In a commit's extra metadata: the files whose rows are not in it, because an operator accepted that."""


def publish(table: ServicedTable, claim: Claim, results: Sequence[OperationResult]) -> tuple[str | None, Targets]:
    """Make the results visible. Returns the completion time, and the targets whose results are.

    LOG operations that other work has overtaken are dropped; when that is all of a log compaction, nothing is
    published and the completion time is None.
    """
    with table.measured(Phase.COMMIT):
        by_group = {(result.partition_path, result.file_id): result for result in results}
        claim.attempt.write_markers(_winner(target, by_group[target.group_id]) for target in claim.targets.of)
        return _publish(table, claim, by_group, _prepare(table, claim, by_group))


@dataclass(frozen=True, slots=True)
class _Spelled:
    """The commit's content, and all that it depends on."""

    slices: Sequence[FileSlice]
    results: Sequence[OperationResult]
    schema: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What was done while nobody waited for the lock. Under it, what it depends on is looked at again."""

    commit: _Spelled
    metadata: MetadataCommit | None


def _prepare(table: ServicedTable, claim: Claim, by_group: Mapping[GroupId, OperationResult]) -> _Prepared:
    results = [by_group[target.group_id] for target in claim.targets.of]
    snapshot, metadata = claim.snapshot, None
    if has_metadata_table(snapshot.config):
        snapshot = table.look(only=frozenset(groups_of(claim.plan)))
        if has_metadata_table(snapshot.config):
            metadata = open_metadata_commit(table, claim)
            metadata.prepare(snapshot, new_files(results))
    # Writers may have put more logs into the slices of a LOG.
    now = {(*slice_.group_id, slice_.base_instant): slice_ for group in snapshot.file_groups for slice_ in group.slices}
    before = [target.slice for target in claim.targets.of]
    slices = [now.get((*slice_.group_id, slice_.base_instant), slice_) for slice_ in before]
    return _Prepared(_spell(claim, slices, results, snapshot.schema), metadata)


def _publish(
    table: ServicedTable, claim: Claim, by_group: Mapping[GroupId, OperationResult], prepared: _Prepared
) -> tuple[str | None, Targets]:
    with table.locked() as fence:
        snapshot = table.look(only=frozenset(groups_of(claim.plan)))
        check_ours(claim)
        targets = _still_right(table, claim, snapshot)
        if not targets.of and claim.action is ServiceAction.LOG_COMPACTION:
            return None, targets
        kept = [by_group[target.group_id] for target in targets.of]
        winners = [_winner(target, result) for target, result in zip(targets.of, kept, strict=True)]
        slices = [target.slice for target in targets.of]
        commit = _spell(claim, slices, kept, snapshot.schema, known=prepared.commit)
        staged = claim.attempt.stage_commit(commit.content)
        metadata = None
        if has_metadata_table(snapshot.config):
            opened = prepared.metadata or open_metadata_commit(table, claim)
            metadata = opened.stage(snapshot, new_files(kept), fence=fence)
        fence()
        claim.attempt.move_in(winners)
        names = frozenset(winner.file_name for winner in winners)
        left = strays(table.storage, table.base_path, claim.instant, groups_of(claim.plan), keep=names)
        fence()  # else what was listed could be of an attempt that took our place while we slept
        for stray in left:
            table.storage.delete(stray.path)
        completion_time = _complete(table, claim, snapshot, staged, metadata, fence)
    if damage := _accepted_damage(claim, kept):
        table.observer.step(f"{spell(claim.action)} {claim.instant} went on without what is damaged: {damage}")
    return completion_time, targets


def _complete(
    table: ServicedTable,
    claim: Claim,
    snapshot: TableSnapshot,
    staged: str,
    metadata: StagedCommit | None,
    fence: Fence,
) -> str:
    """The metadata table's commit and then ours. Returns the completion time of ours."""
    zone, floor = snapshot.zone, snapshot.timeline.latest_time
    announce = claim.heartbeat.announce
    if metadata is not None:
        floor = next_time(floor=later(floor, metadata.latest_time), zone=zone, clock=table.clock)
        if isinstance(table.storage, RenamingStorage):
            publish_metadata(table.storage, claim, metadata, floor, fence)
        else:
            announce = partial(announce_with_metadata, table.storage, claim, metadata, floor, fence)
    completion_time = next_time(floor=floor, zone=zone, clock=table.clock)
    fence()
    claim.files.complete(staged, completion_time, announce=announce)
    return completion_time


def _spell(
    claim: Claim,
    slices: Sequence[FileSlice],
    results: Sequence[OperationResult],
    schema: str | None,
    *,
    known: _Spelled | None = None,
) -> _Spelled:
    """`known`, if that is still it: thousands of operations take most of a second."""
    if known is not None and (known.slices, known.results, known.schema) == (slices, results, schema or ""):
        return known
    commit = log_compaction_commit if claim.action is ServiceAction.LOG_COMPACTION else compaction_commit
    metadata = commit(slices, results, schema or "")
    if damage := _accepted_damage(claim, results):
        metadata = replace(metadata, extra_metadata={**metadata.extra_metadata, ACCEPTED_DAMAGE: damage})
    content = write_commit_metadata(metadata)
    return _Spelled(slices, results, schema or "", content)


def _accepted_damage(claim: Claim, results: Sequence[OperationResult]) -> str:
    """What was dropped because an operator accepted it, for people; empty where nothing was."""
    accepted = claim.snapshot.accepted_damage
    of_files = [file for result in results for file in accepted.get((result.partition_path, result.file_id), ())]
    damage = (*of_files, *(block for result in results for block in result.damage))
    return "; ".join(file.what for file in damage)


def _still_right(table: ServicedTable, claim: Claim, snapshot: TableSnapshot) -> Targets:
    """The plan is as it was, and its slices hold what we merged. Returns what is still right of the targets."""
    plan = pending_plan(snapshot, claim.instant)
    now = find_targets(snapshot, claim.instant, plan, claim.action)
    merged = {target.group_id: target for target in claim.targets.of}
    still = tuple(target for target in now.of if target.group_id in merged)
    for target in still:
        before = merged[target.group_id]
        if (target.kind, target.logs, target.slice.base_file) != (before.kind, before.logs, before.slice.base_file):
            raise Conflict(
                f"The file slices of {spell(claim.action)} {claim.instant} changed while they were merged.",
                why="A log file was added to or taken from a slice that the plan had closed.",
                remedy="Run `lakeward inspect` and see which writer did it; nothing was published.",
                file_group=target.group_id,
            )
    if table.options.writers_stopped:
        check_writers_stopped(
            claim.snapshot.timeline,
            snapshot.timeline,
            ours=claim.instant,
            meanwhile=f"{spell(claim.action)} {claim.instant} ran",
        )
    dropped = {(each.partition_path, each.file_id): each for each in (*claim.targets.dropped, *now.dropped)}
    return Targets(still, tuple(dropped.values()))


def _winner(target: Target, result: OperationResult) -> Winner:
    replaces_base_file = target.kind is OperationKind.FULL and target.slice.base_file is not None
    return Winner(target.slice.partition_path, result.file_name, replaces_base_file)

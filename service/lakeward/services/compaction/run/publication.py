"""A claimed plan of compaction, as the life cycle runs it: its work, what of it is still right, and its commit.

Touches: the attempt's folder; reads the table and its metadata table. What it publishes `protocol/attempts/attempt.py`
         does.
Keeps:   1. what is published is what is still right: an operation whose slice changed publishes nothing;
         2. past the commit no file of the instant is in the plan's groups but those that it names;
         3. completion times are greater than everything on both timelines, the commit's greater than the metadata
            table's;
         4. no live write is known under the lock that would fail for it, unless the operator said to go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeward.base.errors import Conflict
from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.format.timeline.commit_metadata import write_commit_metadata
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.pending.pending_work import pending_plan
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.progress import Engine
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.protocol.writers_conflict import WritersConflict
from lakeward.services.compaction.run.claim import Claim
from lakeward.services.compaction.run.compaction_commit import compaction_commit, log_compaction_commit
from lakeward.services.compaction.run.operations import ChooseDispatcher, RunOperation, merge
from lakeward.services.compaction.run.targets import Dropped, Target, Targets, find_targets
from lakeward.services.compaction.run.writer_wait import Yielding
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import groups_of

if TYPE_CHECKING:
    from lakeward.protocol.metadata.changes import NewFile

ACCEPTED_DAMAGE = "lakeward.accepted-damage"
"""A key of a commit's extra metadata: the files whose rows are not in it, because an operator accepted that."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The commit's content, and all that it depends on."""

    slices: Sequence[FileSlice]
    results: Sequence[OperationResult]
    schema: str
    content: bytes


class CompactionService:
    """One claimed plan of compaction or log compaction."""

    def __init__(
        self, table: ServicedTable, claim: Claim, choose_dispatcher: ChooseDispatcher, run_operation: RunOperation
    ) -> None:
        self._table = table
        self._claim = claim
        self._choose_dispatcher = choose_dispatcher
        self._run_operation = run_operation
        self._encoded: _Encoded | None = None
        """What was done of the commit before the lock was taken; under it, what it depends on is compared."""
        self._metadata_part = MetadataPart(table, claim.attempt, measured=claim.indexed)
        self.results: list[OperationResult] = []
        self.engine: Engine | None = None
        """What the operations ran on."""
        self.kept = claim.targets
        """The targets whose results are published, and what was dropped."""
        self._yielding = Yielding(table, claim)
        self._has_listed_markers = False

    @property
    def attempt(self) -> Attempt:
        return self._claim.attempt

    @property
    def name(self) -> str:
        return self._claim.name

    @property
    def groups(self) -> Sequence[GroupId]:
        return groups_of(self._claim.plan)

    def work(self) -> None:
        self.results, self.engine = merge(self._table, self._claim, self._choose_dispatcher, self._run_operation)

    def await_writers(self) -> None:
        self._yielding.await_writers(self.kept)

    def prepare(self) -> None:
        table, claim, by_group = self._table, self._claim, self._by_group()
        # Early conflict detection fails a write that meets a marker; what is there only under the lock no write meets.
        if self._yielding.rules is not WritersConflict.PREFER_WRITER:
            self._list_markers()
        results = [by_group[target.group_id] for target in claim.targets.of]
        snapshot = claim.snapshot
        if has_metadata_table(snapshot.config):
            snapshot = table.snapshot(only=frozenset(self.groups))
            self._metadata_part.prepare(snapshot, lambda: FileChanges(_new_files(results)))
        # Writers may have put more logs into the slices of a LOG.
        now = {
            (*slice_.group_id, slice_.base_instant): slice_ for group in snapshot.file_groups for slice_ in group.slices
        }
        before = [target.slice for target in claim.targets.of]
        slices = [now.get((*slice_.group_id, slice_.base_instant), slice_) for slice_ in before]
        self._encoded = self._encode(slices, results, snapshot.schema)

    def publication(self, fence: Fence) -> Publication | Unpublished:
        """Operations are dropped whose file groups were replaced; LOG operations also whose slices other work has
        changed, or that a long write holds back."""
        claim, by_group = self._claim, self._by_group()
        snapshot = self._table.snapshot(only=frozenset(self.groups))
        self.attempt.check_ours()
        kept = self._yielding.let_through(_still_right(self._table, claim, snapshot), snapshot.timeline)
        if kept is None:
            return Unpublished.HELD_BACK
        self.kept = kept
        if not self.kept.of and claim.action is ServiceAction.LOG_COMPACTION:
            return Unpublished.NOTHING_LEFT
        self._list_markers()
        results = [by_group[target.group_id] for target in self.kept.of]
        self.attempt.stage(self._encode([target.slice for target in self.kept.of], results, snapshot.schema).content)
        participants = self._metadata_part.participants(snapshot, lambda: FileChanges(_new_files(results)), fence=fence)
        return Publication(
            self._table.minter(snapshot).mint,
            winners=[
                winner
                for target, result in zip(self.kept.of, results, strict=True)
                for winner in _winners(target, result)
            ],
            groups=self.groups,
            participants=participants,
        )

    def check_intent(self) -> None:
        """The slices are closed by the plan; the metadata table judges for itself."""

    def accepted_damage(self) -> str:
        """What was dropped because an operator accepted it, for people; empty where nothing was."""
        by_group = self._by_group()
        return _accepted_damage(self._claim, [by_group[target.group_id] for target in self.kept.of])

    def _list_markers(self) -> None:
        if not self._has_listed_markers:
            by_group = self._by_group()
            winners = [winner for each in self._claim.targets.of for winner in _winners(each, by_group[each.group_id])]
            self.attempt.list_markers(winners)
            self._has_listed_markers = True

    def _by_group(self) -> Mapping[GroupId, OperationResult]:
        return {(result.partition_path, result.file_id): result for result in self.results}

    def _encode(self, slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str | None) -> _Encoded:
        """What is encoded already, if that is still it: thousands of operations take most of a second."""
        known, claim = self._encoded, self._claim
        # Readers with schema on read take a file of Lakeward for one of the version that its commit names, so that is
        # the version by which it was written, whatever has happen to the table's schema meanwhile.
        if claim.snapshot.latest_schema is not None:
            schema = claim.snapshot.schema
        if known is not None and (known.slices, known.results, known.schema) == (slices, results, schema or ""):
            return known
        commit = log_compaction_commit if claim.action is ServiceAction.LOG_COMPACTION else compaction_commit
        metadata = commit(slices, results, schema or "", claim.snapshot.latest_schema)
        if damage := _accepted_damage(claim, results):
            metadata = replace(metadata, extra_metadata={**metadata.extra_metadata, ACCEPTED_DAMAGE: damage})
        return _Encoded(
            slices, results, schema or "", write_commit_metadata(metadata, layout=claim.snapshot.config.layout)
        )


def _accepted_damage(claim: Claim, results: Sequence[OperationResult]) -> str:
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
    moved = [target for target in still if target.ahead != merged[target.group_id].ahead]
    still = tuple(target for target in still if target not in moved)
    for target in still:
        before = merged[target.group_id]
        if (target.kind, target.logs, target.slice.base_file) != (before.kind, before.logs, before.slice.base_file):
            raise Conflict(
                f"The file slices of {claim.name} changed while they were merged.",
                why="A log file was added to or taken from a slice that the plan had closed.",
                remedy="Run `lakeward inspect` and see which writer did it; nothing was published.",
                file_group=target.group_id,
            )
    if table.options.writers_stopped:
        check_writers_stopped(
            claim.snapshot.timeline, snapshot.timeline, ours=claim.instant, meanwhile=f"{claim.name} ran"
        )
    overtaken = [Dropped(*target.group_id, "other logs lie before its logs than when it was begun") for target in moved]
    dropped = {(each.partition_path, each.file_id): each for each in (*claim.targets.dropped, *now.dropped, *overtaken)}
    return Targets(still, tuple(dropped.values()))


def _winners(target: Target, result: OperationResult) -> Iterator[Winner]:
    partition_path = target.slice.partition_path
    replaces_base_file = target.kind is OperationKind.FULL and target.slice.base_file is not None
    yield Winner(partition_path, result.file_name, replaces_base_file)
    for beside in (result.change_log, result.delete_log):
        if beside is not None:
            yield Winner(partition_path, beside.file_name, replaces_base_file=False)


def _new_files(results: Sequence[OperationResult]) -> list[NewFile]:
    from lakeward.protocol.metadata.changes import NewFile

    files = []
    for result in results:
        place = (result.partition_path, result.file_id)
        files.append(NewFile(*place, result.file_name, result.size_bytes, result.column_stats))
        if (log := result.change_log) is not None:
            files.append(NewFile(*place, log.file_name, log.size_bytes, ()))
        if (deletes := result.delete_log) is not None:
            files.append(NewFile(*place, deletes.file_name, deletes.size_bytes, deletes.column_stats))
    return files

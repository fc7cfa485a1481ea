"""A claimed plan of compaction, as the life cycle runs it: its work, what of it is still right, and its commit.

The commit metadata is what Hudi's readers and cleaners expect. A log compaction is completed as a delta commit whose
stats look like those of an append, with counts of what was merged beside them. A hybrid plan has results of both kinds;
its LOG operations have the stats of a log compaction. How the file groups were merged is an entry of Lakeward in the
extra metadata (`MERGED_BY_KEY`), which Hudi carries along.

Writers that would fail for what a plan publishes are waited for, for a bounded time.

Touches: the attempt's folder; reads the table and its metadata table. What it publishes `protocol/attempts/attempt.py`
         does; reads the table's timeline and heartbeats; waits, never under the table lock.
Keeps:   1. what is published is what is still right: an operation whose slice changed publishes nothing;
         2. past the commit no file of the instant is in the plan's groups but those that it names;
         3. completion times are greater than everything on both timelines, the commit's greater than the metadata
            table's;
         4. no live write is known under the lock that would fail for it, unless the operator said to go on;
         5. whether to publish is decided on what the timeline shows under the lock;
         6. a wait is bounded, can be stopped by the guard, and is shown;
         7. of a plan of FULL all is published or nothing, and then it stays to be carried out.
Source:  field by field as Hudi 1.2 writes them on table version 9 (HoodieWriteStat, HoodieDeltaWriteStat); for native
         logs FileGroupReaderBasedNativeLogAppendHandle (Hudi's master of August 2026)
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import Conflict, TryLater
from lakeward.base.paths import join
from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.format.timeline.commit_metadata import (
    LATEST_SCHEMA,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    file_stat,
    log_stat,
    write_commit_metadata,
)
from lakeward.format.timeline.instant import State, parse_instant_time
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.pending.pending_work import pending_plan
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.progress import Engine
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.protocol.writers_conflict import LiveWrite, MergedWork, Verdict, WritersConflict, Writes, decide
from lakeward.read.slice_input import MERGED_BY_KEY, count_merges
from lakeward.services.compaction.run.claim import Claim
from lakeward.services.compaction.run.operations import ChooseDispatcher, RunOperation, merge
from lakeward.services.compaction.run.targets import Dropped, Target, Targets, find_targets
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import groups_of
from lakeward.table.timeline.timeline import Timeline

ACCEPTED_DAMAGE = "lakeward.accepted-damage"
"""A key of a commit's extra metadata: the files whose rows are not in it, because an operator accepted that."""


POLL_SECONDS = 0.5
_PARTITIONS_SHOWN = 3


class Yielding:
    """For one claimed plan."""

    def __init__(self, table: ServicedTable, claim: Claim) -> None:
        self._table = table
        self._claim = claim
        self._options = table.options.yielding
        self.rules = self._options.rules_for(claim.snapshot.config.version)
        self._is_log = claim.action is ServiceAction.LOG_COMPACTION
        timeline = claim.snapshot.timeline
        self._requested_at = next(
            timeline.modified[each.file_name]
            for each in timeline.instants
            if each.time == claim.instant and each.state is State.REQUESTED
        )
        self._since: float | None = None

    def await_writers(self, targets: Targets) -> None:
        """Until what was merged may be published, or it was waited for long enough."""
        table = self._table
        if table.options.writers_stopped:
            return
        while (verdict := self._verdict(table.writers.scan(), targets)).wait_for:
            write = verdict.wait_for[0]
            table.pause(self._shown(write), table.writers.waited[write.instant], seconds=POLL_SECONDS)

    def let_through(self, targets: Targets, timeline: Timeline) -> Targets | None:
        """What of it may be published now; None where a write is to be waited for. Under the lock, with the timeline as
        it is. Raises `TryLater`."""
        if self._table.options.writers_stopped:
            return targets
        verdict = self._verdict(self._table.writers.scan(timeline), targets)
        if verdict.wait_for:
            return None
        if verdict.dropped_for is not None and not self._is_log:
            raise TryLater(
                f"{self._claim.name} is held back by write {verdict.dropped_for}.",
                why="The write began before it was planned and may fail if it is published now, and "
                f"{self._options.seconds:.0f} s were waited (--yield-to-writers).",
                remedy="Nothing has to be done: the plan stays, and is carried out once the write has ended.",
            )
        left, dropped = [], []
        for target in targets.of:
            partition, file_id = target.group_id
            write = verdict.dropped_for or verdict.left_out.get(partition)
            if write is None:
                left.append(target)
            else:
                why = f"write {write} is at work in the partition and was waited for"
                dropped.append(Dropped(partition, file_id, why))
        return Targets(tuple(left), (*targets.dropped, *dropped))

    def _verdict(self, writes: Writes, targets: Targets) -> Verdict:
        now = self._table.clock.monotonic()
        verdict = decide(
            MergedWork(
                self._claim.instant,
                is_log=self._is_log,
                partitions=frozenset(target.slice.partition_path for target in targets.of),
                requested_at=self._requested_at,
            ),
            writes,
            rules=self.rules,
            options=self._options,
            waited=self._table.writers.waited,
            waited_in_all=0.0 if self._since is None else now - self._since,
        )
        self._table.writers.held_up_by(verdict.wait_for)
        if verdict.wait_for and self._since is None:
            self._since = now
        return verdict

    def _shown(self, write: LiveWrite) -> str:
        zone, since = self._claim.snapshot.zone.zone, ""
        if zone is not None:
            since = f" of {self._table.clock.now() - parse_instant_time(write.instant, zone) / 1000:.0f} s"
        places = sorted(write.partitions or ())
        where = f"in partitions {', '.join(places[:_PARTITIONS_SHOWN])}" if any(places) else "in any partition"
        more = f" and {len(places) - _PARTITIONS_SHOWN} more" if len(places) > _PARTITIONS_SHOWN else ""
        return f"write {write.instant}{since} {where}{more}, at most {self._options.seconds:.0f} s"


def compaction_commit(
    slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str, latest_schema: str | None = None
) -> CommitMetadata:
    """The metadata of a compaction: one result for each slice; `schema` is the table's, without meta fields, and
    `latest_schema` that by which the results were written, with its ids, where the table has schema on read."""
    return _commit(slices, results, schema, latest_schema, operation_type="COMPACT")


def log_compaction_commit(
    slices: Sequence[FileSlice], results: Sequence[OperationResult], schema: str, latest_schema: str | None = None
) -> CommitMetadata:
    """The metadata of a log compaction. `slices` are those that the operations took their logs from."""
    assert all(result.kind is OperationKind.LOG for result in results)
    return _commit(slices, results, schema, latest_schema, operation_type="LOG_COMPACT")


def _commit(
    slices: Sequence[FileSlice],
    results: Sequence[OperationResult],
    schema: str,
    latest_schema: str | None,
    *,
    operation_type: str,
) -> CommitMetadata:
    stats: dict[str, list[WriteStat]] = {}
    merges = [f"{by} {number}" for by, number in count_merges(result.counts for result in results).items()]
    if copied := sum(result.counts.row_groups_copied for result in results):
        merges.append(f"row groups copied {copied}")
    for slice_, result in zip(slices, results, strict=True):
        of_result = _log_stats(slice_, result) if result.kind is OperationKind.LOG else [_base_stat(slice_, result)]
        stats.setdefault(slice_.partition_path, []).extend(of_result)
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(each) for partition, each in stats.items()},
        compacted=True,
        extra_metadata={
            "schema": schema,
            **({} if latest_schema is None else {LATEST_SCHEMA: latest_schema}),
            MERGED_BY_KEY: ", ".join(merges),
        },
        operation_type=operation_type,
    )


def _base_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    return replace(
        _shared_stat(slice_, result),
        prev_base_file=slice_.base_file.name if slice_.base_file else None,
        num_update_writes=result.counts.updated,
        num_inserts=result.counts.inserted,
        total_log_size_compacted=slice_.log_bytes,
        cdc_stats=None if result.change_log is None else result.change_log.stats_in(slice_.partition_path),
    )


def _log_stats(slice_: FileSlice, result: OperationResult) -> list[WriteStat]:
    """One for each file; what was read for them is in the first alone."""
    stat = replace(
        log_stat(_shared_stat(slice_, result)),
        num_update_writes=result.counts.rows,
        num_inserts=0,
        total_log_size_compacted=result.input_bytes,
    )
    if (deletes := result.delete_log) is None:
        return [stat]
    of_file = file_stat(slice_.partition_path, slice_.file_id, deletes.file_name, deletes.size_bytes)
    of_deletes = replace(
        log_stat(of_file, names_before=(result.file_name,)),
        prev_commit=stat.prev_commit,
        num_deletes=stat.num_deletes,
        runtime_stats=RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
    )
    return [replace(stat, num_deletes=0), of_deletes]


def _shared_stat(slice_: FileSlice, result: OperationResult) -> WriteStat:
    """The file that was written, and what was read for it."""
    assert result.file_id == slice_.file_id
    counts, milliseconds = result.counts, int(result.seconds * 1000)
    return WriteStat(
        file_id=slice_.file_id,
        path=join(slice_.partition_path, result.file_name),
        partition_path=slice_.partition_path,
        prev_commit=slice_.base_instant,
        num_writes=counts.rows,
        num_deletes=counts.deleted,
        num_updates=0,
        total_write_bytes=result.size_bytes,
        file_size_in_bytes=result.size_bytes,
        total_write_errors=0,
        total_log_records=counts.log_records,
        total_updated_records_compacted=counts.log_keys,
        total_log_blocks=counts.log_blocks,
        total_corrupt_log_block=counts.corrupt_blocks,
        total_rollback_blocks=counts.rollback_blocks,
        total_log_files_compacted=counts.log_files,
        total_log_read_time_ms=milliseconds,
        runtime_stats=RuntimeStats(total_scan_time=milliseconds, total_create_time=0, total_upsert_time=0),
    )


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
        self.attempt.check_held()
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
            claim.snapshot.timeline, snapshot.timeline, own=claim.instant, meanwhile=f"{claim.name} ran"
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
    files = []
    for result in results:
        place = (result.partition_path, result.file_id)
        files.append(NewFile(*place, result.file_name, result.size_bytes, result.column_stats))
        if (log := result.change_log) is not None:
            files.append(NewFile(*place, log.file_name, log.size_bytes, ()))
        if (deletes := result.delete_log) is not None:
            files.append(NewFile(*place, deletes.file_name, deletes.size_bytes, deletes.column_stats))
    return files

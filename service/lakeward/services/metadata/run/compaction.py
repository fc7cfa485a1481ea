"""Compact the metadata table: all of its file groups that have logs, each into a new base file.

    lock      recover, snapshot, choose the slices and an instant T greater than everything on both timelines
    no lock   merge each slice into a base HFile in the attempt's folder, and read it back: a task for each
    lock      another snapshot; T.compaction.requested, .inflight, the files to their places, T_C.commit

Hudi's writers carry out at once, by themselves, every plan that they find on the metadata table's timeline. So nothing
is said there before the result is whole: T is taken while the lock is held, and written down when it is held again.
What writers commit meanwhile completes after T and lies on top of the new base files, as the file system view has it.

    t1 we take a snapshot and T; t2 a writer commits, completing at C > T; t3 we publish T: its log belongs to slice T.

A writer at work may have read the timeline before t3, and list the files after it. To it T is not committed, so it
falls back to the slice before T, and the log of t2 is in neither: seen on 2026-11-22, it wrote partition_stats without
that commit's, by which queries skipped rows. So where something completed after T, T is published in a gap, while no
write is live, or not at all.

If another process compacts meanwhile, or takes a log of Lakeward away, nothing is published. How it is published,
`protocol/attempts/attempt.py` says.

Touches: the metadata table, under the table lock; the attempt's folder below it.
Keeps:   1. what is published is what a reader would have merged as of T, record by record;
         2. where a delta commit completed after T nothing is published while a write is live.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
Source:  HoodieBackedTableMetadataWriter.compactIfNecessary, BaseHoodieCompactionPlanGenerator (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.base.errors import AttemptLost, Conflict, TryLater
from lakeward.base.paths import join
from lakeward.engine.task.metadata_merge_spec import MetadataMergeSpec
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.commit_metadata import write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import is_before
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.life_cycle import Unpublished, run_attempt
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.snapshot import newest_schema
from lakeward.protocol.preconditions import check_space, check_writers_stopped
from lakeward.protocol.progress import Phase
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import MetadataAction
from lakeward.services.metadata.plan.due_before_writers import count_delta_commits
from lakeward.services.metadata.plan.metadata_due import MetadataBacklog, find_backlog
from lakeward.services.metadata.run.metadata_commit import (
    CompactedSlice,
    changed_operation,
    metadata_compaction_commit,
    metadata_compaction_plan,
)
from lakeward.services.metadata.run.recovery import check_intent, recover_metadata
from lakeward.services.metadata.run.serviced_metadata import (
    ServicedMetadata,
    check_obstacles,
    metadata_attempt,
    snapshot_with_metadata,
)
from lakeward.services.metadata.run.slice_merges import MergeTasks, merge_metadata_slices
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import MetadataTable, latest_compaction
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import groups_of

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class CompactedMetadata:
    """What a compaction of the metadata table did."""

    instant: str
    completion_time: str
    delta_commits: int
    """Delta commits that its base files stand for now, since the compaction before."""
    file_groups: int
    log_files: int
    entries: int
    input_bytes: int
    output_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Claim:
    """An instant of this process, and what is to be compacted as of it."""

    snapshot: TableSnapshot
    metadata: MetadataTable
    backlog: MetadataBacklog
    schema_json: str
    plan: CompactionPlan
    attempt: Attempt

    @property
    def instant(self) -> str:
        return self.attempt.instant


class MetadataCompactor:
    """Compacts the metadata table of one table. One process, one attempt number."""

    def __init__(self, table: ServicedTable, planned_by: Mapping[str, str], tasks: MergeTasks) -> None:
        """
        Args:
            planned_by: more to write into the plan's extra metadata.
            tasks: where slices are merged.
        """
        self._table = table
        self._tasks = tasks
        self._planned_by = planned_by

    def preview(self, now: ServicedMetadata) -> MetadataBacklog:
        """What would be compacted now. Raises `TryLater` as `compact` does."""
        backlog = find_backlog(now.table)
        if backlog.is_due:
            check_obstacles(self._table, now)
        return backlog

    def compact(self, *, delta_commits_min: int = 1) -> CompactedMetadata | None:
        """None where there were fewer delta commits since the last compaction, as Hudi counts them, or none left a log.

        Raises:
            Refused: the table is not one whose metadata table this release may change; nothing was written.
            LockHeld, TryLater: another process is at work, or left something that only they can finish.
            Conflict, AttemptLost: what was compacted changed meanwhile, or another process compacted it.
            VerificationFailed: a new file does not hold what was written to it.
        """
        table, started = self._table, self._table.clock.monotonic()
        snapshot_with_metadata(table)  # a refused table is not even locked
        with table.measured(Phase.CLAIM):
            claim = self._claim(delta_commits_min)
        if claim is None:
            return None
        service = _CompactionService(table, claim, self._tasks)
        completion_time = run_attempt(table, service)
        assert completion_time is not None, "its publication is whole, or an error"
        made = service.made
        return CompactedMetadata(
            instant=claim.instant,
            completion_time=completion_time,
            delta_commits=claim.backlog.delta_commits,
            file_groups=len(made),
            log_files=claim.backlog.log_files,
            entries=sum(each.entries for each in made),
            input_bytes=claim.backlog.input_bytes,
            output_bytes=sum(each.size_bytes for each in made),
            seconds=table.clock.monotonic() - started,
        )

    def _claim(self, delta_commits_min: int) -> _Claim | None:
        table = self._table
        table.watch_own()
        with table.locked() as fence:
            now = snapshot_with_metadata(table)
            if recover_metadata(table, now, fence=fence):
                now = snapshot_with_metadata(table)
            snapshot, metadata = now.snapshot, now.table
            backlog = find_backlog(metadata)
            if not backlog.is_due or count_delta_commits(metadata.timeline) < delta_commits_min:
                return None
            check_obstacles(table, now)
            check_space(table, backlog.input_bytes, what="compacting its metadata table", remedy="Free space.")
            schema_json = newest_schema(table.storage, metadata)
            (instant,) = table.minter(snapshot).mint()
            claim = _Claim(
                snapshot=snapshot,
                metadata=metadata,
                backlog=backlog,
                schema_json=schema_json,
                plan=metadata_compaction_plan(backlog.slices, self._planned_by),
                attempt=metadata_attempt(table, metadata, instant, MetadataAction.COMPACTION),
            )
            fence()
            claim.attempt.claim()
        table.observer.step(
            f"metadata table as of {instant}: file groups with logs: {len(backlog.slices)}, delta commits since the "
            f"last compaction: {backlog.delta_commits}"
        )
        return claim


class _CompactionService:
    """A claimed instant, as the life cycle runs it."""

    def __init__(self, table: ServicedTable, claim: _Claim, tasks: MergeTasks) -> None:
        self._table = table
        self._claim = claim
        self._tasks = tasks
        self._held_back_at: float | None = None
        self.made: list[CompactedSlice] = []

    @property
    def attempt(self) -> Attempt:
        return self._claim.attempt

    @property
    def name(self) -> str:
        return f"compaction {self._claim.instant} of the metadata table"

    @property
    def groups(self) -> tuple[GroupId, ...]:
        return groups_of(self._claim.plan)

    def work(self) -> None:
        claim, table = self._claim, self._table
        slices = claim.backlog.slices
        specs = [
            MetadataMergeSpec(
                claim.metadata.base_path,
                claim.metadata.valid_instants,
                slice_,
                claim.schema_json,
                claim.instant,
                claim.attempt.folder,
                number,
                table.owner.attempt,
                table.options.verify,
            )
            for number, slice_ in enumerate(slices)
        ]
        for slice_, merged in zip(
            slices, merge_metadata_slices(table, specs, self._tasks, name=self.name), strict=True
        ):
            if merged is not None:
                self.made.append(
                    CompactedSlice(slice_, merged.file_name, merged.entries, merged.size_bytes, merged.milliseconds)
                )

    def prepare(self) -> None:
        self.attempt.stage(write_commit_metadata(metadata_compaction_commit(self.made, self._claim.schema_json)))

    def await_writers(self) -> None:
        """Writers find conflicts in the table alone; only one that may misread what is published is waited for."""
        table = self._table
        while self._held_back_at is not None and (live := table.writers.scan().live):
            waited = table.clock.monotonic() - self._held_back_at
            if waited >= table.options.yielding.seconds:
                return
            table.pause(
                f"write {live[0].instant}, which may be reading the metadata table", waited, seconds=_POLL_SECONDS
            )

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, claim = self._table, self._claim
        now = snapshot_with_metadata(table)
        self.attempt.check_held()
        _check_still_right(claim, now.table)
        if not table.options.writers_stopped and self._is_held_back(now):
            return Unpublished.HELD_BACK
        if table.options.writers_stopped:
            timelines = ((claim.snapshot, now.snapshot), (claim.metadata, now.table))
            meanwhile = f"the metadata table was compacted as of {claim.instant}"
            for before, after in timelines:
                check_writers_stopped(before.timeline, after.timeline, own=claim.instant, meanwhile=meanwhile)
        check_obstacles(table, now)
        fence()
        native = claim.metadata.config.version.has_native_logs
        self.attempt.request(write_compaction_plan(claim.plan, extension=HFILE, native=native))
        return Publication(
            table.minter(now.snapshot).mint,
            staged={join(each.slice.partition_path, each.file_name): each.size_bytes for each in self.made},
        )

    def _is_held_back(self, now: ServicedMetadata) -> bool:
        """Raises `TryLater` where it was for long enough."""
        table = self._table
        if not _completed_after(now.table, self._claim.instant):
            return False
        live = table.writers.scan(now.snapshot.timeline).live
        if not live:
            return False
        at = table.clock.monotonic()
        self._held_back_at = at if self._held_back_at is None else self._held_back_at
        if at - self._held_back_at >= table.options.yielding.seconds:
            raise TryLater(
                f"{self.name} is held back by write {live[0].instant}.",
                why="The write may have read the timeline before and list files after it, and would miss a commit. "
                f"For {table.options.yielding.seconds:.0f} s (--yield-to-writers) there was no moment without any.",
                remedy="Nothing has to be done: nothing was published, the next run tries again, and writers compact "
                "their metadata table themselves.",
            )
        return True

    def check_intent(self) -> None:
        check_intent(self._table, self._claim.instant, self._claim.plan)


def _completed_after(now: MetadataTable, instant: str) -> bool:
    ends = (each.completion_time for each in now.timeline.completed)
    return any(end is not None and is_before(instant, end) for end in ends)


def _check_still_right(claim: _Claim, now: MetadataTable) -> None:
    """What was merged is what the slices hold as of the instant, still."""
    compacted = latest_compaction(now.timeline)
    if compacted != claim.backlog.compacted_at:
        raise AttemptLost(
            f"The metadata table was compacted at {compacted}, while we did as of {claim.instant}.",
            why="A Hudi writer or another process of Lakeward was faster.",
            remedy="Nothing is wrong, and nothing of Lakeward was published.",
        )
    if any(instant.time == claim.instant for instant in now.timeline.instants):
        raise AttemptLost(
            f"Another process uses the instant of our compaction of the metadata table, {claim.instant}.",
            why="Its clock is wrong, or it took it without the table's lock.",
            remedy="Run the command again; nothing was published.",
        )
    if (changed := changed_operation(claim.plan, claim.instant, now)) is not None:
        raise Conflict(
            f"File group {changed.file_id} of the metadata table changed while it was compacted as of {claim.instant}.",
            why="A file of it was taken away, or one came whose commit completed before that instant.",
            remedy="Run the command again; nothing was published.",
            file_group=(changed.partition_path, changed.file_id),
        )

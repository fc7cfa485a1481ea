"""The metadata table's own services: clean what earlier compactions left behind, then compact.

In this order what a compaction replaces stays for a whole round, as with Hudi, whose cleaner waits after a compaction.
A clean deletes the files of slices that no reader needs any more:

    lock    recover, snapshot, choose -> T.clean.requested (every file by name) -> .inflight -> delete -> T_C.clean

All of it under one lock, as Hudi's writers do it. So a process that holds the lock and finds a clean of Lakeward that
is pending knows that its process died or lost the lock, and ends it: what it began to delete was dead and cannot be
brought back. Before that it fences the attempt off, so that a process that wakes up late completes nothing.

    t0 A is stopped after half of its deletions; t1 its lock runs out, B deletes the rest and creates T_C.clean;
    t2 A wakes: its fence fails, and later still the link to its own completed file. In an object store it can state no
    intent; what it had stated B created.

A pending clean of another engine is that engine's to end; until then we make none.

Touches: files of dead slices of the metadata table, and of one instant on its timeline, under the table lock; a
         compaction through `services/metadata/run/compaction.py`.
Keeps:   1. a file is deleted only if a completed commit brought it, a plan on the timeline names it, and it is in no
            slice that readers read now;
         2. stopped anywhere in between, the next process ends it, be it Hudi.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakeward.base.errors import Conflict
from lakeward.base.paths import join
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.metadata_merge import merge_metadata_slice
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import (
    CleanPlan,
    clean_plan_root,
    read_clean_plan,
    read_extra_metadata,
    write_clean_plan,
)
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import MetadataAction
from lakeward.services.metadata.plan.dead_slices import DeadSlices, find_pending_clean, still_dead
from lakeward.services.metadata.plan.due_before_writers import MetadataService
from lakeward.services.metadata.plan.metadata_due import MetadataBacklog
from lakeward.services.metadata.run.compaction import CompactedMetadata, MetadataCompactor
from lakeward.services.metadata.run.recovery import recover_metadata
from lakeward.services.metadata.run.serviced_metadata import (
    ServicedMetadata,
    check_obstacles,
    dead_slices,
    metadata_attempt,
    snapshot_with_metadata,
)
from lakeward.services.metadata.run.slice_merges import MergeTasks
from lakeward.storage.storage import Storage
from lakeward.table.timeline.service_instants import PLANNED_BY

_DELETIONS_A_FENCE = 100


@dataclass(frozen=True, slots=True)
class CleanedMetadata:
    """What a clean of the metadata table did."""

    instant: str
    completion_time: str
    earliest_retained: str
    """The first instant at which, and after which, the metadata table can still be read."""
    files: int
    """The number of files that were deleted."""
    seconds: float


class MetadataCleaner:
    """Cleans the metadata table of one table."""

    def __init__(self, table: ServicedTable, planned_by: Mapping[str, str]) -> None:
        """
        Args:
            planned_by: more to write into the plan's extra metadata.
        """
        self._table = table
        self._extra_metadata = {**planned_by, PLANNED_BY: "lakeward"}

    def clean(self) -> CleanedMetadata | None:
        """None where there is nothing to delete, or another engine's clean is under way.

        Raises:
            Refused: the table is not one whose metadata table this release may change; nothing was written.
            LockHeld, TryLater: another process is at work, or left something that only they can finish.
            Conflict: a clean of Lakeward that was interrupted names files that readers read again.
        """
        table = self._table
        now = snapshot_with_metadata(table)
        if find_pending_clean(now.table) is None and not dead_slices(table, now).slices:
            return None  # as most of the time; no writer waits for a lock then
        table.watch_own()
        with table.locked() as fence:
            now = snapshot_with_metadata(table)
            if recover_metadata(table, now, fence=fence):
                now = snapshot_with_metadata(table)
            if (pending := find_pending_clean(now.table)) is not None:
                return self._end(now, pending, fence)
            dead = dead_slices(table, now)
            if not dead.slices:
                return None
            check_obstacles(table, now)
            (instant,) = table.minter(now.snapshot).mint()
            attempt = metadata_attempt(table, now.table, instant, MetadataAction.CLEAN)
            plan = dead.plan(self._extra_metadata)
            fence()
            attempt.claim()
            attempt.request(write_clean_plan(plan, root=clean_plan_root(now.table.base_path)))
            return self._carry_out(now, attempt, plan, fence)

    def _end(self, now: ServicedMetadata, instant: str, fence: Fence) -> CleanedMetadata | None:
        """End a pending clean, if it is Lakeward's."""
        table = self._table
        attempt = metadata_attempt(table, now.table, instant, MetadataAction.CLEAN)
        files = attempt.files
        content = table.storage.read(files.requested)
        if not content or PLANNED_BY not in read_extra_metadata(content, file=files.requested):
            table.observer.step(f"clean {instant} of the metadata table is a Hudi writer's, who ends it")
            return None
        root = clean_plan_root(now.table.base_path)
        plan = read_clean_plan(content, root=root, file=files.requested)
        if not still_dead((name for names in plan.files.values() for name in names), now.table):
            raise Conflict(
                f"Clean {instant} of the metadata table was interrupted, and cannot be ended.",
                why="It names files that belong to the newest slices of their file groups now: the table was restored.",
                remedy="Run `lakeward metadata disable`; the next Hudi writer builds the metadata table again.",
            )
        table.observer.step(f"clean {instant} of the metadata table: ending what was interrupted")
        judged, started = table.liveness(instant), table.clock.monotonic()
        if not attempt.fence_off() and (completion_time := attempt.roll_forward(fence=fence)) is not None:
            attempt.clear(judged.owner)
            return _cleaned(plan, instant, completion_time, table.clock.monotonic() - started)
        fence()
        attempt.make_way(judged.owner)  # its folder stays: if we are stopped here, there may be another's by then
        attempt.claim()
        # What could still complete it was fenced off, so from here on the answer stays true.
        files.check_uncompleted()
        fence()
        if not files.is_inflight():
            files.begin()
        return self._carry_out(now, attempt, plan, fence)

    def _carry_out(self, now: ServicedMetadata, attempt: Attempt, plan: CleanPlan, fence: Fence) -> CleanedMetadata:
        table, started = self._table, self._table.clock.monotonic()
        paths = [join(now.table.base_path, partition, name) for partition, of in plan.files.items() for name in of]
        for first in range(0, len(paths), _DELETIONS_A_FENCE):
            fence()
            fencing_of(table.storage).delete_files(paths[first : first + _DELETIONS_A_FENCE])
        seconds = table.clock.monotonic() - started
        metadata = CleanMetadata(
            version=VERSION,
            partitions={partition: CleanedPartition(deleted=names) for partition, names in plan.files.items()},
            instant=attempt.instant,
            milliseconds=int(seconds * 1000),
            earliest_retained=_earliest_of(plan),
            last_completed=plan.last_completed,
            policy=plan.policy,
        )
        attempt.stage(write_clean_metadata(metadata))
        completion_time = attempt.publish(Publication(table.minter(now.snapshot).mint), fence=fence)
        attempt.clear()
        table.observer.step(f"clean {attempt.instant} of the metadata table: files deleted: {len(paths)}")
        return _cleaned(plan, attempt.instant, completion_time, seconds)


def _cleaned(plan: CleanPlan, instant: str, completion_time: str, seconds: float) -> CleanedMetadata:
    files = sum(len(names) for names in plan.files.values())
    return CleanedMetadata(instant, completion_time, _earliest_of(plan), files, seconds)


def _earliest_of(plan: CleanPlan) -> str:
    return plan.earliest_retained.time if plan.earliest_retained else ""


@dataclass(frozen=True, slots=True)
class MetadataWork:
    """What the services would do now; None for one that was not asked for."""

    dead: DeadSlices | None
    backlog: MetadataBacklog | None

    @property
    def is_due(self) -> bool:
        cleans = self.dead is not None and bool(self.dead.slices)
        return cleans or (self.backlog is not None and self.backlog.is_due)


@dataclass(frozen=True, slots=True)
class MetadataDone:
    """What the services did; None for what was not due, or not asked for."""

    clean: CleanedMetadata | None
    compaction: CompactedMetadata | None


def in_this_process(storage: Storage) -> MergeTasks:
    """One slice after the other, here."""
    return MergeTasks(lambda input_bytes: InProcessDispatcher(), partial(merge_metadata_slice, storage))


class MetadataServices:
    """Services of the metadata table of one table. One process, one attempt number."""

    def __init__(
        self, table: ServicedTable, *, planned_by: Mapping[str, str] | None = None, tasks: MergeTasks | None = None
    ) -> None:
        """
        Args:
            planned_by: more to write into the plans' extra metadata.
            tasks: where slices are merged; None: in this process.
        """
        self._table = table
        self._cleaner = MetadataCleaner(table, planned_by or {})
        self._compactor = MetadataCompactor(table, planned_by or {}, tasks or in_this_process(table.storage))

    def preview(self, only: MetadataService | None = None) -> MetadataWork:
        """What would be done now. Writes nothing. Raises as `run` does."""
        now = snapshot_with_metadata(self._table)
        cleans, compacts = only is not MetadataService.COMPACTION, only is not MetadataService.CLEAN
        return MetadataWork(
            dead_slices(self._table, now) if cleans else None,
            self._compactor.preview(now) if compacts else None,
        )

    def run(self, only: MetadataService | None = None, *, delta_commits_min: int = 1) -> MetadataDone:
        """Raises as `MetadataCleaner.clean` and `MetadataCompactor.compact` do.

        Args:
            only: one of the two; None does both.
            delta_commits_min: it is not compacted where there were fewer since the last compaction.
        """
        clean = self._cleaner.clean() if only is not MetadataService.COMPACTION else None
        if only is MetadataService.CLEAN:
            return MetadataDone(clean, None)
        return MetadataDone(clean, self._compactor.compact(delta_commits_min=delta_commits_min))

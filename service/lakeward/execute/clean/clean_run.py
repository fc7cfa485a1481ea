"""One claimed clean: delete what its plan names, tell the metadata table, complete it.

    work          no lock   deletions in batches; before each: still ours, nothing new on the timeline that needs a file
    prepare       no lock   what the metadata table is told, into the attempt's folder
    publication   lock      the commit of the same instant there, then `T_C.clean`

Hudi goes in the same order: until the clean is complete the metadata table lists files that are gone, all of them in
slices that no reader of the newest state opens.

Touches: files that the plan names; the attempt's folder; both timelines through `commit`.
Keeps:   1. a file is deleted only if the plan names it and it was proved dead under the lock as the clean was claimed;
         2. a savepoint, restore or rollback that appears stops the deletions before the next batch;
         3. what was gone already is success; what cannot be deleted ends the attempt, and the clean stays pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.commit.attempt import Attempt, Publication
from lakeward.commit.fencing import fencing_of
from lakeward.commit.lock.table_lock import Fence
from lakeward.commit.metadata.changes import DeletedFile
from lakeward.errors import TryLater
from lakeward.execute.before_writing import check_writers_stopped
from lakeward.execute.life_cycle import Unpublished
from lakeward.execute.serviced_table import ServicedTable
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.plan.eligibility import TableService
from lakeward.storage.storage import join
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline, load_timeline

if TYPE_CHECKING:
    from lakeward.commit.metadata.writer import DeltaCommitWriter

DELETIONS_A_BATCH = 500


@dataclass(frozen=True, slots=True)
class ClaimedClean:
    """A clean that is ours to carry out: our heartbeat beats, `.inflight` exists, what it deletes was proved dead."""

    snapshot: TableSnapshot
    attempt: Attempt
    plan: CleanPlan
    """Without the files that stay."""


class CleanRun:
    def __init__(self, table: ServicedTable, claimed: ClaimedClean) -> None:
        self._table = table
        self._claimed = claimed
        self._plan = claimed.plan
        self._deleted = [DeletedFile(path, name) for path, names in claimed.plan.files.items() for name in names]
        self._writer: DeltaCommitWriter | None = None
        self._seconds = 0.0

    @property
    def attempt(self) -> Attempt:
        return self._claimed.attempt

    @property
    def name(self) -> str:
        return f"clean {self.attempt.instant}"

    @property
    def groups(self) -> Sequence[GroupId]:
        """None: a clean writes no file into a file group."""
        return ()

    def work(self) -> None:
        table, started = self._table, self._table.clock.monotonic()
        paths = [join(table.base_path, file.partition_path, file.name) for file in self._deleted]
        for first in range(0, len(paths), DELETIONS_A_BATCH):
            table.guard()
            self.attempt.check_ours()
            self._check_still_dead()
            batch = paths[first : first + DELETIONS_A_BATCH]
            fencing_of(table.storage).delete_files(batch)
            table.observer.step(f"{self.name}: files deleted: {first + len(batch)} of {len(paths)}")
        self._seconds = table.clock.monotonic() - started

    def await_writers(self) -> None:
        """No writer fails for a clean."""

    def prepare(self) -> None:
        snapshot = self._table.snapshot(only=(), service=TableService.CLEANING)
        if has_metadata_table(snapshot.config):
            self._writer = self._open_writer()
            self._writer.prepare(snapshot, deleted=self._deleted)

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, attempt = self._table, self.attempt
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        attempt.check_ours()
        if table.options.writers_stopped:
            check_writers_stopped(
                self._claimed.snapshot.timeline, snapshot.timeline, ours=attempt.instant, meanwhile=f"{self.name} ran"
            )
        attempt.stage(write_clean_metadata(self._metadata()))
        participants = []
        if has_metadata_table(snapshot.config):
            writer = self._writer or self._open_writer()
            participants.append(writer.stage(snapshot, deleted=self._deleted, fence=fence))
        return Publication(latest_time=snapshot.timeline.latest_time, zone=snapshot.zone, participants=participants)

    def check_intent(self) -> None:
        """What was deleted stays so; the metadata table judges for itself."""

    def _check_still_dead(self) -> None:
        before = self._claimed.snapshot
        now = load_timeline(self._table.storage, self._table.base_path, before.config)
        if new := sorted(_that_need_files(now) - _that_need_files(before.timeline)):
            raise TryLater(
                f"{new[0][1]} {new[0][0]} appeared while {self.name} deleted files.",
                why="It may need files that the clean names, so nothing more was deleted.",
                remedy="Run `lakeward clean` again: it leaves out what is needed now.",
            )

    def _metadata(self) -> CleanMetadata:
        plan = self._plan
        return CleanMetadata(
            version=VERSION,
            partitions={path: CleanedPartition(deleted=names) for path, names in plan.files.items()},
            instant=self.attempt.instant,
            milliseconds=int(self._seconds * 1000),
            earliest_retained=plan.earliest_retained.time if plan.earliest_retained else "",
            last_completed=plan.last_completed,
            policy=plan.policy,
            extra_metadata=plan.extra_metadata,
        )

    def _open_writer(self) -> DeltaCommitWriter:
        # It needs the compiled kernels: only where a table has a metadata table.
        from lakeward.commit.metadata.writer import DeltaCommitWriter

        return DeltaCommitWriter(
            self._table.storage,
            self.attempt.instant,
            folder=self.attempt.folder,
            number=self._table.owner.attempt,
            measured=None,
            clock=self._table.clock,
        )


def _that_need_files(timeline: Timeline) -> set[tuple[str, str]]:
    return {(i.time, i.action) for i in timeline.instants if i.action in ("savepoint", "restore", "rollback")}

"""One claimed clean: take away what its plan names, update the metadata table, complete it.

    work          no lock   files go in batches, or are set aside; before each: lock and attempt hold, nothing new on
                            the timeline that needs a file
    prepare       no lock   the records for the metadata table, into the attempt's folder; what that table says of the
                            files that were set aside, into the quarantine
    publication   lock      the commit of the same instant there, then `T_C.clean`

Hudi goes in the same order: until the clean is complete the metadata table lists files that are gone, all of them in
slices that no reader of the newest state opens.

Touches: files that the plan names; the quarantine; the attempt's folder; both timelines through `commit`.
Keeps:   1. a file is deleted only if the plan names it and it was proved dead under the lock as the clean was claimed;
         2. a savepoint, restore or rollback that appears stops the deletions before the next batch;
         3. what was gone already is success; what cannot be deleted ends the attempt, and the clean stays pending;
         4. where files are to be kept for a while, none is deleted that could be set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeward.base.errors import TryLater
from lakeward.base.paths import join
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.changes import DeletedFile
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.progress import DeletedSoFar
from lakeward.protocol.quarantine import FileRemoval, write_stats
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.file_group import FileGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.quarantine import QuarantinedFile, QuarantineKind
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline, load_timeline

DELETIONS_A_BATCH = 500


@dataclass(frozen=True, slots=True)
class ClaimedClean:
    """A clean that this process carries out: its heartbeat beats, `.inflight` exists, what it deletes was proved
    dead."""

    snapshot: TableSnapshot
    attempt: Attempt
    plan: CleanPlan
    """Without the files that stay."""


class CleanRun:
    def __init__(self, table: ServicedTable, claimed: ClaimedClean, *, keep_seconds: float) -> None:
        """
        Args:
            keep_seconds: for so long what goes can be brought back; 0: it is deleted at once.
        """
        self._table = table
        self._claimed = claimed
        self._keep_seconds = keep_seconds
        self.kept_until: float | None = None
        """When what was set aside is deleted, in seconds since the epoch."""
        self._plan = claimed.plan
        self._deleted = [DeletedFile(path, name) for path, names in claimed.plan.files.items() for name in names]
        self._metadata_part = MetadataPart(table, claimed.attempt)
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
        paths = [join(file.partition_path, file.name) for file in self._deleted]
        removal = FileRemoval(table.storage, table.base_path)
        if self._keep_seconds:
            now = table.clock.now()
            self.kept_until = now + self._keep_seconds
            removal.keep(
                self.attempt.instant,
                _files_of(self._claimed.snapshot, paths),
                kind=QuarantineKind.CLEAN,
                attempt=table.owner.attempt,
                since=now,
                keep_until=self.kept_until,
            )
        self._report_deleted(0)
        for first in range(0, len(paths), DELETIONS_A_BATCH):
            table.guard()
            self.attempt.check_held()
            self._check_still_dead()
            batch = paths[first : first + DELETIONS_A_BATCH]
            removal.take(batch)
            table.observer.step(f"{self.name}: files deleted: {first + len(batch)} of {len(paths)}")
            self._report_deleted(first + len(batch))
        self._seconds = table.clock.monotonic() - started

    def _report_deleted(self, files: int) -> None:
        self._table.observer.deleted(DeletedSoFar(self.attempt.instant, files, len(self._deleted)))

    def await_writers(self) -> None:
        """No writer fails for a clean."""

    def prepare(self) -> None:
        snapshot = self._table.snapshot(only=(), service=TableService.CLEANING)
        if self._keep_seconds and has_metadata_table(snapshot.config):
            keep_stats(self._table, snapshot, self.attempt.instant, self._deleted)
        self._metadata_part.prepare(snapshot, self._changes)

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, attempt = self._table, self.attempt
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        attempt.check_held()
        if table.options.writers_stopped:
            check_writers_stopped(
                self._claimed.snapshot.timeline, snapshot.timeline, own=attempt.instant, meanwhile=f"{self.name} ran"
            )
        attempt.stage(write_clean_metadata(self._metadata()))
        participants = self._metadata_part.participants(snapshot, self._changes, fence=fence)
        return Publication(table.minter(snapshot).mint, participants=participants)

    def check_intent(self) -> None:
        """What was deleted stays so; the metadata table judges for itself."""

    def _changes(self) -> FileChanges:
        return FileChanges(deleted=self._deleted)

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


def keep_stats(table: ServicedTable, snapshot: TableSnapshot, run: str, deleted: Iterable[DeletedFile]) -> None:
    """Keep what the metadata table says of the files in the quarantine's run."""
    from lakeward.protocol.metadata.kept_stats import collect_stats

    files = {(file.partition_path, file.name) for file in deleted}
    if (stats := collect_stats(table.storage, snapshot, files, clock=table.clock)) is not None:
        write_stats(table.storage, table.base_path, run, table.owner.attempt, stats)


def _files_of(snapshot: TableSnapshot, paths: Iterable[str]) -> list[QuarantinedFile]:
    """What is there of these files, which are all in slices."""
    wanted, found = set(paths), []
    replaced = [group for group in snapshot.replaced_groups if isinstance(group, FileGroup)]
    for group in (*snapshot.file_groups, *replaced):
        at = snapshot.replaced.get((group.partition_path, group.file_id))
        for slice_ in group.slices:
            sizes = {log.name.text: log.size for log in slice_.log_files}
            if slice_.base_file is not None:
                sizes[slice_.base_file.name] = slice_.base_file.size
            files = (QuarantinedFile(group.partition_path, name, size, at) for name, size in sizes.items())
            found += [file for file in files if file.path in wanted]
    return found


def _that_need_files(timeline: Timeline) -> set[tuple[str, str]]:
    return {(i.time, i.action) for i in timeline.instants if i.action in ("savepoint", "restore", "rollback")}

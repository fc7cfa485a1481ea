"""One claimed clean by which logs retire: they leave the listing of the table, and are deleted later.

    prepare       no lock   what the metadata table says of the logs goes into the quarantine, and the records by which
                            it forgets them into the attempt's folder
    publication   lock      does an output stand for each, as before? The quarantine names them and until when they
                            stay; the commit of the same instant in the metadata table; `T_C.clean`
    later                   `purge.py` deletes them, once the reader window has passed

This is the reverse of what takes slices away (`clean_run.py`): every reader opens these slices, so that none may find a
file in a listing that is gone. Before the clean is completed nothing is different. After it the logs are files beside
the table until they are deleted: readers by the metadata table do not know them, Lakeward's leave them out by the
quarantine, and one that finds them in a listing reads the same rows with them.

Touches: the quarantine; the attempt's folder; both timelines through `commit`. It deletes nothing.
Keeps:   1. no log leaves the listing unless an output stands for it under the lock, and no pending plan or savepoint
            needs it;
         2. what goes is named in the quarantine before the clean is completed, for as long as a query may run;
         3. stopped at any call, all rows are there, and the next run ends the clean.
See:     docs/decisions/0131-logs-that-retire.md
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.base.errors import TryLater
from lakeward.format.timeline.clean_metadata import VERSION, CleanedPartition, CleanMetadata, write_clean_metadata
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.changes import DeletedFile
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.quarantine import begin_retirement, retire_logs
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.validity import find_unretirable, groups_of_files
from lakeward.services.clean.run.clean_run import ClaimedClean, keep_stats
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.quarantine import QuarantinedFile
from lakeward.table.retired_logs import find_stood_for


class RetirementRun:
    def __init__(
        self, table: ServicedTable, claimed: ClaimedClean, *, keep_seconds: float, reader_window: float
    ) -> None:
        """
        Args:
            keep_seconds: for so long the logs can be brought back, or for the reader window if that is longer.
            reader_window: seconds for which a query may run.
        """
        self._table = table
        self._claimed = claimed
        self._keep_seconds = keep_seconds
        self._reader_window = reader_window
        self._files = _files_of(claimed)
        self._deleted = [DeletedFile(path, name) for path, names in claimed.plan.retired.items() for name in names]
        self._metadata_part = MetadataPart(table, claimed.attempt)
        self.kept_until: float | None = None
        """When the logs are deleted, in seconds since the epoch."""

    @property
    def attempt(self) -> Attempt:
        return self._claimed.attempt

    @property
    def files(self) -> Sequence[QuarantinedFile]:
        """The logs that retire, those that are there."""
        return self._files

    @property
    def name(self) -> str:
        return f"clean {self.attempt.instant}, by which logs retire,"

    @property
    def groups(self) -> Sequence[GroupId]:
        """None: a clean writes no file into a file group."""
        return ()

    def work(self) -> None:
        """Nothing goes before the clean is completed."""
        begin_retirement(self._table.storage, self._table.base_path, self.attempt.instant)

    def await_writers(self) -> None:
        """No writer fails for a clean."""

    def prepare(self) -> None:
        snapshot = self._table.snapshot(only=(), service=TableService.CLEANING)
        if has_metadata_table(snapshot.config):
            keep_stats(self._table, snapshot, self.attempt.instant, self._deleted)
        self._metadata_part.prepare(snapshot, self._changes)

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, attempt, plan = self._table, self.attempt, self._claimed.plan
        snapshot = table.snapshot(only=set(groups_of_files(plan.retired)), service=TableService.CLEANING)
        attempt.check_held()
        if needed := find_unretirable(snapshot, plan.retired):
            path, why = next(iter(needed.items()))
            raise TryLater(
                f"{path} is needed since {self.name} began.",
                why=f"{why}; and logs beside it: {len(needed) - 1}.",
                remedy="Run `lakeward clean` again: it leaves out what is needed now.",
            )
        if table.options.writers_stopped:
            check_writers_stopped(
                self._claimed.snapshot.timeline, snapshot.timeline, own=attempt.instant, meanwhile=f"{self.name} ran"
            )
        self._say_when(fence)
        attempt.stage(write_clean_metadata(self._metadata()))
        participants = self._metadata_part.participants(snapshot, self._changes, fence=fence)
        return Publication(table.minter(snapshot).mint, participants=participants)

    def check_intent(self) -> None:
        """What was said stays so; the metadata table judges for itself."""

    def _say_when(self, fence: Fence) -> None:
        table, now = self._table, self._table.clock.now()
        self.kept_until = now + max(self._keep_seconds, self._reader_window)
        fence()
        retire_logs(
            table.storage,
            table.base_path,
            self.attempt.instant,
            self._files,
            attempt=table.owner.attempt,
            since=now,
            keep_until=self.kept_until,
            not_before=now + self._reader_window,
        )

    def _changes(self) -> FileChanges:
        return FileChanges(deleted=self._deleted)

    def _metadata(self) -> CleanMetadata:
        plan = self._claimed.plan
        return CleanMetadata(
            version=VERSION,
            partitions={path: CleanedPartition(deleted=names) for path, names in plan.retired.items()},
            instant=self.attempt.instant,
            earliest_retained=plan.earliest_retained.time if plan.earliest_retained else "",
            last_completed=plan.last_completed,
            policy=plan.policy,
            extra_metadata=plan.extra_metadata,
        )


def _files_of(claimed: ClaimedClean) -> list[QuarantinedFile]:
    """What is there of the logs, which are all in slices that readers read."""
    snapshot, retired = claimed.snapshot, claimed.plan.retired
    return [
        QuarantinedFile(group.partition_path, log.name.text, log.size, merged_by=by[log.name.text])
        for group in snapshot.file_groups
        if (of_partition := retired.get(group.partition_path))
        for slice_ in group.read_slices
        if (by := find_stood_for(slice_.log_names, snapshot.log_compactions.get(slice_.group_id, ())).by)
        for log in slice_.log_files
        if log.name.text in of_partition and log.name.text in by
    ]

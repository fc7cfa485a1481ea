"""One claimed undo of a clean: bring its files back, update the metadata table, complete the clean that undoes it.

    work          no lock   files are moved back in batches; before each: lock and attempt hold
    prepare       no lock   records for the metadata table: the files, and what was known of their columns
    publication   lock      the commit of the same instant there, then `U_C.clean`, which names what it undoes

The files are there before anything lists them, and stand in slices that no reader of the newest state opens. Hudi may
end this clean, too, and brings nothing back: its completed file does not say that it undoes anything, so the quarantine
keeps what it has, and the undo can be asked for again.

Touches: files that the manifests of the run name; the quarantine; the attempt's folder; both timelines.
Keeps:   1. a completed clean says that it undoes another only once every file is in its place and listed;
         2. what forbids the undo is asked again under the lock;
         3. stopped at any call, no file of the run is lost, and the next run or the next undo ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.base.errors import Conflict, Refused, UsageError
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.timeline.clean_metadata import VERSION, CleanMetadata, write_clean_metadata
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.life_cycle import Unpublished
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata_part import FileChanges, MetadataPart
from lakeward.protocol.preconditions import check_writers_stopped
from lakeward.protocol.quarantine import bring_back, end_undo, find_missing, forget_run, set_aside_again
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.undo_plan import UndoPlan, plan_undo
from lakeward.services.clean.plan.validity import find_needed, groups_of_files
from lakeward.services.clean.run.clean_run import ClaimedClean
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import load_indexed_columns
from lakeward.table.partition import is_partition
from lakeward.table.quarantine import QuarantinedFile, QuarantinedRun, QuarantineKind, load_quarantine, run_folder
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import UNDOES, Clean, read_cleans

if TYPE_CHECKING:
    from lakeward.format.metadata.record import ColumnStatsRecord

_FILES_A_BATCH = 500


def undo_plan(
    table: ServicedTable,
    snapshot: TableSnapshot,
    instant: str,
    *,
    undoing: str | None = None,
    cleans: Sequence[Clean] | None = None,
) -> UndoPlan:
    """What undoing the clean of this instant brings back now. Raises `Refused`, `UsageError`.

    Args:
        undoing: the clean that undoes it, which may be pending.
        cleans: those that there will be by then; not given: those that there are.
    """
    storage, base_path = table.storage, table.base_path
    run = load_quarantine(storage, base_path).find(instant)
    if cleans is None:
        cleans = read_cleans(storage, base_path, snapshot.config, snapshot.timeline)
    partitions = {file.partition_path for file in run.files} if run is not None else set()
    return plan_undo(
        instant,
        snapshot.timeline,
        [clean for clean in cleans if clean.instant != undoing],
        run,
        missing=() if run is None else find_missing(storage, base_path, run),
        partitions_gone=[path for path in partitions if not is_partition(storage.list(join(base_path, path)))],
        native=snapshot.config.version.has_native_logs,
    )


class UndoRun:
    def __init__(self, table: ServicedTable, claimed: ClaimedClean, undo: UndoPlan) -> None:
        self._table = table
        self._claimed = claimed
        self._undo = undo
        self._metadata_part = MetadataPart(table, claimed.attempt)
        self._files: list[NewFile] | None = None
        self._seconds = 0.0

    @property
    def attempt(self) -> Attempt:
        return self._claimed.attempt

    @property
    def undoes(self) -> str:
        """The clean that is undone."""
        return self._undo.run

    @property
    def files(self) -> Sequence[QuarantinedFile]:
        """What comes back."""
        return self._undo.files

    @property
    def name(self) -> str:
        return f"clean {self.attempt.instant}, which undoes {self._undo.run},"

    @property
    def groups(self) -> Sequence[GroupId]:
        """None: what comes back was written by others."""
        return ()

    def work(self) -> None:
        table, started, files = self._table, self._table.clock.monotonic(), self._undo.files
        for first in range(0, len(files), _FILES_A_BATCH):
            table.guard()
            self.attempt.check_held()
            batch = files[first : first + _FILES_A_BATCH]
            bring_back(table.storage, table.base_path, self._undo.run, batch)
            table.observer.step(f"{self.name} brought files back: {first + len(batch)} of {len(files)}")
        self._check_in_place()
        self._seconds = table.clock.monotonic() - started

    def await_writers(self) -> None:
        """No writer fails for old slices."""

    def prepare(self) -> None:
        snapshot = self._table.snapshot(only=(), service=TableService.CLEANING)
        self._metadata_part.prepare(snapshot, lambda: FileChanges(self._new_files(snapshot)))

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, attempt = self._table, self.attempt
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        attempt.check_held()
        undo_plan(table, snapshot, self._undo.run, undoing=attempt.instant)
        self._check_in_place()
        if table.options.writers_stopped:
            check_writers_stopped(
                self._claimed.snapshot.timeline, snapshot.timeline, own=attempt.instant, meanwhile=f"{self.name} ran"
            )
        attempt.stage(write_clean_metadata(self._metadata()))
        participants = self._metadata_part.participants(
            snapshot, lambda: FileChanges(self._new_files(snapshot)), fence=fence
        )
        return Publication(table.minter(snapshot).mint, participants=participants)

    def check_intent(self) -> None:
        """The files are in their places; the metadata table judges for itself."""

    def _check_in_place(self) -> None:
        table = self._table
        for file in self._undo.files:
            status = table.storage.stat(join(table.base_path, file.path))
            if status is None or status.size != file.size:
                raise Conflict(
                    f"{file.path} is not in its place, or not as long as it was.",
                    why="Another process took it away while it was brought back.",
                    remedy="Run the command again; what is in the quarantine stays there.",
                )

    def _new_files(self, snapshot: TableSnapshot) -> list[NewFile]:
        if self._files is None:
            stats = self._stats(snapshot)
            self._files = []
            for file in self._undo.files:
                parsed = parse_any_data_file(file.name, native=True)
                assert parsed is not None, "the plan took no other"
                known = stats.get((file.partition_path, file.name), ())
                self._files.append(
                    NewFile(file.partition_path, parsed.file_id, file.name, file.size, known, is_brought_back=True)
                )
        return self._files

    def _stats(self, snapshot: TableSnapshot) -> dict[tuple[str, str], tuple[ColumnStatsRecord, ...]]:
        if COLUMN_STATS not in snapshot.config.built_metadata_partitions:
            return {}
        from lakeward.protocol.metadata.kept_stats import read_stats

        table, run = self._table, load_quarantine(self._table.storage, self._table.base_path).find(self._undo.run)
        assert run is not None, "it was there"
        indexed = load_indexed_columns(table.storage, table.base_path, snapshot.config, snapshot.schema)
        files = [(file.partition_path, file.name) for file in self._undo.files]
        found: dict[tuple[str, str], tuple[ColumnStatsRecord, ...]] = {}
        if indexed is None:
            return found
        for name in run.stats:
            path = join(run_folder(table.base_path, run.run), name)
            found |= read_stats(table.storage.read(path), files, indexed, file=path)
        return found

    def _metadata(self) -> CleanMetadata:
        plan = self._claimed.plan
        assert plan.earliest_retained is not None, "an undo names one"
        return CleanMetadata(
            version=VERSION,
            partitions={},
            instant=self.attempt.instant,
            milliseconds=int(self._seconds * 1000),
            earliest_retained=plan.earliest_retained.time,
            last_completed=plan.last_completed,
            policy=plan.policy,
            extra_metadata={**plan.extra_metadata, UNDOES: self._undo.run},
        )


def find_undo(table: ServicedTable, claimed: ClaimedClean, instant: str) -> UndoPlan | None:
    """The undo that a pending clean is; None where it cannot be any more, and the clean is ended as one that deletes
    nothing."""
    try:
        return undo_plan(table, claimed.snapshot, instant, undoing=claimed.attempt.instant)
    except (Refused, UsageError) as error:
        table.observer.step(f"clean {claimed.attempt.instant} undoes nothing: {error}")
        return None


def settle_undo(table: ServicedTable, snapshot: TableSnapshot, run: QuarantinedRun, fence: Fence) -> None:
    """Remove what an undo that is not under way any more left of its run. Under the lock."""
    assert run.undone_by is not None, "its caller asked"
    storage, base_path, timeline = table.storage, table.base_path, snapshot.timeline
    if run.kind is QuarantineKind.ORPHANS:  # what is back is back
        end_undo(storage, base_path, run.run, run.undone_by)
        return
    undo = [each for each in timeline.instants if each.time == run.undone_by and each.action == "clean"]
    if not undo:
        if not timeline.is_archived(run.undone_by):  # its process died before it wrote the plan, so nothing was moved
            end_undo(storage, base_path, run.run, run.undone_by)
        return
    if all(each.time != run.undone_by for each in timeline.completed):
        return
    cleans = read_cleans(storage, base_path, snapshot.config, timeline)
    fence()
    if any(clean.instant == run.undone_by and clean.undoes == run.run for clean in cleans):
        forget_run(storage, base_path, run)
        return
    # Hudi ended it, which brings nothing back: what was moved by then goes aside again.
    by_partition: dict[str, list[str]] = {}
    for file in run.files:
        by_partition.setdefault(file.partition_path, []).append(file.name)
    fresh = table.snapshot(only=set(groups_of_files(by_partition)), service=TableService.CLEANING)
    needed = find_needed(fresh, by_partition)
    if not run.in_place:
        set_aside_again(storage, base_path, run.run, [file for file in run.files if file.path not in needed])
    end_undo(storage, base_path, run.run, run.undone_by)

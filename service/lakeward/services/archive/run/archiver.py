"""Archive a table: its oldest completed instants leave the active timeline for the history (layout 2).

    no lock  scan; choose (`services/archive/plan/archive_plan.py`); read what the instants say, and encode it
    lock     choose again on the timeline as it is now -> publish the rows (`services/archive/run/history.py`) -> delete
    the instants'
             files, the oldest instant first
    no lock  read the files of a level of the history that has too many, and encode their rows
    lock     publish them as one file of the next level -> delete manifests and files that no reader needs any more
    no lock  markers of what was archived go

and then the same of the metadata table's own timeline, which follows (`services/archive/run/archived_timeline.py`).

The facts are those of the scan: what could change of them since only lets more go. So what goes is what may go both by
the first choice and by the one under the lock, or nothing. A timeline that was never archived goes in batches, a lock
for each.

Stopped between publishing and the last deletion, the oldest instants are in both places. Readers take either, and the
next run takes them off the timeline before anything else, due or not.

Touches: both timelines and their histories, under the table lock.
Keeps:   1. no file of an instant is deleted before the history was read back with its row;
         2. nothing goes that a limit names, as seen under the lock;
         3. stopped at any call, every instant is on the timeline or in the history, and the next run goes on;
         4. an instant is in the history once, however often an archiver of Lakeward is stopped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.base.paths import join
from lakeward.format.timeline.history import HistoryFile, HistoryRow, plan_file
from lakeward.format.timeline.history_file import decode_rows, encode_rows
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.attempts.orphan_files import forget_markers
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.progress import Phase
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import delete_archived
from lakeward.services.archive.plan.archive_plan import ArchivePlan, plan_archive
from lakeward.services.archive.plan.history_levels import LevelMerge, plan_level_merge
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archived_timeline import ArchivedTimeline, metadata_timeline, own_timeline
from lakeward.services.archive.run.facts import states_of
from lakeward.services.archive.run.history import clean_history, publish_history
from lakeward.table.metadata.metadata_table import has_metadata_table, load_metadata_timeline
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import History, history_folder, load_history
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline

BATCH_INSTANTS = 50
"""How many instants go under one lock at most."""
_INSTANTS_A_FENCE = 10
_OTHER_ARCHIVER = "another archiver was at work"


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    plan: ArchivePlan
    archived: tuple[Instant, ...] = ()
    """The instants that are gone from the active timeline, by time."""
    left: str = ""
    """Why not all of the plan was carried out; empty where it was."""
    merged_files: int = 0
    """How many files of the history were merged into larger ones."""
    seconds: float = 0.0
    metadata: ArchiveReport | str | None = None
    """The same of the metadata table's own timeline; why it stays as it is; None where there is no metadata table."""


class Archiver:
    """Archives one table, and after it the timeline of its metadata table."""

    def __init__(self, table: ServicedTable, options: ArchiveOptions) -> None:
        self._table = table
        self._options = options

    def archive(self) -> ArchiveReport:
        """Archive what is due.

        Raises:
            Refused: the table is not one that this release may archive; nothing was written.
            BrokenFile: an instant, or the history, cannot be read.
            LockHeld, LockLost, AttemptLost: another process is at work.
        """
        table, started = self._table, self._table.clock.monotonic()
        snapshot = table.snapshot(service=TableService.ARCHIVING)
        with table.measured(Phase.PLAN):
            own = own_timeline(table.storage, snapshot, self._options, clock=table.clock)
            plan = own.plan
        report = _carry_out(_OwnRun(table, snapshot, own), plan)
        metadata = self._archive_metadata()
        return replace(report, metadata=metadata, seconds=table.clock.monotonic() - started)

    def _archive_metadata(self) -> ArchiveReport | str | None:
        table = self._table
        snapshot = table.snapshot(only=(), service=TableService.ARCHIVING)
        with table.measured(Phase.PLAN):
            found = metadata_timeline(table.storage, snapshot, self._options, clock=table.clock)
        if not isinstance(found, ArchivedTimeline):
            if found:
                table.observer.step(f"the metadata table's timeline stays as it is: {found}")
            return found
        return _carry_out(_MetadataRun(table, snapshot, found), found.plan)


def _carry_out(run: _ArchiveRun, plan: ArchivePlan) -> ArchiveReport:
    left, table, started = "", run.table, run.table.clock.monotonic()
    for first in range(0, len(plan.archived), BATCH_INSTANTS):
        if left := run.archive(plan.archived[first : first + BATCH_INSTANTS]):
            table.observer.step(f"archiving ends before {plan.archived[first].time}: {left}")
            break
    merged_files = run.merge_levels()
    forget_markers(table.storage, run.old.base_path, {instant.time for instant in run.archived})
    return ArchiveReport(plan, tuple(run.archived), left, merged_files, table.clock.monotonic() - started)


class _ArchiveRun(ABC):
    """One run over one timeline."""

    def __init__(self, table: ServicedTable, snapshot: TableSnapshot, old: ArchivedTimeline) -> None:
        """
        Args:
            old: the timeline as it was when what goes was chosen.
        """
        self.table = table
        self.old = old
        self.archived: list[Instant] = []
        self._snapshot = snapshot
        self._history = old.history
        self._history_folder = history_folder(old.base_path, old.config)
        self._timeline_folder = timeline_folder(old.base_path, old.config)

    @abstractmethod
    def _timeline_now(self) -> Timeline | None:
        """The timeline under the lock; None where the metadata table was switched on or off since."""

    def archive(self, batch: Sequence[Instant]) -> str:
        """Archive these instants. Returns why not, where something came in between; empty otherwise."""
        table = self.table
        new = [instant for instant in batch if instant.file_name not in self.old.facts.in_history]
        try:
            with table.measured(Phase.MERGE):
                content = encode_rows(self._rows(new)) if new else b""
        except NotFound:
            return _OTHER_ARCHIVER
        with table.measured(Phase.COMMIT), table.locked() as fence:
            now = load_history(table.storage, self._history_folder)
            if why := self._why_not(batch, now):
                return why
            if new:
                added = HistoryFile(new[0].time, new[-1].time, 0)
                now = publish_history(table.storage, self._history_folder, now, added, content, fence=fence)
            self._history = now
            self._delete(batch, fence)
            if not self.archived:
                table.sweep(self._snapshot)
        self.archived += batch
        table.observer.step(f"archived up to {batch[-1].time}, instants: {len(self.archived)}")
        return ""

    def merge_levels(self) -> int:
        """Merge files of the history as long as a level has too many. Returns how many were merged."""
        table, files, merges = self.table, 0, 0
        while (merge := plan_level_merge(self._history.sizes, files=self.old.options.level_files)) is not None:
            try:
                content = encode_rows(self._rows_of(merge))
            except (BrokenFile, Unsupported, NotFound) as error:
                table.observer.step(f"files of the archived timeline stay as they are: {error}")
                break
            with table.locked() as fence:
                now = load_history(table.storage, self._history_folder)
                if not now.sizes.keys() >= set(merge.sources):
                    self._history = now
                    continue
                self._history = publish_history(
                    table.storage, self._history_folder, now, merge.target, content, merged=merge.sources, fence=fence
                )
                merges += 1
                clean_history(
                    table.storage,
                    self._history_folder,
                    self._history,
                    kept=self.old.options.manifests_kept + merges,
                    fence=fence,
                )
            files += len(merge.sources)
        return files

    def _why_not(self, batch: Sequence[Instant], history: History) -> str:
        """Under the lock."""
        if history.sizes != self._history.sizes:
            return _OTHER_ARCHIVER
        now = self._timeline_now()
        if now is None:
            return "the metadata table was switched on or off"
        # Numbers count as if this run had done nothing yet: it was due when it began.
        gone = {instant.file_name for instant in self.archived}
        before = tuple(each for each in self.old.timeline.instants if each.file_name in gone)
        timeline = replace(now, instants=(*before, *now.instants))
        goes = {instant.file_name for instant in plan_archive(timeline, self.old.facts, self.old.options).archived}
        stays = next((instant for instant in batch if instant.file_name not in goes), None)
        if stays is not None:
            return f"{stays.action} {stays.time} stays since something came on the timeline, or is gone"
        return ""

    def _delete(self, batch: Sequence[Instant], fence: Fence) -> None:
        for number, instant in enumerate(batch):
            if number % _INSTANTS_A_FENCE == 0:
                fence()
            states = states_of(self.old.timeline, instant)
            delete_archived(self.table.storage, self._timeline_folder, states)

    def _rows(self, instants: Sequence[Instant]) -> Iterator[HistoryRow]:
        table, timeline = self.table, self.old.timeline
        contents = InstantContents(table.storage, self.old.base_path, self.old.config, timeline)
        for instant in instants:
            table.guard()
            states = states_of(timeline, instant)
            plans = (contents.read(each.file_name) for each in plan_file(states))
            metadata = contents.read(instant.file_name)
            plan = next((plan for plan in plans if plan), None)
            yield HistoryRow(instant.time, instant.completion_time, instant.action, metadata or None, plan)

    def _rows_of(self, merge: LevelMerge) -> Iterator[HistoryRow]:
        """The rows of the files that are merged, each once."""
        seen: set[tuple[str, str | None, str, int]] = set()
        for file in merge.sources:
            path = join(self._history_folder, file.name)
            with self.table.storage.open_input(path) as source:
                for row in decode_rows(source, path=path):
                    self.table.guard()
                    same = (row.time, row.completion_time, row.action, hash((row.metadata, row.plan)))
                    if same not in seen:
                        seen.add(same)
                        yield row


class _OwnRun(_ArchiveRun):
    """Over the table's own timeline."""

    def _timeline_now(self) -> Timeline | None:
        now = self.table.snapshot(only=(), service=TableService.ARCHIVING)
        return now.timeline if has_metadata_table(now.config) == self.old.facts.has_metadata_table else None


class _MetadataRun(_ArchiveRun):
    """Over the metadata table's. What its table keeps was read before the lock: since then only more may go of it, but
    for what another process is restoring, which is later than a savepoint that the table keeps."""

    def _timeline_now(self) -> Timeline | None:
        now = self.table.snapshot(only=(), service=TableService.METADATA)
        if not has_metadata_table(now.config):
            return None
        _, timeline = load_metadata_timeline(self.table.storage, now.base_path, now.config, clock=self.table.clock)
        return timeline

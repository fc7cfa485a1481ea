"""Archive a table: its oldest completed instants leave the active timeline for the history (layout 2).

    no lock  scan; choose (`services/archive/plan/archive_plan.py`); read what the instants say, and encode it
    lock     choose again on the timeline as it is now -> publish the rows (`services/archive/run/history.py`) -> delete
    the instants'
             files, the oldest instant first
    no lock  read the files of a level of the history that has too many, and encode their rows
    lock     publish them as one file of the next level -> delete manifests and files that no reader needs any more
    no lock  markers of what was archived go

The facts are those of the scan: what could change of them since only lets more go. So what goes is what may go both by
the first choice and by the one under the lock, or nothing. A timeline that was never archived goes in batches, a lock
for each.

Stopped between publishing and the last deletion, the oldest instants are in both places. Readers take either, and the
next run takes them off the timeline before anything else, due or not.

Touches: the timeline and the history, through `commit`, and under the table lock.
Keeps:   1. no file of an instant is deleted before the history was read back with its row;
         2. nothing goes that a limit names, as seen under the lock;
         3. stopped at any call, every instant is on the timeline or in the history, and the next run goes on;
         4. an instant is in the history once, however often an archiver of Lakeward is stopped.
"""

from __future__ import annotations

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
from lakeward.services.archive.plan.archive_plan import ArchiveFacts, ArchivePlan, plan_archive
from lakeward.services.archive.plan.history_levels import LevelMerge, plan_level_merge
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.facts import read_archive_facts, states_of
from lakeward.services.archive.run.history import clean_history, publish_history
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import History, history_folder, load_history
from lakeward.table.timeline.instant_content import InstantContents

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


class Archiver:
    """Archives one table."""

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
        history = load_history(table.storage, history_folder(table.base_path, snapshot.config))
        with table.measured(Phase.PLAN):
            facts = read_archive_facts(table.storage, table.base_path, snapshot, history, clock=table.clock)
            plan = plan_archive(snapshot.timeline, facts, self._options)
        run = _ArchiveRun(table, self._options, snapshot, facts, history)
        left = ""
        for first in range(0, len(plan.archived), BATCH_INSTANTS):
            if left := run.archive(plan.archived[first : first + BATCH_INSTANTS]):
                table.observer.step(f"archiving ends before {plan.archived[first].time}: {left}")
                break
        merged_files = run.merge_levels()
        forget_markers(table.storage, table.base_path, {instant.time for instant in run.archived})
        seconds = table.clock.monotonic() - started
        return ArchiveReport(plan, tuple(run.archived), left, merged_files, seconds)


class _ArchiveRun:
    """One run over one table."""

    def __init__(
        self,
        table: ServicedTable,
        options: ArchiveOptions,
        snapshot: TableSnapshot,
        facts: ArchiveFacts,
        history: History,
    ) -> None:
        self._table = table
        self._options = options
        self._snapshot = snapshot
        self._facts = facts
        self._history = history
        self._history_folder = history_folder(table.base_path, snapshot.config)
        self._timeline_folder = timeline_folder(table.base_path, snapshot.config)
        self.archived: list[Instant] = []

    def archive(self, batch: Sequence[Instant]) -> str:
        """Archive these instants. Returns why not, where something came in between; empty otherwise."""
        table = self._table
        new = [instant for instant in batch if instant.file_name not in self._facts.in_history]
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
        table, files, merges = self._table, 0, 0
        while (merge := plan_level_merge(self._history.sizes, files=self._options.level_files)) is not None:
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
                    kept=self._options.manifests_kept + merges,
                    fence=fence,
                )
            files += len(merge.sources)
        return files

    def _why_not(self, batch: Sequence[Instant], history: History) -> str:
        """Under the lock."""
        if history.sizes != self._history.sizes:
            return _OTHER_ARCHIVER
        now = self._table.snapshot(only=(), service=TableService.ARCHIVING)
        if has_metadata_table(now.config) != self._facts.has_metadata_table:
            return "the metadata table was switched on or off"
        # Numbers count as if this run had done nothing yet: it was due when it began.
        gone = {instant.file_name for instant in self.archived}
        before = tuple(each for each in self._snapshot.timeline.instants if each.file_name in gone)
        timeline = replace(now.timeline, instants=(*before, *now.timeline.instants))
        goes = {instant.file_name for instant in plan_archive(timeline, self._facts, self._options).archived}
        stays = next((instant for instant in batch if instant.file_name not in goes), None)
        if stays is not None:
            return f"{stays.action} {stays.time} stays since something came on the timeline, or is gone"
        return ""

    def _delete(self, batch: Sequence[Instant], fence: Fence) -> None:
        for number, instant in enumerate(batch):
            if number % _INSTANTS_A_FENCE == 0:
                fence()
            states = states_of(self._snapshot.timeline, instant)
            delete_archived(self._table.storage, self._timeline_folder, states)

    def _rows(self, instants: Sequence[Instant]) -> Iterator[HistoryRow]:
        table, timeline = self._table, self._snapshot.timeline
        contents = InstantContents(table.storage, table.base_path, self._snapshot.config, timeline)
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
            with self._table.storage.open_input(path) as source:
                for row in decode_rows(source, path=path):
                    self._table.guard()
                    same = (row.time, row.completion_time, row.action, hash((row.metadata, row.plan)))
                    if same not in seen:
                        seen.add(same)
                        yield row

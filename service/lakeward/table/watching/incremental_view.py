"""A table that is watched: each poll costs one listing or less, each commit costs what it changed.

The first poll lists everything, as `take_snapshot` does. From then on the view keeps the inventory of data files, and
what was read of timeline files. A poll lists the folder of the timeline; a completed instant that was not there before
changes the inventory by its own metadata, or by listing the partitions it names. Slices are never kept: a snapshot
rebuilds them from the inventory, by the code that builds them from listings, so there is one truth about slices.

    the timeline's folder calm --> nothing else happens, but for a listing of .hoodie
        | not, or cannot be known, or not listed for ten minutes      once a minute
    timeline listed --same--> nothing else happens
        | differs
    .hoodie listed --other properties--> everything is scanned again
        |
    instants that are new, advanced, gone:
        pending                              no file of it is visible, nothing to do
        commit, deltacommit, clean           by its metadata (file_change.py), doubtful partitions are listed
        replacecommit                        its partitions are listed
        savepoint, indexing                  files stay what they are
        gone from the start of the timeline  archived: files stay what they are, the history is asked when needed
        rollback, restore, an unknown action, a broken file,
        any other instant gone or gone back  everything is scanned again

Every few hours everything is scanned again for no reason, in case a writer does what none should.

A listing is held against what the completed writes say of its files (`written_files.py`), for which they are all read
again: what they wrote is too much to keep. Only the damage is kept.

Whether the entries of a folder can have changed since they were listed, shown by the folder's own time alone.

A file system sets a folder's modification time whenever an entry is made, renamed or removed, but it may count in
steps of a second or two, and by a clock that is not Lakeward's. So a time proves nothing by being old: it does when a
listing was taken `CALM_SECONDS`, by our clock, after the same time was seen first. Whatever happens after such a
listing falls into another step and gives another time.

    seen --listed again, CALM_SECONDS later, the same time before it--> calm --another time--> seen

A file whose content grows without a new name is not noticed in this way; the caller lists again now and then.

Touches: storage, reading only.
Keeps:   1. `snapshot()` equals `take_snapshot()` of the same moment but for files of instants that are not completed:
            those are known as of the last listing of their partition (`uncommitted_files`, and a group that only such
            a file would freeze), and so are links, nameless partitions and damage to files. What is about to be written
            is judged under the lock, by a scan of its own; after damage was found there, `doubt` makes the next poll
            scan everything;
         2. after an error in the middle the next poll starts again, never from half of a change;
         3. files of a write that were seen before it completed are listed again when it does, since some of them may
            be of attempts that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.backlog import Backlog, backlog_of
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_group import BaseFile, FrozenGroup
from lakeward.table.file_system_view import PartitionFiles, archived_instants, sort_files
from lakeward.table.found_link import FoundLink
from lakeward.table.listing_source import ListingSource, find_table_partitions
from lakeward.table.partition import UnlistedFolder, list_partitions
from lakeward.table.quarantine import find_retired, may_have_retired
from lakeward.table.retired_logs import without_retired
from lakeward.table.snapshot import (
    SCHEMA_FOLDER,
    BaseFileFacts,
    SchemaHistory,
    TableSnapshot,
    assemble_snapshot,
    load_schema_history,
    read_base_file_facts,
    zone_of,
)
from lakeward.table.table_config import (
    BACKUP_FILE,
    PROPERTIES_FILE,
    LoadedConfig,
    hoodie_folder,
    load_table_config,
    timeline_folder,
)
from lakeward.table.timeline.archived import ArchivedTimes, load_archived_times
from lakeward.table.timeline.service_instants import ServiceInstant, read_service_instants
from lakeward.table.timeline.timeline import BrokenInstant, Timeline, read_timeline
from lakeward.table.timeline.timeline_reader import TimelineCache, TimelineReader
from lakeward.table.timeline.writer_conflicts import WriterConflict, find_writer_conflicts
from lakeward.table.watching.file_change import (
    ADDS_FILES,
    TOUCHES_NO_FILE,
    FileChange,
    change_by_clean,
    change_by_commit,
    change_by_replacement,
)
from lakeward.table.watching.file_inventory import SILENT_ROWS, UNKNOWN_ROWS, BaseFileKnowledge, FileInventory
from lakeward.table.written_files import find_damage, without_archived

CALM_SECONDS = 60.0


class CalmFolder:
    def __init__(self, storage: Storage, path: str, clock: Clock) -> None:
        self._storage = storage
        self._path = path
        self._clock = clock
        self._time: float | None = None
        self._seen_at = 0.0
        self._is_calm = False
        self._shows_changes = True

    def is_calm(self) -> bool:
        """True where nothing can have changed since `before_listing` was called last."""
        return self._is_calm and self._modified() == self._time

    def before_listing(self) -> None:
        """Call it just before the entries are listed."""
        time = self._modified()
        now = self._clock.monotonic()
        self._is_calm = time is not None and time == self._time and now - self._seen_at >= CALM_SECONDS
        if time != self._time:
            self._time, self._seen_at = time, now

    def _modified(self) -> float | None:
        if not self._shows_changes:
            return None
        status = self._storage.stat(self._path)
        self._shows_changes = status is None or status.modified > 0
        return status.modified if status is not None and self._shows_changes else None


REBUILD_SECONDS = 6 * 3600.0
DAMAGED_SECONDS = 600.0
"""The same for a table on which files are damaged: nothing on its timeline says when one of them comes back."""
PROPERTIES_SECONDS = 60.0
"""How late a changed property may be noticed that no instant came with."""
CALM_LISTING_SECONDS = 600.0
"""How late a timeline file may be noticed that grew in place, with no other one made, renamed or gone."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one poll found."""

    changed: bool
    instants: tuple[Instant, ...] = ()
    """New ones and those that got further, in their furthest state."""
    rebuilt: bool = False
    partitions_listed: int = 0
    writer_bytes: int = 0
    """What the metadata of new commits says that writers wrote; 0 where everything was scanned again."""


UNCHANGED = Change(changed=False)


class IncrementalView:
    """One table. Not for several threads at once."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        *,
        timezone: str | None = None,
        clock: Clock,
        rebuild_seconds: float = REBUILD_SECONDS,
        listing: ListingSource = ListingSource.STORAGE,
    ) -> None:
        """
        Args:
            listing: what shows the partitions and their files where everything is scanned again; a partition that is
                doubtful is always listed itself.
        """
        self._storage = storage
        self._base_path = base_path
        self._timezone = timezone
        self._clock = clock
        self._rebuild_seconds = rebuild_seconds
        self._listing = listing
        self._state: _Known | None = None

    def refresh(self) -> Change:
        """Poll. Raises `NotATable` and what storage raises; what is known stays as it was, or is rebuilt."""
        known = self._state
        if known is None or known.is_torn or self._is_old(known):
            return self._rebuild(known)
        asked_at = self._clock.monotonic()
        is_recent = asked_at - known.properties_at < PROPERTIES_SECONDS
        is_calm = asked_at - known.listed_at < CALM_LISTING_SECONDS and known.folder.is_calm()
        if is_recent and is_calm:
            return UNCHANGED
        entries = known.entries
        if not is_calm:
            known.folder.before_listing()
            entries = self._storage.list(timeline_folder(self._base_path, known.loaded.config))
            known.listed_at = asked_at
        if is_recent and entries == known.entries:
            return UNCHANGED
        properties = self._properties_statuses()
        if properties != known.properties:
            return self._rebuild(known)
        known.properties_at = asked_at
        listing = _timeline_files(entries)
        known.entries = entries
        if listing == known.listing:
            return UNCHANGED
        known.is_torn = True
        change = self._advance(known, listing)
        if change is None:
            return self._rebuild(known)
        known.is_torn = False
        return change

    def snapshot(self) -> TableSnapshot:
        """The table as of the last poll; the first one is made where there was none."""
        known = self._known()
        reader = TimelineReader(self._storage, self._base_path, known.loaded.config, known.timeline, cache=known.cache)
        content = reader.read()
        knowledge: dict[str, BaseFileKnowledge] = {}
        files = [known.inventory.files(path, knowledge) for path in known.inventory.partitions]
        snapshot = assemble_snapshot(
            base_path=self._base_path,
            loaded_config=known.loaded,
            timeline=known.timeline,
            zone=zone_of(known.loaded, known.timeline, given=self._timezone, now=self._clock.now()),
            content=content,
            files=files,
            links=known.links,
            nameless=known.nameless,
            unlisted=known.unlisted,
            archived=self._archived(known, files),
            schema_history=known.properties.schema_history,
            log_compactions_of=reader.log_compactions,
            rows_of=lambda bases: self._rows(known, reader, knowledge, bases),
            facts_of=lambda bases: self._facts(known, knowledge, bases),
            broken=known.broken_beside(reader.broken),
            damage=known.damage,
        )
        known.backlog = backlog_of(snapshot)
        known.is_damaged = bool(snapshot.damage)
        return snapshot

    @property
    def backlog(self) -> Backlog:
        """The backlog at the last poll."""
        known = self._known()
        if known.backlog is None:
            self.snapshot()
        assert known.backlog is not None, "a snapshot counts it"
        return known.backlog

    @property
    def file_groups(self) -> int:
        """How many are held, whether anyone sees them or not."""
        return 0 if self._state is None else self._state.inventory.file_groups()

    def service_instants(self) -> tuple[ServiceInstant, ...]:
        """Services on the timeline as of the last poll, and who planned them; each plan is read once."""
        known = self._known()
        return read_service_instants(
            self._storage, self._base_path, known.loaded.config, known.timeline, known.planners
        )

    def writer_conflicts(self, rollbacks: Iterable[Instant]) -> tuple[WriterConflict, ...]:
        """Conflicts that these rollbacks show, on the timeline as of the last poll."""
        known = self._known()
        return find_writer_conflicts(self._storage, self._base_path, known.loaded.config, known.timeline, rollbacks)

    def doubt(self) -> None:
        """Makes the next poll read everything again: another snapshot found damage that this view does not know."""
        if self._state is not None:
            self._state.is_torn = True

    def rest(self) -> None:
        """Drop what is large and can be read again: the table seems to be quiet."""
        if self._state is not None:
            cache = self._state.cache
            for name in [name for name, value in cache.items() if isinstance(value, CompactionPlan)]:
                del cache[name]

    def _is_old(self, known: _Known) -> bool:
        seconds = min(self._rebuild_seconds, DAMAGED_SECONDS) if known.is_damaged else self._rebuild_seconds
        return self._clock.monotonic() - known.built_at >= seconds

    def _known(self) -> _Known:
        if self._state is None or self._state.is_torn:
            self.refresh()
        assert self._state is not None, "a poll ended well"
        return self._state

    # Everything again

    def _rebuild(self, before: _Known | None) -> Change:
        properties = self._properties_statuses()
        loaded = load_table_config(self._storage, self._base_path, clock=self._clock)
        folder = timeline_folder(self._base_path, loaded.config)
        calm = CalmFolder(self._storage, folder, self._clock)
        calm.before_listing()
        entries = self._storage.list(folder)
        listing = _timeline_files(entries)
        timeline = read_timeline(listing, self._base_path, loaded.config.layout)
        inventory = FileInventory() if before is None else before.inventory
        now = self._clock.monotonic()
        known = _Known(loaded, properties, calm, entries, timeline, inventory, now=now)
        found = find_table_partitions(
            self._storage, self._base_path, loaded.config, timeline, source=self._listing, clock=self._clock
        )
        if before is not None:
            before.is_torn = True  # its inventory is the new one's
        known.links, known.nameless, known.unlisted = found.links, found.nameless, found.unlisted
        differs = inventory.keep_partitions(partition.path for partition in found.partitions)
        self._find_retired(known)
        for partition in found.partitions:
            differs |= self._take_listing(known, partition.path, partition.files)
        self._look_for_damage(known, inventory.partitions)
        inventory.forget_unused_instants()
        instants = _advanced(() if before is None else before.timeline.instants, timeline)
        if before is not None:
            differs |= before.loaded != loaded or before.listing != listing
            differs |= (before.links, before.nameless, before.unlisted) != (found.links, found.nameless, found.unlisted)
            differs |= before.damage != known.damage
        self._state = known
        return Change(before is None or differs, instants, rebuilt=True, partitions_listed=len(found.partitions))

    def _properties_statuses(self) -> _Properties:
        entries = {entry.name: entry for entry in self._storage.list(hoodie_folder(self._base_path))}
        return _Properties(
            entries.get(PROPERTIES_FILE),
            entries.get(BACKUP_FILE),
            load_schema_history(self._storage, self._base_path) if SCHEMA_FOLDER in entries else None,
        )

    def _take_listing(self, known: _Known, path: str, files: Iterable[FileStatus]) -> bool:
        found = sort_files(path, files, native=known.loaded.config.version.has_native_logs)
        (found,) = without_retired([found], known.retired)
        times = [base.instant for base in found.base_files] + [log.instant for log in found.log_files]
        for time in set(times):
            if known.timeline.completion_time(time) is None and not known.is_old(time):
                known.unsettled.setdefault(time, set()).add(path)
        return known.inventory.replace_partition(found)

    def _find_retired(self, known: _Known) -> None:
        # Which log compactions are archived is found out when all files are listed.
        may_have = may_have_retired(known.loaded.config, known.timeline, has_archived=True)
        if may_have and self._listing is ListingSource.STORAGE:
            known.retired = find_retired(self._storage, self._base_path, known.timeline)

    def _look_for_damage(self, known: _Known, paths: Iterable[str]) -> None:
        """Hold the files of these partitions, which were listed just now, against what the timeline says of them."""
        # In layout 1 logs grow, and no commit says how long they are.
        if known.loaded.config.layout < 2:
            return
        reader = TimelineReader(self._storage, self._base_path, known.loaded.config, known.timeline)
        files = [known.inventory.files(path) for path in paths]
        native = known.loaded.config.version.has_native_logs
        found = find_damage(files, reader.written_files(), known.timeline, native=native)
        for partition in files:
            known.damage.pop(partition.partition_path, None)
        known.damage |= found
        known.broken |= {broken.instant.file_name: broken for broken in reader.broken}

    # Only what changed

    def _advance(self, known: _Known, listing: tuple[FileStatus, ...]) -> Change | None:
        """Bring what is known up to the timeline of `listing`; None where that takes a scan of everything."""
        layout = known.loaded.config.layout
        timeline = read_timeline(listing, self._base_path, layout)
        before = {status.name: status for status in known.listing}
        after = {status.name: status for status in listing}
        rewritten = {name for name, status in after.items() if before.get(name, status) != status}
        instants = _advanced(known.timeline.instants, timeline)
        if not _is_explained(known.timeline, timeline, rewritten):
            return None

        reader = TimelineReader(self._storage, self._base_path, known.loaded.config, timeline, cache=known.cache)
        changes: list[FileChange] = []
        for instant in instants:
            if instant.state is not State.COMPLETED:
                continue
            change = self._change_by(instant, reader, layout, native=known.loaded.config.version.has_native_logs)
            if change is None:
                return None
            doubtful = change.doubtful | known.unsettled.pop(instant.time, set())
            changes.append(replace(change, doubtful=frozenset(doubtful)))

        known.forget(name for name in before if name not in after or name in rewritten)
        known.listing, known.timeline, known.backlog = listing, timeline, None
        if known.damage:
            # t0 groups are replaced, t1 cleaned, t2 listed: their files are missing, which matters to no reader as long
            # as the timeline says that they were replaced; t3 that is archived, and with it what the files should be.
            known.damage = without_archived(known.damage, timeline)
        listed = self._apply(known, changes)
        if listed is None:
            return None
        written = sum(change.writer_bytes for change in changes)
        return Change(True, instants, partitions_listed=listed, writer_bytes=written)

    def _change_by(self, instant: Instant, reader: TimelineReader, layout: int, *, native: bool) -> FileChange | None:
        if instant.action in TOUCHES_NO_FILE:
            return FileChange()
        if instant.action == "clean":
            try:
                path = join(reader.folder, instant.file_name)
                cleaned = read_clean_metadata(reader.contents.read(instant.file_name), file=path)
                return change_by_clean(cleaned, native=native)
            except (BrokenFile, NotFound):
                return None
        if instant.action not in ADDS_FILES and instant.action != "replacecommit":
            return None
        metadata = reader.commit_metadata(instant)
        if metadata is None:
            return None
        if instant.action == "replacecommit":
            return change_by_replacement(metadata)
        return change_by_commit(instant.time, metadata, layout=layout, native=native)

    def _apply(self, known: _Known, changes: Sequence[FileChange]) -> int | None:
        """Carry the changes out. Returns how many partitions were listed; None where a partition is not plain."""
        inventory = known.inventory
        doubtful = {path for change in changes for path in change.doubtful}
        doubtful |= {
            a.partition_path for c in changes for a in c.added if not inventory.has_partition(a.partition_path)
        }
        for change in changes:
            for added in change.added:
                if added.partition_path not in doubtful:
                    inventory.add(added.partition_path, added.file, rows=added.rows)
        # After all files were added: one of them may be cleaned already.
        for change in changes:
            for path, names in change.removed.items():
                for name in names if path not in doubtful else ():
                    inventory.remove(path, name)
        if doubtful:
            self._find_retired(known)
        for path in sorted(doubtful):
            found = list_partitions(self._storage, self._base_path, [path]).partitions
            if not found or (not inventory.has_partition(path) and _is_nested(path, inventory.partitions)):
                return None
            self._take_listing(known, path, found[0].files)
        if doubtful:
            self._look_for_damage(known, sorted(doubtful))
        return len(doubtful)

    # What is read for a snapshot, once

    def _archived(self, known: _Known, files: Sequence[PartitionFiles]) -> ArchivedTimes:
        wanted = archived_instants(files, known.timeline)
        if known.archived is not None and known.archived[0] >= wanted:
            return known.archived[1]
        times = load_archived_times(self._storage, self._base_path, known.loaded.config, wanted)
        known.archived = None if times.problems else (wanted, times)
        return times

    def _rows(
        self,
        known: _Known,
        reader: TimelineReader,
        knowledge: Mapping[str, BaseFileKnowledge],
        bases: Sequence[BaseFile],
    ) -> Mapping[str, int]:
        with_rows = {time for time in {base.instant for base in bases} if reader.says_rows(time)}
        found: dict[str, int] = {}
        unknown: list[BaseFile] = []
        for base in bases:
            if base.instant in with_rows:
                rows, _ = knowledge[base.path]
                if rows >= 0:
                    found[base.path] = rows
                elif rows == UNKNOWN_ROWS:
                    unknown.append(base)
        row_counts = reader.base_rows(unknown)
        silent = {broken.instant.time for broken in reader.broken}
        for base in unknown:
            if base.instant not in silent:
                known.inventory.learn(base, rows=row_counts.get(base.path, SILENT_ROWS))
        return found | row_counts

    def _facts(
        self, known: _Known, knowledge: Mapping[str, BaseFileKnowledge], bases: Sequence[BaseFile]
    ) -> tuple[BaseFileFacts, ...]:
        found = []
        for base in bases:
            facts = plain = BaseFileFacts(base.path, None)
            _, is_plain = knowledge[base.path]
            if not is_plain:
                facts = read_base_file_facts(self._storage, self._base_path, base)
                if facts == plain:
                    known.inventory.learn(base, is_plain=True)
            found.append(facts)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Properties:
    """What lies beside the properties shows whether they have to be read again."""

    file: FileStatus | None
    backup: FileStatus | None
    schema_history: SchemaHistory | None


class _Known:
    """What a poll leaves for the next."""

    def __init__(
        self,
        loaded: LoadedConfig,
        properties: _Properties,
        folder: CalmFolder,
        entries: list[FileStatus],
        timeline: Timeline,
        inventory: FileInventory,
        *,
        now: float,
    ) -> None:
        self.loaded = loaded
        self.properties = properties
        self.folder = folder
        """The folder of the timeline."""
        self.entries = entries
        """What is in it, as it was listed."""
        self.listing = _timeline_files(entries)
        self.timeline = timeline
        self.inventory = inventory
        self.built_at = now
        self.properties_at = now
        self.listed_at = now
        self.cache: TimelineCache = {}
        self.planners: TimelineCache = {}
        self.archived: tuple[frozenset[str], ArchivedTimes] | None = None
        """What the history was asked, and what it said; it only ever grows, by instants that were not asked for yet."""
        self.links: tuple[FoundLink, ...] = ()
        """Outside of the partitions, as they were walked to."""
        self.nameless: tuple[FrozenGroup, ...] = ()
        self.unlisted: tuple[UnlistedFolder, ...] = ()
        self.backlog: Backlog | None = None
        self.is_torn = False
        """True while a change is carried out, and after one that did not end well."""
        self.damage: dict[str, tuple[DamagedFile, ...]] = {}
        """Damage by partition path, at its last listing; in older slices, too."""
        self.is_damaged = False
        """Whether any of it matters to readers of newest slices."""
        self.broken: dict[str, BrokenInstant] = {}
        """Timeline files that turned out broken when what they say of files was read, by name."""
        self.retired: frozenset[str] = frozenset()
        """Paths of the logs that had retired when partitions were listed last."""
        self.unsettled: dict[str, set[str]] = {}
        """Partitions in which files of an instant were seen before it completed."""

    def is_old(self, time: str) -> bool:
        start = self.timeline.first_active_write
        return start is not None and comparable_time(time) < comparable_time(start)

    def broken_beside(self, found: Sequence[BrokenInstant]) -> list[BrokenInstant]:
        """What was found broken just now, and what was before."""
        return list((self.broken | {broken.instant.file_name: broken for broken in found}).values())

    def forget(self, names: Iterable[str]) -> None:
        """What was read of these timeline files."""
        for name in names:
            self.cache.pop(name, None)
            self.broken.pop(name, None)
            self.planners.pop(name, None)


def _timeline_files(entries: Iterable[FileStatus]) -> tuple[FileStatus, ...]:
    """In layout 1 locks, folders and properties lie beside the instants, whose names begin with a digit."""
    return tuple(entry for entry in entries if not entry.is_folder and entry.name[:1].isdigit())


def _furthest(instants: Iterable[Instant]) -> dict[tuple[str, str], Instant]:
    """The furthest state of each instant, by time and action; instants come in the order of their states."""
    return {(instant.time, instant.comparable_action): instant for instant in instants}


def _advanced(before: Iterable[Instant], timeline: Timeline) -> tuple[Instant, ...]:
    known = _furthest(before)
    return tuple(i for key, i in _furthest(timeline.instants).items() if known.get(key) != i)


def _is_explained(before: Timeline, after: Timeline, rewritten: Iterable[str]) -> bool:
    """True when nothing happened between the two but that instants began, went on, completed, or were archived."""
    if before.broken != after.broken or before.unknown != after.unknown:
        return False
    known, found = _furthest(before.instants), _furthest(after.instants)
    order = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    for key, instant in known.items():
        now = found.get(key)
        if now is None:
            if not _is_archived(instant, before, after):
                return False
            continue
        went_back = order.index(now.state) < order.index(instant.state)
        completed_again = instant.state is State.COMPLETED and (now != instant or instant.file_name in rewritten)
        if went_back or completed_again:
            return False
    return True


def _is_archived(instant: Instant, before: Timeline, after: Timeline) -> bool:
    """True for a completed instant that was taken from the start of the timeline; a restore takes them from the end.

    Where the timeline starts with an instant that we never saw, others may have come and gone between two polls.
    """
    start = after.first_active_write
    if start is None or before.find_write(start) is None:
        return False
    if instant.state is not State.COMPLETED or instant.action == "savepoint":
        return False
    if any(pending.action in ("rollback", "restore") for pending in after.pending):
        return False
    return comparable_time(instant.time) < comparable_time(start)


def _is_nested(path: str, partitions: Iterable[str]) -> bool:
    """True when one of the partitions lies above or below `path`: a walk then asks the metadata table's list."""
    return any(
        not path or not other or path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in partitions
    )

"""A scan of a table: everything that planning and eligibility may know, as one frozen value.

The order matters while writers are at work. The timeline is listed before the files, so that a commit which
completes in between shows files of an instant that counts as uncommitted (hidden now, seen by the next snapshot)
and never the reverse: a completed instant whose files were listed too early.

    properties -> end of the archive, in layout 1 -> timeline -> plans of pending instants -> newest schema
               -> partitions and files -> history -> what the completed writes say of the files

The versions of a table's schema (`.hoodie/.schema`), where a writer has used schema on read.

Hudi writes them as it does instants: a file without content when a change is requested and when it is under way, and
one with all versions so far when it is done. So the newest of these has them all, and a change that died shows, too.

Touches: storage, reading only: one listing a folder, or the metadata table in its place; all completed writes of the
         active timeline and the plans of log compactions are opened, of data files only the last bytes of those base
         files that a service would rewrite.
Keeps:   1. what cannot be read is in the snapshot as broken or frozen, it does not end the scan;
         2. a name from a plan is used only after the file-name grammar accepted it;
         3. a group is frozen for damage only if the timeline was the same before and after its files were listed;
         4. a snapshot is of no moment that there was not: where commits were taken back while it was made, it is made
            again, or there is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, TryLater
from lakeward.base.paths import join, parent
from lakeward.format.parquet.footer import is_encrypted, read_ending
from lakeward.format.schema_history import SchemaVersion, read_schema_history
from lakeward.format.timeline.compaction_plan import CompactionPlan
from lakeward.format.timeline.instant import Instant
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup
from lakeward.table.file_system_view import (
    GroupId,
    PartitionFiles,
    archived_instants,
    build_file_groups,
    frozen_for,
    sort_files,
)
from lakeward.table.found_link import FoundLink
from lakeward.table.listing_source import ListingSource, find_table_partitions
from lakeward.table.live_logs import LiveLogs, live_logs
from lakeward.table.partition import Partition, UnlistedFolder
from lakeward.table.quarantine import find_retired, may_have_retired
from lakeward.table.retired_logs import LogCompactions, without_gone, without_retired
from lakeward.table.table_config import LoadedConfig, TableConfig, hoodie_folder, load_table_config
from lakeward.table.timeline.archived import ArchivedPlan, ArchivedTimes, load_archived_times
from lakeward.table.timeline.timeline import BrokenInstant, Timeline, load_timeline
from lakeward.table.timeline.timeline_reader import (
    LogCompaction,
    ParsedPlans,
    TimelineContent,
    TimelineReader,
    WriteProfile,
    WrittenCache,
)
from lakeward.table.timeline.timezone import TimelineZone, newest_samples, resolve_zone, saved_properties
from lakeward.table.written_files import find_damage

SCHEMA_FOLDER = ".schema"

_COMPLETED = re.compile(r"(?P<time>\d+)_\d+\.schemacommit")
_BEGUN = re.compile(r"(?P<time>\d+)\.schemacommit\.(requested|inflight)")


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    versions: tuple[SchemaVersion, ...] = ()
    """Newest first."""
    problem: str | None = None
    """Why they cannot be relied on, in a sentence, or None."""


def load_schema_history(storage: Storage, base_path: str) -> SchemaHistory | None:
    """None where there is none."""
    folder = join(hoodie_folder(base_path), SCHEMA_FOLDER)
    names = [entry.name for entry in storage.list(folder) if not entry.name.endswith(".crc")]
    if not names:
        return None
    completed = {match["time"]: name for name in names if (match := _COMPLETED.fullmatch(name)) is not None}
    begun = {match["time"] for name in names if (match := _BEGUN.fullmatch(name)) is not None}
    unknown = [name for name in names if not (_COMPLETED.fullmatch(name) or _BEGUN.fullmatch(name))]
    if unknown or not completed or max(begun, default="") > max(completed):
        return SchemaHistory(problem=f"{unknown[0] if unknown else max(names)} is not a change that is complete.")
    file = completed[max(completed)]
    try:
        return SchemaHistory(read_schema_history(storage.read(join(folder, file)), file=f".hoodie/.schema/{file}"))
    except (BrokenFile, NotFound) as error:
        return SchemaHistory(problem=str(error))


@dataclass(frozen=True, slots=True)
class BaseFileFacts:
    path: str
    broken: str | None
    """Why the file is no readable Parquet, or None."""
    is_encrypted: bool = False


def read_base_file_facts(storage: Storage, base_path: str, base: BaseFile) -> BaseFileFacts:
    """Read the footer of a file that was listed a moment ago. One that is gone meanwhile was cleaned, and nothing is
    wrong with it."""
    try:
        with storage.open_input(join(base_path, base.path)) as file:
            tail, footer = read_ending(file, base.size, file=base.path)
        encrypted = is_encrypted(tail, footer, file=base.path)
    except NotFound:
        return BaseFileFacts(base.path, None)
    except BrokenFile as error:
        return BaseFileFacts(base.path, str(error))
    return BaseFileFacts(base.path, None, encrypted)


"""The folder below `.hoodie` that holds the schema history of tables with schema on read."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    base_path: str
    loaded_config: LoadedConfig
    timeline: Timeline
    zone: TimelineZone
    partitions: tuple[str, ...]
    file_groups: tuple[FileGroup, ...]
    frozen: tuple[FrozenGroup, ...]
    uncommitted_files: tuple[str, ...]
    unrecognised_files: tuple[str, ...]
    links: tuple[FoundLink, ...]
    """Inside of the table, by path; what they lead to was not looked at."""
    replaced: Mapping[GroupId, str]
    pending_compactions: Mapping[GroupId, str]
    pending_log_compactions: Mapping[GroupId, str]
    pending_clusterings: Mapping[GroupId, str]
    plans: Mapping[str, CompactionPlan]
    """Plans of pending compactions and log compactions, by instant."""
    schema: str | None
    """Avro JSON without meta fields, as the newest write left it."""
    schema_history: SchemaHistory | None
    """What `.hoodie/.schema` says, in a table with schema on read."""
    latest_schema: str | None
    """`schema` with the ids of its fields, where the newest write has schema on read."""
    base_file_facts: tuple[BaseFileFacts, ...]
    """Facts of the base files under logs."""
    archive_problems: tuple[str, ...]
    schema_before: str | None = None
    """The newest write whose schema Hudi can load, by its instant, where it cannot load `schema`."""
    log_compactions: LogCompactions = field(default_factory=dict)
    """Completed log compactions of the active timeline, by instant."""
    write_profiles: Mapping[str, WriteProfile] = field(default_factory=dict)
    """Write profiles of pending writes by instant; one that is not here may touch every file group."""
    rollback_targets: Mapping[str, str] = field(default_factory=dict)
    """Maps the instant of a pending rollback to the one that it rolls back, where its plan can be read."""
    base_rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of the base files under logs, by path, where their commit is on the active timeline and says so."""
    accepted_damage: Mapping[GroupId, tuple[DamagedFile, ...]] = field(default_factory=dict)
    """Damaged logs of groups that are not frozen for them, because an operator said so."""
    replaced_groups: tuple[FileGroup | FrozenGroup, ...] = ()
    """Groups of `replaced` whose files are still there: no reader of the newest state reads them."""
    savepointed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Paths of the files that each savepoint pins, by its instant."""
    files: tuple[PartitionFiles, ...] = field(default=(), compare=False)
    """All data files of the partitions, those too that are in no slice, in no order."""
    unlisted: tuple[UnlistedFolder, ...] = ()
    """Folders below partitions that look like such and are none; found where the storage is listed as a whole."""
    is_whole: bool = True
    """False where it has the first partitions alone, since their files were enough."""
    read_until: str | None = None
    """The instant as of which it is read: file groups and schema are those of then, the rest is of now."""

    @property
    def config(self) -> TableConfig:
        return self.loaded_config.config

    @property
    def schema_on_read(self) -> bool:
        return self.schema_history is not None or self.latest_schema is not None

    def frozen_group(self, group_id: GroupId) -> FrozenGroup | None:
        groups = (*self.frozen, *self.replaced_groups)
        found = (group for group in groups if (group.partition_path, group.file_id) == group_id)
        return next((group for group in found if isinstance(group, FrozenGroup)), None)

    def live_logs(self, slice_: FileSlice) -> LiveLogs:
        """Which logs of the slice readers merge."""
        return live_logs(slice_, self.log_compactions.get(slice_.group_id, ()))

    def plans_naming(self, group_id: GroupId, name: str) -> Iterator[str]:
        """The pending plans that read a file."""
        for instant, plan in self.plans.items():
            for operation in plan.operations:
                if name in operation.file_names and (operation.partition_path, operation.file_id) == group_id:
                    yield instant

    @property
    def latest_slices(self) -> tuple[FileSlice, ...]:
        return tuple(slice_ for group in self.file_groups if (slice_ := group.latest_slice) is not None)

    @property
    def live_groups(self) -> frozenset[GroupId]:
        """The file groups that are there, also those whose files cannot be read; replaced ones are not."""
        readable = {(group.partition_path, group.file_id) for group in self.file_groups}
        return frozenset(readable | {(group.partition_path, group.file_id) for group in self.frozen})

    @property
    def damage(self) -> tuple[DamagedFile, ...]:
        """All files of newest slices that are not what their commits say."""
        frozen = [file for group in self.frozen for file in group.damage]
        return (*frozen, *(file for damaged in self.accepted_damage.values() for file in damaged))


class SnapshotCache:
    """What scans of one table have in common. Everything is listed and read again, but for base files and for what
    completed writes say of their files, both of which never change; what is as it was is not taken apart again, which
    is most of the time that a scan takes."""

    def __init__(self) -> None:
        self.plans = ParsedPlans()
        self.written: WrittenCache = {}
        self._facts: dict[str, BaseFileFacts] = {}
        self._rows: dict[str, int] = {}
        self._sorted: dict[str, tuple[tuple[FileStatus, ...], PartitionFiles]] = {}
        self._native = False
        """The names by which these were sorted: an upgrade brings others."""

    def sort(self, partitions: Iterable[Partition], *, native: bool) -> list[PartitionFiles]:
        """The files of each by their names. Partitions that are not among them are forgotten.

        Args:
            native: as in `sort_files`.
        """
        before, self._sorted = self._sorted if native is self._native else {}, {}
        self._native = native
        for partition in partitions:
            known = before.get(partition.path)
            if known is None or known[0] != partition.files:
                known = (partition.files, sort_files(partition.path, partition.files, native=native))
            self._sorted[partition.path] = known
        return [files for _, files in self._sorted.values()]

    def learn(self, snapshot: TableSnapshot) -> None:
        # A file that could not be read may have been a write that was under way.
        self._facts.update({facts.path: facts for facts in snapshot.base_file_facts if facts.broken is None})
        self._rows.update(snapshot.base_rows)

    def facts(self, base: BaseFile) -> BaseFileFacts | None:
        return self._facts.get(base.path)

    def rows(self, base: BaseFile) -> int | None:
        return self._rows.get(base.path)


def take_snapshot(
    storage: Storage,
    base_path: str,
    *,
    timezone: str | None = None,
    clock: Clock,
    only: Collection[GroupId] | None = None,
    partitions: Collection[str] | None = None,
    files_enough: int | None = None,
    cache: SnapshotCache | None = None,
    listing: ListingSource = ListingSource.STORAGE,
    accept_damaged_logs: bool = False,
) -> TableSnapshot:
    """The table as it is now.

    Args:
        timezone: the operator's word for a table whose instants are in local time.
        only: the file groups that matter to the caller. The timeline is read whole, but only their partitions are
            listed, and of other base files nothing is read: what the snapshot says of other groups is not all there is.
        partitions: the partitions that matter to the caller, all groups in them, where `only` names none. Others are
            not listed.
        files_enough: no more partitions are listed than have so many files; `is_whole` says whether these are all.
        cache: what earlier scans of this table left.
        listing: what shows the partitions and their files. The metadata table knows no files of instants that did not
            complete, so the snapshot has none of these either.
        accept_damaged_logs: do not freeze a group for logs that are gone or of another size than their commits say.
    """
    known = cache or SnapshotCache()
    gone: list[Instant] = []
    scan = partial(
        _scan,
        gone,
        storage,
        base_path,
        timezone=timezone,
        clock=clock,
        only=only,
        partitions=partitions,
        files_enough=files_enough,
        known=known,
        listing=listing,
        accept_damaged_logs=accept_damaged_logs,
    )
    for _ in range(_SCANS):
        gone.clear()
        snapshot = scan()
        # t0 we list the timeline; t1 a restore takes the last commits back, an overwrite among them; t2 we list the
        # files: those of the overwrite are gone, and by the timeline of t0 the rows before it are, too.
        if (is_taken_back := _is_taken_back(storage, snapshot, gone)) or (
            # t0 we list the timeline; t1 a compaction completes, and a cleaner takes the slice before it; t2 we list
            # the files: what the timeline of t0 calls the newest base file is gone, and nothing is wrong. Or at t1 an
            # archiver takes commits that are read at t2.
            (snapshot.damage or snapshot.timeline.broken) and not _is_still_so(storage, snapshot)
        ):
            continue
        break
    if is_taken_back:
        raise TryLater(
            f"Commits of {base_path} were taken back while the table was read.",
            why="A restore, or a rollback of completed writes, is at work.",
            remedy="Run it again when that has ended.",
        )
    known.learn(snapshot)
    return snapshot


_SCANS = 3
"""Scans of a table on which files are damaged, or instants cannot be read, and instants come and go."""


def _is_taken_back(storage: Storage, snapshot: TableSnapshot, gone: Sequence[Instant]) -> bool:
    """Returns whether commits left the timeline while older ones stayed. An archiver takes the oldest, and nothing asks
    for these.

    Args:
        gone: what was not there any more when it was read.
    """
    if not gone and snapshot.config.layout >= 2:  # in layout 1 no commit is asked for its files
        return False
    there = set(load_timeline(storage, snapshot.base_path, snapshot.config).instants)
    completed = snapshot.timeline.completed
    missing = [each.time for each in completed if each not in there]
    return any(each in there and each.time < max(missing) for each in completed) if missing else False


def _is_still_so(storage: Storage, snapshot: TableSnapshot) -> bool:
    now = load_timeline(storage, snapshot.base_path, snapshot.config)
    return now.instants == snapshot.timeline.instants


def _scan(
    gone: list[Instant],
    storage: Storage,
    base_path: str,
    *,
    timezone: str | None,
    clock: Clock,
    only: Collection[GroupId] | None,
    partitions: Collection[str] | None,
    files_enough: int | None,
    known: SnapshotCache,
    listing: ListingSource,
    accept_damaged_logs: bool,
) -> TableSnapshot:
    loaded = load_table_config(storage, base_path, clock=clock)
    timeline = load_timeline(storage, base_path, loaded.config)
    reader = TimelineReader(storage, base_path, loaded.config, timeline, plans=known.plans)
    content = reader.read()
    places = partitions if only is None else _places(only)
    found = find_table_partitions(
        storage, base_path, loaded.config, timeline, source=listing, clock=clock, only=places, files_enough=files_enough
    )
    native = loaded.config.version.has_native_logs
    files = known.sort(found.partitions, native=native)
    archived = load_archived_times(storage, base_path, loaded.config, archived_instants(files, timeline))
    if (
        may_have_retired(loaded.config, timeline, has_archived=bool(archived.plans))
        and listing is ListingSource.STORAGE
    ):
        retired = find_retired(storage, base_path, timeline) - _planned(content.plans.values())
        files = without_retired(files, retired)
    damage: Mapping[str, Sequence[DamagedFile]] = {}
    # In layout 1 logs grow, and no commit says how long they are.
    if files and loaded.config.layout >= 2:
        listed = None if found.is_whole else {partition.path for partition in found.partitions}
        written = reader.written_files(known.written if listed is None else None, partitions=listed)
        damage = find_damage(files, written, timeline, native=native)

        gone += reader.gone

    def wanted(bases: Sequence[BaseFile]) -> list[BaseFile]:
        return [base for base in bases if only is None or (parent(base.path), base.file_id) in only]

    def rows_of(bases: Sequence[BaseFile]) -> dict[str, int]:
        from_known = {base.path: rows for base in wanted(bases) if (rows := known.rows(base)) is not None}
        return from_known | reader.base_rows([base for base in wanted(bases) if base.path not in from_known])

    def facts_of(bases: Sequence[BaseFile]) -> tuple[BaseFileFacts, ...]:
        return tuple(known.facts(base) or read_base_file_facts(storage, base_path, base) for base in wanted(bases))

    return assemble_snapshot(
        base_path=base_path,
        loaded_config=loaded,
        timeline=timeline,
        zone=zone_of(loaded, timeline, given=timezone, now=clock.now()),
        content=content,
        files=files,
        links=found.links,
        nameless=found.nameless,
        unlisted=found.unlisted,
        is_whole=found.is_whole,
        archived=archived,
        schema_history=load_schema_history(storage, base_path),
        log_compactions_of=reader.log_compactions,
        rows_of=rows_of,
        facts_of=facts_of,
        broken=reader.broken,
        damage=damage,
        accept_damaged_logs=accept_damaged_logs,
    )


def _planned(plans: Iterable[CompactionPlan]) -> frozenset[str]:
    """Paths of the logs that pending plans read: who made one by a listing may have taken a log that had retired."""
    return frozenset(
        join(operation.partition_path, name)
        for plan in plans
        for operation in plan.operations
        for name in operation.log_files
    )


def _places(groups: Iterable[GroupId]) -> set[str]:
    return {partition_path for partition_path, _ in groups}


def assemble_snapshot(
    *,
    base_path: str,
    loaded_config: LoadedConfig,
    timeline: Timeline,
    zone: TimelineZone,
    content: TimelineContent,
    files: Sequence[PartitionFiles],
    links: Sequence[FoundLink],
    nameless: Sequence[FrozenGroup],
    unlisted: tuple[UnlistedFolder, ...],
    archived: ArchivedTimes,
    schema_history: SchemaHistory | None,
    log_compactions_of: Callable[
        [AbstractSet[str], Mapping[str, ArchivedPlan]], Mapping[GroupId, tuple[LogCompaction, ...]]
    ],
    rows_of: Callable[[Sequence[BaseFile]], Mapping[str, int]],
    facts_of: Callable[[Sequence[BaseFile]], tuple[BaseFileFacts, ...]],
    broken: Sequence[BrokenInstant],
    damage: Mapping[str, Sequence[DamagedFile]],
    accept_damaged_logs: bool = False,
    is_whole: bool = True,
) -> TableSnapshot:
    """What was scanned, as one value: the same whether it was scanned just now or has been watched for days.

    `rows_of` and `facts_of` are asked once, for the base files under logs; `broken` is read after them.
    `log_compactions_of` is asked once, for the instants of all logs, and given the plans that the history has of them.
    """
    with_logs = {log.instant for partition in files for log in partition.log_files}
    log_compactions = log_compactions_of(with_logs, archived.plans)
    view = build_file_groups(
        files,
        timeline,
        layout=loaded_config.config.layout,
        archived=archived.completion_times,
        pending_compactions=content.pending_compactions,
        replaced=content.replaced,
        damage=without_gone(damage, files, log_compactions),
        accept_damaged_logs=accept_damaged_logs,
    )
    frozen = {(group.partition_path, group.file_id): group for group in (*view.frozen, *content.planned_twice.values())}
    groups = tuple(group for group in view.groups if (group.partition_path, group.file_id) not in frozen)
    under_logs = [
        slice_.base_file
        for group in groups
        for slice_ in group.slices
        if slice_.base_file is not None and (slice_.log_files or group.slices[0].base_file is None)
    ]
    base_rows = rows_of(under_logs)
    facts = facts_of(under_logs)
    unreadable = {each.path: each.broken for each in facts if each.broken is not None}
    for base in under_logs:
        if (why := unreadable.get(base.path)) is not None:
            damaged = DamagedFile(base.path, base.instant, DamageKind.UNREADABLE, None, base.size, why)
            group_id = (parent(base.path), base.file_id)
            frozen[group_id] = frozen_for(group_id, [damaged])
    return TableSnapshot(
        base_path=base_path,
        loaded_config=loaded_config,
        timeline=timeline.with_broken(sorted(broken, key=lambda each: each.file)),
        zone=zone,
        partitions=tuple(partition.partition_path for partition in files),
        file_groups=tuple(group for group in groups if (group.partition_path, group.file_id) not in frozen),
        frozen=(*frozen.values(), *nameless),
        uncommitted_files=view.uncommitted,
        unrecognised_files=view.unrecognised,
        links=tuple(sorted((*links, *(link for partition in files for link in partition.links)))),
        replaced=content.replaced,
        pending_compactions=content.pending_compactions,
        pending_log_compactions=content.pending_log_compactions,
        pending_clusterings=content.pending_clusterings,
        plans=content.plans,
        schema=content.schema,
        schema_history=schema_history,
        latest_schema=content.latest_schema,
        schema_before=content.schema_before,
        base_file_facts=tuple(each for each in facts if each.broken is None),
        archive_problems=archived.problems,
        log_compactions=log_compactions,
        write_profiles=content.write_profiles,
        rollback_targets=content.rollback_targets,
        base_rows=base_rows,
        accepted_damage={group_id: damaged for group_id, damaged in view.accepted.items() if group_id not in frozen},
        replaced_groups=view.replaced,
        savepointed=content.savepointed,
        files=tuple(files),
        unlisted=unlisted,
        is_whole=is_whole,
    )


def zone_of(loaded: LoadedConfig, timeline: Timeline, *, given: str | None, now: float) -> TimelineZone:
    samples = newest_samples(timeline, loaded.config.layout)
    saved = None if loaded.head is None else saved_properties(loaded.head, timeline)
    return resolve_zone(loaded.config.timezone, samples, given=given, now=now, saved=saved)

"""One look at a table: everything that planning and eligibility may know, as one frozen value.

The order matters while writers are at work. The timeline is listed before the files, so that a commit which
completes in between shows files of an instant that counts as uncommitted (hidden now, seen by the next snapshot)
and never the reverse: a completed instant whose files were listed too early.

    properties -> timeline -> plans of pending instants -> newest schema -> partitions and files -> history

Touches: storage, reading only: one listing a folder; of completed instants only replacecommits, the plans of log
         compactions, the newest writes and those that wrote a base file under logs are opened, of data files only
         the last bytes of those base files that a service would rewrite.
Keeps:   1. what cannot be read is in the snapshot as broken or frozen, it does not end the look;
         2. a name from a plan is used only after the file-name grammar accepted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakeward.clock import Clock
from lakeward.errors import BrokenFile, NotFound
from lakeward.format.commit_metadata import CommitMetadata, read_commit_metadata
from lakeward.format.compaction_plan import CompactionPlan, read_compaction_plan
from lakeward.format.instant import Instant, State
from lakeward.format.replace_metadata import read_clustered_groups
from lakeward.storage.storage import Storage, join
from lakeward.table.archived_timeline import load_archived_times
from lakeward.table.base_file_facts import BaseFileFacts, read_base_file_facts
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup
from lakeward.table.file_system_view import GroupId, archived_log_instants, build_file_groups, sort_files
from lakeward.table.partition import find_partitions
from lakeward.table.table_config import LoadedConfig, TableConfig, hoodie_folder, load_table_config, timeline_folder
from lakeward.table.timeline import BrokenInstant, Timeline, load_timeline
from lakeward.table.timezone import TimelineZone, newest_samples, resolve_zone

SCHEMA_FOLDER = ".schema"
"""Below `.hoodie`; holds the schema history of tables with schema on read."""

# These move rows and carry whatever schema the table had; only writes of rows change it.
_OPERATIONS_WITHOUT_SCHEMA_CHANGE = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """A completed log compaction of one file group: its output stands for these logs."""

    instant: str
    log_files: frozenset[str]
    """Names of the logs that it merged."""


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """What a write says of itself before it starts: the file groups it updates."""

    groups: frozenset[GroupId]
    partitions_with_inserts: frozenset[str]
    """Here rows may also go into any other group that is small."""

    def may_touch(self, partition_path: str, file_id: str) -> bool:
        return partition_path in self.partitions_with_inserts or (partition_path, file_id) in self.groups


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
    replaced: Mapping[GroupId, str]
    pending_compactions: Mapping[GroupId, str]
    pending_log_compactions: Mapping[GroupId, str]
    pending_clusterings: Mapping[GroupId, str]
    plans: Mapping[str, CompactionPlan]
    """Of pending compactions and log compactions, by instant."""
    schema: str | None
    """Avro JSON without meta fields, as the newest write left it."""
    schema_on_read: bool
    base_file_facts: tuple[BaseFileFacts, ...]
    """Of the base files under logs."""
    archive_problems: tuple[str, ...]
    log_compactions: Mapping[GroupId, tuple[LogCompaction, ...]] = field(default_factory=dict)
    """Those of the active timeline, by instant."""
    write_profiles: Mapping[str, WriteProfile] = field(default_factory=dict)
    """Of pending writes by instant; one that is not here may touch every file group."""
    base_rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of the base files under logs, by path, where their commit is on the active timeline and says so."""

    @property
    def config(self) -> TableConfig:
        return self.loaded_config.config

    @property
    def latest_slices(self) -> tuple[FileSlice, ...]:
        return tuple(slice_ for group in self.file_groups if (slice_ := group.latest_slice) is not None)


def take_snapshot(storage: Storage, base_path: str, *, timezone: str | None = None, clock: Clock) -> TableSnapshot:
    """The table as it is now. `timezone` is the operator's word for a table whose instants are in local time."""
    loaded = load_table_config(storage, base_path, clock=clock)
    config = loaded.config
    timeline = load_timeline(storage, base_path, config)
    zone = resolve_zone(config.timezone, newest_samples(timeline, config.layout), given=timezone, now=clock.now())

    reader = _TimelineReader(storage, base_path, config, timeline)
    plans = reader.compaction_plans()
    actions = {instant.time: instant.action for instant in timeline.pending}
    pending_compactions, twice = _planned_groups(plans, actions, full=True)
    pending_log_compactions, _ = _planned_groups(plans, actions, full=False)
    pending_clusterings = reader.clustered_groups()
    replaced = reader.replaced_groups()
    schema, has_internal_schema = reader.newest_schema()

    found = find_partitions(storage, base_path)
    files = [sort_files(partition.path, partition.files) for partition in found]
    archived = load_archived_times(storage, base_path, config, archived_log_instants(files, timeline))
    view = build_file_groups(
        files,
        timeline,
        layout=config.layout,
        archived=archived.completion_times,
        pending_compactions=pending_compactions,
        replaced=replaced,
    )
    groups = tuple(group for group in view.groups if (group.partition_path, group.file_id) not in twice)
    under_logs = [
        slice_.base_file
        for group in groups
        for slice_ in group.slices
        if slice_.base_file is not None and (slice_.log_files or group.slices[0].base_file is None)
    ]
    base_rows = reader.base_rows(under_logs)
    return TableSnapshot(
        base_path=base_path,
        loaded_config=loaded,
        timeline=timeline.with_broken(reader.broken),
        zone=zone,
        partitions=tuple(partition.path for partition in found),
        file_groups=groups,
        frozen=(*view.frozen, *twice.values()),
        uncommitted_files=view.uncommitted,
        unrecognised_files=view.unrecognised,
        replaced=replaced,
        pending_compactions=pending_compactions,
        pending_log_compactions=pending_log_compactions,
        pending_clusterings=pending_clusterings,
        plans=plans,
        schema=schema,
        schema_on_read=has_internal_schema or bool(storage.list(join(hoodie_folder(base_path), SCHEMA_FOLDER))),
        base_file_facts=tuple(read_base_file_facts(storage, base_path, base) for base in under_logs),
        archive_problems=archived.problems,
        log_compactions=reader.log_compactions(),
        write_profiles=reader.write_profiles(),
        base_rows=base_rows,
    )


def _planned_groups(
    plans: Mapping[str, CompactionPlan], actions: Mapping[str, str], *, full: bool
) -> tuple[dict[GroupId, str], dict[GroupId, FrozenGroup]]:
    """Which instant compacts which group, fully or only its logs; and the groups that two instants hold.

    A hybrid plan is a compaction whose operations say their type each. Hudi allows one plan a group, so nobody can
    say which of two is right.
    """
    planned: dict[GroupId, str] = {}
    twice: dict[GroupId, FrozenGroup] = {}
    for instant, plan in sorted(plans.items()):
        for operation in plan.operations:
            if full != (actions[instant] == "compaction" and operation.operation_type in (None, "FULL")):
                continue
            group_id = (operation.partition_path, operation.file_id)
            first = planned.setdefault(group_id, instant)
            if first != instant:
                twice[group_id] = FrozenGroup(
                    *group_id, instant, f"it is in the pending plans of {first} and {instant}"
                )
    return planned, twice


class _TimelineReader:
    """Opens what must be opened of the timeline, and collects what turns out broken."""

    def __init__(self, storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> None:
        self._storage = storage
        self._base_path = base_path
        self._folder = timeline_folder(base_path, config)
        self._layout = config.layout
        self._timeline = timeline
        self._known_broken = {broken.instant.file_name for broken in timeline.broken}
        self.broken: list[BrokenInstant] = []

    def compaction_plans(self) -> dict[str, CompactionPlan]:
        plans: dict[str, CompactionPlan] = {}
        for instant in self._requested("compaction", "logcompaction"):
            if (data := self._read(instant)) is None:
                continue
            try:
                plans[instant.time] = read_compaction_plan(data, file=self._path(instant))
            except BrokenFile as error:
                self._report(instant, error)
        return plans

    def clustered_groups(self) -> dict[GroupId, str]:
        groups: dict[GroupId, str] = {}
        # insert_overwrite plans with a replacecommit too, in some releases with an empty file: no group is clustered.
        for instant in self._requested("clustering", "replacecommit"):
            if not (data := self._read(instant)):
                continue
            try:
                groups.update(dict.fromkeys(read_clustered_groups(data, file=self._path(instant)), instant.time))
            except BrokenFile as error:
                self._report(instant, error)
        return groups

    def replaced_groups(self) -> dict[GroupId, str]:
        groups: dict[GroupId, str] = {}
        for instant in self._timeline.completed:
            if instant.action == "replacecommit" and (metadata := self._commit(instant)) is not None:
                for partition_path, file_ids in metadata.partition_to_replace_file_ids.items():
                    groups.update({(partition_path, file_id): instant.time for file_id in file_ids})
        return groups

    def log_compactions(self) -> dict[GroupId, tuple[LogCompaction, ...]]:
        """By the plans that they leave on the timeline; nothing else says which logs an output stands for."""
        done: dict[GroupId, tuple[LogCompaction, ...]] = {}
        for instant in self._timeline.instants:
            if instant.action != "logcompaction" or instant.state is not State.REQUESTED:
                continue
            if self._timeline.completion_time(instant.time) is None or (data := self._read(instant)) is None:
                continue
            try:
                plan = read_compaction_plan(data, file=self._path(instant))
            except BrokenFile:
                continue  # it is carried out, and what it says would only spare us some work
            for operation in plan.operations:
                group_id = (operation.partition_path, operation.file_id)
                merged = LogCompaction(instant.time, frozenset(operation.log_files))
                done[group_id] = (*done.get(group_id, ()), merged)
        return done

    def base_rows(self, base_files: Iterable[BaseFile]) -> dict[str, int]:
        """From the commits that wrote them; one read for each such commit."""
        rows: dict[str, int] = {}
        for time in sorted({base.instant for base in base_files}):
            instant = self._timeline.find_write(time)
            if instant is None or instant.state is not State.COMPLETED or (metadata := self._commit(instant)) is None:
                continue
            for stats in metadata.partition_to_write_stats.values():
                rows.update({stat.path: stat.num_writes for stat in stats if stat.path and stat.num_writes is not None})
        return rows

    def write_profiles(self) -> dict[str, WriteProfile]:
        """Of the pending writes that leave one in their inflight file, as Spark's upserts do."""
        profiles: dict[str, WriteProfile] = {}
        for instant in self._timeline.pending:
            if instant.action != "deltacommit" or instant.state is not State.INFLIGHT:
                continue
            try:
                data = self._storage.read(join(self._folder, instant.file_name))
                metadata = read_commit_metadata(data, file=self._path(instant), layout=self._layout) if data else None
            except (BrokenFile, NotFound):
                continue  # just being written, or just completed: it may touch anything
            if metadata is None or not metadata.partition_to_write_stats:
                continue
            stats = [(path, stat) for path, stats in metadata.partition_to_write_stats.items() for stat in stats]
            profiles[instant.time] = WriteProfile(
                groups=frozenset((path, stat.file_id) for path, stat in stats if stat.file_id),
                partitions_with_inserts=frozenset(
                    path for path, stat in stats if not stat.file_id and stat.num_inserts
                ),
            )
        return profiles

    def newest_schema(self) -> tuple[str | None, bool]:
        """The schema of the newest write that may change it, and whether the table has schema on read.

        Newest by the time it was requested, not completed: that is how Hudi's readers choose.
        """
        fallback: str | None = None
        for instant in reversed(self._timeline.completed_writes):
            metadata = self._commit(instant)
            if metadata is None or not metadata.schema:
                continue
            if metadata.extra_metadata.get("latest_schema"):
                return metadata.schema, True
            if metadata.operation_type not in _OPERATIONS_WITHOUT_SCHEMA_CHANGE:
                return metadata.schema, False
            fallback = fallback or metadata.schema
        return fallback, False

    def _requested(self, *actions: str) -> list[Instant]:
        pending = {(i.time, i.comparable_action) for i in self._timeline.pending}
        return [
            i
            for i in self._timeline.instants
            if i.state is State.REQUESTED and i.action in actions and (i.time, i.comparable_action) in pending
        ]

    def _commit(self, instant: Instant) -> CommitMetadata | None:
        if (data := self._read(instant)) is None:
            return None
        try:
            return read_commit_metadata(data, file=self._path(instant), layout=self._layout)
        except BrokenFile as error:
            self._report(instant, error)
            return None

    def _read(self, instant: Instant) -> bytes | None:
        """None for a file known to be broken, and for one that an archiver or rollback took meanwhile."""
        if instant.file_name in self._known_broken:
            return None
        try:
            return self._storage.read(join(self._folder, instant.file_name))
        except NotFound as error:
            self._report(instant, error)
            return None

    def _report(self, instant: Instant, error: Exception) -> None:
        self._known_broken.add(instant.file_name)
        self.broken.append(BrokenInstant(instant, self._path(instant), str(error)))

    def _path(self, instant: Instant) -> str:
        return join(self._folder, instant.file_name).removeprefix(self._base_path).lstrip("/")

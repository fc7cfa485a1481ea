"""What the files of the active timeline say: plans, replaced groups, schema, profiles of writes.

A timeline file never changes once it is whole, so a caller that polls hands in a cache: what was read of a
file is in it under the file's name, and the file is not opened a second time. The owner of the cache takes out what
changed or went.

Touches: storage, reading only. `read` opens of completed instants only replacecommits, savepoints and the newest
         writes; `log_compactions` the plans of those that wrote a log, and takes in what the history has of them;
         `base_rows` those that wrote a base file under logs; `written_files` all writes.
Keeps:   1. what cannot be read is reported as broken, it does not end the snapshot, and it is not cached;
         2. a name from a plan is used only after the file-name grammar accepted it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.avro.column_names import is_loadable
from lakeward.format.file_name import parse_any_log
from lakeward.format.timeline.commit_metadata import (
    LATEST_SCHEMA,
    CommitMetadata,
    WrittenFiles,
    read_commit_metadata,
    read_without_stats,
    read_written_files,
)
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan, read_compaction_plan
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.format.timeline.replace_metadata import read_clustered_groups
from lakeward.format.timeline.rollback_metadata import read_rollback_plan
from lakeward.format.timeline.savepoint_metadata import read_savepoint_metadata
from lakeward.storage.storage import Storage
from lakeward.table.file_group import BaseFile, FrozenGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.table_config import TableConfig, timeline_folder
from lakeward.table.timeline.archived import ArchivedPlan
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import BrokenInstant, Timeline
from lakeward.table.written_files import WrittenBy

_Value = TypeVar("_Value")

TimelineCache = dict[str, Any]
"""What was read, by the name of the timeline file; each file is only ever read for one purpose. Plans of the history
are there by their instants."""

_IN_HISTORY = "in the history: "

_KERNEL_BYTES_MIN = 1024 * 1024
"""Commits from which on kernels take them apart: they name some 6,000 files, and without kernels that takes as long as
loading Numba does. A daemon of small tables does without."""

# These move rows and carry whatever schema the table had; only writes of rows change it.
_OPERATIONS_WITHOUT_SCHEMA_CHANGE = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """A completed log compaction of one file group: its output stands for these logs."""

    instant: str
    log_files: frozenset[str]
    """Names of the logs that it merged."""
    ranks_last: bool = False
    """Readers merge it at the place of its own instant, and its sources as long as there are any: `lsm_tree`."""
    is_own: bool = True
    """False in the layout `lsm_tree` where Lakeward did not plan it as part of a hybrid plan: then its output names
    what it merged, and it is not certain that it reads the same without that."""


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """What a write says of itself before it starts: the file groups it updates."""

    groups: frozenset[GroupId]
    partitions_with_inserts: frozenset[str]
    """Here rows may also go into any other group that is small."""

    @property
    def partitions(self) -> frozenset[str]:
        """All that it touches."""
        return self.partitions_with_inserts | {partition_path for partition_path, _ in self.groups}

    def may_touch(self, partition_path: str, file_id: str) -> bool:
        return partition_path in self.partitions_with_inserts or (partition_path, file_id) in self.groups


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What is worth remembering of a commit; its write stats are not."""

    schema: str | None
    latest_schema: str | None
    operation_type: str | None
    replaced: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True)
class TimelineContent:
    """What the timeline files say together."""

    plans: Mapping[str, CompactionPlan]
    """Plans of pending compactions and log compactions, by instant."""
    pending_compactions: Mapping[GroupId, str]
    pending_log_compactions: Mapping[GroupId, str]
    planned_twice: Mapping[GroupId, FrozenGroup]
    pending_clusterings: Mapping[GroupId, str]
    replaced: Mapping[GroupId, str]
    schema: str | None
    latest_schema: str | None
    schema_before: str | None = None
    """The newest write whose schema Hudi can load, by its instant, where it cannot load `schema`."""
    write_profiles: Mapping[str, WriteProfile] = field(default_factory=dict)
    rollback_targets: Mapping[str, str] = field(default_factory=dict)
    """Maps the instant of a pending rollback to the one that it rolls back, where its plan can be read."""
    savepointed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Paths of the files that each completed savepoint pins, by its instant."""


class ParsedPlans:
    """Plans, by the bytes they were made of: to read one of thousands of operations again takes a moment, to take it
    apart a quarter of a second."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[bytes, bool], CompactionPlan]] = {}

    def parse(self, data: bytes, *, file: str, extension: str, native: bool) -> CompactionPlan:
        known = self._known.get(file)
        if known is None or known[0] != (data, native):
            plan = read_compaction_plan(data, file=file, extension=extension, native=native)
            known = self._known[file] = ((data, native), plan)
        return known[1]


WrittenCache = dict[str, WrittenFiles]
"""What completed instants wrote, by the name of the timeline file."""


class TimelineReader:
    """Opens what must be opened of the timeline, and collects what turns out broken."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        config: TableConfig,
        timeline: Timeline,
        cache: TimelineCache | None = None,
        plans: ParsedPlans | None = None,
    ) -> None:
        """
        Args:
            cache: results of earlier reads of the same timeline; the caller drops what was rewritten.
            plans: the same for plans, which are read again and taken apart only when they differ.
        """
        self._base_path = base_path
        self.contents = InstantContents(storage, base_path, config, timeline)
        self.folder = timeline_folder(base_path, config)
        self._layout = config.layout
        self._extension = config.base_file_extension
        self._native = config.version.has_native_logs
        self._is_lsm_tree = config.is_lsm_tree
        self._timeline = timeline
        self._known_broken = {broken.instant.file_name for broken in timeline.broken}
        self._cache: TimelineCache = {} if cache is None else cache
        self._plans = plans or ParsedPlans()
        self.broken: list[BrokenInstant] = []
        self.gone: list[Instant] = []
        """Completed writes that left the timeline before they were read."""

    def read(self) -> TimelineContent:
        plans = self.compaction_plans()
        actions = {instant.time: instant.action for instant in self._timeline.pending}
        pending_compactions, twice = _planned_groups(plans, actions, full=True)
        pending_log_compactions, _ = _planned_groups(plans, actions, full=False)
        pending_clusterings = self._clustered_groups()
        replaced = self._replaced_groups()
        schema, latest_schema = self.newest_schema()
        return TimelineContent(
            plans=plans,
            pending_compactions=pending_compactions,
            pending_log_compactions=pending_log_compactions,
            planned_twice=twice,
            pending_clusterings=pending_clusterings,
            replaced=replaced,
            schema=schema,
            latest_schema=latest_schema,
            schema_before=None if schema is None or is_loadable(schema) else self._last_loadable(),
            write_profiles=self.write_profiles(),
            rollback_targets=self._rollback_targets(),
            savepointed=self._savepointed(),
        )

    def compaction_plans(self) -> dict[str, CompactionPlan]:
        plans: dict[str, CompactionPlan] = {}
        for instant in self._requested("compaction", "logcompaction"):
            if (plan := self._plan(instant)) is not None:
                plans[instant.time] = plan
        return plans

    def commit_metadata(self, instant: Instant) -> CommitMetadata | None:
        """All that a completed write says, read again; None where it cannot be read."""
        if (data := self._read(instant)) is None:
            return None
        try:
            metadata = self._parse_commit(instant, data)
        except BrokenFile as error:
            self._report(instant, error)
            return None
        self._cache[instant.file_name] = _facts(metadata)
        return metadata

    def written_files(
        self,
        known: WrittenCache | None = None,
        *,
        of: Iterable[Instant] | None = None,
        partitions: Collection[str] | None = None,
    ) -> Iterator[WrittenBy]:
        """What each completed write says that it wrote, one after the other; one that is broken is reported.

        Args:
            known: what an earlier scan read; those that it lacks are read, and put into it.
            of: these writes alone.
            partitions: the partitions whose files matter, where `known` is None; None for all.
        """
        assert known is None or partitions is None, "what is remembered is of all partitions"
        asked = [
            instant
            for instant in (self._timeline.completed_writes if of is None else of)
            if instant.file_name not in self._known_broken
        ]
        sizes = self._timeline.sizes
        bytes_to_read = sum(sizes.get(each.file_name, 0) for each in asked if each.file_name not in (known or ()))
        by_kernels = bytes_to_read >= _KERNEL_BYTES_MIN
        for instant in asked:
            written = None if known is None else known.get(instant.file_name)
            if written is None and (written := self._written_files(instant, by_kernels, partitions)) is None:
                continue
            if known is not None:
                known[instant.file_name] = written
            yield WrittenBy(instant.time, written)

    def _written_files(
        self, instant: Instant, by_kernels: bool, partitions: Collection[str] | None
    ) -> WrittenFiles | None:
        try:
            data = self.contents.read(instant.file_name)
            return read_written_files(
                data, file=self._path(instant), layout=self._layout, by_kernels=by_kernels, partitions=partitions
            )
        except NotFound:
            self.gone.append(instant)  # archived meanwhile: what archived instants wrote is not asked; or taken back
            return None
        except BrokenFile as error:
            self._report(instant, error)
            return None

    def says_rows(self, time: str) -> bool:
        """True when the commit that wrote base files at `time` is there to say how many rows they have."""
        instant = self._timeline.find_write(time)
        return instant is not None and instant.state is State.COMPLETED and instant.file_name not in self._known_broken

    def base_rows(self, base_files: Iterable[BaseFile]) -> dict[str, int]:
        """Rows of base files by path, from the commits that wrote them; one read for each such commit."""
        wanted = list(base_files)
        paths = {base.path for base in wanted}
        rows: dict[str, int] = {}
        for time in sorted({base.instant for base in wanted}):
            if not self.says_rows(time):
                continue
            instant = self._timeline.find_write(time)
            assert instant is not None, "it says rows"
            if (metadata := self.commit_metadata(instant)) is not None:
                for stats in metadata.partition_to_write_stats.values():
                    row_counts = {stat.path: stat.num_writes for stat in stats if stat.path in paths}
                    rows.update({path: number for path, number in row_counts.items() if path and number is not None})
        return rows

    def _clustered_groups(self) -> dict[GroupId, str]:
        groups: dict[GroupId, str] = {}

        def parse(instant: Instant, data: bytes) -> tuple[GroupId, ...]:
            # insert_overwrite plans with a replacecommit too, in some releases with an empty file: none is clustered.
            return read_clustered_groups(data, file=self._path(instant)) if data else ()

        for instant in self._requested("clustering", "replacecommit"):
            groups.update(dict.fromkeys(self._remembered(instant, parse) or (), instant.time))
        return groups

    def _replaced_groups(self) -> dict[GroupId, str]:
        groups: dict[GroupId, str] = {}
        for instant in self._timeline.completed:
            if instant.action == "replacecommit" and (facts := self._commit_facts(instant)) is not None:
                groups.update(dict.fromkeys(facts.replaced, instant.time))
        return groups

    def log_compactions(
        self, with_logs: Collection[str], archived: Mapping[str, ArchivedPlan]
    ) -> dict[GroupId, tuple[LogCompaction, ...]]:
        """Log compactions by the plans that they leave on the timeline and in the history, LOG operations of hybrid
        plans among them. In the layout `lsm_tree` it is certain of our hybrid plans alone that their outputs are right
        without their sources (`LogCompaction.is_own`): Hudi carries them out as FULL.

        Args:
            with_logs: instants of the logs that there are; of others those plans are opened whose outputs a later one
                took, which may be gone.
            archived: the plans of those of them that the history has.
        """
        plans: list[tuple[str, str, CompactionPlan]] = []
        taken: set[str] = set()
        for instant in reversed(self._timeline.instants):
            if instant.action not in ("logcompaction", "compaction") or instant.state is not State.REQUESTED:
                continue
            if self._timeline.completion_time(instant.time) is None:
                continue
            if instant.time not in with_logs and instant.time not in taken:
                continue
            # One that cannot be read is no trouble: it is carried out, and what it says would only spare us some work.
            if (plan := self._plan(instant, is_needed=False)) is None:
                continue
            plans.append((instant.time, instant.action, plan))
            logs = (operation.log_files for operation in plan.operations if not _is_full(instant.action, operation))
            parsed = (parse_any_log(name, native=True) for name in chain.from_iterable(logs))
            taken.update(name.instant for name in parsed if name is not None)
        for name in [name for name in self._cache if name.startswith(_IN_HISTORY)]:
            if name.removeprefix(_IN_HISTORY) not in archived:
                del self._cache[name]
        for time in sorted(archived.keys() & with_logs, key=comparable_time, reverse=True):
            action = "logcompaction" if archived[time].is_log_compaction else "compaction"
            if (plan := self._archived_plan(time, archived[time])) is not None:
                plans.append((time, action, plan))
        done: dict[GroupId, tuple[LogCompaction, ...]] = {}
        for time, action, plan in reversed(plans):
            for operation in plan.operations:
                if _is_full(action, operation):
                    continue
                is_own = operation.run is not None or not self._is_lsm_tree
                group_id = (operation.partition_path, operation.file_id)
                names = operation.log_files if operation.run is None else operation.run
                merged = LogCompaction(time, frozenset(names), ranks_last=self._is_lsm_tree, is_own=is_own)
                done[group_id] = (*done.get(group_id, ()), merged)
        return done

    def write_profiles(self) -> dict[str, WriteProfile]:
        """Write profiles of the pending writes that leave one in their inflight file, like Spark's upserts."""
        profiles: dict[str, WriteProfile] = {}
        for instant in self._timeline.pending:
            if instant.action != "deltacommit" or instant.state is not State.INFLIGHT:
                continue
            profile: WriteProfile | None = self._cache.get(instant.file_name)
            if profile is None:
                profile = self._write_profile(instant)
            if profile is not None:
                self._cache[instant.file_name] = profiles[instant.time] = profile
        return profiles

    def _write_profile(self, instant: Instant) -> WriteProfile | None:
        try:
            data = self.contents.read(instant.file_name)
            metadata = self._parse_commit(instant, data) if data else None
        except (BrokenFile, NotFound):
            return None  # just being written, or just completed: it may touch anything
        if metadata is None or not metadata.partition_to_write_stats:
            return None
        stats = [(path, stat) for path, stats in metadata.partition_to_write_stats.items() for stat in stats]
        return WriteProfile(
            groups=frozenset((path, stat.file_id) for path, stat in stats if stat.file_id),
            partitions_with_inserts=frozenset(path for path, stat in stats if not stat.file_id and stat.num_inserts),
        )

    def _rollback_targets(self) -> dict[str, str]:
        """Targets of the pending rollbacks whose plan can be read: one may just be being written, or be done by now."""
        targets: dict[str, str] = {}
        for instant in self._requested("rollback"):
            target: str | None = self._cache.get(instant.file_name)
            if target is None:
                with suppress(BrokenFile, NotFound):
                    data = self.contents.read(instant.file_name)
                    target = read_rollback_plan(data, file=self._path(instant))
            if target is not None:
                self._cache[instant.file_name] = targets[instant.time] = target
        return targets

    def _savepointed(self) -> dict[str, frozenset[str]]:
        def parse(instant: Instant, data: bytes) -> frozenset[str]:
            files = read_savepoint_metadata(data, file=self._path(instant)).files
            return frozenset(join(partition, name) for partition, names in files.items() for name in names)

        pinned: dict[str, frozenset[str]] = {}
        for instant in self._timeline.completed:
            if instant.action == "savepoint" and (paths := self._remembered(instant, parse)) is not None:
                pinned[instant.time] = paths
        return pinned

    def newest_schema(self, *, of_services: bool = False) -> tuple[str | None, str | None]:
        """The schema of the newest write that may change it, and the same with ids where it has schema on read.

        Newest by the time it was requested, not completed: that is how Hudi's readers choose.

        Args:
            of_services: that of a compaction counts, too, as for Hudi's queries as of an instant: planned before a
                column got a wider type, and carried out after it, it wrote the wider one.
        """
        fallback: str | None = None
        for instant in reversed(self._timeline.completed_writes):
            facts = self._commit_facts(instant)
            if facts is None or not facts.schema:
                continue
            if facts.latest_schema is not None:
                return facts.schema, facts.latest_schema
            if of_services or facts.operation_type not in _OPERATIONS_WITHOUT_SCHEMA_CHANGE:
                return facts.schema, None
            fallback = fallback or facts.schema
        return fallback, None

    def _last_loadable(self) -> str | None:
        for instant in reversed(self._timeline.completed_writes):
            facts = self._commit_facts(instant)
            if facts is not None and facts.schema and is_loadable(facts.schema):
                return instant.time
        return None

    def _requested(self, *actions: str) -> list[Instant]:
        pending = {(i.time, i.comparable_action) for i in self._timeline.pending}
        return [
            i
            for i in self._timeline.instants
            if i.state is State.REQUESTED and i.action in actions and (i.time, i.comparable_action) in pending
        ]

    def _plan(self, instant: Instant, *, is_needed: bool = True) -> CompactionPlan | None:
        def parse(instant: Instant, data: bytes) -> CompactionPlan:
            return self._plans.parse(data, file=self._path(instant), extension=self._extension, native=self._native)

        return self._remembered(instant, parse, is_needed=is_needed)

    def _archived_plan(self, time: str, plan: ArchivedPlan) -> CompactionPlan | None:
        """None for one that cannot be read: then the logs of its output count beside those that it merged."""
        name = f"{_IN_HISTORY}{time}"
        found: CompactionPlan | None = self._cache.get(name)
        if found is None:
            with suppress(BrokenFile):
                found = self._plans.parse(plan.content, file=name, extension=self._extension, native=self._native)
                self._cache[name] = found
        return found

    def _commit_facts(self, instant: Instant) -> CommitFacts | None:
        def parse(instant: Instant, data: bytes) -> CommitFacts:
            by_kernels = len(data) >= _KERNEL_BYTES_MIN
            return _facts(
                read_without_stats(data, file=self._path(instant), layout=self._layout, by_kernels=by_kernels)
            )

        return self._remembered(instant, parse)

    def _parse_commit(self, instant: Instant, data: bytes) -> CommitMetadata:
        return read_commit_metadata(data, file=self._path(instant), layout=self._layout)

    def _remembered(
        self, instant: Instant, parse: Callable[[Instant, bytes], _Value], *, is_needed: bool = True
    ) -> _Value | None:
        known: _Value | None = self._cache.get(instant.file_name)
        if known is not None or (data := self._read(instant)) is None:
            return known
        try:
            value = parse(instant, data)
        except BrokenFile as error:
            if is_needed:
                self._report(instant, error)
            return None
        self._cache[instant.file_name] = value
        return value

    def _read(self, instant: Instant) -> bytes | None:
        """None for a file known to be broken or too large, and for one that an archiver or rollback took meanwhile."""
        if instant.file_name in self._known_broken:
            return None
        try:
            return self.contents.read(instant.file_name)
        except (BrokenFile, NotFound) as error:
            self._report(instant, error)
            return None

    def _report(self, instant: Instant, error: Exception) -> None:
        self._known_broken.add(instant.file_name)
        self.broken.append(BrokenInstant(instant, self._path(instant), str(error)))

    def _path(self, instant: Instant) -> str:
        return join(self.folder, instant.file_name).removeprefix(self._base_path).lstrip("/")


def _facts(metadata: CommitMetadata) -> CommitFacts:
    replaced = metadata.partition_to_replace_file_ids.items()
    return CommitFacts(
        # Every commit of a table repeats its schema; one copy of the text is enough.
        schema=None if metadata.schema is None else sys.intern(metadata.schema),
        latest_schema=sys.intern(latest) if (latest := metadata.extra_metadata.get(LATEST_SCHEMA)) else None,
        operation_type=metadata.operation_type,
        replaced=tuple((partition_path, file_id) for partition_path, file_ids in replaced for file_id in file_ids),
    )


def _is_full(action: str, operation: CompactionOperation) -> bool:
    """The operation of a compaction is FULL unless it says otherwise; those of a log compaction say nothing."""
    return action == "compaction" and operation.operation_type in (None, "FULL")


def _planned_groups(
    plans: Mapping[str, CompactionPlan], actions: Mapping[str, str], *, full: bool
) -> tuple[dict[GroupId, str], dict[GroupId, FrozenGroup]]:
    """Which instant compacts which group, fully or only its logs; and the groups that two instants hold.

    A hybrid plan is a compaction whose operations say their type each. Hudi allows one plan a group, so nothing shows
    which of two is right.
    """
    planned: dict[GroupId, str] = {}
    twice: dict[GroupId, FrozenGroup] = {}
    for instant, plan in sorted(plans.items()):
        for operation in plan.operations:
            if full != _is_full(actions[instant], operation):
                continue
            group_id = (operation.partition_path, operation.file_id)
            first = planned.setdefault(group_id, instant)
            if first != instant:
                twice[group_id] = FrozenGroup(
                    *group_id, instant, f"it is in the pending plans of {first} and {instant}"
                )
    return planned, twice

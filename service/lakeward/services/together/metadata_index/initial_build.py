"""Build a partition of the metadata table on a table that has commits, beside its writers.

    lock      recover, choose the instant N: the next free one of those that initial builds have (0…01, 0…02)
    no lock   read the table as of a snapshot, and write its entries into base files in the attempt's folder
    no lock   read what changed since; wait for a moment in which no write is pending
    lock      no write is pending: read the rest, write it into logs -> what lies in the partition's place goes aside
              -> N.deltacommit.requested, .inflight -> index definitions -> the files to their places -> N_C.deltacommit
              -> the properties name the partition

Hudi's own writers build a partition like this, at these instants, when they begin a write under the table lock; but
they hold it for as long as the build takes. Its indexer holds it for a moment, and waits for each write that was
pending then, for which writers must log to a partition that is not built yet. Here no write is pending when the
partition becomes visible, and one that begins later reads the properties once more before it commits. So no writer has
to know of a build, and what a process that dies leaves is in no writer's way.

    t1 a writer takes the time of its next write under the lock, and gives it back; t2 we take it, see no write, and
    publish; t3 its `.requested` appears. It makes its part of the metadata table from properties read after that.

A partition that is replaced is taken out of the properties under that last lock.

Stopped anywhere, the properties do not name the partition, and Hudi deletes what it finds in its place before it builds
it; or it is built. A write that is pending and dead is rolled back first: what it left could still be completed.

Touches: under the table lock the metadata table, `hoodie.properties` and the index definitions; the folders of the
         attempt and of the checkpoints.
Keeps:   1. the properties name the partition last, and only where nothing was pending from the moment at which the
            table was read for the last time;
         2. stopped at any call, the table is as it was or has the index, and the next build ends it;
         3. a partition that the properties name is not touched, or taken out of them first where it is replaced;
         4. the wait for writers is bounded;
         5. what a Hudi writer removed within an hour of its build is not built again without a word of the operator.
See:     docs/decisions/0160-indexes-of-the-metadata-table-are-built.md
Source:  HoodieBackedTableMetadataWriter.initializeFromFilesystem, HoodieTable.getMetadataWriter (Hudi 1.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lakeward.base.errors import Conflict, NotFound, Refused, TryLater
from lakeward.base.paths import join
from lakeward.format.file_name import HFILE, parse_any_data_file
from lakeward.format.metadata.index_definitions import (
    INDEX_DEFINITIONS_PATH,
    IndexDefinition,
    with_definition,
)
from lakeward.format.metadata.partition import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from lakeward.format.partition_metadata import PROPERTIES_NAME, PartitionMetadata, write_partition_metadata
from lakeward.format.timeline.commit_metadata import write_commit_metadata
from lakeward.format.timeline.instant import Instant, State
from lakeward.index.index_type import IndexType
from lakeward.index.log_inserts import check_none_in_logs, read_log_inserts
from lakeward.protocol.attempts.attempt import Attempt, Publication
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import Life
from lakeward.protocol.creation import create_once, read_if_there
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.protocol.life_cycle import Unpublished, run_attempt, settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.build_notes import forget_builds, note_build, note_removals
from lakeward.protocol.metadata.snapshot import newest_schema
from lakeward.protocol.metadata.writers_removal import find_removals, writers_option
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.table_properties import recover_properties, update_properties
from lakeward.protocol.transition import MetadataAction
from lakeward.protocol.writers_conflict import WAITS_MAX
from lakeward.services.indexing.run.staying_files import while_files_stay
from lakeward.services.metadata.run.recovery import recover_metadata
from lakeward.services.metadata.run.removal import PARTITIONS_PROPERTY, take_unnamed_aside
from lakeward.services.metadata.run.serviced_metadata import (
    ServicedMetadata,
    check_obstacles,
    metadata_attempt,
    snapshot_with_metadata,
)
from lakeward.services.together.metadata_index.group_files import GroupFiles
from lakeward.table.file_system_view import GroupId
from lakeward.table.index_definitions import PATH_PROPERTY, index_definitions_path
from lakeward.table.metadata.metadata_table import MetadataTable, is_initial_build
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline

LOCKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""So much may be left to read when the lock is taken."""
CATCHING_UP_MAX: Final = 4
"""Looks at what changed before the lock is taken."""
_POLL_SECONDS = 0.5
_MOVES_NO_KEY: Final = frozenset({"compaction", "logcompaction", "clean", "savepoint"})


class PartitionEntries(Protocol):
    """The entries of one partition, as they follow from the table."""

    @property
    def partition(self) -> str: ...

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        """The definition that the table is to have of the index."""

    def bytes_missing(self, snapshot: TableSnapshot) -> int:
        """The bytes of files that `read` would read."""

    def read(self, snapshot: TableSnapshot) -> None:
        """Know what the partition holds as of the snapshot. Raises `NotFound` where files go meanwhile."""

    def write_base(self, files: GroupFiles) -> None:
        """All of what was read last, into base files; the number of file groups is chosen."""

    def write_changes(self, files: GroupFiles) -> None:
        """What is otherwise as of what was read last, into logs."""

    def forget(self) -> None:
        """What was kept of the reading goes."""


@dataclass(frozen=True, slots=True)
class BuiltPartition:
    partition: str
    instant: str
    completion_time: str
    file_groups: int
    entries: int
    """Records in base files."""
    bytes: int
    """The bytes of all files."""
    seconds: float

    @property
    def writers_option(self) -> str:
        """The option of a Hudi writer that keeps it."""
        return writers_option(self.partition)


def build_partition(
    table: ServicedTable, entries: PartitionEntries, *, again: bool = False, replaces: bool = False
) -> BuiltPartition | None:
    """None where the table has the partition.

    Args:
        again: also where a Hudi writer removed it within an hour of its last build.
        replaces: also where the table has it, which is read and kept until the new one is there.

    Raises:
        Refused: the table is not one that can have it; nothing was written.
        LockHeld, TryLater: another process is at work, or writers left no gap.
        Conflict, AttemptLost: another process built it, or another index, meanwhile.
    """
    started = table.clock.monotonic()
    table.watch_own()
    with table.locked() as fence:
        service = _claim(table, entries, fence, again=again, replaces=replaces)
    if service is None:
        entries.forget()  # what one left that died right after it was named
        return None
    completion_time = run_attempt(table, service)
    assert completion_time is not None, "its publication is whole, or an error"
    note_build(table.storage, table.base_path, entries.partition, completion_time)
    entries.forget()
    files = service.files
    return BuiltPartition(
        entries.partition,
        files.instant,
        completion_time,
        files.groups,
        files.entries,
        sum(files.sizes.values()),
        table.clock.monotonic() - started,
    )


def check_buildable(table: ServicedTable, partition: str, *, again: bool = False, replaces: bool = False) -> bool:
    """Whether the table has the partition already, and it is not replaced. Raises `Refused` where it can have none, and
    without `again` where a writer would soon remove it."""
    snapshot = snapshot_with_metadata(table).snapshot
    if partition in snapshot.config.built_metadata_partitions:
        if not replaces:
            return True
        _check_replaceable(table, snapshot, partition)
    if not fencing_of(table.storage).moves_aside:
        raise Refused(
            f"The partition {partition} of the metadata table of {table.base_path} is not built.",
            why="In an object store a process that is stopped while it publishes could put files into the partition "
            "after another one had built it; this release builds in file systems only.",
            remedy="Let a Hudi writer build it: its next write does so where its options have the index on.",
        )
    for removal in find_removals(table.storage, snapshot):
        if removal.partition == partition and not again:
            raise Refused(
                f"The partition {partition} of the metadata table of {table.base_path} is not built again.",
                why=removal.why,
                remedy="See that the options of every writer of the table have the index on, and run the command with "
                "--again.",
            )
    return False


def _check_replaceable(table: ServicedTable, snapshot: TableSnapshot, partition: str) -> None:
    """Raises `Refused` where the table needs the partition in the moment in which the one goes and the other comes, for
    a process can die in it."""
    if partition != RECORD_INDEX:
        return
    check_none_in_logs(read_log_inserts(table.storage, table.base_path), what="The record index is not rebuilt")
    secondary = [each for each in snapshot.config.metadata_partitions if each.startswith(SECONDARY_INDEX_PREFIX)]
    if secondary:
        raise Refused(
            f"The record index of the metadata table of {table.base_path} is not rebuilt.",
            why=f"{', '.join(secondary)}: secondary indexes lead to rows by way of it.",
            remedy="Remove them first (`lakeward metadata drop`), and build them after it.",
        )


def first_at_work(timeline: Timeline) -> Instant | None:
    """The first pending instant that may bring keys or take some, alive or dead. One that is merely planned, and is
    begun later, reads the properties then."""
    for each in timeline.pending:
        is_planned = each.action == "clustering" and each.state is State.REQUESTED
        if each.action not in _MOVES_NO_KEY and not is_planned:
            return each
    return None


def _claim(
    table: ServicedTable, entries: PartitionEntries, fence: Fence, *, again: bool, replaces: bool
) -> _Build | None:
    recover_properties(table.storage, table.base_path, fence=fence)
    now = snapshot_with_metadata(table)
    if recover_metadata(table, now, fence=fence) | _end_dead_builds(table, now, fence):
        now = snapshot_with_metadata(table)
    note_removals(table.storage, now.snapshot)
    if check_buildable(table, entries.partition, again=again, replaces=replaces):
        return None
    instant = _next_build(now.table)
    attempt = metadata_attempt(table, now.table, instant, MetadataAction.DELTA_COMMIT)
    files = GroupFiles(
        table.storage,
        attempt.folder,
        entries.partition,
        instant,
        newest_schema(table.storage, now.table),
        native=now.table.config.version.has_native_logs,
        attempt=table.owner.attempt,
        verify=table.options.verify,
    )
    fence()
    attempt.claim()
    return _Build(table, entries, attempt, files, replaces=replaces)


def _next_build(metadata: MetadataTable) -> str:
    """The next instant that neither the timeline nor a file has."""
    taken = {each.time for each in metadata.timeline.instants}
    taken |= {slice_.base_instant for slices in metadata.slices.values() for slice_ in slices}
    number = 0
    while f"{number:017d}" in taken:
        number += 1
    return f"{number:017d}"


def _end_dead_builds(table: ServicedTable, now: ServicedMetadata, fence: Fence) -> bool:
    """Roll back what builds of Lakeward left on the metadata table's timeline. Raises `TryLater` for one at work."""
    metadata, is_changed = now.table, False
    for each in metadata.timeline.pending:
        if not is_initial_build(each.time) or each.action != MetadataAction.DELTA_COMMIT.pending:
            continue
        judged = table.liveness(each.time)
        if judged.life is Life.ALIVE:
            raise TryLater(
                f"Another process builds an index of the metadata table of {table.base_path}.",
                why=f"The heartbeat of its instant {each.time} is fresh.",
                remedy="Run the command again when it has ended.",
            )
        if judged.owner is None:
            continue  # a Hudi writer's, whose next one rolls it back
        attempt = metadata_attempt(table, metadata, each.time, MetadataAction.DELTA_COMMIT)
        settle(
            table,
            attempt,
            _groups_of(table, now, each.time),
            judged.owner,
            check_intent=lambda: None,
            fence=fence,
        )
        table.observer.step(f"build {each.time} of the metadata table: rolled back what its process left")
        is_changed = True
    return is_changed


def _groups_of(table: ServicedTable, now: ServicedMetadata, instant: str) -> list[GroupId]:
    """The file groups of a build, in partitions that the properties do not name."""
    native = now.table.config.version.has_native_logs
    named, found = set(now.snapshot.config.metadata_partitions), set()
    for folder in table.storage.list(now.table.base_path):
        if not folder.is_folder or folder.name.startswith(".") or folder.name in named:
            continue
        for status in table.storage.list(folder.path):
            name = parse_any_data_file(status.name, native=native, extension=HFILE)
            if name is not None and name.instant == instant:
                found.add((folder.name, name.file_id))
    return sorted(found)


class _Build:
    """A claimed instant, as the life cycle runs it."""

    def __init__(
        self,
        table: ServicedTable,
        entries: PartitionEntries,
        attempt: Attempt,
        files: GroupFiles,
        *,
        replaces: bool,
    ) -> None:
        self._replaces = replaces
        self._table = table
        self._entries = entries
        self._attempt = attempt
        self._held_back_at: float | None = None
        self._aside: list[str] = []
        self.files = files

    @property
    def attempt(self) -> Attempt:
        return self._attempt

    @property
    def name(self) -> str:
        return f"build {self.attempt.instant} of {self._entries.partition}"

    @property
    def groups(self) -> list[GroupId]:
        return self.files.group_ids

    def work(self) -> None:
        while_files_stay(self._entries.read, self._snapshot, or_else=_files_go)
        self._entries.write_base(self.files)

    def prepare(self) -> None:
        content = write_partition_metadata(PartitionMetadata(self.attempt.instant, 1))
        self._table.storage.create(join(self.attempt.folder, PROPERTIES_NAME), content)
        self.files.sizes[PROPERTIES_NAME] = len(content)

    def await_writers(self) -> None:
        table, started = self._table, self._table.clock.monotonic()
        limit = 0.0 if table.options.writers_stopped else table.options.yielding.seconds
        self._held_back_at = started if self._held_back_at is None else self._held_back_at
        while (write := first_at_work(table.snapshot(only=(), service=TableService.METADATA).timeline)) is not None:
            at = table.clock.monotonic()
            if at - started >= limit or at - self._held_back_at >= WAITS_MAX * limit:
                raise TryLater(
                    f"{self.name} is held back by {write.action} {write.time}, which is at work, or was left by a "
                    "process that died.",
                    why="The index is published while no write is pending, so that none passes it over. "
                    f"For {limit:.0f} s (--yield-to-writers) there was no such moment.",
                    remedy="Run the command again in a pause of the writers, which goes on with the keys that are "
                    "read; where the process is gone, roll its write back first (`lakeward rollback`). Nothing was "
                    "published.",
                )
            table.pause(f"{write.action} {write.time} is at work", at - started, seconds=_POLL_SECONDS)
        for _ in range(CATCHING_UP_MAX):
            snapshot = self._snapshot()
            if not self._entries.bytes_missing(snapshot):
                break
            while_files_stay(self._entries.read, self._snapshot, or_else=_files_go)

    def publication(self, fence: Fence) -> Publication | Unpublished:
        table, entries, files = self._table, self._entries, self.files
        recover_properties(table.storage, table.base_path, fence=fence)
        now = snapshot_with_metadata(table)
        self.attempt.check_held()
        self._check_still_right(now)
        check_obstacles(table, now)
        if first_at_work(now.snapshot.timeline) is not None:
            return Unpublished.HELD_BACK
        snapshot = self._snapshot()
        if entries.bytes_missing(snapshot) > LOCKED_BYTES_MAX:
            return Unpublished.HELD_BACK
        entries.read(snapshot)
        entries.write_changes(files)
        files.write_first_logs()
        has_typed_stats = now.table.config.version.has_typed_stats
        self.attempt.stage(write_commit_metadata(files.commit(has_typed_stats=has_typed_stats)))
        if entries.partition in snapshot.config.built_metadata_partitions:
            forget_builds(table.storage, table.base_path, [entries.partition])
            changes: dict[str, str | None] = {PARTITIONS_PROPERTY: ",".join(self._others(snapshot))}
            update_properties(table.storage, table.base_path, changes, fence=fence)
        take_unnamed_aside(table.storage, table.base_path, entries.partition, by=table.owner.attempt, fence=fence)
        fence()
        self.attempt.request(b"")
        table.storage.make_folder(join(now.table.base_path, entries.partition))
        if (definition := entries.definition(snapshot)) is not None:
            self._define(snapshot, definition, fence)
        return Publication(
            table.minter(now.snapshot).mint,
            staged={join(entries.partition, name): size for name, size in files.sizes.items()},
            afterwards=lambda: self._name_partition(snapshot, fence),
        )

    def check_intent(self) -> None:
        """In a file system none is stated."""

    def _snapshot(self) -> TableSnapshot:
        return self._table.snapshot(service=TableService.INDEXING)

    def _check_still_right(self, now: ServicedMetadata) -> None:
        """Raises `Conflict`."""
        taken = [each for each in now.table.timeline.instants if each.time == self.attempt.instant]
        is_there = self._entries.partition in now.snapshot.config.built_metadata_partitions
        if taken or (is_there and not self._replaces):
            raise Conflict(
                f"{self.name} is not published.",
                why="Another process built it, or another index, meanwhile.",
                remedy="Run the command again, which goes on with the keys that are read.",
            )

    def _others(self, snapshot: TableSnapshot) -> list[str]:
        return [name for name in snapshot.config.built_metadata_partitions if name != self._entries.partition]

    def _define(self, snapshot: TableSnapshot, definition: IndexDefinition, fence: Fence) -> None:
        storage = self._table.storage
        path = index_definitions_path(snapshot.base_path, snapshot.config)
        old = read_if_there(storage, path)
        new = with_definition(old or b"", definition, file=path)
        if old is None:
            storage.make_folder(path.rpartition("/")[0])
            create_once(storage, path, new)
        elif old != new:
            fence()
            fencing_of(storage).replace_file(path, old, new)

    def _name_partition(self, snapshot: TableSnapshot, fence: Fence) -> None:
        config, base_path = snapshot.config, self._table.base_path
        changes: dict[str, str | None] = {
            PARTITIONS_PROPERTY: ",".join((*self._others(snapshot), self._entries.partition)),
            PATH_PROPERTY: config.get(PATH_PROPERTY) or INDEX_DEFINITIONS_PATH,
        }
        update_properties(self._table.storage, base_path, changes, fence=fence)
        if self._entries.partition == RECORD_INDEX:
            put_in_use(self._table.storage, base_path, IndexType.METADATA)  # what was wrong was another one


def _files_go(gone: NotFound) -> TryLater:
    return TryLater(
        "The index is not built: files go while they are read.",
        why=str(gone),
        remedy="Run the command again when no clean is at work; what was read stays.",
    )

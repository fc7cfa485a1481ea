"""Hudi's side of a simulated table: writers that append, insert, fail, are rolled back, plan compactions and clean.

Every instant is made in the steps that Hudi makes it in, under the file-system lock where Hudi holds it, and others run
between any two of them.

    requested, completed   under the lock, at a time later than everything on the timeline; the heartbeat before it
    inflight, data files   without it
    conflicts              a write remembers what is complete and pending once it is requested, and compares when it
                           commits, by SimpleConcurrentFileWritesConflictResolutionStrategy of Hudi 1.2: for what our
                           services published it fails, which must not happen; for what other writers did it does not,
                           as under non-blocking concurrency control
    a writer that died     its instant stays pending until another writer rolls it back, files first
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial

import fastavro

from lakeward.base.errors import AlreadyExists
from lakeward.format.java_properties import parse_properties
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import TableConfig
from tests.metadata_golden import rollback_plan
from tests.simulation.data_files import SCHEMA, base_file, log_file
from tests.simulation.invariants import TableWatch
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.process_storage import Faults, ProcessStorage
from tests.simulation.reader import BASE_FILE, planned_groups, read_avro, read_table, read_timeline, replaced_by
from tests.simulation.world import Process, SimulatedClock, Timer, World

PROPERTIES = """hoodie.table.name=t
hoodie.table.version=9
hoodie.timeline.layout.version=2
hoodie.table.type=MERGE_ON_READ
hoodie.table.recordkey.fields=id
hoodie.record.merge.mode=COMMIT_TIME_ORDERING
hoodie.table.timeline.timezone=UTC
hoodie.table.base.file.format=PARQUET
"""
LOCK_POLL_SECONDS = 2.0


HEARTBEAT_SECONDS = 60.0


@dataclass(frozen=True)
class Remembered:
    """What a write keeps in mind from when it began."""

    last: str
    """The greatest requested time of what was complete."""
    pending: frozenset[str]


@dataclass
class Table:
    """A simulated table and what its writers share."""

    world: World
    storage: MemoryStorage
    base_path: str
    partitions: tuple[str, ...]
    watch: TableWatch
    lock_expire_seconds: float | None = None
    next_id: int = 0
    next_group: int = 0
    dead_writes: list[str] = field(default_factory=list)
    """Instants whose writers died."""

    @property
    def timeline(self) -> str:
        return f"{self.base_path}/.hoodie/timeline"


def create_table(
    world: World, storage: MemoryStorage, base_path: str, *, partitions: int, lock_expire_seconds: float | None
) -> Table:
    names = tuple(f"p={number}" for number in range(partitions))
    watch = TableWatch(world, storage, base_path, names)
    table = Table(world, storage, base_path, names, watch, lock_expire_seconds)
    storage.make_folder(table.timeline)
    storage.create(f"{base_path}/.hoodie/hoodie.properties", table_properties())
    for name in names:
        storage.make_folder(f"{base_path}/{name}")
        storage.create(
            f"{base_path}/{name}/.hoodie_partition_metadata", b"commitTime=20260101000000000\npartitionDepth=1\n"
        )
    return table


class Writer:
    """One writer at one table."""

    def __init__(self, table: Table, process: Process, switch: Faults | None = None) -> None:
        self._table = table
        self._world = table.world
        self._process = process
        self._storage = ProcessStorage(table.world, process, table.storage, switch or Faults())
        self._clock = SimulatedClock(table.world, process)

    def upsert(self, *, dies: float = 0.0, opens: float = 0.2) -> None:
        """A delta commit of log files in some groups, and sometimes of a new group; more often of the first partition.

        Which groups it writes to it finds out once it is requested, as a writer does that looks its keys up.

        Args:
            opens: how likely it opens a new group beside others.
        """
        random, table = self._world.random, self._table
        partitions = random.choice([table.partitions, table.partitions[:1]])
        with self._lock():
            instant = self._next_time()
            heartbeat = self._start_heartbeat(instant)
            self._create(f"{instant}.deltacommit.requested", b"")
        began, remembered = self._world.time, self._remember()
        there = [group for group in table.watch.groups if group[0] in partitions]
        groups = random.sample(there, k=random.randint(1, min(3, len(there)))) if there else []
        new = []
        if not groups or random.random() < opens:
            new = [(random.choice(partitions), f"g{table.next_group}")]
            table.next_group += 1
        dies_after = random.randrange(2, 4 + len(groups)) if random.random() < dies else None
        self._create(f"{instant}.deltacommit.inflight", _profile(groups, new))
        stats: dict[str, list[WriteStat]] = {}
        ids: set[int] = set()
        for number, (partition, file_id) in enumerate([*groups, *new]):
            if dies_after == number + 2:
                return self._die(instant, heartbeat)
            table.next_id += 1
            table.watch.written[table.next_id] = began
            if (partition, file_id) in new:
                name, data = f"{file_id}_{number}-7-0_{instant}.parquet", base_file({table.next_id})
            else:
                name = f".{file_id}_{instant}.log.1_{number}-7-0"
                data = log_file(instant, {table.next_id})
            self._storage.create(posixpath.join(table.base_path, partition, name), data)
            ids.add(table.next_id)
            path = posixpath.join(partition, name)
            stat = WriteStat(file_id=file_id, path=path, partition_path=partition, num_writes=1)
            stats.setdefault(partition, []).append(stat)
        if dies_after is not None:
            return self._die(instant, heartbeat)
        self._sleep(0.1, 20.0)
        with self._lock():
            if self._meets(instant, remembered, {*groups, *new}):
                return self._die(instant, heartbeat)
            self._complete(instant, "deltacommit", _commit(stats, "UPSERT"), ids)
        self._end_heartbeat(instant, heartbeat)
        table.watch.groups += new

    def _die(self, instant: str, heartbeat: Timer) -> None:
        """It fails, and says so, or its process is killed."""
        self._world.say(self._process, f"gives {instant} up")
        self._table.dead_writes.append(instant)
        self._table.watch.dead_writes.add(instant)
        if self._world.random.random() < 0.5:
            self._end_heartbeat(instant, heartbeat)
        else:
            self._world.cancel(heartbeat)

    def _start_heartbeat(self, instant: str) -> Timer:
        path = heartbeat_path(self._table.base_path, instant)
        self._storage.make_folder(posixpath.dirname(path))
        self._storage.create(path, b"")
        return self._world.every(self._process, HEARTBEAT_SECONDS, partial(self._table.storage.touch, path))

    def _end_heartbeat(self, instant: str, heartbeat: Timer) -> None:
        self._world.cancel(heartbeat)
        self._storage.delete(heartbeat_path(self._table.base_path, instant))

    def _remember(self) -> Remembered:
        instants = read_timeline(self._table.storage, self._table.base_path)
        complete = [time for time in instants.completed if instants.completion_time(time) is not None]
        pending = {
            time
            for time in instants.pending.keys() - instants.completed.keys()
            if instants.pending_actions(time) & {"commit", "deltacommit", "replacecommit", "compaction"}
        }
        return Remembered(max(complete, default=""), frozenset(pending))

    def _meets(self, instant: str, remembered: Remembered, groups: set[tuple[str, str]]) -> bool:
        """Whether it conflicts with what a service of Lakeward published. Under the lock."""
        instants = read_timeline(self._table.storage, self._table.base_path)
        for time, states in instants.completed.items():
            for _, action, path in states:
                is_log = action == "deltacommit" and "logcompaction" in instants.pending_actions(time)
                is_full = action == "commit" and time > instant and time in remembered.pending
                replaces = action == "replacecommit" and (time > remembered.last or time in remembered.pending)
                if not (is_log and time > remembered.last) and not is_full and not replaces:
                    continue
                if groups & _groups_of(self._table.storage.read(path)):
                    self._table.watch.caused_conflict(instant, time, is_log=not is_full)
                    return True
        return False

    def roll_back(self) -> None:
        """Roll back a write whose writer died."""
        table = self._table
        if not table.dead_writes:
            return
        failed = table.dead_writes.pop(0)
        with self._lock():
            instant = self._next_time()
            self._create(f"{instant}.rollback.requested", rollback_plan(failed))
        self._create(f"{instant}.rollback.inflight", b"")
        for partition in table.partitions:
            for status in self._storage.list(f"{table.base_path}/{partition}"):
                if f"_{failed}." in status.name:
                    self._storage.delete(status.path)
        with self._lock():
            self._complete(instant, "rollback", _RECORD, set())
            for state in ("inflight", "requested"):
                self._storage.delete(f"{table.timeline}/{failed}.deltacommit.{state}")

    def plan_compaction(self) -> None:
        """Hudi schedules a compaction of some groups, and leaves it to the service that comes first."""
        random, table = self._world.random, self._table
        with self._lock():
            snapshot = take_snapshot(self._storage, table.base_path, clock=self._clock)
            instant = self._next_time()
            outcome = planner_of(CompactionType.FULL, GroupFilter(), {})(snapshot, instant, {})
            if not outcome.operations:
                return
            operations = random.sample(outcome.operations, k=random.randint(1, len(outcome.operations)))
            self._create(
                f"{instant}.compaction.requested",
                write_compaction_plan(CompactionPlan(tuple(replace(each, operation_type=None) for each in operations))),
            )

    def clean(self) -> None:
        """Delete what no snapshot query reads: all but the newest two slices of groups without a pending plan."""
        table = self._table
        with self._lock():
            instant = self._next_time()
            instants = read_timeline(table.storage, table.base_path)
            view = read_table(table.storage, table.base_path, table.partitions)
            held = planned_groups(table.storage, table.base_path, instants, "compaction")
            before: dict[tuple[str, str], str] = {
                group: bases[-2]
                for group, bases in view.completed_bases.items()
                if len(bases) > 2 and group not in held
            }
            if not before:
                return
            self._create(f"{instant}.clean.requested", _RECORD)
        self._create(f"{instant}.clean.inflight", b"")
        for (partition, file_id), oldest_kept in sorted(before.items()):
            for status in self._storage.list(f"{table.base_path}/{partition}"):
                if self._is_before(status.name, file_id, oldest_kept, instants.completion_time):
                    table.watch.cleaned.add(status.path)
                    self._storage.delete(status.path)
        with self._lock():
            self._complete(instant, "clean", _RECORD, set())

    @staticmethod
    def _is_before(name: str, file_id: str, oldest_kept: str, completion_time: Callable[[str], str | None]) -> bool:
        if match := BASE_FILE.fullmatch(name):
            return match[1] == file_id and match[3] < oldest_kept and completion_time(match[3]) is not None
        if name.startswith(f".{file_id}_"):
            completed = completion_time(name.split("_")[1].partition(".")[0])
            return completed is not None and completed < oldest_kept
        return False

    # ------------------------------------------------------------------------------------------- small

    def _complete(self, instant: str, action: str, content: bytes, ids: set[int]) -> None:
        completed = self._next_time()
        self._world.call(self._process)  # others run before, not while: the file is there at once
        self._table.watch.committed |= ids
        self._table.storage.create(f"{self._table.timeline}/{instant}_{completed}.{action}", content)
        self._world.say(self._process, f"completed {instant}_{completed}.{action} {sorted(ids) if ids else ''}")

    def _create(self, name: str, content: bytes) -> None:
        self._storage.create(f"{self._table.timeline}/{name}", content)

    def _next_time(self) -> str:
        instants = read_timeline(self._table.storage, self._table.base_path)
        times = {*instants.pending, *instants.completed}
        times |= {completed for each in instants.completed.values() for completed, _, _ in each}
        while True:
            time = format_instant_time(int(self._clock.now() * 1000), UTC)
            if time > max(times, default=""):
                break
            self._clock.sleep(0.01)
        self._clock.sleep(0.2)  # Hudi lets the clock skew pass
        return time

    def _sleep(self, least: float, most: float) -> None:
        self._clock.sleep(self._world.random.uniform(least, most))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        path = f"{self._table.base_path}/{SPARK_LOCK}"
        while True:
            try:
                self._storage.create(path, b"")
                break
            except AlreadyExists:
                self._expire(path)
                self._clock.sleep(LOCK_POLL_SECONDS)
        held = self._table.storage.file(path)
        try:
            yield
        finally:
            # Hudi's provider deletes whatever lock is there; it holds its own for far less than any expiry.
            is_there = not self._process.dead and self._table.storage.stat(path) is not None
            if is_there and self._table.storage.file(path) is held:
                self._storage.delete(path)

    def _expire(self, path: str) -> None:
        status = self._storage.stat(path)
        expire = self._table.lock_expire_seconds
        if status is not None and expire is not None and self._clock.now() - status.modified > expire:
            self._storage.delete(path)


def write_for_ever(
    writer: Writer,
    *,
    dies: float,
    busy: tuple[float, float],
    stop: Callable[[], bool],
    opens: float = 0.2,
    plans: float = 0.5,
    services: bool = True,
) -> None:
    """One thing after the other, with pauses.

    Args:
        opens: how likely a write opens a new group beside others.
        services: it rolls back and cleans, too.
    """
    while not stop():
        writer._sleep(*busy)
        act = writer._world.random.choices(
            [lambda: writer.upsert(dies=dies, opens=opens), writer.roll_back, writer.plan_compaction, writer.clean],
            weights=[8, 2 if writer._table.dead_writes and services else 0, plans, 0.7 if services else 0],
        )[0]
        act()


def _commit(stats: dict[str, list[WriteStat]], operation: str) -> bytes:
    return write_commit_metadata(
        CommitMetadata(
            partition_to_write_stats={partition: tuple(each) for partition, each in stats.items()},
            compacted=False,
            extra_metadata={"schema": SCHEMA},
            operation_type=operation,
        )
    )


def _profile(groups: list[tuple[str, str]], new: list[tuple[str, str]]) -> bytes:
    """What the inflight file says that will be written."""
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for partition, file_id in (*groups, *((partition, "") for partition, _ in new)):
        stat = WriteStat(file_id=file_id, path=None, partition_path=partition, num_inserts=int(not file_id))
        stats[partition] = (*stats.get(partition, ()), stat)
    return write_commit_metadata(
        CommitMetadata(partition_to_write_stats=stats, compacted=False, operation_type="UPSERT")
    )


def _groups_of(commit: bytes) -> set[tuple[str, str]]:
    content = read_avro(commit)
    written = {
        (partition, stat["fileId"]) for partition, each in content["partitionToWriteStats"].items() for stat in each
    }
    return written | {*replaced_by(commit)} if "partitionToReplaceFileIds" in content else written


def _record() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}])
    return out.getvalue()


_RECORD = _record()
"""What our service never opens of rollbacks and cleans."""


def table_properties(table_type: str = "MERGE_ON_READ") -> bytes:
    properties = PROPERTIES.replace("MERGE_ON_READ", table_type)
    checksum = TableConfig(parse_properties(properties.encode())).checksum
    return f"{properties}hoodie.table.checksum={checksum}\n".encode()

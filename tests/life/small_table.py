"""A table of a few rows in memory with every service at hand, and a writer whose writes begin, complete and fail.

Services are the real plan, execute and commit code; only what merges rows is replaced (`rows.py`). The clock stands but
where a service waits. It is of one of five kinds. Writers are Hudi's: an instant requested, begun, files written,
completed, with a heartbeat that beats for as long as the writer lives.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

from pytest import MonkeyPatch

from lakeward.base.errors import AlreadyExists
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver, ArchiveReport
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.cleaner import Cleaner, CleanReport
from lakeward.services.clean.run.orphans import OrphanReport, set_orphans_aside
from lakeward.services.clean.run.undo import UndoneClean, undo_clean
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.clusterer import ClusteringReport, cluster
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import CompactionReport, Compactor
from lakeward.services.metadata.run.metadata_round import MetadataDone, MetadataServices
from lakeward.services.rollback.run.roll_back import RollbackReport, find_decisions, roll_back_writes
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint
from lakeward.services.together.restore.run.restore import Restored, restore
from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.services.ttl.plan.ttl_plan import TtlReport
from lakeward.services.ttl.run.expirer import expire_partitions
from lakeward.storage.storage import RenamingStorage, Storage, VersionedStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SettableClock
from tests.faults import Fault
from tests.life.faulty_memory import FaultyMemory
from tests.life.faulty_objects import LAKE, FaultyObjects
from tests.life.hudis_metadata_table import Files, HudisMetadataTable
from tests.life.reader import look
from tests.life.rows import WRITES_MAX, merge_rows, newest, pack_rows, to_ids
from tests.processes import LookedOn, ScriptedProcesses
from tests.simulation.data_files import SCHEMA, base_file, log_file
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.reader import read_timeline
from tests.simulation.world import decoding_once
from tests.simulation.writer import table_properties
from tests.table.table_history import replace_metadata

BASE = "/t"
TIMELINE = f"{BASE}/.hoodie/timeline"
START = 1_767_225_600.0  # 2026-01-01, UTC
LOCK_POLL_SECONDS = 2.0
EXPIRE_SECONDS = 1800.0
"""Partitions to which nothing was written for so long expire."""
HUDIS_PLAN = {"hoodie.clustering.plan.strategy.small.file.limit": "1000000"}

PLANNERS = {
    kind: planner_of(
        kind,
        GroupFilter(),
        {}
        if kind is CompactionType.FULL
        else {
            "planner.small_base_size": "1",
            "planner.log_ratio": "0.3",
            "hoodie.compaction.logfile.num.threshold": "2",
            "hoodie.compaction.logfile.size.threshold": "1",
        },
    )
    for kind in CompactionType
}

GroupId = tuple[str, str]


class Kind(StrEnum):
    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"
    WITH_METADATA = "with a metadata table"
    COPY_ON_WRITE_WITH_METADATA = "copy-on-write with a metadata table"
    OBJECTS = "in an object store"

    @property
    def copies(self) -> bool:
        return self in (Kind.COPY_ON_WRITE, Kind.COPY_ON_WRITE_WITH_METADATA)

    @property
    def has_metadata(self) -> bool:
        return self in (Kind.WITH_METADATA, Kind.COPY_ON_WRITE_WITH_METADATA)


class BeatingClock(SettableClock):
    """Whenever it moves, live writers beat."""

    def __init__(self) -> None:
        super().__init__(START)
        self.beat: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.beat()


@dataclass
class Write:
    """One that has begun."""

    instant: str
    number: int
    rows: dict[int, int]
    """The write's own number by key."""
    stats: dict[str, list[WriteStat]]
    new: dict[GroupId, int]
    """File groups that it makes, and the slot of each."""
    slots: set[int]
    """The slots of all file groups that it writes to."""
    replaces: str | None = None
    """A partition whose rows it takes the place of."""
    replaced: dict[str, list[str]] = field(default_factory=dict)
    action: str = "deltacommit"


class SmallTable:
    def __init__(self, kind: Kind = Kind.MERGE_ON_READ, *, partitions: int = 2, slots: int = 2, keys: int = 8) -> None:
        """
        Args:
            slots: file groups of a partition at any time; every second one begins with a log instead of a base file.
        """
        self.kind = kind
        self.base = f"{LAKE}{BASE}" if kind is Kind.OBJECTS else BASE
        """What our services call it."""
        self.clock = BeatingClock()
        self.clock.beat = self._beat
        self.storage = MemoryStorage(self.clock.now)
        self.partitions = tuple(f"p={number}" for number in range(partitions))
        self.slots = partitions * slots
        self.keys = keys
        self.processes = ScriptedProcesses()
        self.processes.stillness = LookedOn()
        self._strays: list[str] = []
        self.live: list[Write] = []
        """Writes whose writers live."""
        self.lock: FileSystemLockOptions | StorageLockOptions = (
            StorageLockOptions(wait_seconds=30.0)
            if kind is Kind.OBJECTS
            else FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=30.0)
        )
        self.metadata = HudisMetadataTable(self.storage, BASE)
        self._made = 0
        self.storage.make_folder(TIMELINE)
        table_type = "COPY_ON_WRITE" if kind.copies else "MERGE_ON_READ"
        self.storage.create(f"{BASE}/.hoodie/hoodie.properties", table_properties(table_type))
        for name in self.partitions:
            self.storage.make_folder(f"{BASE}/{name}")
            self.storage.create(
                f"{BASE}/{name}/.hoodie_partition_metadata", b"commitTime=20260101000000000\npartitionDepth=1\n"
            )

    # Writers

    def partition_of(self, key: int) -> str:
        return self.partitions[key % self.slots % len(self.partitions)]

    def begin(
        self,
        number: int,
        keys: set[int],
        *,
        deletes: bool = False,
        replaces: str | None = None,
        storage: RenamingStorage | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> Write:
        """Everything but the commit.

        Args:
            number: of the write; keys with a greater one stay as they are.
            deletes: it deletes these keys.
            replaces: the partition that is overwritten; all keys are of it.
        """
        storage = storage or self.storage
        if self.kind.has_metadata and not self.metadata.is_there:
            self.metadata.build(self._committed_files(), self.next_time())
        action = "replacecommit" if replaces is not None else "commit" if self.kind.copies else "deltacommit"
        with self._writers_lock(storage, wait):
            instant = self.next_time()
            storage.make_folder(posixpath.dirname(heartbeat_path(BASE, instant)))
            storage.create(heartbeat_path(BASE, instant), b"")
            storage.create(f"{TIMELINE}/{instant}.{action}.requested", b"")
        write = Write(instant, number, {}, {}, {}, set(), replaces, action=action)
        self.live.append(write)
        inflight = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
        storage.create(f"{TIMELINE}/{inflight}", b"")
        groups = self._groups()
        if replaces is not None:
            write.replaced = {
                replaces: sorted({group for slot, group in groups.items() if self.partition_of(slot) == replaces})
            }
            groups = {}
        # Two writes that copy a base file would conflict, and so would two that make a file group.
        busy = {
            slot
            for each in self.live
            if each is not write
            for slot in (each.slots if self.kind.copies else each.new.values())
        }
        by_slot: dict[int, dict[int, int]] = defaultdict(dict)
        for key in sorted(keys):
            slot = key % self.slots
            if slot in groups:  # one file of each file group, also where a clustering gave it the rows of several slots
                slot = min(each for each, group in groups.items() if group == groups[slot])
            by_slot[slot][key] = -number if deletes else number
        for slot, rows in by_slot.items():
            if slot in busy:
                continue
            write.slots.add(slot)
            write.rows |= rows
            self._write_files(storage, write, slot, groups.get(slot), rows)
        return write

    def _groups(self) -> dict[int, str]:
        """The file group of each slot that has rows, deleted ones among them."""
        readers = look(self.storage, BASE, self.partitions)
        found: dict[int, str] = {}
        for group_id, group in readers.groups.items():
            if group_id not in readers.replaced:
                for content in (*group.bases.values(), *(content for _, _, content in group.logs)):
                    found |= {key % self.slots: group_id[1] for key in newest(content.ids)}
        return found

    def _write_files(
        self, storage: RenamingStorage, write: Write, slot: int, file_id: str | None, rows: Mapping[int, int]
    ) -> None:
        partition = self.partition_of(slot)
        is_new = file_id is None
        if file_id is None:
            file_id = f"g{self._made}"
            self._made += 1
            write.new[partition, file_id] = slot
        begins_with_base = slot // len(self.partitions) % 2 == 0 or write.replaces is not None
        if self.kind.copies or (is_new and begins_with_base):
            ids = {*to_ids(rows), *(set() if is_new else self._ids_of(partition, file_id))}
            name, data = f"{file_id}_{slot}-7-0_{write.instant}.parquet", base_file(to_ids(newest(ids)))
        else:
            name = f".{file_id}_{write.instant}.log.1_{slot}-7-0"
            data = log_file(write.instant, to_ids(rows))
        path = posixpath.join(partition, name)
        storage.create(posixpath.join(BASE, path), data)
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            num_writes=len(rows),
            file_size_in_bytes=len(data),
        )
        write.stats.setdefault(partition, []).append(stat)

    def complete(
        self,
        write: Write,
        *,
        storage: RenamingStorage | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        storage = storage or self.storage
        with self._writers_lock(storage, wait):
            if self.metadata.is_there:
                files = {
                    partition: {posixpath.basename(each.path or ""): each.file_size_in_bytes or 0 for each in stats}
                    for partition, stats in write.stats.items()
                }
                self.metadata.commit(write.instant, self.next_time(), files)
                self.clock.sleep(1.0)
            completed = self.next_time()
            if write.replaces is None:
                stats = {partition: tuple(each) for partition, each in write.stats.items()}
                metadata = CommitMetadata(
                    stats, compacted=False, extra_metadata={"schema": SCHEMA}, operation_type="UPSERT"
                )
                storage.create(
                    f"{TIMELINE}/{write.instant}_{completed}.{write.action}", write_commit_metadata(metadata)
                )
            else:
                content = replace_metadata(write.stats, write.replaced, {"schema": SCHEMA})
                storage.create(f"{TIMELINE}/{write.instant}_{completed}.replacecommit", content)
        storage.delete(heartbeat_path(BASE, write.instant))
        self.live.remove(write)

    def die(self, write: Write) -> None:
        """Its writer dies, and everybody can see it."""
        self.live.remove(write)
        self.clock.sleep(200.0)

    def stray(self, key: int) -> None:
        """A task of a write of which nothing else is left wrote a file."""
        partition, file_id = self.partition_of(key), self._groups().get(key % self.slots, "g0")
        instant = self.next_time()
        path = f"{BASE}/{partition}/{file_id}_9-9-9_{instant}.parquet"
        self.storage.create(path, base_file(to_ids({key: WRITES_MAX - 1})))
        self._strays.append(path)
        self.clock.sleep(1.0)

    @property
    def has_strays(self) -> bool:
        """Files are there of which nothing else is left."""
        return any(self.storage.stat(path) is not None for path in self._strays)

    def _ids_of(self, partition: str, file_id: str) -> frozenset[int]:
        """What the newest base file of the group holds."""
        bases = look(self.storage, BASE, self.partitions).groups[partition, file_id].bases
        return bases[max(bases)].ids

    def _committed_files(self) -> Files:
        """What a metadata table is built of."""
        found: dict[str, dict[str, int]] = {}
        readers = look(self.storage, BASE, self.partitions)
        for partition in self.partitions:
            for status in self.storage.list(f"{BASE}/{partition}"):
                name = parse_any_data_file(status.name, native=False)
                if name is not None and name.instant in {**readers.completed, **readers.archived}:
                    found.setdefault(partition, {})[status.name] = status.size
        return found

    def plan_by_hudi(self, groups: Callable[[GroupId], bool] = lambda group: True) -> str | None:
        """Hudi schedules a compaction, and leaves it to the service that comes first."""
        instant = self.next_time()
        operations = PLANNERS[CompactionType.FULL](self.snapshot(), instant, {}).operations
        chosen = tuple(each for each in operations if groups((each.partition_path, each.file_id)))
        if not chosen:
            return None
        for each in chosen:  # Hudi's plans do not say a type
            object.__setattr__(each, "operation_type", None)
        self.storage.create(f"{TIMELINE}/{instant}.compaction.requested", write_compaction_plan(CompactionPlan(chosen)))
        return instant

    def savepoint_by_hudi(self, instant: str) -> None:
        """Hudi makes one of the newest commit, whatever is pending: it names the files that there are."""
        files = {
            partition: tuple(
                status.name
                for status in self.storage.list(f"{BASE}/{partition}")
                if parse_any_data_file(status.name, native=False)
            )
            for partition in self.partitions
        }
        self.storage.create(f"{TIMELINE}/{instant}.savepoint.inflight", b"")
        content = write_savepoint_metadata(SavepointMetadata("hudi", "", files))
        self.storage.create(f"{TIMELINE}/{instant}_{self.next_time()}.savepoint", content)

    # Services

    def process(self, fault: Fault | None = None) -> FaultyMemory | FaultyObjects:
        """The storage as one process of Lakeward reaches it."""
        if self.kind is not Kind.OBJECTS:
            return FaultyMemory(self.storage, fault)
        objects = FaultyObjects(self.storage, fault)
        assert isinstance(objects, VersionedStorage), "or every service would refuse the table"
        return objects

    def serviced(self, storage: Storage | None = None, *, is_alone: bool = False) -> ServicedTable:
        return ServicedTable.for_one_attempt(
            storage or self.process(),
            self.base,
            self._options(is_alone),
            clock=self.clock,
            processes=self.processes,
            observer=None,
            guard=lambda: None,
        )

    def compact(self, kind: CompactionType, storage: Storage | None = None) -> CompactionReport:
        return self._compactor(kind, storage or self.process()).compact()

    def unschedule(self) -> None:
        """An operator removes every plan of a compaction, also Hudi's."""
        instants = read_timeline(self.storage, BASE)
        for time in sorted(instants.pending.keys() - instants.completed.keys()):
            if instants.pending_actions(time) & {"compaction", "logcompaction"}:
                self._compactor(CompactionType.FULL, self.process()).unschedule(time, foreign=True)

    def _compactor(self, kind: CompactionType, storage: Storage) -> Compactor:
        dispatcher = InProcessDispatcher()
        return Compactor(
            ServicedTable.for_one_attempt(
                storage,
                self.base,
                self._options(is_alone=False),
                clock=self.clock,
                processes=self.processes,
            ),
            planner=PLANNERS[kind],
            choose_dispatcher=lambda input_bytes: dispatcher,
            run_operation=partial(merge_rows, storage),
        )

    def cluster(self, storage: Storage | None = None, *, as_hudi: bool = False) -> ClusteringReport:
        """A clustering, which ends at once where a write is at work.

        Args:
            as_hudi: by Hudi's plan, which takes every file group, also one alone.
        """
        storage, dispatcher = storage or self.process(), InProcessDispatcher()
        table = self._without_waiting(storage)
        packing = PackOptions(groups_min=2, hudi_keys=HUDIS_PLAN if as_hudi else None)
        return cluster(table, packing, lambda input_bytes: dispatcher, partial(pack_rows, storage))

    def expire(self, storage: Storage | None = None) -> TtlReport:
        """Partitions to which nothing was written lately are deleted, where no write is at work."""
        table = self._without_waiting(storage or self.process())
        return expire_partitions(table, TtlOptions(EXPIRE_SECONDS), select=lambda partitions: None)

    def _without_waiting(self, storage: Storage) -> ServicedTable:
        table = self.serviced(storage)
        return replace(table, options=replace(table.options, yielding=YieldOptions(seconds=0.0)))

    def clean(
        self, policy: CleanPolicy, storage: Storage | None = None, *, keep_seconds: float = 0.0, window: float = 0.0
    ) -> CleanReport:
        """
        Args:
            window: seconds for which a query may run.
        """
        storage = storage or self.process()
        choice = CleanChoice(storage, self.base, CleanOptions(policy, reader_window=window), clock=self.clock)
        return Cleaner(self.serviced(storage), {}, keep_seconds=keep_seconds).clean(choice.plan, choice.where)

    def dead(self, policy: CleanPolicy) -> list[str]:
        """What a clean would delete that looks at all partitions and waits for no reader."""
        options = CleanOptions(policy, reader_window=0.0, is_incremental=False)
        plan = CleanChoice(self.process(), self.base, options, clock=self.clock).plan(self.snapshot())
        return [] if plan is None else sorted(name for names in plan.files.values() for name in names)

    def archive(self, options: ArchiveOptions, storage: Storage | None = None) -> ArchiveReport:
        return Archiver(self.serviced(storage), options).archive()

    def undo(self, clean: str, storage: Storage | None = None) -> UndoneClean:
        return undo_clean(self.serviced(storage), clean)

    def roll_back(self, storage: Storage | None = None) -> RollbackReport:
        table = self.serviced(storage)
        todo = [each.instant for each in find_decisions(table) if each.step is not Step.LEAVE]
        return roll_back_writes(table, todo)

    def savepoint(self, instant: str | None, storage: Storage | None = None) -> str:
        return create_savepoint(self.serviced(storage), instant, user="me", comment="").instant

    def delete_savepoint(self, instant: str, storage: Storage | None = None) -> None:
        delete_savepoint(self.serviced(storage), instant)

    def restore(self, instant: str, storage: Storage | None = None) -> Restored:
        """No writer is at work."""
        assert not self.live
        return restore(self.serviced(storage, is_alone=True), instant)

    def set_orphans_aside(self, age_seconds: float, storage: Storage | None = None) -> OrphanReport:
        with MonkeyPatch.context() as patched:
            # Its day is a minute or two.
            patched.setattr("lakeward.services.clean.run.orphans.AGE_SECONDS", 0.0)
            return set_orphans_aside(self.serviced(storage), age_seconds=age_seconds, keep_seconds=0.0)

    def service_metadata(self, storage: Storage | None = None) -> MetadataDone:
        """Clean and compact the metadata table."""
        return MetadataServices(self.serviced(storage)).run()

    def snapshot(self) -> TableSnapshot:
        return take_snapshot(self.storage, BASE, timezone="UTC", clock=self.clock)

    def next_time(self) -> str:
        instants = read_timeline(self.storage, BASE)
        times = {*instants.pending, *instants.completed}
        times |= {completed for each in instants.completed.values() for completed, _, _ in each}
        latest = max(*times, self.metadata.latest_time(), "")
        while (time := format_instant_time(round(self.clock.now() * 1000), UTC)) <= latest:
            self.clock.sleep(1.0)
        return time

    def _options(self, is_alone: bool) -> CompactionOptions:
        return CompactionOptions(
            writers_stopped=is_alone,
            lock=self.lock,
            wait_seconds=0.0,
            timezone="UTC",
            state_folder=Path("/nowhere"),
        )

    def _beat(self) -> None:
        for write in self.live:
            if self.storage.stat(heartbeat_path(BASE, write.instant)) is not None:
                self.storage.touch(heartbeat_path(BASE, write.instant))

    @contextmanager
    def _writers_lock(self, storage: RenamingStorage, wait: Callable[[float], None] | None) -> Iterator[None]:
        """
        Args:
            wait: how to let others go on; without it there are none.
        """
        if wait is None:
            yield
            return
        path = f"{BASE}/{SPARK_LOCK}"
        while True:
            try:
                storage.create(path, b"")
                break
            except AlreadyExists:
                wait(LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            storage.delete(path)


class NoRenewal:
    """The clock moves only where a service waits, so nothing need be renewed meanwhile."""

    last_failure: Exception | None = None

    def __init__(self, renew: Callable[[], None], *, interval_seconds: float) -> None:
        del renew, interval_seconds

    def __enter__(self) -> NoRenewal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@contextmanager
def without_threads() -> Iterator[None]:
    """Services start no thread, and number the file groups that clusterings make."""
    made = count()
    with (
        patch("lakeward.protocol.lock.table_lock.Renewal", NoRenewal),
        patch("lakeward.protocol.life_cycle.Renewal", NoRenewal),
        patch("lakeward.services.clustering.run.clusterer.uuid4", lambda: f"c{next(made):06}"),
        decoding_once(),
    ):
        yield

"""A table of a few rows in memory with every service at hand, and a writer whose writes begin, complete and fail.

Services are the real plan, execute and commit code; only what merges rows is replaced (`rows.py`). The clock stands but
where a service waits. Writers are Hudi's: an instant requested, begun, files written, completed, with a heartbeat that
beats for as long as the writer lives.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

from lakeward.commit.heartbeat_line import heartbeat_path
from lakeward.commit.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.errors import AlreadyExists
from lakeward.execute.archive.archiver import Archiver, ArchiveReport
from lakeward.execute.clean.cleaner import Cleaner, CleanReport
from lakeward.execute.clean.undoing import UndoneClean, undo_clean
from lakeward.execute.compaction.compactor import CompactionReport, Compactor
from lakeward.execute.options import CompactionOptions
from lakeward.execute.rollback.rolling_back import RollbackReport, find_decisions, roll_back_writes
from lakeward.execute.savepoint.saving import create_savepoint, delete_savepoint
from lakeward.execute.serviced_table import ServicedTable
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time
from lakeward.plan.archive_settings import ArchiveOptions
from lakeward.plan.clean.planner import plan_clean
from lakeward.plan.clean.policy import CleanPolicy
from lakeward.plan.compaction.compaction_type import CompactionType
from lakeward.plan.compaction.planner import planner_of
from lakeward.plan.compaction.selection import GroupFilter
from lakeward.plan.rollback import Step
from lakeward.storage.storage import RenamingStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SettableClock
from tests.life.rows import merge_rows, to_ids
from tests.processes import LookedOn, ScriptedProcesses
from tests.simulation.data_files import SCHEMA, base_file, log_file
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.reader import read_timeline
from tests.simulation.writer import table_properties
from tests.table.table_history import replace_metadata

BASE = "/t"
TIMELINE = f"{BASE}/.hoodie/timeline"
START = 1_767_225_600.0  # 2026-01-01, UTC
LOCK_POLL_SECONDS = 2.0

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
    replaces: str | None = None
    """A partition whose rows it takes the place of."""
    replaced: dict[str, list[str]] = field(default_factory=dict)


class SmallTable:
    def __init__(self, *, partitions: int = 2, slots: int = 2, keys: int = 8) -> None:
        """
        Args:
            slots: file groups of a partition at any time; every second one begins with a log instead of a base file.
        """
        self.clock = BeatingClock()
        self.clock.beat = self._beat
        self.storage = MemoryStorage(self.clock.now)
        self.partitions = tuple(f"p={number}" for number in range(partitions))
        self.slots = partitions * slots
        self.keys = keys
        self.processes = ScriptedProcesses()
        self.processes.stillness = LookedOn()
        self.live: list[Write] = []
        """Writes whose writers live."""
        self.lock = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=30.0)
        self._groups: dict[int, str] = {}
        """The file group of a slot."""
        self._made = 0
        self.storage.make_folder(TIMELINE)
        self.storage.create(f"{BASE}/.hoodie/hoodie.properties", table_properties())
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
        replaces: str | None = None,
        storage: RenamingStorage | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> Write:
        """Everything but the commit.

        Args:
            number: of the write; keys with a greater one stay as they are.
            replaces: the partition that is overwritten; all keys are of it.
        """
        storage = storage or self.storage
        with self._writers_lock(storage, wait):
            instant = self.next_time()
            storage.make_folder(posixpath.dirname(heartbeat_path(BASE, instant)))
            storage.create(heartbeat_path(BASE, instant), b"")
            action = "deltacommit" if replaces is None else "replacecommit"
            storage.create(f"{TIMELINE}/{instant}.{action}.requested", b"")
        write = Write(instant, number, {}, {}, {}, replaces)
        self.live.append(write)
        storage.create(f"{TIMELINE}/{instant}.{action}.inflight", b"")
        if replaces is not None:
            write.replaced = {
                replaces: [group for slot, group in self._groups.items() if self.partition_of(slot) == replaces]
            }
        being_made = {slot for each in self.live if each is not write for slot in each.new.values()}
        by_slot: dict[int, dict[int, int]] = defaultdict(dict)
        for key in sorted(keys):
            by_slot[key % self.slots][key] = number
        for slot, rows in by_slot.items():
            if slot in being_made:
                continue
            write.rows |= rows
            self._write_files(storage, write, slot, rows)
        return write

    def _write_files(self, storage: RenamingStorage, write: Write, slot: int, rows: Mapping[int, int]) -> None:
        partition = self.partition_of(slot)
        file_id = self._groups.get(slot) if write.replaces is None else None
        is_new = file_id is None
        if file_id is None:
            file_id = f"g{self._made}"
            self._made += 1
            write.new[partition, file_id] = slot
        if is_new and (slot // len(self.partitions) % 2 == 0 or write.replaces is not None):
            name, data = f"{file_id}_{slot}-7-0_{write.instant}.parquet", base_file(to_ids(rows))
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
            completed = self.next_time()
            if write.replaces is None:
                stats = {partition: tuple(each) for partition, each in write.stats.items()}
                metadata = CommitMetadata(
                    stats, compacted=False, extra_metadata={"schema": SCHEMA}, operation_type="UPSERT"
                )
                storage.create(f"{TIMELINE}/{write.instant}_{completed}.deltacommit", write_commit_metadata(metadata))
            else:
                content = replace_metadata(write.stats, write.replaced)
                storage.create(f"{TIMELINE}/{write.instant}_{completed}.replacecommit", content)
        storage.delete(heartbeat_path(BASE, write.instant))
        self.live.remove(write)
        for (_, file_id), slot in write.new.items():
            self._groups[slot] = file_id
        if write.replaces is not None:
            gone = {*write.replaced[write.replaces]}
            self._groups = {slot: group for slot, group in self._groups.items() if group not in gone}

    def die(self, write: Write) -> None:
        """Its writer dies, and everybody can tell."""
        self.live.remove(write)
        self.clock.sleep(200.0)

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

    # Services

    def serviced(self, storage: RenamingStorage | None = None, *, is_alone: bool = False) -> ServicedTable:
        return ServicedTable.for_one_attempt(
            storage or self.storage,
            BASE,
            self._options(is_alone),
            clock=self.clock,
            processes=self.processes,
            observer=None,
            guard=lambda: None,
        )

    def compact(self, kind: CompactionType, storage: RenamingStorage | None = None) -> CompactionReport:
        return self._compactor(kind, storage or self.storage).compact()

    def unschedule(self) -> None:
        """An operator removes every plan of a compaction, also Hudi's."""
        instants = read_timeline(self.storage, BASE)
        for time in sorted(instants.pending.keys() - instants.completed.keys()):
            if instants.pending_actions(time) & {"compaction", "logcompaction"}:
                self._compactor(CompactionType.FULL, self.storage).unschedule(time, foreign=True)

    def _compactor(self, kind: CompactionType, storage: RenamingStorage) -> Compactor:
        dispatcher = InProcessDispatcher()
        return Compactor(
            storage,
            BASE,
            self._options(is_alone=False),
            planner=PLANNERS[kind],
            choose_dispatcher=lambda input_bytes: dispatcher,
            run_operation=partial(merge_rows, storage),
            clock=self.clock,
            processes=self.processes,
        )

    def clean(
        self, policy: CleanPolicy, storage: RenamingStorage | None = None, *, keep_seconds: float = 0.0
    ) -> CleanReport:
        def choose(snapshot: TableSnapshot) -> CleanPlan | None:
            outcome = plan_clean(snapshot, policy, now=self.clock.now())
            return outcome.plan({}) if any(outcome.dead) else None

        return Cleaner(self.serviced(storage), {}, keep_seconds=keep_seconds).clean(choose)

    def archive(self, options: ArchiveOptions, storage: RenamingStorage | None = None) -> ArchiveReport:
        return Archiver(self.serviced(storage), options).archive()

    def undo(self, clean: str, storage: RenamingStorage | None = None) -> UndoneClean:
        return undo_clean(self.serviced(storage), clean)

    def roll_back(self, storage: RenamingStorage | None = None) -> RollbackReport:
        table = self.serviced(storage)
        todo = [each.instant for each in find_decisions(table) if each.step is not Step.LEAVE]
        return roll_back_writes(table, todo)

    def savepoint(self, instant: str | None, storage: RenamingStorage | None = None) -> str:
        return create_savepoint(self.serviced(storage), instant, user="me", comment="").instant

    def delete_savepoint(self, instant: str, storage: RenamingStorage | None = None) -> None:
        delete_savepoint(self.serviced(storage), instant)

    def snapshot(self) -> TableSnapshot:
        return take_snapshot(self.storage, BASE, timezone="UTC", clock=self.clock)

    def next_time(self) -> str:
        instants = read_timeline(self.storage, BASE)
        times = {*instants.pending, *instants.completed}
        times |= {completed for each in instants.completed.values() for completed, _, _ in each}
        latest = max(times, default="")
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
    with (
        patch("lakeward.commit.lock.table_lock.Renewal", NoRenewal),
        patch("lakeward.execute.life_cycle.Renewal", NoRenewal),
    ):
        yield

"""One golden table in an object store, serviced there: in memory with faults at each write, or behind requests."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lakeward.base.errors import AttemptLost, LakewardError
from lakeward.protocol.lock import storage_lock
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.run.compactor import CompactionReport
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from lakeward.storage.storage import FileStatus, Storage, Version
from tests.crash.compacting import FULL, compact
from tests.faults import Fault, Faulted, FaultKind, Killed
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.runs import spread

T = TypeVar("T")

BASE = "s3://lake/orders"
KINDS = (FaultKind.BEFORE, FaultKind.LOST_REPLY, FaultKind.KILL)


@dataclass(frozen=True, slots=True)
class Service:
    """What is done, and what is true of the table (fetched) at any moment and in the end."""

    name: str
    planner: Planner
    check_readable: Callable[[Path], None]
    check_finished: Callable[[Path], None]


def be_proved(base: str) -> None:
    """The first lock that a process takes in a store proves the store, by two more writes: a test that counts the
    writes of one run, and lets one of another go wrong, would miss the one that it means."""
    storage_lock._proved.add(base.partition("://")[2].partition("/")[0])


class Lake:
    """A store with the golden table in it."""

    def __init__(
        self, folder: Path, golden: str = "v9", *, change: Callable[[Path], None] = lambda table: None
    ) -> None:
        """
        Args:
            change: is made to the golden table first.
        """
        be_proved(BASE)
        self.objects = Objects()
        self.base = BASE
        self._folder = folder
        # What a table of version 6 has on top of a plan belongs to nothing without it.
        table = copy_golden(golden, folder / "golden", pending=golden == "v6_oldest")
        change(table)
        bring(table, MemoryObjects(self.objects), BASE)

    def copy(self) -> Lake:
        other = object.__new__(Lake)
        other.objects = Objects(dict(self.objects.data), self.objects.versions)
        other.base, other._folder = self.base, self._folder
        return other

    def store(self, fault: Fault | None = None) -> MemoryObjects:
        return MemoryObjects(self.objects, fault)

    def fetched(self) -> Path:
        return fetch(self.store(), self.base, Path(tempfile.mkdtemp(dir=self._folder)))


class RemoteLake:
    """The same behind requests."""

    def __init__(self, folder: Path, bucket: str, golden: str = "v9") -> None:
        be_proved(bucket)
        self.base = f"{bucket}/{uuid.uuid4().hex}"
        self._bucket, self._folder, self._golden = bucket, folder, golden
        bring(copy_golden(golden, Path(tempfile.mkdtemp(dir=folder)) / "golden"), self.store(), self.base)

    def copy(self) -> RemoteLake:
        return RemoteLake(self._folder, self._bucket, self._golden)

    def store(self, fault: Fault | None = None) -> FaultyObjectStore:
        return FaultyObjectStore(self._bucket, fault)

    def fetched(self) -> Path:
        return fetch(self.store(), self.base, Path(tempfile.mkdtemp(dir=self._folder)))


class FaultyObjectStore(ObjectStore, Faulted):
    """With at most one fault at a write; keeps the names of all writes."""

    def __init__(self, bucket: str, fault: Fault | None) -> None:
        super().__init__(parse_object_url(bucket), sleep=lambda seconds: None)
        self._fault = fault
        self.writes: list[str] = []

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        return self._write(f"replace {path}", lambda: ObjectStore.replace(self, path, data, expected=expected))

    def delete(self, path: str) -> bool:
        return self._write(f"delete {path}", lambda: ObjectStore.delete(self, path))

    def delete_folder(self, path: str) -> bool:
        return self._write(f"delete_folder {path}", lambda: ObjectStore.delete_folder(self, path))

    def list(self, folder: str) -> list[FileStatus]:
        self._live()
        return super().list(folder)

    def _write(self, write: str, act: Callable[[], T]) -> T:
        return self._carry_out(self.writes, write, act)


def carry_out(
    store: Storage, processes: ScriptedProcesses, planner: Planner = FULL, *, base: str = BASE
) -> CompactionReport:
    return compact(base, store, processes, planner, lock=StorageLockOptions(wait_seconds=0.0))  # type: ignore[arg-type]


def survive(kind: FaultKind, service: Service, lake: RemoteLake) -> None:
    """With a fault at each of the writes to a real server: every row is there, and running again finishes."""
    clean = lake.copy()
    store = clean.store()
    carry_out(store, ScriptedProcesses(), service.planner, base=clean.base)
    service.check_finished(clean.fetched())
    for number in spread(range(len(store.writes))):
        table, processes = lake.copy(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            carry_out(table.store(Fault(kind, number)), processes, service.planner, base=table.base)
        try:
            service.check_readable(table.fetched())
            processes.kill_all()
            carry_out(table.store(), processes, service.planner, base=table.base)
            service.check_finished(table.fetched())
        except BaseException as error:
            error.add_note(f"{kind} at write {number}: {store.writes[number]}")
            raise


def overtaken(lake: Lake, at: Callable[[str], bool], planner: Planner = FULL) -> tuple[list[str], BaseException | None]:
    """One is stopped at the first write that is `at`; another takes it for dead and does the work; then the first goes
    on. Returns its writes after that one, and what it ended with."""
    processes = ScriptedProcesses()
    sleeper = lake.store()
    slept: list[int] = []

    def sleep(write: str) -> None:
        if not slept and at(write):
            slept.append(len(sleeper.writes) + 1)  # it is not among them yet
            processes.kill_all()
            with suppress(AttemptLost):  # it finds an intent, rolls that forward, and says so
                carry_out(lake.store(), processes, planner)
            carry_out(lake.store(), processes, planner)

    sleeper.before = sleep
    error: BaseException | None = None
    try:
        carry_out(sleeper, processes, planner)
    except LakewardError as raised:
        error = raised
    assert slept, "it met no such write"
    return sleeper.writes[slept[0] :], error

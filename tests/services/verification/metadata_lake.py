"""A golden table in an object store, in memory, and one of its metadata table's own services: carried out there, killed
at a write, or overtaken at one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from tests.faults import Fault, FaultKind, Killed
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import METADATA_TIMELINE, timeline
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import clean_metadata, compact_metadata
from tests.services.metadata.run.test_compaction import base_files, metadata_leftovers, records
from tests.services.metadata.run.test_metadata_clean import compacted_copy, files, older_files

LOCK = StorageLockOptions(wait_seconds=0.0)


@dataclass(frozen=True)
class Service:
    """What is done, with the table before it, and what is true of it afterwards."""

    name: str
    action: str
    bring_golden: Callable[[str, Path], Path]
    run: Callable[..., object]

    def completed(self, table: Path) -> list[str]:
        return self._instants(table, State.COMPLETED)

    def check_ended(self, table: Path, before: Path) -> None:
        """Once, whole, and nothing of an attempt is left."""
        completed = self.completed(table)
        assert len(completed) == len(set(completed)) == len(self.completed(before)) + 1
        assert self._instants(table, State.REQUESTED) == self._instants(table, State.INFLIGHT) == completed
        assert metadata_leftovers(table) == []
        if self.name == "compact":
            assert {instant for _, instant in base_files(table) - base_files(before)} == {completed[-1]}
        else:
            assert files(table) == files(before) - older_files(before)

    def _instants(self, table: Path, state: State) -> list[str]:
        action = "commit" if (self.action, state) == ("compaction", State.COMPLETED) else self.action
        return [i.time for i in timeline(table, METADATA_TIMELINE) if (i.action, i.state) == (action, state)]


COMPACT = Service("compact", "compaction", copy_golden, compact_metadata)
CLEAN = Service("clean", "clean", compacted_copy, clean_metadata)


class Lake:
    """A golden table in a store, as it is before the service."""

    def __init__(self, folder: Path, golden: str, service: Service, *, base: str = BASE) -> None:
        self.service, self.base = service, base
        self.before = service.bring_golden(golden, folder / "golden")
        self.records = records(self.before)
        self._folder = folder
        self.objects = Objects()
        bring(self.before, MemoryObjects(self.objects), base)

    def copy(self) -> Lake:
        other = object.__new__(Lake)
        other.__dict__.update(self.__dict__)
        other.objects = Objects(dict(self.objects.data), self.objects.versions)
        return other

    def store(self, fault: Fault | None = None) -> MemoryObjects:
        return MemoryObjects(self.objects, fault)

    def run(self, store: MemoryObjects | None = None, processes: ScriptedProcesses | None = None) -> object:
        return self.service.run(self.base, store or self.store(), processes, lock=LOCK)

    def writes(self) -> list[str]:
        store = self.copy().store()
        self.service.run(self.base, store, lock=LOCK)
        return store.writes

    def fetched(self) -> Path:
        return fetch(self.store(), self.base, Path(tempfile.mkdtemp(dir=self._folder)))

    def check_read(self) -> Path:
        """Readers find the same records. Returns the table."""
        table = self.fetched()
        assert records(table) == self.records
        return table

    def check_ended(self) -> None:
        self.service.check_ended(self.check_read(), self.before)

    def died(self, at: Callable[[str], bool], processes: ScriptedProcesses | None = None) -> ScriptedProcesses:
        """The service's process died right after the first write that is `at`. Returns it, and others to come."""
        processes, store = processes or ScriptedProcesses(), self.store()

        def die(write: str) -> None:
            if at(write):
                store._fault = Fault(FaultKind.KILL, len(store.writes))

        store.before = die
        with pytest.raises(Killed):
            self.run(store, processes)
        processes.kill_all()
        return processes

    def overtaken(
        self, at: Callable[[MemoryObjects, str], bool], processes: ScriptedProcesses | None = None
    ) -> tuple[list[str], LakewardError | None]:
        """The process is stopped before the first write that is `at`; another takes it for dead and does the work; then
        the first goes on. Returns its writes from that one on, and what it ended with."""
        processes, sleeper = processes or ScriptedProcesses(), self.store()
        slept: list[int] = []

        def sleep(write: str) -> None:
            if not slept and at(sleeper, write):
                slept.append(len(sleeper.writes))
                processes.kill_all()
                self.run(processes=processes)
                self.check_read()

        sleeper.before = sleep
        error: LakewardError | None = None
        try:
            self.run(sleeper, processes)
        except LakewardError as raised:
            error = raised
        assert slept, "it met no such write"
        return sleeper.writes[slept[0] :], error

    def instant(self) -> str:
        """The instant of the service, which is pending."""
        times = {i.time for i in timeline(self.fetched(), METADATA_TIMELINE) if i.action == self.service.action}
        (found,) = times - set(self.service.completed(self.fetched()))
        return found


def states_intent(write: str) -> bool:
    return write.startswith("replace") and "/.heartbeat/" in write


def is_base_file(write: str) -> bool:
    """That is brought to its place."""
    return write.startswith("create") and write.endswith(f".{HFILE}")

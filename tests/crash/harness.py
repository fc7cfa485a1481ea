"""A service is stopped at every call to the storage that it makes, in every way a call can go wrong: one loop for all
services.

A service is a row: a table, what runs on it, and what must hold at every moment and in the end. `survive` runs the
service on a copy of the table, to learn its calls. For each fault it then runs it on another copy, where that one call
goes wrong; the process is dead afterwards, and the next one runs the service to its end.

    place   calls that go wrong               faults
    disk    all calls to a file system        all four
    store   all writes to an object store     all but a torn write, which a store does not know

Keeps:   a fault that a service never meets is an error, not a success (tests/crash/test_harness.py).
"""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from lakeward.base.errors import LakewardError
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from tests.called_storage import WRITES
from tests.crash.compacting import age_temporary_files
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.memory_objects import MemoryObjects, Objects
from tests.object_lake import BASE, KINDS, be_proved
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.runs import NIGHTLY, runs, spread

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


class Run(Protocol):
    """A process: `options` are those that the place asks for."""

    def __call__(self, base: Any, storage: Any, processes: ScriptedProcesses, /, **options: Any) -> object: ...


Check = Callable[[Path, Path], None]
"""Looks at a table beside one on which every call went well. A table in a store is fetched for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is stopped, and what must hold."""

    table: Path
    run: Run
    check_now: Check
    """True at every moment."""
    check_end: Check
    """True in the end."""
    before: Run | None = None
    """What has run at the same place before."""
    again: Run | None = None
    """What the next process runs, if it is something else."""
    where: Callable[[Sequence[str]], Sequence[int]] = lambda calls: range(len(calls))
    """The numbers of the calls that go wrong: all of them, unless it says otherwise."""
    processes: Callable[[], ScriptedProcesses] = ScriptedProcesses
    """The processes that run on a copy, which know who has died before."""
    every: int = 1
    """Each run takes seconds: CI's series is of one call in so many, from the last one on; `make nightly` runs all."""
    differs: int = 0
    """So many calls more or fewer a run may have, as where the names of new files decide how many others are written: a
    fault at one of the last calls may then come too late."""


class Place(StrEnum):
    DISK = "disk"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The faults that `make check` runs, and those that `make test` runs; `make nightly` runs all."""

    check: Collection[FaultKind] = ()
    test: Collection[FaultKind] = tuple(FaultKind)

    def marks(self, kind: FaultKind) -> list[pytest.MarkDecorator]:
        if kind not in self.test:
            return [pytest.mark.wide]
        return [] if kind in self.check else [pytest.mark.slow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A service on one table, and how often it is run where; a place without an extent is none of its places."""

    make: Callable[[str, Path], Case]
    """Makes the case, with a table of that name, in a folder."""
    table: str
    disk: Extent | None = None
    store: Extent | None = None
    patches: Mapping[str, object] = field(default_factory=dict)
    """Names of the service's that have another value meanwhile."""

    @property
    def name(self) -> str:
        return f"{self.make.__name__}-{self.table}"


def cases_of(rows: Iterable[Row]) -> list[ParameterSet]:
    """Each row at each of its places with each fault."""
    return [
        pytest.param(row, place, kind, marks=extent.marks(kind), id=f"{row.name}-{place}-{kind}")
        for row in rows
        for place, extent, kinds in ((Place.DISK, row.disk, tuple(FaultKind)), (Place.STORE, row.store, KINDS))
        if extent is not None
        for kind in kinds
    ]


class Copy(ABC):
    """A copy of the table, where one process after the other runs."""

    base: Path | str
    options: Mapping[str, object]

    @abstractmethod
    def storage(self, fault: Fault | None = None) -> FaultyStorage | MemoryObjects: ...

    @abstractmethod
    def calls_of(self, storage: Any) -> list[str]:
        """The calls of a process that can go wrong."""

    @contextmanager
    @abstractmethod
    def seen(self) -> Iterator[Path]:
        """The table as a folder."""

    @abstractmethod
    def pass_a_day(self) -> None: ...

    @abstractmethod
    def remove(self) -> None: ...


class DiskCopy(Copy):
    options: Mapping[str, object] = {}

    def __init__(self, table: Path, folder: Path) -> None:
        place = Path(tempfile.mkdtemp(dir=folder))
        self.base = Path(shutil.copytree(table, place / "table", copy_function=shutil.copy2))

    def storage(self, fault: Fault | None = None) -> FaultyStorage:
        return FaultyStorage(fault)

    def calls_of(self, storage: FaultyStorage) -> list[str]:
        return storage.calls

    @contextmanager
    def seen(self) -> Iterator[Path]:
        yield Path(self.base)

    def pass_a_day(self) -> None:
        age_temporary_files(Path(self.base))

    def remove(self) -> None:
        shutil.rmtree(Path(self.base).parent)


class StoreCopy(Copy):
    base = BASE
    options: Mapping[str, object] = {"lock": StorageLockOptions(wait_seconds=0.0)}

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = Objects(dict(objects.data), objects.versions)
        self._folder = folder

    def storage(self, fault: Fault | None = None) -> MemoryObjects:
        return MemoryObjects(self._objects, fault)

    def calls_of(self, storage: MemoryObjects) -> list[str]:
        return storage.writes

    @contextmanager
    def seen(self) -> Iterator[Path]:
        place = Path(tempfile.mkdtemp(dir=self._folder))
        yield fetch(self.storage(), BASE, place)
        shutil.rmtree(place)

    def pass_a_day(self) -> None:
        """An object is there whole or not at all, so nothing is waiting to grow old."""

    def remove(self) -> None:
        self._objects.data.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case at a place, and a run of it in which every call went well."""

    case: Case
    place: Place
    copy: Callable[[Path], Copy]
    calls: Sequence[str]
    whole: Path
    """The table after that run."""

    def faults(self, kind: FaultKind) -> list[Fault]:
        numbers = self.case.where(self.calls)
        if self.place is Place.DISK:
            return faults_of(kind, self.calls, numbers)
        return [Fault(kind, number) for number in numbers]


def prepare(row: Row, place: Place, folder: Path) -> Prepared:
    """Makes the table, and runs the service once without a fault."""
    case = row.make(row.table, folder / "made")
    copy: Callable[[Path], Copy]
    if place is Place.DISK:
        copy = partial(DiskCopy, case.table)
        if case.before is not None:
            case.before(case.table, FaultyStorage(), case.processes())
    else:
        be_proved(BASE)
        objects = Objects()
        bring(case.table, MemoryObjects(objects), BASE)
        copy = partial(StoreCopy, objects)
        if case.before is not None:
            case.before(BASE, MemoryObjects(objects), case.processes(), **StoreCopy.options)
    unhurt = copy(folder)
    storage = unhurt.storage()
    case.run(unhurt.base, storage, case.processes(), **unhurt.options)
    calls = tuple(unhurt.calls_of(storage))
    assert any(call.split()[0] in (*WRITES, "replace") for call in calls), (
        "a service that writes nothing proves nothing"
    )
    with unhurt.seen() as seen:
        whole = Path(shutil.copytree(seen, folder / "whole", copy_function=shutil.copy2))
    case.check_end(whole, whole)
    return Prepared(case=case, place=place, copy=copy, calls=calls, whole=whole)


def survive(
    prepared: Prepared, kind: FaultKind, folder: Path, *, see: Callable[[Path], None] = lambda base: None
) -> None:
    """Runs the service with each fault of a kind, and then once more without one.

    Args:
        see: looks at each table that is left, and at the end of it.
    """
    case = prepared.case
    faults = prepared.faults(kind)
    if case.every > 1 and not (NIGHTLY or runs(0) >= 100):
        faults = faults[:: -case.every]
    for fault in spread(faults):
        copy, processes = prepared.copy(folder), case.processes()
        storage = copy.storage(fault)
        try:
            with suppress(LakewardError, OSError, Killed):
                case.run(copy.base, storage, processes, **copy.options)
            is_late = fault.call >= len(prepared.calls) - case.differs
            assert is_late or len(copy.calls_of(storage)) > fault.call, "the service did not meet the fault"
            with copy.seen() as seen:
                case.check_now(seen, prepared.whole)
                see(seen)
            processes.kill_all()
            copy.pass_a_day()
            (case.again or case.run)(copy.base, copy.storage(), processes, **copy.options)
            with copy.seen() as seen:
                case.check_end(seen, prepared.whole)
                see(seen)
        except BaseException as error:
            error.add_note(f"{kind} at call {fault.call} of {len(prepared.calls)}: {prepared.calls[fault.call]}")
            raise
        copy.remove()

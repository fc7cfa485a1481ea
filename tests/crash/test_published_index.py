"""A write and the index that it uses, stopped at every call to the storage and to the index: at every moment
no key is missed and none is found where it is not."""

from __future__ import annotations

import copy
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import LakewardError
from lakeward.index.index_type import IndexType
from lakeward.protocol.attempts.heartbeat import find_intent
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.write.request import FileSizes
from tests.clocks import SkippingClock
from tests.crash.compacting import age_temporary_files
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.index.external.called_entries import CalledEntries, Process
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import truth
from tests.memory_objects import MemoryObjects, Objects
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.write.own_index import build, catch_up, located, located_alone, opener
from tests.write.writing import Row, new_table, write

pytestmark = pytest.mark.crash

KEYS = [f"k{number}" for number in range(7)]
FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "p", "a"), ("k3", 1, "q", "a")]
SECOND: list[Row] = [("k1", 2, "q", "b"), ("k3", 2, "q", "b"), ("k4", 2, "p", "b"), ("k5", 2, "r", "b")]
AFTER = {"k1": "q", "k2": "p", "k3": "q", "k4": "p", "k5": "r"}
"""The partition of each key: one moves, one stays, two are new."""
BY: dict[str, Any] = {"index": IndexType.POSTGRES, "moves_rows": True, "sizes": FileSizes(small_file=0)}
CLOCK = SkippingClock()


def made(path: Path, table_type: str) -> tuple[Path, MemoryEntries]:
    """A table, and an index that has it."""
    base = new_table(path, table_type=table_type)
    write(base, FIRST, clock=CLOCK)
    entries = MemoryEntries(is_global=True)
    build(base, entries)
    return base, entries


def write_second(base: Path | str, entries: MemoryEntries, process: Any, **others: Any) -> None:
    called: Process = process
    write(base, SECOND, storage=process, open_index=opener(CalledEntries(entries, called)), clock=CLOCK, **BY, **others)


def check_now(base: Path, entries: MemoryEntries) -> None:
    """True at every moment: the index is as right as it was."""
    assert located(base, entries, KEYS) == truth(base)


def check_done(base: Path, entries: MemoryEntries) -> None:
    """True in the end: the last write is in the index, and nothing of one that failed stays there."""
    assert {key: path for key, (path, _) in truth(base)} == AFTER
    check_now(base, entries)
    catch_up(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)
    completed = {each.time for each in scan(base).timeline.completed}
    assert completed.issuperset(entries.commits()[1])
    assert not entries.begun_beside_others()


def survives(base: Path, entries: MemoryEntries, fault: Fault, call: str) -> None:
    """The write with the fault, to copies of both, and then the same write once more."""
    table = Path(shutil.copytree(base, base.with_name(f"{fault.kind}-{fault.call}"), copy_function=shutil.copy2))
    index, processes = copy.deepcopy(entries), ScriptedProcesses()
    try:
        with suppress(LakewardError, OSError, Killed):
            write_second(table, index, FaultyStorage(fault), processes=processes)
        check_now(table, index)
        processes.kill_all()
        age_temporary_files(table)
        write_second(table, index, FaultyStorage(), processes=processes)
        check_done(table, index)
    except BaseException as error:
        error.add_note(f"{fault.kind} at call {fault.call}: {call}")
        raise
    shutil.rmtree(table)


def unhurt_calls(base: Path, entries: MemoryEntries) -> list[str]:
    """The calls of a write to copies of both that nothing happens to."""
    table = Path(shutil.copytree(base, base.with_name("unhurt"), copy_function=shutil.copy2))
    index, unhurt = copy.deepcopy(entries), FaultyStorage()
    write_second(table, index, unhurt)
    assert located_alone(table, index, KEYS) == truth(table)
    check_done(table, index)
    return unhurt.calls


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"], ids=["mor", "cow"])
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.wide)], ids=["since", "whole"])
def test_a_death_at_any_call(table_type: str, whole: bool, tmp_path: Path) -> None:
    """The process dies behind each call that changes the table or the index, since it began with the index."""
    base, entries = made(tmp_path / "t", table_type)
    calls = unhurt_calls(base, entries)
    first = 0 if whole else calls.index("create index/begin")
    for fault in spread(faults_of(FaultKind.KILL, calls, range(first, len(calls)))):
        survives(base, entries, fault, calls[fault.call])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.LOST_REPLY, FaultKind.TORN])
def test_a_call_to_the_index_goes_wrong(kind: FaultKind, tmp_path: Path) -> None:
    """It fails, loses its reply or is torn: then the write fails or not, and the index is right either way."""
    base, entries = made(tmp_path / "t", "MERGE_ON_READ")
    calls = unhurt_calls(base, entries)
    of_index = [number for number, call in enumerate(calls) if " index/" in call]
    assert len(of_index) > 4
    for number in of_index:
        if kind is FaultKind.BEFORE or calls[number].startswith("create"):
            survives(base, entries, Fault(kind, number), calls[number])


@pytest.mark.wide
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.LOST_REPLY, FaultKind.TORN])
def test_any_call_goes_wrong(kind: FaultKind, tmp_path: Path) -> None:
    """The same of the calls to the storage."""
    base, entries = made(tmp_path / "t", "MERGE_ON_READ")
    calls = unhurt_calls(base, entries)
    for fault in spread(faults_of(kind, calls)):
        survives(base, entries, fault, calls[fault.call])


@pytest.mark.slow
def test_a_death_in_an_object_store(tmp_path: Path) -> None:
    """A write states its intent there: the process dies behind each call since the index has its entries, and what it
    stated is completed by the next one. Keeps 1 of write/own_index."""
    base, entries = made(tmp_path / "t", "MERGE_ON_READ")
    objects, options = Objects(), {"lock": StorageLockOptions(wait_seconds=0.0)}
    bring(base, MemoryObjects(objects), BASE)

    def fetched(of: Objects) -> Path:
        return fetch(MemoryObjects(of), BASE, Path(tempfile.mkdtemp(dir=tmp_path)))

    def copied() -> tuple[Objects, MemoryEntries]:
        return Objects(dict(objects.data), objects.versions), copy.deepcopy(entries)

    (unhurt, index), store = copied(), MemoryObjects(objects)
    store = MemoryObjects(unhurt)
    write_second(BASE, index, store, options=options)
    check_done(fetched(unhurt), index)
    first = next(number for number, call in enumerate(store.writes) if call.endswith("index/finish"))
    has_written = []
    for number in range(first, len(store.writes), 3):
        (stopped, index), processes = copied(), ScriptedProcesses()
        process = MemoryObjects(stopped, Fault(FaultKind.KILL, number))
        with suppress(Killed):
            write_second(BASE, index, process, processes=processes, options=options)
        beats = MemoryObjects(stopped).list(f"{BASE}/.hoodie/.heartbeat")
        has_written += [find_intent(MemoryObjects(stopped), BASE, each.name) is not None for each in beats]
        check_now(fetched(stopped), index)
        processes.kill_all()
        write_second(BASE, index, MemoryObjects(stopped), processes=processes, options=options)
        check_done(fetched(stopped), index)
    assert any(has_written) and not all(has_written)

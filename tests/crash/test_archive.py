"""Archiving stopped at every storage call, in every way a call can go wrong, with and without a metadata table: every
instant is on the timeline or in the archive, what its files hold is read as before, and the next run ends it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.archive.run import archiver
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import age_temporary_files, everything, is_leftover
from tests.crash.test_clean import kinds
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import copy_golden, expected_rows
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.object_lake import BASE, KINDS
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.archive.run.archiving import all_instants, archive, archived_rows, completed, history_of
from tests.services.metadata.run.compacting_metadata import serviced_table

pytestmark = pytest.mark.crash

TABLES = ("v9", WITH_METADATA)


@pytest.fixture(autouse=True)
def batches_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that levels are merged, too."""
    monkeypatch.setattr(archiver, "BATCH_INSTANTS", 1)


def check_whole(base: Path, golden: str, before: Path) -> None:
    """True at every moment."""
    assert all_instants(base) == all_instants(before)
    assert read_rows(base) == expected_rows(golden)
    # A pending file of an instant that is completed does not outlive its completed file.
    names = {path.name for path in (base / ".hoodie" / "timeline").iterdir() if path.is_file()}
    done = {each.time for each in completed(base)}
    pending = {name.partition(".")[0] for name in names if name.endswith((".requested", ".inflight"))}
    assert pending <= done


def check_archived(base: Path, golden: str, before: Path, whole: Path) -> None:
    """True in the end."""
    check_whole(base, golden, before)
    assert completed(base) == completed(whole)
    rows = archived_rows(base)
    assert rows == archived_rows(whole) and len(rows) == len(set(rows))
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    with table.locked():
        table.sweep(table.snapshot(only=()))
    assert [path for path in everything(base) if is_leftover(path)] == []


@pytest.mark.parametrize("kind", kinds(FaultKind, in_check=(FaultKind.KILL, FaultKind.BEFORE)))
@pytest.mark.parametrize("golden", TABLES)
def test_archiving_survives_every_fault(golden: str, kind: FaultKind, tmp_path: Path) -> None:
    """Whatever call fails, dies, tears or loses its reply: running again ends it. Keeps 3 and 4 of
    services/archive/run/archiver."""
    table = copy_golden(golden, tmp_path / "table")
    unhurt = FaultyStorage()
    whole = Path(shutil.copytree(table, tmp_path / "whole", copy_function=shutil.copy2))
    archive(whole, unhurt)
    check_archived(whole, golden, table, whole)
    assert [file.level for file in history_of(whole).sizes] == [1]
    for fault in spread(faults_of(kind, unhurt.calls)):
        base = Path(shutil.copytree(table, tmp_path / f"{kind}-{fault.call}", copy_function=shutil.copy2))
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                archive(base, FaultyStorage(fault), processes)
            check_whole(base, golden, table)
            processes.kill_all()
            age_temporary_files(base)
            archive(base, FaultyStorage(), processes)
            check_archived(base, golden, table, whole)
        except BaseException as error:
            error.add_note(f"{kind} at call {fault.call}: {unhurt.calls[fault.call]}")
            raise
        shutil.rmtree(base)


@pytest.mark.parametrize("kind", kinds(KINDS, in_check=(FaultKind.KILL,)))
def test_archiving_in_an_object_store_survives_every_fault(kind: FaultKind, tmp_path: Path) -> None:
    """The same where nothing is renamed. Keeps 3 of services/archive/run/archiver."""
    table = copy_golden("v9", tmp_path / "table")
    objects = Objects()
    bring(table, MemoryObjects(objects), BASE)

    def copied() -> Objects:
        return Objects(dict(objects.data), objects.versions)

    def fetched(from_store: Objects) -> Path:
        return fetch(MemoryObjects(from_store), BASE, Path(tempfile.mkdtemp(dir=tmp_path)))

    lock = StorageLockOptions(wait_seconds=0.0)
    unhurt = copied()
    store = MemoryObjects(unhurt)
    archive(BASE, store, lock=lock)
    whole = fetched(unhurt)
    check_archived(whole, "v9", table, whole)
    for number in spread(range(len(store.writes))):
        stopped, processes = copied(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            archive(BASE, MemoryObjects(stopped, Fault(kind, number)), processes, lock=lock)
        try:
            check_whole(fetched(stopped), "v9", table)
            processes.kill_all()
            archive(BASE, MemoryObjects(stopped), processes, lock=lock)
            check_archived(fetched(stopped), "v9", table, whole)
        except BaseException as error:
            error.add_note(f"{kind} at write {number}: {store.writes[number]}")
            raise

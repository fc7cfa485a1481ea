"""A clean stopped at every storage call, in every way a call can go wrong, with and without a metadata table: nothing
that readers read is ever gone, and the next run ends it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from tests.crash import metadata_compacting
from tests.crash.compacting import age_temporary_files, check_readable, everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import expected_rows
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.object_lake import BASE, KINDS
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.clean.run.cleaning import NATIVE, choose_old, clean, compacted, completed_cleans, data_files

pytestmark = pytest.mark.crash

TABLES = ("v9", WITH_METADATA, pytest.param(NATIVE, marks=pytest.mark.wide))


def check_rows(base: Path, golden: str) -> None:
    """True at every moment; the metadata table may list files for a while that are gone."""
    assert read_rows(base) == expected_rows("v9" if golden == NATIVE else golden)


def check_cleaned(base: Path, golden: str, left: set[str]) -> None:
    """True in the end: the dead slice is gone and nothing else, one clean says so, nothing of ours is left over."""
    check_rows(base, golden)
    assert data_files(base) == left
    assert len(completed_cleans(base)) == 1
    assert [path for path in everything(base) if is_leftover(path)] == []
    assert choose_old(scan(base)) is None
    if golden == WITH_METADATA:
        metadata_compacting.check_agrees(base)
    else:
        check_readable(base)


def kinds(of: Iterable[FaultKind], *, in_check: Collection[FaultKind]) -> list[object]:
    """The kinds as parameters; what `make check` leaves out is slow."""
    return [pytest.param(kind, marks=() if kind in in_check else pytest.mark.slow) for kind in of]


@pytest.mark.parametrize("kind", kinds(FaultKind, in_check=(FaultKind.KILL, FaultKind.BEFORE)))
@pytest.mark.parametrize("golden", TABLES)
def test_a_clean_survives_every_fault(golden: str, kind: FaultKind, tmp_path: Path):
    """Whatever call fails, dies, tears or loses its reply: running again ends it. Keeps 2 of
    services/clean/run/cleaner."""
    table = compacted(golden, tmp_path / "table")
    unhurt = FaultyStorage()
    whole = Path(shutil.copytree(table, tmp_path / "whole", copy_function=shutil.copy2))
    clean(whole, unhurt)
    left = data_files(whole)
    check_cleaned(whole, golden, left)
    assert left < data_files(table)
    for fault in spread(faults_of(kind, unhurt.calls)):
        base = Path(shutil.copytree(table, tmp_path / f"{kind}-{fault.call}", copy_function=shutil.copy2))
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                clean(base, FaultyStorage(fault), processes)
            check_rows(base, golden)
            assert left <= data_files(base)
            processes.kill_all()
            age_temporary_files(base)
            clean(base, FaultyStorage(), processes)
            check_cleaned(base, golden, left)
        except BaseException as error:
            error.add_note(f"{kind} at call {fault.call}: {unhurt.calls[fault.call]}")
            raise
        shutil.rmtree(base)


@pytest.mark.parametrize("kind", kinds(KINDS, in_check=(FaultKind.KILL,)))
@pytest.mark.parametrize("golden", TABLES)
def test_a_clean_in_an_object_store_survives_every_fault(golden: str, kind: FaultKind, tmp_path: Path):
    """The same where attempts are kept apart by commit intents: what one stated is rolled forward."""
    table = compacted(golden, tmp_path / "table")
    objects = Objects()
    bring(table, MemoryObjects(objects), BASE)

    def copied() -> Objects:
        return Objects(dict(objects.data), objects.versions)

    def fetched(from_store: Objects) -> Path:
        return fetch(MemoryObjects(from_store), BASE, Path(tempfile.mkdtemp(dir=tmp_path)))

    lock = StorageLockOptions(wait_seconds=0.0)
    unhurt = copied()
    store = MemoryObjects(unhurt)
    clean(BASE, store, lock=lock)
    whole = fetched(unhurt)
    left = data_files(whole)
    check_cleaned(whole, golden, left)
    assert left < data_files(table)
    for number in spread(range(len(store.writes))):
        stopped, processes = copied(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            clean(BASE, MemoryObjects(stopped, Fault(kind, number)), processes, lock=lock)
        try:
            before = fetched(stopped)
            check_rows(before, golden)
            assert left <= data_files(before)
            processes.kill_all()
            clean(BASE, MemoryObjects(stopped), processes, lock=lock)
            check_cleaned(fetched(stopped), golden, left)
        except BaseException as error:
            error.add_note(f"{kind} at write {number}: {store.writes[number]}")
            raise

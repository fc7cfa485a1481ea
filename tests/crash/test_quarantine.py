"""A clean that keeps what it takes away, and its undo, stopped at every storage call: no byte is ever lost."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.clean.run.undoing import undo_clean
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import load_quarantine
from tests.crash import metadata_compacting
from tests.crash.compacting import age_temporary_files, everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import expected_rows
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.clean.run.cleaning import choose_old, clean, compacted, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table

pytestmark = pytest.mark.crash

TABLES = ("v9", WITH_METADATA)
KINDS = [FaultKind.KILL, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (FaultKind.BEFORE, FaultKind.TORN))]
HOUR = 3600.0
LOCK = StorageLockOptions(wait_seconds=0.0)


def run_clean(base: Path | str, storage: Storage, processes: ScriptedProcesses, **options: object) -> None:
    clean(base, storage, processes, keep_seconds=HOUR, **options)


def run_undo(base: Path | str, storage: Storage, processes: ScriptedProcesses, **options: object) -> None:
    """Undo the oldest run that there is; nothing where it is undone."""
    table = serviced_table(str(base), storage, processes, **options)
    if runs := load_quarantine(storage, str(base)).runs:
        undo_clean(table, runs[0].run)
    else:
        Cleaner(table, {}).end_pending()  # what a dead process left over goes


STEPS = {"clean": run_clean, "undo": run_undo}


def contents(base: Path) -> dict[str, bytes]:
    """Data files by path below the table, wherever they are: in their places, or in the quarantine."""
    found = {path: (base / path).read_bytes() for path in data_files(base)}
    for run in (base / ".hoodie" / ".quarantine").glob("*/files"):
        for path in run.rglob("*"):
            if path.is_file() and path.suffix != ".crc":
                found[str(path.relative_to(run))] = path.read_bytes()
    return found


def check_rows(base: Path, golden: str) -> None:
    assert read_rows(base) == expected_rows(golden)


def check_ended(base: Path, golden: str, step: str, all_files: set[str]) -> None:
    check_rows(base, golden)
    # What is below the quarantine goes with its run.
    assert [path for path in everything(base) if is_leftover(path) and ".quarantine" not in str(path)] == []
    stands = step == "clean" and data_files(base) == all_files  # in an object store, and the metadata table lists less
    if golden == WITH_METADATA and not stands:
        metadata_compacting.check_agrees(base)
    if step == "undo":
        assert data_files(base) == all_files and not list((base / ".hoodie" / ".quarantine").glob("*"))
        assert len(completed_cleans(base)) == 2 and choose_old(scan(base)) is not None
    else:
        assert len(completed_cleans(base)) == 1


def prepared(golden: str, step: str, folder: Path) -> Path:
    """The table as it is before the step."""
    table = compacted(golden, folder)
    if step == "undo":
        run_clean(table, FaultyStorage(), ScriptedProcesses())
    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("golden", TABLES)
@pytest.mark.parametrize("step", STEPS)
def test_no_byte_is_lost(step: str, golden: str, kind: FaultKind, tmp_path: Path):
    """Whatever call goes wrong, each file is somewhere as it was, readers see the same rows, and the next run ends it.
    Keeps 3 of services/clean/run/undo_run."""
    table = prepared(golden, step, tmp_path / "table")
    before = contents(table)
    unhurt = FaultyStorage()
    whole = Path(shutil.copytree(table, tmp_path / "whole", copy_function=shutil.copy2))
    STEPS[step](whole, unhurt, ScriptedProcesses())
    check_ended(whole, golden, step, set(before))
    for fault in spread(faults_of(kind, unhurt.calls)):
        base = Path(shutil.copytree(table, tmp_path / f"{kind}-{fault.call}", copy_function=shutil.copy2))
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                STEPS[step](base, FaultyStorage(fault), processes)
            check_rows(base, golden)
            assert contents(base) == before
            processes.kill_all()
            age_temporary_files(base)
            STEPS[step](base, FaultyStorage(), processes)
            assert contents(base) == before
            check_ended(base, golden, step, set(before))
        except BaseException as error:
            error.add_note(f"{kind} at call {fault.call}: {unhurt.calls[fault.call]}")
            raise
        shutil.rmtree(base)


@pytest.mark.parametrize("golden", TABLES)
@pytest.mark.parametrize("step", STEPS)
def test_no_byte_is_lost_in_an_object_store(step: str, golden: str, tmp_path: Path):
    """The same where files stay in their places until they are deleted."""
    table = compacted(golden, tmp_path / "table")
    before = contents(table)
    objects = Objects()
    bring(table, MemoryObjects(objects), BASE)
    if step == "undo":
        run_clean(BASE, MemoryObjects(objects), ScriptedProcesses(), lock=LOCK)

    def copied() -> Objects:
        return Objects(dict(objects.data), objects.versions)

    def fetched(from_store: Objects) -> Path:
        return fetch(MemoryObjects(from_store), BASE, Path(tempfile.mkdtemp(dir=tmp_path)))

    whole = MemoryObjects(unhurt := copied())
    STEPS[step](BASE, whole, ScriptedProcesses(), lock=LOCK)
    check_ended(fetched(unhurt), golden, step, set(before))
    for number in spread(range(len(whole.writes))):
        stopped, processes = copied(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            STEPS[step](BASE, MemoryObjects(stopped, Fault(FaultKind.KILL, number)), processes, lock=LOCK)
        try:
            base = fetched(stopped)
            check_rows(base, golden)
            assert contents(base) == before
            processes.kill_all()
            STEPS[step](BASE, MemoryObjects(stopped), processes, lock=LOCK)
            base = fetched(stopped)
            assert contents(base) == before
            check_ended(base, golden, step, set(before))
        except BaseException as error:
            error.add_note(f"killed at write {number}: {whole.writes[number]}")
            raise

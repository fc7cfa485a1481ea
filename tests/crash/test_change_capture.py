"""A compaction of a table that captures changes, stopped where it writes: no log of changes is seen that no commit
names, and running again, or taking the plan back, leaves none over.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from tests.crash.capturing import (
    change_logs,
    check_captured,
    check_capturing,
    copy_capturing,
    named_change_logs,
)
from tests.crash.compacting import age_temporary_files, compact, compactor, everything, left_of
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.processes import ScriptedProcesses
from tests.runs import spread

pytestmark = pytest.mark.crash


def calls_of(folder: Path, *, native: bool = False) -> list[str]:
    storage = FaultyStorage()
    base = copy_capturing(folder / "clean", native=native)
    compact(base, storage, ScriptedProcesses())
    check_captured(base)
    return storage.calls


def at_change_log(calls: Sequence[str]) -> list[Fault]:
    """A process dies after it has written the log of changes, or has moved it to its place."""
    numbers = [number for number, call in enumerate(calls) if call.endswith((".cdc", ".cdc.parquet"))]
    return [Fault(FaultKind.KILL, number) for number in numbers if calls[number].startswith(("close", "move"))]


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        pytest.param(None, False, id="at-the-change-log"),
        pytest.param(None, True, id="at-the-native-change-log", marks=pytest.mark.wide),
        *(
            pytest.param(kind, native, id=f"{kind}-{'native' if native else 'inline'}", marks=pytest.mark.wide)
            for kind in FaultKind
            for native in (False, True)
        ),
    ],
)
def test_a_compaction_survives(kind: FaultKind | None, native: bool, tmp_path: Path) -> None:
    """Whatever call fails, dies, tears or loses its reply: readers see no log of changes that no completed commit
    names, and running again ends with one. So it is with native ones."""
    calls = calls_of(tmp_path, native=native)
    for fault in at_change_log(calls) if kind is None else spread(faults_of(kind, calls)):
        base = copy_capturing(tmp_path / f"{fault.kind}-{fault.call}", native=native)
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                compact(base, FaultyStorage(fault), processes)
            check_capturing(base)
            processes.kill_all()
            age_temporary_files(base)
            compact(base, FaultyStorage(), processes)
            check_captured(base)
        except BaseException as error:
            error.add_note(f"{fault.kind} at call {fault.call}: {calls[fault.call]}")
            raise
        shutil.rmtree(base)


def test_it_is_taken_back_whole(tmp_path: Path) -> None:
    """A process died with all in its place and the metadata table's commit made: unscheduled, nothing is left."""
    calls = calls_of(tmp_path)
    base, processes = copy_capturing(tmp_path / "table"), ScriptedProcesses()
    before = everything(base)
    committed = next(number for number, call in enumerate(calls) if call.startswith("link"))
    with pytest.raises(Killed):
        compact(base, FaultyStorage(Fault(FaultKind.KILL, committed)), processes)
    (instant,) = {i.time for i in timeline(base, DATA_TIMELINE) if i.action == "compaction"}
    assert len(change_logs(base)) == 1 and named_change_logs(base) == {}
    check_capturing(base)
    processes.kill_all()

    compactor(base, FaultyStorage(), processes).unschedule(instant)

    assert left_of(base, instant) == []
    assert everything(base) == before

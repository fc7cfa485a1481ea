"""A LOG of a table of version 10, which leaves a file of rows and one of deletes, stopped at every storage call.

In the end both are committed, once, or neither is there; whichever of its calls went wrong, a query reads the same.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError
from lakeward.format.timeline.instant import State
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from tests.clocks import SkippingClock
from tests.crash.compacting import age_temporary_files, compact, everything, instants, is_leftover
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.native_table import PARTITION, NativeTable, Record
from tests.processes import ScriptedProcesses
from tests.runs import spread

pytestmark = pytest.mark.crash

GROUP = "g-0"


def log_planner(form: str) -> Planner:
    return planner_of(CompactionType.LOG, GroupFilter(), {"planner.publish": form})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> NativeTable:
    """Three writes of rows and deletes on a base file."""
    table = NativeTable(tmp_path_factory.mktemp("native") / "table", by_event_time=True)
    table.insert(GROUP, [Record(f"k{number}", 10, "a") for number in range(6)])
    for at in range(3):
        table.write({GROUP: [Record("k0", 12 - at, "b"), Record(f"n{at}", at, "new"), Record(f"k{1 + at}", 11, None)]})
    return table


def check_finished(table: NativeTable, base: Path) -> None:
    """True in the end: one commit of it, both files, and nothing of ours left over."""
    table.check(base)
    times = {i.time for i in instants(base) if i.action in ("compaction", "logcompaction")}
    assert len(times) == 1, times
    assert [i.state for i in instants(base) if i.time in times].count(State.COMPLETED) == 1
    new = [path.name.partition(next(iter(times)))[2] for path in (base / PARTITION).iterdir()]
    assert sorted(name for name in new if name) == ["_1.deletes.parquet", "_1.log.parquet"]
    assert [path for path in everything(base) if is_leftover(path)] == []


CASES = [pytest.param(form, kind, 1, marks=pytest.mark.wide) for form in ("hybrid", "split") for kind in FaultKind]


@pytest.mark.parametrize(("form", "kind", "step"), [("hybrid", FaultKind.KILL, 6), *CASES])
def test_a_log_survives_every_fault(table: NativeTable, form: str, kind: FaultKind, step: int, tmp_path: Path) -> None:
    """Whatever call fails, dies, tears or loses its reply: no row is ever lost, and running again finishes."""
    planner, clock = log_planner(form), SkippingClock()
    clean = FaultyStorage()
    done = Path(shutil.copytree(table.base, tmp_path / "clean"))
    compact(done, clean, ScriptedProcesses(), planner, clock=clock)
    check_finished(table, done)
    for fault in spread(faults_of(kind, clean.calls)[::-step]):
        base = Path(shutil.copytree(table.base, tmp_path / f"{fault.kind}-{fault.call}"))
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                compact(base, FaultyStorage(fault), processes, planner, clock=clock)
            table.check(base)
            processes.kill_all()
            age_temporary_files(base)
            compact(base, FaultyStorage(), processes, planner, clock=clock)
            check_finished(table, base)
        except BaseException as error:
            error.add_note(f"{fault.kind} at call {fault.call}: {clean.calls[fault.call]}")
            raise
        shutil.rmtree(base)

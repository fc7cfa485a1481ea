"""One compaction, one log compaction, and the unscheduling of either, stopped at every one of their storage calls, in
every way a call can go wrong.

After each fault our reader judges the table, then a second process runs the command again and our reader judges
the end. Hudi judges each distinct state that a table was left in, and the end: in CI those that a process leaves which
dies at a call, in the larger set those of every fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.errors import LakewardError
from lakeward.services.compaction.plan.planner import Planner
from tests.crash.compacting import (
    FULL,
    LOG,
    age_temporary_files,
    check_finished,
    check_log_compacted,
    check_readable,
    compact,
    compactor,
    everything,
    instants,
    left_of,
    state_of,
)
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import copy_golden, expected_rows
from tests.processes import ScriptedProcesses
from tests.runs import spread

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.crash


@dataclass(frozen=True, slots=True)
class Service:
    """What is stopped, and what must be true when it was run again to its end."""

    name: str
    planner: Planner
    check_finished: Callable[[Path], None]


SERVICES = (Service("full", FULL, check_finished), Service("log", LOG, check_log_compacted))


def calls_of(service: Service, folder: Path) -> list[str]:
    storage = FaultyStorage()
    compact(copy_golden("v9", folder / "clean"), storage, ScriptedProcesses(), service.planner)
    service.check_finished(folder / "clean")
    return storage.calls


class Judge(StrEnum):
    """Which readers judge what a fault leaves: ours alone, or Hudi after it."""

    OURS = "ours"
    HUDI = "hudi"


def judged(service: Service, kind: FaultKind, *, rare: bool) -> list[ParameterSet]:
    """A case for each judge. Where CI does not ask Hudi, or leaves a rare case out, the larger set does it."""
    by_hudi = [pytest.mark.interop] if kind is FaultKind.KILL else [pytest.mark.interop, pytest.mark.wide]
    cases = [pytest.param(kind, service, Judge.HUDI, marks=by_hudi, id=f"{kind}-{service.name}-hudi")]
    if kind is not FaultKind.KILL and not rare:
        cases.append(pytest.param(kind, service, Judge.OURS, id=f"{kind}-{service.name}"))
    return cases


def is_rare(service: Service, kind: FaultKind) -> bool:
    """Whether both services leave the same: it is true of a lost reply and of a torn file."""
    return service.planner is LOG and kind in (FaultKind.LOST_REPLY, FaultKind.TORN)


KINDS = [(service, kind) for service in SERVICES for kind in FaultKind]
CASES = [case for service, kind in KINDS for case in judged(service, kind, rare=is_rare(service, kind))]
UNSCHEDULING_CASES = [case for service, kind in KINDS for case in judged(service, kind, rare=False)]


@pytest.mark.parametrize(("kind", "service", "judge"), CASES)
def test_a_service_survives_every_fault(
    kind: FaultKind, service: Service, judge: Judge, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever call fails, dies, tears or loses its reply: no row is ever lost, and running again finishes."""
    calls = calls_of(service, tmp_path)
    states: dict[tuple[str, ...], Path] = {}
    for fault in spread(faults_of(kind, calls)):
        where = f"{fault.kind} at call {fault.call}: {calls[fault.call]}"
        base = copy_golden("v9", tmp_path / f"{fault.kind}-{fault.call}")
        processes = ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            compact(base, FaultyStorage(fault), processes, service.planner)
        try:
            check_readable(base)
            if (state := state_of(base)) not in states:
                states[state] = Path(shutil.copytree(base, tmp_path / f"state-{len(states)}"))
            processes.kill_all()
            age_temporary_files(base)
            compact(base, FaultyStorage(), processes, service.planner)
            service.check_finished(base)
        except BaseException as error:
            error.add_note(where)
            raise
        if (end := state_of(base)) not in states:
            states[end] = base
        else:
            shutil.rmtree(base)
    if judge is Judge.HUDI:
        ask_hudi(request.getfixturevalue("spark"), states)


@pytest.mark.parametrize(("kind", "service", "judge"), UNSCHEDULING_CASES)
def test_unscheduling_survives_every_fault(
    kind: FaultKind, service: Service, judge: Judge, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A plan with a dead attempt at it: in the end both are there, or the plan alone, or neither; rows never change.
    Keeps 3 of services/compaction/run/unscheduling."""
    processes = ScriptedProcesses()
    dying = copy_golden("v9", tmp_path / "dying")
    before = everything(dying)
    publication = next(n for n, call in enumerate(calls_of(service, tmp_path)) if call.startswith("link"))
    with pytest.raises(Killed):
        compact(dying, FaultyStorage(Fault(FaultKind.KILL, publication - 1)), processes, service.planner)
    processes.kill_all()
    (instant,) = {i.time for i in instants(dying) if i.action in ("compaction", "logcompaction")}
    clean = FaultyStorage()
    unscheduled = Path(shutil.copytree(dying, tmp_path / "unscheduled"))
    compactor(unscheduled, clean, processes).unschedule(instant)
    assert everything(unscheduled) == before

    states: dict[tuple[str, ...], Path] = {}
    for fault in spread(faults_of(kind, clean.calls)):
        where = f"{fault.kind} at call {fault.call}: {clean.calls[fault.call]}"
        base = Path(shutil.copytree(dying, tmp_path / f"{fault.kind}-{fault.call}"))
        with suppress(LakewardError, OSError, Killed):
            compactor(base, FaultyStorage(fault), processes).unschedule(instant)
        processes.kill_all()
        try:
            check_readable(base)
            if (state := state_of(base)) not in states:
                states[state] = Path(shutil.copytree(base, tmp_path / f"state-{len(states)}"))
            age_temporary_files(base)
            compactor(base, FaultyStorage(), processes).unschedule(instant)
            assert left_of(base, instant) == []
            compact(base, FaultyStorage(), processes, service.planner)
            service.check_finished(base)
        except BaseException as error:
            error.add_note(where)
            raise
        shutil.rmtree(base)
    if judge is Judge.HUDI:
        ask_hudi(request.getfixturevalue("spark"), states)


def ask_hudi(spark: SparkSession, states: dict[tuple[str, ...], Path]) -> None:
    """Hudi reads the same rows in every state that a table was left in."""
    for state, base in states.items():
        frame = spark.read.format("hudi").load(str(base)).drop("_hoodie_file_name")
        rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["_hoodie_record_key"])
        assert rows == expected_rows("v9"), state

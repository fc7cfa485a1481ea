"""The same with the metadata table on: a service stopped at every call with which it publishes, and rolled back.

At every moment what the metadata table lists is what the storage holds of committed files; in the end it has all that
a commit must write into it, and nothing of an attempt that died.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeward.base.errors import LakewardError
from lakeward.format.timeline.instant import State
from tests.crash.compacting import age_temporary_files, compact, compactor, everything, left_of, state_of
from tests.crash.metadata_compacting import SERVICES, Service, check_finished, check_readable
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.golden_tables import copy_golden, expected_rows
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA_TIMELINE, timeline
from tests.processes import ScriptedProcesses
from tests.runs import spread

pytestmark = [pytest.mark.crash, pytest.mark.interop]


def calls_of(service: Service, folder: Path) -> list[str]:
    storage = FaultyStorage()
    base = copy_golden(GOLDEN, folder / "clean")
    compact(base, storage, ScriptedProcesses(), service.planner)
    check_finished(base, service)
    return [call.replace(f"{base}/", "") for call in storage.calls]


def publishing(calls: list[str]) -> range:
    """From the first log file that is written for the metadata table to the end."""
    first = next(n for n, call in enumerate(calls) if call.startswith("open_output") and "/.files-0000" in call)
    return range(first, len(calls))


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        pytest.param(
            service,
            kind,
            marks=[] if (service.name, kind) == ("full", FaultKind.KILL) else pytest.mark.wide,
            id=f"{service.name}-{kind}",
        )
        for service in SERVICES
        for kind in FaultKind
    ],
)
def test_publishing_survives_every_fault(service: Service, kind: FaultKind, tmp_path: Path, spark: SparkSession):
    """Running again finishes; Hudi sees the same rows by the metadata table in every state that was left."""
    calls = calls_of(service, tmp_path)
    states: dict[tuple[str, ...], Path] = {}
    for fault in spread(faults_of(kind, calls, publishing(calls))):
        base = copy_golden(GOLDEN, tmp_path / f"{fault.kind}-{fault.call}")
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                compact(base, FaultyStorage(fault), processes, service.planner)
            check_readable(base)
            keep(base, states, tmp_path)
            processes.kill_all()
            age_temporary_files(base)
            compact(base, FaultyStorage(), processes, service.planner)
            check_finished(base, service)
        except BaseException as error:
            error.add_note(f"{fault.kind} at call {fault.call}: {calls[fault.call]}")
            raise
        keep(base, states, tmp_path)
        shutil.rmtree(base)
    ask_hudi(spark, states)


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        pytest.param(
            service,
            kind,
            marks=[] if (service.name, kind) == ("log", FaultKind.KILL) else pytest.mark.wide,
            id=f"{service.name}-{kind}",
        )
        for service in SERVICES
        for kind in FaultKind
    ],
)
def test_taking_back_survives_every_fault(service: Service, kind: FaultKind, tmp_path: Path, spark: SparkSession):
    """A process dies between the metadata table's commit and the table's, and its plan is unscheduled: in the end
    nothing of the instant is left in either, and no reader saw a difference. Keeps 4 of protocol/attempt."""
    calls = calls_of(service, tmp_path)
    processes = ScriptedProcesses()
    dying = copy_golden(GOLDEN, tmp_path / "dying")
    before = everything(dying)
    committed = [n for n, call in enumerate(calls) if call.startswith("link")]
    with pytest.raises(Killed):
        compact(dying, FaultyStorage(Fault(FaultKind.KILL, committed[0])), processes, service.planner)
    processes.kill_all()
    (instant,) = {i.time for i in timeline(dying, DATA_TIMELINE) if i.action == service.pending}
    assert State.COMPLETED in {i.state for i in timeline(dying, METADATA_TIMELINE) if i.time == instant}
    check_readable(dying)
    clean = FaultyStorage()
    done = Path(shutil.copytree(dying, tmp_path / "done"))
    compactor(done, clean, processes).unschedule(instant)
    assert everything(done) == before

    states: dict[tuple[str, ...], Path] = {}
    for fault in spread(faults_of(kind, clean.calls)):
        base = Path(shutil.copytree(dying, tmp_path / f"{fault.kind}-{fault.call}"))
        try:
            with suppress(LakewardError, OSError, Killed):
                compactor(base, FaultyStorage(fault), processes).unschedule(instant)
            processes.kill_all()
            check_readable(base)
            keep(base, states, tmp_path)
            age_temporary_files(base)
            compactor(base, FaultyStorage(), processes).unschedule(instant)
            assert left_of(base, instant) == []
            check_readable(base)
        except BaseException as error:
            error.add_note(f"{fault.kind} at call {fault.call}: {clean.calls[fault.call]}")
            raise
        shutil.rmtree(base)
    ask_hudi(spark, states)


def keep(base: Path, states: dict[tuple[str, ...], Path], folder: Path) -> None:
    metadata = tuple(f"{instant.action}.{instant.state}" for instant in timeline(base, METADATA_TIMELINE))
    state = (*state_of(base), *metadata)
    if state not in states:
        states[state] = Path(shutil.copytree(base, folder / f"state-{len(states)}"))


def ask_hudi(spark: SparkSession, states: dict[tuple[str, ...], Path]) -> None:
    """Hudi reads the same rows by the metadata table in every state that a table was left in."""
    for state, base in states.items():
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(base))
        found = frame.drop("_hoodie_file_name").collect()
        rows = sorted((row.asDict() for row in found), key=lambda row: row["_hoodie_record_key"])
        assert rows == expected_rows(GOLDEN), state

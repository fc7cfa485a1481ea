"""A hybrid plan, FULL of one file group and LOG of another, stopped at every storage call, the metadata table on.

In the end it is committed once, with both outputs, whichever of its calls went wrong; Hudi sees the same rows by the
metadata table in every state that was left.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.errors import LakewardError
from lakeward.format.timeline.instant import State
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from tests.crash.compacting import age_temporary_files, compact, compactor, everything, is_leftover, state_of
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.hudi.golden_metadata import OPTIONS
from tests.hudi.table import HudiTable
from tests.interop.test_compaction import assert_verified
from tests.interop.test_hybrid_compaction import COMMIT, EVENT, rows, shape
from tests.metadata_golden import DATA_TIMELINE, METADATA_TIMELINE, timeline
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crash, pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

SETTINGS = {
    "planner.publish": "hybrid",
    "planner.small_base_size": "1KiB",
    "planner.log_ratio": "1",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}
PLANNER = planner_of(CompactionType.HYBRID, GroupFilter(), SETTINGS)


@pytest.fixture(scope="module", params=[COMMIT, EVENT])
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> HudiTable:
    """`hot` has large logs, `warm` three small ones, the second of them late by event time, the third of deletes."""
    path = tmp_path_factory.mktemp("hybrid") / "table"
    table = HudiTable(spark, path, replace(shape(request.param), options=OPTIONS))
    table.write(rows(spark, "hot", range(6), 10, "a").union(rows(spark, "warm", range(6), 10, "a")), "insert")
    table.write(rows(spark, "hot", range(4), 11, "b", 2000).union(rows(spark, "warm", range(4), 12, "b")), "upsert")
    table.write(rows(spark, "hot", range(2), 12, "c", 2000).union(rows(spark, "warm", range(2, 5), 9, "c")), "upsert")
    table.write(rows(spark, "warm", range(3, 5), 13, ""), "delete")
    for checksum in path.rglob(".*.crc"):
        checksum.unlink()  # Hadoop's; our storage writes none, and they are no part of what is compared
    return table


@pytest.mark.parametrize("kind", FaultKind)
def test_it_survives_every_fault(table: HudiTable, kind: FaultKind, tmp_path: Path) -> None:
    """Running again finishes what was planned, and plans nothing more."""
    expected = read_rows(table.path)
    clean = FaultyStorage()
    done = table.copy_to(tmp_path / "clean")
    compact(done.path, clean, ScriptedProcesses(), PLANNER)
    check_finished(done, expected)

    states: dict[tuple[str, ...], HudiTable] = {}
    for fault in faults_of(kind, clean.calls):
        faulted = table.copy_to(tmp_path / f"{fault.kind}-{fault.call}")
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                compact(faulted.path, FaultyStorage(fault), processes, PLANNER)
            check_readable(faulted, expected)
            keep(faulted, states, tmp_path)
            processes.kill_all()
            age_temporary_files(faulted.path)
            compact(faulted.path, FaultyStorage(), processes, PLANNER)
            check_finished(faulted, expected)
        except BaseException as error:
            error.add_note(f"{fault.kind} at call {fault.call}: {clean.calls[fault.call]}")
            raise
        keep(faulted, states, tmp_path)
        shutil.rmtree(faulted.path)
    by_hudi = table.snapshot()
    for state, left in states.items():
        assert left.snapshot(**{"hoodie.metadata.enable": "true"}) == by_hudi, state
        assert_verified(left)


def test_it_is_taken_back_whole(table: HudiTable, tmp_path: Path) -> None:
    """A process died with the metadata table's commit made and not the table's: unscheduled, nothing is left of it."""
    before = everything(table.path)
    clean = FaultyStorage()
    compact(table.copy_to(tmp_path / "clean").path, clean, ScriptedProcesses(), PLANNER)
    committed = next(number for number, call in enumerate(clean.calls) if call.startswith("link"))
    dying, processes = table.copy_to(tmp_path / "dying"), ScriptedProcesses()
    with pytest.raises(Killed):
        compact(dying.path, FaultyStorage(Fault(FaultKind.KILL, committed)), processes, PLANNER)
    processes.kill_all()
    (instant,) = dying.pending_instants()
    assert State.COMPLETED in {i.state for i in timeline(dying.path, METADATA_TIMELINE) if i.time == instant}

    compactor(dying.path, FaultyStorage(), processes).unschedule(instant)

    assert everything(dying.path) == before


def check_readable(table: HudiTable, expected: list[dict[str, Any]]) -> None:
    assert read_rows(table.path) == expected
    check_agrees(table.path)


def check_finished(table: HudiTable, expected: list[dict[str, Any]]) -> None:
    check_readable(table, expected)
    (instant,) = table.compactions()
    (commit,) = [i for i in timeline(table.path, DATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    assert commit.action == "commit"
    outputs = [name for name in table.data_files() if f"_{instant}." in name]
    assert Counter(name.partition("/")[0] for name in outputs) == {"hot": 1, "warm": 1}, outputs
    assert sorted(name.endswith(".parquet") for name in outputs) == [False, True]
    assert [path for path in everything(table.path) if is_leftover(path)] == []


def keep(table: HudiTable, states: dict[tuple[str, ...], HudiTable], folder: Path) -> None:
    metadata = tuple(f"{instant.action}.{instant.state}" for instant in timeline(table.path, METADATA_TIMELINE))
    state = (*state_of(table.path), *metadata)
    if state not in states:
        states[state] = table.copy_to(folder / f"state-{len(states)}")

"""Compactions, log compactions and the unscheduling of either, stopped at every call to the storage.

A row is one of them on one table; the loop is in tests/crash/harness.py. Hudi reads each distinct state that a process
leaves which dies at a call, and the end; in the larger set those of every fault.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.format.timeline.instant import State
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from tests.clocks import SkippingClock
from tests.crash import capturing, compacting, metadata_compacting
from tests.crash.compacting import (
    FULL,
    LOG,
    check_finished,
    check_log_compacted,
    compact,
    compactor,
    everything,
    instants,
    is_leftover,
    left_of,
    state_of,
)
from tests.crash.harness import Case, Extent, Place, Row, Run, cases_of
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden, expected_rows
from tests.metadata_golden import DATA_TIMELINE, METADATA_TIMELINE, timeline
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.native_table import PARTITION, NativeTable, Record
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.crash

BEFORE, LOST_REPLY, KILL, TORN = FaultKind
PLANNERS = {"full": FULL, "log": LOG}
ENDED = {"full": check_finished, "log": check_log_compacted}
OF_METADATA = {each.name: each for each in metadata_compacting.SERVICES}


def with_planner(planner: Planner, **words: Any) -> Run:
    def run(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        compact(base, storage, processes, planner, **words, **options)

    return run


def compacting_rows(name: str, folder: Path) -> Case:
    """No row is ever lost, and running again finishes. Keeps 2 of services/compaction/run/publication."""

    def check_now(base: Path, whole: Path) -> None:
        compacting.check_readable(base)

    def check_end(base: Path, whole: Path) -> None:
        ENDED[name](base)

    return Case(
        table=copy_golden("v9", folder),
        run=with_planner(PLANNERS[name]),
        check_now=check_now,
        check_end=check_end,
    )


def publishing_with_metadata(name: str, folder: Path) -> Case:
    """At every moment the metadata table lists what is committed; in the end it has all that a commit must write into
    it."""

    def check_now(base: Path, whole: Path) -> None:
        metadata_compacting.check_readable(base)

    def check_end(base: Path, whole: Path) -> None:
        metadata_compacting.check_finished(base, OF_METADATA[name])

    return Case(
        table=copy_golden(WITH_METADATA, folder),
        run=with_planner(PLANNERS[name]),
        check_now=check_now,
        check_end=check_end,
        where=from_the_metadata_table,
    )


def from_the_metadata_table(calls: Sequence[str]) -> range:
    """From the first log file that is written for it."""
    writes = ("open_output", "close", "create")
    first = next(n for n, call in enumerate(calls) if call.startswith(writes) and "/.files-0000" in call)
    return range(first, len(calls))


def unscheduling(name: str, folder: Path) -> Case:
    """A plan with a dead attempt at it: in the end both are there, or the plan alone, or neither; rows never change.
    Keeps 3 of services/compaction/run/unschedule."""
    before = everything(copy_golden("v9", folder.with_name("before")))
    table = copy_golden("v9", folder)
    processes = died_at_its_commit(table, PLANNERS[name], calls_before=1)
    (instant,) = {i.time for i in instants(table) if i.action in ("compaction", "logcompaction")}

    def check_now(base: Path, whole: Path) -> None:
        compacting.check_readable(base)

    def check_end(base: Path, whole: Path) -> None:
        assert left_of(base, instant) == []
        assert everything(whole) == before
        with tempfile.TemporaryDirectory(dir=base.parent) as scratch:
            again = Path(shutil.copytree(base, Path(scratch) / "table", copy_function=shutil.copy2))
            compact(again, FaultyStorage(), processes(), PLANNERS[name])
            ENDED[name](again)

    return Case(table=table, run=unschedule(instant), processes=processes, check_now=check_now, check_end=check_end)


def unscheduling_with_metadata(name: str, folder: Path) -> Case:
    """A process died between the metadata table's commit and the table's, and its plan is unscheduled: in the end
    nothing of the instant is left in either, and no reader saw a difference. Keeps 4 of protocol/attempts/attempt."""
    before = everything(copy_golden(WITH_METADATA, folder.with_name("before")))
    table = copy_golden(WITH_METADATA, folder)
    processes = died_at_its_commit(table, PLANNERS[name], calls_before=0)
    (instant,) = {i.time for i in timeline(table, DATA_TIMELINE) if i.action == OF_METADATA[name].pending}
    assert State.COMPLETED in {i.state for i in timeline(table, METADATA_TIMELINE) if i.time == instant}

    def check_now(base: Path, whole: Path) -> None:
        metadata_compacting.check_readable(base)

    def check_end(base: Path, whole: Path) -> None:
        assert left_of(base, instant) == []
        assert everything(whole) == before
        check_now(base, whole)

    return Case(table=table, run=unschedule(instant), processes=processes, check_now=check_now, check_end=check_end)


def unschedule(instant: str) -> Run:
    def run(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        compactor(base, storage, processes, **options).unschedule(instant)

    return run


def died_at_its_commit(table: Path, planner: Planner, *, calls_before: int) -> Callable[[], ScriptedProcesses]:
    """Compacts until so many calls before the first commit is there; returns the processes that know of the death."""
    trial, died = FaultyStorage(), ScriptedProcesses()
    copy = Path(shutil.copytree(table, table.with_name("trial"), copy_function=shutil.copy2))
    compact(copy, trial, ScriptedProcesses(), planner)
    commit = next(number for number, call in enumerate(trial.calls) if call.startswith("link"))
    with pytest.raises(Killed):
        compact(table, FaultyStorage(Fault(KILL, commit - calls_before)), died, planner)

    def processes() -> ScriptedProcesses:
        again = ScriptedProcesses()
        for _ in died.owners:
            again.new_owner()
        again.kill_all()
        return again

    return processes


def capturing_changes(form: str, folder: Path) -> Case:
    """Readers see no log of changes that no completed commit names, and running again ends with one."""

    def check_now(base: Path, whole: Path) -> None:
        capturing.check_capturing(base)

    def check_end(base: Path, whole: Path) -> None:
        capturing.check_captured(base)

    return Case(
        table=capturing.copy_capturing(folder, native=form == "native"),
        run=with_planner(FULL),
        check_now=check_now,
        check_end=check_end,
    )


def capturing_at_the_log(form: str, folder: Path) -> Case:
    """Right after the log of changes is written, or moved to its place."""
    case = capturing_changes(form, folder)

    def at_the_log(calls: Sequence[str]) -> list[int]:
        numbers = [number for number, call in enumerate(calls) if call.endswith((".cdc", ".cdc.parquet"))]
        return [number for number in numbers if calls[number].startswith(("close", "move"))]

    return Case(table=case.table, run=case.run, check_now=case.check_now, check_end=case.check_end, where=at_the_log)


def log_of_native_logs(form: str, folder: Path) -> Case:
    """A LOG of a table of version 10 leaves a file of rows and one of deletes: in the end both are committed, once, or
    neither is there, and at every moment a query reads the same. In the layout `lsm_tree` it takes the newest logs."""
    group, layout = "g-0", {"hoodie__table__storage__layout": "LSM_TREE"} if form == "lsm_tree" else {}
    table = NativeTable(folder, by_event_time=True, **layout)
    table.insert(group, [Record(f"k{number}", 10, "a") for number in range(6)])
    for at in range(3):
        table.write({group: [Record("k0", 12 - at, "b"), Record(f"n{at}", at, "new"), Record(f"k{1 + at}", 11, None)]})
    settings = {} if layout else {"planner.publish": form}
    planner = planner_of(CompactionType.LOG, GroupFilter(), settings, sources_retire=True)

    def check_now(base: Path, whole: Path) -> None:
        table.check(base)

    def check_end(base: Path, whole: Path) -> None:
        table.check(base)
        times = {i.time for i in instants(base) if i.action in ("compaction", "logcompaction")}
        assert len(times) == 1, times
        assert [i.state for i in instants(base) if i.time in times].count(State.COMPLETED) == 1
        new = [path.name.partition(next(iter(times)))[2] for path in (base / PARTITION).iterdir()]
        assert sorted(name for name in new if name) == ["_1.deletes.parquet", "_1.log.parquet"]
        assert [path for path in everything(base) if is_leftover(path)] == []

    run = with_planner(planner, clock=SkippingClock())
    return Case(table=table.base, run=run, check_now=check_now, check_end=check_end)


NOT_KILLED = Extent(check=(BEFORE, LOST_REPLY, TORN), test=(BEFORE, LOST_REPLY, TORN))
"""Hudi judges what a killed process leaves."""
ALL = Extent(check=tuple(FaultKind))
NIGHTLY = Extent(test=())
KILLED = Extent(check=(KILL,), test=(KILL,))

ROWS = (
    Row(make=compacting_rows, table="full", disk=NOT_KILLED, store=ALL),
    # A log compaction leaves the same after a lost reply and a torn file.
    Row(make=compacting_rows, table="log", disk=Extent(check=(BEFORE,), test=(BEFORE,)), store=ALL),
    Row(make=unscheduling, table="full", disk=NOT_KILLED),
    Row(make=unscheduling, table="log", disk=NOT_KILLED),
    Row(make=publishing_with_metadata, table="full", store=KILLED),
    Row(make=publishing_with_metadata, table="log", store=Extent(check=(LOST_REPLY,), test=(LOST_REPLY,))),
    Row(make=capturing_at_the_log, table="inline", disk=KILLED, store=Extent(check=ALL.check, test=(LOST_REPLY, KILL))),
    Row(make=capturing_at_the_log, table="native", disk=NIGHTLY),
    Row(make=capturing_changes, table="inline", disk=NIGHTLY, store=NIGHTLY),
    Row(make=capturing_changes, table="native", disk=NIGHTLY),
    Row(make=log_of_native_logs, table="hybrid", disk=KILLED),
    Row(make=log_of_native_logs, table="split", disk=NIGHTLY),
    Row(make=log_of_native_logs, table="lsm_tree", disk=NIGHTLY),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_a_compaction_survives_every_fault(
    row: Row, place: Place, kind: FaultKind, survives: Callable[..., None]
) -> None:
    """Whatever call fails, dies, tears or loses its reply: no row is ever lost, and running again ends it."""
    survives(row, place, kind)


JUDGED = (
    Row(make=compacting_rows, table="full", disk=KILLED),
    Row(make=compacting_rows, table="log", disk=KILLED),
    Row(make=unscheduling, table="full", disk=KILLED),
    Row(make=unscheduling, table="log", disk=KILLED),
    Row(make=publishing_with_metadata, table="full", disk=KILLED),
    Row(make=publishing_with_metadata, table="log", disk=NIGHTLY),
    Row(make=unscheduling_with_metadata, table="full", disk=NIGHTLY),
    Row(make=unscheduling_with_metadata, table="log", disk=KILLED),
)


@dataclass(frozen=True, slots=True)
class States:
    """A copy of each distinct state that a table was left in, by its shape and that of its metadata table."""

    folder: Path
    copies: dict[tuple[str, ...], Path] = field(default_factory=dict)

    def keep(self, base: Path) -> None:
        of_metadata = timeline(base, METADATA_TIMELINE) if (base / METADATA_TIMELINE).exists() else []
        state = (*state_of(base), *(f"{instant.action}.{instant.state}" for instant in of_metadata))
        if state not in self.copies:
            self.copies[state] = Path(shutil.copytree(base, self.folder / f"state-{len(self.copies)}"))


@pytest.mark.interop
@pytest.mark.parametrize(("row", "place", "kind"), cases_of(JUDGED))
def test_hudi_reads_every_state_that_a_fault_leaves(
    row: Row, place: Place, kind: FaultKind, survives: Callable[..., None], spark: SparkSession, tmp_path: Path
) -> None:
    """The same rows each time, by the metadata table where there is one."""
    states = States(tmp_path)
    survives(row, place, kind, see=states.keep)
    assert len(states.copies) > 1
    for state, base in states.copies.items():
        golden = WITH_METADATA if (base / METADATA_TIMELINE).exists() else "v9"
        reader = spark.read.format("hudi").option("hoodie.metadata.enable", str(golden == WITH_METADATA).lower())
        found = reader.load(str(base)).drop("_hoodie_file_name").collect()
        rows = sorted((row.asDict() for row in found), key=lambda row: row["_hoodie_record_key"])
        assert rows == expected_rows(golden), state


def test_a_captured_compaction_is_taken_back_whole(tmp_path: Path) -> None:
    """A process died with all in its place and the metadata table's commit made: unscheduled, nothing is left."""
    base = capturing.copy_capturing(tmp_path / "table")
    before = everything(base)
    processes = died_at_its_commit(base, FULL, calls_before=0)()
    (instant,) = {i.time for i in timeline(base, DATA_TIMELINE) if i.action == "compaction"}
    assert len(capturing.change_logs(base)) == 1 and capturing.named_change_logs(base) == {}
    capturing.check_capturing(base)

    compactor(base, FaultyStorage(), processes).unschedule(instant)

    assert left_of(base, instant) == []
    assert everything(base) == before

"""A table of version 6, by Hudi 0.15.0: FULL alone, with the writers stopped, and its rows stay those that 0.15.0 read.

On it are two writes that died, one of them taken back by a command in the logs; a plan of Hudi's; and a log on top of
it, whose name carries the plan's instant. `tests/interop/test_versions.py` asks 0.15.0 itself.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError, Refused
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.read.logs.log_scan import scan_slice_heads
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.unschedule import StillScheduled
from lakeward.storage.local import LocalStorage
from tests.called_storage import WRITES
from tests.crash.compacting import age_temporary_files, compact, everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import GOLDEN, copy_golden
from tests.metadata_golden import set_property
from tests.object_lake import Lake, carry_out
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.bench import Bench

EXPECTED = json.loads((GOLDEN / "v6_oldest" / "expected.json").read_text())
PLANNED = EXPECTED["instant"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v6_oldest", tmp_path / "table", pending=True))


def logs_on_the_plan(base: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in base.glob(f"p*/.*_{PLANNED}.log.*")}


def test_the_rows_are_those_of_the_oldest_release(bench: Bench) -> None:
    """Blocks of writes that did not complete are left out, by their command or by the timeline alone."""
    assert read_rows(bench.base) == EXPECTED["rows"]
    logs = [str(path.relative_to(bench.base)) for path in sorted(bench.base.glob("p0/.*.log.*"))]
    scanned = scan_slice_heads(LocalStorage(), str(bench.base), logs, instant="9" * 17)
    assert scanned.rollback_blocks == 1
    dead = {block.headers[0] for block in scanned.blocks} - {each.time for each in scan(bench.base).timeline.instants}
    assert len(dead) == 1, "the block of a write that nothing took back"


def test_a_plan_of_hudis_and_one_of_lakeward(bench: Bench) -> None:
    """Hudi's plan is carried out first, logs that writers named by it stay, and are then compacted themselves; commits
    are JSON under the instant's own name. The table's properties, its version among them, are left alone."""
    later = logs_on_the_plan(bench.base)
    assert later
    properties = bench.base / ".hoodie" / "hoodie.properties"
    before = properties.read_bytes()
    first, second = bench.compactor().compact().plans
    assert properties.read_bytes() == before and b"hoodie.table.version=6\n" in before
    assert (first.instant, first.recovered, second.recovered) == (PLANNED, True, False)
    assert read_rows(bench.base) == EXPECTED["rows"]
    assert logs_on_the_plan(bench.base) == later
    for plan in (first, second):
        commit = bench.base / ".hoodie" / f"{plan.instant}.commit"
        shown = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=1)
        assert json.loads(commit.read_bytes())["operationType"] == shown.operation_type == "COMPACT"
        stats = [stat for each in shown.partition_to_write_stats.values() for stat in each]
        assert {stat.prev_commit for stat in stats} != {None} and shown.compacted
        for stat in stats:
            assert (bench.base / str(stat.path)).stat().st_size == stat.file_size_in_bytes
    assert [each for each in everything(bench.base) if is_leftover(each)] == []
    assert bench.compactor().compact().plans == ()


def test_no_log_is_planned(tmp_path: Path) -> None:
    """A LOG that would be due is shown, with the reason."""
    bench = Bench(copy_golden("v6", tmp_path / "table"))
    settings = {"planner.small_base_size": "0B", "planner.log_ratio": "1000"}
    settings |= {"hoodie.compaction.logfile.num.threshold": "2", "hoodie.compaction.logfile.size.threshold": "1"}
    planner = planner_of(CompactionType.LOG, GroupFilter(), settings)
    report = bench.compactor(planner).compact()
    shown = {(each.choice, each.reason, each.instead_of) for each in report.outcome.decisions}
    assert (Choice.NONE, Reason.LOG_NOT_ALLOWED, Choice.LOG) in shown
    assert report.plans == ()


def test_what_is_refused(bench: Bench) -> None:
    """Beside writers, with anything pending but compactions, and with a metadata table; nothing is written then."""
    base = bench.base
    before = everything(base)
    with pytest.raises(Refused, match="writers-at-work"):
        bench.compactor(writers_stopped=False).compact()
    pending = base / ".hoodie" / "20990101000000000.deltacommit.requested"
    pending.touch()
    with pytest.raises(Refused, match="pending-work") as refused:
        bench.compactor().compact()
    assert "20990101000000000.deltacommit.requested" in str(refused.value)
    pending.unlink()
    set_property(base, "hoodie.table.metadata.partitions", "files")
    with pytest.raises(Refused, match="metadata-table"):
        bench.compactor().compact()
    assert everything(base) == before


def test_a_plan_is_never_removed(bench: Bench) -> None:
    """Unscheduling it would lose the rows of the logs that writers named by it; one that cannot be carried out stays,
    and is reported."""
    with pytest.raises(Refused, match="table-version"):
        bench.compactor().unschedule(PLANNED, foreign=True)
    group = next(slice_.group_id for slice_ in scan(bench.base).latest_slices)
    bench.excluded = {group: Reason.PARKED}
    report = bench.compactor().compact()
    assert [(type(left), left.instant) for left in report.left_pending] == [(StillScheduled, PLANNED)]
    assert report.unscheduled == () and read_rows(bench.base) == EXPECTED["rows"]
    assert (bench.base / ".hoodie" / f"{PLANNED}.compaction.requested").exists()


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_a_death_at_any_write(tmp_path: Path, thorough: bool) -> None:
    """Whatever a process that dies at a call leaves: no row is lost, no log that a writer named by the plan's instant
    is deleted by rolling the attempt back, and running again finishes."""
    clean = FaultyStorage()
    compact(copy_golden("v6_oldest", tmp_path / "clean", pending=True), clean, ScriptedProcesses())
    later = logs_on_the_plan(tmp_path / "clean")
    writes = [number for number, call in enumerate(clean.calls) if call.split()[0] in WRITES]
    moved_in = next(number for number in writes if clean.calls[number].startswith("sync"))
    for number in writes if thorough else [moved_in]:
        base = copy_golden("v6_oldest", tmp_path / f"{number}", pending=True)
        processes = ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            compact(base, FaultyStorage(Fault(FaultKind.KILL, number)), processes)
        where = f"killed at call {number}: {clean.calls[number]}"
        assert read_rows(base) == EXPECTED["rows"], where
        processes.kill_all()
        age_temporary_files(base)
        compact(base, FaultyStorage(), processes)
        assert read_rows(base) == EXPECTED["rows"], where
        assert logs_on_the_plan(base) == later, where
        assert len(list(base.glob("p0/*.parquet"))) == len(list((tmp_path / "clean").glob("p0/*.parquet"))), where
        assert [each for each in everything(base) if is_leftover(each)] == [], where


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_a_death_in_an_object_store(tmp_path: Path, thorough: bool) -> None:
    """The same where an intent is stated in the heartbeat: it names `<instant>.commit`, and the next process creates
    that."""
    lake = Lake(tmp_path, "v6_oldest")
    clean = lake.copy().store()
    carry_out(clean, ScriptedProcesses())
    given = next(n for n, write in enumerate(clean.writes) if write.startswith("replace") and "/.heartbeat/" in write)
    for number in range(len(clean.writes)) if thorough else [given]:
        left, processes, where = lake.copy(), ScriptedProcesses(), f"killed at {clean.writes[number]}"
        with suppress(LakewardError, OSError, Killed):
            carry_out(left.store(Fault(FaultKind.KILL, number)), processes)
        assert read_rows(left.fetched()) == EXPECTED["rows"], where
        processes.kill_all()
        carry_out(left.store(), processes)
        end = left.fetched()
        assert read_rows(end) == EXPECTED["rows"], where
        assert (end / ".hoodie" / f"{PLANNED}.commit").exists(), where
        assert len(logs_on_the_plan(end)) == 2, where

"""A plan is unscheduled only when no process is at work on it and nothing is built on it; then all of it is gone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.progress import Count
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.run.unschedule import StillScheduled, Unscheduled
from tests.crash.compacting import FULL, LOG, check_finished, check_readable, everything, instants
from tests.golden_tables import copy_golden
from tests.metadata_golden import rollback_plan
from tests.services.bench import GROUP, PENDING, Bench, pending_states


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


@pytest.fixture
def pending_bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table", pending=True))


def schedule(bench: Bench, planner: object = FULL) -> str:
    """A plan of Lakeward whose first operation failed. Returns its instant."""
    working = bench.run

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise OSError("no")

    bench.run = fail  # type: ignore[assignment]
    with pytest.raises(OSError):
        bench.compactor(planner).compact()  # type: ignore[arg-type]
    bench.run = working
    (instant,) = {i.time for i in instants(bench.base) if i.action in ("compaction", "logcompaction")}
    return instant


def refuse(bench: Bench, instant: str, why: str, *, foreign: bool = False) -> None:
    """Nothing is done, nothing is written, and the reason is reported."""
    before = everything(bench.base)
    ended = bench.compactor().unschedule(instant, foreign=foreign)
    assert isinstance(ended, StillScheduled)
    assert why in ended.why
    assert everything(bench.base) == before


@pytest.mark.parametrize(
    ("planner", "action"), [(FULL, ServiceAction.COMPACTION), (LOG, ServiceAction.LOG_COMPACTION)], ids=["full", "log"]
)
def test_a_plan_of_lakeward_goes_without_a_trace(bench: Bench, planner: object, action: ServiceAction) -> None:
    """The table is as it was before the plan, and its groups can be planned again."""
    before = everything(bench.base)
    instant = schedule(bench, planner)
    ended = bench.compactor().unschedule(instant)
    assert ended == Unscheduled(instant, action, attempt_rolled_back=False, groups=(GROUP,))
    assert everything(bench.base) == before
    assert bench.watcher.counts[-1] is Count.UNSCHEDULED_PLAN
    check_readable(bench.base)
    refuse(bench, instant, "no pending compaction")
    bench.compactor().compact()
    check_finished(bench.base)


def test_a_plan_of_another_engine_goes_only_when_asked_in_so_many_words(pending_bench: Bench) -> None:
    """It may be about to carry it out. Keeps 2 of services/compaction/run/unschedule."""
    refuse(pending_bench, PENDING, "another engine planned it")
    assert isinstance(pending_bench.compactor().unschedule(PENDING, foreign=True), Unscheduled)
    assert pending_states(pending_bench.base) == set()
    check_readable(pending_bench.base)
    pending_bench.compactor().compact()
    check_finished(pending_bench.base)


def beat(bench: Bench, *, age_seconds: float) -> None:
    path = Path(heartbeat_path(str(bench.base), PENDING))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    then = time.time() - age_seconds
    os.utime(path, (then, then))


def test_a_living_attempt_keeps_its_plan(pending_bench: Bench) -> None:
    """A process with a fresh heartbeat is at work."""
    (pending_bench.base / f".hoodie/timeline/{PENDING}.compaction.inflight").touch()
    beat(pending_bench, age_seconds=10)
    refuse(pending_bench, PENDING, "the heartbeat is 10 s old", foreign=True)


def test_a_dead_attempt_is_rolled_back_first(pending_bench: Bench) -> None:
    """Its files, its markers, its .inflight and its heartbeat go before the plan does."""
    base = pending_bench.base
    (base / f".hoodie/timeline/{PENDING}.compaction.inflight").touch()
    orphan = base / "p" / f"{GROUP[1]}_0-55-66_{PENDING}.parquet"
    orphan.write_bytes(b"half a file")
    marker = base / ".hoodie/.temp" / PENDING / "p" / f"{orphan.name}.marker.MERGE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    beat(pending_bench, age_seconds=600)
    ended = pending_bench.compactor().unschedule(PENDING, foreign=True)
    assert isinstance(ended, Unscheduled) and ended.attempt_rolled_back
    assert [path for path in everything(base) if PENDING in path] == []
    check_readable(base)


def test_what_a_rollback_left_goes_along(pending_bench: Bench) -> None:
    """A process rolled a dead attempt back and died over its own folder: no process scans for that when the plan is
    gone."""
    folder = pending_bench.base / ".hoodie/.temp" / PENDING
    (folder / "attempt-5-undoing").mkdir(parents=True)
    assert isinstance(pending_bench.compactor().unschedule(PENDING, foreign=True), Unscheduled)
    assert not folder.exists()


def test_a_completed_plan_stays(pending_bench: Bench) -> None:
    """A plan that is completed cannot be unscheduled."""
    pending_bench.compactor().compact()
    refuse(pending_bench, PENDING, "completed, or gone already", foreign=True)


def test_a_rollback_under_way_keeps_the_plan(pending_bench: Bench) -> None:
    """It may be about this very plan, and fails where it does not find what it was to delete."""
    plan = pending_bench.base / ".hoodie/timeline/20261121043711000.rollback.requested"
    plan.write_bytes(rollback_plan("20261121043710900"))
    refuse(pending_bench, PENDING, "rollback 20261121043711000 is under way", foreign=True)


def test_work_on_the_slice_that_the_plan_opened_keeps_it(pending_bench: Bench) -> None:
    """Without the plan that slice is none, and the other plan fits nothing any more. Keeps 1 of
    services/compaction/run/unschedule."""
    timeline = pending_bench.base / ".hoodie/timeline"
    plan = timeline / f"{PENDING}.compaction.requested"
    (operation,) = read_compaction_plan(plan.read_bytes(), file=plan.name).operations
    later = replace(operation, base_instant=PENDING, base_file=None)
    other = replace(read_compaction_plan(plan.read_bytes(), file=plan.name), operations=(later,))
    (timeline / "20261121043712000.logcompaction.requested").write_bytes(write_compaction_plan(other))
    refuse(pending_bench, PENDING, "log compaction 20261121043712000 works on the file slice", foreign=True)


def test_an_excluded_group_frees_the_others_of_our_plan(bench: Bench) -> None:
    """A plan of Lakeward that holds it is unscheduled, and the next one goes on without it."""
    instant = schedule(bench)
    bench.excluded = {GROUP: Reason.PARKED}
    report = bench.compactor().compact()
    assert [ended.instant for ended in report.unscheduled] == [instant]
    assert report.plans == ()
    assert [(d.choice, d.reason, d.instead_of) for d in report.outcome.decisions] == [
        (Choice.NONE, Reason.PARKED, Choice.FULL)
    ]
    bench.excluded = {}
    bench.compactor().compact()
    check_finished(bench.base)


def test_an_excluded_group_in_a_plan_of_another_engine_waits(pending_bench: Bench) -> None:
    """Such a plan is neither carried out nor unscheduled."""
    pending_bench.excluded = {GROUP: Reason.PAUSED}
    before = everything(pending_bench.base)
    report = pending_bench.compactor().compact()
    assert [(left.instant, "another engine" in left.why) for left in report.left_pending] == [(PENDING, True)]
    assert everything(pending_bench.base) == before
    assert pending_states(pending_bench.base) == {State.REQUESTED}


def test_a_plan_goes_also_where_the_rows_could_not_be_merged(bench: Bench) -> None:
    """A table that began to merge by other rules after we planned is not compacted, and has its plan unscheduled."""
    instant = schedule(bench)
    with (bench.base / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("hoodie.compaction.payload.class=com.example.Own\n")
    with pytest.raises(Refused, match="payload-class"):
        bench.compactor().compact()

    assert isinstance(bench.compactor().unschedule(instant, foreign=False), Unscheduled)
    assert not [each for each in instants(bench.base) if each.time == instant]

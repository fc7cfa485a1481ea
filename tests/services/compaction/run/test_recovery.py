"""Recovery by itself: what processes of Lakeward left is rolled back, nothing is begun, and other engines are let
be.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import LockLost, Refused
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat import Life
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK
from lakeward.protocol.progress import Count
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from tests.crash.compacting import FULL, LOG, check_finished, check_readable, everything, instants
from tests.faults import Killed
from tests.golden_tables import copy_golden
from tests.services.bench import NOTHING, PENDING, Bench, pending_states


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


@pytest.fixture
def pending_bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table", pending=True))


def die_while_merging(bench: Bench, planner: object) -> None:
    """The process dies like after `kill -9`: nothing is rolled back, and its storage does nothing any more."""
    working = bench.run

    def die(spec: OperationSpec, task_attempt: int) -> OperationResult:
        working(spec, task_attempt)
        # A lock of another process, so that the attempt cannot be given up in order.
        (bench.base / ".hoodie/lock").touch()
        raise Killed

    bench.run = die  # type: ignore[assignment]
    with pytest.raises(Killed):
        bench.compactor(planner).compact()  # type: ignore[arg-type]
    (bench.base / ".hoodie/lock").unlink()
    bench.run = working


@pytest.mark.parametrize(("planner", "action"), [(FULL, "compaction"), (LOG, "logcompaction")], ids=["full", "log"])
def test_a_dead_attempt_of_lakeward_is_rolled_back_and_nothing_begun(
    bench: Bench, planner: object, action: str
) -> None:
    """The plan stays, and is reported as pending; a second time there is nothing to roll back. Keeps 2 of
    services/compaction/run/recovery."""
    before = everything(bench.base)
    die_while_merging(bench, planner)
    bench.processes.kill_all()
    recovery = bench.compactor().recover()
    assert [each.action.pending for each in recovery.rolled_back] == [action]
    (waiting,) = recovery.pending
    assert (waiting.work.is_own, waiting.is_inflight, waiting.liveness.life) == (True, False, Life.ABSENT)
    left = set(everything(bench.base)) - set(before)
    assert left == {f".hoodie/timeline/{waiting.work.instant}.{action}.requested"}
    assert Count.ROLLED_BACK_ATTEMPT in bench.watcher.counts
    again = bench.compactor().recover()
    assert again.rolled_back == ()
    assert again.pending == recovery.pending
    check_readable(bench.base)


def test_a_living_attempt_of_lakeward_goes_on(bench: Bench) -> None:
    """Its process is not known to be dead, and its heartbeat is fresh. Keeps 1 of services/compaction/run/recovery."""
    die_while_merging(bench, FULL)
    before = everything(bench.base)
    recovery = bench.compactor().recover()
    assert recovery.rolled_back == ()
    assert [(waiting.is_inflight, waiting.liveness.life) for waiting in recovery.pending] == [(True, Life.ALIVE)]
    assert everything(bench.base) == before


def test_an_attempt_of_another_engine_stays(pending_bench: Bench) -> None:
    """Without a line of Lakeward in its heartbeat the attempt is rolled back only by the process that carries its plan
    out."""
    (pending_bench.base / f".hoodie/timeline/{PENDING}.compaction.inflight").touch()
    before = everything(pending_bench.base)
    recovery = pending_bench.compactor().recover()
    assert recovery.rolled_back == ()
    assert [(waiting.work.instant, waiting.work.is_own) for waiting in recovery.pending] == [(PENDING, False)]
    assert everything(pending_bench.base) == before


def test_our_dead_attempt_at_a_plan_of_another_engine_is_rolled_back(pending_bench: Bench) -> None:
    """The plan is Hudi's, the attempt was Lakeward's: its heartbeat says so, even when nothing else is left of it."""
    owner = pending_bench.processes.new_owner()
    path = Path(heartbeat_path(str(pending_bench.base), PENDING))
    path.parent.mkdir(parents=True)
    path.write_bytes(owner.to_line())
    pending_bench.processes.kill_all()
    assert [each.instant for each in pending_bench.compactor().recover().rolled_back] == [PENDING]
    assert not path.exists()
    assert pending_states(pending_bench.base) == {State.REQUESTED}


def test_what_a_finished_attempt_left_is_tidied(bench: Bench) -> None:
    """Its folder and heartbeat go, after its commit."""
    bench.compactor().compact()
    (instant,) = {i.time for i in instants(bench.base) if i.action == "compaction"}
    heartbeat = Path(heartbeat_path(str(bench.base), instant))
    heartbeat.write_bytes(bench.processes.new_owner().to_line())
    folder = bench.base / ".hoodie/.temp" / instant / "attempt-1"
    folder.mkdir(parents=True)
    recovery = bench.compactor().recover()
    assert (recovery.rolled_back, recovery.pending) == ((), ())
    check_finished(bench.base)
    assert not folder.exists()


def test_a_pending_plan_is_carried_out_where_nothing_new_is_chosen(bench: Bench) -> None:
    """A plan is finished for its own sake, whatever the planner chooses afterwards."""
    assert bench.compactor(NOTHING).compact().plans == ()
    assert pending_states(bench.base) == set()
    die_while_merging(bench, FULL)
    bench.processes.kill_all()
    report = bench.compactor(NOTHING).compact()
    assert [plan.recovered for plan in report.plans] == [True]
    assert report.outcome.decisions == ()
    check_finished(bench.base)


def test_a_refused_table_is_not_even_locked(bench: Bench) -> None:
    """Recovery writes as little as any other verb there. Keeps 1 of services/compaction/run/compactor."""
    properties = bench.base / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=11"))
    before = everything(bench.base)
    (bench.base / ".hoodie/lock").touch()
    with pytest.raises(Refused):
        bench.compactor().recover()
    (bench.base / ".hoodie/lock").unlink()
    assert everything(bench.base) == before


def test_a_rollback_that_slept_deletes_nothing_of_a_later_attempt(bench: Bench) -> None:
    """Stopped between fencing the dead attempt off and deleting its files, a process wakes up when its lock is gone and
    the plan was carried out by another process, under the same instant."""
    die_while_merging(bench, FULL)
    bench.processes.kill_all()

    class Overtaken(LocalStorage):
        asleep = False

        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            self.asleep |= "dead-attempt-" in target

        def list(self, folder: str) -> list[FileStatus]:
            if self.asleep and folder == str(bench.base / "p"):
                self.asleep = False
                (bench.base / SPARK_LOCK).unlink()
                bench.storage = LocalStorage()
                assert len(bench.compactor().compact().plans) == 1
            return super().list(folder)

    bench.storage = Overtaken()
    with pytest.raises(LockLost):
        bench.compactor().recover()
    check_finished(bench.base)

"""Work that is asked to stop: whatever the guard raises, nothing half-done stays, and the next run goes on."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, LakewardError, LeaseLost, LockHeld, VerificationFailed
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.progress import Count, Phase
from tests.crash.compacting import FULL, LOG, check_finished, check_log_compacted, check_readable, everything
from tests.golden_tables import copy_golden
from tests.services.bench import GROUP, Bench, pending_states


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


class StopAt:
    """A guard that raises at its n-th call and, as a lease that is lost, at every later one."""

    def __init__(self, number: int, error: LakewardError) -> None:
        self._number = number
        self._error = error
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls >= self._number:
            raise self._error


@pytest.mark.parametrize("planner", [FULL, LOG], ids=["full", "log"])
def test_stopped_at_every_call_of_the_guard(planner: object, tmp_path: Path) -> None:
    """The guard stops us before each fence and in each report: what was not published yet is rolled back, and the next
    run finishes.

    Keeps 2 of services/compaction/run/operations; Keeps 1 of protocol/serviced_table.
    """
    count = Bench(copy_golden("v9", tmp_path / "count"))
    never = StopAt(10**9, LeaseLost())
    count.guard = never
    count.compactor(planner).compact()  # type: ignore[arg-type]
    assert never.calls >= 5, "schedule, claim, merge, and twice in the commit"
    for number in range(1, never.calls + 1):
        bench = Bench(copy_golden("v9", tmp_path / f"table-{number}"))
        before = set(everything(bench.base))
        bench.guard = StopAt(number, LeaseLost("Another daemon has the table."))
        with pytest.raises(LeaseLost):
            bench.compactor(planner).compact()  # type: ignore[arg-type]
        left = {path.rpartition(".")[2] for path in set(everything(bench.base)) - before}
        assert left <= {"requested"}, (number, left)
        check_readable(bench.base)
        bench.guard = lambda: None
        bench.compactor(planner).compact()  # type: ignore[arg-type]
        (check_finished if planner is FULL else check_log_compacted)(bench.base)


def test_cancelled_while_waiting_for_the_lock(bench: Bench) -> None:
    """The work stops before the lock is free, or the waiting time over."""
    (bench.base / ".hoodie/lock").touch()
    bench.guard = StopAt(3, Cancelled("Enough."))
    with pytest.raises(Cancelled) as error:
        bench.compactor(lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=60.0)).compact()
    assert error.value.exit_code == 130
    assert bench.clock.slept < 5


def test_an_attempt_that_cannot_be_rolled_back_is_left_for_the_next_run(bench: Bench) -> None:
    """Another process holds the lock just then: the error stays the one that stopped us, with a note."""

    def stop(spec: OperationSpec, task_attempt: int) -> OperationResult:
        (bench.base / ".hoodie/lock").touch()
        raise Cancelled("Enough.")

    bench.run = stop  # type: ignore[assignment]
    with pytest.raises(Cancelled) as error:
        bench.compactor().compact()
    assert "the next run removes it" in error.value.__notes__[0]
    assert pending_states(bench.base) == {State.REQUESTED, State.INFLIGHT}
    (bench.base / ".hoodie/lock").unlink()
    bench.processes.kill_all()
    bench.run = partial(run_operation, bench.storage)
    bench.compactor().compact()
    check_finished(bench.base)


def test_a_rollback_is_not_stopped_by_what_stopped_the_work(bench: Bench) -> None:
    """The lease stays lost while another process holds the lock for a moment: what was begun is rolled back all the
    same. Keeps 2 of protocol/serviced_table."""
    lock = bench.base / ".hoodie/lock"

    def lose(spec: OperationSpec, task_attempt: int) -> OperationResult:
        lock.touch()
        bench.guard = StopAt(1, LeaseLost())
        return run_operation(bench.storage, spec, task_attempt)

    sleep = bench.clock.sleep

    def free_the_lock(seconds: float) -> None:
        if lock.exists() and lock.read_bytes() == b"":  # the other process's
            lock.unlink()
        sleep(seconds)

    bench.clock.sleep = free_the_lock  # type: ignore[method-assign]
    bench.run = lose  # type: ignore[assignment]
    with pytest.raises(LeaseLost):
        bench.compactor(lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=60.0)).compact()
    assert pending_states(bench.base) == {State.REQUESTED}


def test_a_failure_names_its_file_group(bench: Bench) -> None:
    """The next plan can exclude it; the name survives the way back from an executor. Keeps 1 of
    services/compaction/run/operations."""

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise VerificationFailed("bad", why="It is.")

    bench.run = fail  # type: ignore[assignment]
    with pytest.raises(VerificationFailed) as error:
        bench.compactor().compact()
    assert error.value.file_group == GROUP
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.file_group, again.what, again.why) == (GROUP, "bad", "It is.")


def test_the_observer_hears_of_every_phase(bench: Bench) -> None:
    """Each at least once, but for what takes a writer, and the lock is waited for as often as it is held; and what the
    plan ran on."""
    bench.compactor().compact()
    assert set(bench.watcher.phases) == set(Phase) - {Phase.BESIDE_WRITES}
    assert bench.watcher.phases.count(Phase.LOCK_WAIT) == bench.watcher.phases.count(Phase.LOCK_HOLD)
    assert bench.watcher.counts == [Count.RAN_IN_PROCESS]


def test_the_observer_hears_of_what_was_rolled_back(bench: Bench) -> None:
    """An attempt that failed counts as rolled back; a lock that is held is neither a conflict nor a loss."""

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise VerificationFailed("bad")

    bench.run = fail  # type: ignore[assignment]
    with pytest.raises(VerificationFailed):
        bench.compactor().compact()
    assert bench.watcher.counts == [Count.ROLLED_BACK_ATTEMPT]
    (bench.base / ".hoodie/lock").touch()
    with pytest.raises(LockHeld):
        bench.compactor().compact()
    assert bench.watcher.counts == [Count.ROLLED_BACK_ATTEMPT]

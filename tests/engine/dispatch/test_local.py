"""Work in processes of this machine."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, TaskFailed
from lakeward.engine.dispatch import local, machine
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress
from lakeward.engine.dispatch.local import LocalDispatcher, Places, places_of_machine, processes_of
from tests.engine.dispatch import tasks

DEADLINE_SECONDS = 60.0


def ignore(progress: Progress) -> None:
    pass


@pytest.fixture(scope="module")
def dispatcher() -> LocalDispatcher:
    return LocalDispatcher(Places(2, 2), memory_bytes=1)


def test_outcomes_come_in_the_order_of_the_specs(dispatcher: LocalDispatcher) -> None:
    """Keeps 1 of engine/dispatch/local: one outcome a spec; an error of Lakeward is one and does not stop the
    others.
    """
    seen: list[Progress] = []
    outcomes = dispatcher.run(tasks.fail_on_odd, [4, 5, 6, 8], description="test", on_progress=seen.append)
    assert isinstance(failure := outcomes.pop(1), Failure)
    assert (failure.index, failure.error.what) == (1, "5 is odd.")
    assert outcomes == [Done(0, 4), Done(2, 6), Done(3, 8)]
    assert (seen[0], seen[-1]) == (Progress(0, 4), Progress(4, 4))


def test_workers_begin_with_what_an_operation_needs(
    dispatcher: LocalDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are forked from a process that has loaded the kernels, and a job has as many as it can use. Kernels that are
    missing are compiled before, where their count is shown."""
    calls: list[str] = []
    monkeypatch.setattr(local, "build_missing", lambda: calls.append("build"))
    (loaded,) = dispatcher.run(
        tasks.which_are_loaded, [["lakeward.engine.task.operation", "pandas"]], description="test", on_progress=ignore
    )
    assert loaded == Done(0, ["lakeward.engine.task.operation"])
    assert calls == ["build"]


def test_any_other_error_fails_the_job_and_says_whose_it_was(dispatcher: LocalDispatcher) -> None:
    """Keeps 1 of engine/dispatch/local: it is not tried again."""
    with pytest.raises(TaskFailed) as error:
        dispatcher.run(tasks.break_on_odd, [0, 2, 3], description="test", on_progress=ignore)
    assert (error.value.index, error.value.why) == (2, "OSError: no such disk")


def test_a_killed_worker_fails_its_job_alone(dispatcher: LocalDispatcher) -> None:
    """Keeps 1 of engine/dispatch/local: the error says which signal it was and what to do; the next job has other
    workers."""
    with pytest.raises(TaskFailed) as error:
        dispatcher.run(tasks.kill_me_if_odd, [0, 1], description="test", on_progress=ignore)
    assert error.value.index == 1
    assert "was killed by SIGKILL; the kernel does that where memory runs out" in error.value.why
    assert "less memory" in error.value.remedy
    assert dispatcher.run(tasks.double, [2], description="test", on_progress=ignore) == [Done(0, 4)]


def test_a_cancelled_job_has_no_worker_left(dispatcher: LocalDispatcher, tmp_path: Path) -> None:
    """Keeps 2 of engine/dispatch/local: what the report of progress raises comes out once the tasks have been
    killed."""
    file = tmp_path / "tick"

    def cancel(progress: Progress) -> None:
        if file.exists():
            raise Cancelled("Enough.")

    with pytest.raises(Cancelled):
        dispatcher.run(tasks.tick, [str(file)], description="test", on_progress=cancel)
    size = file.stat().st_size
    assert not [process for process in local._CONTEXT.active_children() if process.name == "lakeward-task"]
    time.sleep(0.25)  # two ticks and a half
    assert file.stat().st_size == size


def test_an_interrupt_is_its_parents_to_hear(dispatcher: LocalDispatcher) -> None:
    """Keeps 3 of engine/dispatch/local: a terminal sends Ctrl-C to the workers, too, and they go on until they are
    reported."""
    (outcome,) = dispatcher.run(tasks.interrupt_me, [1], description="test", on_progress=ignore)
    assert isinstance(outcome, Done) and outcome.result != os.getpid()


def test_jobs_of_several_threads_share_the_places(tmp_path: Path) -> None:
    """Keeps 4 of engine/dispatch/local: with one place, tasks of two jobs never run at the same time, and take
    turns."""
    dispatcher = LocalDispatcher(Places(1, 1), memory_bytes=1)
    done: dict[int, list[float]] = {}

    def work(job: int) -> None:
        outcomes = dispatcher.run(tasks.alone, [str(tmp_path)] * 8, description="test", on_progress=ignore)
        done[job] = [outcome.result for outcome in outcomes if isinstance(outcome, Done)]

    jobs = [threading.Thread(target=work, args=(job,)) for job in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(DEADLINE_SECONDS)
    first, second = sorted(done.values())
    assert (len(first), len(second)) == (8, 8)
    assert second[0] < first[-1], "the second did not wait for the last task of the first"


def test_as_many_run_at_once_as_have_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of four cores and 2 GiB runs two operations of 1 GiB; one at least, whatever it has. A limit above what
    it has is none."""
    gib = 1024**3
    monkeypatch.setattr(machine, "memory_bytes", lambda: 2 * gib)
    monkeypatch.setattr(machine, "cores", lambda: 4)
    assert [processes_of(size) for size in (gib // 4, gib, 8 * gib)] == [4, 2, 1]
    assert processes_of(gib // 4, limit_bytes=gib // 2) == 2
    assert processes_of(gib, limit_bytes=16 * gib) == 2
    named = LocalDispatcher(places_of_machine(), memory_bytes=gib // 4, permit_bytes=gib // 2)
    assert named.name == "2 processes of this machine"


def test_workers_hold_no_more_memory_than_their_places_have() -> None:
    """Tables differ in what an operation takes; one that takes more than all alone runs alone. Keeps 4 of
    engine/dispatch/local."""
    places = Places(4, 10)
    assert places.take(6)
    assert not places.take(6), "12 of 10"
    assert places.take(4)
    places.release(6)
    places.release(4)
    assert places.take(50)
    assert not places.take(1)
    places.release(50)
    places.resize(4)
    assert places.take(4)
    assert not places.take(1)


def test_a_job_that_needs_much_is_not_passed_for_ever() -> None:
    """It stands in the line until it has its place, and who has workers gets none meanwhile. Keeps 4 of
    engine/dispatch/local."""
    places, large, small = Places(4, 10), object(), object()
    assert places.take(3)
    assert places.take(3)
    assert not places.wait(large, 10, 0.0)
    assert not places.take(3), "there is room, but one waits"
    assert not places.wait(small, 3, 0.0), "nor does a later one pass it"
    places.release(3)
    places.release(3)
    assert places.wait(large, 10, 0.0)
    places.release(10)
    assert places.wait(small, 3, 0.0)
    assert not places.wait(large, 10, 0.0)
    places.leave(large)
    assert places.take(3), "who waited has left"


def test_a_job_has_no_more_workers_than_its_permit_pays_for() -> None:
    """Two tasks of a job that may take the memory of one have one worker. Keeps 5 of engine/dispatch/local."""
    dispatcher = LocalDispatcher(Places(2, 2), memory_bytes=1, permit_bytes=1)
    outcomes = dispatcher.run(tasks.which_worker, [1, 2, 3], description="who", on_progress=ignore)
    assert len({outcome.result for outcome in outcomes if isinstance(outcome, Done)}) == 1

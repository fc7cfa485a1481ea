"""The life of a session between jobs, without a Spark: who uses it, and when it is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakeward.base.errors import Cancelled, Refused
from lakeward.engine.dispatch import spark as spark_module
from lakeward.engine.dispatch.dispatcher import Done, Progress, Versions
from lakeward.engine.dispatch.spark import SparkDispatcher
from tests.clocks import SettableClock
from tests.engine.dispatch import tasks
from tests.engine.dispatch.fake_session import TIMEOUT_SECONDS, FakeSession


class Started:
    """A dispatcher, and the sessions that it started."""

    def __init__(self) -> None:
        self.clock = SettableClock(1000.0)
        self.sessions: list[FakeSession] = []
        self.seconds: list[float] = []
        self.dispatcher = SparkDispatcher(
            "local[2]", memory=tasks.MEMORY, on_started=self.seconds.append, clock=self.clock
        )
        self.dispatcher._start = self._start  # type: ignore[method-assign]

    def _start(self) -> FakeSession:
        self.sessions.append(FakeSession())
        self.clock.sleep(7.0)
        return self.sessions[-1]

    def run(self) -> list[Any]:
        outcomes = self.dispatcher.run(tasks.double, [1, 2], description="test", on_progress=ignore)
        return [outcome.result for outcome in outcomes if isinstance(outcome, Done)]


def ignore(progress: Progress) -> None:
    pass


def in_thread(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


@pytest.fixture
def started() -> Started:
    return Started()


def test_missing_kernels_are_compiled_before_tasks_need_them(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that sends tasks has them compiled, where the count is shown; workers would do so out of sight."""
    calls: list[int] = []
    monkeypatch.setattr(spark_module, "build_missing", lambda: calls.append(len(started.sessions)))
    assert started.run() == [2, 4]
    assert calls == [0]


def test_a_session_ends_when_no_job_used_it_for_so_long(started: Started) -> None:
    """Time counts from the end of the last job; a daemon without jobs starts none, and it is ended once."""
    dispatcher = started.dispatcher
    assert not dispatcher.end_idle(0.0), "none was started"
    started.run()
    assert started.seconds == [7.0]
    started.clock.sleep(599.0)
    started.run()
    started.clock.sleep(599.0)
    assert not dispatcher.end_idle(600.0)
    started.clock.sleep(1.0)
    assert dispatcher.end_idle(600.0)
    assert not dispatcher.end_idle(600.0)
    assert not dispatcher.has_session
    (session,) = started.sessions
    assert session.ended == 1
    assert started.run() == [2, 4]
    assert len(started.sessions) == 2


def test_no_session_is_ended_under_a_job(started: Started) -> None:
    """However long the job takes. Keeps 6 of engine/dispatch/spark."""
    started.run()
    (session,) = started.sessions
    session.may_run.clear()
    session.is_running.clear()
    job = in_thread(started.run)
    assert session.is_running.wait(TIMEOUT_SECONDS)
    started.clock.sleep(10_000.0)
    assert not started.dispatcher.end_idle(600.0)
    session.may_run.set()
    job.join(TIMEOUT_SECONDS)
    assert not started.dispatcher.end_idle(600.0), "it was used until now"


def test_a_job_that_comes_while_a_session_is_ended_gets_a_new_one(started: Started) -> None:
    """It waits until the old one is gone: PySpark has one driver in a process. Keeps 6 of engine/dispatch/spark."""
    started.run()
    (session,) = started.sessions
    session.may_end.clear()
    ending = in_thread(lambda: started.dispatcher.end_idle(0.0))
    assert session.is_ending.wait(TIMEOUT_SECONDS)
    results: list[Any] = []
    job = in_thread(lambda: results.extend(started.run()))
    job.join(0.1)
    assert not results
    session.may_end.set()
    ending.join(TIMEOUT_SECONDS)
    job.join(TIMEOUT_SECONDS)
    assert results == [2, 4]
    assert [each.ended for each in started.sessions] == [1, 0]


@pytest.mark.slow
def test_ends_and_jobs_at_once(started: Started) -> None:
    """Each job has its answer, and each session that was ended had no job then."""
    answers: list[Any] = []
    is_over = threading.Event()

    def end() -> None:
        while not is_over.is_set():
            started.dispatcher.end_idle(0.0)

    ending = in_thread(end)
    jobs = [in_thread(lambda: answers.extend(started.run() for _ in range(50))) for _ in range(4)]
    for job in jobs:
        job.join(TIMEOUT_SECONDS)
    is_over.set()
    ending.join(TIMEOUT_SECONDS)
    assert answers == [[2, 4]] * 200
    assert {session.ended for session in started.sessions[:-1]} <= {1}


def test_looking_for_idleness_does_not_wait_for_a_start(started: Started) -> None:
    """A master may take minutes to answer."""
    with started.dispatcher._lock:
        assert not started.dispatcher.end_idle(0.0)


def test_a_session_that_came_after_the_probe_is_probed_before_it_works(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors of the new one may have other versions. Keeps 3 of engine/dispatch/spark."""
    started.dispatcher.probe()
    assert started.dispatcher.end_idle(0.0)
    monkeypatch.setattr(
        spark_module, "own_versions", iter([Versions("3.99", ())] * 2 + [Versions("3.11", ())]).__next__
    )
    with pytest.raises(Refused, match="other versions"):
        started.run()


def test_one_that_did_not_answer_is_down_until_it_is_replaced(started: Started) -> None:
    """The page says so without asking it again."""
    started.run()
    assert started.dispatcher.is_alive()
    assert not started.dispatcher.is_down
    started.sessions[0].is_answering = False
    assert not started.dispatcher.is_alive()
    assert started.dispatcher.is_down
    started.run()
    assert not started.dispatcher.is_down
    assert [session.ended for session in started.sessions] == [1, 0]


def test_the_end_of_all_says_whether_there_was_one(started: Started) -> None:
    """A daemon that never needed Spark has none to end."""
    assert not started.dispatcher.end(within=1.0)
    started.run()
    assert started.dispatcher.end(within=1.0)
    assert started.sessions[0].ended == 1


class WithoutExecutors(FakeSession):
    """A cluster that has no machine to give."""

    def run_tasks(self, work: Callable[[bytes, int], bytes], specs: Sequence[bytes], **options: Any) -> list[bytes]:
        for _ in range(1000):
            options["on_finished"](0)
        raise AssertionError("it was not stopped")


def test_a_job_that_waits_for_executors_can_be_asked_to_stop(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its deadline, by an operator, or because the daemon stops: executors are asked for their versions first, and a
    cluster may let that wait for hours."""
    monkeypatch.setattr(started.dispatcher, "_start", WithoutExecutors)
    asked = 0

    def guard() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Cancelled("It took too long.")

    with pytest.raises(Cancelled, match="too long"):
        started.dispatcher.probe(guard)
    assert asked == 3

    def report(progress: Progress) -> None:
        assert progress == Progress(0, 2)
        guard()

    asked = 0
    with pytest.raises(Cancelled, match="too long"):
        started.dispatcher.run(tasks.double, [1, 2], description="test", on_progress=report)

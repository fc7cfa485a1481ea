"""Work on threads and its results on one; tests wait for events, never for time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from lakeward.daemon.runner import Lane, ThreadRunner

TIMEOUT_SECONDS = 30.0


@pytest.fixture
def runner() -> Iterator[ThreadRunner]:
    runner = ThreadRunner()
    yield runner
    assert runner.stop(timeout=TIMEOUT_SECONDS)


class Results:
    def __init__(self, runner: ThreadRunner) -> None:
        self._runner = runner
        self.heard: list[object] = []

    def submit(self, lane: Lane, work: object) -> None:
        self._runner.submit(lane, work, then=self.heard.append, failed=self.heard.append)  # type: ignore[arg-type]

    def wait(self, number: int) -> None:
        while len(self.heard) < number:
            self._runner.wait(TIMEOUT_SECONDS)
            assert self._runner.deliver(), "nothing was answered"


def test_a_result_is_delivered_where_it_is_asked_for(runner: ThreadRunner) -> None:
    """Work runs on another thread, its result is heard on this one."""
    results = Results(runner)
    results.submit(Lane.SCAN, threading.get_ident)
    results.wait(1)
    assert results.heard[0] != threading.get_ident()


def test_whatever_happens_is_a_result(runner: ThreadRunner) -> None:
    """A panic of a library or an exit, which are no `Exception`, is a result too: no caller waits for ever."""
    results = Results(runner)
    for error in (ValueError("a"), SystemExit(3), KeyboardInterrupt()):

        def fail(error: BaseException = error) -> None:
            raise error

        results.submit(Lane.STORE, fail)
    results.wait(3)

    assert [type(error).__name__ for error in results.heard] == ["ValueError", "_Panic", "_Panic"]
    assert "SystemExit: 3" in str(results.heard[1])
    assert all(isinstance(error, Exception) for error in results.heard)


def test_what_one_result_does_takes_none_from_the_others(runner: ThreadRunner) -> None:
    """An error while a result is taken in is the caller's; those behind it come with the next call."""
    done = threading.Barrier(3)
    heard: list[int] = []

    def take_in(number: int) -> None:
        if number == 0:
            raise ZeroDivisionError
        heard.append(number)

    for lane, number in ((Lane.STORE, 0), (Lane.STORE, 1), (Lane.STORE, 2)):
        runner.submit(lane, lambda number=number: number, then=take_in, failed=lambda error: None)  # type: ignore[misc]
    runner.submit(Lane.STORE, lambda: done.wait(TIMEOUT_SECONDS), then=lambda last: None, failed=lambda error: None)
    runner.submit(Lane.SCAN, lambda: done.wait(TIMEOUT_SECONDS), then=lambda last: None, failed=lambda error: None)
    done.wait(TIMEOUT_SECONDS)
    with pytest.raises(ZeroDivisionError):
        runner.deliver()
    while heard != [1, 2]:
        runner.deliver()


def test_the_stores_lane_keeps_its_order(runner: ThreadRunner) -> None:
    """One after the other, so that an end is never written before its beginning."""
    results = Results(runner)
    written: list[int] = []
    for number in range(50):
        results.submit(Lane.STORE, lambda number=number: written.append(number))
    results.wait(50)
    assert written == list(range(50))


def test_lanes_do_not_wait_for_each_other(runner: ThreadRunner) -> None:
    """A job that hangs holds up neither polls nor the renewal of leases."""
    results, go_on = Results(runner), threading.Event()
    results.submit(Lane.JOB, lambda: go_on.wait(TIMEOUT_SECONDS))
    results.submit(Lane.SCAN, lambda: "scan")
    results.submit(Lane.LEASE, lambda: "lease")
    results.wait(2)
    assert set(results.heard) == {"scan", "lease"}
    go_on.set()
    results.wait(3)


def test_a_runner_that_stops_says_what_hangs() -> None:
    """It waits for what has begun, begins nothing that waited, and stops waiting after its timeout."""
    runner, go_on, began = ThreadRunner(), threading.Event(), threading.Event()
    results = Results(runner)

    def hang() -> None:
        began.set()
        go_on.wait(TIMEOUT_SECONDS)

    results.submit(Lane.STORE, hang)
    results.submit(Lane.STORE, lambda: "never")
    assert began.wait(TIMEOUT_SECONDS)

    assert not runner.stop(timeout=0.01)

    go_on.set()
    assert runner.stop(timeout=TIMEOUT_SECONDS)
    runner.deliver()
    assert results.heard == [None]


def test_a_loop_that_waits_can_be_woken(runner: ThreadRunner) -> None:
    """Without a result; a call that came before the loop waited counts, too."""
    runner.wake()
    started = time.monotonic()
    runner.wait(TIMEOUT_SECONDS)
    assert time.monotonic() - started < TIMEOUT_SECONDS / 2
    assert runner.deliver() == 0

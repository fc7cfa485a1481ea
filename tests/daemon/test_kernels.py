"""The daemon compiles missing kernels before its first job, with a build that the test holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lakeward.base.errors import Cancelled, LakewardError
from lakeward.base.kernel_process import Report
from lakeward.daemon.kernels import Kernels
from lakeward.protocol.progress import Silent
from tests.clocks import SettableClock


class HeldBuild:
    """Says that 12 are done, and goes on when the test says how."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_at_work = threading.Event()
        self.may_end = threading.Event()
        self.was_stopped = False
        self._error = error

    def run(self, report: Report) -> None:
        report(0, 107)
        report(12, 107)
        self.is_at_work.set()
        assert self.may_end.wait(20)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self.was_stopped = True
        self.may_end.set()


class Waiting(Silent):
    """A job that waits, on a thread of its own."""

    def __init__(self, kernels: Kernels, guard: Callable[[], None] = lambda: None) -> None:
        self.heard: list[str] = []
        self.has_heard = threading.Event()
        self.outcome: Exception | str = "waits"
        self._thread = threading.Thread(target=self._run, args=(kernels, guard), daemon=True)
        self._thread.start()

    def waiting(self, text: str, seconds: float) -> None:
        self.heard.append(text)
        self.has_heard.set()

    def ended(self) -> Exception | str:
        self._thread.join(20)
        return self.outcome

    def _run(self, kernels: Kernels, guard: Callable[[], None]) -> None:
        try:
            kernels.wait(guard, self)
        except Exception as error:
            self.outcome = error
        else:
            self.outcome = "begins"


def kernels_built_by(build: HeldBuild | None) -> Kernels:
    return Kernels(build, clock=SettableClock(), log=structlog.stdlib.get_logger("test"))


def ended(kernels: Kernels) -> None:
    assert kernels._ended.wait(20)


def test_where_kernels_are_found_jobs_begin() -> None:
    """Keeps 1 of daemon/kernels: no process and no thread, and nothing is said."""
    kernels, threads = kernels_built_by(None), threading.active_count()
    with capture_logs() as said:
        kernels.begin()
        job = Waiting(kernels)
        assert job.ended() == "begins"
        kernels.stop()
    assert (job.heard, said, kernels.limitation) == ([], [], None)
    assert threading.active_count() == threads


def test_jobs_wait_for_kernels_and_say_so() -> None:
    """Keeps 2 of daemon/kernels: job, page and log have the count; once all are there jobs begin, and the page says
    no more."""
    build = HeldBuild()
    with capture_logs() as said:
        kernels = kernels_built_by(build)
        early = Waiting(kernels)  # before the daemon is ready
        assert early.has_heard.wait(20)
        assert early.heard[0] == "compiling kernels, once on this machine"
        kernels.begin()
        assert build.is_at_work.wait(20)
        job = Waiting(kernels)
        assert job.has_heard.wait(20)
        assert job.heard[0] == "compiling kernels, once on this machine: 12 of 107"
        shown = kernels.limitation
        assert shown is not None
        assert shown.what == "Compiling kernels, once on this machine: 12 of 107. Jobs wait until that is done."
        assert "lakeward warm" in shown.remedy
        build.may_end.set()
        assert (early.ended(), job.ended()) == ("begins", "begins")
    assert kernels.limitation is None
    assert [line["event"] for line in said] == [
        "compiling kernels, once on this machine: 0 of 107",  # the next one is five seconds later
        "kernels compiled",
    ]


@pytest.mark.parametrize("error", [LakewardError("Nowhere.", why="Full.", remedy="Free some."), OSError("no process")])
def test_jobs_begin_where_kernels_cannot_be_compiled(error: Exception) -> None:
    """Keeps 2 of daemon/kernels: the log says it once, with the reason, and the page as long as it is so."""
    build = HeldBuild(error)
    with capture_logs() as said:
        kernels = kernels_built_by(build)
        kernels.begin()
        job = Waiting(kernels)
        build.may_end.set()
        assert job.ended() == "begins"
    warnings = [line for line in said if line["log_level"] == "warning"]
    assert [(line["event"], line["error"]) for line in warnings] == [
        ("kernels are not kept: each process compiles those it needs", str(error))
    ]
    shown = kernels.limitation
    assert shown is not None
    assert shown.what == f"Each process compiles the kernels it needs, which takes up to half a minute. {error}"


def test_a_stop_ends_the_build_and_the_waiting() -> None:
    """Keeps 3 of daemon/kernels: at once, and nothing is said of kernels that are there."""
    build = HeldBuild()
    with capture_logs() as said:
        kernels = kernels_built_by(build)
        kernels.begin()
        job = Waiting(kernels)
        assert build.is_at_work.wait(20)
        begin = time.monotonic()
        kernels.stop()
        outcome = job.ended()
        assert time.monotonic() - begin < 5
    assert isinstance(outcome, Cancelled)
    assert outcome.why == "The daemon stops."
    assert build.was_stopped
    assert "kernels compiled" not in [line["event"] for line in said]


def test_a_job_that_is_stopped_waits_no_longer() -> None:
    """Its guard is asked while it waits."""
    stopped: list[Any] = []

    def guard() -> None:
        if stopped:
            raise Cancelled("Stopped.")

    build = HeldBuild()
    kernels = kernels_built_by(build)
    kernels.begin()
    job = Waiting(kernels, guard)
    assert job.has_heard.wait(20)
    stopped.append(True)
    assert isinstance(job.ended(), Cancelled)
    build.may_end.set()
    ended(kernels)

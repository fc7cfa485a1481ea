"""Work in this process, behind the same interface."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from lakeward.base.errors import Cancelled
from lakeward.engine.dispatch import in_process
from lakeward.engine.dispatch.dispatcher import Done, Failure, Progress
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from tests.engine.dispatch import tasks


def test_outcomes_come_in_the_order_of_the_specs() -> None:
    """An error of Lakeward is an outcome and does not stop the others."""
    seen: list[Progress] = []
    outcomes = InProcessDispatcher().run(tasks.fail_on_odd, [4, 5, 6], description="test", on_progress=seen.append)
    assert outcomes[0] == Done(0, 4)
    assert isinstance(outcomes[1], Failure)
    assert outcomes[2] == Done(2, 6)
    assert seen == [Progress(0, 3), Progress(1, 3), Progress(2, 3), Progress(3, 3)]


ABOUT: ContextVar[str] = ContextVar("about")


def test_progress_is_reported_while_a_task_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 and 2 of engine/dispatch/in_process: another thread reports it, which knows what the work is about."""
    monkeypatch.setattr(in_process, "REPORT_SECONDS", 0.001)
    reported = threading.Event()
    seen: list[tuple[Progress, str]] = []

    def report(progress: Progress) -> None:
        seen.append((progress, ABOUT.get()))
        if len(seen) > 3:
            reported.set()

    ABOUT.set("orders")
    outcomes = InProcessDispatcher().run(
        lambda spec, attempt: reported.wait(60), [1, 2], description="test", on_progress=report
    )
    assert outcomes == [Done(0, True), Done(1, True)]
    assert seen[1] == (Progress(0, 2), "orders") and seen[-1] == (Progress(2, 2), "orders")
    finished = [progress.finished for progress, _ in seen]
    assert finished == sorted(finished)


def test_what_a_report_raises_ends_the_job_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of engine/dispatch/in_process: it is no outcome of the task, and no other task begins."""
    monkeypatch.setattr(in_process, "REPORT_SECONDS", 0.001)
    raised, begun = threading.Event(), []

    def stop(progress: Progress) -> None:
        if begun:
            raised.set()
            raise Cancelled("stopped")

    def task(spec: int, attempt: int) -> None:
        begun.append(spec)
        assert raised.wait(60)

    with pytest.raises(Cancelled, match="stopped"):
        InProcessDispatcher().run(task, [1, 2], description="test", on_progress=stop)
    assert begun == [1]
    assert not [thread for thread in threading.enumerate() if thread.name == "lakeward-progress"]

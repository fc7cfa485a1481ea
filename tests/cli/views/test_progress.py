"""Progress: plain lines where no terminal shows a bar, bars where one does."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lakeward import kernel_process
from lakeward.cli.views.progress import Bars, Lines, open_view
from lakeward.execute.progress import Merged
from tests.clocks import SkippingClock

HALF = Merged(
    operations=2, operations_total=4, input_bytes=2**20, input_bytes_total=2**21, output_bytes=2**19, rows=1000
)


def test_lines_come_now_and_then() -> None:
    """A step always has its line; what repeats is said at most every few seconds."""
    clock = SkippingClock()
    output = io.StringIO()
    with open_view(Console(file=output, width=200), clock) as view:
        assert isinstance(view, Lines)
        view.step("merging")
        for _ in range(100):
            view.merged(HALF)
            clock.sleep(0.2)
        view.waiting("the lock is held", 3.0)
    lines = output.getvalue().splitlines()
    assert lines[0] == "merging"
    assert 3 <= len(lines) - 1 <= 5
    assert lines[1].startswith("merged 2 of 4 file slices, 1.0 MiB of 2.0 MiB, wrote 512.0 KiB")


def test_bars_show_operations_and_bytes() -> None:
    """On a terminal the same numbers stand beside a bar."""
    output = io.StringIO()
    with open_view(Console(file=output, width=200, force_terminal=True), SkippingClock()) as view:
        assert isinstance(view, Bars)
        view.step("merging")
        view.merged(HALF)
        view._progress.refresh()
        view.waiting("the lock is held", 1.0)
        view.step("done")
    shown = output.getvalue()
    assert "2/4 slices" in shown
    assert "1.0 MiB in, 512.0 KiB out" in shown
    assert "done" in shown


def test_a_bar_that_waited_merges_as_a_bar_that_merges() -> None:
    """What is waited for is not said of the work that follows."""
    output = io.StringIO()
    with open_view(Console(file=output, width=200, force_terminal=True), SkippingClock()) as view:
        assert isinstance(view, Bars)
        view.waiting("the lock is held", 1.0)
        view.merged(HALF)
        (bar,) = view._progress.tasks
        assert (bar.description, bar.total) == ("merging", 2**21)
        view.waiting("the lock is held", 1.0)
        (bar,) = view._progress.tasks
        assert (bar.description, bar.total) == ("waiting", None)


def test_kernels_are_waited_for_in_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of a build goes to the view that is open, and to standard error behind it."""
    builds: list[kernel_process.Report] = []
    monkeypatch.setattr(kernel_process, "is_needed", lambda: True)
    monkeypatch.setattr(kernel_process.KernelProcess, "run", lambda self, report: builds.append(report))
    output = io.StringIO()
    with open_view(Console(file=output, width=200), SkippingClock()):
        kernel_process.build_missing()
        builds[0](12, 107)
    assert "compiling kernels, once on this machine: 12 of 107" in output.getvalue()
    kernel_process.build_missing()
    builds[1](13, 107)
    assert "13 of 107" not in output.getvalue()

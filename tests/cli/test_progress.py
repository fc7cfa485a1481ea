"""Progress: plain lines where no terminal shows a bar, bars where one does."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.live import Live

from lakeward.base import kernel_process
from lakeward.cli.progress import QUIET_SECONDS, Bars, Lines, open_view, reading_view
from lakeward.protocol.progress import Merged
from tests.clocks import SettableClock

HALF = Merged(
    operations=2,
    operations_total=4,
    input_bytes=3 * 2**30,
    input_bytes_total=6 * 2**30,
    output_bytes=2**30 + 2**29,
    verified_bytes=2**30,
    bytes_per_second=312.5 * 2**20,
    seconds_left=9.8,
)
FIGURES = "read 3.0 GiB of 6.0 GiB, wrote 1.5 GiB, 312.5 MiB/s, 2 of 4 slices"
LINE = f"merging, 50%: {FIGURES}, 10 s left"


def test_lines_come_now_and_then() -> None:
    """A step always has its line; what repeats is said at most every few seconds, without control characters."""
    clock = SettableClock()
    output = io.StringIO()
    with open_view(Console(file=output, width=80), clock) as view:
        assert isinstance(view, Lines)
        view.step("compaction 1: merging")
        for _ in range(80):
            view.merged(HALF)
            clock.sleep(0.25)
        view.waiting("the lock is held", 3.0)
        clock.sleep(5.0)
        view.working("read the keys of 3 of 12 file groups, 43.7 MiB")
        view.working("read the keys of 4 of 12 file groups, 50.0 MiB")
    lines = output.getvalue().splitlines()
    reading = "read the keys of 3 of 12 file groups, 43.7 MiB"
    assert lines == ["compaction 1: merging", LINE, LINE, LINE, "waiting, 3 s: the lock is held", reading]


def test_bars_show_the_same_figures_in_80_columns() -> None:
    """A bar with the phase, the share and the time left, and the figures below it; no line is longer or cut."""
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=None)
    with open_view(console, SettableClock()) as view:
        assert isinstance(view, Bars)
        view.step("merging [all] of it")
        view.merged(HALF)
        view._bars.refresh()
        assert shown(view) == ["merging", "50%", "10 s left", *FIGURES.split()]
        view.waiting("write 20261121043710038, at most 60 s", 12.0)
        assert shown(view) == ["waiting 12 s", "", "", *["write", "20261121043710038,", "at", "most", "60", "s"]]
        view.working("read 3 of 12 file groups")
        assert shown(view) == ["working", "", "", *["read", "3", "of", "12", "file", "groups"]]
        view.step("done")
        assert view._bars.text == ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert "merging [all] of it" in text
    assert "…" not in text
    assert max(len(line) for line in re.split(r"[\r\n]+", text)) <= 80


def test_a_bar_that_waited_merges_as_a_bar_that_merges() -> None:
    """What is waited for is not said of the work that follows."""
    output = io.StringIO()
    with open_view(Console(file=output, width=200, force_terminal=True), SettableClock()) as view:
        assert isinstance(view, Bars)
        view.waiting("the lock is held", 1.0)
        view.merged(HALF)
        (bar,) = view._bars.tasks
        assert (bar.description, bar.total) == ("merging", HALF.input_bytes_total)
        view.waiting("the lock is held", 1.0)
        (bar,) = view._bars.tasks
        assert (bar.description, bar.total) == ("waiting 1 s", None)


def test_kernels_are_waited_for_in_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of a build goes to the view that is open, and to standard error behind it."""
    builds: list[kernel_process.Report] = []
    monkeypatch.setattr(kernel_process, "is_needed", lambda: True)
    monkeypatch.setattr(kernel_process.KernelProcess, "run", lambda self, report: builds.append(report))
    output = io.StringIO()
    with open_view(Console(file=output, width=200), SettableClock()):
        kernel_process.build_missing()
        builds[0](12, 107)
    assert "compiling kernels, once on this machine: 12 of 107" in output.getvalue()
    kernel_process.build_missing()
    builds[1](13, 107)
    assert "13 of 107" not in output.getvalue()


def shown(view: Bars) -> list[str]:
    (bar,) = view._bars.tasks
    return [bar.description, bar.fields["share"], bar.fields["left"], *view._bars.text.split()]


def test_a_quick_reading_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading has a bar once it lasts, on a terminal alone, and leaves nothing there."""
    for is_terminal in (True, False):
        for seconds in (0.0, QUIET_SECONDS):
            clock, output = SettableClock(), io.StringIO()
            console = Console(file=output, width=80, force_terminal=is_terminal, color_system=None)
            monkeypatch.setattr("lakeward.cli.progress.Terminal", lambda stderr, console=console: console)
            with reading_view(clock) as on_step:
                on_step("read 1 of 9 file slices, 30 rows")
                clock.sleep(seconds)
                if is_terminal:
                    console.file.flush()
                    assert isinstance(console._live_stack[-1], Live)
                    console._live_stack[-1].refresh()
            is_said = "read 1 of 9 file slices, 30 rows" in output.getvalue()
            assert is_said is (is_terminal and seconds > 0)
            with reading_view(clock, is_shown=False) as on_step:
                on_step("x")

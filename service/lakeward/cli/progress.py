"""Show a long piece of work: bars on a terminal, plain lines elsewhere; on stderr, as all that is not data.

Touches: stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakeward.base.clock import Clock
from lakeward.base.kernel_process import compiling, reports_taken
from lakeward.base.quantities import format_duration, format_share
from lakeward.cli.terminal import Terminal
from lakeward.protocol.progress import Merged, Observer, OnStep, Silent

LINE_SECONDS = 5.0
"""How often a plain line repeats itself."""
QUIET_SECONDS = 1.0
"""What is over sooner than this shows no bar, where it is a reading."""


class View(Observer, Protocol):
    """An observer that is opened and closed."""

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def working(self, text: str) -> None:
        """A long reading goes on, and this much of it is done; called often, like `waiting`."""


@contextmanager
def open_view(console: Console, clock: Clock, *, quiet_seconds: float = 0.0) -> Iterator[View]:
    """Kernels that are compiled meanwhile are waited for in this view.

    Args:
        quiet_seconds: bars are not shown before.
    """
    bars_from = clock.monotonic() + quiet_seconds
    view: View = (
        Bars(console, is_due=lambda: clock.monotonic() >= bars_from) if console.is_terminal else Lines(console, clock)
    )
    began: float | None = None

    def compiled(done: int, total: int) -> None:
        nonlocal began
        began = clock.monotonic() if began is None else began
        view.waiting(compiling(done, total), clock.monotonic() - began)

    with view, reports_taken(compiled):
        yield view


@contextmanager
def reading_view(clock: Clock, *, is_shown: bool = True) -> Iterator[OnStep]:
    """Takes how far a reading is. On a terminal a bar shows it once the reading lasts; elsewhere, nothing does."""
    console = Terminal(stderr=True)
    if not is_shown or not console.is_terminal:
        yield lambda text: None
        return
    with open_view(console, clock, quiet_seconds=QUIET_SECONDS) as view:
        yield view.working


class Lines(Silent):
    """One line a step, and one every few seconds while it lasts."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._quiet_until = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def step(self, text: str) -> None:
        self._print(text)
        self._quiet_until = self._clock.monotonic() + LINE_SECONDS

    def waiting(self, text: str, seconds: float) -> None:
        self._print_now_and_then(f"waiting, {format_duration(seconds)}: {text}")

    def working(self, text: str) -> None:
        self._print_now_and_then(text)

    def merged(self, state: Merged) -> None:
        self._print_now_and_then(state.sentence)

    def _print_now_and_then(self, text: str) -> None:
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + LINE_SECONDS
            self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class Bars(Silent):
    """What goes on, with a bar over the bytes that are read and the time left; below it the figures, or what is waited
    for. No line is longer than a terminal of 80 columns."""

    def __init__(self, console: Console, *, is_due: Callable[[], bool] = lambda: True) -> None:
        self._console = console
        self._bars = _BarsWithText(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[share]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._bars.is_due = is_due
        self._bar: TaskID | None = None

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def step(self, text: str) -> None:
        """The step stays on the terminal; below it a bar says that it lasts."""
        self._console.print(f"[dim]•[/dim] {escape(text)}", highlight=False)
        self._drop_bar()
        self._show("", "working")

    def waiting(self, text: str, seconds: float) -> None:
        self._show(text, f"waiting {format_duration(seconds)}")

    def working(self, text: str) -> None:
        self._show(text, "working")

    def merged(self, state: Merged) -> None:
        self._show(
            state.figures,
            state.doing,
            total=float(state.input_bytes_total),
            completed=float(state.input_bytes),
            left=state.left,
            share=format_share(state.ratio),
        )

    def _show(
        self,
        text: str,
        description: str,
        *,
        total: float | None = None,
        completed: float = 0.0,
        left: str = "",
        share: str = "",
    ) -> None:
        self._bars.text = text
        if self._bar is not None and self._bars.tasks[0].total != total:
            self._drop_bar()  # a bar cannot lose its total; and its time is that of what lasts
        if self._bar is None:
            self._bar = self._bars.add_task(description, total=total, left=left, share=share)
        self._bars.update(self._bar, description=description, completed=completed, left=left, share=share)

    def _drop_bar(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None


class _BarsWithText(Progress):
    text = ""
    is_due: Callable[[], bool] | None = None
    """The library asks for renderables while it makes the bars."""

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.is_due is None or not self.is_due():
            return
        yield from super().get_renderables()
        if self.text:
            yield Text(f"  {self.text}", style="dim")

"""Show a long piece of work: bars on a terminal, plain lines elsewhere; on stderr, as all that is not data.

Touches: stderr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as Bar
from rich.text import Text

from lakeward.clock import Clock
from lakeward.execute.progress import Merged, Observer, Silent
from lakeward.kernel_process import compiling, reports_taken
from lakeward.quantities import format_duration, format_size

LINE_SECONDS = 5.0
"""How often a plain line repeats itself."""


class View(Observer, Protocol):
    """An observer that is opened and closed."""

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@contextmanager
def open_view(console: Console, clock: Clock) -> Iterator[View]:
    """Kernels that are compiled meanwhile are waited for in this view."""
    began = clock.monotonic()
    view: View = Bars(console) if console.is_terminal else Lines(console, clock)

    def compiled(done: int, total: int) -> None:
        view.waiting(compiling(done, total), clock.monotonic() - began)

    with view, reports_taken(compiled):
        yield view


class Lines(Silent):
    """One line a step, and one every few seconds while it lasts."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._quiet_until = 0.0
        self._started = clock.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def step(self, text: str) -> None:
        self._print(text)
        self._started = self._clock.monotonic()
        self._quiet_until = self._started + LINE_SECONDS

    def waiting(self, text: str, seconds: float) -> None:
        self._print_now_and_then(f"waiting, {format_duration(seconds)}: {text}")

    def merged(self, state: Merged) -> None:
        seconds = max(self._clock.monotonic() - self._started, 0.001)
        self._print_now_and_then(
            f"merged {state.operations} of {state.operations_total} file slices, "
            f"{format_size(state.input_bytes)} of {format_size(state.input_bytes_total)}, "
            f"wrote {format_size(state.output_bytes)}, {state.rows / seconds:,.0f} rows/s"
        )

    def _print_now_and_then(self, text: str) -> None:
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + LINE_SECONDS
            self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class Bars(Silent):
    """A bar over the plan's operations, with bytes, rows a second and the time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[operations]}"),
            TextColumn("{task.fields[written]}"),
            _RowsColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bar: TaskID | None = None
        self._is_waiting = False

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        self._drop_bar()
        self._console.print(f"[dim]•[/dim] {text}", highlight=False)

    def waiting(self, text: str, seconds: float) -> None:
        if self._bar is None or not self._is_waiting:
            self._drop_bar()
            self._bar, self._is_waiting = self._add("waiting", total=None), True
        self._progress.update(self._bar, operations=text, written="")

    def merged(self, state: Merged) -> None:
        if self._bar is None or self._is_waiting:
            self._drop_bar()
            self._bar, self._is_waiting = self._add("merging", total=float(state.input_bytes_total)), False
        self._progress.update(
            self._bar,
            completed=float(state.input_bytes),
            operations=f"{state.operations}/{state.operations_total} slices",
            written=f"{format_size(state.input_bytes)} in, {format_size(state.output_bytes)} out",
            rows=state.rows,
        )

    def _add(self, description: str, *, total: float | None) -> TaskID:
        return self._progress.add_task(description, total=total, operations="", written="", rows=0)

    def _drop_bar(self) -> None:
        if self._bar is not None:
            self._progress.remove_task(self._bar)
            self._bar = None


class _RowsColumn(ProgressColumn):
    def render(self, task: Bar) -> Text:
        elapsed = task.elapsed or 0.0
        rows = task.fields.get("rows", 0)
        return Text(f"{rows / elapsed:,.0f} rows/s" if rows and elapsed else "", style="cyan")

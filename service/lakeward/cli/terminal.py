"""The terminal, on which no text is a command; and tables on it: one line a row as far as that is possible.

    961af969-1c4e-4f0d-a4f1-8a3a9c3f8847-0   on 120 columns
    961af969…847-0                           on 80: names are cut in the middle, the beginning and the end identify them

Output that is no terminal's, a pipe's or a file's, has no width, and nothing in it is cut.

Touches: nothing; a result, stdout, where it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lakeward.cli.result import Result, shown

NO_WIDTH = 1 << 16
"""More than any line of Lakeward has."""

ID_CELLS = 14
"""What is left of a file group's id on a narrow terminal: eight characters, the cut, five characters."""

WIDE_CELLS = 120
"""The width from which on ids are whole."""

_CUT = "…"
_NAME_CELLS_MIN = 6


class Terminal(Console):
    """A console on which no text is a command; colours are Rich's.

    A pipe or a file has no width: what reads it finds each name whole, and each row of a table on one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "width" not in options:
            self.width = NO_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered(Result):
    """A result that people read as tables, or with colours."""

    render: Callable[[Terminal], None]

    def show(self) -> None:
        self.render(Terminal())
        self.show_notes()


class Column(Enum):
    FIXED = "fixed"
    """Columns as wide as what is in them."""
    ELASTIC = "elastic"
    """What gives way where the terminal is too narrow."""
    NUMBER = "number"
    """Fixed, and to the right."""


def new_table(columns: Mapping[str, Column], *, title: str = "") -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        collapse_padding=True,
        title=title or None,
        title_justify="left",
        header_style="dim",
    )
    for name, kind in columns.items():
        table.add_column(name, no_wrap=kind is not Column.ELASTIC, justify="right" if kind is Column.NUMBER else "left")
    return table


def id_cell(file_id: str, console: Console) -> Text:
    """A file group's id, or another that is long and by chance."""
    return Text(_one_line(file_id) if console.width >= WIDE_CELLS else cut(_one_line(file_id), ID_CELLS), no_wrap=True)


class NameCell:
    """A partition's or table's name: as wide as there is room, and cut in the middle to fit one line."""

    def __init__(self, name: str) -> None:
        self._name = _one_line(name)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = cell_len(self._name)
        return Measurement(min(whole, _NAME_CELLS_MIN), whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(cut(self._name, options.max_width), no_wrap=True)


def cut(text: str, cells: int) -> str:
    """The text in so many cells, with its beginning and its end where it has more."""
    if cell_len(text) <= cells:
        return text
    head = cells * 3 // 5
    return _leading(text, head) + _CUT + _leading(text[::-1], cells - 1 - head)[::-1]


def _leading(text: str, cells: int) -> str:
    while cell_len(text) > cells:
        text = text[:-1]
    return text


def _one_line(text: str) -> str:
    return shown(text).replace("\n", "\\n")

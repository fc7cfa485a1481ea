"""Rows as a table for people: on a terminal one line a row, as many columns as fit, and a pager where rows are many.

    id   city  fare  …        long values lose their end, what does not fit its columns, which are counted below

Output that is no terminal's has all columns, and nothing in it is cut.

Touches: the console that it is given; $PAGER, as `pydoc` starts it, where more rows than a screen has are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_count
from lakeward.cli.read.row_output import plain
from lakeward.cli.result import shown
from lakeward.cli.terminal import Column, new_table

CELLS_MAX = 40
"""The width of a column on a terminal, at most."""
_GAP = 1
_LINES_AROUND = 4
"""The head of the table, what is below it, and the shell's next line."""


def render_rows(
    rows: Sequence[dict[str, Any]],
    total: int | None,
    names: Sequence[str],
    console: Console,
    *,
    has_pager: bool = True,
) -> None:
    """
    Args:
        total: how many rows there are; None where they were not counted.
    """
    cells = {name: [cell(row[name]).replace("\n", "\\n") for row in rows] for name in names}
    fitting = _fitting(cells, console.width) if console.is_terminal else list(names)
    view = new_table(dict.fromkeys(fitting, Column.FIXED))
    for line in zip(*(cells[name] for name in fitting), strict=True):
        view.add_row(*(_text(each, console) for each in line))
    is_long = has_pager and console.is_terminal and len(rows) + _LINES_AROUND > console.height
    with console.pager() if is_long else nullcontext():
        console.print(view)
        for said in _below(len(rows), total, len(names) - len(fitting)):
            console.print(said, highlight=False)


def cell(value: Any) -> str:
    """A value as text: texts as they are, all others as JSON has them."""
    if value is None:
        return "null"
    text = plain(value)
    return text if isinstance(text, str) else orjson.dumps(text, default=plain).decode()


def _fitting(cells: dict[str, list[str]], width: int) -> list[str]:
    """The columns that fit, from the left; one at least."""
    fitting: list[str] = []
    left = width
    for name, values in cells.items():
        left -= min(max(map(cell_len, map(shown, (name, *values)))), CELLS_MAX) + _GAP
        if fitting and left < 0:
            break
        fitting.append(name)
    return fitting


def _text(value: str, console: Console) -> Text:
    text = Text(shown(value), no_wrap=True)
    if console.is_terminal:
        text.truncate(CELLS_MAX, overflow="ellipsis")
    return text


def _below(number: int, total: int | None, left_out: int) -> list[str]:
    lines = [f"{format_count(left_out, 'more column')}; --columns names those to show"] if left_out else []
    if total is None:
        return [*lines, f"The first {format_count(number, 'row')}; --limit shows more, --count counts all"]
    more = f", the first {number} shown; --limit shows more" if number < total else ""
    return [*lines, f"{format_count(total, 'row')}{more}"]

"""The savepoints of a table, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_duration, format_size, format_time
from lakeward.cli.views.tables import Column, new_table
from lakeward.cli.views.terminal import shown
from lakeward.services.savepoint.plan import Pinned

_COLUMNS = {
    "instant": Column.FIXED,
    "age": Column.NUMBER,
    "only it keeps": Column.NUMBER,
    "files": Column.NUMBER,
    "user": Column.FIXED,
    "comment": Column.ELASTIC,
}


def savepoints_as_json(pinned: Sequence[Pinned], *, now: float) -> list[dict[str, Any]]:
    return [
        {
            "instant": each.savepoint.instant,
            "user": each.savepoint.user,
            "comment": each.savepoint.comment,
            "made_at": format_time(each.savepoint.made_at),
            "age_seconds": round(now - each.savepoint.made_at),
            "files": each.files,
            "bytes": each.bytes,
            "files_only_it_keeps": each.only_files,
            "bytes_only_it_keeps": each.only_bytes,
            "files_gone": each.gone,
        }
        for each in pinned
    ]


def explain_pinned(pinned: Sequence[Pinned], console: Console, *, now: float) -> None:
    """A sentence for each savepoint."""
    for each in pinned:
        age = format_duration(max(0.0, now - each.savepoint.made_at))
        comment = f" ({each.savepoint.comment})" if each.savepoint.comment else ""
        console.print(
            Text(
                shown(
                    f"{format_size(each.only_bytes)} pinned by savepoint {each.savepoint.instant} since {age}{comment}."
                )
            )
        )


def render_savepoints(pinned: Sequence[Pinned], begun: Sequence[str], console: Console, *, now: float) -> None:
    """`begun`: instants of savepoints that are not completed, and so keep nothing."""
    if not pinned:
        console.print("No savepoint.")
    else:
        table = new_table(_COLUMNS)
        for each in pinned:
            savepoint = each.savepoint
            cells = (
                savepoint.instant,
                format_duration(max(0.0, now - savepoint.made_at)),
                format_size(each.only_bytes),
                f"{each.files}, {each.gone} gone" if each.gone else str(each.files),
                savepoint.user,
                savepoint.comment,
            )
            table.add_row(*(Text(shown(cell)) for cell in cells))
        console.print(table)
    for instant in begun:
        console.print(f"A savepoint of {instant} was begun and not completed: it keeps nothing.")

"""The indexes of a table, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_duration, format_size
from lakeward.cli.views.index.teed import render_tee, tee_as_json
from lakeward.cli.views.tables import Column, new_table
from lakeward.cli.views.terminal import shown
from lakeward.index.tee import Tee
from lakeward.services.indexing.judge.listing import ListedIndex

_COLUMNS = {
    "type": Column.FIXED,
    "name": Column.FIXED,
    "state": Column.FIXED,
    "keys are one in": Column.FIXED,
    "covers": Column.FIXED,
    "behind": Column.FIXED,
    "takes": Column.NUMBER,
    "": Column.ELASTIC,
}


def listed_as_json(base_path: str, indexes: Sequence[ListedIndex], tee: Tee, left: int) -> dict[str, Any]:
    """
    Args:
        left: commits that are still to be compared for the index on trial, if there is one.
    """
    on_trial = None if tee.shadow is None else tee_as_json(tee, left)
    return {"base_path": base_path, "indexes": [asdict(index) for index in indexes], "tee": on_trial}


def render_listed(indexes: Sequence[ListedIndex], tee: Tee, left: int, console: Console) -> None:
    table = new_table(_COLUMNS)
    for index in indexes:
        cells = (
            index.type,
            index.name,
            f"{index.state}, {index.role}" if index.role else index.state.value,
            f"the {index.scope}" if index.scope == "table" else index.scope and f"a {index.scope}",
            _covers(index),
            _behind(index),
            "" if index.bytes is None else format_size(index.bytes),
            index.note,
        )
        table.add_row(*(Text(shown(cell)) for cell in cells))
    console.print(table)
    if tee.shadow is not None:
        render_tee(tee, left, console)


def _covers(index: ListedIndex) -> str:
    if index.of is None:
        return "keys" if index.locates else "files"
    covered = "?" if index.covered is None else f"{index.covered:,}"
    return f"{covered} of {index.of:,} {index.unit}"


def _behind(index: ListedIndex) -> str:
    if not index.behind_commits:
        return "" if index.behind_commits is None else "nothing"
    commits = f"{index.behind_commits:,} commit{'' if index.behind_commits == 1 else 's'}"
    return f"{commits}, {format_size(index.behind_bytes)}, {format_duration(index.behind_seconds)}"

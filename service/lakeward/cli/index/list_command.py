"""`lakeward index list TABLE`: the indexes that a table has, Hudi's and Lakeward's own. Reads only.

Touches: stdout, stderr; the table and the database of its index, reading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_duration, format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.own_index import DatabaseOption, indexes_of, listed_in_database
from lakeward.cli.index.view import render_tee, tee_as_json
from lakeward.cli.result import Result, shown
from lakeward.cli.terminal import Column, Rendered, new_table
from lakeward.index.bloom.log_coverage import look_at_logs
from lakeward.index.index import Indexed
from lakeward.index.index_type import lookup_type
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.tee import Tee, read_tee
from lakeward.services.indexing.judge.index_list import ListedIndex, list_below
from lakeward.services.indexing.judge.index_list import list_indexes as list_hudis


def list_indexes(
    opened: ZonedTable,
    url: DatabaseOption = None,
) -> Result:
    """List the indexes of a table: coverage, commits behind, size. Reads only."""
    snapshot = opened.snapshot()
    found = (
        *list_hudis(opened.storage, snapshot, clock=SystemClock()),
        *list_below(indexes_of(opened, url), snapshot),
        *listed_in_database(opened, snapshot, url),
    )
    tee = read_tee(opened.storage, opened.base_path)
    roles = {tee.shadow: "shadow", tee.primary: "primary"}
    found = tuple(replace(each, role=roles.get(lookup_type(each.type), "") if each.locates else "") for each in found)
    left = 0
    if tee.shadow is not None:
        left = staleness(opened.storage, snapshot, Indexed(tee.through), clock=SystemClock()).commits
    logs = look_at_logs(opened.storage, snapshot).coverage
    document = {**listed_as_json(opened.base_path, found, tee, left), "logs": asdict(logs)}

    def render(console: Console) -> None:
        render_listed(found, tee, left, console)
        if logs.logs:
            console.print(logs.summary, highlight=False)

    return Rendered(document=document, render=render)


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
    commits = format_count(index.behind_commits, "commit")
    return f"{commits}, {format_size(index.behind_bytes)}, {format_duration(index.behind_seconds)}"

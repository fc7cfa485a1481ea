"""What commits did to the places of keys, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.cli.views.tables import Column, NameCell, id_cell, new_table
from lakeward.services.indexing.judge.key_change_listing import ChangesOfCommit

_COLUMNS = {
    "commit": Column.FIXED,
    "key": Column.ELASTIC,
    "": Column.FIXED,
    "partition": Column.ELASTIC,
    "file group": Column.FIXED,
}


def changes_as_json(base_path: str, commits: Sequence[ChangesOfCommit]) -> dict[str, Any]:
    return {"base_path": base_path, "commits": [asdict(commit) for commit in commits]}


def render_changes(commits: Sequence[ChangesOfCommit], console: Console) -> None:
    listed = [(commit, change) for commit in commits for change in commit.changes]
    if listed:
        table = new_table(_COLUMNS)
        for commit, change in listed:
            table.add_row(
                Text(commit.instant),
                NameCell(change.key),
                Text("in" if change.is_there else "no more in"),
                NameCell(change.partition_path),
                id_cell(change.file_id, console),
            )
        console.print(table)
    total = sum(commit.there + commit.gone for commit in commits)
    if len(listed) < total:
        console.print(f"… and {total - len(listed):,} more; --limit lists them.")
    for commit in commits:
        anew = f"; {commit.read_anew} file groups reported as they are now" if commit.read_anew else ""
        console.print(f"{commit.action} {commit.instant}: {commit.there:,} keys in, {commit.gone:,} gone{anew}.")
    if not commits:
        console.print("No commit in between.")

"""`lakeward index changes TABLE --from T --to T`: which record keys commits added, moved or removed. Reads only.

Touches: stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.group import work_watched
from lakeward.cli.result import Result
from lakeward.cli.terminal import Column, NameCell, Rendered, id_cell, new_table
from lakeward.services.indexing.judge.key_change_list import ChangesOfCommit, changes_between


def changes(
    opened: ZonedTable,
    after: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="INSTANT", help="A commit's instant, or a time: report what completed after it."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="INSTANT",
            help="A commit's instant, or a time: report what completed until then; default now.",
        ),
    ] = None,
    by_partition: Annotated[
        bool, typer.Option("--by-partition", help="Keys are unique in a partition, not in the whole table.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="How many changes to list; all are counted.")] = 100,
) -> Result:
    """List which record keys each commit added to which file group, and which it removed. Reads only.

    The answer comes from the commits and their files, not from an index. A compaction moves no key. Where a clean
    deleted files of a commit, their file groups are reported as they are now.
    """
    snapshot = opened.snapshot()
    with work_watched() as on_step:
        found = changes_between(
            opened.storage,
            snapshot,
            after=after,
            until=until,
            is_global=not by_partition,
            kept=limit,
            on_commit=partial(on_step, "read {} of {} commits"),
        )
    return Rendered(document=changes_as_json(opened.base_path, found), render=partial(render_changes, found))


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
        again = f"; {commit.read_again} file groups reported as they are now" if commit.read_again else ""
        console.print(f"{commit.action} {commit.instant}: {commit.there:,} keys in, {commit.gone:,} gone{again}.")
    if not commits:
        console.print("No commit in between.")

"""`lakeward index changes TABLE --from T --to T`: which record keys commits added, moved or removed. Reads only.

Touches: stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.group import work_watched
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.index.changed import changes_as_json, render_changes
from lakeward.cli.views.terminal import Terminal
from lakeward.services.indexing.judge.key_change_listing import changes_between


def changes(
    table: TableArgument,
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
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List which record keys each commit added to which file group, and which it removed. Reads only.

    The answer comes from the commits and their files, not from an index. A compaction moves no key. Where a clean
    deleted files of a commit, their file groups are reported as they are now.
    """
    opened = open_table(table, config)
    snapshot = opened.snapshot(timezone=timezone)
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
    if as_json:
        print_json(changes_as_json(opened.base_path, found))
    else:
        render_changes(found, Terminal())

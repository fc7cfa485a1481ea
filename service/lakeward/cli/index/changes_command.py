"""`lakeward index changes TABLE --from T --to T`: what commits did to the places of record keys. Reads only.

Touches: stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.group import index_app, work_watched
from lakeward.cli.options.store import DebugOption, JsonOption, print_json


@index_app.command()
def changes(
    table: TableArgument,
    after: Annotated[
        str | None,
        typer.Option("--from", metavar="INSTANT", help="Of a commit, or a time: what completed after it is told."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="The same: what completed until then; default now.")
    ] = None,
    by_partition: Annotated[
        bool, typer.Option("--by-partition", help="A key is one in its partition, and not in all of the table.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="How many changes are listed; all are counted.")] = 100,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say which record keys came to which file group, and which went, with each commit. Reads only.

    It is told from the commits and their files, as an index that follows the table takes them in, and asks no index.
    A compaction moves no key. Where a clean took files of a commit away, their file groups are told as they are now.
    """
    from lakeward.cli.views.index.changed import changes_as_json, render_changes
    from lakeward.cli.views.terminal import Terminal
    from lakeward.services.indexing.judge.key_change_listing import changes_between

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

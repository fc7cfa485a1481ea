"""`lakeward index list TABLE`: the indexes that a table has, Hudi's and Lakeward's own. Reads only.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.group import index_app
from lakeward.cli.options.store import DebugOption, JsonOption, print_json


@index_app.command("list")
def list_indexes(
    table: TableArgument,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show every index of a table with what it covers, how far it is behind, and what it takes. Reads only."""
    from lakeward.cli.views.index.listed import listed_as_json, render_listed
    from lakeward.cli.views.terminal import Terminal
    from lakeward.verify.index_listing import list_indexes

    opened = open_table(table, config)
    found = list_indexes(opened.storage, opened.snapshot(timezone=timezone))
    if as_json:
        print_json(listed_as_json(opened.base_path, found))
    else:
        render_listed(found, Terminal())

"""`lakeward index list TABLE`: the indexes that a table has, Hudi's and Lakeward's own. Reads only.

Touches: stdout, stderr; the table and the database of its index, reading only.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.database_index import DatabaseOption, listed_in_database
from lakeward.cli.index.record_index import listed_in_folder
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.index.listed import listed_as_json, render_listed
from lakeward.cli.views.terminal import Terminal
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.tee import read_tee


def list_indexes(
    table: TableArgument,
    url: DatabaseOption = None,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the indexes of a table: coverage, commits behind, size. Reads only."""
    from lakeward.services.indexing.judge.listing import list_indexes

    opened = open_table(table, config)
    snapshot = opened.snapshot(timezone=timezone)
    found = (
        *list_indexes(opened.storage, snapshot, clock=SystemClock()),
        *listed_in_folder(opened, snapshot),
        *listed_in_database(opened, snapshot, url),
    )
    tee = read_tee(opened.storage, opened.base_path)
    roles = {tee.shadow: "shadow", tee.primary: "primary"}
    found = tuple(replace(each, role=roles.get(IndexType(each.type), "") if each.locates else "") for each in found)
    left = 0
    if tee.shadow is not None:
        left = staleness(opened.storage, snapshot, Indexed(tee.through), clock=SystemClock()).commits
    if as_json:
        print_json(listed_as_json(opened.base_path, found, tee, left))
    else:
        render_listed(found, tee, left, Terminal())

"""`lakeward inspect TABLE`: what a table is, and why Lakeward would not service it. Reads only.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.inspect import render
from lakeward.cli.views.terminal import Terminal
from lakeward.services.together.inspection import inspect_table


def inspect(
    table: TableArgument,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show version, layout, timeline, file groups, pending work, and what would be refused. Reads only."""
    opened = open_table(table, config)
    zone = timezone or opened.table.timezone
    report = inspect_table(opened.storage, opened.base_path, timezone=zone, clock=SystemClock())
    if as_json:
        print_json(report)
    else:
        render(report, Terminal())

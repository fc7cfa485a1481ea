"""`lakeward plan TABLE`: what compact would do now, and why. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.preview import engine_rule_of, preview, show_preview
from lakeward.cli.result import DebugOption, JsonOption
from lakeward.cli.views.plan import render_plan

if TYPE_CHECKING:
    pass


@with_option_groups
def plan(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedPlan,
    explain_too: Annotated[
        bool, typer.Option("--explain", help="Say for every file group in a sentence why, or why not.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say what compact would do now, with --config what the daemon would: the operations, what they would cost, and why
    not the others. Writes nothing."""
    opened = open_table(table, config)
    found, trigger = preview(opened, config, stated, timezone)
    rule = engine_rule_of(opened, config, stated)
    show_preview(found.outcome, trigger, rule, as_json=as_json, render=partial(render_plan, explained=explain_too))

"""`lakeward plan TABLE` and `lakeward explain TABLE`: what compact would do now, and why. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption
from lakeward.cli.option_groups import with_option_groups
from lakeward.cli.plan_options import StatedPlan
from lakeward.cli.store_options import DebugOption, JsonOption


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
    from lakeward.cli.preview import preview, show_preview
    from lakeward.cli.views.plan import render_plan

    outcome, trigger = preview(table, config, stated, timezone)
    show_preview(outcome, trigger, as_json=as_json, render=partial(render_plan, explained=explain_too))


@with_option_groups
def explain(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedPlan,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say for each file group in one sentence what would happen to it, why, and when it would be otherwise."""
    from lakeward.cli.preview import preview, show_preview
    from lakeward.cli.views.plan import explanations_as_json, render_explanations

    outcome, trigger = preview(table, config, stated, timezone)
    show_preview(outcome, trigger, as_json=as_json, document=explanations_as_json, render=render_explanations)

"""`lakeward plan TABLE` and `lakeward explain TABLE`: what compact would do now, and why. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.options.store import DebugOption, JsonOption
from lakeward.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console

    from lakeward.plan.compaction.decision import PlanOutcome


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

    found, trigger = preview(open_table(table, config), config, stated, timezone)
    show_preview(found.outcome, trigger, as_json=as_json, render=partial(render_plan, explained=explain_too))


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
    """Say for each file group in one sentence what would happen to it, why, and when it would be otherwise; and what
    each savepoint keeps of the table."""
    from lakeward.cli.pinned_files import find_pinned
    from lakeward.cli.preview import preview, show_preview
    from lakeward.cli.views.plan import explanations_as_json, render_explanations
    from lakeward.cli.views.savepoints import explain_pinned, savepoints_as_json

    opened = open_table(table, config)
    found, trigger = preview(opened, config, stated, timezone)
    pinned, now = find_pinned(opened, found.snapshot), SystemClock().now()

    def document(outcome: PlanOutcome) -> dict[str, Any]:
        return {**explanations_as_json(outcome), "savepoints": savepoints_as_json(pinned, now=now)}

    def render(outcome: PlanOutcome, console: Console) -> None:
        render_explanations(outcome, console)
        explain_pinned(pinned, console, now=now)

    show_preview(found.outcome, trigger, as_json=as_json, document=document, render=render)

"""`lakeward plan TABLE`: what compact would do now, and why. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.preview import engine_rule_of, preview, preview_result, render_plan
from lakeward.cli.result import Result

if TYPE_CHECKING:
    pass


def plan(
    *,
    opened: ZonedTable,
    stated: StatedPlan,
    explain_too: Annotated[
        bool, typer.Option("--explain", help="Say for every file group in a sentence why, or why not.")
    ] = False,
) -> Result:
    """Say what compact would do now, with --config what the daemon would: the operations, what they would cost, and why
    not the others. Writes nothing."""
    found, trigger = preview(opened, stated)
    rule = engine_rule_of(opened, stated)
    return preview_result(found.outcome, trigger, rule, render=partial(render_plan, explained=explain_too))

"""`lakeward plan TABLE` and `lakeward explain TABLE`: what compact would do now, and why. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, ConfiguredTable, TableArgument, TimezoneOption, open_table
from lakeward.cli.metadata_compact import metadata_trigger_as_json, metadata_trigger_of, render_metadata_trigger
from lakeward.cli.option_groups import with_option_groups
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.plan_options import StatedPlan
from lakeward.cli.store_options import DebugOption, JsonOption, print_json
from lakeward.cli.views.plan import explanations_as_json, plan_as_json, render_explanations, render_plan
from lakeward.cli.views.terminal import Terminal
from lakeward.clock import SystemClock
from lakeward.commit.lock.file_system_lock import FileSystemLockOptions
from lakeward.commit.owner import Processes
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.execute.compaction.compactor import Compactor
from lakeward.execute.options import CompactionOptions
from lakeward.plan.decision import PlanOutcome
from lakeward.table.listing import listing_source
from lakeward.task.entry import run_operation_at


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
    """Say what compact would do now: the operations, what they would cost, and why not the others. Writes nothing."""
    opened = open_table(table, config)
    outcome = _preview(opened, config, stated, timezone)
    trigger = metadata_trigger_of(opened, opened.table.metadata_compact_after)
    if as_json:
        print_json({**plan_as_json(outcome), "metadata_table": metadata_trigger_as_json(trigger)})
    else:
        render_plan(outcome, Terminal(), explained=explain_too)
        render_metadata_trigger(trigger, Terminal())


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
    opened = open_table(table, config)
    outcome = _preview(opened, config, stated, timezone)
    trigger = metadata_trigger_of(opened, opened.table.metadata_compact_after)
    if as_json:
        print_json({**explanations_as_json(outcome), "metadata_table": metadata_trigger_as_json(trigger)})
    else:
        render_explanations(outcome, Terminal())
        render_metadata_trigger(trigger, Terminal())


def _preview(opened: ConfiguredTable, config: Path | None, stated: StatedPlan, timezone: str | None) -> PlanOutcome:
    clock = SystemClock()
    parked = ParkedGroups(opened, config, clock, say=partial(typer.echo, err=True))
    compactor = Compactor(
        opened.storage,
        opened.base_path,
        CompactionOptions(
            writers_stopped=False,
            lock=FileSystemLockOptions(),
            timezone=timezone or opened.table.timezone,
            listing=listing_source(opened.base_path, opened.table.listing),
        ),
        planner=stated.over(opened.table),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, opened.base_path),
        clock=clock,
        processes=Processes(),
        excluded=parked.excluded(parked.records(named=stated.file_group or ())),
    )
    return compactor.preview()

"""What would be done now: by `lakeward compact`, and by the daemon of a configuration, whose trigger has to fire first.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.cli.configured_table import ConfiguredTable
from lakeward.cli.options.compaction import compaction_options
from lakeward.cli.options.engine import StatedEngine
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.result import print_json
from lakeward.cli.views.engines import engines_as_json, render_engines
from lakeward.cli.views.metadata import metadata_trigger_as_json, render_metadata_trigger
from lakeward.cli.views.plan import plan_as_json, render_plan
from lakeward.cli.views.terminal import Terminal
from lakeward.config.settings import Writers
from lakeward.engine.dispatch.engine_rule import EngineRule, EngineSetting, rule_of_daemon
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.java import find_missing_java
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.owner import Processes
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.compaction.run.preview import Preview
from lakeward.services.metadata.plan.compact_after import MetadataCompactAfter
from lakeward.services.metadata.plan.trigger import MetadataTrigger
from lakeward.services.metadata.run.trigger import scan_trigger
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.service_instants import ServiceInstant, read_service_instants
from lakeward.table.timeline.timeline import load_timeline


def show_preview(
    outcome: PlanOutcome,
    trigger: MetadataTrigger | None,
    rule: EngineRule,
    *,
    as_json: bool,
    document: Callable[[PlanOutcome], dict[str, Any]] = plan_as_json,
    render: Callable[[PlanOutcome, Console], None] = render_plan,
) -> None:
    """What compact would do, on what it would run, and whether the metadata table's services are due."""
    if as_json:
        runs_on = engines_as_json(outcome, rule)
        print_json({**document(outcome), "runs_on": runs_on, "metadata_table": metadata_trigger_as_json(trigger)})
        return
    console = Terminal()
    render(outcome, console)
    render_engines(outcome, rule, console)
    render_metadata_trigger(trigger, console)


def engine_rule_of(opened: ConfiguredTable, config: Path | None, stated: StatedPlan) -> EngineRule:
    """On what `compact` would run its plans now, or the daemon."""
    settings, memory = opened.settings, opened.table.memory
    if _is_of_daemon(config, stated):
        missing = find_missing_java()
        return rule_of_daemon(
            EngineSetting(settings.service.engine),
            master=settings.spark.where,
            is_named=settings.spark.is_named,
            why_no_spark=None if missing is None else missing.what,
            memory_bytes=memory,
            memory_limit_bytes=settings.service.memory,
        )
    return StatedEngine().over(settings, memory_bytes=memory).rule


def _is_of_daemon(config: Path | None, stated: StatedPlan) -> bool:
    """A command line that says nothing of its own asks what the daemon of that configuration would do."""
    return config is not None and stated.is_silent


def _newest_plan_of_a_daemon(opened: ConfiguredTable) -> ServiceInstant | None:
    """Its timeline shows that a daemon services the table, wherever its store is."""
    config = load_table_config(opened.storage, opened.base_path, clock=SystemClock()).config
    timeline = load_timeline(opened.storage, opened.base_path, config)
    instants = read_service_instants(opened.storage, opened.base_path, config, timeline)
    return max(
        (instant for instant in instants if instant.planned_by_service is not None),
        key=lambda instant: instant.time,
        default=None,
    )


def preview(
    opened: ConfiguredTable, config: Path | None, stated: StatedPlan, timezone: str | None
) -> tuple[Preview, MetadataTrigger | None]:
    """The decisions that `compact` would take now, or the daemon, and how far the metadata table is."""
    clock = SystemClock()
    parked = ParkedGroups(opened, config, clock, say=partial(typer.echo, err=True))
    options = compaction_options(opened, opened.locks, timezone=timezone)
    # Where nothing is said of the writers yet, it is what could be done once they are stopped.
    options = replace(options, writers_stopped=opened.locks.writers is not Writers.SHARE)
    compactor = Compactor(
        opened.storage,
        opened.base_path,
        options,
        planner=stated.over(opened.table, trigger=Trigger() if _is_of_daemon(config, stated) else None),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, opened.base_path),
        clock=clock,
        processes=Processes(),
        excluded=parked.excluded(parked.records(named=stated.file_group or ())),
    )
    found = compactor.preview()
    stated.check_matches(found.outcome)
    if config is None and (plan := _newest_plan_of_a_daemon(opened)) is not None:
        typer.echo(
            f"Service {plan.planned_by_service} works on this table, too: its daemon planned {plan.action} "
            f"{plan.time}. This is what would be done without its configuration; name that with --config "
            "to see what it would do.",
            err=True,
        )
    return found, metadata_trigger_of(opened, opened.table.metadata_compact_after)


def metadata_trigger_of(opened: ConfiguredTable, after: MetadataCompactAfter) -> MetadataTrigger | None:
    """None also where the metadata table cannot be read: then it is not compacted either, and `inspect` says why."""
    clock = SystemClock()
    config = load_table_config(opened.storage, opened.base_path, clock=clock).config
    try:
        return scan_trigger(opened.storage, opened.base_path, config, after=after, clock=clock)
    except (Unsupported, BrokenFile):
        return None

"""`lakeward table upgrade|downgrade TABLE --to N`: give a table another version.

Touches: stdout, stderr; the table, through `execute/versions/changing.py`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. each step is told with its reason and what it costs, before it is taken as after.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.engine import CommandEngines, StatedEngine
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.errors import UsageError
from lakeward.quantities import format_size

if TYPE_CHECKING:
    from lakeward.execute.serviced_table import ServicedTable
    from lakeward.execute.versions.changing import Compact
    from lakeward.plan.version_change import VersionChange, VersionStep

_SHOWN = 20
"""So many file groups or files are named for people; JSON has all."""

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be changed and why, write nothing.")]


@with_option_groups
def upgrade(
    *,
    table: TableArgument,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The table version to go to: 10, from 9.")],
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give a table of version 9 the version 10, in which new logs are files of the base files' format.

    Only properties change: what was written before stays as it is and is read with what comes. From then on programs
    that know no version 10 refuse the table, every released Hudi among them; `lakeward table downgrade` goes back. All
    writers must be stopped. Where the command was interrupted, give it again.
    """
    _change(table, config, stated, to, timezone, None, is_upgrade=True, dry_run=dry_run, as_json=as_json)


@with_option_groups
def downgrade(
    *,
    table: TableArgument,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The table version to go to: 9, from 10.")],
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    engine: StatedEngine,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give a table of version 10 the version 9, so that released Hudi reads it and writes on.

    To its readers the logs of version 10 are base files, so none may be left anywhere. Failed writes are rolled back,
    the metadata table is removed if it has such logs (Hudi's next writer that has it on builds it anew), what they hold
    is compacted into base files, and the slices that have them are cleaned away, with all that is older: the table can
    no longer be read as of then. --dry-run says how much that is. What holds such a log (a savepoint, the quarantine)
    is named and the table refused. All writers must be stopped. Where the command was interrupted, give it
    again: the version changes last.
    """
    _change(table, config, stated, to, timezone, engine, is_upgrade=False, dry_run=dry_run, as_json=as_json)


def _change(
    table: str,
    config: Path | None,
    stated: StatedLocks,
    to: int,
    timezone: str | None,
    engine: StatedEngine | None,
    *,
    is_upgrade: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from lakeward.cli.services.serviced import serviced_table
    from lakeward.config.settings import Writers
    from lakeward.execute.versions.changing import change_version, preview_version_change

    opened = open_table(table, config)
    is_stopped = stated.writers is not None or (stated.lock is None and opened.locks.writers is Writers.STOPPED)
    if not dry_run and not is_stopped:
        raise UsageError(
            "The version of a table is not changed beside writers.",
            why="A writer goes by the version that the table had when it began, and no lock keeps it from that.",
            remedy="Stop all writers and table services, and say so: --writers stopped.",
        )
    locks = stated.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        if dry_run:
            change = preview_version_change(serviced, to, is_upgrade=is_upgrade)
        else:
            engines = (engine or StatedEngine()).over(opened.settings.spark, memory_bytes=opened.table.memory)
            try:
                change = change_version(serviced, to, _compact(serviced, engines), is_upgrade=is_upgrade)
            finally:
                engines.stop()
    if as_json:
        print_json(_as_json(change, dry_run=dry_run))
    else:
        _tell(change, dry_run=dry_run)


def _compact(serviced: ServicedTable, engines: CommandEngines) -> Compact:
    """FULL of some file groups, whatever the configuration says of when it pays."""

    def compact(file_ids: Sequence[str]) -> None:
        from lakeward.execute.compaction.compactor import Compactor
        from lakeward.plan.compaction.compaction_type import CompactionType
        from lakeward.plan.compaction.planner import planner_of
        from lakeward.plan.compaction.selection import GroupFilter
        from lakeward.table.damaged_file import damaged_error
        from lakeward.task.entry import run_operation_at

        report = Compactor(
            serviced.storage,
            serviced.base_path,
            serviced.options,
            planner=planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {}),
            choose_dispatcher=engines.choose,
            run_operation=partial(run_operation_at, serviced.base_path),
            clock=serviced.clock,
            processes=serviced.processes,
            observer=serviced.observer,
            guard=serviced.guard,
            excluded={},
        ).compact()
        if report.damage:
            raise damaged_error(report.damage)

    return compact


def _tell(change: VersionChange, *, dry_run: bool) -> None:
    if not change.steps:
        typer.echo(f"The table has version {change.target} already. Nothing to do.")
        return
    verb = "upgrade" if change.target >= change.found else "downgrade"
    typer.echo(f"{f'Would {verb}' if dry_run else f'{verb}d'.capitalize()} the table to version {change.target}:")
    for step in change.steps:
        typer.echo(f"  {step.kind.value}, since {step.why}")
        for subject in step.subjects[:_SHOWN]:
            typer.echo(f"    {subject}")
        if step.subjects:
            size = f", {format_size(step.bytes)}" if step.bytes else ""
            typer.echo(f"    {len(step.subjects):,} in all{size}")
        for key, value in step.changes.items():
            typer.echo(f"    {key} {'goes' if value is None else f'= {value}'}")


def _as_json(change: VersionChange, *, dry_run: bool) -> dict[str, object]:
    return {
        "found": change.found,
        "target": change.target,
        "dry_run": dry_run,
        "steps": [_step_as_json(step) for step in change.steps],
    }


def _step_as_json(step: VersionStep) -> dict[str, object]:
    return {
        "step": step.kind.value,
        "why": step.why,
        "properties": dict(step.changes),
        "subjects": list(step.subjects),
        "bytes": step.bytes,
    }

"""`lakeward table upgrade|downgrade TABLE --to N`: give a table another version.

Touches: stdout, stderr; the table, through `execute/versions/changing.py`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. each step is told with its reason and what it costs, before it is taken as after.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.errors import UsageError

if TYPE_CHECKING:
    from lakeward.plan.version_change import VersionChange, VersionStep

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
    _change(table, config, stated, to, timezone, is_upgrade=True, dry_run=dry_run, as_json=as_json)


def _change(
    table: str,
    config: Path | None,
    stated: StatedLocks,
    to: int,
    timezone: str | None,
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
        act = preview_version_change if dry_run else change_version
        change = act(serviced, to, is_upgrade=is_upgrade)
    if as_json:
        print_json(_as_json(change, dry_run=dry_run))
    else:
        _tell(change, dry_run=dry_run)


def _tell(change: VersionChange, *, dry_run: bool) -> None:
    if not change.steps:
        typer.echo(f"The table has version {change.target} already. Nothing to do.")
        return
    verb = "upgrade" if change.target >= change.found else "downgrade"
    typer.echo(f"{f'Would {verb}' if dry_run else f'{verb}d'.capitalize()} the table to version {change.target}:")
    for step in change.steps:
        typer.echo(f"  {step.kind.value}, since {step.why}")
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
    return {"step": step.kind.value, "why": step.why, "properties": dict(step.changes)}

"""`lakeward table upgrade|downgrade TABLE --to N`: give a table another version.

Touches: stdout, stderr; the table, through `services/together/versions/run/changing.py`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. each step is reported with its reason and cost, before and after it is taken.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.engine import StatedEngine
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.services.table_change import (
    DryRunOption,
    check_stopped,
    compact_groups,
    step_as_json,
    tell_steps,
)
from lakeward.services.together.versions.run.changing import change_version, preview_version_change

if TYPE_CHECKING:
    from lakeward.services.together.versions.plan.version_change import VersionChange


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
    drop_changes: Annotated[
        bool,
        typer.Option(
            "--drop-changes",
            help="Delete the logs of changes (.cdc) of version 10 that would stay; --dry-run lists them with commits "
            "and bytes. Hudi's queries of changes that would read them fail from then on.",
        ),
    ] = False,
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
    no longer be read as of then, and an incremental query that ends at a commit of then gives, by Hudi's default, only
    the rows that no later commit wrote again, as after any clean. --dry-run says how much that is. What holds such a
    log (a savepoint, the quarantine) is named and the table refused; logs of changes whose slices stay, and which no
    other file has, are deleted with --drop-changes only. All writers must be stopped. Where the command was
    interrupted, give it again: the version changes last.
    """
    _change(
        table,
        config,
        stated,
        to,
        timezone,
        engine,
        is_upgrade=False,
        drop_changes=drop_changes,
        dry_run=dry_run,
        as_json=as_json,
    )


def _change(
    table: str,
    config: Path | None,
    stated: StatedLocks,
    to: int,
    timezone: str | None,
    engine: StatedEngine | None,
    *,
    is_upgrade: bool,
    drop_changes: bool = False,
    dry_run: bool,
    as_json: bool,
) -> None:
    opened = open_table(table, config)
    if not dry_run:
        check_stopped(stated, opened, what="version")
    locks = stated.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        if dry_run:
            change = preview_version_change(serviced, to, is_upgrade=is_upgrade, drop_changes=drop_changes)
        else:
            engines = (engine or StatedEngine()).over(opened.settings, memory_bytes=opened.table.memory)
            engines.check()
            try:
                compact = compact_groups(serviced, engines, inline_changes=True)
                change = change_version(serviced, to, compact, is_upgrade=is_upgrade, drop_changes=drop_changes)
            finally:
                engines.stop()
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
    tell_steps(change.steps)


def _as_json(change: VersionChange, *, dry_run: bool) -> dict[str, object]:
    return {
        "found": change.found,
        "target": change.target,
        "dry_run": dry_run,
        "steps": [step_as_json(step) for step in change.steps],
    }

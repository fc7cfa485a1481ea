"""`lakeward archive TABLE`: move the oldest instants into the archive; with --dry-run say which, and what keeps others.

Touches: stdout, stderr; the table, through `services/archive/run/archiver.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.options.pairs import parse_pairs
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.archive import archive_as_json, archived_as_json, render_archive, render_archived
from lakeward.cli.views.terminal import Terminal
from lakeward.services.archive.plan.settings import ARCHIVE_SETTINGS, archive_options_of, merge_archive_settings
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.archive.run.preview import preview_archive
from lakeward.services.archive.settings import ArchiveSettings


@with_option_groups
def archive(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    keep_min: Annotated[
        int | None,
        typer.Option("--keep-min", metavar="N", help="How many commits stay at least: hoodie.keep.min.commits; 20."),
    ] = None,
    keep_max: Annotated[
        int | None,
        typer.Option(
            "--keep-max", metavar="N", help="From more commits than that on the oldest go: hoodie.keep.max.commits; 30."
        ),
    ] = None,
    cleaned: Annotated[
        int | None,
        typer.Option(
            "--commits-retained",
            metavar="N",
            help="What cleaning retains, and so cannot go: hoodie.clean.commits.retained; 10.",
        ),
    ] = None,
    delta_commits: Annotated[
        int | None,
        typer.Option(
            "--delta-commits",
            metavar="N",
            help="What triggers a compaction, and so stays: hoodie.compact.inline.max.delta.commits; 5.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"A setting of Hudi's archiver: {', '.join(ARCHIVE_SETTINGS)}. The options above win. Repeatable.",
        ),
    ] = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Dry run: list the instants that would be archived and why not more, and write nothing."
        ),
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")] = False,
    debug: DebugOption = False,
) -> None:
    """Move the oldest commits, cleans and rollbacks from the active timeline into the archive, as Hudi's writers do.

    Nothing goes that a savepoint, a pending instant, the cleaner, the metadata table or a reader may still need; what
    holds the timeline is named. A verb that writes needs a statement about the table's other writers: --writers
    stopped, or --lock, or what the configuration says under locks.
    """
    given = parse_pairs(settings, like="--set hoodie.keep.max.commits=30")
    opened = open_table(table, config)
    configured = opened.table.section(ArchiveSettings).by_hudis_keys(opened.table.as_hudi_has_it)
    options = archive_options_of(
        merge_archive_settings(configured, given),
        commits_min=keep_min,
        commits_max=keep_max,
        commits_cleaned=cleaned,
        delta_commits=delta_commits,
    )
    locks = stated.over(opened, dry_run=dry_run)
    if dry_run:
        plan = preview_archive(
            opened.storage,
            opened.base_path,
            options,
            clock=SystemClock(),
            timezone=timezone or opened.table.timezone,
        )
        is_any = bool(plan.archived)
        if as_json:
            print_json(archive_as_json(plan))
        else:
            render_archive(plan, Terminal())
    else:
        with serviced_table(opened, locks, timezone=timezone) as serviced:
            report = Archiver(serviced, options).archive()
        is_any = bool(report.archived or report.merged_files)
        if as_json:
            print_json(archived_as_json(report))
        else:
            render_archived(report, Terminal())
    if exit_code and not is_any:
        raise typer.Exit(3)

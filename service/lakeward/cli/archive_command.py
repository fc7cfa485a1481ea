"""`lakeward archive TABLE --dry-run`: which instants Hudi's archiver may take off the active timeline, and what stays.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.clock import SystemClock
from lakeward.errors import UsageError


def archive(
    *,
    table: TableArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which instants would go and why not more. Nothing else is there yet.")
    ] = False,
    keep_min: Annotated[
        int, typer.Option("--keep-min", metavar="N", help="Your writers' hoodie.keep.min.commits.")
    ] = 20,
    keep_max: Annotated[
        int, typer.Option("--keep-max", metavar="N", help="Your writers' hoodie.keep.max.commits.")
    ] = 30,
    cleaned: Annotated[
        int, typer.Option("--commits-retained", metavar="N", help="Your writers' hoodie.clean.commits.retained.")
    ] = 10,
    delta_commits: Annotated[
        int, typer.Option("--delta-commits", metavar="N", help="Your writers' hoodie.compact.inline.max.delta.commits.")
    ] = 5,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say which instants would leave the active timeline for the archive, and what keeps the others. Writes nothing.

    Hudi's writers archive by themselves. Where a timeline grows all the same, this names what holds it.
    """
    from lakeward.cli.views.archive import archive_as_json, render_archive
    from lakeward.cli.views.terminal import Terminal
    from lakeward.execute.archive.preview import preview_archive
    from lakeward.plan.archiving import ArchiveOptions

    if not dry_run:
        raise UsageError(
            "lakeward archive needs --dry-run.",
            why="This release says what can be archived and leaves the archiving to Hudi's writers.",
            remedy="Pass --dry-run.",
        )
    if not 1 <= keep_min <= keep_max or cleaned < 1 or delta_commits < 1:
        raise UsageError(
            f"--keep-min {keep_min} and --keep-max {keep_max} do not go together, or a number is not positive.",
            why="From more than the larger number of commits the oldest go, until the smaller number is left.",
            remedy="Correct the options.",
        )
    opened = open_table(table, config)
    plan = preview_archive(
        opened.storage,
        opened.base_path,
        ArchiveOptions(keep_min, keep_max, cleaned, delta_commits),
        clock=SystemClock(),
        timezone=timezone or opened.table.timezone,
    )
    if as_json:
        print_json(archive_as_json(plan))
    else:
        render_archive(plan, Terminal())

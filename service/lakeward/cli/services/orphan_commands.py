"""`lakeward orphans list|set-aside TABLE`: data files that no instant owns.

Touches: stdout, stderr; the table, through `services/clean/run/orphans.py`.
Keeps:   nothing is written without a statement about the table's other writers; `list` writes nothing.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import parse_duration
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks, parse_option
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.orphans import orphans_as_json, render_orphans
from lakeward.cli.views.terminal import Terminal
from lakeward.config.settings import Writers
from lakeward.services.clean.run.orphans import OrphanReport, look, set_orphans_aside

DAY_SECONDS = 24 * 3600.0

AgeOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long a file must have been unchanged, and recorded by an earlier look; default 1d, and no less "
        "beside writers.",
    ),
]


@with_option_groups
def list_orphans(
    *,
    table: TableArgument,
    age: AgeOption = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List every data file that no reader sees: whether it is an orphan file, with the proof, or what keeps it."""
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=True)
    seconds = parse_option(parse_duration, "--age", age, DAY_SECONDS)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        decisions = look(serviced, age_seconds=seconds)
    _tell(OrphanReport(decisions, 0, None), as_json=as_json)


@with_option_groups
def set_aside(
    *,
    table: TableArgument,
    age: AgeOption = None,
    keep_deleted: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the quarantine keeps what is set aside; default 7d."),
    ] = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Record the orphan files that there are, and set those aside that an earlier call recorded long enough ago.

    The first call records only. `lakeward quarantine list` shows what was set aside; `quarantine restore` brings it
    back.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=False)
    seconds = parse_option(parse_duration, "--age", age, DAY_SECONDS)
    keep_seconds = parse_option(parse_duration, "--keep-deleted", keep_deleted, 7 * DAY_SECONDS)
    if seconds < DAY_SECONDS and locks.writers is not Writers.STOPPED:
        raise UsageError(
            f"--age {age} is too short beside writers.",
            why="A write may be slower than that, and its file is not on the timeline before it is done.",
            remedy="Give 1d or more, or stop the writers and say --writers stopped.",
        )
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        report = set_orphans_aside(serviced, age_seconds=seconds, keep_seconds=keep_seconds)
    _tell(report, as_json=as_json)


def _tell(report: OrphanReport, *, as_json: bool) -> None:
    if as_json:
        print_json(orphans_as_json(report))
    else:
        render_orphans(report, Terminal())

"""`lakeward verify TABLE`: is the table what its metadata says? Reads only; exit 6 where something is wrong.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.terminal import Terminal
from lakeward.cli.views.verify import render_verification, verification_as_json
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table

PROBLEMS_EXIT = 6


def verify(
    table: TableArgument,
    config: ConfigOption = None,
    files: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="How many base files to hold against their statistics and bloom filters."
        ),
    ] = 20,
    keys: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many record keys to look up in the record index.")
    ] = 1000,
    every: Annotated[bool, typer.Option("--all", help="Every base file instead of a sample.")] = False,
    merge_sample: Annotated[
        int, typer.Option(min=0, metavar="N", help="Also read N file slices as a query does, and judge their rows.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check a table and its metadata table against its files. Reads only; exit 6 if anything is wrong."""
    opened = open_table(table, config)
    report = verify_table(
        opened.storage,
        opened.base_path,
        size=SampleSize(None if every else files, keys, seed),
        merge_sample=merge_sample,
        clock=SystemClock(),
        timezone=timezone or opened.table.timezone,
    )
    if as_json:
        document = verification_as_json(opened.base_path, report)
        print_json(document)
    else:
        render_verification(report, Terminal())
    if report.problems:
        raise typer.Exit(PROBLEMS_EXIT)

"""`lakeward clean TABLE --dry-run`: which old file slices nothing needs any more, and what keeps the others.

Touches: stdout, stderr; the table, reading only.
Keeps:   what is asked for on the command line is said in the result, and a partition that matches nothing is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.store_options import DebugOption, JsonOption, print_json
from lakeward.clock import SystemClock
from lakeward.errors import UsageError
from lakeward.plan.clean_policy import RETAINED_BY_DEFAULT, CleanPolicy, CleanPolicyKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeward.table.snapshot import TableSnapshot


def clean(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    policy: Annotated[
        CleanPolicyKind,
        typer.Option(
            help="commits: what can be read as of the last N commits stays. hours: as of the commits of the last N "
            "hours. versions: the N newest slices of each file group."
        ),
    ] = CleanPolicyKind.COMMITS,
    retain: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How many; by default, as with Hudi, "
            + ", ".join(f"{number} {kind}" for kind, number in RETAINED_BY_DEFAULT.items())
            + ".",
        ),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="Only partitions of this path; * and ? match. Repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, delete nothing.")] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")] = False,
    debug: DebugOption = False,
) -> None:
    """Say which old file slices no query, plan or savepoint needs any more, by Hudi's rules, and what keeps the others.

    This release plans a clean and does not carry one out: --dry-run must be given. Hudi's own cleaner, with the same
    policy, deletes them.
    """
    from lakeward.cli.views.clean import clean_as_json, render_clean
    from lakeward.cli.views.terminal import Terminal
    from lakeward.plan.clean import plan_clean
    from lakeward.plan.eligibility import TableService, find_refusals
    from lakeward.plan.refusal import refuse
    from lakeward.table.listing import listing_source
    from lakeward.table.snapshot import take_snapshot

    if not dry_run:
        raise UsageError(
            "This release carries no clean of a table out.",
            why="It plans one, and says what would go.",
            remedy="Give --dry-run. Hudi's own cleaner deletes by the same rules.",
        )
    opened, clock = open_table(table, config), SystemClock()
    snapshot = take_snapshot(
        opened.storage,
        opened.base_path,
        timezone=timezone or opened.table.timezone,
        clock=clock,
        listing=listing_source(opened.base_path, opened.table.listing),
    )
    refuse(opened.base_path, find_refusals(snapshot, TableService.CLEANING))
    outcome = plan_clean(
        snapshot,
        CleanPolicy(policy, retain or RETAINED_BY_DEFAULT[policy]),
        now=clock.now(),
        partitions=_partitions(snapshot, partition),
    )
    if as_json:
        print_json(clean_as_json(outcome))
    else:
        render_clean(outcome, Terminal())
    if exit_code and not any(outcome.dead):
        raise typer.Exit(3)


def _partitions(snapshot: TableSnapshot, patterns: Sequence[str] | None) -> frozenset[str] | None:
    """The table's partitions that match. Raises `UsageError` for a pattern that matches none."""
    from lakeward.plan.selection import matches

    if not patterns:
        return None
    for pattern in patterns:
        if not any(matches(path, (pattern,)) for path in snapshot.partitions):
            raise UsageError(
                f"--partition {pattern} matches nothing in this table.",
                why=f"It has {len(snapshot.partitions):,} partitions.",
                remedy="`lakeward inspect` lists what is there; nothing was done.",
            )
    return frozenset(path for path in snapshot.partitions if matches(path, tuple(patterns)))

"""`lakeward index verify TABLE`: is an index right? Reads only; exit 6 where it is not.

Touches: stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.group import TypeOption, index_app, work_watched
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.cli.verify_command import PROBLEMS_EXIT
from lakeward.clock import SystemClock

if TYPE_CHECKING:
    from lakeward.verify.index_check import Moment


@index_app.command()
def verify(
    table: TableArgument,
    index_type: TypeOption = None,
    error_rate: Annotated[
        float,
        typer.Option(
            min=1e-9, max=0.5, metavar="SHARE", help="The share of wrong rows or entries that is to be found."
        ),
    ] = 0.001,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999999, metavar="SHARE", help="How surely it is to be found.")
    ] = 0.99,
    everything: Annotated[
        bool, typer.Option("--all", help="Look at every row and every entry instead of a sample.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which sample is drawn.")] = 0,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Look rows up in an index and its entries up among the rows. Reads only; exit 6 if the index is wrong.

    So many are drawn that a share of --error-rate would be found with --confidence: 4,603 rows and as many entries by
    default, however large the table is. Where none is wrong, fewer than that share are, with that confidence.
    """
    from lakeward.cli.views.index.checked import checked_as_json, render_checked
    from lakeward.cli.views.terminal import Terminal
    from lakeward.index.opening import open_index, type_of_choice
    from lakeward.verify.index_check import Moment, check_index
    from lakeward.verify.index_check_result import CheckSize

    opened = open_table(table, config)
    clock = SystemClock()
    chosen = index_type or type_of_choice(opened.snapshot(timezone=timezone))

    def moment_now() -> Moment:
        snapshot = opened.snapshot(timezone=timezone)
        return Moment(snapshot, open_index(opened.storage, snapshot, chosen, clock=clock))

    size = CheckSize(error_rate, confidence, seed, everything)
    with work_watched() as on_step:
        found = check_index(opened.storage, moment_now, size, on_step=on_step)
    if as_json:
        print_json(checked_as_json(opened.base_path, chosen, size, found))
    else:
        render_checked(chosen, found, Terminal())
    if found.wrong:
        raise typer.Exit(PROBLEMS_EXIT)

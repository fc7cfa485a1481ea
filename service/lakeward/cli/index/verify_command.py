"""`lakeward index verify TABLE`: is an index right? Exit 6 where it is not, and it is taken out of use.

Touches: stdout, stderr; the table, reading only, but for the file that says that an index of Hudi's is out of use.
Keeps:   an index is put back in use only by a check that left nothing unlooked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.database_index import DatabaseOption, index_opener
from lakeward.cli.index.group import TypeOption, index_app, work_watched
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.cli.verify_command import PROBLEMS_EXIT
from lakeward.clock import SystemClock
from lakeward.index.index_type import IndexType
from lakeward.quantities import format_iso_time

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.verify.index_check import Moment
    from lakeward.verify.index_check_result import IndexCheck


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
    report_only: Annotated[
        bool,
        typer.Option("--report-only", help="Leave an index in use that is wrong, and out of use one that is right."),
    ] = False,
    url: DatabaseOption = None,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Look rows up in an index and its entries up among the rows; exit 6, and out of use, if the index is wrong.

    So many are drawn that a share of --error-rate would be found with --confidence: 4,603 rows and as many entries by
    default, however large the table is. Where none is wrong, fewer than that share are, with that confidence.

    A record index of the metadata table that is wrong is taken out of use: neither lookups nor writes of Lakeward's go
    by it. Hudi's writers still do. It is in use again once it was removed (`lakeward metadata rebuild`), or once --all
    found nothing. No lock is taken.
    """
    from lakeward.cli.views.index.checked import checked_as_json, render_checked
    from lakeward.cli.views.terminal import Terminal
    from lakeward.index.opening import type_of_choice
    from lakeward.verify.index_check import Moment, check_index
    from lakeward.verify.index_check_result import CheckSize

    opened = open_table(table, config)
    clock = SystemClock()
    chosen = index_type or type_of_choice(opened.snapshot(timezone=timezone))

    size = CheckSize(error_rate, confidence, seed, everything)
    with index_opener(opened, chosen, url, is_judged=True) as opens, work_watched() as on_step:

        def moment_now() -> Moment:
            snapshot = opened.snapshot(timezone=timezone)
            return Moment(snapshot, opens(snapshot))

        found = check_index(opened.storage, moment_now, size, on_step=on_step)
    put = "" if report_only else _put(opened, chosen, found, now=clock.now())
    if as_json:
        print_json(checked_as_json(opened.base_path, chosen, size, found) | {"changed": put})
    else:
        render_checked(chosen, found, Terminal())
        if put:
            typer.echo(f"The {chosen} index is {put} from now on.")
    if found.wrong:
        raise typer.Exit(PROBLEMS_EXIT)


def _put(opened: ConfiguredTable, kind: IndexType, found: IndexCheck, *, now: float) -> str:
    """What the index is from now on, `out of use` or `in use`; empty where it is what it was."""
    from lakeward.commit.index_out_of_use import put_in_use, take_out_of_use

    if kind is not IndexType.METADATA:
        return ""
    if found.wrong:
        why = f"At {format_iso_time(now)} {found.told}"
        return "out of use" if take_out_of_use(opened.storage, opened.base_path, kind, why) else ""
    return "in use" if found.is_complete and put_in_use(opened.storage, opened.base_path, kind) else ""

"""`lakeward index verify TABLE`: check an index. Exit 6 if it is wrong, and it is taken out of use.

Touches: stdout, stderr; the table, reading only, but for the file that says that an index, or the cache of filters, is
         out of use.
Keeps:   an index is put back in use only by a check that left nothing unlooked at.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_iso_time
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.database_index import DatabaseOption, index_opener
from lakeward.cli.index.group import TypeOption, WithLogsOption, work_watched
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.verify_command import PROBLEMS_EXIT
from lakeward.cli.views.index.checked import checked_as_json, render_cache_checked, render_checked
from lakeward.cli.views.terminal import Terminal
from lakeward.index.index_type import IndexType
from lakeward.index.opening import type_of_choice
from lakeward.protocol.index_out_of_use import put_in_use, take_out_of_use
from lakeward.services.indexing.judge.check import Moment, check_index
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.judge.filter_cache_check import check_filter_cache
from lakeward.services.indexing.settings import record_options_of

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.services.indexing.judge.check_result import IndexCheck
    from lakeward.services.indexing.judge.filter_cache_check import FilterCacheCheck


def verify(
    table: TableArgument,
    index_type: TypeOption = None,
    error_rate: Annotated[
        float,
        typer.Option(
            min=1e-9, max=0.5, metavar="SHARE", help="Smallest share of wrong rows or entries that the check must find."
        ),
    ] = 0.001,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999999, metavar="SHARE", help="Confidence with which it finds that share.")
    ] = 0.99,
    everything: Annotated[
        bool, typer.Option("--all", help="Check every row and every entry instead of a sample.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sample.")] = 0,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Only report: do not take a wrong index out of use, nor put a right one back."
        ),
    ] = False,
    with_logs: WithLogsOption = False,
    url: DatabaseOption = None,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Look rows up in an index, and its entries up among the rows; exit 6, and out of use, if the index is wrong.

    The sample is large enough to find a share of --error-rate with --confidence: by default 4,603 rows and as many
    entries, for tables of any size.

    A record index of the metadata table, or an index of Lakeward's own, that is wrong is taken out of use: Lakeward's
    lookups and writes do not use it. Hudi's writers still do. It is in use again once it was rebuilt or removed
    (`lakeward index rebuild`), or once --all found nothing. No lock is taken.

    With --type bloom the cache of filters is compared with the footers too; a wrong one is out of use until it is
    rebuilt (`lakeward index rebuild`), and footers are read instead.
    """
    opened = open_table(table, config)
    clock = SystemClock()
    chosen = index_type or type_of_choice(opened.snapshot(timezone=timezone))

    size = CheckSize(error_rate, confidence, seed, everything)
    with index_opener(opened, chosen, url, is_judged=True, with_logs=with_logs) as opens, work_watched() as on_step:

        def moment_now() -> Moment:
            snapshot = opened.snapshot(timezone=timezone)
            return Moment(snapshot, opens(snapshot))

        found = check_index(opened.storage, moment_now, size, on_step=on_step)
        cache = None
        if chosen is IndexType.BLOOM:
            cache = check_filter_cache(opened.storage, opened.snapshot(timezone=timezone), size, on_step=on_step)
    put = "" if report_only else _put(opened, chosen, found, cache, now=clock.now())
    if as_json:
        document = checked_as_json(opened.base_path, chosen, size, found) | {"changed": put}
        print_json(document if cache is None else document | {"cache": asdict(cache)})
    else:
        render_checked(chosen, found, Terminal())
        if cache is not None:
            render_cache_checked(cache, Terminal())
        if put:
            what = "cache of filters" if chosen is IndexType.BLOOM else f"{chosen} index"
            typer.echo(f"The {what} is {put} from now on.")
    if found.wrong or (cache is not None and cache.wrong):
        raise typer.Exit(PROBLEMS_EXIT)


def _put(
    opened: ConfiguredTable, kind: IndexType, found: IndexCheck, cache: FilterCacheCheck | None, *, now: float
) -> str:
    """What the index is from now on, `out of use` or `in use`; empty where it is what it was."""
    options = record_options_of(opened.table)
    if kind is IndexType.METADATA or kind.is_own:
        wrong = found.told if found.wrong else ""
        is_complete = found.is_complete
    elif cache is not None:
        wrong = cache.told if cache.wrong else found.told if found.wrong else ""
        is_complete = cache.is_complete and found.is_complete
    else:
        return ""
    if wrong:
        why = f"At {format_iso_time(now)} {wrong}"
        return "out of use" if take_out_of_use(opened.storage, opened.base_path, kind, why, options) else ""
    return "in use" if is_complete and put_in_use(opened.storage, opened.base_path, kind, options) else ""

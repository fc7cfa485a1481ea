"""`lakeward index compare TABLE --type A --type B`: two indexes asked for the same keys. Reads only.

Touches: stdin where the keys come from it; stdout, stderr; the table, reading only.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.index.database_index import DatabaseOption, index_opener, listed_in_database, put_in_database
from lakeward.cli.index.group import (
    KeysFileOption,
    PartitionsOption,
    WithLogsOption,
    given_keys,
    work_watched,
)
from lakeward.cli.index.record_index import RecordPlace, listed_in_folder
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.verify_command import PROBLEMS_EXIT
from lakeward.cli.views.index.compared import compared_as_json, render_compared
from lakeward.cli.views.terminal import Terminal
from lakeward.index.index_type import IndexType
from lakeward.services.indexing.judge.comparison import ComparedIndex, compare_indexes, draw_keys
from lakeward.services.indexing.judge.comparison import given_keys as keys_given
from lakeward.services.indexing.judge.cost import index_cost
from lakeward.services.indexing.judge.listing import list_indexes


def compare(
    table: TableArgument,
    types: Annotated[list[IndexType], typer.Option("--type", help="The two indexes to compare; give it twice.")],
    keys_file: KeysFileOption = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many rows to sample from the table, if no keys are given.")
    ] = 10_000,
    absent: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many keys that are in no row to look up besides.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sample.")] = 0,
    partition: PartitionsOption = None,
    with_logs: WithLogsOption = False,
    url: DatabaseOption = None,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Ask two indexes for the same keys: which answers differ, which of them are right, and what each takes.

    Reads only; exit 6 where answers differ. Some differences are right: the simple index still finds a key that a log
    deleted, and no key that is only in logs. The counts of false and missed locations show whether an index is broken.
    """
    if len(types) != 2:
        raise UsageError(
            f"{len(types)} index{'' if len(types) == 1 else 'es'} named, and two are compared.",
            remedy="Give --type twice: --type A --type B.",
        )
    opened = open_table(table, config)
    snapshot, clock = opened.snapshot(timezone=timezone), SystemClock()

    folder = RecordPlace.of(opened).folder
    listed = [*list_indexes(opened.storage, snapshot, clock=clock)]
    listed += listed_in_folder(opened, snapshot) if IndexType.RECORD in types else ()
    listed += listed_in_database(opened, snapshot, url) if IndexType.POSTGRES in types else ()
    stored = {each.type: each.bytes for each in listed if each.locates}
    with ExitStack() as databases, work_watched() as on_step:
        openers = [databases.enter_context(index_opener(opened, kind, url, with_logs=with_logs)) for kind in types]

        def compared_index(at: int) -> ComparedIndex:
            kind = types[at]
            cost = index_cost(
                opened.storage,
                snapshot,
                kind,
                record_folder=folder,
                in_database=partial(put_in_database, opened, url),
                clock=clock,
            )
            return ComparedIndex(kind.value, lambda storage: openers[at](snapshot), stored.get(kind.value), cost)

        if keys_file is not None:
            asked = keys_given(given_keys(None, keys_file), absent=absent)
        else:
            asked = draw_keys(
                opened.storage,
                snapshot,
                number=sample,
                absent=absent,
                seed=seed,
                on_slice=partial(on_step, "drew rows of {} of {} file slices"),
            )
        compared = compare_indexes(
            opened.storage,
            snapshot,
            compared_index(0),
            compared_index(1),
            asked,
            clock=clock,
            partitions=partition,
            on_part=partial(on_step, "looked into {} of {} parts of an index"),
        )
    if as_json:
        print_json(compared_as_json(opened.base_path, compared))
    else:
        render_compared(compared, Terminal())
    if compared.differing:
        raise typer.Exit(PROBLEMS_EXIT)

"""`lakeward index migrate TABLE --from TYPE --to TYPE`: an existing index is copied into a Lakeward index, once.

Touches: stdout, stderr; the table, reading only; the folder or the database of the index.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.builds import BuildArguments, ByteRateOption, index_engines
from lakeward.cli.index.group import type_option, work_watched
from lakeward.cli.index.own_index import DatabaseOption, RateOption, indexes_of
from lakeward.cli.index.verify_command import checked_as_json, render_checked
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.result import PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.index.index_type import OWN_TYPES, LookupType
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.run.index_migration import TakenPartitions, migrate_into

_ERROR_RATE, _CONFIDENCE = 0.001, 0.99
"""What `lakeward index verify` draws where nothing is said."""


def migrate(
    *,
    opened: ZonedTable,
    source: Annotated[LookupType, type_option("--from", help="Index to copy from.")],
    target: Annotated[LookupType, type_option("--to", help="Index to fill: record or postgres.")],
    by_partition: Annotated[
        bool, typer.Option("--by-partition", help="Keys are unique in a partition, not in the whole table.")
    ] = False,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition",
            metavar="PATH",
            help="Take this partition from the other index, '' for that of a table without, and read the keys of all "
            "others from their rows, as `lakeward index build` does. Repeatable.",
        ),
    ] = None,
    engine: EngineArguments,
    bytes_per_second: ByteRateOption = None,
    keys_per_second: RateOption = None,
    url: DatabaseOption = None,
) -> Result:
    """Copy an existing index into a Lakeward index, once; the existing one stays. The table is read only.

    From simple and bloom only where the table has no logs, of which they know nothing: of all of it, or of the
    partitions that are named, while those of all others are read from their rows. What was committed meanwhile is taken
    in; then as many locations must be there as were put, and rows and entries are drawn as by `lakeward
    index verify`. It is put in place only if none was wrong; otherwise the exit code is 6, and there is no index.
    """
    if target not in OWN_TYPES or source is target:
        raise UsageError(
            f"The {target} index is not filled from the {source} index.",
            why="This command copies an existing index into a Lakeward index.",
            remedy=f"Name --to {' or '.join(OWN_TYPES)}, and another one with --from.",
        )
    build = BuildArguments(engine, bytes_per_second)
    if build.is_said and not partition:
        raise UsageError(
            "No keys are read from rows.",
            why="All of them are taken from the other index, by the command itself.",
            remedy="Leave the options out that say where tasks run, and how fast they read, or name --partition.",
        )
    take = opened.snapshot
    size = CheckSize(_ERROR_RATE, _CONFIDENCE)
    indexes = indexes_of(opened, url, keys_per_second=keys_per_second)
    with (
        indexes.reader(source) as open_source,
        indexes.place(target, keys_per_second=keys_per_second) as place,
        work_watched() as on_step,
        index_engines(opened, engine) as tasks,
    ):
        reads = build.work(opened, target, place.build_folder, on_step, tasks) if partition else nullcontext()
        with reads as work:
            taken = None if work is None else TakenPartitions(frozenset(partition or ()), work)
            done = migrate_into(
                opened.storage,
                place,
                open_source,
                take,
                size,
                is_global=not by_partition,
                taken=taken,
                on_step=on_step,
            )
    filled, check = done.filled, done.check

    def render(console: Terminal) -> None:
        rows = f" and the rows of {filled.groups:,} file groups" if partition else ""
        console.print(f"{filled.entries:,} locations taken from the {source} index{rows}.", highlight=False)
        render_checked(target, check, console)
        if check.wrong:
            console.print("The new index was dropped.", highlight=False)

    return Rendered(
        document={
            "base_path": opened.base_path,
            "from": source.value,
            "to": target.value,
            "instant": filled.instant,
            "partitions": sorted(set(partition or ())),
            "entries": filled.entries,
            "file_groups_read": filled.groups,
            "commits": list(done.commits),
            "check": checked_as_json(opened.base_path, target, size, check),
            "is_dropped": bool(check.wrong),
        },
        render=render,
        exit_code=PROBLEMS_EXIT if check.wrong else 0,
    )

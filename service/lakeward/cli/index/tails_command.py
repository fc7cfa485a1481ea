"""`lakeward index tails TABLE`: whether logs of a table get tails, and how many have one.

Touches: stdout, stderr; the folder of `index/tail_choice`; the table, reading only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.result import Result
from lakeward.index.bloom.log_coverage import LogCoverage, look_at_logs
from lakeward.index.tail_choice import TailChoice, read_tail_choice
from lakeward.services.indexing.run.tails import choose_tails


def tails(
    opened: ZonedTable,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Each log that Lakeward writes from now on gets a tail."),
    ] = False,
    off: Annotated[
        bool, typer.Option("--off", help="No log gets one any more; those that are there go with compactions.")
    ] = False,
) -> Result:
    """Say whether logs that Lakeward writes say which keys they have, in a tail behind their records (RFC-06).

    A tail has the range of the log's keys, a bloom filter, and a filter that it shares with the logs before it, so
    that one read of the newest log's end decides most lookups by `bloom --with-logs`. It is off by default, since
    Lakeward cannot know which programs read a table. Hudi 1.2.0, 1.1.1 and 1.0.2 read, update and compact tables full
    of tails on Spark; hudi-rs 0.5 reads them, and so does Hudi's input format for Hive and Presto. Flink and Trino were
    not tried. Merge-on-read tables of version 8 and later can have them; no release of Hudi reads version 10 yet. The
    table remembers what was said; writes and log compactions follow it. Without options the logs are counted.
    """
    if auto and off:
        raise UsageError("--auto and --off exclude each other.", remedy="Give one of them.")
    storage, snapshot = opened.storage, opened.snapshot()
    if auto or off:
        choice = choose_tails(storage, snapshot, are_written=auto)
    else:
        choice = read_tail_choice(storage, opened.base_path)
    counts = look_at_logs(storage, snapshot).coverage
    document = {"base_path": opened.base_path, "are_written": choice.are_written, **asdict(counts)}
    return Result(document=document, lines=list(_lines(choice, counts)))


def _lines(choice: TailChoice, counts: LogCoverage) -> Iterator[str]:
    yield "Logs that Lakeward writes get tails." if choice.are_written else "Logs get no tails."
    if counts.logs:
        yield f"{counts.with_tail:,} of {counts.logs:,} logs have one. {counts.summary}"
    else:
        yield "The newest slices have no logs."

"""`lakeward learn-reads`: count the reads of tables that event logs of Spark name.

Touches: stdout; the logs and the tables, reading only; the store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count
from lakeward.cli.configured_table import ConfigOption, ConfiguredTable
from lakeward.cli.options.store import UrlOption, opened_store, read_settings
from lakeward.cli.result import PARTIAL_EXIT, Result
from lakeward.protocol.problem import problem_of
from lakeward.services.compaction.plan.planner import not_readers_of
from lakeward.storage.storage_of_url import open_storage
from lakeward.surface.event_logs import EventLogReads, LearnedLogs
from lakeward.table.snapshot import TableSnapshot


def learn_reads(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG…", help="Files of spark.eventLog.dir, or that folder. May be repeated.")
    ],
    config: ConfigOption = None,
    url: UrlOption = None,
) -> Result:
    """Count the reads of watched tables that Spark's event logs name, so that the planner learns how often partitions
    are read.

    What a query asked for is counted: its table, and of that the partitions that its filters fit. One user that reads a
    partition by one application within ten minutes is one read. A log may be counted again at any time, also while its
    application runs; reads older than a day are left out, so run it every hour.
    """
    settings, clock = read_settings(config), SystemClock()

    def snapshot(base_path: str) -> TableSnapshot:
        storage, place = open_storage(base_path)
        return ConfiguredTable(config, storage, place, settings, None).snapshot()

    with opened_store(url, settings, clock) as store:
        counting = EventLogReads(
            reads=store.reads,
            tables=store.observations.tables(),
            not_readers=lambda name, base_path: not_readers_of(settings.table(name, base_path).planner),
            snapshot=snapshot,
            clock=clock,
        )
        learned = counting.count(logs)
    return Result(
        document=_document(learned),
        lines=_lines(learned),
        exit_code=PARTIAL_EXIT if learned.problems else 0,
    )


def _document(learned: LearnedLogs) -> dict[str, Any]:
    return {
        "applications": learned.applications,
        "reads": learned.reads,
        "counted": dict(sorted(learned.counted.items())),
        "left_out": {
            "not_watched": learned.not_watched,
            "not_readers": learned.not_readers,
            "too_old": learned.too_old,
        },
        "problems": [problem_of(error).text for error in learned.problems],
    }


def _lines(learned: LearnedLogs) -> list[str]:
    left_out = [
        f"{number:,} {why}"
        for number, why in (
            (learned.not_watched, "of tables that no daemon of this store watches"),
            (learned.not_readers, "by writers and services (planner.not_readers)"),
            (learned.too_old, "older than a day"),
        )
        if number
    ]
    applications = format_count(learned.applications, "application")
    return [
        f"{applications}, {format_count(learned.reads, 'scan')} of watched tables.",
        *(f"{table}: {format_count(new, 'new read')} of partitions" for table, new in sorted(learned.counted.items())),
        *([f"Left out: {', '.join(left_out)}."] if left_out else []),
        *(problem_of(error).text for error in learned.problems),
    ]

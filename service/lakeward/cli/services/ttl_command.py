"""`lakeward ttl TABLE`: delete partitions that expired, as one commit; with --dry-run say which, and why others stay.

Touches: stdout, stderr; the table, through `services/ttl/run/expirer.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_size, format_time, parse_duration
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.ttl.plan.options import AgeBy
from lakeward.services.ttl.plan.path_date import check_pattern
from lakeward.services.ttl.plan.ttl_plan import TtlPlan, TtlReport
from lakeward.services.ttl.run.expirer import expire_partitions
from lakeward.services.ttl.run.partition_ages import plan_expiry
from lakeward.services.ttl.settings import TtlSettings


def ttl(
    *,
    opened: ZonedTable,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Partitions that are older expire, 90d; default: what the configuration says."
        ),
    ] = None,
    by: Annotated[
        AgeBy | None,
        typer.Option(
            help="written, the default: since the newest row of the partition was written, compactions and clusterings "
            "left out. created: since the partition was made. date: since the day or hour in its path was over (UTC)."
        ),
    ] = None,
    date_format: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="The date in a path, for --by date; default yyyy-MM-dd."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only the partition of this path. Repeatable.")
    ] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Delete the partitions of a table that expired, as one commit that Hudi's readers and writers know.

    A partition stays while a pending plan or a savepoint names it, and while a write is at work in it. Files are taken
    by a later clean, which can keep them in quarantine; until then `lakeward restore` brings the partitions back.
    """
    options = opened.table.section(TtlSettings).options
    options = replace(
        options,
        keep=options.keep if keep is None else parse_option(parse_duration, "--keep", keep, 0.0),
        by=options.by if by is None else by,
        date_format=options.date_format if date_format is None else date_format,
        selected=options.selected if partition is None else frozenset(path.strip("/") for path in partition),
    )
    if options.by is AgeBy.DATE:
        check_pattern(options.date_format)
    if not options.keep:
        raise UsageError(
            "Nothing says how long partitions are kept.",
            why="ttl.keep is not in the configuration, or 0 was given, which would delete all partitions.",
            remedy="Say --keep 90d, or set ttl.keep.",
        )
    table = opened.table
    select = GroupFilter(partitions=table.partitions, excluded_partitions=table.exclude_partitions).selected_partitions
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        if dry_run:
            snapshot, now = serviced.snapshot(service=TableService.WRITING), serviced.clock.now()
            selected = select(snapshot.partitions)
            plan = plan_expiry(serviced.storage, snapshot, options, now=now, known={}, selected=selected)
            report = TtlReport(plan)
        else:
            report = expire_partitions(serviced, options, select=select)
    return Result(
        document=_as_json(report, dry_run=dry_run),
        lines=list(_lines(report, dry_run=dry_run)),
        is_nothing=not report.plan.partitions,
    )


def in_round(done: TtlReport | str, rule: EngineRule) -> Result:
    """The step of `lakeward service`; text says why nothing was done."""
    if isinstance(done, str):
        return Result(document={"nothing": done}, lines=[done], is_nothing=True)
    waits = done.first_at is not None
    is_planned = waits or done.instant is None
    lines = list(_lines(done, dry_run=is_planned))
    if done.first_at is not None:
        lines.append(
            f"They stay until {format_time(done.first_at)}, by ttl.notice: this is the first time that partitions of "
            "the table expire so. `lakeward ttl` deletes them at once."
        )
    return Result(
        document=_as_json(done, dry_run=is_planned) | {"first_at": done.first_at},
        lines=lines,
        is_nothing=waits or not done.plan.partitions,
    )


def _as_json(report: TtlReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "instant": report.instant,
        "completion_time": report.completion_time,
        "expired": len(report.plan.partitions),
        "partitions": [
            {
                "partition": each.partition_path,
                "since": each.since,
                "file_groups": each.file_groups,
                "bytes": each.bytes,
                "reason": each.reason.value,
                "why": each.why,
            }
            for each in report.plan.decisions
        ],
    }


def _lines(report: TtlReport, *, dry_run: bool) -> Iterator[str]:
    plan: TtlPlan = report.plan
    if not plan.partitions:
        yield "No partition has expired."
    else:
        size = format_size(sum(each.bytes for each in plan.expired))
        yield f"{'Would delete' if dry_run else 'Deleted'} {format_count(len(plan.partitions), 'partition')} of {size}:"
    for each in plan.expired:
        groups = format_count(each.file_groups, "file group")
        yield f"  {each.partition_path}  {groups} of {format_size(each.bytes)}: {each.why}"
    for reason, number in sorted(Counter(each.reason for each in plan.decisions).items()):
        yield f"{reason}: {format_count(number, 'partition')}"

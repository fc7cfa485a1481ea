"""`lakeward cluster TABLE`: pack small file groups into larger ones; with --dry-run say which, and why; with --undo
undo the newest clustering, with --execute carry out one that Hudi requested.

Touches: stdout, stderr; the table, through `services/clustering/run/clusterer.py`, for an undo through
         `services/clustering/run/undo.py`, and for a request of Hudi's through
         `services/together/clustering_execution.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_size, parse_duration, parse_memory, parse_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_option, parse_pairs
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import compaction_options, serviced_table
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.services.clustering.plan.layout import COLUMNS_MAX, PACKED, ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackPlan
from lakeward.services.clustering.plan.partition_filter import PartitionFilter
from lakeward.services.clustering.run.clusterer import ClusteringReport, preview_clustering
from lakeward.services.clustering.run.clusterer import cluster as run_clustering
from lakeward.services.clustering.run.tasks import run_task_at
from lakeward.services.clustering.run.undo import UndoneClustering, preview_undo, undo_clustering
from lakeward.services.clustering.settings import ClusteringSettings
from lakeward.services.together.clustering_execution import execute_clustering, preview_execution


@dataclass(frozen=True, slots=True)
class ChoiceArguments:
    """What a command line says about the file groups that are looked at: a group of options."""

    partition: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only the partition of this path. Repeatable.")
    ] = None
    newest: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the N newest partitions, by name.")] = (
        None
    )
    skip_newest: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --newest: leave out the N newest partitions first.")
    ] = 0
    begin: Annotated[str | None, typer.Option(metavar="PATH", help="Only partitions from this path on, by name.")] = (
        None
    )
    end: Annotated[str | None, typer.Option(metavar="PATH", help="Only partitions up to this path, by name.")] = None
    rolling: Annotated[
        bool,
        typer.Option(
            "--rolling",
            help="Only each 24th partition by name, beginning with the hour of the day: run hourly, that is all of "
            "them once a day.",
        ),
    ] = False
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most that one run reads; default: no cap.")
    ] = None
    hudi_conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A clustering key of Hudi's, as hoodie.clustering.plan.strategy.small.file.limit. Where one is given, "
            "the plan is Hudi's own by these keys, in place of --by, --mode and sizes. Repeatable.",
        ),
    ] = None

    def over(self, options: PackOptions) -> PackOptions:
        """Raises `UsageError`."""
        keys = parse_pairs(
            self.hudi_conf, like="--hudi-conf hoodie.clustering.plan.strategy.small.file.limit=314572800"
        )
        return replace(
            options,
            bytes_max=None if self.max_bytes is None else parse_option(parse_size, "--max-bytes", self.max_bytes, 0),
            hudi_keys=keys or None,
            partitions=PartitionFilter(
                recent=self.newest,
                skipped=self.skip_newest,
                begin=self.begin,
                end=self.end,
                named=None if self.partition is None else frozenset(path.strip("/") for path in self.partition),
                hour=datetime.now().hour if self.rolling else None,
            ),
        )


def cluster(
    *,
    opened: ZonedTable,
    choice: ChoiceArguments,
    target_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The size of new file groups, at most; default: what the configuration says, or 120MiB, as Hudi's "
            "writers.",
        ),
    ] = None,
    min_groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="So many small file groups beside each other are packed though they have less than 75 % of the "
            "target; default: what the configuration says, or 5.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Bring rows together by these columns, comma-separated, four at most: a filter on them reads fewer "
            "files. Default: what the configuration says, or none: small file groups are packed.",
        ),
    ] = None,
    mode: Annotated[
        ClusterMode | None,
        typer.Option(
            help="pack: small file groups become larger ones. sort: rows are sorted by --by, the first column counting "
            "most. curve: rows are sorted along a curve (z-order), on which all columns count alike. hybrid: rows go "
            "to file groups by the columns, and each file stays in the order of keys. Default: with --by hybrid on "
            "tables of the layout lsm_tree, else sort for one column and curve for several.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --by: also what an earlier run brought together, by whichever columns."),
    ] = False,
    yield_to_writers: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to wait for a pause of the writers; default 1m."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak memory of one task, from 300MiB; default 512MiB.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="List every file group with the reason why it is packed, or is not.")
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="Undo the newest clustering, while nothing was written to the file groups that it made: each one that "
            "it replaced becomes a file group again, with the rows that it had. It goes with no other choice.",
        ),
    ] = False,
    execute: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help="Carry out the pending clustering that Hudi requested at this instant: its request is rolled back, "
            "and its file groups become new ones by its plan and its sort columns. It goes with no other choice.",
        ),
    ] = None,
    given: LockArguments,
    engine: EngineArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Pack small file groups into larger ones, or bring rows together by columns, in each partition. Rows stay as they
    are.

    Without --by, file groups with 75 % of the target or more are left alone. With it, those are left alone that an
    earlier run brought together, until they have grown by 30 %: each run takes what came since. Buckets, and file
    groups that something pending names, are never taken. Rows of logs are merged. The file groups that went are deleted
    by a later clean. Nothing is published while a write is at work in one of the partitions: it is done in a pause of
    the writers, or not.
    """
    chooses = any(each is not None for each in (by, mode, target_size, min_groups)) or again
    chooses = chooses or choice != ChoiceArguments()
    if undo and (chooses or execute is not None):
        raise UsageError(
            "--undo goes with no choice of file groups or columns.",
            why="It undoes the newest clustering, all of it.",
            remedy="Leave the other options out.",
        )
    if execute is not None and chooses:
        raise UsageError(
            "--execute goes with no choice of file groups or columns.",
            why="The plan of the request says both.",
            remedy="Leave the other options out.",
        )
    configured = opened.table.section(ClusteringSettings)
    layout = configured.layout if by is None and mode is None else _layout(by, mode)
    locks = given.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks)
    yielding = options.yielding
    seconds = parse_option(parse_duration, "--yield-to-writers", yield_to_writers, yielding.seconds)
    options = replace(
        options,
        yielding=replace(yielding, seconds=seconds),
        memory_bytes=parse_option(parse_memory, "--memory", memory, options.memory_bytes),
    )
    packing = PackOptions(
        target_bytes=parse_option(parse_size, "--target-size", target_size, configured.target_size),
        groups_min=configured.min_groups if min_groups is None else min_groups,
        layout=layout,
        again=again,
    )
    packing = choice.over(packing)
    with (
        engine.over(opened.settings, memory_bytes=options.memory_bytes) as engines,
        serviced_table(opened, options) as serviced,
    ):
        run_task = partial(run_task_at, serviced.base_path)
        if not dry_run:
            engines.check()
        if undo:
            undone = preview_undo(serviced) if dry_run else undo_clustering(serviced, engines.choose, run_task)
            return _undo_result(undone, dry_run=dry_run, explain=explain)
        if execute is not None:
            report = (
                preview_execution(serviced, execute)
                if dry_run
                else execute_clustering(serviced, execute, engines.choose, run_task)
            )
        elif dry_run:
            report = ClusteringReport(preview_clustering(serviced, packing))
        else:
            report = run_clustering(serviced, packing, engines.choose, run_task)
    return _result(report, dry_run=dry_run, explain=explain)


def in_round(done: PackPlan | ClusteringReport | str | None, rule: EngineRule) -> Result:
    """The step of `lakeward service`; text says why nothing was done."""
    if done is None or isinstance(done, str):
        why = done or "Nothing to do."
        return Result(document={"nothing": why}, lines=[why], is_nothing=True)
    if isinstance(done, PackPlan):
        return _result(ClusteringReport(done), dry_run=True, explain=False)
    return _result(done, dry_run=False, explain=False)


def _result(report: ClusteringReport, *, dry_run: bool, explain: bool) -> Result:
    plan = report.plan
    return Result(
        document=_as_json(report, dry_run=dry_run),
        lines=[*_summary(report, dry_run=dry_run), *(_decisions(plan) if explain else ())],
        is_nothing=not plan.packed,
    )


def _undo_result(undone: UndoneClustering, *, dry_run: bool, explain: bool) -> Result:
    plan, would = undone.report.plan, "Would undo" if dry_run else "Undid"
    groups = format_count(plan.input_groups, "file group")
    lines = [
        f"{would} clustering {undone.clustering}: {groups}, {format_size(plan.input_bytes)}, "
        f"{'would become' if dry_run else 'became'} the {plan.outputs} of before.",
        *(_decisions(plan) if explain else ()),
    ]
    return Result(document=_as_json(undone.report, dry_run=dry_run) | {"undone": undone.clustering}, lines=lines)


def _layout(by: str | None, mode: ClusterMode | None) -> Layout:
    """Raises `UsageError`."""
    if by is None and mode in (None, ClusterMode.PACK):
        return PACKED
    columns = tuple(dict.fromkeys(name.strip() for name in (by or "").split(",") if name.strip()))
    if mode is ClusterMode.PACK:
        raise UsageError(
            "--mode pack does not go with --by.",
            why="pack asks for the sizes of file groups alone.",
            remedy="Leave one of them out.",
        )
    if not 1 <= len(columns) <= COLUMNS_MAX:
        raise UsageError(
            f"--by names {format_count(len(columns), 'column')}, where one to {COLUMNS_MAX} are needed.",
            why="sort, curve and hybrid bring rows together by columns; with many columns each brings few together.",
            remedy="Name the columns that queries filter by, as in --by city,day.",
        )
    return Layout(mode, columns)


def _as_json(report: ClusteringReport, *, dry_run: bool) -> dict[str, Any]:
    plan = report.plan
    return {
        "dry_run": dry_run,
        "instant": report.instant,
        "completion_time": report.completion_time,
        "input_groups": plan.input_groups,
        "input_bytes": plan.input_bytes,
        "output_groups": plan.outputs if report.instant is None else report.output_groups,
        "output_bytes": None if report.instant is None else report.output_bytes,
        "rows": None if report.instant is None else report.rows,
        "file_groups": [
            {
                "partition": each.partition_path,
                "file_id": each.file_id,
                "bytes": each.bytes,
                "reason": each.reason.value,
                "why": each.why,
            }
            for each in plan.decisions
        ],
    }


def _summary(report: ClusteringReport, *, dry_run: bool) -> Iterator[str]:
    plan = report.plan
    if not plan.packed:
        yield "Nothing to do."
    elif dry_run:
        groups = format_count(plan.input_groups, "file group")
        yield f"Would pack {groups} into {plan.outputs}, {format_size(plan.input_bytes)}."
    else:
        groups = format_count(plan.input_groups, "file group")
        sizes = f"{format_size(plan.input_bytes)} into {format_size(report.output_bytes)}"
        yield f"Packed {groups} into {report.output_groups}, {sizes}, {format_count(report.rows, 'row')}."
    for reason, number in sorted(Counter(each.reason for each in plan.decisions).items()):
        yield f"  {reason}: {format_count(number, 'file group')}"


def _decisions(plan: PackPlan) -> Iterator[str]:
    for each in plan.decisions:
        yield f"{each.partition_path or '(no partition)'} {each.file_id} {each.reason}: {each.why}"

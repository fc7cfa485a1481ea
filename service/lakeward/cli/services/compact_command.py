"""`lakeward compact TABLE`: finish pending compactions, plan again, carry that out, and report it.

Touches: stdout, stderr; the table, through `services/compaction/run/compactor.py`; the store, where a file group is
         parked.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError, VerificationFailed
from lakeward.base.quantities import parse_duration, parse_memory
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.interrupts import interruptible
from lakeward.cli.options.bloom_filter import StatedBloomFilter
from lakeward.cli.options.compaction import compaction_options
from lakeward.cli.options.engine import StatedEngine
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks, parse_option
from lakeward.cli.options.plan import StatedPlan
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.preview import metadata_trigger_of, show_preview
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.views.compact import render_report, report_as_json
from lakeward.cli.views.metadata import metadata_report_as_json, render_metadata_report
from lakeward.cli.views.progress import open_view
from lakeward.cli.views.terminal import Terminal
from lakeward.config.codec import Codec
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.owner import Processes
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.metadata.run.trigger import service_metadata
from lakeward.table.damaged_file import damaged_error

if TYPE_CHECKING:
    from lakeward.services.metadata.plan.compact_after import MetadataCompactAfter


@with_option_groups
def compact(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long to wait for another process that carries out a pending compaction."
        ),
    ] = "150s",
    plan: StatedPlan,
    metadata: Annotated[
        bool,
        typer.Option(
            "--metadata",
            hidden=True,
            help="The old way to say `lakeward metadata clean TABLE` and `lakeward metadata compact TABLE`.",
        ),
    ] = False,
    no_metadata_services: Annotated[
        bool,
        typer.Option(
            "--no-metadata-services",
            help="Leave the metadata table to its writers. Otherwise it is cleaned and compacted at the end, where "
            "they would soon have to (metadata_compact_after).",
        ),
    ] = False,
    yield_to_writers: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long to wait for a concurrent write that publishing this compaction would make fail; default 1m.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be compacted, write nothing.")
    ] = False,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Read every new file back and merge a sample of keys a second, slow way; default --verify.",
        ),
    ] = None,
    codec: Annotated[
        Codec | None, typer.Option(help="Compression of new base files; default zstd.", show_default=False)
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak memory of one operation, from 300MiB; default 512MiB.")
    ] = None,
    stated_filter: StatedBloomFilter,
    engine: StatedEngine,
    accept_damaged_logs: Annotated[
        bool,
        typer.Option(
            "--accept-damaged-logs",
            help="Go on where logs are gone, cut or torn, as Hudi does, instead of leaving their file groups alone. "
            "Their rows are lost for good, also when the files come back; the commit says which files they were.",
        ),
    ] = False,
    timezone: TimezoneOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 3 when there was nothing to do.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Finish pending compactions, then plan and carry out a new one.

    A verb that writes needs a statement about the table's other writers: --writers stopped, or --lock, or
    what the configuration says under locks.
    """
    if metadata:
        from lakeward.cli.services.metadata_compact import check_goes_with_metadata

        check_goes_with_metadata(
            {
                "--type": plan.kind,
                "--partition": plan.partition,
                "--exclude-partition": plan.exclude_partition,
                "--file-group": plan.file_group,
                "--set": plan.settings,
                "--no-metadata-services": no_metadata_services,
                "--codec": codec,
                "--memory": memory,
                "--bloom-filter-max": stated_filter.bloom_filter_max,
                **engine.by_option(),
                "--accept-damaged-logs": accept_damaged_logs or None,
            }
        )
    opened = open_table(table, config)
    configured, clock = opened.table, SystemClock()
    locks = stated.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks, timezone=timezone)
    yielding = options.yielding
    yield_seconds = parse_option(parse_duration, "--yield-to-writers", yield_to_writers, yielding.seconds)
    options = replace(
        options,
        yielding=replace(yielding, seconds=yield_seconds),
        wait_seconds=parse_option(parse_duration, "--wait", wait, 0.0),
        codec=options.codec if codec is None else codec.value,
        verify=options.verify if verify is None else verify,
        memory_bytes=parse_option(parse_memory, "--memory", memory, options.memory_bytes),
        bloom_bytes_max=stated_filter.over(options.bloom_bytes_max),
        accept_damaged_logs=accept_damaged_logs,
    )
    engines = engine.over(opened.settings, memory_bytes=options.memory_bytes)
    if metadata:
        from lakeward.cli.services.metadata_compact import service_metadata_now

        typer.echo(
            "`compact --metadata` is the old way to say `lakeward metadata clean` and `lakeward metadata compact`.",
            err=True,
        )
        if not service_metadata_now(opened, options, None, dry_run=dry_run, as_json=as_json) and exit_code:
            raise typer.Exit(3)
        return
    if not dry_run:
        engines.check()
    console = Terminal()
    parked = ParkedGroups(opened, config, clock, say=partial(typer.echo, err=True))
    parked_now = parked.records(named=plan.file_group or ())
    excluded = parked.excluded(parked_now)
    after: MetadataCompactAfter = 0 if no_metadata_services else configured.metadata_compact_after
    try:
        with open_view(Terminal(stderr=True), clock) as view, interruptible() as guard:
            view.step(f"reading {opened.base_path}")
            compactor = Compactor(
                opened.storage,
                opened.base_path,
                options,
                planner=plan.over(configured),
                choose_dispatcher=engines.choose,
                run_operation=partial(run_operation_at, opened.base_path),
                clock=clock,
                processes=Processes(),
                observer=view,
                guard=guard,
                excluded=excluded,
            )
            if dry_run or plan.narrows:
                preview = compactor.preview().outcome
                plan.check_matches(preview)
            if dry_run:
                trigger = metadata_trigger_of(opened, after)
            else:
                report = compactor.compact()
                metadata_report = service_metadata(
                    opened.storage,
                    opened.base_path,
                    options,
                    after=after,
                    clock=clock,
                    processes=Processes(),
                    observer=view,
                    guard=guard,
                )
    except LakewardError as error:
        parked.park(error)
        raise
    finally:
        engines.stop()
    if dry_run:
        show_preview(preview, trigger, engines.rule, as_json=as_json)
        nothing = not preview.operations and not (trigger and trigger.is_due)
    else:
        if as_json:
            beside = {"parked": parked.as_json(parked_now), **metadata_report_as_json(metadata_report)}
            print_json({**report_as_json(report), **beside})
        else:
            render_report(report, console)
            render_metadata_report(metadata_report, console)
        nothing = not report.plans and metadata_report.done is None
        if isinstance(metadata_report.left, VerificationFailed):
            raise metadata_report.left
        if report.damage:
            raise damaged_error(report.damage)
    if exit_code and nothing:
        raise typer.Exit(3)

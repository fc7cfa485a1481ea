"""The command line: words in, one call down, data out, an exit code.

Data goes to stdout, everything else to stderr. Exit codes are a stable contract: 0 ok; 1 failure; 2 usage,
configuration or a refused table; 3 nothing to do (only with --exit-code); 5 lock held; 6 verification found
problems; 75 temporary, try again; 130 interrupted.

Touches: stdout, stderr; everything else happens below.
Keeps:   no secret that the process was given, in its environment or its arguments, is in an error that it prints.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated, TypeVar

import orjson
import typer

from lakeward.cli.compact_view import render_report, report_as_json
from lakeward.cli.config_commands import config_app
from lakeward.cli.configured_table import ConfigOption, ConfiguredTable, TableArgument, open_table
from lakeward.cli.control_commands import register as register_controls
from lakeward.cli.inspect_view import render
from lakeward.cli.lock_options import (
    LockExpireOption,
    LockOption,
    LockWaitOption,
    LockZooKeeperKeyOption,
    LockZooKeeperOption,
    LockZooKeeperPathOption,
    WritersOption,
    parse_option,
    stated_locks,
)
from lakeward.cli.metadata_commands import metadata_app
from lakeward.cli.metadata_compact import (
    check_goes_with_metadata,
    compact_metadata,
    metadata_report_as_json,
    metadata_trigger_as_json,
    render_metadata_report,
    render_metadata_trigger,
)
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.plan_view import explanations_as_json, plan_as_json, render_explanations, render_plan
from lakeward.cli.progress_view import open_view
from lakeward.cli.run_command import run as run_daemon
from lakeward.cli.state_commands import state_app
from lakeward.cli.store_options import DebugOption, JsonOption, print_json
from lakeward.cli.terminal import Terminal, shown
from lakeward.cli.unschedule_command import unschedule as unschedule_plan
from lakeward.cli.verify_command import verify as verify_table
from lakeward.clock import Clock, SystemClock
from lakeward.commit.file_system_lock import FileSystemLockOptions
from lakeward.commit.owner import Processes
from lakeward.daemon.config import Codec, SparkSettings, Writers
from lakeward.dispatch.dispatcher import Dispatcher, own_versions
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.dispatch.spark import SparkDispatcher
from lakeward.errors import BrokenFile, LakewardError, Unsupported, UsageError, VerificationFailed
from lakeward.execute.compaction import Compactor
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.inspection import inspect_table
from lakeward.execute.metadata_trigger import look_at_trigger, service_metadata
from lakeward.execute.task_entry import run_operation_at
from lakeward.plan.decision import PlanOutcome
from lakeward.plan.metadata_trigger import MetadataCompactAfter, MetadataTrigger
from lakeward.plan.planner import SETTINGS, CompactionType, merge_settings, planner_of
from lakeward.plan.selection import GroupFilter
from lakeward.printable import printable, secrets_around, spellings
from lakeward.quantities import parse_duration, parse_size
from lakeward.table.damaged_file import damaged_error
from lakeward.table.listing import listing_source
from lakeward.table.table_config import load_table_config

T = TypeVar("T")

app = typer.Typer(
    name="lakeward",
    help="Table services for Apache Hudi tables: look at a table, compact it, know why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.add_typer(config_app, name="config")
app.add_typer(state_app, name="state")
app.add_typer(metadata_app, name="metadata")
app.command(name="run")(run_daemon)
app.command(name="verify")(verify_table)
app.command(name="unschedule")(unschedule_plan)

TimezoneOption = Annotated[
    str | None,
    typer.Option(
        help="Zone of the table's instants, for example Europe/Berlin, where hoodie.table.timeline.timezone is LOCAL: "
        "the zone of the machines that write it. Inferred from the newest commits when not given, where that leaves no "
        "doubt."
    ),
]
TypeOption = Annotated[
    CompactionType | None,
    typer.Option(
        "--type",
        help="hybrid (default): for each file group FULL (base and logs into a new base file), LOG (its small logs "
        "into one) or nothing, whichever pays. full: FULL for all that have logs. log: LOG wherever it is possible.",
    ),
]
PartitionOption = Annotated[
    list[str] | None, typer.Option(help="Only partitions of this path; * and ? match. Repeatable.")
]
ExcludeOption = Annotated[
    list[str] | None, typer.Option(help="Not the partitions of this path; * and ? match. Repeatable.")
]
FileGroupOption = Annotated[list[str] | None, typer.Option(help="Only the file group of this id. Repeatable.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help=f"A setting of the planner: {', '.join(SETTINGS)}. Repeatable."),
]


@app.command()
def inspect(
    table: TableArgument,
    config: ConfigOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show version, layout, timeline, file groups, pending work, and what would be refused. Reads only."""
    opened = open_table(table, config)
    zone = timezone or opened.table.timezone
    report = inspect_table(opened.storage, opened.base_path, timezone=zone, clock=SystemClock())
    if as_json:
        print_json(report)
    else:
        render(report, Terminal())


@app.command()
def plan(
    table: TableArgument,
    config: ConfigOption = None,
    kind: TypeOption = None,
    partition: PartitionOption = None,
    exclude_partition: ExcludeOption = None,
    file_group: FileGroupOption = None,
    settings: SetOption = None,
    explain_too: Annotated[
        bool, typer.Option("--explain", help="Say for every file group in a sentence why, or why not.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say what compact would do now: the operations, what they would cost, and why not the others. Writes nothing."""
    opened = open_table(table, config)
    outcome = _preview(opened, config, kind, partition, exclude_partition, file_group, settings, timezone)
    trigger = _metadata_trigger(opened, opened.table.metadata_compact_after)
    if as_json:
        print_json({**plan_as_json(outcome), "metadata_table": metadata_trigger_as_json(trigger)})
    else:
        render_plan(outcome, Terminal(), explained=explain_too)
        render_metadata_trigger(trigger, Terminal())


@app.command()
def explain(
    table: TableArgument,
    config: ConfigOption = None,
    kind: TypeOption = None,
    partition: PartitionOption = None,
    exclude_partition: ExcludeOption = None,
    file_group: FileGroupOption = None,
    settings: SetOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say for each file group in one sentence what would happen to it, why, and when it would be otherwise."""
    opened = open_table(table, config)
    outcome = _preview(opened, config, kind, partition, exclude_partition, file_group, settings, timezone)
    trigger = _metadata_trigger(opened, opened.table.metadata_compact_after)
    if as_json:
        print_json({**explanations_as_json(outcome), "metadata_table": metadata_trigger_as_json(trigger)})
    else:
        render_explanations(outcome, Terminal())
        render_metadata_trigger(trigger, Terminal())


@app.command()
def compact(
    table: TableArgument,
    config: ConfigOption = None,
    kind: TypeOption = None,
    writers: WritersOption = None,
    lock: LockOption = None,
    lock_zookeeper: LockZooKeeperOption = None,
    lock_zookeeper_path: LockZooKeeperPathOption = None,
    lock_zookeeper_key: LockZooKeeperKeyOption = None,
    lock_wait: LockWaitOption = None,
    lock_expire: LockExpireOption = None,
    wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long to wait for another process that carries out a pending compaction."
        ),
    ] = "150s",
    partition: PartitionOption = None,
    exclude_partition: ExcludeOption = None,
    file_group: FileGroupOption = None,
    settings: SetOption = None,
    metadata: Annotated[
        bool,
        typer.Option(
            "--metadata",
            help="Clean and compact the table's metadata table instead, as Hudi's writers do by themselves when they "
            "write; until somebody does, Hudi archives nothing.",
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be compacted, write nothing.")] = False,
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
        str | None, typer.Option(metavar="SIZE", help="Peak memory of one operation; default 512MiB.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master that runs the operations; default local[*].")] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting. Repeatable.")
    ] = None,
    local_below: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Run plans that read less than this in process instead of on Spark."),
    ] = None,
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
    """Finish pending compactions, then plan anew and carry that out.

    A verb that writes needs a statement about the table's other writers: --writers stopped, or --lock, or
    what the configuration says under locks.
    """
    if metadata:
        check_goes_with_metadata(
            {
                "--type": kind,
                "--partition": partition,
                "--exclude-partition": exclude_partition,
                "--file-group": file_group,
                "--set": settings,
                "--no-metadata-services": no_metadata_services,
                "--codec": codec,
                "--memory": memory,
                "--master": master,
                "--spark-conf": spark_conf,
                "--local-below": local_below,
                "--accept-damaged-logs": accept_damaged_logs or None,
            }
        )
    opened = open_table(table, config)
    configured, clock = opened.table, SystemClock()
    kind = kind or configured.type
    locks = stated_locks(
        opened,
        writers,
        lock,
        zookeeper=(lock_zookeeper, lock_zookeeper_path, lock_zookeeper_key),
        lock_wait=lock_wait,
        expire_minutes=lock_expire,
        dry_run=dry_run,
    )
    local_bytes = parse_option(parse_size, "--local-below", local_below, opened.settings.spark.local_below)
    spark = _spark(opened.settings.spark, master, spark_conf or [])

    def choose_dispatcher(input_bytes: int) -> Dispatcher:
        return InProcessDispatcher() if input_bytes < local_bytes else spark

    options = CompactionOptions(
        writers_stopped=locks.writers is Writers.STOPPED,
        lock=locks.options,
        wait_seconds=parse_option(parse_duration, "--wait", wait, 0.0),
        timezone=timezone or configured.timezone,
        listing=listing_source(opened.base_path, configured.listing),
        codec=(codec or configured.codec).value,
        verify=configured.verify if verify is None else verify,
        memory_bytes=parse_option(parse_size, "--memory", memory, configured.memory),
        accept_damaged_logs=accept_damaged_logs,
    )
    if metadata:
        if not compact_metadata(opened, options, dry_run=dry_run, as_json=as_json) and exit_code:
            raise typer.Exit(3)
        return
    console = Terminal()
    parked = _parked_groups(opened, config, clock)
    parked_now = parked.records(named=file_group or ())
    left_alone = parked.left_alone(parked_now)
    after: MetadataCompactAfter = 0 if no_metadata_services else configured.metadata_compact_after
    try:
        with open_view(Terminal(stderr=True), clock) as view:
            compactor = Compactor(
                opened.storage,
                opened.base_path,
                options,
                planner=planner_of(
                    kind,
                    _groups(opened, partition, exclude_partition, file_group),
                    merge_settings(configured.planner, _planner_settings(settings)),
                ),
                choose_dispatcher=choose_dispatcher,
                run_operation=partial(run_operation_at, opened.base_path),
                clock=clock,
                processes=Processes(),
                observer=view,
                left_alone=left_alone,
            )
            if dry_run:
                preview = compactor.preview()
                trigger = _metadata_trigger(opened, after)
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
                )
    except LakewardError as error:
        parked.park(error)
        raise
    finally:
        spark.stop()
    if dry_run:
        if as_json:
            print_json({**plan_as_json(preview), "metadata_table": metadata_trigger_as_json(trigger)})
        else:
            render_plan(preview, console, explained=False)
            render_metadata_trigger(trigger, console)
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


@app.command()
def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the versions of Lakeward and of what must agree on every machine."""
    versions = own_versions()
    if as_json:
        print_json({"python": versions.python, **dict(versions.packages)})
    else:
        for name, number in (*versions.packages, ("python", versions.python)):
            typer.echo(f"{name} {number}")


def _preview(
    opened: ConfiguredTable,
    config: Path | None,
    kind: CompactionType | None,
    partition: list[str] | None,
    exclude_partition: list[str] | None,
    file_group: list[str] | None,
    settings: list[str] | None,
    timezone: str | None,
) -> PlanOutcome:
    kind, clock = kind or opened.table.type, SystemClock()
    parked = _parked_groups(opened, config, clock)
    compactor = Compactor(
        opened.storage,
        opened.base_path,
        CompactionOptions(
            writers_stopped=False,
            lock=FileSystemLockOptions(),
            timezone=timezone or opened.table.timezone,
            listing=listing_source(opened.base_path, opened.table.listing),
        ),
        planner=planner_of(
            kind,
            _groups(opened, partition, exclude_partition, file_group),
            merge_settings(opened.table.planner, _planner_settings(settings)),
        ),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, opened.base_path),
        clock=clock,
        processes=Processes(),
        left_alone=parked.left_alone(parked.records(named=file_group or ())),
    )
    return compactor.preview()


def _parked_groups(opened: ConfiguredTable, config: Path | None, clock: Clock) -> ParkedGroups:
    return ParkedGroups(opened, config, clock, say=partial(typer.echo, err=True))


def _metadata_trigger(opened: ConfiguredTable, after: MetadataCompactAfter) -> MetadataTrigger | None:
    """None also where the metadata table cannot be read: then it is not compacted either, and `inspect` says why."""
    clock = SystemClock()
    config = load_table_config(opened.storage, opened.base_path, clock=clock).config
    try:
        return look_at_trigger(opened.storage, opened.base_path, config, after=after, clock=clock)
    except (Unsupported, BrokenFile):
        return None


def _groups(
    opened: ConfiguredTable,
    partition: list[str] | None,
    exclude_partition: list[str] | None,
    file_group: list[str] | None,
) -> GroupFilter:
    return GroupFilter(
        partitions=tuple(partition or opened.table.partitions),
        file_groups=tuple(file_group or ()),
        excluded_partitions=tuple(exclude_partition or opened.table.exclude_partitions),
    )


def _spark(configured: SparkSettings, master: str | None, pairs: Sequence[str]) -> SparkDispatcher:
    remote = None if configured.remote is None or master is not None else configured.remote.get_secret_value()
    settings = configured.conf | _spark_settings(pairs)
    return SparkDispatcher(master or configured.master, settings, pool=configured.pool, remote=remote)


def _planner_settings(pairs: Sequence[str] | None) -> dict[str, str]:
    return dict(_key_and_value(pair, like="--set planner.log_ratio=0.3") for pair in pairs or ())


def _spark_settings(pairs: Sequence[str]) -> dict[str, str]:
    return dict(_key_and_value(pair, like="--spark-conf spark.executor.memory=2g") for pair in pairs)


def _key_and_value(pair: str, *, like: str) -> tuple[str, str]:
    key, found, value = pair.partition("=")
    if not found:
        raise UsageError(f"'{pair}' is no setting.", why="It has no '='.", remedy=f"Write {like}.")
    return key, value


register_controls(app)


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line. Returns the exit code; never raises for expected trouble."""
    arguments = list(arguments)
    try:
        app(args=arguments, prog_name="lakeward")
    except SystemExit as ended:  # how the command-line library returns, with usage errors explained
        return ended.code if isinstance(ended.code, int) else 0
    except LakewardError as error:
        _print_error(error, arguments)
        return error.exit_code
    except OSError as error:
        told = LakewardError(
            f"The storage failed{f' at {error.filename}' if error.filename else ''}.",
            why=f"{error.strerror or error}.",
            remedy="Nothing half-done stays visible; when the storage works again, run the command again.",
        )
        told.__cause__ = error
        _print_error(told, arguments)
        return told.exit_code
    return 0


def _print_error(error: LakewardError, arguments: Sequence[str]) -> None:
    known = _known_secrets(arguments)
    if "--debug" in arguments:
        typer.echo(shown(printable("".join(traceback.format_exception(error)), known)), err=True)
    what, why, remedy, *notes = (
        printable(text, known) for text in (error.what, error.why, error.remedy, *getattr(error, "__notes__", []))
    )
    if "--json" in arguments:
        fields = {"code": error.code, "what": what, "why": why, "remedy": remedy, "notes": notes}
        typer.echo(orjson.dumps({"error": fields}).decode(), err=True)
    else:
        lines = [f"{error.code}: {what}", why, remedy, *notes]
        typer.echo(shown("\n".join(line for line in lines if line)), err=True)


def _print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug of ours, as Python itself would print it, but for the secrets."""
    typer.echo(
        shown(printable("".join(traceback.format_exception(kind, error, trace)), _known_secrets(sys.argv[1:]))),
        err=True,
    )


def _known_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Whatever text of others an error brings along, these are in none that is printed."""
    return spellings(secrets_around(os.environ, arguments))


def main() -> None:
    sys.excepthook = _print_uncaught
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

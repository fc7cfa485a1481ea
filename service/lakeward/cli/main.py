"""The command line: words in, one call down, data out, an exit code.

Data goes to stdout, everything else to stderr. Exit codes are a stable contract: 0 ok; 1 failure; 2 usage,
configuration or a refused table; 3 nothing to do (only with --exit-code); 5 lock held; 6 verification found
problems; 75 temporary, try again; 130 interrupted.

Touches: stdout, stderr; everything else happens below.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeVar

import orjson
import typer
from rich.console import Console

from lakeward.cli.compact_view import render_report, report_as_json
from lakeward.cli.inspect_view import render
from lakeward.cli.plan_view import explanations_as_json, plan_as_json, render_explanations, render_plan
from lakeward.cli.progress_view import open_view
from lakeward.clock import SystemClock
from lakeward.commit.lock import FLINK_LOCK, SPARK_LOCK, LockOptions
from lakeward.commit.owner import Processes
from lakeward.dispatch.dispatcher import Dispatcher, own_versions
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.dispatch.spark import SparkDispatcher
from lakeward.errors import LakewardError, UsageError
from lakeward.execute.compaction import CompactionOptions, Compactor
from lakeward.execute.inspection import inspect_table
from lakeward.execute.operation import run_operation_at
from lakeward.plan.decision import PlanOutcome
from lakeward.plan.planner import SETTINGS, CompactionType, planner_of
from lakeward.plan.selection import GroupFilter
from lakeward.quantities import parse_duration, parse_size
from lakeward.storage.opening import open_storage

T = TypeVar("T")

app = typer.Typer(
    name="lakeward",
    help="Table services for Apache Hudi tables: look at a table, compact it, know why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Writers(StrEnum):
    STOPPED = "stopped"


class LockProvider(StrEnum):
    FILESYSTEM = "filesystem"


TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Base path or URL of the table.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
TimezoneOption = Annotated[
    str | None,
    typer.Option(
        help="Zone of the table's instants, for example Europe/Berlin, where hoodie.table.timeline.timezone is LOCAL: "
        "the zone of the machines that write it. Inferred from the newest commit when not given."
    ),
]
TypeOption = Annotated[
    CompactionType,
    typer.Option(
        "--type",
        help="hybrid: for each file group FULL (base and logs into a new base file), LOG (its small logs into one) or "
        "nothing, whichever pays. full: FULL for all that have logs. log: LOG wherever it is possible.",
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
    table: TableArgument, timezone: TimezoneOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Show version, layout, timeline, file groups, pending work, and what would be refused. Reads only."""
    storage, base_path = open_storage(table)
    report = inspect_table(storage, base_path, timezone=timezone, clock=SystemClock())
    if as_json:
        _print_json(report)
    else:
        render(report, Console())


@app.command()
def plan(
    table: TableArgument,
    kind: TypeOption = CompactionType.HYBRID,
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
    outcome = _preview(table, kind, partition, exclude_partition, file_group, settings, timezone)
    if as_json:
        _print_json(plan_as_json(outcome))
    else:
        render_plan(outcome, Console(), explained=explain_too)


@app.command()
def explain(
    table: TableArgument,
    kind: TypeOption = CompactionType.HYBRID,
    partition: PartitionOption = None,
    exclude_partition: ExcludeOption = None,
    file_group: FileGroupOption = None,
    settings: SetOption = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say for each file group in one sentence what would happen to it, why, and when it would be otherwise."""
    outcome = _preview(table, kind, partition, exclude_partition, file_group, settings, timezone)
    if as_json:
        _print_json(explanations_as_json(outcome))
    else:
        render_explanations(outcome, Console())


@app.command()
def compact(
    table: TableArgument,
    kind: TypeOption = CompactionType.HYBRID,
    writers: Annotated[
        Writers | None,
        typer.Option(help="Your word that no other writer or table service is at work on this table now."),
    ] = None,
    lock: Annotated[
        LockProvider | None,
        typer.Option(
            help="Share the table with its writers through Hudi's file-system lock provider. They must use it too, "
            "with optimistic concurrency control and lazy clean-up of failed writes."
        ),
    ] = None,
    lock_wait: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for the table lock.")] = "60s",
    lock_expire: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="After how many minutes your writers let a lock expire "
            "(hoodie.write.lock.filesystem.expire). Without it a foreign lock never expires.",
        ),
    ] = None,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be compacted, write nothing.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Read every new file back and merge a sample of keys a second, slow way.")
    ] = True,
    codec: Annotated[str, typer.Option(help="Compression of new base files: zstd, snappy, gzip or none.")] = "zstd",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Peak memory of one operation.")] = "512MiB",
    master: Annotated[str, typer.Option(help="Spark master that runs the operations.")] = "local[*]",
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting. Repeatable.")
    ] = None,
    local_below: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Run plans that read less than this in process instead of on Spark."),
    ] = "0",
    timezone: TimezoneOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 3 when there was nothing to do.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Finish pending compactions, then plan anew and carry that out.

    A verb that writes needs a statement about the table's other writers: --writers stopped, or --lock.
    """
    storage, base_path = open_storage(table)
    clock = SystemClock()
    local_bytes = _quantity(parse_size, "--local-below", local_below)
    spark = SparkDispatcher(master, _spark_settings(spark_conf or []))

    def choose_dispatcher(input_bytes: int) -> Dispatcher:
        return InProcessDispatcher() if input_bytes < local_bytes else spark

    options = CompactionOptions(
        writers_stopped=writers is Writers.STOPPED,
        lock=_lock_options(
            writers,
            lock,
            wait_seconds=_quantity(parse_duration, "--lock-wait", lock_wait),
            expire_minutes=lock_expire,
            dry_run=dry_run,
        ),
        wait_seconds=_quantity(parse_duration, "--wait", wait),
        timezone=timezone,
        codec=codec,
        verify=verify,
        memory_bytes=_quantity(parse_size, "--memory", memory),
        skip_unsupported=kind is not CompactionType.FULL,
    )
    console = Console()
    try:
        with open_view(Console(stderr=True), clock) as view:
            compactor = Compactor(
                storage,
                base_path,
                options,
                planner=planner_of(
                    kind, _groups(partition, exclude_partition, file_group), _planner_settings(settings)
                ),
                choose_dispatcher=choose_dispatcher,
                run_operation=partial(run_operation_at, base_path),
                clock=clock,
                processes=Processes(),
                observer=view,
            )
            if dry_run:
                preview = compactor.preview()
            else:
                report = compactor.compact()
    finally:
        spark.stop()
    if dry_run:
        _print_json(plan_as_json(preview)) if as_json else render_plan(preview, console, explained=False)
        nothing = not preview.operations
    else:
        _print_json(report_as_json(report)) if as_json else render_report(report, console)
        nothing = not report.plans
    if exit_code and nothing:
        raise typer.Exit(3)


@app.command()
def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the versions of Lakeward and of what must agree on every machine."""
    versions = own_versions()
    if as_json:
        _print_json({"python": versions.python, **dict(versions.packages)})
    else:
        for name, number in (*versions.packages, ("python", versions.python)):
            typer.echo(f"{name} {number}")


def _preview(
    table: str,
    kind: CompactionType,
    partition: list[str] | None,
    exclude_partition: list[str] | None,
    file_group: list[str] | None,
    settings: list[str] | None,
    timezone: str | None,
) -> PlanOutcome:
    storage, base_path = open_storage(table)
    compactor = Compactor(
        storage,
        base_path,
        CompactionOptions(
            writers_stopped=False,
            lock=LockOptions(),
            timezone=timezone,
            skip_unsupported=kind is not CompactionType.FULL,
        ),
        planner=planner_of(kind, _groups(partition, exclude_partition, file_group), _planner_settings(settings)),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, base_path),
        clock=SystemClock(),
        processes=Processes(),
    )
    return compactor.preview()


def _groups(
    partition: list[str] | None, exclude_partition: list[str] | None, file_group: list[str] | None
) -> GroupFilter:
    return GroupFilter(
        partitions=tuple(partition or ()),
        file_groups=tuple(file_group or ()),
        excluded_partitions=tuple(exclude_partition or ()),
    )


def _quantity(parse: Callable[[str], T], option: str, text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option} cannot be '{text}'.", why=str(error), remedy="Correct the option.") from error


def _lock_options(
    writers: Writers | None,
    lock: LockProvider | None,
    *,
    wait_seconds: float,
    expire_minutes: float | None,
    dry_run: bool,
) -> LockOptions:
    if (writers is None) == (lock is None) and not dry_run:
        raise UsageError(
            "Say how the table's other writers behave, in one way." if writers is None else "Give one of the two.",
            why="A compaction beside a writer that does not share its lock can lose that writer's rows; "
            "that nobody seems to write proves nothing.",
            remedy="Stop the writers and pass --writers stopped, or let them use Hudi's file-system lock provider "
            "(hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL, hoodie.write.lock.provider="
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider, "
            "hoodie.clean.failed.writes.policy=LAZY) and pass --lock filesystem.",
        )
    # With stopped writers the lock still keeps two of our own processes apart.
    paths = (SPARK_LOCK, FLINK_LOCK) if lock is LockProvider.FILESYSTEM else (SPARK_LOCK,)
    expire_seconds = None if expire_minutes is None else expire_minutes * 60
    return LockOptions(paths=paths, wait_seconds=wait_seconds, expire_seconds=expire_seconds)


def _planner_settings(pairs: Sequence[str] | None) -> dict[str, str]:
    return dict(_key_and_value(pair, like="--set planner.log_ratio=0.3") for pair in pairs or ())


def _spark_settings(pairs: Sequence[str]) -> dict[str, str]:
    return dict(_key_and_value(pair, like="--spark-conf spark.executor.memory=2g") for pair in pairs)


def _key_and_value(pair: str, *, like: str) -> tuple[str, str]:
    key, found, value = pair.partition("=")
    if not found:
        raise UsageError(f"'{pair}' is no setting.", why="It has no '='.", remedy=f"Write {like}.")
    return key, value


def _print_json(document: Any) -> None:
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line. Returns the exit code; never raises for expected trouble."""
    arguments = list(arguments)
    try:
        app(args=arguments, prog_name="lakeward")
    except SystemExit as ended:  # how the command-line library returns, with usage errors explained
        return ended.code if isinstance(ended.code, int) else 0
    except LakewardError as error:
        _print_error(error, as_json="--json" in arguments, debug="--debug" in arguments)
        return error.exit_code
    except OSError as error:
        told = LakewardError(
            f"The storage failed{f' at {error.filename}' if error.filename else ''}.",
            why=f"{error.strerror or error}.",
            remedy="Nothing half-done stays visible; when the storage works again, run the command again.",
        )
        told.__cause__ = error
        _print_error(told, as_json="--json" in arguments, debug="--debug" in arguments)
        return told.exit_code
    return 0


def _print_error(error: LakewardError, *, as_json: bool, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    notes = getattr(error, "__notes__", [])
    if as_json:
        fields = {"code": error.code, "what": error.what, "why": error.why, "remedy": error.remedy, "notes": notes}
        typer.echo(orjson.dumps({"error": fields}).decode(), err=True)
    else:
        lines = [f"{error.code}: {error.what}", error.why, error.remedy, *notes]
        typer.echo("\n".join(line for line in lines if line), err=True)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

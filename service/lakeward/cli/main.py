"""The command line: words in, one call down, data out, an exit code.

Data goes to stdout, everything else to stderr. Exit codes are a stable contract: 0 ok; 1 failure; 2 usage,
configuration or a refused table; 3 nothing to do (only with --exit-code); 5 lock held; 6 verification found
problems; 75 temporary, try again; 130 interrupted.

Touches: stdout, stderr; everything else happens below.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NoReturn, TypeVar

import orjson
import typer
from rich.console import Console

from lakeward.cli.compact_view import render_report, report_as_json
from lakeward.cli.config_commands import config_app
from lakeward.cli.configured_table import ConfigOption, ConfiguredTable, open_table
from lakeward.cli.control_commands import register as register_controls
from lakeward.cli.inspect_view import render
from lakeward.cli.metadata_commands import metadata_app
from lakeward.cli.plan_view import explanations_as_json, plan_as_json, render_explanations, render_plan
from lakeward.cli.progress_view import open_view
from lakeward.cli.run_command import run as run_daemon
from lakeward.cli.state_commands import state_app
from lakeward.cli.verify_command import verify as verify_table
from lakeward.clock import SystemClock
from lakeward.commit.file_system_lock import FileSystemLockOptions
from lakeward.commit.lock import SHARING_OPTIONS, provider_options
from lakeward.commit.owner import Processes
from lakeward.commit.storage_lock import StorageLockOptions
from lakeward.commit.zookeeper_lock import ZooKeeperLockOptions, check_node_path, check_servers
from lakeward.daemon.config import Codec, LockProvider, LockSettings, SparkSettings, Writers, ZooKeeperSettings
from lakeward.dispatch.dispatcher import Dispatcher, own_versions
from lakeward.dispatch.in_process import InProcessDispatcher
from lakeward.dispatch.spark import SparkDispatcher
from lakeward.errors import LakewardError, UsageError
from lakeward.execute.compaction import Compactor
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.inspection import inspect_table
from lakeward.execute.task_entry import run_operation_at
from lakeward.plan.decision import PlanOutcome
from lakeward.plan.planner import SETTINGS, CompactionType, merge_settings, planner_of
from lakeward.plan.selection import GroupFilter
from lakeward.quantities import parse_duration, parse_size

T = TypeVar("T")

app = typer.Typer(
    name="lakeward",
    help="Table services for Apache Hudi tables: look at a table, compact it, know why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class NoWriters(StrEnum):
    STOPPED = "stopped"


app.add_typer(config_app, name="config")
app.add_typer(state_app, name="state")
app.command(name="run")(run_daemon)
app.command(name="verify")(verify_table)

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Base path or URL of the table, or its name in the configuration.")
]
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
        _print_json(report)
    else:
        render(report, Console())


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
    outcome = _preview(open_table(table, config), kind, partition, exclude_partition, file_group, settings, timezone)
    if as_json:
        _print_json(plan_as_json(outcome))
    else:
        render_plan(outcome, Console(), explained=explain_too)


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
    outcome = _preview(open_table(table, config), kind, partition, exclude_partition, file_group, settings, timezone)
    if as_json:
        _print_json(explanations_as_json(outcome))
    else:
        render_explanations(outcome, Console())


@app.command()
def compact(
    table: TableArgument,
    config: ConfigOption = None,
    kind: TypeOption = None,
    writers: Annotated[
        NoWriters | None,
        typer.Option(help="Your word that no other writer or table service is at work on this table now."),
    ] = None,
    lock: Annotated[
        LockProvider | None,
        typer.Option(
            help="Share the table with its writers through Hudi's lock provider of that name. They must use it too, "
            "with optimistic concurrency control and lazy clean-up of failed writes."
        ),
    ] = None,
    lock_zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,HOST:PORT]",
            help="With --lock zookeeper: the servers, as the writers have them in hoodie.write.lock.zookeeper.url.",
        ),
    ] = None,
    lock_zookeeper_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The writers' hoodie.write.lock.zookeeper.base_path. Without it the lock is where Hudi's "
            "ZookeeperBasedImplicitBasePathLockProvider has it.",
        ),
    ] = None,
    lock_zookeeper_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="The writers' hoodie.write.lock.zookeeper.lock_key; default: the name of the table."
        ),
    ] = None,
    lock_wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait for the table lock; default 60s.")
    ] = None,
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
    timezone: TimezoneOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 3 when there was nothing to do.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Finish pending compactions, then plan anew and carry that out.

    A verb that writes needs a statement about the table's other writers: --writers stopped, or --lock, or
    what the configuration says under locks.
    """
    opened = open_table(table, config)
    configured, clock = opened.table, SystemClock()
    kind = kind or configured.type
    locks = _locks(
        opened,
        writers,
        lock,
        zookeeper={"url": lock_zookeeper, "base_path": lock_zookeeper_path, "lock_key": lock_zookeeper_key},
        lock_wait=lock_wait,
        expire_minutes=lock_expire,
        dry_run=dry_run,
    )
    local_bytes = _quantity(parse_size, "--local-below", local_below, opened.settings.spark.local_below)
    spark = _spark(opened.settings.spark, master, spark_conf or [])

    def choose_dispatcher(input_bytes: int) -> Dispatcher:
        return InProcessDispatcher() if input_bytes < local_bytes else spark

    options = CompactionOptions(
        writers_stopped=locks.writers is Writers.STOPPED,
        lock=locks.options,
        wait_seconds=_quantity(parse_duration, "--wait", wait, 0.0),
        timezone=timezone or configured.timezone,
        codec=(codec or configured.codec).value,
        verify=configured.verify if verify is None else verify,
        memory_bytes=_quantity(parse_size, "--memory", memory, configured.memory),
        skip_unsupported=kind is not CompactionType.FULL,
    )
    console = Console()
    try:
        with open_view(Console(stderr=True), clock) as view:
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
    opened: ConfiguredTable,
    kind: CompactionType | None,
    partition: list[str] | None,
    exclude_partition: list[str] | None,
    file_group: list[str] | None,
    settings: list[str] | None,
    timezone: str | None,
) -> PlanOutcome:
    kind = kind or opened.table.type
    compactor = Compactor(
        opened.storage,
        opened.base_path,
        CompactionOptions(
            writers_stopped=False,
            lock=FileSystemLockOptions(),
            timezone=timezone or opened.table.timezone,
            skip_unsupported=kind is not CompactionType.FULL,
        ),
        planner=planner_of(
            kind,
            _groups(opened, partition, exclude_partition, file_group),
            merge_settings(opened.table.planner, _planner_settings(settings)),
        ),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=partial(run_operation_at, opened.base_path),
        clock=SystemClock(),
        processes=Processes(),
    )
    return compactor.preview()


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


def _quantity(parse: Callable[[str], T], option: str, text: str | None, otherwise: T) -> T:
    try:
        return otherwise if text is None else parse(text)
    except ValueError as error:
        raise UsageError(f"{option} cannot be '{text}'.", why=str(error), remedy="Correct the option.") from error


def _locks(
    opened: ConfiguredTable,
    writers: NoWriters | None,
    lock: LockProvider | None,
    *,
    zookeeper: Mapping[str, str | None],
    lock_wait: str | None,
    expire_minutes: float | None,
    dry_run: bool,
) -> LockSettings:
    """What is said about the table's other writers, here or else in the configuration."""
    configured = opened.table.locks
    assert configured is not None, "Settings.table completes the locks"
    if writers is not None and lock is not None:
        _refuse_statement("Give one of the two.", configured)
    if writers is None and lock is None and configured.writers is None and not dry_run:
        _refuse_statement("Say how the table's other writers behave, in one way.", configured)
    said: dict[str, Any] = {"wait": _quantity(parse_duration, "--lock-wait", lock_wait, configured.wait)}
    if writers is not None or lock is not None:
        said["writers"] = Writers.SHARE if writers is None else Writers.STOPPED
    if lock is not None:
        said["provider"] = lock
    if expire_minutes is not None:
        said["expire"] = expire_minutes * 60
    place = {key: value for key, value in zookeeper.items() if value is not None}
    if place:
        said["zookeeper"] = _zookeeper(configured.zookeeper, place)
    locks = configured.model_copy(update=said)
    if locks.writers is Writers.SHARE:
        _check_provider(locks, place, expire_minutes)
    return locks


def _zookeeper(configured: ZooKeeperSettings, place: Mapping[str, str]) -> ZooKeeperSettings:
    _quantity(check_servers, "--lock-zookeeper", place.get("url"), None)
    _quantity(check_node_path, "--lock-zookeeper-path", place.get("base_path"), None)
    return configured.model_copy(update=place)


def _check_provider(locks: LockSettings, place: Mapping[str, str], expire_minutes: float | None) -> None:
    """What belongs to one provider is not said of another, and ZooKeeper is somewhere."""
    if expire_minutes is not None and locks.provider is not LockProvider.FILESYSTEM:
        raise UsageError(
            f"--lock-expire does not go with --lock {locks.provider}.",
            why="A lock there does not grow old: it ends by itself when its holder is gone.",
            remedy="Leave it out.",
        )
    if locks.provider is not LockProvider.ZOOKEEPER:
        if place:
            _refuse_statement("--lock-zookeeper goes with --lock zookeeper.", locks)
        return
    if locks.zookeeper.url is None:
        _refuse_statement("--lock zookeeper needs --lock-zookeeper HOST:PORT, or locks.zookeeper.url.", locks)
    if locks.zookeeper.lock_key is not None and locks.zookeeper.base_path is None:
        _refuse_statement("--lock-zookeeper-key needs --lock-zookeeper-path.", locks)


def _refuse_statement(what: str, locks: LockSettings) -> NoReturn:
    servers, path = locks.zookeeper.url or "HOST:PORT", locks.zookeeper.base_path or "/PATH"
    place = ZooKeeperLockOptions(servers, path, locks.zookeeper.lock_key)
    ways = [f"{_spelled(provider_options(place))} (pass --lock zookeeper --lock-zookeeper {servers} and the same path)"]
    if locks.provider is not LockProvider.ZOOKEEPER:
        ways.insert(0, f"{_spelled(provider_options(FileSystemLockOptions()))} (pass --lock filesystem)")
        ways.insert(1, f"in object stores {_spelled(provider_options(StorageLockOptions()))} (pass --lock storage)")
    raise UsageError(
        what,
        why="A compaction beside a writer that does not share its lock can lose that writer's rows; "
        "that nobody seems to write proves nothing.",
        remedy="Stop the writers and pass --writers stopped; or let all of them share a lock, with "
        f"{_spelled(SHARING_OPTIONS)} and {'; or '.join(ways)}.",
    )


def _spelled(options: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


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


def _print_json(document: Any) -> None:
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


register_controls(app)
app.add_typer(metadata_app(_locks), name="metadata")


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

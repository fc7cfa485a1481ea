"""What an operator tells the daemons, and asks about them: through the store, so that it holds across restarts.

    pause, resume, cancel   a control in the store; the daemon that holds the table reads it within its next ticks
    jobs, events            what they did

Touches: stdout; the store.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lakeward.cli.configured_table import ConfigOption, resolve_table
from lakeward.cli.store_options import DebugOption, JsonOption, UrlOption, opened_store, print_json, read_settings
from lakeward.cli.terminal import Terminal
from lakeward.clock import SystemClock
from lakeward.daemon.config import Settings
from lakeward.errors import UsageError
from lakeward.quantities import parse_duration, spell_time
from lakeward.state.records import ControlKind, ControlRecord, FileGroupKey, JobRecord, TargetKind
from lakeward.state.store import Store
from lakeward.storage.opening import open_storage

CANCEL_SECONDS = 3600.0
"""How long a cancellation waits for a daemon to read it."""

TableArgument = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="A table: its name, or its base path.", show_default=False)
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="All tables of this group of the configuration.")
]
FileGroupOption = Annotated[
    str | None,
    typer.Option(
        "--file-group",
        metavar="PARTITION/ID",
        help="Only this file group of the table; ID alone where the table has no partitions.",
    ),
]
LimitOption = Annotated[int, typer.Option(min=1, help="How many, the newest first.")]


def pause(
    reason: Annotated[str, typer.Option(help="Why; it is shown wherever the pause is.")],
    table: TableArgument = None,
    group: GroupOption = None,
    file_group: FileGroupOption = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="For so long, for example 2h; else until resumed.")
    ] = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Start nothing new for a table, a group of tables or one file group. What runs goes on; `cancel` stops it."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        kind, target, key = _target(store, settings, table, group, file_group, clock.now())
        until = None if lasting is None else clock.now() + _seconds(lasting)
        control = ControlRecord(ControlKind.PAUSE, kind, target, reason, _who(), clock.now(), key, until)
        _ask(store, control, as_json=as_json, done="Paused")


def resume(
    table: TableArgument = None,
    group: GroupOption = None,
    file_group: FileGroupOption = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """End a pause, take back what is parked, and let a table in shadow be serviced again.

    It is also your word that other services which were seen on the table so far are known to you.
    """
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        kind, target, key = _target(store, settings, table, group, file_group, clock.now())
        control = ControlRecord(ControlKind.RESUME, kind, target, reason, _who(), clock.now(), key)
        _ask(store, control, as_json=as_json, done="Resumed")


def cancel(
    job_or_table: Annotated[
        str, typer.Argument(metavar="JOB-or-TABLE", help="The id of a job that runs, or a table: all its jobs.")
    ],
    reason: Annotated[str, typer.Option(help="Why; it stands in the job's end.")],
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Stop what runs; nothing half-done stays visible. It may be started again later: `pause` prevents that."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        job = store.job(job_or_table)
        if job is not None and job.ended_at is not None:
            raise UsageError(
                f"Job {job.id} cannot be cancelled.",
                why=f"It ended at {spell_time(job.ended_at)}: {job.result}.",
                remedy="Run `lakeward jobs` to see what runs.",
            )
        if job is not None:
            kind, target = TargetKind.JOB, job.id
        else:
            kind, target, _ = _target(store, settings, job_or_table, None, None, clock.now())
        control = ControlRecord(
            ControlKind.CANCEL, kind, target, reason, _who(), clock.now(), until=clock.now() + CANCEL_SECONDS
        )
        _ask(store, control, as_json=as_json, done="Asked to cancel")


def jobs(
    table: TableArgument = None,
    limit: LimitOption = 20,
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what the daemons run and ran."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else _table_name(store, settings, table, clock.now())
        found = store.jobs(name, limit)
    if as_json:
        print_json([asdict(job) for job in found])
        return
    rows = [(job.id, job.table, job.service, spell_time(job.began_at), _ended(job), job.error or "") for job in found]
    _print_table(("job", "table", "service", "began", "ended", "error"), rows, nothing="No job is known.")


def events(
    table: TableArgument = None,
    limit: LimitOption = 50,
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what happened, the newest first."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else _table_name(store, settings, table, clock.now())
        found = store.events(name, limit)
    if as_json:
        print_json([asdict(event) for event in found])
        return
    rows = [(spell_time(event.at), event.kind, event.table or "", event.text) for event in found]
    _print_table(("at", "kind", "table", "what"), rows, nothing="Nothing is known to have happened.")


def register(app: typer.Typer) -> None:
    """Make these verbs of the command line."""
    for verb in (pause, resume, cancel, jobs, events):
        app.command()(verb)


def _target(
    store: Store, settings: Settings, table: str | None, group: str | None, file_group: str | None, at: float
) -> tuple[TargetKind, str, FileGroupKey | None]:
    if (table is None) == (group is None):
        raise UsageError(
            "Say which table, or which group of tables." if table is None else "Give a table or --group, not both.",
            why="The command is about one of them.",
            remedy="Write for example: lakeward pause orders --reason maintenance.",
        )
    if group is not None:
        if file_group is not None:
            raise UsageError(
                "--file-group goes with a table.", why="A file group is one table's.", remedy="Name the table."
            )
        return TargetKind.GROUP, group, None
    assert table is not None, "one of the two is given"
    name = _table_name(store, settings, table, at)
    if file_group is None:
        return TargetKind.TABLE, name, None
    partition_path, _, file_id = file_group.rpartition("/")
    return TargetKind.FILE_GROUP, name, (partition_path, file_id)


def _table_name(store: Store, settings: Settings, text: str, at: float) -> str:
    """The name under which the daemons know a table. Raises `UsageError` for one that nobody knows."""
    # `compact` parks file groups of tables that no daemon watches, by their base path.
    parked = {record.table: record.table for record in store.parked(at) if "/" in record.table}
    known = parked | {table.name: table.base_path for table in store.tables()} | dict(settings.named_tables)
    if text in known:
        return text
    paths = {_base_path(base_path): name for name, base_path in known.items()}
    path = _base_path(resolve_table(text, settings)) if "/" in text or Path(text).is_dir() else None
    if path in paths:
        return paths[path]
    close = get_close_matches(text, [*known, *paths], n=1)
    raise UsageError(
        f"No table {text} is known.",
        why=f"Neither the store {store.name} nor the configuration has it.",
        remedy=f"Did you mean {close[0]}?"
        if close
        else "Name the configuration with --config, or the store with --url.",
    )


def _base_path(location: str) -> str:
    return open_storage(location)[1]


def _ask(store: Store, control: ControlRecord, *, as_json: bool, done: str) -> None:
    control_id = store.add_control(control)
    if as_json:
        print_json({**asdict(control), "id": control_id})
        return
    what = control.target if control.file_group is None else f"{control.target} {'/'.join(control.file_group)}"
    until = f" until {spell_time(control.until)}" if control.until and control.kind is ControlKind.PAUSE else ""
    typer.echo(f"{done}: {control.target_kind.value.replace('_', ' ')} {what}{until}. A daemon sees it within seconds.")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--for cannot be '{text}'.", why=str(error), remedy="Correct the option.") from error


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def _ended(job: JobRecord) -> str:
    return "runs" if job.ended_at is None else f"{spell_time(job.ended_at)}, {job.result}"


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, nothing: str) -> None:
    if not rows:
        typer.echo(nothing)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Terminal().print(table)

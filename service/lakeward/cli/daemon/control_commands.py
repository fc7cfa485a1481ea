"""Operators' requests to the daemons, and questions about them: through the store, so that it holds across restarts.

    pause, resume, cancel   a control in the store; the daemon that holds the table reads it within its next ticks
    jobs, events            what they did

Touches: stdout; the store.
"""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_iso_time, format_time, parse_duration
from lakeward.cli.configured_table import ConfigOption, resolve_table, several_tables
from lakeward.cli.options.store import (
    DebugOption,
    JsonOption,
    UrlOption,
    opened_store,
    print_json,
    read_settings,
    with_times,
)
from lakeward.config.short_name import find_by_short_name, names_of
from lakeward.protocol.job_kind import JobKind
from lakeward.state.records import (
    PROGRESS,
    CleanerProgress,
    ControlKind,
    ControlRecord,
    FileGroupKey,
    JobRecord,
    TargetKind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakeward.config.settings import Settings
    from lakeward.state.store import Store

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
LimitOption = Annotated[int, typer.Option(min=1, metavar="N", help="How many, the newest first.")]


def pause(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason; shown with the pause.")],
    table: TableArgument = None,
    group: GroupOption = None,
    file_group: FileGroupOption = None,
    lasting: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long, for example 2h; without it until resumed."),
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
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """End a pause, release what is parked, and let a table in shadow be serviced again.

    This also confirms that you know of the other services seen on the table so far.
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
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason; shown with the job's result.")],
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Stop what runs; nothing half-done stays visible. It may be started again later: `pause` prevents that."""
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        job = store.jobs.find(job_or_table)
        if job is not None and job.ended_at is not None:
            raise UsageError(
                f"Job {job.id} cannot be cancelled.",
                why=f"It ended at {format_time(job.ended_at)}: {job.result}.",
                remedy="Run `lakeward jobs` to see what runs.",
            )
        if job is not None:
            kind, target = TargetKind.JOB, job.id
        else:
            running = [each.id for each in store.jobs.running()]
            kind = TargetKind.TABLE
            target = _table_name(store, settings, job_or_table, clock.now(), jobs=running)
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
    from rich.text import Text

    from lakeward.cli.views.tables import WIDE_CELLS, Column, NameCell, new_table
    from lakeward.cli.views.terminal import Terminal

    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else _table_name(store, settings, table, clock.now())
        found = store.jobs.latest(name, limit)
        cleans = {job.id: store.jobs.progress(job.id) for job in found if job.service == JobKind.CLEAN}
    if as_json:
        print_json([with_times(job) | _progress_as_json(job) | _deletions_as_json(cleans.get(job.id)) for job in found])
        return
    if not found:
        typer.echo("No job is known.")
        return
    console = Terminal()
    ended = ("ended",) if console.width >= WIDE_CELLS else ()
    columns = dict.fromkeys(("job", "table", "service", "began", *ended, "result"), Column.FIXED)
    view = new_table(columns | {"table": Column.ELASTIC})
    for job in found:
        at = () if not ended else ("" if job.ended_at is None else format_time(job.ended_at),)
        cells = (job.service, format_time(job.began_at), *at, _doing(job) if job.ended_at is None else job.result or "")
        view.add_row(Text(job.id), NameCell(job.table), *map(Text, cells))
    console.print(view)
    for job in found:
        if described := _described(job, cleans.get(job.id, ())):
            console.print(Text(f"{job.id}: {described}"))


def _doing(job: JobRecord) -> str:
    return "waits" if _progress_of(job).get("waiting_for") else "runs"


def _progress_of(job: JobRecord) -> Mapping[str, Any]:
    """What a daemon said last of a job that runs; empty for others."""
    found = job.figures.get(PROGRESS) if job.ended_at is None else None
    return found if isinstance(found, dict) else {}


def _progress_as_json(job: JobRecord) -> dict[str, Any]:
    """Beside the figures, which a running job has none of."""
    progress = dict(_progress_of(job))
    for name in _TIMES:
        if name in progress:
            progress[_TIMES[name]] = format_iso_time(progress[name])
    return {"figures": {}, "progress": progress} if progress else {}


_TIMES = {"at": "time", "waiting_since": "waiting_since_time"}


def _progress_lines(job: JobRecord) -> list[str]:
    progress = _progress_of(job)
    waits = progress.get("waiting_for")
    wait = f"waits since {format_time(progress['waiting_since'])}: {waits}" if waits else ""
    return [str(each) for each in (wait, progress.get("step"), progress.get("sentence")) if each]


def _deletions_as_json(cleans: Sequence[CleanerProgress] | None) -> dict[str, Any]:
    """Nothing for what is no clean."""
    if cleans is None:
        return {}
    return {
        "deletions": [
            {"instant": each.instant, "files": each.files, "files_total": each.files_total} for each in cleans
        ]
    }


def _described(job: JobRecord, cleans: Sequence[CleanerProgress]) -> str:
    """What a job did, how far its cleans are while they are not done, and what went wrong."""
    from lakeward.config.job_summary import summarise_job

    under_way = [
        f"clean {each.instant}: {each.files:,} of {each.files_total:,} files deleted"
        for each in cleans
        if each.files < each.files_total
    ]
    words = (job.instant or "", summarise_job(job.figures), *_progress_lines(job), *under_way, job.error or "")
    return ". ".join(each.rstrip(".") for each in words if each)


def events(
    table: TableArgument = None,
    limit: LimitOption = 50,
    config: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what happened, the newest first."""
    from rich.text import Text

    from lakeward.cli.views.tables import Column, NameCell, new_table
    from lakeward.cli.views.terminal import Terminal

    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        name = None if table is None else _table_name(store, settings, table, clock.now())
        found = store.events.latest(name, limit)
    if as_json:
        print_json([with_times(event) for event in found])
        return
    if not found:
        typer.echo("Nothing is known to have happened.")
        return
    fixed, elastic = Column.FIXED, Column.ELASTIC
    view = new_table({"at": fixed, "kind": fixed, "table": elastic, "what": elastic})
    for event in found:
        view.add_row(format_time(event.at), Text(event.kind), NameCell(event.table or ""), Text(event.text))
    Terminal().print(view)


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
        groups = ("default", *settings.service.groups)
        if settings.service.groups and group not in groups:
            raise UsageError(
                f"There is no group {group}.",
                why=did_you_mean(group, groups, otherwise="service.groups of the configuration does not name it."),
                remedy=f"The groups are {', '.join(groups)}.",
            )
        return TargetKind.GROUP, group, None
    assert table is not None, "one of the two is given"
    name = _table_name(store, settings, table, at)
    if file_group is None:
        return TargetKind.TABLE, name, None
    partition_path, _, file_id = file_group.rpartition("/")
    return TargetKind.FILE_GROUP, name, (partition_path, file_id)


def _table_name(store: Store, settings: Settings, text: str, at: float, *, jobs: Sequence[str] | None = None) -> str:
    """The name under which the daemons know a table. Raises `UsageError` for one that is not known.

    Args:
        jobs: what may be meant as well.
    """
    # `compact` parks file groups of tables that no daemon watches, by their base path.
    parked = {record.table: record.table for record in store.controls.parked(at) if "/" in record.table}
    known = (
        parked | {table.name: table.base_path for table in store.observations.tables()} | dict(settings.named_tables)
    )
    if len(found := find_by_short_name(text, known)) == 1:
        return found[0]
    if found:
        raise several_tables(text, found)
    paths = {_base_path(base_path): name for name, base_path in known.items()}
    path = _base_path(resolve_table(text, settings)) if "/" in text or Path(text).is_dir() else None
    if path in paths:
        return paths[path]
    elsewhere = "Name the configuration with --config, or the store with --url."
    raise UsageError(
        f"No {'table' if jobs is None else 'table or job'} {text} is known.",
        why=f"Neither the store {store.name} nor the configuration has it.",
        remedy=did_you_mean(text, [*names_of(known), *paths, *(jobs or ())], otherwise=elsewhere),
    )


def _base_path(location: str) -> str:
    from lakeward.storage.opening import open_storage

    return open_storage(location)[1]


def _ask(store: Store, control: ControlRecord, *, as_json: bool, done: str) -> None:
    control_id = store.controls.add(control)
    if as_json:
        print_json({**with_times(control), "id": control_id})
        return
    what = control.target if control.file_group is None else f"{control.target} {'/'.join(control.file_group)}"
    until = f" until {format_time(control.until)}" if control.until and control.kind is ControlKind.PAUSE else ""
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
        user = "unknown"
    return f"{user}@{socket.gethostname()}"

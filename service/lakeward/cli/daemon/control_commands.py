"""`lakeward pause`, `resume` and `cancel`: a control in the store, which holds across restarts. The daemon that holds
the table reads it within its next ticks.

Touches: stdout; the store.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.api.client import Client
from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_time, parse_duration
from lakeward.cli.configured_table import ConfigOption, resolve_table, several_tables
from lakeward.cli.options.server import ServerOption, TokenFileOption, asked_daemon
from lakeward.cli.options.store import UrlOption, opened_store, read_settings
from lakeward.cli.options.user import user_name
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import Result
from lakeward.config.short_name import find_by_short_name, names_of
from lakeward.state.records import ControlKind, FileGroupKey, TargetKind
from lakeward.storage.storage_of_url import open_storage
from lakeward.surface.actions import Actions, ActionTarget, Asker
from lakeward.surface.documents import ControlDocument

if TYPE_CHECKING:
    from lakeward.config.settings import Settings
    from lakeward.state.store import Store

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
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> Result:
    """Start nothing new for a table, a group of tables or one file group. What runs goes on; `cancel` stops it."""
    seconds, asked = parse_option(parse_duration, "--for", lasting, None), Asker(_who(), reason)
    if server is not None:
        daemon, (kind, name), key = (
            asked_daemon(server, token_file, config),
            _named(table, group),
            _group_key(file_group),
        )
        if kind is TargetKind.GROUP:
            return _shown(daemon.pause_group(name, reason, seconds=seconds, by=_who()), done="Paused")
        return _shown(daemon.pause(name, reason, seconds=seconds, file_group=key, by=_who()), done="Paused")
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        target = _target(store, settings, table, group, file_group, clock.now())
        return _shown(Actions(store, clock).pause(target, asked, seconds=seconds), done="Paused")


def resume(
    table: TableArgument = None,
    group: GroupOption = None,
    file_group: FileGroupOption = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> Result:
    """End a pause, release what is parked, and let a table in shadow be serviced again.

    This also confirms that you know of the other services seen on the table so far.
    """
    if server is not None:
        daemon, (kind, name), key = (
            asked_daemon(server, token_file, config),
            _named(table, group),
            _group_key(file_group),
        )
        if kind is TargetKind.GROUP:
            return _shown(daemon.resume_group(name, reason, by=_who()), done="Resumed")
        return _shown(daemon.resume(name, reason, file_group=key, by=_who()), done="Resumed")
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        target = _target(store, settings, table, group, file_group, clock.now())
        return _shown(Actions(store, clock).resume(target, Asker(_who(), reason)), done="Resumed")


def cancel(
    job_or_table: Annotated[
        str, typer.Argument(metavar="JOB-or-TABLE", help="The id of a job that runs, or a table: all its jobs.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason; shown with the job's result.")],
    config: ConfigOption = None,
    url: UrlOption = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
) -> Result:
    """Stop what runs; nothing half-done stays visible. It may be started again later: `pause` prevents that."""
    if server is not None:
        daemon = asked_daemon(server, token_file, config)
        cancel = daemon.cancel_job if _is_job(daemon, job_or_table) else daemon.cancel
        return _shown(cancel(job_or_table, reason, by=_who()), done="Asked to cancel")
    settings, clock = read_settings(config), SystemClock()
    with opened_store(url, settings, clock) as store:
        if store.jobs.find(job_or_table) is not None:
            target = ActionTarget.of_job(job_or_table)
        else:
            running = [each.id for each in store.jobs.running()]
            name = table_name(store, settings, job_or_table, clock.now(), jobs=running)
            target = ActionTarget.of_table(name)
        return _shown(Actions(store, clock).cancel(target, Asker(_who(), reason)), done="Asked to cancel")


def _is_job(daemon: Client, text: str) -> bool:
    try:
        daemon.job(text)
    except UsageError:
        return False
    return True


def _named(table: str | None, group: str | None) -> tuple[TargetKind, str]:
    """Which one is given. Raises `UsageError` where both are, or none."""
    if table is not None and group is None:
        return TargetKind.TABLE, table
    if group is not None and table is None:
        return TargetKind.GROUP, group
    raise UsageError(
        "Say which table, or which group of tables." if table is None else "Give a table or --group, not both.",
        why="The command is about one of them.",
        remedy="Write for example: lakeward pause orders --reason maintenance.",
    )


def _group_key(file_group: str | None) -> FileGroupKey | None:
    if file_group is None:
        return None
    partition_path, _, file_id = file_group.rpartition("/")
    return partition_path, file_id


def _target(
    store: Store, settings: Settings, table: str | None, group: str | None, file_group: str | None, at: float
) -> ActionTarget:
    _named(table, group)
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
        return ActionTarget.of_group(group)
    assert table is not None, "one of the two is given"
    name = table_name(store, settings, table, at)
    return ActionTarget.of_table(name, _group_key(file_group))


def table_name(store: Store, settings: Settings, text: str, at: float, *, jobs: Sequence[str] | None = None) -> str:
    """The name under which the daemons know a table. Raises `UsageError` for one that is not known.

    Args:
        jobs: what may be meant as well.
    """
    # `compact` parks file groups of tables that no daemon watches, by their base path.
    parked = {record.table: record.table for record in store.controls.parked(at) if "/" in record.table}
    known = {**parked, **store.observations.tables(), **dict(settings.named_tables)}
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
    return open_storage(location)[1]


def _shown(control: ControlDocument, *, done: str) -> Result:
    what = control.target if control.file_group is None else f"{control.target} {'/'.join(control.file_group)}"
    until = f" until {format_time(control.until)}" if control.until and control.kind == ControlKind.PAUSE else ""
    kind = control.target_kind.replace("_", " ")
    return Result(
        document=control.as_json(),
        lines=[f"{done}: {kind} {what}{until}. A daemon sees it within seconds."],
    )


def _who() -> str:
    return f"{user_name()}@{socket.gethostname()}"

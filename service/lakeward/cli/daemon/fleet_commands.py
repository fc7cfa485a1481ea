"""`lakeward status` and `lakeward top`: the tables of a daemon on one screen, once or live.

Touches: stdout; the keyboard, for `top`; the daemon, over HTTP, reading only.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer
from rich.live import Live

from lakeward.api.client import Client
from lakeward.base.errors import LakewardError, UsageError
from lakeward.cli.configured_table import ConfigOption
from lakeward.cli.daemon.fleet_view import Fleet, fleet_lines
from lakeward.cli.options.server import ServerOption, TokenFileOption, asked_daemon
from lakeward.cli.result import PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered, Terminal

SORTS = ("urgency", "oldest", "log_bytes", "name")
TABLES_MAX = 200
"""What no screen shows is not asked for."""
JOBS_MAX = 50
Read = Callable[[float], str]
KEYS = "q quit   s sort: {sort}   / search{search}   j k down and up"


def status(
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    config: ConfigOption = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only tables whose name or path has this.")] = None,
) -> Result:
    """Show the tables of a daemon in one screen: how many of each kind, what runs, and the most urgent ones.

    Exit code 6 where a table needs attention, 0 where none does.
    """
    client = asked_daemon(server, token_file, config)
    fleet = _ask(client, _View(search=search or ""))
    return Rendered(
        document={
            "daemon": fleet.service.as_json(),
            "tables": [each.as_json() for each in fleet.tables],
            "matching": fleet.matching,
            "running": [each.as_json() for each in fleet.running],
        },
        render=partial(_print, fleet),
        exit_code=PROBLEMS_EXIT if fleet.service.concerned else 0,
    )


def top(
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    config: ConfigOption = None,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="How often the daemon is asked.")] = 2.0,
) -> Result:
    """Watch the tables of a daemon and its jobs on a terminal. q ends it; `lakeward status` prints the same once.

    Keys: s changes the order (urgency, oldest, log_bytes, name), / searches in names and paths, j and k go down and up.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("`lakeward top` needs a terminal.", remedy="Print one screen with `lakeward status`.")
    client, view = asked_daemon(server, token_file, config), _View()
    console = Terminal()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        fleet, trouble = _ask(client, view), ""
        while True:
            note = trouble or view.note
            live.update(fleet_lines(fleet, width=console.width, height=console.height, note=note), refresh=True)
            try:
                changed = _after(view, pressed(every))
            except KeyboardInterrupt:  # as good as q
                changed = None
            if changed is None:
                return Result(document={"ended": True})
            view = changed
            try:
                fleet, trouble = _ask(client, view), ""
            except LakewardError as error:
                trouble = f"{error.what} What is shown is older.   q quit"


@dataclass(frozen=True, slots=True)
class _View:
    """Which tables are shown."""

    sort: str = SORTS[0]
    search: str = ""
    offset: int = 0
    typing: bool = False
    """What is typed goes into the search."""

    @property
    def note(self) -> str:
        if self.typing:
            return f"search: {self.search}_"
        return KEYS.format(sort=self.sort, search=f": {self.search}" if self.search else "")


def _after(view: _View, keys: str) -> _View | None:
    """The view after these keys; None after the one that ends it."""
    for key in keys:
        if view.typing:
            if key in "\r\n\x1b":
                view = replace(view, typing=False)
            elif key in "\x7f\b":
                view = replace(view, search=view.search[:-1], offset=0)
            elif key.isprintable():
                view = replace(view, search=view.search + key, offset=0)
        elif key in "q\x03":
            return None
        elif key == "s":
            view = replace(view, sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)], offset=0)
        elif key == "/":
            view = replace(view, search="", offset=0, typing=True)
        elif key in "jk":
            view = replace(view, offset=max(0, view.offset + (1 if key == "j" else -1)))
    return view


def _ask(client: Client, view: _View) -> Fleet:
    found = client.first_tables(TABLES_MAX, offset=view.offset, search=view.search or None, sort=view.sort)
    running = [job for job in client.jobs(limit=JOBS_MAX) if job.ended_at is None]
    return Fleet(client.url, client.service(), found.items, found.total, running)


def _print(fleet: Fleet, console: Terminal) -> None:
    lines = console.height if console.is_terminal else TABLES_MAX
    console.print(fleet_lines(fleet, width=console.width, height=lines - 1))


@contextmanager
def _keys() -> Iterator[Read]:
    """What was pressed within some seconds, read without a return key."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def pressed(seconds: float) -> str:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([file], [], [], left)[0]:
                return os.read(file, 64).decode(errors="ignore")
        return ""

    try:
        tty.setcbreak(file)
        yield pressed
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)

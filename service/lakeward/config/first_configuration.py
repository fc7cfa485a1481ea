"""A first configuration: five answers in, the text of a commented file out.

Touches: nothing.
Keeps:   1. equal answers give equal text, which `read_config` reads as what was answered;
         2. where other machines reach the address, the file names a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakeward.config.choices import LockProvider
from lakeward.config.listen_address import is_loopback
from lakeward.config.reference import write_value
from lakeward.config.settings import KeyPath, ServiceSettings, Writers

ENGINES = ("auto", "local", "spark")


class WritersAnswer(StrEnum):
    """What an operator answers about the tables' other writers."""

    UNKNOWN = "unknown"
    STOPPED = "stopped"
    FILESYSTEM = "filesystem"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstConfiguration:
    tables: tuple[str, ...]
    """Absolute folders or URLs, below which tables lie; a table itself is one, too."""
    engine: str = "auto"
    """One of `ENGINES`, or Spark's master, or a Spark Connect server."""
    state: str | None = None
    """A folder, or the URL of a store; None: the default folder of the user that runs the daemon."""
    listen: str = ServiceSettings.model_fields["listen"].default
    writers: WritersAnswer = WritersAnswer.UNKNOWN

    @property
    def needs_token(self) -> bool:
        return not is_loopback(self.listen)

    def values(self, *, token_file: str) -> Mapping[KeyPath, Any]:
        """The keys that the file gives."""
        found: dict[KeyPath, Any] = {("discovery", "roots"): list(self.tables)}
        if self.engine in ENGINES:
            found["service", "engine"] = self.engine
        else:
            found["spark", "remote" if self.engine.startswith("sc://") else "master"] = self.engine
        found["service", "listen"] = self.listen
        if self.needs_token:
            found["http", "token_file"] = token_file
        if self.state is not None:
            found[("state", "url") if "://" in self.state else ("service", "state_folder")] = self.state
        if self.writers is not WritersAnswer.UNKNOWN:
            is_stopped = self.writers is WritersAnswer.STOPPED
            found["locks", "writers"] = (Writers.STOPPED if is_stopped else Writers.SHARE).value
            if not is_stopped:
                found["locks", "provider"] = LockProvider(self.writers.value).value
        return found

    def text(self, *, name: str, token_file: str) -> str:
        """The file, which is called `name`."""
        return "\n".join(_lines(self.values(token_file=token_file), name)) + "\n"


_COMMENTS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "discovery": {
        "roots": (
            "Tables are looked for below these folders and URLs once a minute, down to four folders deep.",
            '["/data/lake"]',
        ),
        "exclude": ("Folders that are not entered, and tables that are left alone.", '["*/scratch/*"]'),
    },
    "service": {
        "engine": (
            "auto: Spark runs what reads 128 MiB or more, processes of this machine the rest; local: never Spark;\n"
            "spark: always Spark.",
            '"auto"',
        ),
        "listen": ("The address of page, API and metrics. What other machines reach needs a token.", ""),
        "state_folder": (
            "The service's own files: its store in SQLite, and reports. By default a folder of the user that runs it.",
            '"/var/lib/lakeward"',
        ),
        "memory": ("What all running work together may hold.", '"2GiB"'),
    },
    "http": {
        "token_file": (
            "The token, in a file beside this one: `Authorization: Bearer TOKEN`, or the password of any user.",
            '"lakeward-token"',
        ),
        "hosts": ("Names under which browsers ask for the page, besides localhost.", '["lakeward.internal"]'),
    },
    "state": {
        "url": (
            "The store, where daemons share one. A URL with a password belongs into a file, state.url_file.",
            '"postgresql://lakeward@database.internal/lakeward"',
        ),
    },
    "spark": {
        "master": ("The Spark that runs jobs.", '"local[*]"'),
        "remote": ("A Spark Connect server instead of a master.", '"sc://spark-connect:15002"'),
    },
    "locks": {
        "writers": (
            "What the tables' other writers do. Without it tables are planned and shown, and nothing is written.\n"
            "stopped: no other process writes to them; share: each writer uses the lock of the provider below.",
            '"share"',
        ),
        "provider": (
            "Hudi's lock that all writers share: filesystem, storage (in object stores) or zookeeper.",
            '"filesystem"',
        ),
    },
    "defaults": {
        "windows": ("Compactions start only while one of these is open.", '["Mon-Fri 22:00-06:00 Europe/Berlin"]'),
    },
}
"""The keys that a first configuration has, each with its comment, and what it could be where no answer gives it."""


def _lines(values: Mapping[KeyPath, Any], name: str) -> Iterator[str]:
    yield "# Made by `lakeward init`. Lines that begin with `# key =` show what could be said as well."
    yield "#"
    for verb, what in (
        ("config check", "says what is wrong with it, after each change"),
        ("config show", "shows all keys with their values"),
        ("run", "starts the daemon"),
        ("reload", "lets a running daemon read it"),
    ):
        yield f"#   lakeward {verb} --config {name}  # {what}"
    for section, keys in _COMMENTS.items():
        yield ""
        yield f"[{section}]"
        for key, (comment, example) in keys.items():
            yield from (f"# {line}" for line in comment.split("\n"))
            value = values.get((section, key))
            yield f"# {key} = {example}" if value is None else f"{key} = {write_value(value)}"

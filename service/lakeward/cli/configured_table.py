"""The TABLE of a command line beside a configuration: which table is meant, and how it is to be serviced.

    orders              the table of that name, where a configuration is given that has it; else the one table of its
                        daemon, as the store knows them, whose last folder is called so
    /data/orders, ./x   a base path, absolute or from the working folder
    file:///data/x      a URL

Touches: the configuration; the store, reading only, for a name that the configuration does not have; asks whether a
         folder exists, and whether it holds a table.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.cli.options.store import read_settings, watched_tables
from lakeward.cli.verb_help import SharedPanel
from lakeward.config.short_name import find_by_short_name, names_of
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.listing_source import listing_source
from lakeward.table.not_a_table import check_is_table
from lakeward.table.snapshot import TableSnapshot, take_snapshot, zone_of
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.timezone import TimelineZone

if TYPE_CHECKING:
    from lakeward.config.settings import LockSettings, Settings, TableSettings
    from lakeward.storage.storage import Storage

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Base path or URL of the table, or its name in the configuration.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        rich_help_panel=SharedPanel.TABLE,
        envvar="LAKEWARD_CONFIG",
        metavar="FILE",
        help="The daemon's configuration: its named tables can be named, and are serviced as it says.",
    ),
]

TimezoneOption = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=SharedPanel.TABLE,
        metavar="ZONE",
        help="Zone of the table's instants, for example Europe/Berlin, where hoodie.table.timeline.timezone is LOCAL: "
        "the zone of the machines that write it. Inferred from the newest commits when not given, where that leaves no "
        "doubt.",
    ),
]


@dataclass(frozen=True)
class ConfiguredTable:
    config: Path | None
    """The file of its configuration."""
    storage: Storage
    base_path: str
    given: Settings | None
    """Settings of the configuration."""
    given_timezone: str | None
    """What --timezone says."""

    @cached_property
    def settings(self) -> Settings:
        """Settings of the configuration, else all defaults."""
        return read_settings(None, with_environment=False) if self.given is None else self.given

    @cached_property
    def table(self) -> TableSettings:
        """How it is serviced; --timezone is in it already."""
        return self.settings.table_alone(self.base_path, timezone=self.given_timezone, is_given=self.given is not None)

    @property
    def timezone(self) -> str | None:
        """Zone of its instants, where one is given."""
        return self.given_timezone if self.given is None else self.table.timezone

    @property
    def locks(self) -> LockSettings:
        """What the configuration says about the table's other writers."""
        assert self.table.locks is not None, "Settings.table completes the locks"
        return self.table.locks

    def zone(self) -> TimelineZone:
        """Zone of its instants, given or inferred: from the properties and the timeline, without a scan."""
        clock = SystemClock()
        loaded = load_table_config(self.storage, self.base_path, clock=clock)
        timeline = load_timeline(self.storage, self.base_path, loaded.config)
        return zone_of(loaded, timeline, given=self.timezone, now=clock.now())

    def snapshot(self, *, files_enough: int | None = None) -> TableSnapshot:
        """A scan of the table, listed as suits its storage; of the whole table where not so many files are enough."""
        return take_snapshot(
            self.storage,
            self.base_path,
            timezone=self.timezone,
            clock=SystemClock(),
            listing=listing_source(self.base_path),
            files_enough=files_enough,
        )


@dataclass(frozen=True, slots=True)
class GivenTable:
    """Which table a command line is about: a group of options."""

    table: TableArgument
    config: ConfigOption = None

    def resolved(self) -> ConfiguredTable:
        return open_table(self.table, self.config)


@dataclass(frozen=True, slots=True)
class GivenZonedTable:
    """The same where instants become moments."""

    table: TableArgument
    config: ConfigOption = None
    timezone: TimezoneOption = None

    def resolved(self) -> ConfiguredTable:
        return open_table(self.table, self.config, timezone=self.timezone)


OpenedTable = Annotated[ConfiguredTable, GivenTable]
ZonedTable = Annotated[ConfiguredTable, GivenZonedTable]


def open_table(text: str, config: Path | None, *, timezone: str | None = None) -> ConfiguredTable:
    """Raises `UsageError`, `NotATable` too, and `ConfigurationError` for a configuration with a problem."""
    settings = None if config is None else read_settings(config)
    storage, base_path = open_storage(resolve_table(text, settings))
    check_is_table(storage, base_path)
    return ConfiguredTable(config, storage, base_path, settings, timezone)


def resolve_table(text: str, settings: Settings | None) -> str:
    """The base path, or URL, of the table that is meant. A configured name wins over a folder of the same name."""
    tables = {} if settings is None else dict(settings.named_tables)
    if text in tables:
        return tables[text]
    if settings is None or "/" in text or os.path.isdir(text):
        return text
    watched = {**tables, **watched_tables(settings)}
    if len(found := find_by_short_name(text, watched)) == 1:
        return watched[found[0]]
    if found:
        raise several_tables(text, found)
    unknown = "The configuration has no such name, and there is no such folder."
    raise UsageError(
        f"No table is called {text}.",
        why=did_you_mean(text, names_of(watched), otherwise=unknown),
        remedy=f"The names are {', '.join(sorted(tables))}; or give a base path." if tables else "Give a base path.",
    )


def several_tables(text: str, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"Several tables are called {text}.",
        why=f"It is the last folder of {', '.join(names)}.",
        remedy="Give the base path of the one that you mean.",
    )

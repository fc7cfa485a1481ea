"""Which store a verb means: --url, else the configuration's, else that of this user.

Touches: the configuration and the environment, reading only; the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import StoreBroken, StoreUnavailable, StoreVersion
from lakeward.cli.verb_help import SharedPanel

if TYPE_CHECKING:
    from lakeward.config.settings import Settings
    from lakeward.state.store import Store

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        rich_help_panel=SharedPanel.STORE,
        metavar="URL",
        help="The store: sqlite:////path/lakeward.db or postgresql://user@host/database. Not given: the "
        "configuration's. A password belongs into the configuration's url_file or the environment.",
    ),
]

AWAY = (StoreUnavailable, StoreBroken, StoreVersion)
"""What a store raises that does not answer, or not to this release."""

TIMEOUT_SECONDS = 5.0
"""How long a command waits for a store that it can do without."""


def read_settings(config: Path | None, *, with_environment: bool = True) -> Settings:
    """Raises `ConfigurationError`."""
    # Reading a table asks no setting, and these take a third of a second to load.
    from lakeward.config.file import load_settings

    return load_settings(config, os.environ if with_environment else {})


def store_url(url: str | None, settings: Settings) -> str:
    return settings.store_url if url is None else url


def has_store(settings: Settings) -> bool:
    """Whether there may be a store; without one, what opens it is not even loaded."""
    if settings.state.url is None:
        return settings.own_store_file.exists()
    from lakeward.state.engine import file_of, parse_store_url

    path = file_of(parse_store_url(settings.store_url))
    return path is None or path.exists()


def check_answers(settings: Settings) -> None:
    """Raises one of `AWAY` where the store does not."""
    from lakeward.state.engine import open_database

    open_database(settings.store_url, timeout=TIMEOUT_SECONDS, create=False).close()


def watched_tables(settings: Settings) -> Mapping[str, str]:
    """The tables that the daemons of a configuration watch, from name to base path; none without a store."""
    if not has_store(settings):
        return {}
    try:
        with opened_store(None, settings, SystemClock(), timeout=TIMEOUT_SECONDS) as store:
            return store.observations.tables()
    except AWAY:
        return {}


@contextmanager
def opened_store(
    url: str | None, settings: Settings, clock: Clock, *, timeout: float | None = None, migrates: bool = False
) -> Iterator[Store]:
    """The store, which must be there with its schema. Raises what `open_store` raises.

    Args:
        timeout: seconds to wait for it, where the command can do without.
        migrates: makes it, and gives it its schema, where that is missing.
    """
    # Most commands on a table have no store to ask: they do without SQLAlchemy, and the others without Alembic.
    from lakeward.state.store import open_store

    if migrates:
        from lakeward.state.migration import migrate

        migrate(store_url(url, settings))
    place = store_url(url, settings)
    store = open_store(place, clock=clock) if timeout is None else open_store(place, clock=clock, timeout=timeout)
    try:
        yield store
    finally:
        store.close()

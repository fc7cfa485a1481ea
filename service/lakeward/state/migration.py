"""Bring a database to the schema that this release writes; and say whether this release may use it at all.

    empty --migrate--> current <--migrate-- behind
    newer, and its `schema_version` names a revision we know as the oldest that may still run: usable, left as it is
    newer, and it does not: refused; so is one from before the first release

Migrations only go forward. A release runs on the schema of the next one, because that one adds, and takes away only
what is in no statement of the release before; the head migration says so by `oldest_compatible`, the oldest revision
whose release may still run beside it.

Touches: the database; the scripts of `migrations/`, which stand beside this module when installed and at the top of
         the source tree otherwise.
Keeps:   1. one transaction under one lock (SQLite: BEGIN EXCLUSIVE; PostgreSQL: an advisory lock): processes that
            start together migrate once, and one that dies half-way leaves the old schema;
         2. a database of a later release is never changed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table

from lakeward.base.errors import StoreUnavailable, StoreVersion
from lakeward.state.engine import Database, file_of, open_database, parse_store_url, shown_url
from lakeward.state.store_tables import schema_version

if TYPE_CHECKING:
    from alembic.config import Config

LOCK_KEY = 0x4C414B4557415244
"""Key of PostgreSQL's advisory lock: the letters of our name. Never another number, or two releases would not meet."""

LOCK_SECONDS = 120

_VERSION = table("alembic_version", column("version_num"))
"""The table in which Alembic keeps the revision. Alembic itself, which takes half a second to load, only migrates."""


class SchemaState(StrEnum):
    EMPTY = "empty"
    BEHIND = "behind"
    CURRENT = "current"
    NEWER = "newer"
    """The schema is that of a later release that lets this one run."""
    REFUSED = "refused"
    """The schema is that of a later release that does not, or older than the first one."""


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    store: str
    """The URL without its secrets."""
    state: SchemaState
    revision: str | None
    """The revision of the database; None while it is empty."""
    head: str
    """The revision of this release."""
    pending: tuple[str, ...]
    """Revisions that `migrate` would apply, in that order."""
    oldest_compatible: str | None
    """The oldest revision whose release the database lets run."""


@dataclass(frozen=True, slots=True)
class Migrated:
    before: SchemaStatus
    applied: tuple[str, ...]


def migrate(url: str, *, scripts: Path | None = None) -> Migrated:
    """Bring the database at `url` to this release's schema. Raises `StoreVersion` when it belongs to a later one."""
    database = open_database(url, timeout=LOCK_SECONDS)
    try:
        return migrate_database(database, at=time.time(), scripts=scripts)
    finally:
        database.close()


def migrate_database(database: Database, *, at: float, scripts: Path | None = None) -> Migrated:
    before = read_status(database, scripts=scripts)
    if before.state in (SchemaState.CURRENT, SchemaState.NEWER):
        return Migrated(before, ())
    return database.alone(
        lambda connection: _upgrade(connection, database, scripts, at), lock_key=LOCK_KEY, seconds=LOCK_SECONDS
    )


def schema_status(url: str, *, scripts: Path | None = None) -> SchemaStatus:
    """How the database at `url` and this release fit. Makes no file where there is none."""
    parsed = parse_store_url(url)
    path = file_of(parsed)
    if path is not None and not path.exists():
        known = _revisions(scripts)
        return SchemaStatus(shown_url(parsed), SchemaState.EMPTY, None, known[0], tuple(reversed(known)), None)
    database = open_database(url)
    try:
        return read_status(database, scripts=scripts)
    finally:
        database.close()


def read_status(database: Database, *, scripts: Path | None = None) -> SchemaStatus:
    return database.read(lambda connection: _status(connection, database, scripts))


def ensure_usable(database: Database) -> None:
    """Raises `StoreVersion` unless this release may work on the database as it is."""
    status = read_status(database)
    if status.state is SchemaState.REFUSED:
        raise _refused(status)
    if status.state in (SchemaState.EMPTY, SchemaState.BEHIND):
        raise StoreVersion(
            f"The store {status.store} does not have the schema of this release.",
            why=f"It is at {status.revision or 'nothing'}, this release needs {status.head}.",
            remedy="Run `lakeward state migrate`; the daemon does so when it starts.",
        )


def _upgrade(connection: Connection, database: Database, scripts: Path | None, at: float) -> Migrated:
    """Upgrade the database under the lock, in the caller's transaction."""
    before = _status(connection, database, scripts)
    if before.state is SchemaState.REFUSED:
        raise _refused(before)
    if before.pending:
        from alembic import command

        config = _config(scripts)
        config.attributes["connection"] = connection
        config.attributes["at"] = at
        command.upgrade(config, "head")
    return Migrated(before, before.pending)


def _status(connection: Connection, database: Database, scripts: Path | None) -> SchemaStatus:
    known = _revisions(scripts)
    head = known[0]
    revision = None
    if inspect(connection).has_table(_VERSION.name):
        revision = connection.execute(select(_VERSION)).scalar()
    oldest = None
    if revision is not None and inspect(connection).has_table(schema_version.name):
        oldest = connection.execute(select(schema_version.c.oldest_compatible)).scalar()
    pending: tuple[str, ...] = ()
    if revision is None:
        state, pending = SchemaState.EMPTY, tuple(reversed(known))
    elif revision == head:
        state = SchemaState.CURRENT
    elif revision in known:
        state, pending = SchemaState.BEHIND, tuple(reversed(known[: known.index(revision)]))
    else:
        state = SchemaState.NEWER if oldest in known else SchemaState.REFUSED
    return SchemaStatus(database.name, state, revision, head, pending, oldest)


def _revisions(scripts: Path | None) -> list[str]:
    """Revisions of this release, the newest first: what the names of the scripts begin with, in their order."""
    names = (script.name for script in ((scripts or find_scripts()) / "versions").glob("*.py"))
    return sorted((name.partition("_")[0] for name in names), reverse=True)


def _refused(status: SchemaStatus) -> StoreVersion:
    if status.revision is not None and status.revision < status.head:
        return StoreVersion(
            f"The store {status.store} is older than the first release.",
            why=f"It is at revision {status.revision}, and the first schema that releases know is later.",
            remedy="Give the daemon another store: it is filled again from the timelines.",
        )
    return StoreVersion(
        f"The store {status.store} belongs to a later release.",
        why=f"It is at revision {status.revision}, which needs a release that knows {status.oldest_compatible}; "
        f"this one knows revisions up to {status.head}.",
        remedy="Run the later release, or give this one another store: it is filled again from the timelines.",
    )


def _config(scripts: Path | None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts or find_scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def find_scripts() -> Path:
    """The folder `migrations`: packed beside this module by the build, or at the top of the source tree."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "migrations", here.parents[3] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise StoreUnavailable(
        "The migrations of the store are missing.",
        why=f"Neither {here.parent} nor the source tree holds them.",
        remedy="Install the package again.",
    )

"""Move a damaged SQLite store away, and take from it what no timeline can tell again.

Touches: the store's file, which is renamed with the files beside it, and then only read.
Keeps:   1. a file that is moved away is kept; deleting it is for a person;
         2. a journal goes with its file: left behind, SQLite would play it into the new one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Select, create_engine, exc, or_, select
from sqlalchemy.engine import URL, Connection

from lakeward.state.controls import control_of, parked_of
from lakeward.state.engine import file_of, parse_store_url
from lakeward.state.observations import watched_table_of
from lakeward.state.records import ControlRecord, ParkedRecord, WatchedTable
from lakeward.state.store_tables import controls, parked_groups, store_identity, watched_tables

T = TypeVar("T")

_COMPANIONS = ("", "-journal", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Salvaged:
    kept_as: Path
    """The file under its new name."""
    store_id: str | None
    """None where it cannot be read; then the new store is another one."""
    controls: tuple[ControlRecord, ...]
    parked: tuple[ParkedRecord, ...]
    tables: tuple[WatchedTable, ...]
    unreadable: tuple[str, ...]
    """Tables of the database, among those that hold these, that could not be read."""


def salvage(url: str, *, now: float) -> Salvaged:
    """Rename the file of the store, and read from it what can be read. No daemon may have it open."""
    path = file_of(parse_store_url(url))
    assert path is not None, "only a file can be damaged"
    target = path.with_name(f"{path.name}.damaged-{now:.0f}")
    for companion in _COMPANIONS:
        part = path.with_name(path.name + companion)
        if part.exists():
            os.rename(part, target.with_name(target.name + companion))
    return _salvage(target, now)


def _salvage(path: Path, now: float) -> Salvaged:
    engine = create_engine(URL.create("sqlite", database=str(path)), hide_parameters=True)
    unreadable: list[str] = []

    def read(name: str, query: Select[Any], value: Callable[[Any], T]) -> tuple[T, ...]:
        try:
            with engine.connect() as connection:
                return tuple(value(row) for row in _rows(connection, query))
        except (exc.DBAPIError, sqlite3.Error, ValueError, LookupError):  # what is torn may hold anything
            unreadable.append(name)
            return ()

    in_force = controls.c.ended_at.is_(None) & or_(controls.c.until.is_(None), controls.c.until > now)
    still = or_(parked_groups.c.until.is_(None), parked_groups.c.until > now)
    identities = read("store_identity", select(store_identity), lambda row: str(row.store_id))
    salvaged = Salvaged(
        kept_as=path,
        store_id=identities[0] if identities else None,
        controls=read("controls", select(controls).where(in_force).order_by(controls.c.id), control_of),
        parked=read("parked_groups", select(parked_groups).where(still), parked_of),
        tables=read("watched_tables", select(watched_tables), watched_table_of),
        unreadable=tuple(unreadable),
    )
    engine.dispose()
    return salvaged


def _rows(connection: Connection, query: Select[Any]) -> Sequence[Any]:
    return connection.execute(query).all()

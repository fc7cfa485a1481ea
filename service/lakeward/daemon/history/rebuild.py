"""Fill a store again from the timelines: the store was lost, is damaged, or is as old as its last backup.

    damaged file --renamed--> new store, with the identity, controls and parked groups that could be read
    sound store  --emptied of what was observed, in place
    each table   --one scan--> pending plans, and jobs that the timeline says were done

Decisions come back by themselves with the next planning, which follows at once where a daemon runs.

Touches: the store; tables, reading only; the store's file, which is renamed with the files beside it, and then only
         read.
Keeps:   1. a table that cannot be read is reported and does not end the rebuild;
         2. what operators asked for, what is parked and the leases stay;
         3. a file that is moved away is kept; deleting it is for a person;
         4. a journal goes with its file: left behind, SQLite would play it into the new one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Select, create_engine, exc, or_, select
from sqlalchemy.engine import URL, Connection

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, StoreBroken, StoreVersion
from lakeward.daemon.work.observation import observe_jobs, observe_plans
from lakeward.state.controls import control_of, parked_of
from lakeward.state.engine import file_of, parse_store_url, shown_url
from lakeward.state.migration import migrate
from lakeward.state.records import ControlRecord, ParkedRecord
from lakeward.state.store import Store, open_store
from lakeward.state.store_tables import controls, parked_groups, store_identity, watched_tables
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import take_snapshot
from lakeward.table.timeline.service_instants import read_service_instants

OpenStorage = Callable[[str], tuple[Storage, str]]


T = TypeVar("T")

_COMPANIONS = ("", "-journal", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Move a damaged SQLite store away, and take from it what no timeline can replace."""

    kept_as: Path
    """The file under its new name."""
    store_id: str | None
    """None where it cannot be read; then the new store is another one."""
    controls: tuple[ControlRecord, ...]
    parked: tuple[ParkedRecord, ...]
    tables: tuple[Mapping[str, Any], ...]
    """Rows of `watched_tables`, by column."""
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
        tables=read("watched_tables", select(watched_tables), lambda row: row._asdict()),
        unreadable=tuple(unreadable),
    )
    engine.dispose()
    return salvaged


def _rows(connection: Connection, query: Select[Any]) -> Sequence[Any]:
    return connection.execute(query).all()


@dataclass(frozen=True, slots=True)
class RebuildResult:
    name: str
    base_path: str
    plans: int
    jobs: int
    problem: str | None = None
    """Why the table could not be read."""


@dataclass(frozen=True, slots=True)
class RebuildReport:
    store: str
    dry_run: bool
    damage: str | None
    """What is wrong with the store as it is found; a damaged file is renamed."""
    salvaged: Salvaged | None
    tables: tuple[RebuildResult, ...]

    @property
    def problems(self) -> tuple[RebuildResult, ...]:
        return tuple(table for table in self.tables if table.problem is not None)


def rebuild_store(
    url: str, named: Mapping[str, str], *, open_storage: OpenStorage, clock: Clock, dry_run: bool = False
) -> RebuildReport:
    """Rebuild the store at `url` for the tables that it knows and those of `named`, base paths by name.

    While a damaged store is renamed no daemon may run on it; one that is sound may be in use.
    """
    if dry_run:
        return _preview(url, named, open_storage, clock)
    damage: str | None = None
    salvaged: Salvaged | None = None
    try:
        migrate(url)
    except StoreBroken as error:
        damage = f"{error.what} {error.why}"
        salvaged = salvage(url, now=clock.now())
        migrate(url)
    store = open_store(url, clock=clock)
    try:
        if salvaged is not None:
            store.adopt(salvaged.store_id, salvaged.tables, salvaged.controls, salvaged.parked)
        store.observations.clear(clock.now())
        tables = _scan_at(store, _known(store, named), open_storage, clock)
    finally:
        store.close()
    return RebuildReport(store.name, False, damage, salvaged, tables)


def _preview(url: str, named: Mapping[str, str], open_storage: OpenStorage, clock: Clock) -> RebuildReport:
    """The same scan of the same tables, and nothing written: no schema, no file."""
    name = shown_url(parse_store_url(url))
    try:
        store = open_store(url, clock=clock)
    except StoreBroken as error:
        tables = _scan_at(None, named, open_storage, clock)
        return RebuildReport(name, True, f"{error.what} {error.why}", None, tables)
    except StoreVersion as error:
        return RebuildReport(name, True, str(error), None, _scan_at(None, named, open_storage, clock))
    try:
        return RebuildReport(name, True, None, None, _scan_at(None, _known(store, named), open_storage, clock))
    finally:
        store.close()


def _known(store: Store, named: Mapping[str, str]) -> dict[str, str]:
    return {**store.observations.tables(), **named}


def _scan_at(
    store: Store | None, tables: Mapping[str, str], open_storage: OpenStorage, clock: Clock
) -> tuple[RebuildResult, ...]:
    return tuple(_scan(store, name, base_path, open_storage, clock) for name, base_path in sorted(tables.items()))


def _scan(store: Store | None, name: str, given_path: str, open_storage: OpenStorage, clock: Clock) -> RebuildResult:
    try:
        storage, base_path = open_storage(given_path)
        snapshot = take_snapshot(storage, base_path, clock=clock)
        plans = observe_plans(snapshot)
        services = read_service_instants(storage, base_path, snapshot.config, snapshot.timeline)
        jobs = observe_jobs(name, snapshot.timeline, services)
    except (LakewardError, OSError) as error:
        return RebuildResult(name, given_path, 0, 0, str(error))
    if store is not None:
        store.observations.watch(name, given_path, clock.now())
        store.observations.record_plans(name, plans)
        for job in jobs:
            store.jobs.begin(job)
    return RebuildResult(name, given_path, len(plans), len(jobs))

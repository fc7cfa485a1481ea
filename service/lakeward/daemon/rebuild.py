"""Fill a store again from the timelines: the store was lost, is damaged, or is as old as its last backup.

    damaged file --renamed--> new store, with the identity, controls and parked groups that could be read
    sound store  --emptied of what was observed, in place
    each table   --one scan--> pending plans, and jobs that the timeline says were done

Decisions come back by themselves with the next planning, which follows at once where a daemon runs.

Touches: the store; tables, reading only.
Keeps:   1. a table that cannot be read is reported and does not end the rebuild;
         2. what operators asked for, what is parked and the leases stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, StoreBroken, StoreVersion
from lakeward.daemon.observation import observe_jobs, observe_plans
from lakeward.state.engine import parse_store_url, shown_url
from lakeward.state.migration import migrate
from lakeward.state.salvage import Salvaged, salvage
from lakeward.state.store import Store, open_store
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import take_snapshot
from lakeward.table.timeline.service_instants import read_service_instants

OpenStorage = Callable[[str], tuple[Storage, str]]


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
        store.observations.clear()
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
    return {table.name: table.base_path for table in store.observations.tables()} | dict(named)


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

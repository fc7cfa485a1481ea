"""Services on the timeline, and who planned each: how a daemon notices that it is not alone on a table.

A plan of Lakeward says so in its extra metadata: `planned_by` always, `planned_by_service` (the configured name),
`planned_by_store` (the identity of the store) and `planned_by_daemon` (process, host and store, for people) when a
daemon made it. Foreign to a daemon is

    a plan that says nothing                     inline compaction, another tool
    a plan of another service                    a daemon configured for other people
    a plan of our service by another store       a second daemon that does not share our store

when it was requested after our store first saw the table with a word about its writers. History is no rival: what was
planned before says who serviced the table, not who does. Never foreign is a plan of our command line, which an operator
ran on purpose.

Only compaction, log compaction and clustering count. Writers clean and roll back inline by default, and a clean beside
Lakeward's does no harm, so those would call every table serviced already. A plan that cannot be read says nothing about
who made it, and is not held against anybody: it is broken, which is reported elsewhere.

Touches: storage, one read for each plan that is not in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.timeline.compaction_plan import CompactionPlan
from lakeward.format.timeline.instant import Instant, State
from lakeward.format.timeline.replace_metadata import read_clustered_groups
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.table_config import TableConfig, load_table_config, timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline, load_timeline
from lakeward.table.timeline.timeline_reader import TimelineCache

PLANNED_BY = "planned_by"
"""A key of a plan's extra metadata: only we write it, so a plan that has it may be rolled back by us."""
PLANNED_BY_SERVICE = "planned_by_service"
PLANNED_BY_STORE = "planned_by_store"
PLANNED_BY_DAEMON = "planned_by_daemon"
"""The key for people alone: process, host and store."""

SERVICES_OF_ONE = frozenset({"compaction", "logcompaction", "clustering"})
"""Actions of which a table has one owner."""

_OTHER_SERVICES = frozenset({"clean", "rollback", "restore", "indexing"})


@dataclass(frozen=True, slots=True)
class ServiceName:
    """Who a daemon's plans say they come from."""

    service: str
    """The configured name; daemons that share a store share it."""
    store: str
    """The identity of that store."""
    daemon: str = ""
    """Which daemon of the service it is, for the people who meet it: `daemon_of`."""

    def as_metadata(self) -> dict[str, str]:
        """For a plan's extra metadata, beside `planned_by`."""
        daemon = {PLANNED_BY_DAEMON: self.daemon} if self.daemon else {}
        return {PLANNED_BY_SERVICE: self.service, PLANNED_BY_STORE: self.store, **daemon}


def daemon_of(*, pid: int, host: str, store: str) -> str:
    """A daemon's text for people who meet its work; `store` is the URL without its secrets."""
    return f"process {pid} on {host}, store {store}"


@dataclass(frozen=True, slots=True)
class ServiceInstant:
    time: str
    action: str
    """The action that was requested: compaction, not commit."""
    state: State
    requested_at: float
    """Seconds since the epoch, by the time of the file."""
    is_readable: bool = True
    planned_by: str | None = None
    planned_by_service: str | None = None
    planned_by_store: str | None = None
    planned_by_daemon: str | None = None

    def is_foreign(self, us: ServiceName, *, since: float) -> bool:
        """True when it shows that another service works on the table, after `since`."""
        if self.action not in SERVICES_OF_ONE or not self.is_readable or self.requested_at <= since:
            return False
        if self.planned_by is None:
            return True
        if self.planned_by_service is None:
            return False
        return self.planned_by_service != us.service or self.planned_by_store not in (None, us.store)

    @property
    def planner(self) -> str:
        """Who made the plan, as far as it says so."""
        if self.planned_by_service is None:
            return self.planned_by or "another engine"
        daemon = f": {self.planned_by_daemon}" if self.planned_by_daemon else ""
        return f"another Lakeward (service {self.planned_by_service}{daemon})"


def foreign_instants(
    instants: Iterable[ServiceInstant], us: ServiceName, *, since: float | None
) -> tuple[ServiceInstant, ...]:
    """None for `since` means that we do not service the table yet, so that whatever is there is history."""
    return () if since is None else tuple(instant for instant in instants if instant.is_foreign(us, since=since))


def read_service_instants(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, cache: TimelineCache | None = None
) -> tuple[ServiceInstant, ...]:
    """Service instants in the order of time. One whose request is gone already, taken by the archiver, is not among
    them."""
    cache = {} if cache is None else cache
    folder = timeline_folder(base_path, config)
    contents = InstantContents(storage, base_path, config, timeline)
    states = {(i.time, i.comparable_action): i.state for i in (*timeline.completed, *timeline.pending)}
    found = []
    for requested in timeline.instants:
        if requested.state is not State.REQUESTED:
            continue
        state = states[requested.time, requested.comparable_action]
        if requested.action in _OTHER_SERVICES:
            found.append(
                ServiceInstant(requested.time, requested.action, state, timeline.modified[requested.file_name])
            )
            continue
        # In layout 1 clustering is requested as a replacecommit, as insert_overwrite is.
        if requested.action not in SERVICES_OF_ONE and not (config.layout == 1 and requested.action == "replacecommit"):
            continue
        planner = _planner(contents, join(folder, requested.file_name), requested, cache)
        if planner is not None:
            found.append(
                ServiceInstant(
                    time=requested.time,
                    action="clustering" if requested.action == "replacecommit" else requested.action,
                    state=state,
                    requested_at=timeline.modified[requested.file_name],
                    is_readable=planner.is_readable,
                    planned_by=planner.by,
                    planned_by_service=planner.service,
                    planned_by_store=planner.store,
                    planned_by_daemon=planner.daemon,
                )
            )
    return tuple(found)


def newest_plan_of_daemon(storage: Storage, base_path: str, *, clock: Clock) -> ServiceInstant | None:
    """The timeline shows that a daemon services the table, wherever its store is."""
    config = load_table_config(storage, base_path, clock=clock).config
    instants = read_service_instants(storage, base_path, config, load_timeline(storage, base_path, config))
    planned = (each for each in instants if each.planned_by_service is not None)
    return max(planned, key=lambda each: each.time, default=None)


@dataclass(frozen=True, slots=True)
class _Planner:
    is_service: bool = True
    is_readable: bool = True
    by: str | None = None
    service: str | None = None
    store: str | None = None
    daemon: str | None = None


def _planner(contents: InstantContents, path: str, requested: Instant, cache: TimelineCache) -> _Planner | None:
    """None for what is no service, and for a plan that is gone."""
    planner: _Planner | None = cache.get(requested.file_name)
    if planner is None:
        try:
            planner = _read_planner(contents.read(requested.file_name), path, requested)
        except NotFound:
            return None
        except BrokenFile:
            return _Planner(is_readable=False)
        cache[requested.file_name] = planner
    return planner if planner.is_service else None


def _read_planner(data: bytes, path: str, requested: Instant) -> _Planner:
    if requested.action == "replacecommit" and (not data or not read_clustered_groups(data, file=path)):
        return _Planner(is_service=False)
    # Plans of compaction and requests of clustering agree on where their extra metadata is.
    extra = RecordFields(read_record(data, file=path), file=path).text_by_key("extraMetadata")
    return _Planner(
        by=extra.get(PLANNED_BY),
        service=extra.get(PLANNED_BY_SERVICE),
        store=extra.get(PLANNED_BY_STORE),
        daemon=extra.get(PLANNED_BY_DAEMON),
    )


def groups_of(plan: CompactionPlan) -> tuple[GroupId, ...]:
    """The file groups that a plan rewrites, in the plan's order."""
    return tuple((operation.partition_path, operation.file_id) for operation in plan.operations)

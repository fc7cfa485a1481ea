"""What Lakeward remembers across restarts: one database, opened once, and its subjects.

    Store -> observations, reads, jobs, index builds, controls, events, leases, daemons
          -> StoreAccess -> Database -> SQLite or PostgreSQL

Nothing in here is the truth about a table. Decisions and plans are what a daemon saw; a job is a promise whose
keeping the timeline shows; a lease saves two daemons the same work. What only the store knows is what operators asked
for and what was parked.

A build of an index goes on where it was interrupted:

    begun --checkpoint of each file group--> ended: what it was made of is forgotten, that it was made stays

Touches: the database, through `StoreAccess`.
Keeps:   1. rows are bounded by `trim`, and nothing uses age that runs, is in force or is still on a timeline;
         2. a successor of a store that is given up has its identity, its controls and what it had parked;
         3. a build goes on only with the settings that it was begun with, and one that has ended never does;
         4. the first end of a build counts, and its checkpoints go with it;
         5. the newest checkpoint of a file group counts.
See:     docs/operate/store.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, and_, delete, func, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from lakeward.base.clock import Clock
from lakeward.base.errors import StoreVersion
from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.access import OnOperation, StoreAccess, cut, execute, fields_of, group_of, plain
from lakeward.state.compared_days import ComparedDays
from lakeward.state.controls import Controls
from lakeward.state.engine import TIMEOUT_SECONDS, Database, open_database
from lakeward.state.jobs import Jobs
from lakeward.state.lease_rows import LeaseRows
from lakeward.state.migration import ensure_usable, migrate_database
from lakeward.state.observations import SLOT_SECONDS, Observations
from lakeward.state.past_decisions import thinned
from lakeward.state.reads import Reads
from lakeward.state.records import (
    ControlRecord,
    DaemonRecord,
    EventRecord,
    IndexBuildRecord,
    IndexCheckpoint,
    JobRecord,
    ParkedRecord,
    Retention,
    Trimmed,
    Watermark,
)
from lakeward.state.store_tables import (
    applied_writes,
    attempts,
    cleaner_progress,
    compared_days,
    controls,
    daemons,
    events,
    index_builds,
    index_checkpoints,
    job_costs,
    jobs,
    parked_groups,
    past_decisions,
    read_days,
    recent_reads,
    storage_samples,
    store_identity,
)

HOUR_SLOTS = int(3600 // SLOT_SECONDS)


BEAT_SECONDS = 60.0
"""A daemon whose last beat is older counts as gone."""


class IndexBuilds:
    """Builds of indexes, and their checkpoints."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def begin(self, build: IndexBuildRecord) -> None:
        """Remember that a build was begun. The same id again changes nothing."""
        row = {**fields_of(build), "error": cut(build.error), "figures": plain(build.figures)}
        row["table_name"] = row.pop("table")
        self._access.insert_new("begin_index_build", index_builds, row)

    def going_on(self, table: str, index_name: str, settings: str) -> IndexBuildRecord | None:
        """The newest build of the index that has not ended, if it has these settings."""
        query = select(index_builds).where(
            index_builds.c.table_name == table,
            index_builds.c.index_name == index_name,
            index_builds.c.ended_at.is_(None),
        )
        query = query.order_by(index_builds.c.began_at.desc(), index_builds.c.id).limit(1)
        found = next((_build(row) for row in self._access.rows("index_build", query)), None)
        return found if found is not None and found.settings == settings else None

    def latest(self, table: str | None = None, limit: int = 100) -> tuple[IndexBuildRecord, ...]:
        """Newest first."""
        query = select(index_builds)
        if table is not None:
            query = query.where(index_builds.c.table_name == table)
        query = query.order_by(index_builds.c.began_at.desc(), index_builds.c.id).limit(limit)
        return tuple(_build(row) for row in self._access.rows("index_builds", query))

    def record(self, build_id: str, checkpoints: Sequence[IndexCheckpoint]) -> None:
        """What the build has of these file groups."""
        rows = [{**fields_of(each), "build_id": build_id, "made": list(each.made)} for each in checkpoints]
        self._access.write(
            "index_checkpoints", lambda connection: self._access.upsert(connection, index_checkpoints, rows)
        )

    def checkpoints(self, build_id: str) -> tuple[IndexCheckpoint, ...]:
        """The checkpoints of a build, by partition path and file id."""
        table = index_checkpoints
        query = select(*(column for column in table.c if column is not table.c.build_id))
        query = query.where(table.c.build_id == build_id).order_by(table.c.partition_path, table.c.file_id)
        return tuple(IndexCheckpoint(**row._mapping) for row in self._access.rows("index_checkpoints", query))

    def end(
        self, build_id: str, result: str, error: str | None, *, at: float, figures: Mapping[str, Any] | None = None
    ) -> None:
        """Say how a build ended; the first end counts. Its checkpoints are of no use any more."""
        values = {"ended_at": at, "result": result, "error": cut(error), "figures": plain(figures)}
        ended = update(index_builds).where(index_builds.c.id == build_id, index_builds.c.ended_at.is_(None))

        def work(connection: Connection) -> None:
            connection.execute(ended.values(**values))
            connection.execute(delete(index_checkpoints).where(index_checkpoints.c.build_id == build_id))

        self._access.write("end_index_build", work)


def _build(row: Row[Any]) -> IndexBuildRecord:
    fields = dict(row._mapping)
    return IndexBuildRecord(table=fields.pop("table_name"), **fields)


class Events:
    """The log of events; ids grow."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def record(self, happened: EventRecord) -> int:
        """Returns its id; ids grow."""
        partition_path, file_id = happened.file_group or (None, None)
        statement = events.insert().values(
            at=happened.at,
            kind=happened.kind,
            table_name=happened.table,
            partition_path=partition_path,
            file_id=file_id,
            instant=happened.instant,
            job_id=happened.job_id,
            holder=happened.holder,
            text=cut(happened.text),
            fields=plain(happened.fields),
        )
        return self._access.write(
            "record_event", lambda connection: int(connection.execute(statement.returning(events.c.id)).scalar_one())
        )

    def latest(
        self, table: str | None = None, limit: int = 100, *, before_id: int | None = None
    ) -> tuple[EventRecord, ...]:
        """Newest first."""
        query = select(events) if table is None else select(events).where(events.c.table_name == table)
        if before_id is not None:
            query = query.where(events.c.id < before_id)
        return tuple(
            _event(row) for row in self._access.rows("events", query.order_by(events.c.id.desc()).limit(limit))
        )

    def after(self, event_id: int, limit: int) -> tuple[EventRecord, ...]:
        """Events whose id is greater, oldest first."""
        query = select(events).where(events.c.id > event_id).order_by(events.c.id).limit(limit)
        return tuple(_event(row) for row in self._access.rows("events", query))

    def newest_id(self) -> int:
        """The greatest id; 0 where there is no event."""
        query = select(func.max(events.c.id).label("newest"))
        return next((int(row.newest or 0) for row in self._access.rows("newest_event", query)), 0)

    def of_job(self, job: JobRecord, limit: int = 100) -> tuple[EventRecord, ...]:
        """Events that name the job, oldest first."""
        of = events.c
        query = select(events).where(of.table_name == job.table, of.job_id == job.id, of.at >= job.began_at)
        return tuple(_event(row) for row in self._access.rows("events", query.order_by(of.id).limit(limit)))


def _event(row: Row[Any]) -> EventRecord:
    return EventRecord(
        at=row.at,
        kind=row.kind,
        text=row.text,
        table=row.table_name,
        file_group=group_of(row),
        instant=row.instant,
        job_id=row.job_id,
        holder=row.holder,
        fields=row.fields,
        id=row.id,
    )


class Daemons:
    """The daemons that share a store, each with its last heartbeat by the database's clock."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def beat(self, daemon: DaemonRecord, now: float) -> None:
        """Say that a daemon lives. When it did so is for the database's clock to say, as with leases."""
        values = {
            "service": daemon.service,
            "version": daemon.version,
            "address": daemon.address,
            "started_at": daemon.started_at,
            "beat_at": self._access.database.clock(now),
            "process": daemon.process,
        }
        insert = self._access.database.insert(daemons).values(holder=daemon.holder, **values)
        statement = insert.on_conflict_do_update(index_elements=["holder"], set_=values)
        self._access.write("beat", lambda connection: execute(connection, statement), serializable=False)

    def leave(self, holder: str) -> None:
        """Say that `holder` ends, so that the others need not wait to see it."""
        statement = delete(daemons).where(daemons.c.holder == holder)
        self._access.write("leave", lambda connection: execute(connection, statement), serializable=False)

    def alive(self, now: float, *, within: float = BEAT_SECONDS) -> tuple[DaemonRecord, ...]:
        """Daemons that beat within so many seconds, by holder."""
        alive = daemons.c.beat_at > self._access.database.clock(now) - within
        return self._records(select(daemons).where(alive))

    def known(self) -> tuple[DaemonRecord, ...]:
        """Daemons that did not say that they ended, by holder, however long ago they beat."""
        return self._records(select(daemons))

    def _records(self, query: Select[Any]) -> tuple[DaemonRecord, ...]:
        return tuple(
            DaemonRecord(row.holder, row.service, row.version, row.started_at, row.address, row.beat_at, row.process)
            for row in self._access.rows("daemons", query.order_by(daemons.c.holder))
        )


def index_entries_at(url: str, base_path: str, name: str) -> AbstractContextManager[Any]:
    """The entries of an index in the database at `url`, which is open as long. Raises what `open_entries` raises."""
    from lakeward.state.index_entries import opened_entries  # Arrow, which most who open a store do not need

    return opened_entries(url, base_path, name)


def open_store(
    url: str,
    *,
    clock: Clock,
    retention: Retention | None = None,
    timeout: float = TIMEOUT_SECONDS,
    on_operation: OnOperation | None = None,
) -> Store:
    """The store at `url`, whose schema must be there (`migration.migrate`); one in memory gets it here.

    Raises `UsageError`, `StoreUnavailable`, `StoreBroken`, `StoreVersion`.
    """
    database = open_database(url, timeout=timeout, create=False)
    try:
        if database.is_memory:
            migrate_database(database, at=clock.now())
        ensure_usable(database)
        database.check_reopened = partial(_ensure_same_store, store_id=database.read(_store_id))
    except BaseException:
        database.close()
        raise
    return Store(database, clock=clock, retention=retention or Retention(), on_operation=on_operation)


def _store_id(connection: Connection) -> str:
    found: str = connection.execute(select(store_identity.c.store_id)).scalar_one()
    return found


def _ensure_same_store(database: Database, *, store_id: str) -> None:
    """Raises `StoreVersion` where the file that is there now is another store's, or of another release."""
    ensure_usable(database)
    if database.read(_store_id) != store_id:
        raise StoreVersion(
            f"The file of the store {database.name} was replaced by another store.",
            why="Plans that this process made are marked with the id of the store that it was started with.",
            remedy="Put that store's file back, or start the process again to go on with this one.",
        )


class Store:
    def __init__(
        self, database: Database, *, clock: Clock, retention: Retention, on_operation: OnOperation | None = None
    ) -> None:
        self._database = database
        self._retention = retention
        self._access = access = StoreAccess(database, clock=clock, on_operation=on_operation)
        self.observations = Observations(access)
        self.reads = Reads(access)
        self.compared_days = ComparedDays(access)
        self.jobs = Jobs(access)
        self.index_builds = IndexBuilds(access)
        self.controls = Controls(access)
        self.events = Events(access)
        self.leases = LeaseRows(access)
        self.daemons = Daemons(access)

    @property
    def name(self) -> str:
        """The URL without its secrets."""
        return self._database.name

    def close(self) -> None:
        self._database.close()

    def store_id(self) -> str:
        """Who this store is; it stays with the database for its life."""
        return self._access.read("store_id", _store_id)

    def index_watermarks(self, base_path: str) -> Mapping[str, Watermark]:
        """What the indexes of the table have that are in this database, by their names: none in a file. Raises what
        reading the store does."""
        if self._database.is_sqlite:
            return {}
        from lakeward.state.index_entries import read_watermarks  # Arrow, which most who open a store do not need

        return self._access.read("index_watermarks", lambda connection: read_watermarks(connection, base_path))

    def trim(self, now: float) -> Trimmed:
        """Drop what is old (`Retention`). Age removes nothing that runs, is in force or is still on a timeline."""
        keep = self._retention

        def older(column: ColumnElement[Any], days: float) -> ColumnElement[bool]:
            return column < now - days * DAY_SECONDS

        def work(connection: Connection) -> dict[str, int]:
            ended, past = jobs.c.ended_at.is_not(None), past_decisions.c
            goners: list[tuple[Table, ColumnElement[bool]]] = [
                (events, older(events.c.at, keep.event_days)),
                (events, _beyond(events, [events.c.id.desc()], events.c.id, keep.event_rows)),
                (past_decisions, older(past.ended_at, keep.past_decision_days)),
                (past_decisions, _beyond(past_decisions, [past.id.desc()], past.id, keep.past_decision_rows)),
                (past_decisions, thinned(older(past.ended_at, keep.past_decision_each_days))),
                (jobs, and_(ended, older(jobs.c.ended_at, keep.job_days))),
                (jobs, and_(ended, _beyond(jobs, [jobs.c.began_at.desc(), jobs.c.id], jobs.c.id, keep.job_rows))),
                (job_costs, older(job_costs.c.ended_at, keep.cost_days)),
                (job_costs, _beyond(job_costs, [job_costs.c.ended_at.desc()], job_costs.c.job_id, keep.cost_rows)),
                (compared_days, compared_days.c.day < (now - keep.cost_days * DAY_SECONDS) // DAY_SECONDS),
                (read_days, read_days.c.day < (now - keep.read_days * DAY_SECONDS) // DAY_SECONDS),
                (recent_reads, older(recent_reads.c.at, keep.recent_read_days)),
                (attempts, and_(attempts.c.job_id.not_in(select(jobs.c.id)), older(attempts.c.began_at, 1))),
                (controls, older(controls.c.ended_at, keep.control_days)),
                (controls, older(controls.c.until, keep.control_days)),
                (parked_groups, older(parked_groups.c.until, keep.control_days)),
                (daemons, older(daemons.c.beat_at, keep.daemon_days)),
                (applied_writes, older(applied_writes.c.at, keep.write_days)),
                (
                    cleaner_progress,
                    and_(cleaner_progress.c.job_id.not_in(select(jobs.c.id)), older(cleaner_progress.c.at, 1)),
                ),
                (index_builds, older(index_builds.c.ended_at, keep.job_days)),
                (
                    index_checkpoints,
                    and_(
                        index_checkpoints.c.build_id.not_in(select(index_builds.c.id)),
                        older(index_checkpoints.c.at, 1),
                    ),
                ),
                (storage_samples, older(storage_samples.c.at, keep.storage_days)),
                (storage_samples, _thinned(HOUR_SLOTS, older(storage_samples.c.at, keep.storage_slot_days))),
                (storage_samples, _thinned(24 * HOUR_SLOTS, older(storage_samples.c.at, keep.storage_hour_days))),
            ]
            taken: dict[str, int] = {}
            for table, goes in goners:
                taken[table.name] = taken.get(table.name, 0) + connection.execute(delete(table).where(goes)).rowcount
            return {name: rows for name, rows in taken.items() if rows}

        return Trimmed(self._access.write("trim", work))

    def adopt(
        self,
        store_id: str | None,
        watched: Sequence[Mapping[str, Any]],
        in_force: Sequence[ControlRecord],
        parked: Sequence[ParkedRecord],
    ) -> None:
        """Become the successor of a store that is given up: with its identity, and what no timeline has."""
        if store_id is not None:
            statement = update(store_identity).values(store_id=store_id)
            self._access.write("adopt", lambda connection: execute(connection, statement))
        self.observations.take_over(watched)
        for control in in_force:
            self.controls.add(control)
        for each in parked:  # after the controls, because a resume unparks
            self.controls.park(each)


def _thinned(slots: int, old: ColumnElement[bool]) -> ColumnElement[bool]:
    """True for old samples but the newest of so many slots."""
    table, slot = storage_samples.c.table_name, storage_samples.c.slot
    newest = select(table, func.max(slot)).where(old).group_by(table, slot - slot % slots)
    return and_(old, tuple_(table, slot).not_in(newest))


def _beyond(
    table: Table, order: Sequence[ColumnElement[Any]], key: ColumnElement[Any], rows: int
) -> ColumnElement[bool]:
    """True for what comes after the first `rows` in that order."""
    return key.in_(select(key).select_from(table).order_by(*order).offset(rows))

"""What Lakeward remembers across restarts. The only door to the database: values in, values out.

    Store -> Database (engine.py: transactions, retries, write ids) -> SQLite or PostgreSQL

Nothing in here is the truth about a table. Decisions and plans are what somebody saw; a job is a promise whose
keeping the timeline shows; a lease saves two daemons the same work. What only the store knows is what operators asked
for and what was parked.

Touches: the database, through `Database`.
Keeps:   1. each method is one transaction and may be called from any thread;
         2. a method that was called once has happened once, also when the reply was lost on the way;
         3. the tokens of a table's leases grow for ever: across release, take-over, `forget`, a store that is a week
            old and one that was lost (they start from the clock, and a row of a lease is never deleted);
         4. what is written again unchanged costs no write;
         5. rows are bounded by `trim`.
See:     docs/state.md
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Row, Select, Table, and_, bindparam, case, delete, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from lakeward.clock import Clock
from lakeward.errors import LakewardError, StoreVersion
from lakeward.state.engine import PATIENCE_SECONDS, Database, open_database
from lakeward.state.migration import ensure_usable, migrate_database
from lakeward.state.records import (
    AttemptRecord,
    ControlKind,
    ControlRecord,
    DaemonRecord,
    DecisionRecord,
    EventRecord,
    FileGroupKey,
    JobRecord,
    Lease,
    ObservedOperation,
    ObservedPlan,
    ParkedRecord,
    Planning,
    Retention,
    TargetKind,
    Trimmed,
    WatchedTable,
)
from lakeward.state.schema import (
    TABLE_ITSELF,
    applied_writes,
    attempts,
    controls,
    daemons,
    decisions,
    events,
    jobs,
    leases,
    observed_operations,
    observed_plans,
    parked_groups,
    plannings,
    storable,
    store_identity,
    watched_tables,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")

DAY_SECONDS = 86400.0
TEXT_LENGTH_MAX = 8000
"""Of errors, reasons and events; a longer one is cut."""
RENEWED_AT_ONCE = 200
"""Leases in one statement: SQLite bounds how deep a condition may be."""

BEAT_SECONDS = 60.0
"""A daemon whose last beat is older counts as gone."""

OnOperation = Callable[[str, float, str], None]
"""Called after each operation with its name, its seconds, and "ok" or "failed"."""


def open_store(
    url: str,
    *,
    clock: Clock,
    retention: Retention | None = None,
    patience: float = PATIENCE_SECONDS,
    on_operation: OnOperation | None = None,
) -> Store:
    """The store at `url`, whose schema must be there (`migration.migrate`); one in memory gets it here.

    Raises `UsageError`, `StoreUnavailable`, `StoreBroken`, `StoreVersion`.
    """
    database = open_database(url, patience=patience, create=False)
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
            remedy="Put that store's file back, or start the process anew to go on with this one.",
        )


class Store:
    def __init__(
        self, database: Database, *, clock: Clock, retention: Retention, on_operation: OnOperation | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._retention = retention
        self._on_operation = on_operation

    @property
    def name(self) -> str:
        """The URL without its secrets."""
        return self._database.name

    @property
    def is_shared(self) -> bool:
        """True where daemons on several machines may use it together."""
        return not self._database.is_sqlite

    def close(self) -> None:
        self._database.close()

    def store_id(self) -> str:
        """Who this store is; it stays with the database for its life."""
        return self._read("store_id", _store_id)

    # ------------------------------------------------------------------------------------------ tables

    def watch(self, table: str, base_path: str, at: float) -> WatchedTable:
        """Remember a table. One that moved to another base path is another table: what was seen of it goes."""

        def work(connection: Connection) -> list[float]:
            row = connection.execute(select(watched_tables).where(watched_tables.c.table_name == table)).first()
            first_watched_at = at
            if row is not None and row.base_path == storable(base_path):
                first_watched_at = row.first_watched_at
            elif row is not None:
                _delete_observations(connection, table)
            values = {"base_path": base_path, "first_watched_at": first_watched_at, "seen_at": at}
            insert = self._database.insert(watched_tables).values(table_name=table, **values)
            connection.execute(insert.on_conflict_do_update(index_elements=["table_name"], set_=values))
            return [first_watched_at]

        (first_watched_at,) = self._write("watch", work)
        return WatchedTable(table, base_path, first_watched_at, at)

    def forget(self, table: str) -> None:
        """A table is not watched any more: what was seen of it goes, what was done and asked for stays."""

        def work(connection: Connection) -> None:
            connection.execute(delete(watched_tables).where(watched_tables.c.table_name == table))
            _delete_observations(connection, table)

        self._write("forget", work)

    def tables(self) -> tuple[WatchedTable, ...]:
        query = select(watched_tables).order_by(watched_tables.c.table_name)
        return tuple(watched_table_of(row) for row in self._rows("tables", query))

    # ------------------------------------------------------------------------------------------ decisions

    def record_decisions(
        self, table: str, planned_at: float, instant: str | None, found: Sequence[DecisionRecord]
    ) -> None:
        """What was decided for every file group of a table. Only differences are written; groups that vanished go.

        `instant` is that of the plan that was published for it, if one was.
        """

        def work(connection: Connection) -> None:
            here = decisions.c.table_name == table
            known = {
                (row.partition_path, row.file_id): row.digest
                for row in connection.execute(
                    select(decisions.c.partition_path, decisions.c.file_id, decisions.c.digest).where(here)
                )
            }
            changed = []
            for decision in found:
                digest = _digest(replace(decision, decided_at=None))
                if known.pop((storable(decision.partition_path), storable(decision.file_id)), None) == digest:
                    continue
                row = {**_fields(decision), "table_name": table, "decided_at": planned_at, "digest": digest}
                changed.append({**row, "numbers": _plain(decision.numbers)})
            self._upsert(connection, decisions, changed)
            _delete_groups(connection, decisions, table, known)
            planning = {"planned_at": planned_at, "instant": instant, "file_groups": len(found)}
            insert = self._database.insert(plannings).values(table_name=table, **planning)
            connection.execute(insert.on_conflict_do_update(index_elements=["table_name"], set_=planning))

        self._write("record_decisions", work)

    def decisions(self, table: str, limit: int | None = None, offset: int = 0) -> tuple[DecisionRecord, ...]:
        """By partition path and file id."""
        query = select(decisions).where(decisions.c.table_name == table)
        query = query.order_by(decisions.c.partition_path, decisions.c.file_id).limit(limit).offset(offset)
        return tuple(
            DecisionRecord(
                row.partition_path,
                row.file_id,
                row.choice,
                row.reason,
                row.numbers,
                row.instant,
                row.instead_of,
                row.decided_at,
            )
            for row in self._rows("decisions", query)
        )

    def planning(self, table: str) -> Planning | None:
        """When the decisions of a table were last made; None when never."""
        for row in self._rows("planning", select(plannings).where(plannings.c.table_name == table)):
            return Planning(row.table_name, row.planned_at, row.instant, row.file_groups)
        return None

    # ------------------------------------------------------------------------------------------ plans

    def record_observed_plans(self, table: str, plans: Sequence[ObservedPlan]) -> None:
        """The plans that are pending on a table's timeline; those that are not any more go."""

        def work(connection: Connection) -> None:
            key = (observed_plans.c.instant, observed_plans.c.action)
            query = select(*key, observed_plans.c.digest).where(observed_plans.c.table_name == table)
            known = {(row.instant, row.action): row.digest for row in connection.execute(query)}
            gone = dict(known)
            changed, operations = [], []
            for plan in plans:
                digest = _digest(plan)
                gone.pop((plan.instant, plan.action), None)
                if known.get((plan.instant, plan.action)) == digest:
                    continue
                place = {"table_name": table, "instant": plan.instant, "action": plan.action}
                operations += [{**place, **_fields(operation)} for operation in plan.operations]
                row = {**place, **_fields(plan), "digest": digest}
                del row["operations"]
                changed.append(row)
            for instant, action in [*gone, *((row["instant"], row["action"]) for row in changed)]:
                for kind in (observed_plans, observed_operations):
                    connection.execute(
                        delete(kind).where(
                            kind.c.table_name == table, kind.c.instant == instant, kind.c.action == action
                        )
                    )
            if changed:
                connection.execute(observed_plans.insert(), changed)
            if operations:
                connection.execute(observed_operations.insert(), operations)

        self._write("record_observed_plans", work)

    def observed_plans(self, table: str) -> tuple[ObservedPlan, ...]:
        """Oldest first."""

        def work(connection: Connection) -> tuple[ObservedPlan, ...]:
            operations: dict[tuple[str, str], list[ObservedOperation]] = {}
            order = (observed_operations.c.partition_path, observed_operations.c.file_id)
            query = select(observed_operations).where(observed_operations.c.table_name == table).order_by(*order)
            for row in connection.execute(query):
                operation = ObservedOperation(
                    row.partition_path,
                    row.file_id,
                    row.kind,
                    row.base_instant,
                    row.log_files,
                    row.read_bytes,
                    row.write_bytes,
                )
                operations.setdefault((row.instant, row.action), []).append(operation)
            plans = select(observed_plans).where(observed_plans.c.table_name == table)
            return tuple(
                ObservedPlan(
                    row.instant,
                    row.action,
                    row.state,
                    tuple(operations.get((row.instant, row.action), ())),
                    row.requested_at,
                    row.planned_by,
                    row.planned_by_service,
                    row.planned_by_store,
                )
                for row in connection.execute(plans.order_by(observed_plans.c.instant, observed_plans.c.action))
            )

        return self._read("observed_plans", work)

    # ------------------------------------------------------------------------------------------ jobs

    def begin_job(self, job: JobRecord) -> None:
        """Promise a job. The same id again changes nothing."""
        self._insert_new("begin_job", jobs, _job_row(job))

    def end_job(
        self,
        job_id: str,
        result: str,
        error: str | None,
        *,
        at: float,
        instant: str | None = None,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        """Say how a job ended; the first end counts."""
        values: dict[str, Any] = {"ended_at": at, "result": result, "error": _cut(error), "figures": _plain(figures)}
        if instant is not None:
            values["instant"] = instant
        statement = update(jobs).where(jobs.c.id == job_id, jobs.c.ended_at.is_(None)).values(**values)
        self._write("end_job", lambda connection: _execute(connection, statement))

    def jobs(self, table: str | None = None, limit: int = 100) -> tuple[JobRecord, ...]:
        """Newest first."""
        query = select(jobs) if table is None else select(jobs).where(jobs.c.table_name == table)
        query = query.order_by(jobs.c.began_at.desc(), jobs.c.id).limit(limit)
        return tuple(_job(row) for row in self._rows("jobs", query))

    def job(self, job_id: str) -> JobRecord | None:
        return next((_job(row) for row in self._rows("job", select(jobs).where(jobs.c.id == job_id))), None)

    def running_jobs(self, holder: str | None = None) -> tuple[JobRecord, ...]:
        """Without an end, oldest first; those of a daemon that died are among them until somebody ends them."""
        query = select(jobs).where(jobs.c.ended_at.is_(None))
        if holder is not None:
            query = query.where(jobs.c.holder == holder)
        return tuple(_job(row) for row in self._rows("running_jobs", query.order_by(jobs.c.began_at, jobs.c.id)))

    def begin_attempt(self, attempt: AttemptRecord) -> None:
        """One run of a job. The same id again changes nothing."""
        row = {**_fields(attempt), "error": _cut(attempt.error), "figures": _plain(attempt.figures)}
        self._insert_new("begin_attempt", attempts, row)

    def end_attempt(
        self,
        attempt_id: str,
        result: str,
        error: str | None,
        *,
        at: float,
        figures: Mapping[str, Any] | None = None,
    ) -> None:
        """Say how an attempt ended; the first end counts."""
        values = {"ended_at": at, "result": result, "error": _cut(error), "figures": _plain(figures)}
        statement = update(attempts).where(attempts.c.id == attempt_id, attempts.c.ended_at.is_(None)).values(**values)
        self._write("end_attempt", lambda connection: _execute(connection, statement))

    def attempts(self, job_id: str) -> tuple[AttemptRecord, ...]:
        """Oldest first."""
        query = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.began_at, attempts.c.id)
        return tuple(AttemptRecord(**row._mapping) for row in self._rows("attempts", query))

    # ------------------------------------------------------------------------------------------ controls

    def add_control(self, control: ControlRecord) -> int:
        """Ask the daemons for something. Returns its id.

        A new pause takes the place of an earlier one of the same target. A resume ends the pause and the earlier
        resume of its target, and takes back what is parked there: the file group, or a table with all its groups.
        """

        def work(connection: Connection) -> int:
            ended_by = {
                ControlKind.PAUSE: (ControlKind.PAUSE,),
                ControlKind.RESUME: (ControlKind.PAUSE, ControlKind.RESUME),
                ControlKind.CANCEL: (),
            }[control.kind]
            if ended_by:
                same = and_(_same_target(control), controls.c.ended_at.is_(None), controls.c.kind.in_(ended_by))
                outcome = f"replaced by a {control.kind}"
                connection.execute(update(controls).where(same).values(ended_at=control.at, outcome=outcome))
            if control.kind is ControlKind.RESUME and control.target_kind is TargetKind.TABLE:
                _unpark(connection, control.target, None)
            if control.kind is ControlKind.RESUME and control.file_group is not None:
                _unpark(connection, control.target, control.file_group)
            partition_path, file_id = control.file_group or (None, None)
            statement = controls.insert().values(
                kind=control.kind,
                target_kind=control.target_kind,
                target=control.target,
                partition_path=partition_path,
                file_id=file_id,
                reason=_cut(control.reason),
                requested_by=control.by,
                requested_at=control.at,
                until=control.until,
            )
            return int(connection.execute(statement.returning(controls.c.id)).scalar_one())

        return self._write("add_control", work)

    def controls(self, now: float) -> tuple[ControlRecord, ...]:
        """Those in force, oldest first."""
        in_force = and_(controls.c.ended_at.is_(None), or_(controls.c.until.is_(None), controls.c.until > now))
        query = select(controls).where(in_force).order_by(controls.c.id)
        return tuple(control_of(row) for row in self._rows("controls", query))

    def end_control(self, control_id: int, outcome: str, *, at: float) -> None:
        """A daemon did what was asked, or could not; the first end counts."""
        here = and_(controls.c.id == control_id, controls.c.ended_at.is_(None))
        statement = update(controls).where(here).values(ended_at=at, outcome=_cut(outcome))
        self._write("end_control", lambda connection: _execute(connection, statement))

    # ------------------------------------------------------------------------------------------ parked

    def park(self, parked: ParkedRecord) -> None:
        """Leave a table or a file group alone for a while; once more for the same one replaces it."""
        row = _fields(parked)
        partition_path, file_id = row.pop("file_group") or ("", TABLE_ITSELF)
        row |= {"partition_path": partition_path, "file_id": file_id, "reason": _cut(parked.reason)}
        row["table_name"] = row.pop("table")
        self._write("park", lambda connection: self._upsert(connection, parked_groups, [row]))

    def unpark(self, table: str, file_group: FileGroupKey | None = None) -> None:
        """Take a file group back, or without one the table itself, whose file groups stay as they are."""
        self._write("unpark", lambda connection: _unpark(connection, table, file_group))

    def parked(self, now: float) -> tuple[ParkedRecord, ...]:
        """Those in force, by table and group."""
        key = (parked_groups.c.table_name, parked_groups.c.partition_path, parked_groups.c.file_id)
        query = select(parked_groups).where(or_(parked_groups.c.until.is_(None), parked_groups.c.until > now))
        return tuple(parked_of(row) for row in self._rows("parked", query.order_by(*key)))

    # ------------------------------------------------------------------------------------------ events

    def record_event(self, happened: EventRecord) -> int:
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
            text=_cut(happened.text),
            fields=_plain(happened.fields),
        )
        return self._write(
            "record_event", lambda connection: int(connection.execute(statement.returning(events.c.id)).scalar_one())
        )

    def events(
        self, table: str | None = None, limit: int = 100, *, before_id: int | None = None
    ) -> tuple[EventRecord, ...]:
        """Newest first."""
        query = select(events) if table is None else select(events).where(events.c.table_name == table)
        if before_id is not None:
            query = query.where(events.c.id < before_id)
        return tuple(_event(row) for row in self._rows("events", query.order_by(events.c.id.desc()).limit(limit)))

    # ------------------------------------------------------------------------------------------ leases

    def acquire_lease(self, table: str, holder: str, seconds: float, now: float) -> Lease | None:
        """The lease of a table; None while it is held, also by `holder` itself, which is one start of one process.

        `now` counts on SQLite only; PostgreSQL judges by its own clock. Use `lease.take`.
        """
        clock = self._database.clock(now)
        insert = self._database.insert(leases).values(
            table_name=table, holder=holder, token=self._database.milliseconds(now), until=clock + seconds
        )
        offered = insert.excluded
        # One statement, which holds the row's lock while it looks at the row again: two daemons cannot both get it.
        statement = insert.on_conflict_do_update(
            index_elements=["table_name"],
            set_={
                "holder": offered.holder,
                "token": case((leases.c.token >= offered.token, leases.c.token + 1), else_=offered.token),
                "until": offered.until,
            },
            where=or_(leases.c.holder.is_(None), leases.c.until <= clock),
        ).returning(leases.c.token, leases.c.until)
        return self._lease("acquire_lease", statement, table, holder)

    def renew_leases(self, held: Sequence[Lease], seconds: float, now: float) -> tuple[Lease, ...]:
        """The same leases until later; those that somebody else has taken since are missing. Use `lease.keep`.

        One that ran out and was not taken is renewed: nobody else had it meanwhile. All are renewed together, since
        each write of its own would wait for the disk.
        """
        until = self._database.clock(now) + seconds

        def work(connection: Connection) -> list[list[Any]]:
            renewed: list[list[Any]] = []
            for start in range(0, len(held), RENEWED_AT_ONCE):
                statement = update(leases).where(or_(*map(_is_held, held[start : start + RENEWED_AT_ONCE])))
                returning = (leases.c.table_name, leases.c.holder, leases.c.token, leases.c.until)
                rows = connection.execute(statement.values(until=until).returning(*returning))
                renewed += [list(row) for row in rows]
            return renewed

        kept = self._write("renew_leases", work, serializable=False)
        return tuple(Lease(table, holder, int(token), float(until)) for table, holder, token, until in kept)

    def release_lease(self, lease: Lease) -> None:
        """Let others in at once. The row stays, for its token."""
        statement = update(leases).where(_is_held(lease)).values(holder=None, until=0.0)
        self._write("release_lease", lambda connection: _execute(connection, statement), serializable=False)

    def leases(self, now: float, *, over: bool = False) -> tuple[Lease, ...]:
        """Those that are held and not over, by table; or those that are over and were not given back."""
        clock = self._database.clock(now)
        in_time = leases.c.until <= clock if over else leases.c.until > clock
        query = select(leases).where(and_(leases.c.holder.is_not(None), in_time)).order_by(leases.c.table_name)
        return tuple(Lease(row.table_name, row.holder, row.token, row.until) for row in self._rows("leases", query))

    def _lease(self, name: str, statement: Any, table: str, holder: str) -> Lease | None:
        def work(connection: Connection) -> list[float] | None:
            row = connection.execute(statement).first()
            return None if row is None else [row.token, row.until]

        given = self._write(name, work, serializable=False)
        return None if given is None else Lease(table, holder, int(given[0]), float(given[1]))

    # ------------------------------------------------------------------------------------------ daemons

    def beat(self, daemon: DaemonRecord, now: float) -> None:
        """Say that a daemon lives. When it did so is for the database's clock to say, as with leases."""
        values = {
            "service": daemon.service,
            "version": daemon.version,
            "address": daemon.address,
            "started_at": daemon.started_at,
            "beat_at": self._database.clock(now),
        }
        insert = self._database.insert(daemons).values(holder=daemon.holder, **values)
        statement = insert.on_conflict_do_update(index_elements=["holder"], set_=values)
        self._write("beat", lambda connection: _execute(connection, statement), serializable=False)

    def leave(self, holder: str) -> None:
        """Say that `holder` ends, so that the others need not wait to see it."""
        statement = delete(daemons).where(daemons.c.holder == holder)
        self._write("leave", lambda connection: _execute(connection, statement), serializable=False)

    def daemons(self, now: float, *, within: float = BEAT_SECONDS) -> tuple[DaemonRecord, ...]:
        """Those that beat within so many seconds, by holder."""
        alive = daemons.c.beat_at > self._database.clock(now) - within
        return tuple(
            DaemonRecord(row.holder, row.service, row.version, row.started_at, row.address, row.beat_at)
            for row in self._rows("daemons", select(daemons).where(alive).order_by(daemons.c.holder))
        )

    # ------------------------------------------------------------------------------------------ upkeep

    def trim(self, now: float) -> Trimmed:
        """Drop what is old (`Retention`). Nothing that runs, is in force or is still on a timeline goes by age."""
        keep = self._retention

        def older(column: ColumnElement[Any], days: float) -> ColumnElement[bool]:
            return column < now - days * DAY_SECONDS

        def work(connection: Connection) -> dict[str, int]:
            ended = jobs.c.ended_at.is_not(None)
            goners: list[tuple[Table, ColumnElement[bool]]] = [
                (events, older(events.c.at, keep.event_days)),
                (events, _beyond(events, [events.c.id.desc()], events.c.id, keep.event_rows)),
                (jobs, and_(ended, older(jobs.c.ended_at, keep.job_days))),
                (jobs, and_(ended, _beyond(jobs, [jobs.c.began_at.desc(), jobs.c.id], jobs.c.id, keep.job_rows))),
                (attempts, and_(attempts.c.job_id.not_in(select(jobs.c.id)), older(attempts.c.began_at, 1))),
                (controls, older(controls.c.ended_at, keep.control_days)),
                (controls, older(controls.c.until, keep.control_days)),
                (parked_groups, older(parked_groups.c.until, keep.control_days)),
                (daemons, older(daemons.c.beat_at, keep.daemon_days)),
                (applied_writes, older(applied_writes.c.at, keep.write_days)),
            ]
            taken: dict[str, int] = {}
            for table, goes in goners:
                taken[table.name] = taken.get(table.name, 0) + connection.execute(delete(table).where(goes)).rowcount
            return {name: rows for name, rows in taken.items() if rows}

        return Trimmed(self._write("trim", work))

    def clear_observations(self) -> None:
        """Empty what the timelines and the next planning tell again; everything else stays."""

        def work(connection: Connection) -> None:
            for table in (plannings, decisions, observed_plans, observed_operations):
                connection.execute(delete(table))
            connection.execute(delete(jobs).where(jobs.c.from_timeline))

        self._write("clear_observations", work)

    def adopt(
        self,
        store_id: str | None,
        known: Sequence[WatchedTable],
        in_force: Sequence[ControlRecord],
        parked: Sequence[ParkedRecord],
    ) -> None:
        """Become the successor of a store that is given up: with its identity, and what no timeline tells."""
        if store_id is not None:
            statement = update(store_identity).values(store_id=store_id)
            self._write("adopt", lambda connection: _execute(connection, statement))
        for table in known:
            self.watch(table.name, table.base_path, table.first_watched_at)
        for control in in_force:
            self.add_control(control)
        for each in parked:  # after the controls, because a resume takes back what is parked
            self.park(each)

    # ------------------------------------------------------------------------------------------ small

    def _read(self, name: str, work: Callable[[Connection], R]) -> R:
        return self._observed(name, lambda: self._database.read(work))

    def _rows(self, name: str, query: Select[Any]) -> Sequence[Row[Any]]:
        return self._read(name, lambda connection: connection.execute(query).all())

    def _write(self, name: str, work: Callable[[Connection], R], *, serializable: bool = True) -> R:
        at = self._clock.now()
        return self._observed(name, lambda: self._database.write(work, at=at, serializable=serializable))

    def _observed(self, name: str, call: Callable[[], R]) -> R:
        if self._on_operation is None:
            return call()
        # Not the injected clock: what is measured is the database, which lives in real time.
        started = time.perf_counter()
        try:
            result = call()
        except LakewardError:
            self._on_operation(name, time.perf_counter() - started, "failed")
            raise
        self._on_operation(name, time.perf_counter() - started, "ok")
        return result

    def _insert_new(self, name: str, table: Table, row: Mapping[str, Any]) -> None:
        statement = self._database.insert(table).values(**row).on_conflict_do_nothing(index_elements=["id"])
        self._write(name, lambda connection: _execute(connection, statement))

    def _upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        keys = [column.name for column in table.primary_key]
        insert = self._database.insert(table)
        others = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=others), list(rows))


def _is_held(lease: Lease) -> Any:
    """Whether a row of `leases` still is this one: the token counts, not the name alone."""
    return and_(leases.c.table_name == lease.table, leases.c.holder == lease.holder, leases.c.token == lease.token)


def _execute(connection: Connection, statement: Any) -> None:
    connection.execute(statement)


def _delete_observations(connection: Connection, table: str) -> None:
    for kind in (plannings, decisions, observed_plans, observed_operations):
        connection.execute(delete(kind).where(kind.c.table_name == table))


def _delete_groups(connection: Connection, kind: Table, table: str, groups: Iterable[FileGroupKey]) -> None:
    rows = [{"partition": partition_path, "file": file_id} for partition_path, file_id in groups]
    if rows:
        here = and_(kind.c.partition_path == bindparam("partition"), kind.c.file_id == bindparam("file"))
        connection.execute(delete(kind).where(kind.c.table_name == table, here), rows)


def _unpark(connection: Connection, table: str, file_group: FileGroupKey | None) -> None:
    partition_path, file_id = file_group or ("", TABLE_ITSELF)
    same = and_(parked_groups.c.partition_path == partition_path, parked_groups.c.file_id == file_id)
    connection.execute(delete(parked_groups).where(parked_groups.c.table_name == table, same))


def _beyond(
    table: Table, order: Sequence[ColumnElement[Any]], key: ColumnElement[Any], rows: int
) -> ColumnElement[bool]:
    """True for what comes after the first `rows` in that order."""
    return key.in_(select(key).select_from(table).order_by(*order).offset(rows))


def _same_target(control: ControlRecord) -> ColumnElement[bool]:
    partition_path, file_id = control.file_group or (None, None)
    return and_(
        controls.c.target_kind == control.target_kind.value,
        controls.c.target == control.target,
        controls.c.partition_path.is_not_distinct_from(partition_path),
        controls.c.file_id.is_not_distinct_from(file_id),
    )


def _digest(value: DecisionRecord | ObservedPlan) -> str:
    """Equal for values that are stored alike."""
    fields_ = {
        name: sorted(part.items()) if isinstance(part, Mapping) else part for name, part in _fields(value).items()
    }
    return hashlib.blake2b(repr(fields_).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def _fields(value: DataclassInstance) -> dict[str, Any]:
    """One level deep, where `asdict` would copy everything below."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """What JSON holds of `fields`; anything else as its text."""
    text = json.dumps(dict(fields or {}), default=str)
    plain: dict[str, Any] = json.loads(text, parse_constant=str)  # NaN is no JSON, and PostgreSQL says so
    return plain


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 1] + "…"


def watched_table_of(row: Row[Any]) -> WatchedTable:
    return WatchedTable(row.table_name, row.base_path, row.first_watched_at, row.seen_at)


def _job_row(job: JobRecord) -> dict[str, Any]:
    row = {**_fields(job), "error": _cut(job.error), "figures": _plain(job.figures)}
    row["table_name"] = row.pop("table")
    return row


def _job(row: Row[Any]) -> JobRecord:
    fields = dict(row._mapping)
    return JobRecord(table=fields.pop("table_name"), **fields)


def _group(row: Row[Any]) -> FileGroupKey | None:
    return None if row.file_id in (None, TABLE_ITSELF) else (row.partition_path, row.file_id)


def control_of(row: Row[Any]) -> ControlRecord:
    return ControlRecord(
        kind=ControlKind(row.kind),
        target_kind=TargetKind(row.target_kind),
        target=row.target,
        reason=row.reason,
        by=row.requested_by,
        at=row.requested_at,
        file_group=_group(row),
        until=row.until,
        id=row.id,
        ended_at=row.ended_at,
        outcome=row.outcome,
    )


def parked_of(row: Row[Any]) -> ParkedRecord:
    return ParkedRecord(row.table_name, _group(row), row.kind, row.reason, row.failures, row.parked_at, row.until)


def _event(row: Row[Any]) -> EventRecord:
    return EventRecord(
        at=row.at,
        kind=row.kind,
        text=row.text,
        table=row.table_name,
        file_group=_group(row),
        instant=row.instant,
        job_id=row.job_id,
        holder=row.holder,
        fields=row.fields,
        id=row.id,
    )

"""What was last seen of each table: that it is watched, what was decided for its file groups, which plans are pending.

Touches: the database, through `StoreAccess`.
Keeps:   1. what is written again unchanged costs no write;
         2. a table of another base path is another table: nothing seen of the one before is left;
         3. a choice that is followed by another one, or whose file group vanishes, is among the past decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, bindparam, delete, select, update

from lakeward.state.access import StoreAccess, digest_of, fields_of, plain
from lakeward.state.past_decisions import (
    CHOSEN_AT,
    choice_of,
    decided_at,
    keep_all,
    keep_past,
    known_decisions,
    known_since,
    record_of,
)
from lakeward.state.records import (
    DecisionRecord,
    ExaminationRecord,
    FileGroupKey,
    ObservedOperation,
    ObservedPlan,
    Planning,
    StorageRecord,
    Watched,
)
from lakeward.state.store_tables import (
    compared_days,
    decisions,
    examinations,
    jobs,
    observed_operations,
    observed_plans,
    past_decisions,
    plannings,
    read_days,
    storable,
    storage_samples,
    watched_tables,
)

SLOT_SECONDS = 600.0
"""Within so long the newest sample of a table's storage stays."""


class Observations:
    """What the timelines and the next planning show again, and since when a table is watched and serviced, which they
    do not. No decision about a file group reads any of it."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def watch(self, table: str, base_path: str, at: float, *, serviced_since: float | None = None) -> Watched:
        """Remember a table. One that moved to another base path is another table: what was seen of it goes.

        `serviced_since` counts where none was remembered: the first time is the one that stays.
        """

        def work(connection: Connection) -> list[float | None]:
            row = connection.execute(select(watched_tables).where(watched_tables.c.table_name == table)).first()
            first_watched_at, since = at, serviced_since
            if row is not None and row.base_path == storable(base_path):
                first_watched_at = row.first_watched_at
                since = serviced_since if row.serviced_since is None else row.serviced_since
            elif row is not None:
                _delete_observations(connection, table)
                moved = update(watched_tables).where(watched_tables.c.table_name == table)
                connection.execute(moved.values(cost_since=None))
            values = {
                "base_path": base_path,
                "first_watched_at": first_watched_at,
                "seen_at": at,
                "serviced_since": since,
            }
            insert = self._access.database.insert(watched_tables).values(table_name=table, **values)
            connection.execute(insert.on_conflict_do_update(index_elements=["table_name"], set_=values))
            return [first_watched_at, since]

        first_watched_at, since = self._access.write("watch", work)
        assert first_watched_at is not None, "every table has one"
        return Watched(first_watched_at, since)

    def cost_since(self, table: str, at: float, *, by_cost: bool, reasons: Collection[str]) -> float | None:
        """When a watched table was first to be planned by cost, and remember it; None where it is not to.

        A table that nothing was decided about before, or whose decisions were by cost already, has always been: 0.

        Args:
            reasons: those that only decisions by cost have.
        """
        query = select(watched_tables.c.cost_since).where(watched_tables.c.table_name == table)

        def work(connection: Connection) -> float | None:
            row = connection.execute(query).first()
            since: float | None = None
            if by_cost and row is not None:
                since = row.cost_since
                if since is None:
                    of_table = select(decisions.c.reason).where(decisions.c.table_name == table).distinct()
                    known = set(connection.execute(of_table).scalars())
                    since = at if known and known.isdisjoint(reasons) else 0.0
            if row is not None and since != row.cost_since:
                here = watched_tables.c.table_name == table
                connection.execute(update(watched_tables).where(here).values(cost_since=since))
            return since

        return self._access.write("cost_since", work)

    def tables(self) -> Mapping[str, str]:
        """The base path of each watched table, by its name."""
        query = select(watched_tables).order_by(watched_tables.c.table_name)
        return {row.table_name: row.base_path for row in self._access.rows("tables", query)}

    def base_path(self, table: str) -> str | None:
        """That of one table; None where it is not watched."""
        query = select(watched_tables.c.base_path).where(watched_tables.c.table_name == table)
        return next((row.base_path for row in self._access.rows("base_path", query)), None)

    def take_over(self, watched: Iterable[Mapping[str, Any]]) -> None:
        """Know tables of another store since it knew them; what that store had of each, by column."""
        for row in watched:
            self.watch(
                row["table_name"], row["base_path"], row["first_watched_at"], serviced_since=row["serviced_since"]
            )

    def record_decisions(
        self, table: str, planned_at: float, instant: str | None, found: Sequence[DecisionRecord]
    ) -> None:
        """What was decided for every file group of a table. Only differences are written; groups that vanished go.

        `instant` is that of the plan that was published for it, if one was.
        """

        def work(connection: Connection) -> None:
            known = known_decisions(connection, table)
            changed = []
            ended: dict[FileGroupKey, bool] = {}
            for decision in found:
                digest = _digest(replace(decision, decided_at=None, chosen_at=None))
                key = (storable(decision.partition_path), storable(decision.file_id))
                before = known.pop(key, None)
                if before is not None and before.digest == digest:
                    continue
                chosen_at = planned_at
                if before is not None and before.choice == choice_of(decision):
                    chosen_at = before.chosen_at
                elif before is not None:
                    ended[key] = False
                when = {"decided_at": planned_at, "chosen_at": chosen_at}
                row = {**fields_of(decision), **when, "table_name": table, "digest": digest}
                changed.append({**row, "numbers": plain(decision.numbers)})
            ended |= dict.fromkeys(known, True)
            keep_past(connection, table, ended, planned_at)
            self._access.upsert(connection, decisions, changed)
            _delete_groups(connection, decisions, table, known)
            planning = {"planned_at": planned_at, "instant": instant, "file_groups": len(found)}
            insert = self._access.database.insert(plannings).values(table_name=table, **planning)
            connection.execute(insert.on_conflict_do_update(index_elements=["table_name"], set_=planning))

        self._access.write("record_decisions", work)

    def decisions(self, table: str, limit: int | None = None, offset: int = 0) -> tuple[DecisionRecord, ...]:
        """Decisions in the order of partition path and file id."""
        query = _decisions_of(table).limit(limit).offset(offset)
        return tuple(record_of(row, row.since) for row in self._access.rows("decisions", query))

    def decided(self, table: str) -> tuple[Planning | None, tuple[DecisionRecord, ...]]:
        """When the decisions of a table were last made, None when never, and these; as of one moment."""

        def work(connection: Connection) -> tuple[Planning | None, tuple[DecisionRecord, ...]]:
            row = connection.execute(select(plannings).where(plannings.c.table_name == table)).first()
            planning = None if row is None else Planning(row.table_name, row.planned_at, row.instant, row.file_groups)
            return planning, tuple(record_of(each, each.since) for each in connection.execute(_decisions_of(table)))

        return self._access.read("decided", work)

    def decided_at(self, table: str, at: float) -> tuple[float | None, tuple[DecisionRecord, ...]]:
        """Since when choices of a table are known, None where none are, and what was decided at a time, by partition
        path and file id."""
        return self._access.read(
            "decided_at", lambda connection: (known_since(connection, table), decided_at(connection, table, at))
        )

    def record_plans(self, table: str, plans: Sequence[ObservedPlan]) -> None:
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
                operations += [{**place, **fields_of(operation)} for operation in plan.operations]
                row = {**place, **fields_of(plan), "digest": digest}
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

        self._access.write("record_observed_plans", work)

    def plans(self, table: str) -> tuple[ObservedPlan, ...]:
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

        return self._access.read("observed_plans", work)

    def record_storage(self, table: str, sample: StorageRecord) -> None:
        """What holds a table's storage. One of the same ten minutes is replaced."""
        values = {"at": sample.at, "bytes": plain(sample.bytes)}

        def work(connection: Connection) -> None:
            insert = self._access.database.insert(storage_samples)
            row = insert.values(table_name=table, slot=int(sample.at // SLOT_SECONDS), **values)
            connection.execute(row.on_conflict_do_update(index_elements=["table_name", "slot"], set_=values))

        self._access.write("record_storage", work)

    def storage(self, table: str) -> tuple[StorageRecord, ...]:
        """Oldest first."""
        query = select(storage_samples).where(storage_samples.c.table_name == table).order_by(storage_samples.c.slot)
        return tuple(StorageRecord(row.at, row.bytes) for row in self._access.rows("storage", query))

    def record_examination(self, table: str, found: ExaminationRecord) -> None:
        """What the doctor found; the newest one counts."""
        row = {**fields_of(found), "table_name": table}
        row["document"] = None if found.document is None else plain(found.document)
        self._access.write(
            "record_examination", lambda connection: self._access.upsert(connection, examinations, [row])
        )

    def examinations(self, tables: Iterable[str]) -> Mapping[str, ExaminationRecord]:
        """The newest examination of each of these tables that has one."""
        query = select(examinations).where(examinations.c.table_name.in_(list(tables)))
        return {
            row.table_name: ExaminationRecord(row.tried_at, row.looked_at, row.document, row.problem)
            for row in self._access.rows("examinations", query)
        }

    def clear(self, at: float) -> None:
        """Empty what the timelines and the next planning show again; everything else stays. Until that planning it is
        as if no file group were there."""

        def work(connection: Connection) -> None:
            keep_all(connection, at)
            for table in (plannings, decisions, observed_plans, observed_operations):
                connection.execute(delete(table))
            connection.execute(delete(jobs).where(jobs.c.from_timeline))

        self._access.write("clear_observations", work)


def _decisions_of(table: str) -> Select[Any]:
    query = select(decisions, CHOSEN_AT.label("since")).where(decisions.c.table_name == table)
    return query.order_by(decisions.c.partition_path, decisions.c.file_id)


def _delete_observations(connection: Connection, table: str) -> None:
    seen = (plannings, decisions, past_decisions, observed_plans, observed_operations)
    kinds = (*seen, storage_samples, examinations, read_days, compared_days)
    for kind in kinds:
        connection.execute(delete(kind).where(kind.c.table_name == table))


def _delete_groups(connection: Connection, kind: Table, table: str, groups: Iterable[FileGroupKey]) -> None:
    rows = [{"partition": partition_path, "file": file_id} for partition_path, file_id in groups]
    if rows:
        here = and_(kind.c.partition_path == bindparam("partition"), kind.c.file_id == bindparam("file"))
        connection.execute(delete(kind).where(kind.c.table_name == table, here), rows)


def _digest(value: DecisionRecord | ObservedPlan) -> str:
    """Equal for values that are stored alike."""
    fields_ = {
        name: sorted(part.items()) if isinstance(part, Mapping) else part for name, part in fields_of(value).items()
    }
    return digest_of(fields_, bytes_=8)

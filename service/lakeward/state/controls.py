"""What operators asked for, and what is parked until its time is over or an operator resumes it.

Touches: the database, through `StoreAccess`.
Keeps:   1. a target has one pause in force at most, and none after a resume;
         2. a resume unparks what is parked of its target in the same transaction;
         3. what is asked for with a key is done once within a day, however often it comes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from lakeward.state.access import StoreAccess, cut, digest_of, execute, fields_of, group_of
from lakeward.state.records import ControlKind, ControlRecord, FileGroupKey, ParkedRecord, TargetKind
from lakeward.state.store_tables import TABLE_ITSELF, applied_writes, controls, parked_groups

_REQUEST = "request "
"""What the ids of writes begin with that answer requests with a key."""


class Controls:
    """Pauses, resumes and cancellations, and the parked tables and file groups."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def add(self, control: ControlRecord) -> int:
        """Ask the daemons for something. Returns its id.

        A new pause takes the place of an earlier one of the same target. A resume ends the pause and the earlier
        resume of its target, and unparks what is parked there: the file group, or a table with all its groups.
        """

        return self._access.write("add_control", lambda connection: _add(connection, control))

    def add_once(self, control: ControlRecord, key: str, *, lasting: float | None) -> ControlRecord | None:
        """The same for a request with a key: one that comes again within a day gets the control of the first; None
        where the key was that of another request.

        Args:
            lasting: seconds from when it is asked for until it ends by itself.
        """
        asked = _digest(control, lasting)
        found = self._access.write(
            "add_control",
            lambda connection: {"id": _add(connection, control), "asked": asked},
            write_id=_REQUEST + key,
        )
        if found["asked"] != asked:
            return None
        query = select(controls).where(controls.c.id == found["id"])
        rows = list(self._access.rows("controls", query))
        return control_of(rows[0]) if rows else replace(control, id=int(str(found["id"])))

    def is_answered(self, key: str) -> bool:
        """Whether a request with this key was answered within a day."""
        query = select(applied_writes.c.id).where(applied_writes.c.id == _REQUEST + key)
        return bool(list(self._access.rows("controls", query)))

    def in_force(self, now: float) -> tuple[ControlRecord, ...]:
        """Controls in force, oldest first."""
        in_force = and_(controls.c.ended_at.is_(None), or_(controls.c.until.is_(None), controls.c.until > now))
        query = select(controls).where(in_force).order_by(controls.c.id)
        return tuple(control_of(row) for row in self._access.rows("controls", query))

    def end(self, control_id: int, outcome: str, *, at: float) -> None:
        """A daemon did what was asked, or could not; the first end counts."""
        here = and_(controls.c.id == control_id, controls.c.ended_at.is_(None))
        statement = update(controls).where(here).values(ended_at=at, outcome=cut(outcome))
        self._access.write("end_control", lambda connection: execute(connection, statement))

    def park(self, parked: ParkedRecord) -> None:
        """Keep a table or a file group out of plans for a while; parking the same one again replaces it."""
        row = fields_of(parked)
        partition_path, file_id = row.pop("file_group") or ("", TABLE_ITSELF)
        row |= {"partition_path": partition_path, "file_id": file_id, "reason": cut(parked.reason)}
        row["table_name"] = row.pop("table")
        self._access.write("park", lambda connection: self._access.upsert(connection, parked_groups, [row]))

    def unpark(self, table: str, file_group: FileGroupKey | None = None) -> None:
        """Let a file group be tried again, or without one the table itself, whose file groups stay as they are."""
        self._access.write("unpark", lambda connection: _unpark(connection, table, file_group))

    def parked(self, now: float) -> tuple[ParkedRecord, ...]:
        """Parked file groups in force, by table and group."""
        key = (parked_groups.c.table_name, parked_groups.c.partition_path, parked_groups.c.file_id)
        query = select(parked_groups).where(or_(parked_groups.c.until.is_(None), parked_groups.c.until > now))
        return tuple(parked_of(row) for row in self._access.rows("parked", query.order_by(*key)))


def _add(connection: Connection, control: ControlRecord) -> int:
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
        reason=cut(control.reason),
        requested_by=control.by,
        requested_at=control.at,
        until=control.until,
    )
    return int(connection.execute(statement.returning(controls.c.id)).scalar_one())


def _digest(control: ControlRecord, lasting: float | None) -> str:
    """Equal for what asks for the same."""
    words = control.kind.value, control.target_kind.value, control.target, control.file_group, control.reason, lasting
    return digest_of(words)


def _unpark(connection: Connection, table: str, file_group: FileGroupKey | None) -> None:
    partition_path, file_id = file_group or ("", TABLE_ITSELF)
    same = and_(parked_groups.c.partition_path == partition_path, parked_groups.c.file_id == file_id)
    connection.execute(delete(parked_groups).where(parked_groups.c.table_name == table, same))


def _same_target(control: ControlRecord) -> ColumnElement[bool]:
    partition_path, file_id = control.file_group or (None, None)
    return and_(
        controls.c.target_kind == control.target_kind.value,
        controls.c.target == control.target,
        controls.c.partition_path.is_not_distinct_from(partition_path),
        controls.c.file_id.is_not_distinct_from(file_id),
    )


def control_of(row: Row[Any]) -> ControlRecord:
    return ControlRecord(
        kind=ControlKind(row.kind),
        target_kind=TargetKind(row.target_kind),
        target=row.target,
        reason=row.reason,
        by=row.requested_by,
        at=row.requested_at,
        file_group=group_of(row),
        until=row.until,
        id=row.id,
        ended_at=row.ended_at,
        outcome=row.outcome,
    )


def parked_of(row: Row[Any]) -> ParkedRecord:
    return ParkedRecord(row.table_name, group_of(row), row.kind, row.reason, row.failures, row.parked_at, row.until)

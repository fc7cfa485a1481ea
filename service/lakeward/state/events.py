"""What happened, for people.

Touches: the database, through `StoreAccess`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select

from lakeward.state.access import StoreAccess, cut, group_of, plain
from lakeward.state.records import EventRecord
from lakeward.state.schema import events


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

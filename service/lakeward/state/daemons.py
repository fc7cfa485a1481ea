"""Which daemons live.

Touches: the database, through `StoreAccess`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, delete, select

from lakeward.state.access import StoreAccess, execute
from lakeward.state.records import DaemonRecord
from lakeward.state.schema import daemons

BEAT_SECONDS = 60.0
"""A daemon whose last beat is older counts as gone."""


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

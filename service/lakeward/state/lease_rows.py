"""Leases as the database holds them; `lease.py` has them as their holder sees them.

Touches: the database, through `StoreAccess`.
Keeps:   1. of the daemons that ask for one lease at once, one gets it;
         2. the tokens of a table's leases grow for ever: across release, take-over, `forget`, a store that is a week
            old and one that was lost (they start from the clock, and a row of a lease is never deleted).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, or_, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from lakeward.state.access import StoreAccess, execute
from lakeward.state.records import Lease
from lakeward.state.store_tables import leases

RENEWED_AT_ONCE = 200
"""Leases in one statement: a database bounds how many values that may have."""

_ROW = tuple_(leases.c.table_name, leases.c.holder, leases.c.token)


class LeaseRows:
    """Which daemon services which table. Each write is one statement, which holds the lock of its row."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def acquire(self, table: str, holder: str, seconds: float, now: float) -> Lease | None:
        """The lease of a table; None while it is held, also by `holder` itself, which is one start of one process.

        `now` counts on SQLite only; PostgreSQL judges by its own clock. Use `lease.take`.
        """
        clock = self._access.database.clock(now)
        insert = self._access.database.insert(leases).values(
            table_name=table, holder=holder, token=self._access.database.milliseconds(now), until=clock + seconds
        )
        offered = insert.excluded
        # One statement, which holds the row's lock while it reads the row again: two daemons cannot both get it.
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

    def renew(self, held: Sequence[Lease], seconds: float, now: float) -> tuple[Lease, ...]:
        """The same leases until later; those that another process has taken since are missing. Use `lease.keep`.

        One that ran out and was not taken is renewed: no other process had it meanwhile. All are renewed together,
        since each write of its own would wait for the disk.
        """
        until = self._access.database.clock(now) + seconds

        def work(connection: Connection) -> list[list[Any]]:
            renewed: list[list[Any]] = []
            for start in range(0, len(held), RENEWED_AT_ONCE):
                # One condition over rows, which is compiled once; one for each lease is rebuilt every time.
                rows_held = [(each.table, each.holder, each.token) for each in held[start : start + RENEWED_AT_ONCE]]
                statement = update(leases).where(_ROW.in_(rows_held))
                returning = (leases.c.table_name, leases.c.holder, leases.c.token, leases.c.until)
                rows = connection.execute(statement.values(until=until).returning(*returning))
                renewed += [list(row) for row in rows]
            return renewed

        kept = self._access.write("renew_leases", work, serializable=False)
        return tuple(Lease(table, holder, int(token), float(until)) for table, holder, token, until in kept)

    def release(self, lease: Lease) -> None:
        """Let others in at once. The row stays, for its token."""
        statement = update(leases).where(_is_held(lease)).values(holder=None, until=0.0)
        self._access.write("release_lease", lambda connection: execute(connection, statement), serializable=False)

    def held(self, now: float) -> tuple[Lease, ...]:
        """Leases that are held and not over, by table."""
        return self._where(leases.c.until > self._access.database.clock(now))

    def expired(self, now: float) -> tuple[Lease, ...]:
        """Leases that are over and were not given back, by table."""
        return self._where(leases.c.until <= self._access.database.clock(now))

    def _where(self, in_time: ColumnElement[bool]) -> tuple[Lease, ...]:
        query = select(leases).where(and_(leases.c.holder.is_not(None), in_time)).order_by(leases.c.table_name)
        rows = self._access.rows("leases", query)
        return tuple(Lease(row.table_name, row.holder, row.token, row.until) for row in rows)

    def _lease(self, name: str, statement: Any, table: str, holder: str) -> Lease | None:
        def work(connection: Connection) -> list[float] | None:
            row = connection.execute(statement).first()
            return None if row is None else [row.token, row.until]

        given = self._access.write(name, work, serializable=False)
        return None if given is None else Lease(table, holder, int(given[0]), float(given[1]))


def _is_held(lease: Lease) -> Any:
    """Whether a row of `leases` still is this one: the token counts, not the name alone."""
    return and_(leases.c.table_name == lease.table, leases.c.holder == lease.holder, leases.c.token == lease.token)

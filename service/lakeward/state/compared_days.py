"""Days of tables beside Hudi's default, and their sums by month.

Touches: the database, through `StoreAccess`.
Keeps:   a day that is compared again replaces what was known of it.
See:     docs/decisions/0185-what-a-month-saved.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Row, and_, case, cast, func, select

from lakeward.base.quantities import DAY_SECONDS, format_month
from lakeward.state.access import StoreAccess, cut, fields_of
from lakeward.state.records import ComparedDay, MonthBesideHudi
from lakeward.state.store_tables import compared_days


class ComparedDays:
    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def record(self, compared: ComparedDay) -> None:
        row = {
            **fields_of(compared),
            "month": format_month(compared.day * DAY_SECONDS),
            "problem": cut(compared.problem),
        }
        row["table_name"] = row.pop("table")
        row["carried"] = None if compared.carried is None else dict(compared.carried)
        self._access.write("compared_day", lambda connection: self._access.upsert(connection, compared_days, [row]))

    def newest(self, tables: Iterable[str]) -> Mapping[str, ComparedDay]:
        """The newest day of each of these tables that has one."""
        of = compared_days.c
        last = select(of.table_name, func.max(of.day).label("day")).where(of.table_name.in_(list(tables)))
        found = last.group_by(of.table_name).subquery()
        query = select(compared_days).join(found, and_(of.table_name == found.c.table_name, of.day == found.c.day))
        return {day.table: day for day in map(_day, self._access.rows("newest_compared_days", query))}

    def months(self, table: str | None = None, *, since: float | None = None) -> tuple[MonthBesideHudi, ...]:
        """The newest month first.

        Args:
            since: days before are left out.
        """
        of = compared_days.c
        known, without_readers = of.problem.is_(None), and_(of.problem.is_(None), of.reader_seconds.is_(None))
        has_readers = func.count(case((without_readers, 1))) == 0
        query = select(
            of.table_name,
            of.month,
            func.count(case((known, 1))).label("days"),
            func.count(case((known, None), else_=1)).label("unknown_days"),
            *(
                cast(func.sum(each), BigInteger).label(name)
                for name, each in (
                    ("written_bytes", of.written_bytes),
                    ("hudi_written_bytes", of.hudi_written_bytes),
                    ("counted_bytes", of.real_bytes),
                    ("modelled_bytes", of.modelled_bytes),
                )
            ),
            *(func.sum(each).label(each.name) for each in (of.job_seconds, of.hudi_job_seconds)),
            *(
                case((has_readers, func.sum(each))).label(each.name)
                for each in (of.reader_seconds, of.hudi_reader_seconds)
            ),
            *(func.avg(case((known, each))).label(each.name) for each in (of.storage_bytes, of.hudi_storage_bytes)),
        )
        query = query.group_by(of.month, of.table_name).order_by(of.month.desc(), of.table_name)
        if table is not None:
            query = query.where(of.table_name == table)
        if since is not None:
            query = query.where(of.day >= since // DAY_SECONDS)
        rows = (dict(row._mapping) for row in self._access.rows("months_beside_hudi", query))
        return tuple(MonthBesideHudi(table=row.pop("table_name"), **row) for row in rows)


def _day(row: Row[Any]) -> ComparedDay:
    fields = dict(row._mapping)
    del fields["month"]
    return ComparedDay(table=fields.pop("table_name"), **fields)

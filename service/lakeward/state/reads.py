"""Reads of tables that engines reported, as counts of days.

    recent_reads    the digest of each read of the last two days: it counts once, however often it is reported
    read_days       how many reads each partition had on a day

Who reads is not kept: of requesters and applications nothing but that digest is written down.

Touches: the database, through `StoreAccess`.
Keeps:   1. a read counts once, however often it is reported;
         2. rows are bounded: `PARTITIONS_MAX` partitions of a table on a day.
See:     docs/decisions/0175-read-rates.md
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from lakeward.base.errors import UsageError
from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.access import StoreAccess, digest_of
from lakeward.state.records import ReadsOfDay
from lakeward.state.store_tables import read_days, recent_reads, storable

PARTITIONS_MAX = 2000
READ_SECONDS = 600.0
"""What one requester reads of a partition by one application within this grid is one read."""


class Reads:
    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def record(self, table: str, partitions: Collection[str], *, requester: str, application: str, at: float) -> int:
        """How many of them were not known. Raises `UsageError` where they are of too many partitions."""
        day = int(at // DAY_SECONDS)
        of = {
            digest_of_read(table, path, requester=requester, application=application, at=at): path
            for path in map(storable, partitions)
        }

        def work(connection: Connection) -> int:
            add = self._access.database.insert(recent_reads).on_conflict_do_nothing(index_elements=["digest"])
            rows = [{"digest": digest, "at": at} for digest in of]
            new = list(connection.execute(add.values(rows).returning(recent_reads.c.digest)).scalars())
            if not new:
                return 0
            here = read_days.c.table_name == table, read_days.c.day == day
            known = connection.execute(select(func.count()).select_from(read_days).where(*here)).scalar_one()
            if known + len(new) > PARTITIONS_MAX:
                paths = set(connection.execute(select(read_days.c.partition_path).where(*here)).scalars())
                if len(paths | {of[digest] for digest in new}) > PARTITIONS_MAX:
                    raise UsageError(
                        f"Reads of more than {PARTITIONS_MAX} partitions of {table} on one day are not kept.",
                        remedy="Leave the partitions out: the read counts for all of them.",
                    )
            counted = [{"table_name": table, "partition_path": of[digest], "day": day, "reads": 1} for digest in new]
            count = self._access.database.insert(read_days)
            more = {"reads": read_days.c.reads + 1}
            keys = ["table_name", "partition_path", "day"]
            connection.execute(count.on_conflict_do_update(index_elements=keys, set_=more), counted)
            return len(new)

        return self._access.write("record_reads", work)

    def days(self, table: str, *, since_day: int) -> tuple[ReadsOfDay, ...]:
        """Reads of each partition on each day from then on."""
        query = select(read_days).where(read_days.c.table_name == table, read_days.c.day >= since_day)
        query = query.order_by(read_days.c.partition_path, read_days.c.day)
        return tuple(
            ReadsOfDay(row.partition_path, row.day, row.reads) for row in self._access.rows("read_days", query)
        )


def digest_of_read(table: str, partition_path: str, *, requester: str, application: str, at: float) -> str:
    """Equal for what is one read, however often its engine asks for files."""
    words = table, partition_path, requester, application, int(at // READ_SECONDS)
    return digest_of(words)

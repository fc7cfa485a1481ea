"""How far the making of indexes is, so that one that was interrupted goes on where it stopped.

    begun --checkpoint of each file group--> ended: what it was made of is forgotten, that it was made stays

Touches: the database, through `StoreAccess`.
Keeps:   1. a build goes on only with the settings that it was begun with, and one that has ended never does;
         2. the first end of a build counts, and its checkpoints go with it;
         3. the newest checkpoint of a file group counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from lakeward.state.access import StoreAccess, cut, fields_of, plain
from lakeward.state.records import IndexBuildRecord, IndexCheckpoint
from lakeward.state.store_tables import index_builds, index_checkpoints


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

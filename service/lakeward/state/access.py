"""How every subject of the store reaches the database: one transaction a call, timed and reported.

Touches: the database, through `Database`.
Keeps:   1. each call is one transaction and may come from any thread;
         2. a write that was called once has happened once, also when the reply was lost on the way.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Row, Select, Table

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.state.engine import Database
from lakeward.state.records import FileGroupKey
from lakeward.state.store_tables import TABLE_ITSELF

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R")

TEXT_LENGTH_MAX = 8000
"""Characters of an error, a reason or an event that are kept; a longer one is cut."""

OnOperation = Callable[[str, float, str], None]
"""Called after each operation with its name, its seconds, and "ok" or "failed"."""


def digest_of(value: object, *, bytes_: int = 16) -> str:
    """Equal for values that are written alike."""
    return hashlib.blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=bytes_).hexdigest()


class StoreAccess:
    """One database for all subjects: reads and writes by their names, which are the labels of the store's metrics."""

    def __init__(self, database: Database, *, clock: Clock, on_operation: OnOperation | None = None) -> None:
        self.database = database
        self._clock = clock
        self._on_operation = on_operation

    def read(self, name: str, work: Callable[[Connection], R]) -> R:
        return self._observed(name, lambda: self.database.read(work))

    def rows(self, name: str, query: Select[Any]) -> Sequence[Row[Any]]:
        return self.read(name, lambda connection: connection.execute(query).all())

    def write(
        self, name: str, work: Callable[[Connection], R], *, serializable: bool = True, write_id: str | None = None
    ) -> R:
        at = self._clock.now()
        return self._observed(
            name, lambda: self.database.write(work, at=at, serializable=serializable, write_id=write_id)
        )

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

    def insert_new(self, name: str, table: Table, row: Mapping[str, Any]) -> None:
        keys = [column.name for column in table.primary_key]
        statement = self.database.insert(table).values(**row).on_conflict_do_nothing(index_elements=keys)
        self.write(name, lambda connection: execute(connection, statement))

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        keys = [column.name for column in table.primary_key]
        insert = self.database.insert(table)
        others = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=others), list(rows))


def execute(connection: Connection, statement: Any) -> None:
    connection.execute(statement)


def fields_of(value: DataclassInstance) -> dict[str, Any]:
    """One level deep, where `asdict` would copy everything below."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def plain(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """What JSON holds of `fields`; anything else as its text."""
    text = json.dumps(dict(fields or {}), default=str)
    plain: dict[str, Any] = json.loads(text, parse_constant=str)  # NaN is no JSON, and PostgreSQL says so
    return plain


def cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 1] + "…"


def group_of(row: Row[Any]) -> FileGroupKey | None:
    return None if row.file_id in (None, TABLE_ITSELF) else (row.partition_path, row.file_id)

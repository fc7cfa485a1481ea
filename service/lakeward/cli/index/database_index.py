"""An index of a table in the PostgreSQL database of the store, opened for a verb.

Touches: the configuration; the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile, Refused, Unsupported
from lakeward.cli.index.builds import under_way_told
from lakeward.cli.options.store import AWAY, store_url
from lakeward.index.build_state import build_folder
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.index.index_type import INDEX_NAME, REBUILT_NAME, IndexType
from lakeward.index.key_changes.table_commits import Staleness
from lakeward.index.key_changes.unseen_commits import index_staleness
from lakeward.index.opening import open_index
from lakeward.index.out_of_use import why_out_of_use
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.services.indexing.judge.cost import PutByCommits
from lakeward.services.indexing.judge.listing import IndexState, ListedIndex, unreadable
from lakeward.services.indexing.settings import record_options_of
from lakeward.state.engine import open_database
from lakeward.state.index_entries import create_entries, drop_entries, list_indexes, open_entries, opened_entries

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.index.index import Index
    from lakeward.state.engine import Database
    from lakeward.table.snapshot import TableSnapshot

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The database of an index of type postgres, as postgresql://user@host/database. Not given: the store of "
        "the configuration. A password belongs into the configuration's url_file or the environment.",
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--keys-per-second", min=1, metavar="N", help="Most queries per second to the database; default no limit."
    ),
]


@contextmanager
def index_database(opened: ConfiguredTable, url: str | None) -> Iterator[Database]:
    database = open_database(store_url(url, opened.settings), create=False)
    try:
        yield database
    finally:
        database.close()


def opens_external(
    opened: ConfiguredTable, database: Database, rate: float | None, *, name: str = INDEX_NAME
) -> Callable[[TableSnapshot], ExternalIndex]:
    """Opens the index as of a snapshot. Raises `UsageError` where there is none."""
    entries = open_entries(database, opened.base_path, name)
    limit = RateLimit(rate, clock=SystemClock())
    return lambda snapshot: ExternalIndex.of(entries, opened.storage, snapshot, limit=limit)


@contextmanager
def index_opener(
    opened: ConfiguredTable, kind: IndexType, url: str | None, *, is_judged: bool = False, with_logs: bool = False
) -> Iterator[Callable[[TableSnapshot], Index]]:
    """Opens the index of a type as of a snapshot, for lookups: with what it does not have yet laid over it."""
    with ExitStack() as databases:
        entries = None
        if kind is IndexType.POSTGRES:
            place = store_url(url, opened.settings)
            entries = databases.enter_context(opened_entries(place, opened.base_path, INDEX_NAME))
        yield partial(_opened, opened, kind, entries=entries, is_judged=is_judged, with_logs=with_logs)


def _opened(opened: ConfiguredTable, kind: IndexType, snapshot: TableSnapshot, **how: Any) -> Index:
    record = record_options_of(opened.table)
    return open_index(opened.storage, snapshot, kind, clock=SystemClock(), record=record, **how)


def put_in_database(opened: ConfiguredTable, url: str | None, number: int) -> PutByCommits:
    """What so many of the newest commits put into the index."""
    with opened_entries(store_url(url, opened.settings), opened.base_path, INDEX_NAME) as entries:
        return PutByCommits(*entries.newest_put(number))


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    opened: ConfiguredTable
    database: Database
    rate: float | None
    name: str = INDEX_NAME

    @property
    def build_folder(self) -> str:
        return build_folder(self.opened.base_path, IndexType.POSTGRES, record_options_of(self.opened.table))

    def is_there(self) -> bool:
        return any(each.name == self.name for each in list_indexes(self.database, self.opened.base_path))

    def create(self, *, is_global: bool) -> None:
        create_entries(self.database, self.opened.base_path, self.name, is_global=is_global)

    def open(self, snapshot: TableSnapshot) -> ExternalIndex:
        return opens_external(self.opened, self.database, self.rate, name=self.name)(snapshot)

    def drop(self) -> bool:
        was_there = self.is_there()
        for name in {REBUILT_NAME, self.name}:
            drop_entries(self.database, self.opened.base_path, name)
        if self.name == INDEX_NAME:
            self.opened.storage.delete_folder(self.build_folder)
            index_in_use(self.opened, IndexType.POSTGRES)
        return was_there

    def beside(self) -> DatabasePlace:
        other = replace(self, name=REBUILT_NAME)
        other.drop()
        return other

    def take_place(self) -> None:
        open_entries(self.database, self.opened.base_path, self.name).take_place_of(INDEX_NAME)
        index_in_use(self.opened, IndexType.POSTGRES)


def index_in_use(opened: ConfiguredTable, kind: IndexType) -> None:
    """An index of Lakeward's is another one by now, or there is none: what was found of it holds no more."""
    put_in_use(opened.storage, opened.base_path, kind, record_options_of(opened.table))


def listed_in_database(opened: ConfiguredTable, snapshot: TableSnapshot, url: str | None) -> tuple[ListedIndex, ...]:
    """The indexes of the table in the database that is named, or that the store is in. If the store does not answer,
    the list has none of them, and a note says so.
    """
    if url is None and not opened.settings.store_url.startswith("postgresql"):
        return ()

    try:
        with index_database(opened, url) as database:
            rows = list_indexes(database, opened.base_path)
            behind, indexed = Staleness(), Indexed()
            if any(row.name == INDEX_NAME for row in rows):
                indexed = opens_external(opened, database, None)(snapshot).indexed()
                behind = index_staleness(opened.storage, snapshot, indexed, clock=SystemClock())
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.POSTGRES, error),)
    except AWAY as error:
        if url is not None:
            raise
        typer.echo(f"The store does not say which indexes it has of the table: {error}", err=True)
        return ()
    in_use = INDEX_NAME if indexed != Indexed() else None
    why = why_out_of_use(opened.storage, opened.base_path, IndexType.POSTGRES, record_options_of(opened.table))
    folder = build_folder(opened.base_path, IndexType.POSTGRES, record_options_of(opened.table))
    under_way = under_way_told(opened, snapshot, folder)
    return tuple(
        ListedIndex(
            IndexType.POSTGRES.value,
            row.name,
            (IndexState.IN_USE if why is None else IndexState.OUT_OF_USE)
            if row.name == in_use
            else IndexState.BUILDING,
            True,
            "table" if row.is_global else "partition",
            None,
            None,
            "",
            row.entry_bytes,
            behind.commits if row.name == INDEX_NAME else None,
            (why if row.name == in_use else None)
            or f"About {row.entries:,} entries, as the database estimates.{'' if row.name == in_use else under_way}",
            behind.bytes,
            behind.seconds,
        )
        for row in rows
    )

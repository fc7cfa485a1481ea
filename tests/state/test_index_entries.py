"""Entries of indexes in a real PostgreSQL: whole commits or nothing, wherever a process dies; nothing is left over."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from lakeward.base.errors import StoreVersion, TryLater, Unsupported, UsageError
from lakeward.state import index_entries
from lakeward.state.engine import Database, open_database, parse_store_url
from lakeward.state.index_entries import IndexEntries, create_entries, drop_entries, list_indexes, open_entries
from lakeward.state.migration import migrate
from lakeward.state.postgres_arrays import Binaries, Integers, binary_cursor, integers, texts
from lakeward.state.store import open_store
from tests.clocks import SkippingClock
from tests.servers import DroppingProxy, PostgresServer

pytestmark = pytest.mark.services

TABLE = "/lake/orders"
T1, T2 = "20260101000100000", "20260101000200000"

Change = tuple[str, str | None, str | None]


class Died(BaseException):
    """The process ended."""


@pytest.fixture
def database(postgresql_url: str) -> Iterator[Database]:
    database = open_database(postgresql_url)
    yield database
    database.close()


@pytest.fixture
def entries(database: Database) -> IndexEntries:
    return create_entries(database, TABLE, "keys", is_global=True)


def batch(*changes: Change) -> pa.RecordBatch:
    columns = [*zip(*changes, strict=True), [None] * len(changes)]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], [*"kpfi"])


def update(entries: IndexEntries, instant: str, *batches: pa.RecordBatch, completed: str | None = None) -> None:
    attempt = entries.begin(instant)
    for each in batches:
        entries.put(attempt, each)
    entries.finish(attempt, completed)


def rows(found: pa.RecordBatch) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


def count(database: Database, table: str) -> int:
    def read(connection: Any) -> int:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM lakeward_index.{table}").scalar_one())

    return database.read(read)


def test_columns_come_back_as_they_were_sent(postgresql_url: str) -> None:
    """Keeps 1 and 2 of state/postgres_arrays: texts of any length and script, also out of the midst of an array, and
    integers; none at all; and an array that holds a null is not misread."""
    words = pa.array(["left out", "", "a", "Schlüssel", "\x00\x01", "鍵" * 3000, "😀"]).slice(1)
    numbers = np.array([1, -5, 2**31 - 1, -(2**31), 0, 7], np.int32)
    with psycopg.connect(postgresql_url) as connection:
        cursor = binary_cursor(connection)
        for of, at in ((words, numbers), (words.slice(0, 0), numbers[:0])):
            row = cursor.execute(
                "SELECT string_agg(w, ''::bytea ORDER BY i), array_agg(octet_length(w) ORDER BY i),"
                " array_agg(n ORDER BY i)"
                " FROM unnest(%(words)s, %(numbers)s) WITH ORDINALITY AS sent (w, n, i)",
                {"words": Binaries.of(of), "numbers": Integers.of(at)},
            ).fetchone()
            assert row is not None
            assert texts(row[0], integers(row[1])).equals(of.take(pa.array(range(len(of)), pa.int64())))
            assert integers(row[2]).tolist() == at.tolist()
        (nulls,) = cursor.execute("SELECT array_agg(n) FROM (VALUES (1), (NULL)) v (n)").fetchone() or (b"",)
        with pytest.raises(AssertionError, match="another array"):
            integers(nulls)


def test_what_the_indexes_of_a_table_have(database: Database, postgresql_url: str) -> None:
    """The store says of each what is settled and what is whole besides, and nothing of one that was not built, that
    is of another table, or was dropped; a store in a file has none."""
    migrate(postgresql_url)
    store = open_store(postgresql_url, clock=SkippingClock())
    assert store.index_watermarks(TABLE) == {}
    entries = create_entries(database, TABLE, "keys", is_global=True)
    entries.begin(T1)
    assert store.index_watermarks(TABLE) == {}
    entries.finish_settled(entries.begin(T1), T1)
    entries.finish(entries.begin(T2), None)
    assert store.index_watermarks(TABLE) == {"keys": (T1, {T2: None})} == {"keys": entries.commits()}
    assert store.index_watermarks("/lake/others") == {}
    drop_entries(database, TABLE, "keys")
    assert store.index_watermarks(TABLE) == {}
    store.close()
    assert open_store("sqlite://", clock=SkippingClock()).index_watermarks(TABLE) == {}


def test_what_commits_put(entries: IndexEntries) -> None:
    """The rows of the newest commits that are whole and not settled, counted, and by their sizes; an attempt that is
    under way, and what was built, are none."""
    assert entries.newest_put(20) == (0, 0, 0)
    entries.finish_settled(entries.begin(T1), T1)
    update(entries, T2, batch(("k1", "p", "a-0"), ("k2", "p", "a-0")))
    *counted, size = entries.newest_put(20)
    assert counted == [1, 2] and size > 2 * len("k1") + 2 * 12
    update(entries, "20260101000300000", batch(("k" * 1000, "p", "a-0")))
    entries.put(entries.begin("20261121060000000"), batch(("k9", "p", "a-0")))
    *both, size_of_both = entries.newest_put(20)
    *newest, size_of_newest = entries.newest_put(1)
    assert (both, newest) == ([2, 3], [1, 1])
    assert size_of_both == size + size_of_newest and size_of_newest > 1000


def test_an_index_takes_the_place_of_another(database: Database) -> None:
    """In one step: before it the old one is the one of that name, after it the new one, and of the old one nothing is
    left; done again, it gives the same, and one that was dropped takes no place."""
    old = create_entries(database, TABLE, "keys", is_global=True)
    update(old, T1, batch(("k1", "p", "a-0")))
    others = create_entries(database, "/lake/others", "keys", is_global=True)
    new = create_entries(database, TABLE, "keys.rebuilt", is_global=True)
    update(new, T2, batch(("k1", "p", "b-0")))
    assert rows(open_entries(database, TABLE, "keys").get(pa.array(["k1"]))) == [("k1", "p", "a-0", T1, False)]
    for _ in range(2):
        new.take_place_of("keys")
        assert [(each.base_path, each.name) for each in list_indexes(database)] == [
            ("/lake/orders", "keys"),
            ("/lake/others", "keys"),
        ]
        assert rows(open_entries(database, TABLE, "keys").get(pa.array(["k1"]))) == [("k1", "p", "b-0", T2, False)]
    with pytest.raises(TryLater, match="The index that was built is gone"):
        old.take_place_of("keys")
    with pytest.raises(TryLater, match="The index is there no more"):
        old.get(pa.array(["k1"]))
    update(others, T1, batch(("k1", "p", "a-0")))


def test_an_index_is_created_listed_and_dropped(database: Database) -> None:
    """It is made once, is one of its table and name, and of it nothing is left."""
    assert list_indexes(database) == []
    with pytest.raises(UsageError, match=f"has no index keys of {TABLE}"):
        open_entries(database, TABLE, "keys")
    drop_entries(database, TABLE, "keys")

    entries = create_entries(database, TABLE, "keys", is_global=True)
    update(entries, T1, batch(("k1", "p", "a-0")))
    create_entries(database, TABLE, "keys", is_global=True)
    create_entries(database, "/lake/others", "keys", is_global=False)
    assert [(each.base_path, each.name, each.is_global) for each in list_indexes(database)] == [
        ("/lake/orders", "keys", True),
        ("/lake/others", "keys", False),
    ]
    (row,) = list_indexes(database, TABLE)
    assert row.entry_bytes > 0
    assert rows(open_entries(database, TABLE, "keys").get(pa.array(["k1"]))) == [("k1", "p", "a-0", T1, False)]
    with pytest.raises(UsageError, match="with the other scope") as caught:
        create_entries(database, TABLE, "keys", is_global=False)
    assert "unique in the whole table" in caught.value.why

    drop_entries(database, TABLE, "keys")
    drop_entries(database, "/lake/others", "keys")
    assert list_indexes(database) == []
    assert count(database, "commits") == 0

    def tables(connection: Any) -> list[str]:
        found = connection.exec_driver_sql("SELECT relname FROM pg_class WHERE relname ~ '_[0-9]+'").scalars()
        return [name for name in found if not name.startswith("pg_")]

    assert database.read(tables) == []


def test_an_index_of_another_release_is_not_touched(database: Database, entries: IndexEntries) -> None:
    """Its format is kept with it."""
    statement = "UPDATE lakeward_index.indexes SET format = 2"
    database.repeat(lambda connection: connection.exec_driver_sql(statement).rowcount)
    with pytest.raises(StoreVersion, match="of another release"):
        open_entries(database, TABLE, "keys")


def test_it_is_not_for_sqlite() -> None:
    """A file that one process writes is no store of an index."""
    database = open_database("sqlite://")
    with pytest.raises(UsageError, match="needs a PostgreSQL database"):
        create_entries(database, TABLE, "keys", is_global=True)
    database.close()


def test_a_key_that_is_too_long_is_refused(entries: IndexEntries) -> None:
    """It is refused before it is written; the longest that fits is found again."""
    letters = random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=index_entries.KEY_BYTES_MAX + 1)
    longest = "".join(letters[:-1])
    update(entries, T1, batch((longest, "p", "a-0")))
    assert rows(entries.get(pa.array([longest]))) == [(longest, "p", "a-0", T1, False)]
    with pytest.raises(Unsupported, match="A record key of 2001 bytes"):
        entries.put(entries.begin(T2), batch(("".join(letters), "p", "a-0")))


def test_the_list_is_read_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of state/index_entries: each page has all entries of its keys, by key as bytes, and what is dropped goes
    so many rows at a time."""
    monkeypatch.setattr(index_entries, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(index_entries, "_SWEPT_AT_ONCE", 10)
    entries = create_entries(database, TABLE, "keys", is_global=False)
    keys = [f"k{number:02}ß" for number in range(30)]
    for instant in (T1, T2):
        update(entries, instant, batch(*((key, partition, "a-0") for key in keys for partition in "pq")))
    pages = list(entries.scan())
    assert [page.num_rows for page in pages] == [8] * 15
    of_pages = [page.column(0).to_pylist() for page in pages]
    assert [key for page in of_pages for key in sorted(set(page))] == keys

    entries.forget(T2)
    assert count(database, "entries_1") == 60
    assert {instant for page in entries.scan() for instant in page.column(3).to_pylist()} == {T1}


def test_another_process_ends_own(database: Database, entries: IndexEntries) -> None:
    """Keeps 2 of state/index_entries: two that change one index do not mix: the one that began first fails."""
    attempt = entries.begin(T1)
    entries.put(attempt, batch(("k1", "p", "a-0")))
    update(open_entries(database, TABLE, "keys"), T1, batch(("k2", "p", "b-0")), completed=T1)
    with pytest.raises(TryLater, match="Another process changes the index"):
        entries.put(attempt, batch(("k1", "p", "a-0")))
    with pytest.raises(TryLater, match="Another process changes the index"):
        entries.finish(attempt, T1)
    assert rows(entries.get(pa.array(["k1", "k2"]))) == [("k2", "p", "b-0", T1, False)]


@pytest.mark.parametrize("is_done", [False, True], ids=["before it", "after it"])
def test_a_process_that_dies_at_any_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """Keeps 1 of state/index_entries: stopped at each statement of a commit, of forgetting one and of settling: what is
    found is what was there, or all of it; done again it is all of it, and nothing is left over."""
    left = [-1]

    class Cursor:
        def __init__(self, connection: psycopg.Connection[Any]) -> None:
            self._cursor = binary_cursor(connection)

        def execute(self, *arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and not is_done:
                raise Died
            result = self._cursor.execute(*arguments)
            if left[0] == 0:
                raise Died
            return result

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    monkeypatch.setattr(index_entries, "binary_cursor", Cursor)
    keys = pa.array(["k1", "k2", "k3"])
    before = [("k1", "p", "a-0"), ("k2", "p", "a-0")]
    after = [("k1", "q", "b-0"), ("k2", None, None), ("k3", "q", "b-0")]

    def commit(entries: IndexEntries) -> None:
        update(entries, T2, batch(("k1", "q", "b-0")), batch(("k2", None, None), ("k3", "q", "b-0")), completed=T2)

    def found(entries: IndexEntries) -> list[tuple[object, ...]]:
        newest = {row[0]: row[:3] for row in sorted(rows(entries.get(keys)), key=lambda row: str(row[3]))}
        return sorted(newest.values(), key=str)

    steps = [
        (commit, before, after, 5),
        (lambda entries: entries.forget(T2), after, before, 2),
        (lambda entries: entries.settle(T1, T1), before, before, 2),
        (commit, before, after, 5),
        (lambda entries: entries.settle(T2, T2), after, [after[0], after[2]], 2),
    ]
    create_entries(database, TABLE, "keys", is_global=True)
    update(open_entries(database, TABLE, "keys"), T1, batch(*before), completed=T1)
    deaths = 0
    for step, was, becomes, expected in steps:
        for number in range(1, 1000):
            entries = open_entries(database, TABLE, "keys")
            left[0] = number
            try:
                step(entries)
            except Died:
                deaths += 1
                left[0] = -1
                assert found(entries) in (was, becomes)
                if step is commit:  # otherwise it would be put over one that is whole
                    entries.forget(T2)
                    assert found(entries) == was
                continue
            left[0] = -1
            break
        assert found(entries) == becomes
        assert count(database, "entries_1") == expected
    assert deaths > 40
    assert count(database, "commits") == 2


def test_a_lost_reply_and_a_restart(postgresql_server: PostgresServer, postgresql_url: str) -> None:
    """The connection breaks, and whether a batch or the end of a commit arrived is unknown: each is done again
    and gives the same; a server that restarts in between is connected to again."""
    proxy = DroppingProxy(postgresql_server)
    database = open_database(proxy.url(str(parse_store_url(postgresql_url).database)))
    entries = create_entries(database, TABLE, "keys", is_global=True)
    for needle in (
        "INSERT INTO lakeward_index.commits",
        "SELECT DISTINCT ON",
        "UPDATE lakeward_index.commits SET state = $1",
    ):
        proxy.drop_after(needle)
        update(entries, T1, batch(("k1", "p", "a-0")), batch(("k2", "p", needle)), completed=T1)
        assert rows(entries.get(pa.array(["k1", "k2"]))) == [
            ("k1", "p", "a-0", T1, False),
            ("k2", "p", needle, T1, False),
        ]
    assert proxy.dropped == 3

    attempt = entries.begin(T2)
    entries.put(attempt, batch(("k3", "p", "a-0")))
    postgresql_server.down()
    postgresql_server.up()
    entries.put(attempt, batch(("k4", "p", "a-0")))
    entries.finish(attempt, T2)
    assert [row[0] for page in entries.scan() for row in rows(page)] == ["k1", "k2", "k3", "k4"]
    assert entries.commits() == (None, {T1: T1, T2: T2})
    database.close()
    proxy.close()

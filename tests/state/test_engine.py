"""A database is opened soundly, used in whole transactions, and asked again when it fell silent."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, QueuePool, create_engine, insert, select, text, update

from lakeward.base.errors import LakewardError, StoreBroken, StoreUnavailable, UsageError
from lakeward.state.engine import Database, open_database, parse_store_url, shown_url
from lakeward.state.migration import migrate
from lakeward.state.store import Store, open_store
from lakeward.state.store_tables import applied_writes, events, plannings
from tests.clocks import SettableClock
from tests.servers import DroppingProxy, PostgresServer
from tests.state.state_records import pause

SECRET = "hunter2-canary"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = open_database(url)
    yield database
    database.close()


def add_event(connection: Connection) -> int:
    row = insert(events).values(at=1.0, kind="k", text="t", fields={})
    return int(connection.execute(row.returning(events.c.id)).scalar_one())


def count(connection: Connection) -> int:
    return len(connection.execute(select(events.c.id)).all())


def count_events(database: Database) -> int:
    return database.read(count)


# ---- SQLite


def test_a_file_is_private_and_durable(tmp_path: Path) -> None:
    """Keeps 3 of state/engine: only its owner reads it, from the first moment; every connection syncs as much as
    SQLite can."""
    path = tmp_path / "new" / "lakeward.db"
    database = open_database(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with database.engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "truncate", "synchronous": 3, "busy_timeout": 5000, "foreign_keys": 1}
    database.close()

    path.chmod(0o644)
    open_database(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_takes_the_lock_when_it_begins(tmp_path: Path) -> None:
    """It begins with BEGIN IMMEDIATE: two writers never meet half-way, and a reader does not wait for one that has just
    begun."""
    url = f"sqlite:///{tmp_path}/lakeward.db"
    migrate(url)
    database = open_database(url)
    begun: list[str] = []

    def work(connection: Connection) -> None:
        other = sqlite3.connect(tmp_path / "lakeward.db", timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            begun.append(str(error))
        other.execute("SELECT count(*) FROM events").fetchall()
        other.close()

    database.write(work, at=1.0)
    assert begun == ["database is locked"]
    database.close()


@pytest.mark.parametrize("damage", ["garbage", "page"])
def test_a_damaged_file_is_never_written(tmp_path: Path, damage: str) -> None:
    """Keeps 4 of state/engine: the error names the file and says what SQLite said and what to do."""
    path = tmp_path / "lakeward.db"
    url = f"sqlite:///{path}"
    migrate(url)
    data = bytearray(path.read_bytes())
    if damage == "garbage":
        data[:100] = b"x" * 100
    else:
        data[4096 : 4096 + 6000] = os.urandom(6000)  # the first tables; further behind are free pages
    path.write_bytes(data)
    with pytest.raises(StoreBroken, match=r"lakeward\.db is damaged") as caught:
        open_database(url)
    assert "state rebuild" in caught.value.remedy
    assert path.read_bytes() == bytes(data)


def test_a_folder_that_cannot_be_made_is_shown(tmp_path: Path) -> None:
    """The error has no traceback, but where, why and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be opened") as caught:
        open_database(f"sqlite:///{tmp_path}/file/lakeward.db")
    assert "URL" in caught.value.remedy


def test_a_file_that_stays_busy_is_an_error_in_time(tmp_path: Path) -> None:
    """Keeps 2 of state/engine: another process holds the file for ever: the caller gets an error after its timeout,
    not later."""
    path = tmp_path / "lakeward.db"
    migrate(f"sqlite:///{path}")
    holding = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
    holding += "c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holding, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        url = f"sqlite:///{path}"
        engine = create_engine(url, connect_args={"timeout": 0.05})
        database = Database(engine, parse_store_url(url), timeout=0.3)
        with pytest.raises(StoreUnavailable, match="locked"):
            database.write(add_event, at=1.0)
        process.stdin.close()
    assert database.write(add_event, at=1.0) == 1
    database.close()


def test_a_lost_commit_on_sqlite_is_not_done_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Keeps 1 of state/engine, and Keeps 2 of state/access: an I/O error after the commit took effect: the next
    try finds the write's id and gives the first result."""
    url = f"sqlite:///{tmp_path}/lakeward.db"
    migrate(url)
    database = open_database(url)
    commit = database.engine.dialect.do_commit
    lost: list[bool] = []

    def commit_and_fail(connection: Any) -> None:
        commit(connection)
        if not lost:
            lost.append(True)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    database.engine.dialect.do_commit = commit_and_fail  # type: ignore[method-assign]
    assert database.write(add_event, at=1.0) == 1
    assert lost
    assert count_events(database) == 1
    assert capfd.readouterr() == ("", ""), "a try that is repeated is no message on stdout"
    assert database.write(add_event, at=1.0) == 2
    database.close()


def test_a_failed_write_leaves_nothing(database: Database) -> None:
    """It is one transaction: an error in it rolls all of it back, with the write's id."""

    def work(connection: Connection) -> None:
        add_event(connection)
        raise RuntimeError("broken assumption")

    with pytest.raises(RuntimeError):
        database.write(work, at=1.0)
    assert count_events(database) == 0
    assert database.read(lambda connection: connection.execute(select(applied_writes)).all()) == []


# ---- both


def test_two_that_read_before_they_write_do_not_lose_an_update(url: str) -> None:
    """Six threads on two connections pools add one each, twenty times; PostgreSQL makes some of them try again."""
    databases = [open_database(url), open_database(url)]
    row = {"table_name": "counter", "planned_at": 0.0, "instant": None, "file_groups": 0}
    databases[0].write(lambda connection: _run(connection, insert(plannings).values(**row)), at=1.0)

    def add_one(connection: Connection) -> None:
        count = connection.execute(select(plannings.c.file_groups)).scalar_one()
        connection.execute(update(plannings).values(file_groups=count + 1))

    failed: list[LakewardError] = []

    def add_many(database: Database) -> None:
        try:
            for _ in range(10):
                database.write(add_one, at=1.0)
        except LakewardError as error:
            failed.append(error)

    threads = [threading.Thread(target=add_many, args=(databases[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    counted = databases[0].read(lambda connection: connection.execute(select(plannings.c.file_groups)).scalar_one())
    assert counted == 40
    for database in databases:
        database.close()


def _run(connection: Connection, statement: Any) -> None:
    connection.execute(statement)


# ---- PostgreSQL


@pytest.fixture
def server_url(postgresql_url: str) -> str:
    migrate(postgresql_url)
    return postgresql_url


@pytest.mark.services
@pytest.mark.parametrize("moment", ["COMMIT", "INSERT INTO events"])
def test_a_lost_reply_is_not_done_twice(
    postgresql_server: PostgresServer, server_url: str, moment: str, clock: SettableClock
) -> None:
    """The connection breaks after the server did what it was asked: once in the end, with the first result."""
    name = server_url.partition("@/")[2].partition("?")[0]
    proxy = DroppingProxy(postgresql_server)
    database = open_database(proxy.url(name))
    assert database.write(add_event, at=1.0) == 1
    proxy.drop_after(moment)
    second = database.write(add_event, at=1.0)
    assert proxy.dropped == 1
    # What was rolled back has used up a number of the sequence; what was committed is found again.
    assert second == (2 if moment == "COMMIT" else 3)
    assert count_events(database) == 2

    store = open_store(proxy.url(name), clock=clock)
    for call in (lambda: store.controls.add(pause()), lambda: store.leases.acquire("orders", "h", 60, 0.0)):
        proxy.drop_after("COMMIT")
        assert call() is not None, "the result of the first try is found, not 'it is held'"
    assert proxy.dropped == 3
    assert len(store.controls.in_force(clock.now())) == 1
    store.close()
    database.close()
    proxy.close()


@pytest.mark.services
def test_a_killed_backend_is_replaced(postgresql_server: PostgresServer, server_url: str) -> None:
    """An administrator, a fail-over or a restart ends our connections; the caller does not notice."""
    database = open_database(server_url)
    killing = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.url.database}'"
    for _ in range(3):
        before = count_events(database)
        postgresql_server.execute(killing)
        database.write(add_event, at=1.0)
        postgresql_server.execute(killing)
        assert count_events(database) == before + 1
    database.close()


@pytest.mark.services
def test_a_commit_that_is_still_in_flight_is_waited_for(postgresql_server: PostgresServer, server_url: str) -> None:
    """The second try of a write meets the first one's id before that has committed: it waits, and does nothing."""
    database = open_database(server_url)
    first = database.engine.connect()
    first.execute(text("INSERT INTO applied_writes (id, at, result) VALUES ('same', 1, '7')"))
    committing = threading.Timer(0.2, first.commit)
    committing.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakeward.state.engine.uuid.uuid4", lambda: type("Id", (), {"hex": "same"}))
        assert database.write(add_event, at=1.0) == 7
    committing.join()
    first.close()
    assert count_events(database) == 0
    database.close()


@pytest.mark.services
def test_leases_go_by_the_servers_clock(server_url: str, clock: SettableClock) -> None:
    """A daemon whose own clock is years off neither takes a lease early nor keeps it late."""
    store = open_store(server_url, clock=clock)
    lease = store.leases.acquire("orders", "h1", 60, now=0.0)
    assert lease is not None
    assert lease.until > 1_700_000_000
    assert store.leases.acquire("orders", "h2", 60, now=9e9) is None
    assert [each.holder for each in store.leases.held(9e9)] == ["h1"]
    store.close()


@pytest.mark.services
def test_a_server_that_comes_back_is_written_to_again() -> None:
    """It was stopped, or a standby meanwhile: every call but those in between does what it was asked."""
    with PostgresServer() as server:
        migrate(server.url())
        database = open_database(server.url(), timeout=0.5)
        database.write(add_event, at=1.0)
        server.down()
        with pytest.raises(StoreUnavailable):
            database.read(count)
        server.up()
        database.write(add_event, at=2.0)

        server.down()
        server.up(standby=True)
        assert database.read(count) == 2
        with pytest.raises(StoreUnavailable, match=r"hot standby|during recovery|read-only"):
            database.write(add_event, at=3.0)
        assert isinstance(database.engine.pool, QueuePool)
        assert database.engine.pool.checkedin() == 0, "the next try asks again which server takes writes"
        server.execute("SELECT pg_promote()")
        database.write(add_event, at=4.0)
        assert database.read(count) == 3
        database.close()


@pytest.mark.services
def test_a_server_that_is_gone_is_an_error_in_time() -> None:
    """The caller gets an error after its timeout, with what to check; nothing hangs."""
    with PostgresServer() as server:
        migrate(server.url())
        database = open_database(server.url(), timeout=0.5)
        database.write(add_event, at=1.0)
    with pytest.raises(StoreUnavailable, match="URL, user and password"):
        database.write(add_event, at=1.0)
    with pytest.raises(StoreUnavailable, match="URL, user and password"):
        open_database(server.url())
    database.close()


# ---- URLs and secrets


def test_no_password_is_shown(tmp_path: Path) -> None:
    """Keeps 5 of state/engine: not in the name, not in an error, not in a representation: wherever in the URL it
    stands."""
    urls = (
        f"postgresql://ada:{SECRET}@/db?host={tmp_path}&connect_timeout=1",
        f"postgresql://ada@/db?host={tmp_path}&password={SECRET}&connect_timeout=1",
    )
    for url in urls:
        assert SECRET not in shown_url(parse_store_url(url))
        assert SECRET not in repr(Database(create_engine("sqlite://"), parse_store_url(url)))
        with pytest.raises(StoreUnavailable) as caught:
            open_database(url)
        assert SECRET not in str(caught.value)
        assert "ada" in str(caught.value)


@pytest.mark.parametrize(
    "url", [f"mysql://ada:{SECRET}@db/x", f"not a url {SECRET}", f"postgresql://u:{SECRET}@h:port/x"]
)
def test_only_sqlite_and_postgresql(url: str) -> None:
    """Anything else is refused with two examples."""
    with pytest.raises(UsageError, match="sqlite:////") as caught:
        open_database(url)
    assert SECRET not in str(caught.value)


def test_urls_are_shown_as_they_are_written() -> None:
    """The driver is our business."""
    assert shown_url(parse_store_url("postgres://ada:x@db/lakeward")) == "postgresql://ada:[hidden]@db/lakeward"
    assert shown_url(parse_store_url("sqlite:////var/lib/x.db")) == "sqlite:////var/lib/x.db"


def test_a_store_says_where_it_is(store: Store) -> None:
    """Its name is the URL that was given, in its one form."""
    assert store.name.startswith(("postgresql://", "sqlite:///"))

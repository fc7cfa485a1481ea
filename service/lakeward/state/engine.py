"""One database behind the store: opened, checked, used in whole transactions, and asked again when it fell silent.

A transaction is tried again when the database says that trying again helps (a serialization failure, a deadlock, a
busy file) and when the connection is lost. After a lost connection it is unknown whether COMMIT arrived, so every
write carries an id of its own, and its first statement writes that id down:

    BEGIN -> insert the id -> (new) work, keep the result with the id -> COMMIT -> result
                           -> (there already) the lost COMMIT had arrived: the result that was kept

PostgreSQL makes the second insert wait for a first one that is still in flight, so the result is never a guess.

A SQLite file is known by its device and inode. One that is gone is rewritten out of a connection that still has it,
so nothing is lost with its name; one that was put in its place is opened and checked as at the start.

Touches: the database; of SQLite the file with its folder, of PostgreSQL the network.
Keeps:   1. a write happens once, however often its transaction is tried;
         2. tries end: after `timeout` seconds the caller gets StoreUnavailable;
         3. SQLite: BEGIN IMMEDIATE for writes, one writer at a time in the process, journal mode TRUNCATE and
            synchronous EXTRA (the WAL of SQLite before 3.51.3 can lose pages), a file that only its owner reads;
         4. a file that fails its integrity check is never written;
         5. no password is in an error or in a representation;
         6. a file in the place of Lakeward is used only after it was checked, and one that another process may be
            putting
            there is waited for; a server that takes no writes any more is connected to again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import stamina
from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    Engine,
    Table,
    cast,
    create_engine,
    event,
    exc,
    func,
    literal,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import ColumnElement

from lakeward.base.errors import LakewardError, StoreBroken, StoreUnavailable, StoreVersion, UsageError
from lakeward.base.printable import encodings, printable, printable_url, secrets_in
from lakeward.state.store_tables import applied_writes

if TYPE_CHECKING:  # PostgreSQL's part is loaded for a URL of its own: most stores are a file
    import psycopg
    from sqlalchemy.dialects import postgresql

R = TypeVar("R")

TIMEOUT_SECONDS = 30.0
TRIES_MAX = 30
BUSY_SECONDS = 5.0
CONNECT_SECONDS = 10
STATEMENT_SECONDS = 60
MISSING_SECONDS = 10.0
"""How long a SQLite file may be gone before it is rewritten: an operator may be putting another one there."""
FULL_CHECK_BYTES = 256 * 1024 * 1024
"""Larger files are checked without their indexes against their tables, which takes a fraction of the time."""

_SQLITE_NEEDED = (3, 35, 0)  # RETURNING

# Of PostgreSQL: serialization failure, deadlock, lock not available, shutdowns, not yet up, too many connections, a
# standby that is being promoted. All of class 08 are lost connections.
# A server that takes no writes: read-only, or a standby, which says of a writing transaction that it is not supported.
_READ_ONLY_STATES = frozenset({"25006", "0A000"})
_PASSING_STATES = frozenset({"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", *_READ_ONLY_STATES})
_MISSING_TABLE_STATES = frozenset({"42P01", "3F000", "42703"})

# An I/O error of SQLite says nothing about whether the commit arrived; the next try reads it.
_PASSING_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR})
_BROKEN_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


_log = logging.getLogger(__name__)

# By default, stamina logs each retry through structlog, which prints to stdout until it is configured, and counts
# them in the process-wide registry of metrics. Stdout is for data, and metrics have their own way (`on_operation`).
stamina.instrumentation.set_on_retry_hooks(())


class _Passing(Exception):
    """Trying again may help."""


class Database:
    """An engine with the rules of this module. Usable from several threads."""

    def __init__(self, engine: Engine, url: URL, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self.engine = engine
        self.url = url
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        self.is_memory = self.is_sqlite and _is_memory(url)
        self._timeout = timeout
        # SQLite has one writer; queueing here costs less than its busy handler, and is fair.
        self._writer = threading.RLock()
        self._file = file_of(url)
        self._identity = _identity(self._file)
        self._missing_since: float | None = None
        self._reopening_thread: int | None = None
        self.check_reopened: Callable[[Database], None] = lambda database: None
        """Raises where the file that is there now is none to go on with."""

    @property
    def name(self) -> str:
        """What a person may see of the URL."""
        return shown_url(self.url)

    def __repr__(self) -> str:
        return f"Database({self.name})"

    def close(self) -> None:
        self.engine.dispose()

    def read(self, work: Callable[[Connection], R]) -> R:
        """One consistent snapshot. `work` may be called again."""
        return self._until_done(lambda: self._once(work, begin="BEGIN", isolation="REPEATABLE READ"))

    def write(
        self, work: Callable[[Connection], R], *, at: float, serializable: bool = True, write_id: str | None = None
    ) -> R:
        """One transaction, done once. The result must be what JSON holds: a try after a lost reply reads it back.

        Args:
            serializable: False is for work whose single statement holds the lock of the only row that it reads.
            write_id: of a write that may come again from elsewhere; None: it is a new one.
        """
        write_id = uuid.uuid4().hex if write_id is None else write_id

        def work_once(connection: Connection) -> R:
            new = connection.execute(
                self.insert(applied_writes)
                .values(id=write_id, at=at)
                .on_conflict_do_nothing(index_elements=["id"])
                .returning(applied_writes.c.id)
            ).first()
            if new is None:
                kept = select(applied_writes.c.result).where(applied_writes.c.id == write_id)
                done: R = connection.execute(kept).scalar_one()
                return done
            result = work(connection)
            if result is not None:
                connection.execute(update(applied_writes).where(applied_writes.c.id == write_id).values(result=result))
            return result

        isolation = "SERIALIZABLE" if serializable else "READ COMMITTED"
        return self._until_done(lambda: self._once(work_once, begin="BEGIN IMMEDIATE", isolation=isolation))

    def repeat(self, work: Callable[[Connection], R]) -> R:
        """One transaction of idempotent work: it may have taken effect when it is repeated."""
        return self._until_done(lambda: self._once(work, begin="BEGIN IMMEDIATE", isolation="READ COMMITTED"))

    def alone(self, work: Callable[[Connection], R], *, lock_key: int, seconds: float) -> R:
        """One transaction beside which no other of its kind runs. `work` may be called again, also after it took
        effect."""

        def work_alone(connection: Connection) -> R:
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{seconds:.0f}s'")
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.execute(select(func.pg_advisory_xact_lock(lock_key)))
            return work(connection)

        # Not serializable: what PostgreSQL shows there is from before the wait for the lock.
        return self._until_done(lambda: self._once(work_alone, begin="BEGIN EXCLUSIVE", isolation="READ COMMITTED"))

    def insert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """An insert that may say ON CONFLICT, which both dialects write alike."""
        if self.is_sqlite:
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)

    def clock(self, now: float) -> ColumnElement[float]:
        """The clock that judges leases: of PostgreSQL its own; SQLite is one machine, whose clock `now` was read from.

        Not PostgreSQL's now(), which stands still while a statement waits for a row.
        """
        if self.is_sqlite:
            return literal(now, Double)
        return cast(func.extract("epoch", func.clock_timestamp()), Double)

    def milliseconds(self, now: float) -> ColumnElement[int]:
        return cast(self.clock(now) * 1000, BigInteger)

    @contextmanager
    def _transaction(self, begin: str, isolation: str) -> Iterator[Connection]:
        is_write = begin != "BEGIN"
        with self._queue(is_write), self.engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(lakeward_begin=begin)
            else:
                connection = connection.execution_options(isolation_level=isolation, postgresql_readonly=not is_write)
            with connection.begin():
                yield connection

    def _ensure_same_file(self) -> None:
        """See that the pool's connections are to the file that bears the name."""
        if self._file is None or self._reopening_thread == threading.get_ident():
            return
        if _identity(self._file) == self._identity:
            self._missing_since = None
            return
        with self._writer:
            found = _identity(self._file)
            if found is None:
                self._bring_back(self._file)
                found = _identity(self._file)
            if found != self._identity:
                self._reopen(found)

    def _bring_back(self, path: Path) -> None:
        """Write the file again from a connection that has it open; or see that another daemon has done so."""
        if self._missing_since is None:
            self._missing_since = time.monotonic()
        if time.monotonic() - self._missing_since < MISSING_SECONDS:
            raise _Passing from sqlite3.OperationalError("its file is gone")
        new = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
        _prepare_file(new)
        try:
            with closing(self.engine.raw_connection()) as had, closing(sqlite3.connect(new)) as target:
                assert had.driver_connection is not None
                had.driver_connection.backup(target)
            with open(new, "rb") as written:
                os.fsync(written.fileno())
            with suppress(FileExistsError):
                os.link(new, path)
        except OSError as error:
            raise _cannot_be_opened(path, error) from error
        finally:
            new.unlink(missing_ok=True)
        self._missing_since = None
        _log.warning("The store's file %s was gone; it was rewritten, nothing is lost.", path)

    def _reopen(self, found: tuple[int, int] | None) -> None:
        self.engine.dispose()
        self._reopening_thread = threading.get_ident()
        try:
            _check_integrity(self)
            self.check_reopened(self)
        except BaseException:
            self.engine.dispose()  # the file that belongs here may come back, and is none of these connections'
            raise
        finally:
            self._reopening_thread = None
        self._identity = found
        self._missing_since = None
        _log.warning("The store's file %s is another one than before; it was opened again.", self._file)

    @contextmanager
    def _queue(self, is_write: bool) -> Iterator[None]:
        if self.is_memory or (self.is_sqlite and is_write):
            with self._writer:
                yield
        else:
            yield

    def _once(self, work: Callable[[Connection], R], *, begin: str, isolation: str) -> R:
        try:
            self._ensure_same_file()
            with self._transaction(begin, isolation) as connection:
                return work(connection)
        except (exc.DBAPIError, self.driver_error) as error:
            if _is_read_only(error):
                self.engine.dispose()  # this server may be a standby by now, and another one the primary
            if _is_passing(error):
                raise _Passing from error
            raise explain(error, self.url) from error
        except exc.TimeoutError as error:  # no connection of the pool came free
            raise _Passing from error

    def _until_done(self, once: Callable[[], R]) -> R:
        try:
            for attempt in stamina.retry_context(
                on=_Passing,
                attempts=TRIES_MAX,
                timeout=self._timeout,
                wait_initial=0.02,
                wait_max=2.0,
                wait_jitter=0.1,
            ):
                with attempt:
                    return once()
        except _Passing as error:
            assert error.__cause__ is not None, "it is raised from what the database said"
            raise explain(error.__cause__, self.url) from error.__cause__
        raise AssertionError("tries end with a result or an error")


# ---------------------------------------------------------------------------------------------------- opening


def open_database(url: str, *, timeout: float = TIMEOUT_SECONDS, create: bool = True) -> Database:
    """The database at `url`, reachable and, if it is a file, sound. Raises `UsageError`, `StoreBroken`,
    `StoreUnavailable`; and without `create`, `StoreVersion` where there is no file."""
    parsed = parse_store_url(url)
    path = file_of(parsed)
    if path is not None and not create and not path.exists():
        raise StoreVersion(
            f"There is no store {path}.",
            why="No daemon has been started with it yet, or it is another one that you mean.",
            remedy="Name it with --config or --url; or make it with `lakeward state migrate`.",
        )
    make_engine = _sqlite_engine if parsed.get_backend_name() == "sqlite" else _postgresql_engine
    engine = make_engine(parsed)
    database = Database(engine, parsed, timeout=timeout)
    try:
        if database.is_sqlite:
            _check_integrity(database)
        else:
            with engine.connect() as connection:
                connection.execute(select(1))
    except (exc.DBAPIError, database.driver_error) as error:
        database.close()
        raise explain(error, parsed) from error
    except BaseException:
        database.close()
        raise
    return database


def parse_store_url(text: str) -> URL:
    """`sqlite:///path`, `sqlite://` (memory) or `postgresql://...`. Raises `UsageError`."""
    remedy = "Use sqlite:////var/lib/lakeward/lakeward.db or postgresql://user@host/database."
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):
        # The text stays out of the message: it may hold a password.
        raise UsageError("The URL of the store cannot be read.", why="It is no URL.", remedy=remedy) from None
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return url.set(drivername="sqlite")
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError(f"The store cannot be '{url.drivername}'.", why="It is SQLite or PostgreSQL.", remedy=remedy)


def shown_url(url: URL) -> str:
    """The URL without its secrets."""
    return printable_url(url.render_as_string(hide_password=False).replace("+psycopg", "", 1))


def file_of(url: URL) -> Path | None:
    """The file of a SQLite store; None for one in memory and for PostgreSQL."""
    if url.get_backend_name() != "sqlite" or _is_memory(url):
        return None
    assert url.database is not None
    return Path(url.database)


def _is_memory(url: URL) -> bool:
    return url.database in (None, "", ":memory:")


def _sqlite_engine(url: URL) -> Engine:
    if sqlite3.sqlite_version_info < _SQLITE_NEEDED:
        raise UsageError(
            f"SQLite {sqlite3.sqlite_version} is too old for the store.",
            why="The store needs 3.35 or newer.",
            remedy="Use a Python with a newer SQLite, or a PostgreSQL store.",
        )
    path = file_of(url)
    if path is None:
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}, hide_parameters=True
        )
    else:
        _prepare_file(path)
        place = f"file:{quote(str(path))}?mode=rw"  # a file that is gone is not made by connecting to it

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(place, uri=True, check_same_thread=False, timeout=BUSY_SECONDS)

        engine = create_engine(url, pool_size=8, creator=connect, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # so that Python's driver begins nothing by itself
        for pragma in (
            f"busy_timeout={round(BUSY_SECONDS * 1000)}",
            "journal_mode=TRUNCATE",
            "synchronous=EXTRA",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("lakeward_begin", "BEGIN"))

    return engine


def _prepare_file(path: Path) -> None:
    """The file exists and only its owner reads it: it says where tables are and who did what."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _cannot_be_opened(path, error) from error


def _cannot_be_opened(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"The store {path} cannot be opened.",
        why=f"{error.strerror or error}.",
        remedy="Let the user of this process write there, or name another file as the store's URL.",
    )


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Device and inode; None where there is no such file."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _check_integrity(database: Database) -> None:
    path = file_of(database.url)
    full = path is None or path.stat().st_size <= FULL_CHECK_BYTES
    with database.engine.connect() as connection:
        check = "PRAGMA integrity_check(3)" if full else "PRAGMA quick_check(3)"
        problems = [str(row[0]) for row in connection.exec_driver_sql(check)]
    if problems != ["ok"]:
        raise _broken(path, "; ".join(" ".join(problem.split()) for problem in problems))


def _broken(path: Path | None, why: str) -> StoreBroken:
    return StoreBroken(
        f"The store {path} is damaged.",
        why=f"SQLite says: {why}.",
        remedy="Run `lakeward state rebuild`: it moves the file aside and builds the store again from the timelines. "
        "No table is touched.",
    )


def _postgresql_engine(url: URL) -> Engine:
    defaults = {
        "application_name": "lakeward",
        "connect_timeout": str(CONNECT_SECONDS),
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "20000",
    }
    # Prepared statements do not survive a pooler that hands every transaction another connection.
    arguments: dict[str, Any] = {key: value for key, value in defaults.items() if key not in url.query}
    engine = create_engine(
        url,
        pool_size=4,
        max_overflow=8,
        pool_timeout=CONNECT_SECONDS,
        connect_args={**arguments, "prepare_threshold": None},
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: psycopg.Connection[Any], record: object) -> None:
        # Nothing of the store waits this long but on something that has died.
        connection.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'")
        connection.execute("SET lock_timeout = '10s'")
        connection.execute(f"SET idle_in_transaction_session_timeout = '{STATEMENT_SECONDS}s'")
        connection.commit()

    return engine


# ---------------------------------------------------------------------------------------------------- errors


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, exc.DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig or error
    if isinstance(error, sqlite3.Error):
        is_moved = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED
        return is_moved or _primary_code(error) in _PASSING_CODES
    state = getattr(error, "sqlstate", "")  # what the driver of PostgreSQL says
    if state is None:  # it speaks for itself, of a connection that failed or was lost
        return any(kind.__name__ == "OperationalError" for kind in type(error).__mro__)
    return state in _PASSING_STATES or state.startswith("08")


def _is_read_only(error: BaseException) -> bool:
    """A server that takes no writes (any more)."""
    said = error.orig if isinstance(error, exc.DBAPIError) else error
    if isinstance(said, sqlite3.Error):
        return False
    return getattr(said, "sqlstate", None) in _READ_ONLY_STATES


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explain(error: BaseException, url: URL) -> LakewardError:
    """What the database said, as one of our errors and without secrets."""
    said = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    why = redact(" ".join(str(said).split()), url)
    if not why.endswith("."):
        why += "."
    name = shown_url(url)
    path = file_of(url)
    if isinstance(said, sqlite3.Error) and _primary_code(said) in _BROKEN_CODES:
        return _broken(path, why.rstrip("."))
    if "no such table" in why or "no such column" in why or getattr(said, "sqlstate", "") in _MISSING_TABLE_STATES:
        return StoreVersion(
            f"The store {name} lacks a part of its schema.", why=why, remedy="Run `lakeward state migrate`."
        )
    if path is not None:
        remedy = "See that the disk has space and that no other process holds the file, then try again."
    else:
        remedy = "See that the database runs, and that the URL, user and password are right; then try again."
    return StoreUnavailable(f"The store {name} did not do what was asked of it.", why=why, remedy=remedy)


def redact(text: str, url: URL) -> str:
    return printable(text, encodings(secrets_in(url.render_as_string(hide_password=False))))

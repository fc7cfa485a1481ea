"""Entries of indexes in a PostgreSQL database: what `index/external` asks of a store, as tables of their own.

    lakeward_index.indexes        one row an index: table, name, whether a key is one in all of the table, format
    lakeward_index.commits        one row a try at a commit: its instant, when it completed, its state
    lakeward_index.places_N       places of index N by number: a partition path and a file id; without one the partition
    lakeward_index.entries_N      key, partition, commit -> place; 0 for no place: the key is gone

    building, writing --finish--> whole --settle--> settled      or at once, by a build
           |                        |
           +-------- forget --------+--> dropped --sweep--> no row

A key is the UTF-8 of the record key, whole. Partition, commit and place are numbers of four bytes, so that neither
paths nor times are repeated by entry. Where a key is one in all of the table, the partition is 0; otherwise 0 says that
it is gone from all partitions.

The tables are made with the first index, under a lock, and not by the migrations of the store: the database may be
another one than the store's, which may be a file; they are as large as the tables that are indexed; and they can be
rebuilt.

Touches: the database.
Keeps:   1. an entry counts only once its commit is whole, all of it at once; each step may be done again, and a process
            that dies at any of them leaves entries that count for nothing and go at the next `begin`;
         2. what a second process begins ends what the first one was at: that one's next step fails; but a writer,
            which is `writing` a commit of its own, ends no other one and is ended by none;
         3. a transaction touches a bounded number of rows, but for settling and dropping.
See:     docs/decisions/0077-an-index-in-postgresql.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from lakeward.base.errors import StoreVersion, TryLater, Unsupported, UsageError
from lakeward.state.engine import Database, open_database
from lakeward.state.postgres_arrays import Binaries, Integers, binary_cursor, integers, texts
from lakeward.state.records import Watermark

if TYPE_CHECKING:
    import psycopg

R = TypeVar("R")

FORMAT = 1
KEY_BYTES_MAX = 2_000
"""A B-tree of PostgreSQL takes what has 2,704 bytes at most, the numbers among them."""

LOCK_KEY = 0x4C414B4549444558
LOCK_SECONDS = 120
_ROWS_AT_ONCE = 20_000
_SWEPT_AT_ONCE = 100_000

_TABLES = """
CREATE SCHEMA IF NOT EXISTS lakeward_index;
CREATE TABLE IF NOT EXISTS lakeward_index.indexes (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    base_path text NOT NULL,
    name text NOT NULL,
    is_global boolean NOT NULL,
    format integer NOT NULL,
    UNIQUE (base_path, name)
);
CREATE TABLE IF NOT EXISTS lakeward_index.commits (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    index_id integer NOT NULL REFERENCES lakeward_index.indexes ON DELETE CASCADE,
    instant text NOT NULL,
    completed text,
    state text NOT NULL
);
CREATE INDEX IF NOT EXISTS commits_of_index ON lakeward_index.commits (index_id, state);
"""

# Entries of a commit come one behind the other: ranges of blocks find them, without a second index of all entries.
_TABLES_OF_INDEX = """
CREATE TABLE lakeward_index.places_{id} (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_path text NOT NULL,
    file_id text NOT NULL,
    UNIQUE (partition_path, file_id)
);
CREATE TABLE lakeward_index.entries_{id} (
    record_key bytea NOT NULL,
    partition_id integer NOT NULL,
    commit_id integer NOT NULL,
    place_id integer NOT NULL,
    PRIMARY KEY (record_key, partition_id, commit_id)
);
CREATE INDEX entries_{id}_of_commit ON lakeward_index.entries_{id} USING brin (commit_id)
    WITH (pages_per_range = 32, autosummarize = on);
"""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """An index as the database knows it."""

    base_path: str
    name: str
    is_global: bool
    entries: int
    """Rows, as the database estimates them."""
    entry_bytes: int
    """What they take on disk, with their indexes."""


@dataclass(frozen=True, slots=True)
class TableEntries:
    """The indexes of one table in a database."""

    database: Database
    base_path: str

    def list(self) -> list[IndexRow]:
        return list_indexes(self.database, self.base_path)

    def create(self, name: str, *, is_global: bool) -> None:
        create_entries(self.database, self.base_path, name, is_global=is_global)

    def open(self, name: str) -> IndexEntries:
        return open_entries(self.database, self.base_path, name)

    def drop(self, name: str) -> None:
        drop_entries(self.database, self.base_path, name)

    def take_place(self, name: str, *, of: str) -> None:
        self.open(name).take_place_of(of)


def create_entries(database: Database, base_path: str, name: str, *, is_global: bool) -> IndexEntries:
    """A new index without entries; or the one that is there. Raises `UsageError` where that is of the other scope."""
    _ensure_postgresql(database)

    def create(connection: Connection) -> None:
        cursor = _driver(connection).cursor()  # a binary one takes one statement at a time
        cursor.execute(_TABLES)
        row = cursor.execute(
            "INSERT INTO lakeward_index.indexes (base_path, name, is_global, format) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING RETURNING id",
            (base_path, name, is_global, FORMAT),
        ).fetchone()
        if row is not None:
            cursor.execute(_TABLES_OF_INDEX.format(id=row[0]))

    database.alone(create, lock_key=LOCK_KEY, seconds=LOCK_SECONDS)
    entries = open_entries(database, base_path, name)
    if entries.is_global != is_global:
        raise UsageError(
            f"The index {name} of {base_path} exists already, with the other scope.",
            why="Its keys are unique in " + ("the whole table." if entries.is_global else "a partition."),
            remedy="Drop it first, or give the new one another name.",
        )
    return entries


@contextmanager
def opened_entries(url: str, base_path: str, name: str) -> Iterator[IndexEntries]:
    """The entries of an index, in a database that is open as long. Raises what `open_entries` raises."""
    database = open_database(url, create=False)
    try:
        yield open_entries(database, base_path, name)
    finally:
        database.close()


def open_entries(database: Database, base_path: str, name: str) -> IndexEntries:
    """Raises `UsageError` where there is none, `StoreVersion` for one that a later release made."""
    _ensure_postgresql(database)

    def find(connection: Connection) -> tuple[int, bool, int] | None:
        cursor = _cursor(connection)
        if not _has_tables(cursor):
            return None
        found = cursor.execute(
            "SELECT id, is_global, format FROM lakeward_index.indexes WHERE base_path = %s AND name = %s",
            (base_path, name),
        ).fetchone()
        return cast("tuple[int, bool, int] | None", found)

    row = database.read(find)
    if row is None:
        raise UsageError(
            f"The database {database.name} has no index {name} of {base_path}.",
            remedy="Build it with `lakeward index build`, or name the one that there is.",
        )
    if row[2] != FORMAT:
        raise StoreVersion(
            f"The index {name} in {database.name} is of another release.",
            why=f"Its format is {row[2]}, and this release knows {FORMAT}.",
            remedy="Use the release that made it, or build the index again.",
        )
    return IndexEntries(database, row[0], is_global=row[1])


def drop_entries(database: Database, base_path: str, name: str) -> None:
    """Nothing of the index is left. Nothing happens where there is none."""
    _ensure_postgresql(database)

    def drop(connection: Connection) -> None:
        cursor = _cursor(connection)
        if not _has_tables(cursor):
            return
        row = cursor.execute(
            "DELETE FROM lakeward_index.indexes WHERE base_path = %s AND name = %s RETURNING id", (base_path, name)
        ).fetchone()
        if row is not None:
            cursor.execute(f"DROP TABLE lakeward_index.entries_{row[0]}, lakeward_index.places_{row[0]}")

    database.alone(drop, lock_key=LOCK_KEY, seconds=LOCK_SECONDS)


def list_indexes(database: Database, base_path: str | None = None) -> list[IndexRow]:
    """The indexes of a table, or all, by table and name."""
    _ensure_postgresql(database)

    def find(connection: Connection) -> list[IndexRow]:
        cursor = _cursor(connection)
        if not _has_tables(cursor):
            return []
        cursor.execute(
            "SELECT base_path, name, is_global, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)"
            " FROM lakeward_index.indexes i"
            " JOIN pg_class c ON c.oid = ('lakeward_index.entries_' || i.id)::regclass"
            " WHERE %(path)s::text IS NULL OR base_path = %(path)s ORDER BY base_path, name",
            {"path": base_path},
        )
        return [IndexRow(*row) for row in cursor]

    return database.read(find)


def read_watermarks(connection: Connection, base_path: str) -> dict[str, Watermark]:
    """What each index of the table has, by its name; nothing of one that was not built yet."""
    cursor = _cursor(connection)
    if not _has_tables(cursor):
        return {}
    cursor.execute(
        "SELECT i.name, c.instant, c.completed, c.state = 'settled'"
        " FROM lakeward_index.indexes i JOIN lakeward_index.commits c ON c.index_id = i.id"
        " WHERE i.base_path = %s AND c.state IN ('settled', 'whole') ORDER BY c.completed",
        (base_path,),
    )
    found: dict[str, Watermark] = {}
    for name, instant, completed, is_settled in cursor:
        settled, unsettled = found.get(name, (None, {}))
        if is_settled:
            found[name] = completed, unsettled
        else:
            found[name] = settled, {**unsettled, instant: completed}
    return found


class IndexEntries:
    """One index, for one thread."""

    def __init__(self, database: Database, number: int, *, is_global: bool) -> None:
        self._database = database
        self._number = number
        self.is_global = is_global
        self._entries = f"lakeward_index.entries_{number}"
        self._places = _Places(f"lakeward_index.places_{number}")

    def commits(self) -> tuple[str | None, Mapping[str, str | None]]:
        def read(connection: Connection) -> tuple[str | None, dict[str, str | None]]:
            cursor = _cursor(connection)
            (through,) = cursor.execute(
                "SELECT max(completed) FROM lakeward_index.commits WHERE index_id = %s AND state = 'settled'",
                (self._number,),
            ).fetchone() or (None,)
            cursor.execute(
                "SELECT instant, completed FROM lakeward_index.commits WHERE index_id = %s AND state = 'whole'",
                (self._number,),
            )
            return through, dict(cursor.fetchall())

        return self._read(read)

    def newest_put(self, number: int) -> tuple[int, int, int]:
        """The newest commits, the entries that they put, and the bytes that these take as the database says of each,
        without the trees that find them.

        Args:
            number: of so many commits, which are not settled yet: of settled ones later commits deleted entries.
        """

        def read(connection: Connection) -> tuple[int, int, int]:
            cursor = _cursor(connection)
            cursor.execute(
                "SELECT id FROM lakeward_index.commits WHERE index_id = %s AND state = 'whole'"
                " ORDER BY completed DESC NULLS LAST, id DESC LIMIT %s",
                (self._number, number),
            )
            ids = [each for (each,) in cursor]
            row = cursor.execute(
                f"SELECT count(*), coalesce(sum(pg_column_size(e)), 0)::bigint FROM {self._entries} e"
                " WHERE commit_id = ANY(%s)",
                (Integers.of(np.array(ids, np.int32)),),
            ).fetchone()
            assert row is not None, "an aggregate has one row"
            return len(ids), *row

        return self._read(read)

    def _read(self, work: Callable[[Connection], R]) -> R:
        try:
            return self._database.read(work)
        except StoreVersion as error:
            raise TryLater(
                "The index is there no more.",
                why="Another process dropped it, or built it again.",
                remedy="Run the command again.",
            ) from error

    def take_place_of(self, name: str) -> None:
        """Be the index of this name from now on; of the one that had it nothing is left. Idempotent.
        Raises `TryLater` where another process dropped this one."""

        def replace(connection: Connection) -> None:
            cursor = _cursor(connection)
            row = cursor.execute(
                "SELECT base_path FROM lakeward_index.indexes WHERE id = %s", (self._number,)
            ).fetchone()
            if row is None:
                raise TryLater(
                    "The index that was built is gone.",
                    why="Another process dropped it, or builds one itself.",
                    remedy="See that one process at a time builds an index; then run the command again.",
                )
            old = cursor.execute(
                "DELETE FROM lakeward_index.indexes WHERE base_path = %s AND name = %s AND id <> %s RETURNING id",
                (row[0], name, self._number),
            ).fetchone()
            if old is not None:
                cursor.execute(f"DROP TABLE lakeward_index.entries_{old[0]}, lakeward_index.places_{old[0]}")
            cursor.execute("UPDATE lakeward_index.indexes SET name = %s WHERE id = %s", (name, self._number))

        self._database.alone(replace, lock_key=LOCK_KEY, seconds=LOCK_SECONDS)

    def begin(self, instant: str, *, beside_others: bool = False) -> int:
        state = "writing" if beside_others else "building"

        def begin(connection: Connection) -> int:
            cursor = _cursor(connection)
            cursor.execute(
                "UPDATE lakeward_index.commits SET state = 'dropped'"
                " WHERE index_id = %(index)s AND state = %(state)s AND (state = 'building' OR instant = %(instant)s)",
                {"index": self._number, "state": state, "instant": instant},
            )
            row = cursor.execute(
                "INSERT INTO lakeward_index.commits (index_id, instant, state) VALUES (%s, %s, %s) RETURNING id",
                (self._number, instant, state),
            ).fetchone()
            assert row is not None, "it was inserted"
            return int(row[0])

        attempt = self._database.repeat(begin)
        self._sweep()
        return attempt

    def begun_beside_others(self) -> list[str]:
        def read(connection: Connection) -> list[str]:
            cursor = _cursor(connection)
            cursor.execute(
                "SELECT DISTINCT instant FROM lakeward_index.commits WHERE index_id = %s AND state = 'writing'",
                (self._number,),
            )
            return [instant for (instant,) in cursor]

        return self._read(read)

    def put(self, attempt: int, changes: pa.RecordBatch) -> None:
        keys, partitions, file_ids = (changes.column(number).cast(pa.string()) for number in range(3))
        longest = pc.max(pc.binary_length(keys)).as_py() or 0
        if longest > KEY_BYTES_MAX:
            raise Unsupported(
                f"A record key of {longest} bytes has no place in an index in PostgreSQL.",
                why=f"Keys of up to {KEY_BYTES_MAX} bytes fit into its tree.",
                remedy="Use the record index of the table, or the bloom index.",
            )

        def put(connection: Connection) -> None:
            cursor = _cursor(connection)
            # The transaction that says that the commit is whole waits for the disk, and with it for all before it.
            cursor.execute("SET LOCAL synchronous_commit = off")
            state = cursor.execute(
                "SELECT state FROM lakeward_index.commits WHERE id = %s FOR SHARE", (attempt,)
            ).fetchone()
            _ensure_held(state is not None and state[0] in ("building", "writing"))
            at_places = self._places.numbers(cursor, partitions, file_ids)
            if self.is_global:
                in_partitions = np.zeros(len(keys), np.int32)
            else:
                nameless = pc.if_else(pc.is_valid(partitions), pa.scalar(""), pa.scalar(None, pa.string()))
                in_partitions = self._places.numbers(cursor, partitions, nameless)
            cursor.execute(
                f"INSERT INTO {self._entries} (record_key, partition_id, commit_id, place_id)"
                " SELECT DISTINCT ON (k, p) k, p, %(attempt)s, l"
                " FROM unnest(%(keys)s, %(partitions)s, %(places)s) AS put (k, p, l) ORDER BY k, p, l DESC"
                " ON CONFLICT (record_key, partition_id, commit_id)"
                " DO UPDATE SET place_id = excluded.place_id WHERE excluded.place_id <> 0",
                {
                    "attempt": attempt,
                    "keys": Binaries.of(keys),
                    "partitions": Integers.of(in_partitions),
                    "places": Integers.of(at_places),
                },
            )

        if len(keys):
            self._database.repeat(put)

    def finish(self, attempt: int, completed: str | None) -> None:
        def finish(connection: Connection) -> None:
            cursor = _cursor(connection)
            row = cursor.execute(
                "UPDATE lakeward_index.commits SET state = 'whole', completed = %s"
                " WHERE id = %s AND state IN ('building', 'writing', 'whole') RETURNING instant",
                (completed, attempt),
            ).fetchone()
            _ensure_held(row is not None)
            assert row is not None
            cursor.execute(
                "UPDATE lakeward_index.commits SET state = 'dropped'"
                " WHERE index_id = %s AND instant = %s AND state = 'whole' AND id <> %s",
                (self._number, row[0], attempt),
            )

        self._database.repeat(finish)

    def finish_settled(self, attempt: int, completed: str) -> None:
        def finish(connection: Connection) -> None:
            cursor = _cursor(connection)
            row = cursor.execute(
                "SELECT state FROM lakeward_index.commits WHERE id = %s FOR UPDATE", (attempt,)
            ).fetchone()
            _ensure_held(row is not None and row[0] in ("building", "settled"))
            assert row is not None
            if row[0] == "settled":
                return
            cursor.execute(
                "UPDATE lakeward_index.commits SET state = 'settled', completed = %s WHERE id = %s",
                (completed, attempt),
            )

        self._database.repeat(finish)

    def forget(self, instant: str) -> None:
        def forget(connection: Connection) -> None:
            _cursor(connection).execute(
                "UPDATE lakeward_index.commits SET state = 'dropped'"
                " WHERE index_id = %s AND instant = %s AND state <> 'settled'",
                (self._number, instant),
            )

        self._database.repeat(forget)
        self._sweep()

    def settle(self, instant: str, completed: str) -> None:
        def settle(connection: Connection) -> None:
            cursor = _cursor(connection)
            row = cursor.execute(
                "SELECT id FROM lakeward_index.commits"
                " WHERE index_id = %s AND instant = %s AND state = 'whole' FOR UPDATE",
                (self._number, instant),
            ).fetchone()
            if row is None:
                return
            self._clear_for(cursor, row[0])
            cursor.execute(
                "UPDATE lakeward_index.commits SET state = 'settled', completed = %s WHERE id = %s", (completed, row[0])
            )

        self._database.repeat(settle)

    def _has_settled(self, cursor: psycopg.Cursor[Any]) -> bool:
        found = cursor.execute(
            "SELECT 1 FROM lakeward_index.commits WHERE index_id = %s AND state = 'settled' LIMIT 1", (self._number,)
        ).fetchone()
        return found is not None

    def _clear_for(self, cursor: psycopg.Cursor[Any], commit: int) -> None:
        """A commit settles: nothing older of its keys stays, and no tombstone of its own."""
        cursor.execute("SET LOCAL statement_timeout = 0")
        if self._has_settled(cursor):
            cursor.execute(
                f"DELETE FROM {self._entries} o USING {self._entries} n, lakeward_index.commits c"
                " WHERE n.commit_id = %(id)s AND o.record_key = n.record_key"
                " AND (o.partition_id = n.partition_id OR n.partition_id = 0)"
                " AND c.id = o.commit_id AND c.state = 'settled'",
                {"id": commit},
            )
        cursor.execute(f"DELETE FROM {self._entries} WHERE commit_id = %s AND place_id = 0", (commit,))

    def get(self, keys: pa.Array) -> pa.RecordBatch:
        def get(connection: Connection) -> pa.RecordBatch:
            cursor = _cursor(connection)
            row = cursor.execute(
                "SELECT array_agg(k.n::int4), array_agg(e.partition_id), array_agg(e.commit_id), array_agg(e.place_id)"
                f" FROM unnest(%(keys)s) WITH ORDINALITY AS k (key, n) JOIN {self._entries} e ON e.record_key = k.key",
                {"keys": Binaries.of(keys)},
            ).fetchone()
            assert row is not None, "an aggregate has one row"
            ordinals, *numbers = (integers(column) for column in row)
            return self._batch(cursor, keys.take(pa.array(ordinals - 1)), *numbers)

        return self._read(get)

    def holding(self, keys: pa.Array) -> pa.Array:
        """The keys that the database has a row of, whatever came of its commit: entries of a dropped one stay until
        another one begins."""

        def find(some: pa.Array, connection: Connection) -> pa.Array:
            row = (
                _cursor(connection)
                .execute(
                    "SELECT array_agg(k.n::int4) FROM unnest(%(keys)s) WITH ORDINALITY AS k (key, n)"
                    f" WHERE EXISTS (SELECT FROM {self._entries} e WHERE e.record_key = k.key)",
                    {"keys": Binaries.of(some)},
                )
                .fetchone()
            )
            assert row is not None, "an aggregate has one row"
            return some.take(pa.array(integers(row[0]) - 1))

        slices = [keys.slice(start, _ROWS_AT_ONCE) for start in range(0, len(keys), _ROWS_AT_ONCE)]
        return pa.concat_arrays([pa.array([], keys.type), *(self._read(partial(find, some)) for some in slices)])

    def scan(self) -> Iterator[pa.RecordBatch]:
        after = None
        while True:
            page = self._read(partial(self._page, after))
            if page is None:
                return
            after, batch = page
            yield batch

    def _page(self, after: bytes | None, connection: Connection) -> tuple[bytes, pa.RecordBatch] | None:
        """The entries of the next keys, all of each, and the last of these keys."""
        cursor = _cursor(connection)
        row = cursor.execute(
            "SELECT string_agg(record_key, ''::bytea), array_agg(octet_length(record_key)), array_agg(partition_id),"
            " array_agg(commit_id), array_agg(place_id)"
            f" FROM (SELECT * FROM {self._entries} {'' if after is None else 'WHERE record_key > %(after)s'}"
            " ORDER BY record_key FETCH FIRST %(rows)s ROWS WITH TIES) page",
            {"after": after, "rows": _ROWS_AT_ONCE},
        ).fetchone()
        assert row is not None, "an aggregate has one row"
        lengths, *numbers = (integers(column) for column in row[1:])
        if not len(lengths):
            return None
        keys = texts(row[0], lengths)
        last: bytes = pc.max(keys.cast(pa.binary())).as_py()
        return last, self._batch(cursor, keys, *numbers)

    def _batch(
        self,
        cursor: psycopg.Cursor[Any],
        keys: pa.Array,
        partitions: npt.NDArray[np.int32],
        commits: npt.NDArray[np.int32],
        places: npt.NDArray[np.int32],
    ) -> pa.RecordBatch:
        """Entries of whole and settled commits, as `index/external/entry_store.ENTRIES`."""
        cursor.execute(
            "SELECT id, instant, state = 'settled' FROM lakeward_index.commits"
            " WHERE id = ANY(%s) AND state IN ('whole', 'settled')",
            (Integers.of(np.unique(commits)),),
        )
        known = cursor.fetchall()
        ids, instants, settled = zip(*known, strict=True) if known else ((), (), ())
        at = pc.index_in(pa.array(commits), pa.array(ids, pa.int32()))
        kept = pc.is_valid(at)
        at, keys = at.filter(kept), keys.filter(kept)
        is_kept = kept.to_numpy(zero_copy_only=False)
        partition_paths, file_ids = self._places.texts(cursor, places[is_kept])
        if not self.is_global:  # an entry that says that the key is gone has no place, but a partition
            partition_paths, _ = self._places.texts(cursor, partitions[is_kept])
        columns = [
            keys,
            partition_paths,
            file_ids,
            pa.array(instants, pa.string()).take(at),
            pa.array(settled, pa.bool_()).take(at),
        ]
        return pa.RecordBatch.from_arrays(columns, ["key", "partition path", "file id", "instant", "settled"])

    def _sweep(self) -> None:
        """Delete the entries of dropped commits, so many at a time, and then their rows."""

        def sweep(connection: Connection) -> bool:
            cursor = _cursor(connection)
            row = cursor.execute(
                "SELECT id FROM lakeward_index.commits WHERE index_id = %s AND state = 'dropped'"
                " LIMIT 1 FOR UPDATE SKIP LOCKED",  # one that another process deletes is left to it
                (self._number,),
            ).fetchone()
            if row is None:
                return False
            cursor.execute(
                f"DELETE FROM {self._entries} WHERE ctid = ANY(ARRAY("
                f"SELECT ctid FROM {self._entries} WHERE commit_id = %s LIMIT {_SWEPT_AT_ONCE}))",
                (row[0],),
            )
            if cursor.rowcount < _SWEPT_AT_ONCE:
                cursor.execute("DELETE FROM lakeward_index.commits WHERE id = %s", (row[0],))
            return True

        while self._database.repeat(sweep):
            pass


class _Places:
    """The places of one index by number, as many as were met: about as much memory as the file groups of the table."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._ids = np.empty(0, np.int32)
        self._partition_paths = self._file_ids = pa.array([], pa.string())

    def numbers(
        self, cursor: psycopg.Cursor[Any], partition_paths: pa.Array, file_ids: pa.Array
    ) -> npt.NDArray[np.int32]:
        """The number of each place, a new one where it has none; 0 where there is no file id."""
        places = _joined(partition_paths, file_ids)
        first = pc.index_in(places.unique().drop_null(), places)
        parameters = {"paths": partition_paths.take(first).to_pylist(), "ids": file_ids.take(first).to_pylist()}
        named = "unnest(%(paths)s::text[], %(ids)s::text[])"
        cursor.execute(
            f"INSERT INTO {self._table} (partition_path, file_id) SELECT * FROM {named} ON CONFLICT DO NOTHING",
            parameters,
        )
        cursor.execute(
            f"SELECT partition_path, file_id, id FROM {self._table}"
            f" JOIN {named} AS named (p, f) ON partition_path = p AND file_id = f",
            parameters,
        )
        rows = cursor.fetchall()
        assert len(rows) == len(first), "each has a number"
        paths, ids, numbers = zip(*rows, strict=True) if rows else ((), (), ())
        at = pc.index_in(places, _joined(pa.array(paths, pa.string()), pa.array(ids, pa.string())))
        found: npt.NDArray[np.int32] = pa.array(numbers, pa.int32()).take(at).fill_null(0).to_numpy()
        return found

    def texts(self, cursor: psycopg.Cursor[Any], numbers: npt.NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
        """Partition path and file id of each; null for 0."""
        if not np.isin(numbers, self._ids).all():
            cursor.execute(f"SELECT 0, NULL, NULL UNION ALL SELECT * FROM {self._table}")
            ids, paths, file_ids = zip(*cursor.fetchall(), strict=True)
            self._ids = np.array(ids, np.int32)
            self._partition_paths, self._file_ids = pa.array(paths, pa.string()), pa.array(file_ids, pa.string())
        at = pc.index_in(pa.array(numbers), pa.array(self._ids))
        assert not at.null_count, "each number that an entry has is of a place"
        return self._partition_paths.take(at), self._file_ids.take(at)


def _joined(partition_paths: pa.Array, file_ids: pa.Array) -> pa.Array:
    """Each place as one text, or null; no file id has a slash."""
    return pc.binary_join_element_wise(partition_paths, file_ids, "/")


def _cursor(connection: Connection) -> psycopg.Cursor[Any]:
    return binary_cursor(_driver(connection))


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def _has_tables(cursor: psycopg.Cursor[Any]) -> bool:
    row = cursor.execute("SELECT to_regclass('lakeward_index.indexes') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def _ensure_held(is_held: bool) -> None:
    if not is_held:
        raise TryLater(
            "Another process changes the index.",
            why="It began with another commit, or with the same one again, and what this process put ends with that.",
            remedy="Let one process at a time change an index: the daemon, or a command.",
        )


def _ensure_postgresql(database: Database) -> None:
    if database.is_sqlite:
        raise UsageError(
            "An index outside of the table needs a PostgreSQL database.",
            why=f"{database.name} is a file of SQLite, which one process at a time writes.",
            remedy="Name a PostgreSQL database, or build an index of another type.",
        )

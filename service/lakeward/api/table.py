"""`lakeward.Table`: a Hudi table from Python, its rows, writes and services.

    table = lakeward.Table("s3://lake/orders")
    table.scan(columns=["id", "fare"], where="city = 'lima' and fare > 10").to_arrow()
    table.write(frame, writers_stopped=True)
    table.service("compaction").run(writers_stopped=True)

A table is what it was when it was opened, or refreshed, or at the moment that is given: all rows that are asked of it
are of one instant.

Touches: the table: scans read only; writes and services as `write/whole_write` and `services` say.
Keeps:   1. scans of one table read one moment, whatever is committed meanwhile;
         2. rows are streamed, a batch at a time; Arrow's stream interface hands them to pandas, Polars, DuckDB and
            DataFusion without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import pyarrow as pa

from lakeward.base.clock import SystemClock
from lakeward.base.errors import DamagedFiles, UsageError
from lakeward.format.timeline.instant import State, is_before
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.scan.change_scan import ChangeQuery, ChangeScan
from lakeward.scan.commit_window import check_options, read_window
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.moment import When
from lakeward.scan.past_snapshot import read_as_of
from lakeward.scan.record_keys import key_texts
from lakeward.scan.scan_plan import QueryKind, TableQuery, known_schema
from lakeward.scan.table_diff import SAMPLES, DiffQuery, DiffSide, TableDiff, diff_tables
from lakeward.scan.table_scan import KEY_LOCATIONS, TableScan
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.listing_source import listing_source
from lakeward.table.not_a_table import check_is_table
from lakeward.table.snapshot import TableSnapshot, take_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeward.api.table_service import TableServiceCall
    from lakeward.scan.key_lookup import KeyLookup
    from lakeward.write.entry import ArrowStream, WriteOptions
    from lakeward.write.whole_write import WriteReport

Keys: TypeAlias = str | int | Mapping[str, Any] | Iterable[Any]
"""A record key, or several, also as an Arrow array: texts as `_hoodie_record_key` has them, whole numbers, or values by
the names of the key fields."""


class Table:
    """A Hudi table at one moment. Errors are those of `lakeward.base.errors`, with what, why and remedy."""

    def __init__(self, location: str, *, timezone: str | None = None, as_of: When | None = None) -> None:
        """
        Raises `UsageError` for a moment that is none of the table's, and `Refused` for one that cannot be read.

        Args:
            location: path or URL of the table's base folder.
            timezone: the zone of the table's instants, where these do not show it.
            as_of: read the table as it was: an instant, a date, a datetime, or a text like `2026-11-28 14:00` or
                `2 hours ago`; without an offset in the zone of the table's instants.
        """
        self._location = location
        self._storage, self._base_path = open_storage(location)
        self._timezone = timezone
        self._as_of = as_of
        self._now = self._scan_table()
        self._snapshot = self._at(as_of)
        self._lookup: KeyLookup | None = None

    @property
    def base_path(self) -> str:
        return self._base_path

    @property
    def instant(self) -> str | None:
        """The newest completed instant that is read; None for a table without commits."""
        until = self._snapshot.read_until
        completed = [each.time for each in self._snapshot.timeline.instants if each.state is State.COMPLETED]
        return max((each for each in completed if until is None or not is_before(until, each)), default=None)

    @property
    def snapshot(self) -> TableSnapshot:
        """What the table was at that moment, as services see it."""
        return self._snapshot

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, Hudi's own five first."""
        return known_schema(self._snapshot)

    def refresh(self) -> Table:
        """Read the table as it is now, or as of the moment that the words of `as_of` mean now. Returns itself."""
        self._now, self._lookup = self._scan_table(), None
        self._snapshot = self._at(self._as_of)
        return self

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        keys: Keys | None = None,
        as_of: When | None = None,
        since: When | None = None,
        until: When | None = None,
        read_optimized: bool = False,
        meta_columns: bool = False,
        limit: int | None = None,
        skip_damaged: bool = False,
        memory_bytes: int = MEMORY_BYTES,
    ) -> Rows:
        """The rows that a query chooses; nothing of them is read yet.

        Raises `Refused` where they are not certain, and `UsageError` for a column or a filter.

        Args:
            columns: their names, in the order in which they come out; None for all.
            where: a filter in the words of SQL: `city = 'lima' and fare > 10`.
            keys: rows with these record keys alone, as `get` takes them; `Rows.missing_keys` says which have none.
            as_of: read the table as it was at this moment, as in `Table`.
            since: an incremental read: rows, with meta columns, that commits wrote which completed after this moment;
                "earliest" for all. `Rows.end` is where to go on.
            until: of these the commits that completed up to this moment; None for all.
            read_optimized: base files alone, without the logs.
            meta_columns: Hudi's own five columns come out, too, where `columns` names none.
            limit: no more rows than these.
            skip_damaged: read what can be read; `Rows.damage` says what is missing.
            memory_bytes: what merging one file slice may take.
        """
        snapshot, commits = self._snapshot if as_of is None else self._at(as_of), None
        if since is not None:
            check_options(as_of=as_of is not None, read_optimized=read_optimized)
            snapshot, commits = read_window(self._storage, snapshot, since, until, clock=SystemClock())
        elif until is not None:
            raise UsageError("A window has no beginning.", remedy='Add since="earliest", or a moment; or use as_of.')
        query = TableQuery(
            columns=None if columns is None else tuple(columns),
            where=None if where is None else parse_filter(where, known_schema(snapshot)),
            kind=QueryKind.READ_OPTIMIZED if read_optimized else QueryKind.SNAPSHOT,
            has_meta_columns=meta_columns or commits is not None,
            limit=limit,
            commits=commits,
            keys=None if keys is None else key_texts(keys, self._snapshot.config.record_key_fields),
        )
        return Rows(
            TableScan(
                self._storage,
                snapshot,
                query,
                skips_damaged=skip_damaged,
                memory_bytes=memory_bytes,
                lookup=partial(self._open_lookup, snapshot),
            )
        )

    def get(self, keys: Keys, *, columns: Sequence[str] | None = None, meta_columns: bool = False) -> pa.Table:
        """The rows with these record keys, looked up through the best index that the table has. A key without a row
        gives none; where keys are of one partition alone, a key gives the rows of all partitions that have it.

        Raises what `scan` does.

        Args:
            keys: `"k1"`, `17`, or `{"a": 1, "b": 2}` where keys have several fields; or several of these.
        """
        return self.scan(columns=columns, keys=keys, meta_columns=meta_columns).to_arrow()

    def record_locations(self, keys: Keys) -> pa.Table:
        """The places of the rows with these keys: key, partition, file id, and the instant of the commit that wrote the
        row last; no row for a key that is nowhere. Raises what `scan` does."""
        return self.scan(keys=keys).locations()

    def count(self, *, where: str | None = None) -> int:
        """How many rows a query finds."""
        return self.scan(where=where).count()

    def changes(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        skip_damaged: bool = False,
        memory_bytes: int = MEMORY_BYTES,
    ) -> Changes:
        """What was inserted, updated and deleted by the commits of a window, of a table that captures it.

        The columns are op (i, u or d), ts_ms (the instant of the commit), and before and after: the row as it was and
        as it is. Raises `Refused` where the table captures no changes, or some of the window would be missing.

        Args:
            since: commits that completed later: an instant, a date, a datetime, or a text like `2 hours ago`; None or
                `earliest` for all.
            until: commits that completed until then; None for all.
            columns: of the rows before and after; None for all but Hudi's own five.
            where: a filter: `op = 'u' and after.fare > 10`.
            limit: no more changes than these.
            skip_damaged: read the changes that can be read; `Changes.damage` says what is missing.
            memory_bytes: what comparing one file slice with another may take.
        """
        query = ChangeQuery(
            since=since,
            until=until,
            columns=None if columns is None else tuple(columns),
            where=where,
            limit=limit,
        )
        scan = ChangeScan(
            self._storage,
            self._snapshot,
            query,
            SystemClock(),
            memory_bytes=memory_bytes,
            skips_damaged=skip_damaged,
        )
        return Changes(scan)

    def diff(
        self,
        other: Table,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        read_optimized: bool = False,
        meta_columns: bool = False,
        samples: int = SAMPLES,
        memory_bytes: int = MEMORY_BYTES,
    ) -> TableDiff:
        """What this table, as before, and another, as after, do not have in common, by record key.

        Raises `UsageError` where their record keys are not the same columns, and what `scan` does.

        Args:
            columns: to compare, beside the key; None for all but Hudi's own five.
            where: rows of either table to compare.
            read_optimized: base files alone, without the logs.
            meta_columns: compare Hudi's own columns, too, where `columns` names none.
            samples: rows of each kind of difference that come with their values.
        """
        query = DiffQuery(
            columns=None if columns is None else tuple(columns),
            where=where,
            kind=QueryKind.READ_OPTIMIZED if read_optimized else QueryKind.SNAPSHOT,
            has_meta_columns=meta_columns,
            samples=samples,
        )
        before, after = (DiffSide(each._storage, each._snapshot) for each in (self, other))
        return diff_tables(before, after, query, memory_bytes=memory_bytes)

    def write(self, rows: DataFrame | ArrowStream | None, **options: Unpack[WriteOptions]) -> WriteReport:
        """Write rows into the table, as one commit that Hudi's readers and writers can continue from. The moment that
        scans read stays; `refresh` shows the rows.

        Raises an error of `lakeward.base.errors`; then nothing of the write is left in the table, but where it says
        otherwise.

        Args:
            rows: what gives Arrow's stream (pandas, Polars, pyarrow, a scan), or a data frame of Spark; None for
                delete_partition.
            options: those of `lakeward.write.write`: `operation` (upsert, insert, delete, …), and one of
                `writers_stopped` and `lock`, without which nothing is written.
        """
        from lakeward.write.entry import write

        return write(rows, self._location, timezone=self._timezone, **options)

    def service(self, name: str, *, config: str | Path | None = None) -> TableServiceCall:
        """A service of the table, to be planned or run at once: compaction, clean, archive, rollback, …

        Raises `UsageError` for a name that no service has, and `ConfigurationError`.

        Args:
            config: the daemon's configuration, which says how the table is serviced; None: all defaults.
        """
        from lakeward.api.table_service import open_service

        return open_service(
            name,
            self._storage,
            self._base_path,
            config=None if config is None else Path(config),
            timezone=self._timezone,
            scanned=self._scan_table,
        )

    def __repr__(self) -> str:
        return f"Table({self._base_path!r}, instant={self.instant!r})"

    def _at(self, as_of: When | None) -> TableSnapshot:
        return self._now if as_of is None else read_as_of(self._storage, self._now, as_of, clock=SystemClock())

    def _open_lookup(self, snapshot: TableSnapshot) -> KeyLookup:
        # Imported here: most scans ask no index, and loading them takes longer than a small scan.
        from lakeward.scan.key_lookup import KeyLookup

        if snapshot is not self._snapshot:
            return KeyLookup(self._storage, snapshot, clock=SystemClock())
        if self._lookup is None:
            self._lookup = KeyLookup(self._storage, snapshot, clock=SystemClock())
        return self._lookup

    def _scan_table(self) -> TableSnapshot:
        check_is_table(self._storage, self._base_path)
        return take_snapshot(
            self._storage,
            self._base_path,
            timezone=self._timezone,
            clock=SystemClock(),
            listing=listing_source(self._base_path),
        )


class _Stream:
    """What a query gives, read when it is iterated over, each time once more."""

    def __init__(self, scan: TableScan | ChangeScan) -> None:
        self._scan: TableScan | ChangeScan = scan

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._scan.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._scan)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface: `pandas`, `polars.from_arrow`, `duckdb.sql` and others take the scan as it is."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, iter(self._scan))

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        return self.reader().read_all()

    def count(self) -> int:
        """How many rows there are; no more is read for it than must be."""
        return self._scan.count()


class Changes(_Stream):
    """The changes of a window of commits, in the order in which these completed."""

    _scan: ChangeScan

    def __init__(self, scan: ChangeScan) -> None:
        super().__init__(scan)

    @property
    def end(self) -> str | None:
        """The completion time of the last commit: the `since` of the next query; None for a table without commits."""
        return self._scan.end

    @property
    def scan(self) -> ChangeScan:
        """The query and its plan, of which `lakeward.spark.changes` makes tasks."""
        return self._scan

    @property
    def damage(self) -> DamagedFiles | None:
        """What is missing in the changes, as an error that was not raised; None where they are whole."""
        return self._scan.damage


class Rows(_Stream):
    """The rows of a query, read when they are iterated over, each time once more."""

    _scan: TableScan

    def __init__(self, scan: TableScan) -> None:
        super().__init__(scan)

    def locations(self) -> pa.Table:
        """The places of the rows, as `Table.record_locations` says it."""
        return pa.Table.from_batches(self._scan.locations(), KEY_LOCATIONS)

    @property
    def end(self) -> str | None:
        """From where an incremental read goes on, as `since`, once all these rows were taken; None for other reads, and
        for one of "earliest" where the table has no commit."""
        commits = self._scan.query.commits
        return None if commits is None else commits.end

    @property
    def missing_keys(self) -> tuple[str, ...] | None:
        """The keys without a row, of a scan by keys whose rows were read to the end; else None."""
        return self._scan.missing_keys

    @property
    def scan(self) -> TableScan:
        """The query and its plan, of which `lakeward.spark.read` makes tasks."""
        return self._scan

    @property
    def damage(self) -> DamagedFiles | None:
        """What is missing in the rows, as an error that was not raised; None where they are whole."""
        return self._scan.damage

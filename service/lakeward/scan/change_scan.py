"""The changes of a table's rows, commit by commit: inserted, updated and deleted rows, as they were and as they are.

    op        i, u or d
    ts_ms     the instant of the commit
    before    the row as it was: the table's columns, without Hudi's own; null for an insert
    after     the row as it is; null for a delete

    commits (`scan/change_plan`) -> sources -> logs of changes as they are | rows before and after, paired by key

A key that is among the rows before and after was updated where its row is of another commit, or has another place
there: so a row says that it was written again, with equal values too.

Touches: the table, reading only; temporary files outside of it.
Keeps:   1. the changes are those of Hudi's query of changes, in the order of commits;
         2. memory is bounded by `memory_bytes`;
         3. a window that reaches behind what is archived, or cleaned, is refused before a row is given out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import BrokenFile, NotFound, Refused, TryLater, UsageError
from lakeward.base.paths import join
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.log.change_log import ChangeOperation, read_changes
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.timeline.instant import is_before
from lakeward.merge.memory_budget import MEMORY_BYTES, MemoryBudget
from lakeward.merge.rows.row_hash import RowHashes
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.protocol.progress import OnStep
from lakeward.protocol.refusals.findings import changes_cannot_be_captured
from lakeward.read.newest_slice import TableReading, table_reading
from lakeward.read.query.filter import conjuncts
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import read_slice
from lakeward.scan.change_plan import ChangePlanner, ChangeSource
from lakeward.scan.commit_window import AFTER_ALL, BEFORE_ALL, EARLIEST, commits_between, completed_at, newest_archived
from lakeward.scan.comparable_values import plain_array
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.moment import When, parse_when
from lakeward.scan.row_buckets import KEY_HASH, RowBuckets
from lakeward.scan.row_pairs import Places, Words, left_over, pair_among, pair_rows
from lakeward.scan.scan_plan import known_schema, refuse_merging
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import TimelineReader

_STAMP = ("_hoodie_commit_time", "_hoodie_commit_seqno")
_SECOND_KEY_HASH = "lakeward key two"
_STAMP_HASH = "lakeward stamp"

_OPERATION, _INSTANT, _BEFORE, _AFTER = "op", "ts_ms", "before", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """All changes that the timeline still knows, if nothing else is said."""

    since: When | None = None
    """Commits that completed later; None or `earliest` for all."""
    until: When | None = None
    """Commits that completed until then; None for all."""
    columns: tuple[str, ...] | None = None
    """Columns of the rows before and after, in their order; None for all but Hudi's own."""
    where: str | None = None
    """A filter over the columns of changes: `op = 'u' and after.fare > 10`."""
    limit: int | None = None


@dataclass(slots=True)
class ChangeScan:
    """A query of changes on a table at one moment; each iteration reads it once more."""

    storage: Storage
    snapshot: TableSnapshot
    query: ChangeQuery
    clock: Clock
    """Says what moments like `2 hours ago` mean."""
    memory_bytes: int = MEMORY_BYTES
    meter: ReadMeter = field(default_factory=ReadMeter)
    on_step: OnStep = lambda text: None
    """Takes a sentence about how far it is, now and then."""
    schema: pa.Schema = field(init=False)
    """The columns that come out."""
    end: str | None = field(init=False)
    """The completion time of the last commit that is read, from which the next query goes on: `since` where there is
    none."""
    commits: int = field(init=False)
    sources: tuple[ChangeSource, ...] = field(init=False)
    _read_schema: pa.Schema = field(init=False)
    """The same with all columns that the filter may name."""
    _predicate: Predicate = field(init=False)
    _reading: TableReading = field(init=False)

    def __post_init__(self) -> None:
        """Raises `Refused` where the changes are not certain, or not all there, and `UsageError`."""
        _check_captured(self.snapshot)
        table, where = known_schema(self.snapshot), self.query.where
        self.schema = _change_schema(_image_schema(table, self.query.columns))
        self._read_schema = self.schema if where is None else _change_schema(_image_schema(table, None))
        self._predicate = Predicate(() if where is None else tuple(conjuncts(parse_filter(where, self._read_schema))))
        self._plan()
        merges = any(each and each.log_files for source in self.sources for each in (source.before, source.after))
        if merges:
            refuse_merging(self.snapshot)
        self._reading = table_reading(self.snapshot, merges=merges)

    def _plan(self) -> None:
        snapshot, query = self.snapshot, self.query
        since, until = (self._instant(each) for each in (query.since, query.until))
        if since is not None and until is not None and is_before(until, since):
            raise UsageError(f"The window ends at {query.until}, before it begins at {query.since}.")
        self._check_archive(since)
        commits = sorted(commits_between(snapshot.timeline, since or BEFORE_ALL, until or AFTER_ALL), key=completed_at)
        planner = ChangePlanner(snapshot)
        reader = TimelineReader(self.storage, snapshot.base_path, snapshot.config, snapshot.timeline)
        sources: list[ChangeSource] = []
        for instant in commits:
            metadata = reader.commit_metadata(instant)
            if metadata is None:
                raise BrokenFile(f"The commit {instant.time} cannot be read.", why="Its changes would be missing.")
            sources += planner.sources(instant, metadata)
        self.sources = tuple(sources)
        self.commits = len(commits)
        self.end = commits[-1].completion_time if commits else since

    def _instant(self, when: When | None) -> str | None:
        if when is None or (isinstance(when, str) and when.strip().lower() == EARLIEST):
            return None
        return parse_when(when, self.snapshot.zone, now=self.clock.now()).instant

    def _check_archive(self, since: str | None) -> None:
        """Raises `Refused` where commits of the window may have left the active timeline."""
        newest = newest_archived(self.storage, self.snapshot, since or BEFORE_ALL)
        if newest is not None:
            raise Refused(
                f"The changes {'from the beginning' if since is None else f'since {since}'} cannot be read.",
                why=f"Commits until {newest} were archived, and their changes would be missing.",
                remedy=f"Begin later: --since {newest}.",
            )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left, done = self.query.limit, 0
        for number, source in enumerate(self.sources):
            if left == 0:
                return
            for batch in self._changes_of(source):
                done += batch.num_rows
                self.on_step(f"read {number:,} of {len(self.sources):,} places with changes, {done:,} changes")
                chosen = _in_schema(self._predicate.chosen(batch), self.schema)
                rows = chosen if left is None else chosen.slice(0, left)
                if rows.num_rows:
                    yield rows
                if left is not None:
                    left -= rows.num_rows
                    if left == 0:
                        return

    def count(self) -> int:
        return sum(batch.num_rows for batch in self)

    def _changes_of(self, source: ChangeSource) -> Iterator[pa.RecordBatch]:
        for log in source.logs:
            yield from self._logged(log, source.instant)
        before, after = source.before, source.after
        if before is not None and after is not None:
            yield from self._compared(before, after, source.instant)
        elif before is not None:
            for rows in self._rows(before):
                yield self._batch(ChangeOperation.DELETE, source.instant, rows, None)
        elif after is not None:
            for rows in self._rows(after):
                yield self._batch(ChangeOperation.INSERT, source.instant, None, rows)

    def _logged(self, log: LogFile, instant: str) -> Iterator[pa.RecordBatch]:
        path = join(self.snapshot.base_path, log.path)
        try:
            with self.storage.open_input(path) as file:
                for records in read_changes(file, log.size, name=log.path):
                    images = [
                        _as_image(records.column(name), self._read_schema.field(name).type)
                        for name in (_BEFORE, _AFTER)
                    ]
                    instants = pa.repeat(instant, records.num_rows)
                    columns = [records.column(_OPERATION).cast(pa.string()), instants, *images]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._read_schema)
        except NotFound as error:
            raise TryLater(
                f"{log.path} was deleted while the query ran.", why="A cleaner took it.", remedy="Run the query again."
            ) from error

    def _compared(self, before: FileSlice, after: FileSlice, instant: str) -> Iterator[pa.RecordBatch]:
        buckets = RowBuckets(self._bucket_schema, MemoryBudget(self.memory_bytes).rows // 4)
        sides = [map(self._bucket_rows, self._rows(each)) for each in (before, after)]
        for earlier, later in buckets.buckets(*sides):
            one, other = earlier.combine_chunks(), later.combine_chunks()
            keys = [_words(rows, KEY_HASH, _SECOND_KEY_HASH) for rows in (one, other)]
            stamps = [_words(rows, _STAMP_HASH) for rows in (one, other)]
            same = pair_rows([*keys[0], *stamps[0]], [*keys[1], *stamps[1]])
            left = [left_over(rows.num_rows, paired) for rows, paired in zip((one, other), same, strict=True)]
            updated, (gone, come) = pair_among(left, *keys)
            for operation, old, new in (
                (ChangeOperation.DELETE, gone, None),
                (ChangeOperation.UPDATE, *updated),
                (ChangeOperation.INSERT, None, come),
            ):
                yield self._batch(operation, instant, _taken(one, old), _taken(other, new))

    @property
    def _image(self) -> pa.StructType:
        return self._read_schema.field(_AFTER).type

    @property
    def _bucket_schema(self) -> pa.Schema:
        own = [(name, pa.uint64()) for name in (KEY_HASH, _SECOND_KEY_HASH, _STAMP_HASH)]
        return pa.schema([*own, *self._image])

    def _rows(self, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        query = SliceQuery(frozenset({RECORD_KEY_FIELD, *_STAMP, *(each.name for each in self._image)}))
        return read_slice(self.storage, self._reading, slice_, query, memory_bytes=self.memory_bytes, meter=self.meter)

    def _bucket_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = RowHashes.of(rows.num_rows, [rows.column(RECORD_KEY_FIELD)])
        stamps = RowHashes.of(rows.num_rows, [rows.column(name) for name in _STAMP])
        own = [pa.array(words) for words in (keys.first, keys.second, stamps.first)]
        images = [plain_array(rows.column(each.name)) for each in self._image]
        return pa.RecordBatch.from_arrays([*own, *images], schema=self._bucket_schema)

    def _batch(
        self,
        operation: ChangeOperation,
        instant: str,
        before: pa.RecordBatch | pa.Table | None,
        after: pa.RecordBatch | pa.Table | None,
    ) -> pa.RecordBatch:
        rows = before if after is None else after
        assert rows is not None, "a change has a row on one side at least"
        columns = [pa.repeat(str(operation), rows.num_rows), pa.repeat(instant, rows.num_rows)]
        return pa.RecordBatch.from_arrays(
            [*columns, *(self._struct(each, rows.num_rows) for each in (before, after))], schema=self._read_schema
        )

    def _struct(self, rows: pa.RecordBatch | pa.Table | None, count: int) -> pa.Array:
        if rows is None:
            return pa.nulls(count, self._image)
        return pa.StructArray.from_arrays(
            [plain_array(rows.column(each.name)) for each in self._image], fields=list(self._image)
        )


def _check_captured(snapshot: TableSnapshot) -> None:
    if not snapshot.config.cdc_enabled:
        raise Refused(
            f"{snapshot.base_path} captures no changes.",
            why="Its hoodie.table.cdc.enabled is not true.",
            remedy="Compare two moments with --diff; a table captures changes if it is created with that property.",
        )
    findings = tuple(changes_cannot_be_captured(snapshot))
    if findings:
        why = "; ".join(str(each.words.get("why")) for each in findings)
        raise Refused(
            f"The changes of {snapshot.base_path} cannot be read.",
            why=f"They are captured, and {why}.",
            remedy="Read them with the release of Hudi that writes the table.",
        )


def _image_schema(table: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    known = [each.name for each in table if each.name not in META_COLUMNS]
    for name in columns or ():
        if name not in known:
            raise UsageError(
                f"The rows of changes have no column {name!r}.",
                remedy=did_you_mean(name, known) or f"Their columns are {', '.join(known)}.",
            )
    return pa.schema([table.field(name).with_metadata(None).with_nullable(True) for name in columns or known])


def _change_schema(image: pa.Schema) -> pa.Schema:
    kind = pa.struct(list(image))
    return pa.schema([(_OPERATION, pa.string()), (_INSTANT, pa.string()), (_BEFORE, kind), (_AFTER, kind)])


def _in_schema(changes: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The changes with fewer columns in their rows."""
    if changes.schema.equals(schema):
        return changes
    images = [_as_image(changes.column(name), schema.field(name).type) for name in (_BEFORE, _AFTER)]
    return pa.RecordBatch.from_arrays([changes.column(_OPERATION), changes.column(_INSTANT), *images], schema=schema)


def _as_image(rows: pa.StructArray, kind: pa.StructType) -> pa.Array:
    """Rows of a log of changes in the columns that the table has now."""
    names = [each.name for each in rows.type]
    fields = [
        plain_array(rows.field(each.name)).cast(each.type) if each.name in names else pa.nulls(len(rows), each.type)
        for each in kind
    ]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=rows.is_null())


def _taken(rows: pa.Table, places: Places | None) -> pa.Table | None:
    return None if places is None else rows.take(pa.array(places))


def _words(rows: pa.Table, *names: str) -> list[Words]:
    return [rows.column(name).to_numpy() for name in names]

"""The changes of one source (`scan/change_plan`): rows of a log of changes, or two slices compared by key.

    op        i, u or d
    ts_ms     the instant of the commit
    before    the row as it was: the table's columns, without Hudi's own; null for an insert
    after     the row as it is; null for a delete

A key that is among the rows before and after was updated where its row is of another commit, or has another place
there: so a row says that it was written again, with equal values too.

Touches: reads files of the table; temporary files outside of it.
Keeps:   memory is bounded by `memory_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeward.base.errors import NotFound, TryLater
from lakeward.base.paths import join
from lakeward.format.log.change_log import ChangeOperation, read_changes
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rows.row_hash import RowHashes
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.newest_slice import TableReading
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import read_slice
from lakeward.scan.change_plan import ChangeSource
from lakeward.scan.comparable_values import plain_array
from lakeward.scan.row_buckets import KEY_HASH, RowBuckets
from lakeward.scan.row_pairs import Places, Words, left_over, pair_among, pair_rows
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice, LogFile

_STAMP = ("_hoodie_commit_time", "_hoodie_commit_seqno")
_SECOND_KEY_HASH = "lakeward key two"
_STAMP_HASH = "lakeward stamp"

OPERATION: Final = "op"
INSTANT: Final = "ts_ms"
BEFORE: Final = "before"
AFTER: Final = "after"


def change_schema(image: pa.Schema) -> pa.Schema:
    """The columns of changes whose rows have these columns."""
    kind = pa.struct(list(image))
    return pa.schema([(OPERATION, pa.string()), (INSTANT, pa.string()), (BEFORE, kind), (AFTER, kind)])


@dataclass(frozen=True, slots=True)
class ChangeReading:
    """What all sources of a query have in common. Travels to executors."""

    reading: TableReading
    schema: pa.Schema
    """The columns that come out."""
    read_schema: pa.Schema
    """The same with all columns that the filter may name."""
    predicate: Predicate
    memory_bytes: int

    def changes(self, storage: Storage, source: ChangeSource, meter: ReadMeter) -> Iterator[pa.RecordBatch]:
        """The changes that the filter chooses. Raises what `read_slice` does."""
        for batch in _Reader(storage, self, meter).changes_of(source):
            chosen = _in_schema(self.predicate.chosen(batch), self.schema)
            if chosen.num_rows:
                yield chosen


@dataclass(frozen=True, slots=True)
class _Reader:
    storage: Storage
    of: ChangeReading
    meter: ReadMeter

    def changes_of(self, source: ChangeSource) -> Iterator[pa.RecordBatch]:
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
        path = join(self.of.reading.base_path, log.path)
        try:
            with self.storage.open_input(path) as file:
                for records in read_changes(file, log.size, name=log.path):
                    images = [
                        _as_image(records.column(name), self.of.read_schema.field(name).type)
                        for name in (BEFORE, AFTER)
                    ]
                    instants = pa.repeat(instant, records.num_rows)
                    columns = [records.column(OPERATION).cast(pa.string()), instants, *images]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.of.read_schema)
        except NotFound as error:
            raise TryLater(
                f"{log.path} was deleted while the query ran.", why="A cleaner took it.", remedy="Run the query again."
            ) from error

    def _compared(self, before: FileSlice, after: FileSlice, instant: str) -> Iterator[pa.RecordBatch]:
        buckets = RowBuckets(self._bucket_schema, MemoryBudget(self.of.memory_bytes).rows // 4)
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
        return self.of.read_schema.field(AFTER).type

    @property
    def _bucket_schema(self) -> pa.Schema:
        own = [(name, pa.uint64()) for name in (KEY_HASH, _SECOND_KEY_HASH, _STAMP_HASH)]
        return pa.schema([*own, *self._image])

    def _rows(self, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        query = SliceQuery(frozenset({RECORD_KEY_FIELD, *_STAMP, *(each.name for each in self._image)}))
        return read_slice(
            self.storage, self.of.reading, slice_, query, memory_bytes=self.of.memory_bytes, meter=self.meter
        )

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
            [*columns, *(self._struct(each, rows.num_rows) for each in (before, after))], schema=self.of.read_schema
        )

    def _struct(self, rows: pa.RecordBatch | pa.Table | None, count: int) -> pa.Array:
        if rows is None:
            return pa.nulls(count, self._image)
        return pa.StructArray.from_arrays(
            [plain_array(rows.column(each.name)) for each in self._image], fields=list(self._image)
        )


def _in_schema(changes: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The changes with fewer columns in their rows."""
    if changes.schema.equals(schema):
        return changes
    images = [_as_image(changes.column(name), schema.field(name).type) for name in (BEFORE, AFTER)]
    return pa.RecordBatch.from_arrays([changes.column(OPERATION), changes.column(INSTANT), *images], schema=schema)


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

"""The rows of a table that a query chooses, as a stream of Arrow batches.

    plan (`scan/scan_plan`, `scan/file_statistics`) -> slice after slice (`read/slice_scan`) -> columns in their order
    -> no more than the limit

Touches: the table, reading only; with `skips_damaged` temporary files, one at a time.
Keeps:   1. rows come by partition and file group, and of one query on one snapshot always in the same order;
         2. where it is known that a file group cannot be read nothing is given out, and the error says so; one that
            breaks while it is read ends the rows with an error. With `skips_damaged` the others are read, no slice is
            given out in part, and `damage` says what is missing;
         3. memory is bounded by one slice, and by the keys that are looked for;
         4. `missing_keys` are the keys that no row has, and are known once all rows were read;
         5. where the snapshot has the first partitions alone, rows of these are given out only if they are as many as
            were asked for; else all are of a snapshot of the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import BrokenFile, DamagedFiles, LakewardError, TryLater
from lakeward.base.quantities import format_count
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.protocol.progress import OnStep
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import count_base_rows, read_slice, stored_rows
from lakeward.scan.file_statistics import by_statistics
from lakeward.scan.missing_groups import MissingGroup, damage_of, missing_group, read_whole
from lakeward.scan.query_keys import KeyPlaces, query_keys
from lakeward.scan.scan_plan import QueryKind, ScanPlan, TableQuery, plan_scan
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.scan.key_lookup import KeyLookup

KEY_LOCATIONS: Final = pa.schema(
    [("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string()), ("instant", pa.string())]
)
"""The place of a row: record key, path of the partition, file group, and the commit that wrote the row last."""
_COUNTED = "_hoodie_record_key"
_COMMIT_TIME = "_hoodie_commit_time"
FIRST_ROWS_MAX: Final = 1000
"""Rows up to which a limited read looks at the first partitions of a table first: they are held in memory."""
FIRST_FILES: Final = 2048
"""Files that are listed for it."""
CHEAP_FILES_MAX = 256
CHEAP_BYTES_MAX = 64 * 1024 * 1024
"""What rows are counted for where only the first are asked for: a second or two."""


@dataclass(slots=True)
class TableScan:
    """A query on a table at one moment; each iteration reads it once more."""

    storage: Storage
    snapshot: TableSnapshot
    query: TableQuery
    skips_damaged: bool = False
    memory_bytes: int = MEMORY_BYTES
    clock: Clock = field(default_factory=SystemClock)
    lookup: Callable[[], KeyLookup] | None = None
    """Opens the table's indexes where the query says something of keys; None: none is asked."""
    whole: Callable[[], TableSnapshot] | None = None
    """Takes a snapshot of the whole table, where `snapshot` may be of its first partitions."""
    plan: ScanPlan = field(init=False)
    meter: ReadMeter = field(default_factory=ReadMeter)
    """What was read so far."""
    on_step: OnStep = lambda text: None
    """Takes a sentence about how far it is, now and then."""
    _broken: dict[GroupId, MissingGroup] = field(init=False, default_factory=dict)
    """File groups that broke while they were read."""
    _met: _MetKeys | None = field(init=False, default=None)
    """What was met of the keys that are looked for."""

    def __post_init__(self) -> None:
        """Raises what `plan_scan` does."""
        self._plan_it()

    def _plan_it(self) -> None:
        plan = plan_scan(self.snapshot, self.query, self._places())
        self.plan = by_statistics(self.storage, self.snapshot, self.query.where, plan, clock=self.clock)

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return _plain(self.plan.schema)

    @property
    def damage(self) -> DamagedFiles | None:
        """What is missing in the rows, where file groups cannot be read: as far as that was seen until now."""
        missing = [*map(missing_group, self.plan.damaged), *self._broken.values()]
        return damage_of(missing, is_skipped=self.skips_damaged) if missing else None

    @property
    def missing_keys(self) -> tuple[str, ...] | None:
        """The keys that were looked for and have no row, or none that the filter chooses; None where that is not known,
        because no keys were named or not all rows were read."""
        if self.query.keys is None or self._met is None or not self._met.is_whole:
            return None
        return tuple(key for key in dict.fromkeys(self.query.keys) if key not in self._met.keys)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows; `damage` says what is missing. Raises what `read_slice` does, and `DamagedFiles`; `TryLater` where
        the table got other columns since the scan was made."""
        if not self.snapshot.is_whole:
            held = list(self._rows())
            if sum(batch.num_rows for batch in held) == self.query.limit:
                yield from held
                return
            self._take_whole()
        yield from self._rows()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        self._check_damage()
        left = self.query.limit
        schema = self.schema
        met = self._met = _MetKeys(is_asked=self.query.keys is not None)
        done = 0
        if left != 0:
            for number, slice_ in enumerate(self.plan.slices):
                self._say(number, done)
                for batch in self._read(slice_):
                    done += met.add(batch)
                    self._say(number, done)
                    rows = batch if left is None else batch.slice(0, left)
                    yield _in_columns(rows, schema)
                    if left is not None:
                        left -= rows.num_rows
                        if left == 0:
                            return
            met.is_whole = True

    def locations(self) -> Iterator[pa.RecordBatch]:
        """The places of the rows, in `KEY_LOCATIONS`: each key once for each file group. Raises what iterating does."""
        self._take_whole()
        self._check_damage()
        query = replace(self.plan.slice_query, columns=frozenset({_COUNTED, _COMMIT_TIME}))
        for slice_ in self.plan.slices:
            yield from key_locations(self._batches(slice_, query), slice_, KEY_LOCATIONS)

    def count(self) -> int:
        """How many rows there are. Of base files without logs the footer says it, row group by row group where there is
        a filter; what it leaves open is read, and of it the columns of the filter alone."""
        return self._count(self.query.limit)

    def count_cheaply(self) -> int | None:
        """The same without the limit; None where many files, or much of them, would be read for it."""
        if not self.snapshot.is_whole:
            return None
        slices, is_filtered = self.plan.slices, bool(self.plan.slice_query.predicate.conditions)
        files = sum(1 + len(each.log_files) for each in slices)
        read = sum(_size(each) for each in slices if is_filtered or each.log_files)
        return self._count(None) if files <= CHEAP_FILES_MAX and read <= CHEAP_BYTES_MAX else None

    def _count(self, limit: int | None) -> int:
        self._take_whole()
        self._check_damage()
        counted = replace(self.plan.slice_query, columns=frozenset({_COUNTED}))
        met = self._met = _MetKeys(is_asked=self.query.keys is not None)
        rows = 0
        for number, slice_ in enumerate(self.plan.slices):
            self._say(number, rows)
            if limit is not None and rows >= limit:
                return limit
            rows += self._counted(slice_, counted, met)
        met.is_whole = True
        return rows if limit is None else min(rows, limit)

    def _take_whole(self) -> None:
        if self.snapshot.is_whole:
            return
        assert self.whole is not None, "a part of a table comes with the way to all of it"
        schema, self.snapshot = self.schema, self.whole()
        self._plan_it()
        if self.schema != schema:
            raise TryLater(
                f"{self.snapshot.base_path} got other columns while it was read.",
                why="A commit with another schema completed meanwhile.",
                remedy="Read it again.",
            )

    def _say(self, slices: int, rows: int) -> None:
        self.on_step(f"read {slices:,} of {format_count(len(self.plan.slices), 'file slice')}, {rows:,} rows")

    def _read(self, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        query = self.plan.slice_query
        if not self.skips_damaged:
            yield from self._batches(slice_, query)
            return
        try:
            yield from read_whole(self._batches(slice_, query), self.query.limit)
        except BrokenFile as error:
            self._broken[slice_.group_id] = self._missing_of(slice_, error)

    def _counted(self, slice_: FileSlice, query: SliceQuery, met: _MetKeys) -> int:
        try:
            if slice_.base_file is not None and not slice_.log_files and not met.is_asked:
                return count_base_rows(self.storage, self.plan.reading, slice_, query, meter=self.meter)
            return sum(met.add(batch) for batch in self._batches(slice_, query))
        except BrokenFile as error:
            if not self.skips_damaged:
                raise
            self._broken[slice_.group_id] = self._missing_of(slice_, error)
            return 0

    def _batches(self, slice_: FileSlice, query: SliceQuery) -> Iterator[pa.RecordBatch]:
        return read_slice(
            self.storage, self.plan.reading, slice_, query, memory_bytes=self.memory_bytes, meter=self.meter
        )

    def _missing_of(self, slice_: FileSlice, error: BrokenFile) -> MissingGroup:
        try:
            has_base = slice_.base_file is not None
            rows = stored_rows(self.storage, self.snapshot.base_path, slice_) if has_base else None
        except LakewardError:
            rows = None
        return MissingGroup(*slice_.group_id, error.what, error.remedy, rows)

    def _places(self) -> KeyPlaces | None:
        query, snapshot = self.query, self.snapshot
        if self.lookup is None or snapshot.schema is None:
            return None
        schema = table_schema(snapshot.schema)
        keys = query_keys(query.keys, query.where, schema, snapshot.config, evolves=snapshot.schema_on_read)
        if keys is None:
            return None
        return self.lookup().places(keys, bases_alone=query.kind is QueryKind.READ_OPTIMIZED)

    def _check_damage(self) -> None:
        if (damage := self.damage) is not None and not self.skips_damaged:
            raise damage


def planned_rows(
    storage: Storage, plan: ScanPlan, slice_: FileSlice, *, memory_bytes: int, meter: ReadMeter
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice that is planned, where slices are tasks of their own. Raises what `read_slice` does.

    Args:
        plan: `ScanPlan.shared` is enough.
    """
    schema = _plain(plan.schema)
    for batch in read_slice(storage, plan.reading, slice_, plan.slice_query, memory_bytes=memory_bytes, meter=meter):
        yield _in_columns(batch, schema)


def key_locations(rows: Iterator[pa.RecordBatch], slice_: FileSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The places of the rows of a slice, as `KEY_LOCATIONS` has them, by the names that a schema gives."""
    for batch in rows:
        keys, instants = (batch.column(name).cast(pa.string()) for name in (_COUNTED, _COMMIT_TIME))
        where = (pa.repeat(pa.scalar(each, pa.string()), len(keys)) for each in slice_.group_id)
        yield pa.RecordBatch.from_arrays([keys, *where, instants], schema=schema)


def _in_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


def _size(slice_: FileSlice) -> int:
    base = 0 if slice_.base_file is None else slice_.base_file.size
    return base + sum(log.size for log in slice_.log_files)


@dataclass(slots=True)
class _MetKeys:
    """The record keys of the rows that were read."""

    is_asked: bool
    keys: set[str] = field(default_factory=set)
    is_whole: bool = False
    """All rows were read."""

    def add(self, batch: pa.RecordBatch) -> int:
        """Returns how many rows there are."""
        if self.is_asked:
            self.keys.update(pc.unique(batch.column(_COUNTED)).to_pylist())
        return int(batch.num_rows)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema without the entries that Lakeward keeps beside its fields."""
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in schema])

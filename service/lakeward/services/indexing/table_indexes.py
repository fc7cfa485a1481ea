"""The indexes of one table: each type is opened here, to be asked or to be written.

    reader    an index of any type as of a snapshot, with what it has not taken in yet
    writer    an index of Lakeward's own as of a snapshot, without that
    place     where an index of Lakeward's own is made, and goes

An index in a database is reached by what the caller hands in; nothing else here knows a database.

Touches: the folder of the record index, or the database of the other one; the table, reading only.
Keeps:   nothing of a database is opened for an index that is in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Protocol

import pyarrow as pa

from lakeward.base.clock import Clock, SystemClock
from lakeward.base.errors import Refused, UsageError
from lakeward.base.paths import join
from lakeward.base.quantities import format_iso_time
from lakeward.index.build_state import build_folder
from lakeward.index.external.entry_store import EntryStore
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.hbase.hbase_index import HBaseSource
from lakeward.index.index import Index, Indexed, OwnIndex
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import INDEX_NAME, OWN_TYPES, REBUILT_NAME, IndexType, LookupType
from lakeward.index.out_of_use import check_in_use
from lakeward.index.record.as_of import locations_as_of
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.index_growth import ScalingWay
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_manifest import RecordManifest, find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.tee import read_tee
from lakeward.protocol.index.bucket_tasks import BucketSpread
from lakeward.protocol.index.record_index_writer import (
    RecordIndexWriter,
    create_record_index,
    drop_record_index,
    end_drop,
    moved_record_index,
    reshape_record_index,
)
from lakeward.protocol.index_out_of_use import put_in_use, take_out_of_use
from lakeward.services.service import OpenEntries
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

OpenIndex = Callable[[TableSnapshot], Index]
OpenOwnIndex = Callable[[TableSnapshot], OwnIndex]


class StoredIndex(Protocol):
    """A row of the database about an index."""

    @property
    def name(self) -> str: ...
    @property
    def is_global(self) -> bool: ...
    @property
    def entries(self) -> int: ...
    @property
    def entry_bytes(self) -> int: ...


class IndexDatabase(Protocol):
    """The indexes of one table in a database (`state.index_entries.TableEntries`)."""

    def list(self) -> Sequence[StoredIndex]: ...

    def create(self, name: str, *, is_global: bool) -> None:
        """An index without entries; one of the same scope may be there. Raises `UsageError` for another one."""

    def open(self, name: str) -> EntryStore:
        """Raises `UsageError` where there is none."""

    def drop(self, name: str) -> None: ...

    def take_place(self, name: str, *, of: str) -> None:
        """Let the index `name` be the one called `of` from now on."""


class OwnIndexPlace(Protocol):
    @property
    def build_folder(self) -> str:
        """The folder where a build keeps what its tasks read, that of one beside it, too."""

    def is_there(self) -> bool: ...

    def create(self, *, is_global: bool) -> None:
        """An index without entries. One that was created and has none, which an interrupted build left, becomes the one
        that is asked for. Raises an error of Lakeward where another one is.
        """

    def open(self, snapshot: TableSnapshot) -> OwnIndex:
        """Raises `UsageError` or `Refused` where there is none."""

    def drop(self) -> bool:
        """Leave nothing of it; False where there was none."""

    def beside(self) -> OwnIndexPlace:
        """The place where another one is built beside it; what an attempt that was stopped left there goes."""

    def take_place(self) -> None:
        """Let one that `beside` gave be the index from now on, whether there was one or not, in one step."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """How a record index that is made spreads its keys; None: as the one that it replaces, else by default."""

    buckets: int | None = None
    bucket_entries: int | None = None
    scaling: ScalingWay | None = None
    hash_name: str | None = None

    def over(self, before: RecordManifest | None, scope: KeyScope) -> RecordManifest:
        """An index without entries."""
        before = RecordManifest(0, scope) if before is None else before
        scaling = replace(
            before.scaling,
            way=self.scaling or before.scaling.way,
            entries_max=self.bucket_entries or before.scaling.entries_max,
        )
        empty = RecordManifest(0, scope, self.hash_name or before.hash_name, scaling)
        return empty if self.buckets is None else empty.with_first_group(self.buckets)


@dataclass(frozen=True, slots=True)
class TableIndexes:
    storage: Storage
    base_path: str
    record: RecordOptions
    open_entries: OpenEntries | None = field(default=None, repr=False)
    """Opens the entries of an index in a database."""
    open_database: Callable[[], AbstractContextManager[IndexDatabase]] | None = field(default=None, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    open_hbase: Callable[[], AbstractContextManager[HBaseSource]] | None = field(default=None, repr=False)
    """Opens the index in HBase that is asked for."""
    spread: BucketSpread | None = field(default=None, repr=False)
    """Tasks over buckets of a record index run there; None: in this process."""

    @contextmanager
    def reader(self, kind: LookupType, *, is_judged: bool = False, with_logs: bool = False) -> Iterator[OpenIndex]:
        """Opens the index as `open_index` does."""
        with ExitStack() as held:
            entries = None
            if kind is IndexType.POSTGRES and self.open_entries is not None:
                entries = held.enter_context(self.open_entries(self.base_path, INDEX_NAME))
            hbase = None
            if kind is IndexType.HBASE and self.open_hbase is not None:
                hbase = held.enter_context(self.open_hbase())
            yield lambda snapshot: open_index(
                self.storage,
                snapshot,
                kind,
                clock=self.clock,
                is_judged=is_judged,
                with_logs=with_logs,
                record=self.record,
                entries=entries,
                hbase=hbase,
            )

    @contextmanager
    def writer(self, kind: LookupType, *, keys_per_second: float | None = None) -> Iterator[OpenOwnIndex]:
        """Opens an index of Lakeward's own, which is there. Raises `UsageError` for another type."""
        check_is_own(kind)
        if kind is IndexType.RECORD:
            yield RecordPlace(self).open
            return
        assert self.open_entries is not None, "its caller knows the database"
        with self.open_entries(self.base_path, INDEX_NAME) as entries:
            yield self.external_opener(entries, keys_per_second)

    @contextmanager
    def place(
        self, kind: LookupType, *, keys_per_second: float | None = None, shape: RecordShape | None = None
    ) -> Iterator[OwnIndexPlace]:
        """The place of the table's index of that type. Raises `UsageError` for a type that is not Lakeward's own."""
        check_is_own(kind)
        if kind is IndexType.RECORD:
            yield RecordPlace(self, shape or RecordShape())
            return
        assert self.open_database is not None, "its caller knows the database"
        with self.open_database() as database:
            yield DatabasePlace(self, database, keys_per_second)

    def external_opener(
        self, entries: EntryStore, keys_per_second: float | None = None
    ) -> Callable[..., ExternalIndex]:
        return partial(ExternalIndex.of, entries, self.storage, limit=RateLimit(keys_per_second, clock=self.clock))

    def build_folder(self, kind: LookupType) -> str:
        return build_folder(self.base_path, kind, self.record)

    def locations_as_of(self, snapshot: TableSnapshot, keys: pa.Array, instant: str) -> pa.Table:
        """The places that the record index had for keys when that write had completed.

        Raises what `as_of.locations_as_of` does, and `Refused` where the index is out of use.
        """
        check_in_use(self.storage, self.base_path, IndexType.RECORD, self.record)
        folder = RecordPlace(self).folder
        index = RecordIndex.of(self.storage, snapshot, folder, options=self.record.lookup)
        return locations_as_of(self.storage, snapshot, index, keys, instant)

    def put_by_check(self, kind: LookupType, *, wrong: str, is_complete: bool) -> str:
        """What a check makes of an index: `out of use` or `in use` from now on; empty where it stays what it was.

        Args:
            wrong: what was found wrong, as the end of a sentence; empty where nothing was.
            is_complete: everything was checked.
        """
        if wrong:
            why = f"At {format_iso_time(self.clock.now())} {wrong}"
            return "out of use" if take_out_of_use(self.storage, self.base_path, kind, why, self.record) else ""
        return "in use" if is_complete and put_in_use(self.storage, self.base_path, kind, self.record) else ""

    def is_another(self, kind: LookupType) -> None:
        """The index is another one by now, or there is none: what was found of the old one holds no more."""
        put_in_use(self.storage, self.base_path, kind, self.record)


def check_is_own(kind: LookupType) -> None:
    if kind not in OWN_TYPES:
        raise UsageError(
            f"The {kind} index is not built by Lakeward.",
            why="Hudi's writers maintain it, or it is the base files themselves.",
            remedy=f"Name --type {', '.join(OWN_TYPES)} or bloom; `lakeward index list` shows what the table has.",
        )


def check_not_chosen(storage: Storage, base_path: str, kind: LookupType) -> None:
    """Raises `Refused` where the table's writes use that index, or compare it with the one that they use."""
    tee = read_tee(storage, base_path)
    if kind in (tee.primary, tee.shadow):
        raise Refused(
            f"The {kind} index is not dropped.",
            why="It was chosen for the table's writes (`lakeward index tee`), which would fail without it.",
            remedy="Take the choice back first: `lakeward index tee TABLE --forget`.",
        )


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    indexes: TableIndexes
    database: IndexDatabase
    keys_per_second: float | None
    name: str = INDEX_NAME

    @property
    def build_folder(self) -> str:
        return self.indexes.build_folder(IndexType.POSTGRES)

    def is_there(self) -> bool:
        return any(each.name == self.name for each in self.database.list())

    def create(self, *, is_global: bool) -> None:
        self.database.create(self.name, is_global=is_global)
        if self.name == INDEX_NAME:
            self.indexes.is_another(IndexType.POSTGRES)

    def open(self, snapshot: TableSnapshot) -> ExternalIndex:
        return self.indexes.external_opener(self.database.open(self.name), self.keys_per_second)(snapshot)

    def drop(self) -> bool:
        was_there = self.is_there()
        for name in {REBUILT_NAME, self.name}:
            self.database.drop(name)
        if self.name == INDEX_NAME:
            self.indexes.storage.delete_folder(self.build_folder)
            self.indexes.is_another(IndexType.POSTGRES)
        return was_there

    def beside(self) -> DatabasePlace:
        other = replace(self, name=REBUILT_NAME)
        other.drop()
        return other

    def take_place(self) -> None:
        self.database.take_place(self.name, of=INDEX_NAME)
        self.indexes.is_another(IndexType.POSTGRES)


_BUILT = "built-"


@dataclass(frozen=True, slots=True)
class RecordPlace:
    indexes: TableIndexes
    shape: RecordShape = field(default_factory=RecordShape)
    below: str = ""
    """The folder below that of the index, of one that is built beside it."""

    @property
    def folder(self) -> str:
        return self.indexes.record.folder(self.indexes.base_path)

    @property
    def build_folder(self) -> str:
        """It goes with the index."""
        return self.indexes.build_folder(IndexType.RECORD)

    def is_there(self) -> bool:
        return find_manifest(self.indexes.storage, self._folder) is not None

    def create(self, *, is_global: bool) -> None:
        storage = self.indexes.storage
        found = find_manifest(storage, self._folder)
        scope = KeyScope.GLOBAL if is_global else KeyScope.PARTITION
        if found is not None and found[1].indexed == Indexed():
            folder, begun = found
            shape = self.shape
            if begun.groups and shape.buckets is None:
                shape = replace(shape, buckets=begun.groups[0].buckets)
            reshape_record_index(storage, folder, begun, shape.over(begun, scope))
        else:
            replaced = find_manifest(storage, self.folder) if self.below else None
            empty = self.shape.over(None if replaced is None else replaced[1], scope)
            create_record_index(storage, self._folder, empty)
        if not self.below:
            self.indexes.is_another(IndexType.RECORD)

    def open(self, snapshot: TableSnapshot) -> RecordIndexWriter:
        indexes = self.indexes
        options, spread = indexes.record.lookup, indexes.spread
        return RecordIndexWriter.of(indexes.storage, snapshot, self._folder, options=options, spread=spread)

    def drop(self) -> bool:
        was_there = drop_record_index(self.indexes.storage, self._folder)
        self.indexes.is_another(IndexType.RECORD)
        return was_there

    def beside(self) -> RecordPlace:
        assert not self.below, "one is built at a time"
        storage = self.indexes.storage
        end_drop(storage, self.folder)
        # Each has a name of its own: of two processes that build it at once the first finds its folder gone.
        found = find_manifest(storage, self.folder)
        live = None if found is None else found[0]
        for status in storage.list(self.folder):
            if status.is_folder and status.name.startswith(_BUILT) and status.path != live:
                drop_record_index(storage, status.path)
        return replace(self, below=f"{_BUILT}{token_hex(4)}")

    def take_place(self) -> None:
        moved_record_index(self.indexes.storage, self.folder, self.below)
        self.indexes.is_another(IndexType.RECORD)

    @property
    def _folder(self) -> str:
        return join(self.folder, self.below) if self.below else self.folder

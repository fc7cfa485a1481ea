"""Lakeward's own indexes, of either type, as verbs handle them: opened, listed, made, rebuilt, dropped.

Touches: the folder of the record index, or the database of the other one; the configuration; the table, reading only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import BrokenFile, Refused, Unsupported, UsageError
from lakeward.base.quantities import format_share
from lakeward.cli.index.builds import describe_build
from lakeward.cli.options.store import AWAY, store_url
from lakeward.index.build_state import build_folder
from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import INDEX_NAME, OWN_TYPES, REBUILT_NAME, IndexType
from lakeward.index.key_changes.table_commits import Staleness, staleness
from lakeward.index.out_of_use import why_out_of_use
from lakeward.index.record.created_with import DEFAULT_HASH, SECOND_HASH, KeyScope
from lakeward.index.record.index_growth import ScalingWay
from lakeward.index.record.record_manifest import RecordManifest, find_manifest
from lakeward.index.record.record_options import RecordOptions
from lakeward.index.tee import read_tee
from lakeward.protocol.index.record_index_writer import (
    RecordIndexWriter,
    create_record_index,
    drop_record_index,
    end_drop,
    moved_record_index,
    reshape_record_index,
)
from lakeward.protocol.index_out_of_use import put_in_use
from lakeward.services.indexing.judge.cost import PutByCommits
from lakeward.services.indexing.judge.index_list import IndexState, ListedIndex, unreadable
from lakeward.services.indexing.settings import record_options_of
from lakeward.state.engine import open_database
from lakeward.state.index_entries import create_entries, drop_entries, list_indexes, open_entries, opened_entries
from lakeward.storage.storage import join

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.index.index import Index, OwnIndex
    from lakeward.state.engine import Database
    from lakeward.table.snapshot import TableSnapshot


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


@contextmanager
def own_index(
    opened: ConfiguredTable,
    kind: IndexType,
    url: str | None,
    rate: float | None = None,
    shape: RecordShapeArguments | None = None,
) -> Iterator[OwnIndexPlace]:
    """The place of the table's index of that type. Raises `UsageError` for a type that is not Lakeward's own."""
    if kind is IndexType.POSTGRES:
        with index_database(opened, url) as database:
            yield DatabasePlace(opened, database, rate)
        return
    if kind is not IndexType.RECORD:
        raise UsageError(
            f"The {kind} index is not built by Lakeward.",
            why="Hudi's writers maintain it, or it is the base files themselves.",
            remedy=f"Name --type {', '.join(OWN_TYPES)} or bloom; `lakeward index list` shows what the table has.",
        )
    yield RecordPlace.of(opened, shape)


def check_not_chosen(opened: ConfiguredTable, kind: IndexType) -> None:
    """Raises `Refused` where the table's writes use that index, or compare it with the one that they use."""
    tee = read_tee(opened.storage, opened.base_path)
    if kind in (tee.primary, tee.shadow):
        raise Refused(
            f"The {kind} index is not dropped.",
            why="It was chosen for the table's writes (`lakeward index tee`), which would fail without it.",
            remedy="Take the choice back first: `lakeward index tee TABLE --forget`.",
        )


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
                behind = staleness(opened.storage, snapshot, indexed, clock=SystemClock())
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.POSTGRES, error),)
    except AWAY as error:
        if url is not None:
            raise
        typer.echo(f"The store does not say which indexes it has of the table: {error}", err=True)
        return ()
    in_use = INDEX_NAME if indexed != Indexed() else None
    options = record_options_of(opened.table)
    why = why_out_of_use(opened.storage, opened.base_path, IndexType.POSTGRES, options)
    folder = build_folder(opened.base_path, IndexType.POSTGRES, options)
    under_way = describe_build(opened, snapshot, folder)
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


_BUILT = "built-"


@dataclass(frozen=True, slots=True)
class RecordShapeArguments:
    """What a command line says of the record index that it makes: a group of options. It stays until a rebuild."""

    buckets: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of buckets; default one for a million keys, and a third more for growth.",
        ),
    ] = None
    bucket_entries: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Entries that fill a bucket; default 1,000,000."),
    ] = None
    scaling: Annotated[
        ScalingWay | None,
        typer.Option(
            show_default=False,
            help="When buckets are full: group adds as many buckets as there are, seal lets a full bucket go on in "
            "another file group; default group.",
        ),
    ] = None
    hash_name: Annotated[
        str | None,
        typer.Option(
            "--hash",
            metavar=f"<{DEFAULT_HASH}|{SECOND_HASH}>",
            help=f"Hash that spreads keys over the buckets; default {DEFAULT_HASH}.",
        ),
    ] = None

    @property
    def is_said(self) -> bool:
        return any(value is not None for value in (self.buckets, self.bucket_entries, self.scaling, self.hash_name))

    def check(self, kind: IndexType) -> None:
        """Raises `UsageError`."""
        if self.is_said and kind is not IndexType.RECORD:
            raise UsageError(
                f"The {kind} index has no buckets.",
                why="--buckets, --bucket-entries, --scaling and --hash shape the files of a record index.",
                remedy="Leave them out, or name --type record.",
            )
        if self.hash_name not in (None, DEFAULT_HASH, SECOND_HASH):
            raise UsageError(
                f"--hash cannot be {self.hash_name}.",
                why=did_you_mean(str(self.hash_name), (DEFAULT_HASH, SECOND_HASH), otherwise="There is no such hash."),
                remedy=f"Write {DEFAULT_HASH} or {SECOND_HASH}.",
            )

    def over(self, existing: RecordManifest | None, scope: KeyScope) -> RecordManifest:
        """An index without entries: as it is said here, else like the one that it replaces, else by default."""
        before = RecordManifest(0, scope) if existing is None else existing
        scaling = replace(
            before.scaling,
            way=self.scaling or before.scaling.way,
            entries_max=self.bucket_entries or before.scaling.entries_max,
        )
        empty = RecordManifest(0, scope, self.hash_name or before.hash_name, scaling)
        return empty if self.buckets is None else empty.with_first_group(self.buckets)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    opened: ConfiguredTable
    options: RecordOptions
    folder: str
    below: str = ""
    """The folder below that of the index, of one that is built beside it."""
    shape: RecordShapeArguments = field(default_factory=RecordShapeArguments)

    @classmethod
    def of(cls, opened: ConfiguredTable, shape: RecordShapeArguments | None = None) -> RecordPlace:
        options = record_options_of(opened.table)
        return cls(opened, options, options.folder(opened.base_path), shape=shape or RecordShapeArguments())

    @property
    def build_folder(self) -> str:
        """It goes with the index."""
        return build_folder(self.opened.base_path, IndexType.RECORD, self.options)

    def is_there(self) -> bool:
        return find_manifest(self.opened.storage, self._folder) is not None

    def create(self, *, is_global: bool) -> None:
        found = find_manifest(self.opened.storage, self._folder)
        scope = KeyScope.GLOBAL if is_global else KeyScope.PARTITION
        if found is not None and found[1].indexed == Indexed():
            folder, begun = found
            shape = self.shape
            if begun.groups and shape.buckets is None:
                shape = replace(shape, buckets=begun.groups[0].buckets)
            reshape_record_index(self.opened.storage, folder, begun, shape.over(begun, scope))
            return
        existing = find_manifest(self.opened.storage, self.folder) if self.below else None
        empty = self.shape.over(None if existing is None else existing[1], scope)
        create_record_index(self.opened.storage, self._folder, empty)

    def open(self, snapshot: TableSnapshot) -> RecordIndexWriter:
        return RecordIndexWriter.of(self.opened.storage, snapshot, self._folder, options=self.options.lookup)

    def drop(self) -> bool:
        was_there = drop_record_index(self.opened.storage, self._folder)
        index_in_use(self.opened, IndexType.RECORD)
        return was_there

    def beside(self) -> RecordPlace:
        assert not self.below, "one is built at a time"
        end_drop(self.opened.storage, self.folder)
        # Each has a name of its own: of two processes that build it at once the first finds its folder gone.
        found = find_manifest(self.opened.storage, self.folder)
        live = None if found is None else found[0]
        for status in self.opened.storage.list(self.folder):
            if status.is_folder and status.name.startswith(_BUILT) and status.path != live:
                drop_record_index(self.opened.storage, status.path)
        return replace(self, below=f"{_BUILT}{token_hex(4)}")

    def take_place(self) -> None:
        moved_record_index(self.opened.storage, self.folder, self.below)
        index_in_use(self.opened, IndexType.RECORD)

    @property
    def _folder(self) -> str:
        return join(self.folder, self.below) if self.below else self.folder


def listed_in_folder(opened: ConfiguredTable, snapshot: TableSnapshot) -> tuple[ListedIndex, ...]:
    """The record index of the table."""
    place = RecordPlace.of(opened)
    try:
        found = find_manifest(opened.storage, place.folder)
        if found is None:
            return ()
        _, manifest = found
        behind = staleness(opened.storage, snapshot, manifest.indexed, clock=SystemClock())
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.RECORD, error),)
    why = why_out_of_use(opened.storage, opened.base_path, IndexType.RECORD, place.options)
    state = IndexState.BUILDING if manifest.indexed.through is None else IndexState.IN_USE
    load = manifest.load
    buckets = sum(group.buckets for group in manifest.groups)
    note = f"Entries: {manifest.entries:,}; files: {len(manifest.files):,}; buckets: {buckets:,}"
    if load is not None:
        note += f", {format_share(load.mean)} full, the fullest of them {format_share(load.fullest)}"
    return (
        ListedIndex(
            IndexType.RECORD.value,
            "",
            state if why is None else IndexState.OUT_OF_USE,
            True,
            "table" if manifest.scope is KeyScope.GLOBAL else "partition",
            None,
            None,
            "",
            manifest.size_bytes,
            behind.commits,
            why or f"{note}.{describe_build(opened, snapshot, place.build_folder)}",
            behind.bytes,
            behind.seconds,
        ),
    )

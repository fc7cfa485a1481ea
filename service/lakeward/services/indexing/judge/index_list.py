"""Which indexes a table has that say where a key is, and which spare readers files; what each covers and takes.

    simple           the base files themselves, whose keys are read
    bloom            the filters in the footers of base files, of which a sample is opened; or the cache of them, where
                     there is one
    metadata         the partitions of the metadata table, Hudi's: the record index has places, the others prune
    record           Lakeward's own below the table, or in the configured location
    postgres         Lakeward's own in a database, and the one that is built beside it

Touches: storage, reading only: footers of a sample of base files, listings of the metadata table's folders, manifests;
         the database, by what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, LakewardError, Refused, Unsupported
from lakeward.base.paths import join
from lakeward.base.quantities import format_count, format_share
from lakeward.format.metadata.partition import FILES, RECORD_INDEX
from lakeward.index.bloom.cache_coverage import CacheCoverage, find_coverage
from lakeward.index.bloom.cache_manifest import CacheManifest
from lakeward.index.build_state import build_under_way
from lakeward.index.index import Indexed
from lakeward.index.index_type import INDEX_NAME, IndexType, LookupType
from lakeward.index.key_changes.table_commits import Staleness, staleness
from lakeward.index.out_of_use import why_out_of_use
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_manifest import find_manifest
from lakeward.services.indexing.judge.footer_sample import filter_bytes, sample_bases
from lakeward.services.indexing.table_indexes import RecordPlace, TableIndexes
from lakeward.storage.storage import AppendingStorage, Storage
from lakeward.table.file_group import BaseFile
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.metadata.metadata_table import metadata_base_path
from lakeward.table.snapshot import TableSnapshot


class IndexState(StrEnum):
    IN_USE = "in use"
    BUILDING = "being built"
    OUT_OF_USE = "out of use"
    """It was found to be wrong."""
    UNREADABLE = "unreadable"
    """What it has, or what it lacks, cannot be known, so that no lookup uses it."""


@dataclass(frozen=True, slots=True)
class ListedIndex:
    type: str
    """What `--type` calls it."""
    name: str
    """The name of it among those of one type; empty where there is but one."""
    state: IndexState
    locates: bool
    """Whether it says where a key is; others spare readers files."""
    scope: str
    """What a key is one in, by this index: `table` or `partition`; empty for what does not locate."""
    covered: int | None
    """How many base files or file groups it knows, where that can be known."""
    of: int | None
    unit: str
    bytes: int | None
    """What is stored for it alone."""
    behind_commits: int | None
    """Commits of the table that it does not know yet; 0 where each commit brings its part."""
    note: str = ""
    behind_bytes: int = 0
    """What these commits wrote."""
    behind_seconds: float = 0.0
    """Since the first of them completed."""
    role: str = ""
    """`primary` if the table's writes use it, `shadow` if it is on trial (`index/tee`)."""


def unreadable(type_: LookupType, error: LakewardError) -> ListedIndex:
    """One of which no more is known."""
    return ListedIndex(type_.value, "", IndexState.UNREADABLE, True, "", None, None, "", None, None, str(error))


def list_indexes(storage: Storage, snapshot: TableSnapshot, *, clock: Clock, seed: int = 0) -> tuple[ListedIndex, ...]:
    """All indexes of the table, those that it always has first. Raises `BrokenFile`."""
    return (
        _simple(snapshot),
        *_bloom(storage, snapshot, clock, seed),
        *_metadata(storage, snapshot),
    )


def _simple(snapshot: TableSnapshot) -> ListedIndex:
    groups = len(snapshot.file_groups)
    of_logs = groups - len(_bases(snapshot))
    return ListedIndex(
        "simple",
        "",
        IndexState.IN_USE,
        True,
        "partition",
        groups - of_logs,
        groups,
        "file groups",
        0,
        0,
        "Keys in logs alone are not found; partitions with a file group of logs alone are refused." if of_logs else "",
    )


def _bloom(storage: Storage, snapshot: TableSnapshot, clock: Clock, seed: int) -> Iterator[ListedIndex]:
    try:
        found = find_coverage(storage, snapshot, clock=clock)
    except (BrokenFile, Unsupported) as error:
        yield from _footers(storage, snapshot, seed, f" {error.what} {error.why}")
        return
    if found is None:
        yield from _footers(storage, snapshot, seed)
    else:
        yield _cached(storage, snapshot, *found)


def _footers(storage: Storage, snapshot: TableSnapshot, seed: int, more: str = "") -> Iterator[ListedIndex]:
    bases = _bases(snapshot)
    chosen = sample_bases(bases, seed=seed)
    filters = [found for base in chosen if (found := filter_bytes(storage, snapshot, base)) is not None]
    if not chosen:
        return
    without = len(chosen) - len(filters)
    seen = f"{len(chosen)} of {len(bases)} footers were opened, {len(filters)} of them with a filter."
    if without:
        seen += " Of a file without one all keys are read."
    yield ListedIndex(
        "bloom",
        "",
        IndexState.IN_USE,
        True,
        "partition",
        len(bases) if without == 0 else None,
        len(bases),
        "base files",
        round(sum(filters) / len(chosen) * len(bases)),
        0,
        seen + more,
    )


def _cached(storage: Storage, snapshot: TableSnapshot, manifest: CacheManifest, has: CacheCoverage) -> ListedIndex:
    files = len(manifest.files)
    notes = [f"A cache of {format_count(files, 'file')}"]
    if manifest.with_logs:
        notes.append(f"it has {has.logs:,} of {has.of_logs:,} logs, too")
    if has.gone:
        notes.append(f"{has.gone:,} of its entries are of files that are gone")
    if has.broken:
        notes.append(f"{has.broken:,} of its files are broken")
    if has.unread:
        notes.append(f"{has.unread:,} of the table's files could not be read for it")
    if has.behind.commits:
        notes.append("what it lacks is read from the files, until it is brought up to date")
    why = why_out_of_use(storage, snapshot.base_path, IndexType.BLOOM)
    if why is not None:
        notes.append(f"it is out of use, and footers are read: {why.rstrip('.')}")
    return ListedIndex(
        "bloom",
        "",
        IndexState.IN_USE,
        True,
        "partition",
        has.bases,
        has.of_bases,
        "base files",
        manifest.size_bytes,
        has.behind.commits,
        f"{'; '.join(notes)}.",
        has.behind.bytes,
        has.behind.seconds,
    )


def _metadata(storage: Storage, snapshot: TableSnapshot) -> Iterator[ListedIndex]:
    config = snapshot.config
    definitions = load_index_definitions(storage, snapshot.base_path, config)
    for name in config.metadata_partitions:
        if name == FILES:
            continue
        locates = name == RECORD_INDEX
        why = why_out_of_use(storage, snapshot.base_path, IndexType.METADATA) if locates else None
        state = IndexState.IN_USE if why is None else IndexState.OUT_OF_USE
        scope = "partition" if definitions.is_partitioned_record_index else "table"
        folder = join(metadata_base_path(snapshot.base_path), name)
        yield ListedIndex(
            "metadata",
            name,
            state if name in config.built_metadata_partitions else IndexState.BUILDING,
            locates,
            scope if locates else "",
            None,
            None,
            "",
            sum(status.size for status in storage.list(folder) if not status.is_folder),
            0,
            why or _note(name, definitions.by_name[name].source_fields if name in definitions.by_name else ()),
        )


def list_below(indexes: TableIndexes, snapshot: TableSnapshot) -> tuple[ListedIndex, ...]:
    """The record index of the table."""
    try:
        found = find_manifest(indexes.storage, RecordPlace(indexes).folder)
        if found is None:
            return ()
        _, manifest = found
        behind = staleness(indexes.storage, snapshot, manifest.indexed, clock=indexes.clock)
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.RECORD, error),)
    why = why_out_of_use(indexes.storage, indexes.base_path, IndexType.RECORD, indexes.record)
    state = IndexState.BUILDING if manifest.indexed.through is None else IndexState.IN_USE
    buckets = sum(group.buckets for group in manifest.groups)
    note = f"Entries: {manifest.entries:,}; files: {len(manifest.files):,}; buckets: {buckets:,}"
    if (load := manifest.load) is not None:
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
            why or f"{note}.{_of_commits(indexes.storage)}{_build_under_way(indexes, snapshot, IndexType.RECORD)}",
            behind.bytes,
            behind.seconds,
        ),
    )


def list_in_database(indexes: TableIndexes, snapshot: TableSnapshot) -> tuple[ListedIndex, ...]:
    """The indexes of the table in its database. Raises what the database raises."""
    assert indexes.open_database is not None, "its caller knows the database"
    try:
        with indexes.open_database() as database:
            rows = database.list()
            behind, indexed = Staleness(), Indexed()
            if any(row.name == INDEX_NAME for row in rows):
                indexed = indexes.external_opener(database.open(INDEX_NAME))(snapshot).indexed()
                behind = staleness(indexes.storage, snapshot, indexed, clock=indexes.clock)
    except (BrokenFile, Refused, Unsupported) as error:
        return (unreadable(IndexType.POSTGRES, error),)
    built = INDEX_NAME if indexed != Indexed() else None
    why = why_out_of_use(indexes.storage, indexes.base_path, IndexType.POSTGRES, indexes.record)
    in_use = IndexState.IN_USE if why is None else IndexState.OUT_OF_USE
    under_way = _build_under_way(indexes, snapshot, IndexType.POSTGRES)
    return tuple(
        ListedIndex(
            IndexType.POSTGRES.value,
            row.name,
            in_use if row.name == built else IndexState.BUILDING,
            True,
            "table" if row.is_global else "partition",
            None,
            None,
            "",
            row.entry_bytes,
            behind.commits if row.name == INDEX_NAME else None,
            (why if row.name == built else None)
            or f"About {row.entries:,} entries, as the database estimates.{'' if row.name == built else under_way}",
            behind.bytes,
            behind.seconds,
        )
        for row in rows
    )


def _of_commits(storage: Storage) -> str:
    """A sentence about what commits add where no file grows, which has an operator expect more files."""
    return "" if isinstance(storage, AppendingStorage) else " Object store: each commit adds a file to each bucket."


def _build_under_way(indexes: TableIndexes, snapshot: TableSnapshot, kind: LookupType) -> str:
    """A sentence about a build that goes on, or was stopped; empty where there is none."""
    found = build_under_way(indexes.storage, snapshot, indexes.build_folder(kind))
    return "" if found is None else f" {found.describe(indexes.clock.now())}"


def _note(name: str, fields: tuple[str, ...]) -> str:
    return f"Over {', '.join(fields)}." if fields and name != RECORD_INDEX else ""


def _bases(snapshot: TableSnapshot) -> list[BaseFile]:
    """The base files that lookups read, in the order of their paths."""
    found = [base for group in snapshot.file_groups if (base := group.read_slices[-1].base_file) is not None]
    return sorted(found, key=lambda base: base.path)

"""The indexes of one table that say where keys are, as a plan finds them: Hudi's record index, Lakeward's own, and its
cache of filters.

    metadata    in the metadata table: each commit brings its part
    record      below the table, or in the configured location: how far it is behind, and how full
    postgres    in the store's database: how far it is behind; while the store does not answer, what it said last stays
    bloom       the cache of filters, where it was built: how much of the table it has, and what it lacks

Of an index of Lakeward's own that is built, or rebuilt beside the old one, the folder of the build says how many
file groups are read, and when the last of them was: in one whose process died nothing is read any more.

What earlier checks found of an index goes on, until it is in use again: then it is another one.

Touches: the table, the folders of the record index, of the cache and of builds, and the store, reading.
Keeps:   1. what prevents reporting one index is reported, and hides no other one;
         2. an index that was put in use again is one that was not checked yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from lakeward.base.errors import BrokenFile, NotFound, Refused, StoreBroken, StoreUnavailable, StoreVersion, Unsupported
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.bloom.cache_coverage import find_coverage
from lakeward.index.bloom.log_coverage import LogsSeen, look_at_logs
from lakeward.index.build_state import BuildProgress, build_folder, build_under_way
from lakeward.index.index import Indexed
from lakeward.index.index_type import INDEX_NAME, OWN_TYPES, IndexType, LookupType
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.out_of_use import why_out_of_use
from lakeward.index.record.record_manifest import find_manifest
from lakeward.protocol.problem import problem_of
from lakeward.services.indexing.index_memory import IndexCare, IndexStatus
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.snapshot import TableSnapshot

_STORE_AWAY = (StoreUnavailable, StoreBroken, StoreVersion)
_LOGS_OPENED_MAX: Final = 1_000
"""One plan opens so many, for their tails."""
_UNREADABLE = (BrokenFile, Refused, Unsupported)


def find_indexes(table: IndexCare, snapshot: TableSnapshot) -> tuple[IndexStatus, ...]:
    """The indexes of the table as of the snapshot, with what was found of them since the plan before."""
    look = _Look(table, snapshot, {index.type: index for index in table.memory.indexes})
    return tuple(
        look.in_use_or_not(index) for index in (*look.of_hudi(), *look.below(), *look.in_database(), *look.cached())
    )


def find_builds(table: IndexCare, snapshot: TableSnapshot) -> Mapping[LookupType, BuildProgress]:
    """Builds of Lakeward's own indexes that are under way, or were stopped."""
    record = table.settings.record.options
    folders = {kind: build_folder(snapshot.base_path, kind, record) for kind in OWN_TYPES}
    found = {kind: build_under_way(table.storage, snapshot, folder) for kind, folder in folders.items()}
    return {kind: build for kind, build in found.items() if build is not None}


def find_log_coverage(table: IndexCare, snapshot: TableSnapshot, indexes: Sequence[IndexStatus]) -> LogsSeen | None:
    """How many bytes of its logs say their keys; None where that cannot be known.

    Args:
        indexes: as of the snapshot. The cache of filters is among them where there is one, and is not read again.
    """
    seen = table.memory.logs
    try:
        tails = None if seen is None else seen.tails
        return look_at_logs(table.storage, snapshot, tails, cached=_logs_of_cache(indexes), opened_max=_LOGS_OPENED_MAX)
    except (*_UNREADABLE, NotFound):
        return None


def _logs_of_cache(indexes: Sequence[IndexStatus]) -> Set[tuple[str, int]] | None:
    """Path and size of each log that lookups find in the cache; None where that is unknown."""
    cache = next((index for index in indexes if index.type is IndexType.BLOOM), None)
    if cache is None or cache.out_of_use:
        return frozenset()
    return None if cache.coverage is None else cache.coverage.held_logs


@dataclass(frozen=True, slots=True)
class _Look:
    table: IndexCare
    snapshot: TableSnapshot
    before: Mapping[LookupType, IndexStatus]

    def of_hudi(self) -> Iterator[IndexStatus]:
        """Indexes that can be wrong, since they keep entries of their own, and that lookups can use."""
        config = self.snapshot.config
        if RECORD_INDEX not in config.built_metadata_partitions:
            return
        definitions = load_index_definitions(self.table.storage, self.snapshot.base_path, config)
        if not definitions.is_partitioned_record_index:
            yield self._known(IndexType.METADATA)

    def below(self) -> Iterator[IndexStatus]:
        index = self._known(IndexType.RECORD)
        folder = self.table.settings.record.options.folder(self.snapshot.base_path)
        try:
            found = find_manifest(self.table.storage, folder)
        except _UNREADABLE as error:
            yield replace(index, behind=None, load=None, problem=problem_of(error).text)
            return
        if found is not None:
            _, manifest = found
            index = replace(index, load=manifest.load, unmerged=manifest.unmerged)
            yield from self._with_staleness(index, manifest.indexed)

    def in_database(self) -> Iterator[IndexStatus]:
        index = self._known(IndexType.POSTGRES)
        try:
            found = self.table.database.commits(self.snapshot.base_path)
        except _STORE_AWAY:
            if IndexType.POSTGRES in self.before:
                yield index
            return
        if INDEX_NAME in found:
            yield from self._with_staleness(index, Indexed.of(*found[INDEX_NAME]))

    def cached(self) -> Iterator[IndexStatus]:
        index = self._known(IndexType.BLOOM)
        try:
            found = find_coverage(self.table.storage, self.snapshot, clock=self.table.clock)
        except _UNREADABLE as error:
            yield replace(index, behind=None, coverage=None, problem=problem_of(error).text)
            return
        if found is not None:
            _, coverage = found
            now = self.table.clock.now()
            yield replace(index, behind=coverage.behind, behind_at=now, coverage=coverage, problem="")

    def in_use_or_not(self, index: IndexStatus) -> IndexStatus:
        record = self.table.settings.record.options
        why = why_out_of_use(self.table.storage, self.snapshot.base_path, index.type, record) or ""
        if index.out_of_use and not why:
            index = replace(index, checked_at=None, checked=0, wrong=0, excluded_rate=None)
        return replace(index, out_of_use=why)

    def _known(self, type_: LookupType) -> IndexStatus:
        return self.before.get(type_) or IndexStatus(type_)

    def _with_staleness(self, index: IndexStatus, indexed: Indexed) -> Iterator[IndexStatus]:
        """Nothing of one that was not built yet."""
        if indexed == Indexed():
            return
        try:
            behind = staleness(self.table.storage, self.snapshot, indexed, clock=self.table.clock)
        except _UNREADABLE as error:
            yield replace(index, behind=None, problem=problem_of(error).text)
            return
        yield replace(index, behind=behind, behind_at=self.table.clock.now(), problem="")

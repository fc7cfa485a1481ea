"""What is done to an index where the daemon's work runs, a process of this machine or an executor: one that Lakeward
keeps is brought up to date, and any that can be wrong is compared with the rows, or the files, that it is of.

What a task needs beyond its spec is imported by it: with Numba and its kernels, which the daemon's process never has.
So specs and results are plain values.

Touches: the index, and the table, reading; for one in a database that, whose address the spec has.
Keeps:   the address of the store, which may hold a password, is in no representation, and goes to no executor: an index
         in a database is a task of this machine (`daemon/jobs/index/updating`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from lakeward.base.clock import SystemClock
from lakeward.index.index_type import INDEX_NAME, IndexType
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.judge.confidence import excluded_rate
from lakeward.storage.opening import open_storage
from lakeward.table.listing import ListingSource

if TYPE_CHECKING:
    from lakeward.index.index import Index
    from lakeward.services.indexing.judge.check_result import IndexCheck
    from lakeward.services.indexing.judge.filter_cache_check import FilterCacheCheck
    from lakeward.services.indexing.run.building import OpenOwnIndex
    from lakeward.storage.storage import Storage
    from lakeward.table.snapshot import TableSnapshot

TOLD: Final = 3
"""So many findings are listed in an event."""


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """Which index of a table, and how to open it and the table."""

    type: IndexType
    timezone: str | None
    """The time zone that the operator gave for a table whose instants are in local time."""
    listing: ListingSource
    record: RecordOptions = RECORD_OPTIONS
    store_url: str = field(default="", repr=False)
    """For an index in a database alone."""

    @property
    def is_outside(self) -> bool:
        """In a database: a task of this machine alone."""
        return self.type is IndexType.POSTGRES


@dataclass(frozen=True, slots=True)
class IndexCheckSpec:
    index: IndexSpec
    size: CheckSize


@dataclass(frozen=True, slots=True)
class IndexUpdated:
    commits: int
    """Commits of the table that were taken in."""
    is_tidied: bool
    """Something was settled, forgotten or merged."""
    told: tuple[str, ...] = ()
    """What was found broken meanwhile, in sentences: the first ones."""


@dataclass(frozen=True, slots=True)
class IndexChecked:
    """What a check found."""

    checked: int
    """Rows and entries that were looked at."""
    wrong: int = 0
    excluded_rate: float | None = None
    """The share that fewer are wrong than, with the confidence of the check, where none was."""
    told: str = ""
    """What is wrong, as the end of a sentence; empty where nothing is."""
    faults: tuple[str, ...] = ()
    """The first ones, and what was found broken; `lakeward index verify` names more."""

    @classmethod
    def of_rows(cls, check: IndexCheck) -> Self:
        drawn = [each for each in (check.rows, check.entries) if each is not None]
        rates = [each.excluded_rate for each in drawn if each.excluded_rate is not None]
        return cls(
            sum(each.checked for each in drawn),
            check.wrong,
            None if check.wrong else max(rates, default=None),
            check.told if check.wrong else "",
            tuple(f"{fault.key}: {fault.what}" for fault in check.faults[:TOLD]),
        )

    @classmethod
    def of_cache(cls, check: FilterCacheCheck, confidence: float) -> Self:
        wrong = len(check.wrong)
        faults = [*(f"{entry.path}: {entry.what}" for entry in check.wrong), *check.broken]
        return cls(
            check.checked,
            wrong,
            None if wrong or not check.checked else excluded_rate(check.checked, check.of, confidence),
            check.told if wrong else "",
            tuple(faults[:TOLD]),
        )


def update_index_at(location: str, spec: IndexSpec, task_attempt: int) -> IndexUpdated:
    """Bring the index of the table at `location` up to date. Raises what `update_and_tidy` and `update_filter_cache`
    do."""
    from lakeward.services.indexing.run.building import update_and_tidy
    from lakeward.services.indexing.run.filter_caching import update_filter_cache

    storage, base_path = open_storage(location)
    if spec.type is IndexType.BLOOM:
        change = update_filter_cache(storage, taken(storage, base_path, spec), on_file=lambda done, of: None)
        return IndexUpdated(change.commits, bool(change.gone or change.told), change.told[:TOLD])
    with _opener(storage, base_path, spec) as opens:
        done = update_and_tidy(storage, opens, lambda: taken(storage, base_path, spec))
    return IndexUpdated(len(done.commits), done.is_tidied)


def check_index_at(location: str, spec: IndexCheckSpec, task_attempt: int) -> IndexChecked:
    """Compare the index of the table at `location` with its rows, in use or not; both are read twice where something is
    found. Entries of the cache of filters are held against footers and logs, which never change."""
    from lakeward.services.indexing.judge.check import Moment, check_index
    from lakeward.services.indexing.judge.filter_cache_check import check_filter_cache

    storage, base_path = open_storage(location)
    if spec.index.type is IndexType.BLOOM:
        found = check_filter_cache(storage, taken(storage, base_path, spec.index), spec.size)
        return IndexChecked(0) if found is None else IndexChecked.of_cache(found, spec.size.confidence)
    with judged_opener(storage, base_path, spec.index) as opens:

        def moment_now() -> Moment:
            snapshot = taken(storage, base_path, spec.index)
            return Moment(snapshot, opens(snapshot))

        return IndexChecked.of_rows(check_index(storage, moment_now, spec.size))


@contextmanager
def judged_opener(storage: Storage, base_path: str, spec: IndexSpec) -> Iterator[Callable[[TableSnapshot], Index]]:
    """Opens an index as of a snapshot for lookups, in use or not, with what it has not taken in yet."""
    from lakeward.index.opening import open_index
    from lakeward.index.overlay import current_index

    if not spec.is_outside:
        clock = SystemClock()
        yield lambda snapshot: open_index(storage, snapshot, spec.type, clock=clock, is_judged=True, record=spec.record)
        return
    with _opener(storage, base_path, spec) as opens:
        yield lambda snapshot: current_index(storage, snapshot, opens(snapshot))


def taken(storage: Storage, base_path: str, spec: IndexSpec) -> TableSnapshot:
    """The table as it is now, read as the spec says."""
    from lakeward.table.snapshot import take_snapshot

    return take_snapshot(storage, base_path, timezone=spec.timezone, clock=SystemClock(), listing=spec.listing)


@contextmanager
def _opener(storage: Storage, base_path: str, spec: IndexSpec) -> Iterator[OpenOwnIndex]:
    """Opens a Lakeward index as of a snapshot, without what it has not taken in yet."""
    if spec.type is IndexType.RECORD:
        from lakeward.protocol.index.record_index_writer import RecordIndexWriter

        folder, lookup = spec.record.folder(base_path), spec.record.lookup
        yield lambda snapshot: RecordIndexWriter.of(storage, snapshot, folder, options=lookup)
        return
    assert spec.type is IndexType.POSTGRES, "no other one is Lakeward's"
    from lakeward.index.external.external_index import ExternalIndex
    from lakeward.index.external.rate_limit import RateLimit
    from lakeward.state.engine import open_database
    from lakeward.state.index_entries import open_entries

    database = open_database(spec.store_url, create=False)
    try:
        entries = open_entries(database, base_path, INDEX_NAME)
        limit = RateLimit(None, clock=SystemClock())
        yield lambda snapshot: ExternalIndex.of(entries, storage, snapshot, limit=limit)
    finally:
        database.close()


RunIndexUpdate = Callable[[IndexSpec, int], IndexUpdated]
RunIndexCheck = Callable[[IndexCheckSpec, int], IndexChecked]

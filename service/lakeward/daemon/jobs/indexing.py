"""Indexes of one table kept by the daemon: which it has, is one to be brought up to date or checked, and the job that
does it.

Hudi's record index is checked. Of Lakeward's own, below the table and in the store's PostgreSQL, it is told how far
they are behind the table, at each plan, and of the former how full it is; while the store does not answer, what it said
last stays. They are brought up to date where that is due (`daemon/jobs/index_updating`).

Time is cut into rounds of `index.verify_every`, which begin at another moment for each table, the same one whichever
daemon watches it: so the checks of many tables are spread, and one is due as often whether daemons are restarted or
not. The first round that a daemon sees the end of is the first of which it does the check.

Touches: the table, reading only; updates and checks are tasks. An index that is wrong is taken out of use.
Keeps:   1. an index is checked once a round, however often the table is planned;
         2. what is found is shown until the next check, and holds no other service of the table back;
         3. what stands against telling of one index is told, and hides no other one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import SystemRandom

from lakeward.clock import Clock
from lakeward.commit.index_out_of_use import take_out_of_use
from lakeward.commit.lock.table_lock import Guard
from lakeward.daemon.jobs.index_tasks import RunIndexUpdate
from lakeward.daemon.jobs.index_updating import decide_update, told_due, update_indexes
from lakeward.daemon.problem import problem_of
from lakeward.daemon.reports import JobReport
from lakeward.daemon.scheduling.events import JobResult, ServiceDemand
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import IndexStatus, JobFigures
from lakeward.daemon.table_cache import TableCache
from lakeward.dispatch.dispatcher import Dispatcher, Failure
from lakeward.errors import (
    BrokenFile,
    LakewardError,
    Refused,
    StoreBroken,
    StoreUnavailable,
    StoreVersion,
    TaskFailed,
    Unsupported,
)
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.index import Indexed
from lakeward.index.index_type import INDEX_NAME, IndexType
from lakeward.index.key_changes.table_commits import staleness
from lakeward.index.out_of_use import why_out_of_use
from lakeward.index.record.record_manifest import find_manifest
from lakeward.quantities import format_iso_time
from lakeward.state.records import Watermark
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import load_index_definitions
from lakeward.table.listing import listing_source
from lakeward.table.snapshot import TableSnapshot
from lakeward.verify.confidence import excluded_rate
from lakeward.verify.index_check_entry import IndexCheckSpec
from lakeward.verify.index_check_result import CheckSize, IndexCheck

RunIndexCheck = Callable[[IndexCheckSpec, int], IndexCheck]
IndexWatermarks = Callable[[str], Mapping[str, Watermark]]
"""What the indexes of the table at a base path have that are in the store's database. Raises what the store does."""


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """How the daemon reaches indexes: what the store says of them, and from a base path to what works on them there,
    wherever that runs."""

    watermarks: IndexWatermarks
    run_update_at: Callable[[str], RunIndexUpdate]
    run_check_at: Callable[[str], RunIndexCheck]
    store_url: str = field(default="", repr=False)
    """Its database has indexes, too."""


STORE_AWAY = (StoreUnavailable, StoreBroken, StoreVersion)
CONFIDENCE = 0.99
"""How surely what is said to be found is found."""


def index_demand(
    storage: Storage,
    table: ServedTable,
    snapshot: TableSnapshot,
    cache: TableCache,
    *,
    watermarks: IndexWatermarks,
    clock: Clock,
) -> ServiceDemand:
    """Whether indexes are to be brought up to date or checked. What the table has of them is kept for pages and
    metrics."""
    known = {index.type: index for index in cache.indexes}
    found = (known.get(type_) or IndexStatus(type_) for type_ in _of_hudi(storage, snapshot))
    of_hudi = tuple(_in_use_or_not(storage, snapshot, index) for index in found)
    own = (*_below(storage, table, snapshot, clock), *_in_database(storage, snapshot, cache, watermarks, clock))
    now = clock.now()
    own = tuple(replace(index, update=decide_update(index, table, now=now)) for index in own)
    cache.keep_indexes((*of_hudi, *own))
    if cache.index_round is None:
        cache.keep_index_round(_round(table, clock))
    due = told_due(own)
    if _is_check_due(table, cache, clock):
        due.append("An index is to be held against the rows")
    if due:
        return ServiceDemand(True, ". ".join(due))
    times = [index.update.due_at for index in own if index.update is not None and index.update.due_at is not None]
    return ServiceDemand(False, _told(cache), due_at=min(times, default=None))


def service_indexes(
    storage: Storage,
    base_path: str,
    table: ServedTable,
    cache: TableCache,
    access: IndexAccess,
    *,
    choose: Callable[[int], Dispatcher],
    here: Dispatcher,
    table_bytes: int,
    clock: Clock,
    guard: Guard,
) -> JobReport:
    """Bring up to date what was due at the plan, and hold indexes against a sample of the rows where that is due. An
    index that is found to be wrong is no failure of the job: it found it, and takes the index out of use where the
    daemon may write to the table.

    Args:
        choose: the dispatcher for work that reads so many bytes.
        here: one of this machine.
        table_bytes: what the table has.
    """
    updates = update_indexes(
        base_path,
        table,
        cache.indexes,
        choose=choose,
        here=here,
        run_update=access.run_update_at(base_path),
        store_url=access.store_url,
        guard=guard,
    )
    figures, reasons, problems = JobFigures(index_commits=updates.commits), tuple[str, ...](), updates.problems
    is_checked = _is_check_due(table, cache, clock)
    if is_checked:
        outcome = _checked(base_path, table, choose(table_bytes), access.run_check_at(base_path), guard)
        if isinstance(outcome, LakewardError):
            problems = [*problems, problem_of(outcome)]
        else:
            figures, reasons = _take_in(storage, base_path, table, cache, outcome, figures, clock)
    result = JobResult.COMMITTED if is_checked or updates.did_something else JobResult.NOTHING
    return JobReport(JobResult.FAILED if problems else result, figures, problems=tuple(problems), reasons=reasons)


def _checked(
    base_path: str, table: ServedTable, dispatcher: Dispatcher, run_check: RunIndexCheck, guard: Guard
) -> IndexCheck | LakewardError:
    listing = listing_source(base_path, table.settings.listing)
    spec = IndexCheckSpec(IndexType.METADATA, _size(table), table.settings.timezone, listing)
    dispatcher.probe()
    try:
        (outcome,) = dispatcher.run(
            run_check, [spec], description="check of an index", on_progress=lambda progress: guard()
        )
    except TaskFailed as error:
        return error
    return outcome.error if isinstance(outcome, Failure) else outcome.result


def _take_in(
    storage: Storage,
    base_path: str,
    table: ServedTable,
    cache: TableCache,
    check: IndexCheck,
    figures: JobFigures,
    clock: Clock,
) -> tuple[JobFigures, tuple[str, ...]]:
    if check.wrong and table.locks.why_nothing_is_written is None:
        take_out_of_use(storage, base_path, IndexType.METADATA, f"At {format_iso_time(clock.now())} {check.told}")
    cache.keep_indexes(tuple(_with_check(index, check, clock.now()) for index in cache.indexes))
    cache.keep_index_round(_round(table, clock))
    checked = sum(index.checked for index in cache.indexes)
    reasons = tuple(f"{IndexType.METADATA}: {fault.key}: {fault.what}" for fault in check.faults[:_REASONS])
    return replace(figures, index_keys_verified=checked, index_keys_wrong=check.wrong), reasons


_REASONS = 3
"""So many faults are told in an event; `lakeward index verify` names more."""


def _size(table: ServedTable) -> CheckSize:
    settings = table.settings.index
    number = settings.verify_keys
    rate = excluded_rate(number, number + 1, CONFIDENCE)
    assert rate is not None, "a sample is of one at least"
    return CheckSize(
        rate,
        CONFIDENCE,
        SystemRandom().getrandbits(32),
        merged_bytes_max=settings.verify_merged,
        entries_max=settings.verify_entries,
    )


def _of_hudi(storage: Storage, snapshot: TableSnapshot) -> tuple[IndexType, ...]:
    """Indexes of Hudi's that can be wrong, since they keep entries of their own, and that lookups can go by."""
    if RECORD_INDEX not in snapshot.config.built_metadata_partitions:
        return ()
    definitions = load_index_definitions(storage, snapshot.base_path, snapshot.config)
    return () if definitions.is_partitioned_record_index else (IndexType.METADATA,)


def _in_use_or_not(storage: Storage, snapshot: TableSnapshot, index: IndexStatus) -> IndexStatus:
    return replace(index, out_of_use=why_out_of_use(storage, snapshot.base_path, IndexType.METADATA) or "")


def _below(storage: Storage, table: ServedTable, snapshot: TableSnapshot, clock: Clock) -> tuple[IndexStatus, ...]:
    """The record index below the table, or in the configured location."""
    index = IndexStatus(IndexType.RECORD)
    try:
        found = find_manifest(storage, table.settings.index.record.options.folder(snapshot.base_path))
    except (BrokenFile, Unsupported) as error:
        return (replace(index, problem=problem_of(error).text),)
    if found is None:
        return ()
    _, manifest = found
    return _with_staleness(
        storage, snapshot, replace(index, load=manifest.load, unmerged=manifest.unmerged), manifest.indexed, clock
    )


def _in_database(
    storage: Storage, snapshot: TableSnapshot, cache: TableCache, watermarks: IndexWatermarks, clock: Clock
) -> tuple[IndexStatus, ...]:
    """The index in the database."""
    index = IndexStatus(IndexType.POSTGRES)
    try:
        found = watermarks(snapshot.base_path)
    except STORE_AWAY:
        return tuple(each for each in cache.indexes if each.type is IndexType.POSTGRES)
    if INDEX_NAME not in found:
        return ()
    return _with_staleness(storage, snapshot, index, Indexed.of(*found[INDEX_NAME]), clock)


def _with_staleness(
    storage: Storage, snapshot: TableSnapshot, index: IndexStatus, indexed: Indexed, clock: Clock
) -> tuple[IndexStatus, ...]:
    """Nothing of one that was not built yet."""
    if indexed == Indexed():
        return ()
    try:
        behind = staleness(storage, snapshot, indexed, clock=clock)
    except (BrokenFile, Refused, Unsupported) as error:
        return (replace(index, problem=problem_of(error).text),)
    return (replace(index, behind=behind, behind_at=clock.now()),)


def _is_check_due(table: ServedTable, cache: TableCache, clock: Clock) -> bool:
    has_some = any(not index.type.is_own for index in cache.indexes)
    return has_some and cache.index_round != _round(table, clock)


def _round(table: ServedTable, clock: Clock) -> int:
    every = table.settings.index.verify_every
    return int((clock.now() + zlib.crc32(table.base_path.encode()) % every) // every)


def _told(cache: TableCache) -> str:
    wrong = [
        f"The index {index.name} is wrong{f' in {index.wrong:,} of {index.checked:,} keys' if index.wrong else ''}: "
        f"writers that go by it insert rows again, or miss them. {index.out_of_use}".rstrip()
        for index in cache.indexes
        if index.wrong or index.out_of_use
    ]
    untold = [
        f"What the index {index.name} lacks cannot be told. {index.problem}" for index in cache.indexes if index.problem
    ]
    return " ".join([*wrong, *untold])


def _with_check(index: IndexStatus, check: IndexCheck, now: float) -> IndexStatus:
    if index.type.is_own:
        return index
    drawn = [each for each in (check.rows, check.entries) if each is not None]
    rates = [each.excluded_rate for each in drawn]
    return replace(
        index,
        checked_at=now,
        checked=sum(each.checked for each in drawn),
        wrong=check.wrong,
        excluded_rate=None if check.wrong else max((rate for rate in rates if rate is not None), default=None),
    )

"""Indexes of one table kept by the daemon: is one to be brought up to date, compared or checked, and the job that does
all of it.

    jobs/index/statuses    which indexes the table has, and what is known of each
    jobs/index/updating    Lakeward's own, and its cache of filters, follow the commits of every writer
    jobs/index/comparing   one on trial is compared with the one that writes use
    jobs/index/checking    a sample of rows and entries, now and then
    jobs/index/tasks       what of it runs elsewhere

Touches: what these touch.
Keeps:   what goes wrong with one index, or with an update, keeps no other one and no check back; then the job fails.
See:     docs/decisions/0084-the-daemon-keeps-indexes-at-pace.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from lakeward.base.clock import Clock
from lakeward.daemon.jobs.index.checking import check_indexes, is_check_due, see_indexes
from lakeward.daemon.jobs.index.comparing import compare_tee, find_tee, is_comparison_due, told_comparison
from lakeward.daemon.jobs.index.statuses import IndexWatermarks, find_builds, find_indexes
from lakeward.daemon.jobs.index.tasks import RunIndexCheck, RunIndexUpdate, RunTeeComparison
from lakeward.daemon.jobs.index.updating import decide_update, told_due, update_indexes
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import IndexStatus, TeeStatus
from lakeward.daemon.table_cache import TableCache
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.progress import Engine
from lakeward.services.service import ServiceDemand
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_BUILD_LOOK_SECONDS = 60.0
_BUILD_RESTS_AFTER = 900.0
"""A build in which nothing was read for so long is looked at with the other plans of the table."""


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """How the daemon reaches indexes: what the store says of them, and from a base path to what works on them there,
    wherever that runs."""

    watermarks: IndexWatermarks
    run_update_at: Callable[[str], RunIndexUpdate]
    run_check_at: Callable[[str], RunIndexCheck]
    run_comparison_at: Callable[[str], RunTeeComparison]
    store_url: str = field(default="", repr=False)
    """Its database has indexes, too."""


def index_demand(
    storage: Storage,
    table: ServedTable,
    snapshot: TableSnapshot,
    cache: TableCache,
    *,
    watermarks: IndexWatermarks,
    clock: Clock,
) -> ServiceDemand:
    """Whether indexes are to be brought up to date, compared or checked. What the table has of them, and how far builds
    are, is kept for pages and metrics; of a build in which something was read lately the next look comes soon."""
    found = find_indexes(storage, table, snapshot, cache.indexes, watermarks=watermarks, clock=clock)
    now = clock.now()
    indexes = tuple(
        replace(index, update=decide_update(index, table, now=now)) if index.type.is_kept else index for index in found
    )
    builds = find_builds(storage, table, snapshot)
    cache.keep_indexes(indexes)
    cache.keep_index_builds(builds)
    tee = find_tee(storage, table, snapshot, indexes, clock=clock)
    cache.keep_tee(tee)
    see_indexes(table, cache, clock=clock)
    due = told_due(indexes)
    if tee is not None and is_comparison_due(tee):
        due.append(told_comparison(tee))
    due += [
        f"The index {index.name} is to be compared with the rows"
        for index in indexes
        if is_check_due(index, table, cache, clock=clock)
    ]
    if due:
        return ServiceDemand(True, ". ".join(due))
    updates = [*(index.update for index in indexes), None if tee is None else tee.due]
    times = [update.due_at for update in updates if update is not None and update.due_at is not None]
    if any(now - build.newest_at < _BUILD_RESTS_AFTER for build in builds.values()):
        times.append(now + _BUILD_LOOK_SECONDS)
    return ServiceDemand(False, _told(indexes, tee), due_at=min(times, default=None))


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
    """Bring up to date what was due at the plan, compare the one on trial with the other one, and check what is due.
    An index that is found to be wrong is no failure of the job: it found it.

    Args:
        choose: the dispatcher for work that reads so many bytes.
        here: one of this machine.
        table_bytes: what the table has.
    """
    chosen: list[Engine] = []

    def choose_noted(input_bytes: int) -> Dispatcher:
        dispatcher = choose(input_bytes)
        chosen.append(dispatcher.engine)
        return dispatcher

    updates = update_indexes(
        base_path,
        table,
        cache.indexes,
        choose=choose_noted,
        here=here,
        run_update=access.run_update_at(base_path),
        store_url=access.store_url,
        guard=guard,
    )
    compared = compare_tee(
        storage,
        base_path,
        table,
        cache,
        choose=choose_noted,
        here=here,
        run_comparison=access.run_comparison_at(base_path),
        store_url=access.store_url,
        left=updates.left,
        guard=guard,
    )
    checks = check_indexes(
        storage,
        base_path,
        table,
        cache,
        choose=partial(choose_noted, table_bytes),
        here=here,
        run_check=access.run_check_at(base_path),
        store_url=access.store_url,
        clock=clock,
        guard=guard,
    )
    figures = JobFigures(
        index_commits=updates.commits,
        index_keys_verified=checks.keys,
        index_keys_wrong=checks.wrong,
        tee_keys_compared=compared.keys,
        tee_keys_wrong=compared.wrong,
        spark_jobs=chosen.count(Engine.SPARK),
    )
    problems = (*updates.problems, *compared.problems, *checks.problems)
    did_something = updates.did_something or compared.commits or checks.done
    result = JobResult.COMMITTED if did_something else JobResult.NOTHING
    return JobReport(
        JobResult.FAILED if problems else result,
        figures,
        problems=problems,
        reasons=(*updates.reasons, *compared.reasons, *checks.reasons),
    )


def _told(indexes: tuple[IndexStatus, ...], tee: TeeStatus | None) -> str:
    wrong = [
        f"The index {index.name} is wrong{f' in {index.wrong:,} of {index.checked:,} keys' if index.wrong else ''}: "
        f"writers that use it insert rows again, or miss them. {index.out_of_use}".rstrip()
        for index in indexes
        if index.wrong or index.out_of_use
    ]
    untold = [f"What the index {each.name} lacks is unknown. {each.problem}" for each in indexes if each.problem]
    if tee is not None and tee.tee.wrong:
        wrong.append(f"The index {tee.shadow_name} is on trial, and was wrong. {tee.tee.told}")
    if tee is not None and tee.tee.shadow is None:
        untold.append(f"The choice of the table's indexes cannot be read. {tee.against}")
    return " ".join([*wrong, *untold])

"""Cleaning of one table by the daemon: is a clean due, and the job that cleans.

Whether one is due is told by what the last poll saw, so that no poll lists more for it: `plan/clean/due.py`. The job
scans the table itself.

Touches: the table, through `execute/clean/cleaner.py`; to tell whether a clean is due it reads one clean of the
         timeline, once.
Keeps:   1. file groups that are parked or paused are left out, and partitions that the configuration leaves out;
         2. where the configuration does not say how much is kept, no less is kept than the table's writers do.
"""

from __future__ import annotations

from collections.abc import Collection

from lakeward.clock import Clock
from lakeward.daemon.scheduling.events import JobResult, ServiceDemand
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import JobFigures
from lakeward.daemon.table_cache import CleanLook, TableCache
from lakeward.execute.clean.choosing import CleanChoice, CleanOptions, choose_overdue
from lakeward.execute.clean.cleaner import FOREIGN_QUIET_SECONDS, Cleaner, CleanReport
from lakeward.execute.serviced_table import ServicedTable
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.plan.clean.adopted import RETAINED, AdoptedRetention, adopt_retention
from lakeward.plan.clean.due import commits_since, newest_clean
from lakeward.plan.clean.policy import CleanPolicy
from lakeward.plan.compaction.selection import GroupFilter
from lakeward.quantities import format_size
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import RetentionCache, find_stated_retention


def clean_demand(
    storage: Storage,
    table: ServedTable,
    snapshot: TableSnapshot,
    cache: TableCache,
    excluded: Collection[GroupId],
    *,
    clock: Clock,
) -> ServiceDemand:
    """Whether a clean is due, and what could go."""
    timeline = snapshot.timeline
    for pending in (each for each in timeline.pending if each.action == "clean"):
        names = [each.file_name for each in timeline.instants if each.time == pending.time]
        if clock.now() - max(timeline.modified[name] for name in names) >= FOREIGN_QUIET_SECONDS:
            return ServiceDemand(True, f"clean {pending.time} was begun and not completed")
    settings, look = table.settings.clean, cache.clean_look
    cleaned = newest_clean(timeline)
    if look is None or look.at <= cleaned or commits_since(timeline, look.at) >= settings.after:
        if commits_since(timeline, cleaned) < settings.after:
            return ServiceDemand(False)
        known = cache.retentions()
        retention = retention_of(storage, table, snapshot, known)
        cache.keep_retentions(known)
        if retention.policy is None:
            return ServiceDemand(False, f"Not cleaned: {retention.why}.")
        overdue = choose_overdue(
            snapshot,
            _options(table, retention.policy),
            after=settings.after,
            clock=clock,
            partitions=_partitions(table, snapshot),
            excluded=excluded,
        )
        newest = snapshot.timeline.completed_writes[-1].time
        files, size = sum(len(each.file_names) for each in overdue), sum(each.bytes for each in overdue)
        look = CleanLook(newest, files, size)
        cache.keep_clean_look(look)
    if not look.files:
        return ServiceDemand(False)
    return ServiceDemand(True, f"{look.files:,} files of {format_size(look.bytes)} could go", look.files, look.bytes)


def clean(
    serviced: ServicedTable,
    table: ServedTable,
    cache: TableCache,
    excluded: Collection[GroupId],
    *,
    planned_by: dict[str, str],
    clock: Clock,
) -> tuple[JobResult, JobFigures, tuple[str, ...]]:
    """End what is pending, then clean. Returns how it ended, in figures, and the instants of the cleans."""
    choice = _JobChoice(serviced, table, excluded, clock)
    report = Cleaner(serviced, planned_by).clean(choice.plan, choice.where)
    cache.keep_clean_look(None)
    return _told(report)


class _JobChoice:
    """What one job cleans: how much is kept is found out once."""

    def __init__(
        self, serviced: ServicedTable, table: ServedTable, excluded: Collection[GroupId], clock: Clock
    ) -> None:
        self._serviced = serviced
        self._table = table
        self._excluded = excluded
        self._clock = clock
        self._retention: AdoptedRetention | None = None
        self._choice: CleanChoice | None = None

    def where(self, snapshot: TableSnapshot) -> frozenset[str] | None:
        self._decide(snapshot)
        is_part = self._excluded or _partitions(self._table, snapshot) is not None
        return None if is_part or self._choice is None else self._choice.where(snapshot)

    def plan(self, snapshot: TableSnapshot) -> CleanPlan | None:
        retention = self._decide(snapshot)
        if self._choice is None:
            return None
        outcome = self._choice.outcome(snapshot, _partitions(self._table, snapshot), self._excluded)
        return outcome.plan(dict(retention.extra_metadata)) if any(outcome.dead) else None

    def _decide(self, snapshot: TableSnapshot) -> AdoptedRetention:
        if self._retention is None:
            storage = self._serviced.storage
            self._retention = retention_of(storage, self._table, snapshot, {})
            if self._retention.policy is not None:
                options = _options(self._table, self._retention.policy)
                self._choice = CleanChoice(storage, self._serviced.base_path, options, clock=self._clock)
        return self._retention


def retention_of(
    storage: Storage, table: ServedTable, snapshot: TableSnapshot, known: RetentionCache
) -> AdoptedRetention:
    """How much is kept: what the configuration says, else what the writers' cleans show."""
    if table.settings.clean.is_given:
        return AdoptedRetention(table.settings.clean.chosen, "the configuration says so")
    stated = find_stated_retention(
        storage, snapshot.base_path, snapshot.config, snapshot.timeline, adopted_key=RETAINED, cache=known
    )
    return adopt_retention(stated, snapshot.timeline, zone=snapshot.zone.zone)


def _options(table: ServedTable, policy: CleanPolicy) -> CleanOptions:
    settings = table.settings.clean
    return CleanOptions(policy, settings.reader_window, settings.places, is_incremental=settings.is_incremental)


def _partitions(table: ServedTable, snapshot: TableSnapshot) -> frozenset[str] | None:
    """None where all are serviced."""
    if table.group_filter == GroupFilter():
        return None
    return frozenset(path for path in snapshot.partitions if table.group_filter.selects_partition(path))


def _told(report: CleanReport) -> tuple[JobResult, JobFigures, tuple[str, ...]]:
    done = [each for each in report.cleans if each.completion_time is not None]
    figures = JobFigures(files_deleted=sum(each.files for each in done), bytes_deleted=sum(each.bytes for each in done))
    instants = tuple(each.instant for each in report.cleans)
    return JobResult.COMMITTED if report.cleans else JobResult.NOTHING, figures, instants

"""Cleaning of one table by the daemon: is a clean due, and the job that cleans.

Whether one is due is told by what the last poll saw, so that no poll lists more for it: `services/clean/plan/due.py`.
The job scans the table itself.

What could go is asked again after enough commits, and at times without any: no query may read it any more, or a pending
write or savepoint that held it is gone. So a table whose writers have stopped is cleaned to the end.

What the quarantine holds is listed once for each clean, and every ten minutes; what is due of it is a demand, too.

Touches: the table, through `services/clean/run/cleaner.py`; to tell whether a clean is due it reads one clean of the
         timeline, once.
Keeps:   file groups that are parked or paused are left out, and partitions that the configuration leaves out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeward.base.clock import Clock
from lakeward.base.quantities import format_size
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.table_cache import CleanLook, QuarantineLook, TableCache
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.protocol.job_report import JobFigures, JobResult
from lakeward.protocol.service import ServiceDemand
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.due import FOREIGN_QUIET_SECONDS, newest_clean
from lakeward.services.clean.plan.purging import PurgeReason, find_due
from lakeward.services.clean.run.choosing import CleanChoice, choose_overdue, find_retention
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.services.clean.run.cleaner import CleanReport
    from lakeward.services.clean.run.purging import PurgedRun

_QUARANTINE_SECONDS = 600.0
"""After so long the quarantine is listed again: a command may have changed it."""
_LOOK_SECONDS = 600.0
"""What could go by now is asked again no sooner than this without commits."""


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
    look = cache.quarantine_look
    cleaned, now = newest_clean(snapshot.timeline), clock.now()
    if look is None or look.cleaned != cleaned or now - look.at >= _QUARANTINE_SECONDS:
        look = QuarantineLook(cleaned, now, load_quarantine(storage, snapshot.base_path))
        cache.keep_quarantine_look(look)
    demand = _clean_demand(storage, table, snapshot, cache, excluded, look.found, clock=clock)
    due = find_due(look.found.runs, now=now, bytes_max=table.settings.clean.quarantine_max)
    if due and not demand.is_due:
        size = sum(each.run.bytes for each in due)
        demand = replace(demand, is_due=True, why=f"{format_size(size)} in the quarantine have had their time")
    return replace(demand, quarantined_bytes=look.found.bytes)


def _clean_demand(
    storage: Storage,
    table: ServedTable,
    snapshot: TableSnapshot,
    cache: TableCache,
    excluded: Collection[GroupId],
    quarantine: Quarantine,
    *,
    clock: Clock,
) -> ServiceDemand:
    timeline = snapshot.timeline
    for pending in (each for each in timeline.pending if each.action == "clean"):
        names = [each.file_name for each in timeline.instants if each.time == pending.time]
        if clock.now() - max(timeline.modified[name] for name in names) >= FOREIGN_QUIET_SECONDS:
            return ServiceDemand(True, f"clean {pending.time} was begun and not completed")
    settings, look, now = table.settings.clean, cache.clean_look, clock.now()
    cleaned = newest_clean(timeline)
    if look is None or look.at <= cleaned or now >= look.until or timeline.commits_since(look.at) >= settings.after:
        if timeline.commits_since(cleaned) < settings.after:
            return ServiceDemand(False)
        options, known = settings.options, cache.retentions()
        retention = find_retention(storage, snapshot, options, cache=known)
        cache.keep_retentions(known)
        if retention.policy is None:
            return ServiceDemand(False, f"Not cleaned: {retention.why}.")
        overdue = choose_overdue(
            snapshot,
            options,
            retention.policy,
            after=settings.after,
            clock=clock,
            partitions=table.group_filter.selected_partitions(snapshot.partitions),
            excluded=excluded,
            quarantine=quarantine,
        )
        newest = snapshot.timeline.completed_writes[-1].time
        files, size = sum(len(each.file_names) for each in overdue), sum(each.bytes for each in overdue)
        look = CleanLook(newest, now + max(options.reader_window, _LOOK_SECONDS), files, size)
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
    from lakeward.services.clean.run.cleaner import (
        Cleaner,
    )  # which loads the kernels: only once there is something to clean
    from lakeward.services.clean.run.purging import purge_quarantine

    choice = CleanChoice(serviced.storage, serviced.base_path, table.settings.clean.options, clock=clock)

    def choose(snapshot: TableSnapshot) -> CleanPlan | None:
        return choice.plan(snapshot, table.group_filter.selected_partitions(snapshot.partitions), excluded)

    is_part = bool(excluded) or table.group_filter.selected_partitions(()) is not None
    settings = table.settings.clean
    cleaner = Cleaner(serviced, planned_by, keep_seconds=settings.keep_deleted)
    report = cleaner.clean(choose, None if is_part else choice.where)
    purged = purge_quarantine(serviced, bytes_max=settings.quarantine_max)
    cache.keep_clean_look(None)
    cache.keep_quarantine_look(None)
    return _told(report, purged)


def _told(report: CleanReport, purged: Collection[PurgedRun]) -> tuple[JobResult, JobFigures, tuple[str, ...]]:
    done = [each for each in report.cleans if each.completion_time is not None]
    figures = JobFigures(
        files_deleted=sum(each.files for each in done),
        bytes_deleted=sum(each.bytes for each in done),
        runs_capped=sum(each.reason is PurgeReason.CAP for each in purged),
    )
    instants = tuple(each.instant for each in report.cleans)
    return JobResult.COMMITTED if report.cleans or purged else JobResult.NOTHING, figures, instants

"""Archiving of one table by the daemon: is the timeline too long, and the job that archives.

Hudi's writers archive at each commit, by default, once there are more commits than may be. Ours waits for as long as
theirs would not have left so many.

Where something holds the timeline, what it is is asked again after enough commits, and at times without any: a clean or
rollback, or the metadata table, may have let go of it, and the writers may have stopped.

Touches: the table, through `services/archive/run/archiver.py`; to tell what could go it reads cleans, and the timeline
         of the metadata table, once in some commits and only where the table's own is too long.
Keeps:   where something holds the timeline, no job is begun for it, and what it is is told.
"""

from __future__ import annotations

from lakeward.base.clock import Clock
from lakeward.daemon.scheduling.events import JobResult, ServiceDemand
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.status import JobFigures
from lakeward.daemon.table_cache import ArchiveLook, TableCache
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.archive.plan.archiving import plan_archive
from lakeward.services.archive.plan.settings import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.archive.run.facts import read_archive_facts
from lakeward.services.clean.plan.due import commits_since
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.archived import history_folder, load_history

_LOOK_SECONDS = 600.0
"""What holds the timeline is asked again no sooner than this without commits."""


def archive_demand(
    storage: Storage, table: ServedTable, snapshot: TableSnapshot, cache: TableCache, *, clock: Clock
) -> ServiceDemand:
    """Whether the timeline is too long, and how many instants could go."""
    timeline, options, after = snapshot.timeline, _options(table), table.settings.archive.after
    commits = len(timeline.completed_writes)
    if commits < options.commits_max + after:
        return ServiceDemand(False)
    look, now = cache.archive_look, clock.now()
    if look is None or now >= look.until or commits_since(timeline, look.at) >= after:
        history = load_history(storage, history_folder(snapshot.base_path, snapshot.config))
        facts = read_archive_facts(storage, snapshot.base_path, snapshot, history, clock=clock)
        plan = plan_archive(timeline, facts, options)
        why = "" if plan.blocked_by is None else plan.blocked_by.why
        look = ArchiveLook(timeline.completed_writes[-1].time, now + _LOOK_SECONDS, len(plan.archived), why)
        cache.keep_archive_look(look)
    if not look.instants:
        return ServiceDemand(False, f"Not archived, with {commits} commits on the timeline: {look.why}")
    return ServiceDemand(True, f"{look.instants:,} instants could be archived", instants=look.instants)


def archive(
    serviced: ServicedTable, table: ServedTable, cache: TableCache
) -> tuple[JobResult, JobFigures, tuple[str, ...]]:
    """Archive what is due. Returns how it ended, in figures, and no instants: an archiving has none."""
    report = Archiver(serviced, _options(table)).archive()
    cache.keep_archive_look(None)
    result = JobResult.COMMITTED if report.archived else JobResult.NOTHING
    return result, JobFigures(instants_archived=len(report.archived)), ()


def _options(table: ServedTable) -> ArchiveOptions:
    return table.settings.archive.chosen(table.settings.clean, table.settings.planner)

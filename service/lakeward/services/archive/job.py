"""Archiving as a service of the daemon: is the timeline too long, and the job that archives.

Hudi's writers archive at each commit, by default, once there are more commits than may be. Lakeward waits for as long
as Hudi's writers would not have left so many.

Where something holds the timeline, what it is is asked again after enough commits, and at times without any: a clean or
rollback, or the metadata table, may have let go of it, and the writers may have stopped.

Touches: the table, through `services/archive/run/archiver.py`; to find what could go it reads cleans, and the timeline
         of the metadata table, once in some commits and only where the table's own is too long.
Keeps:   where something holds the timeline, no job is begun for it, and it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.archive.metrics import METRICS
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archive_preview import preview_archive
from lakeward.services.archive.run.archived_timeline import own_timeline
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.service import Care, JobOrder, JobTraits, Service, ServiceDemand, TableFacts, TableRules

AFTER_COMMITS = 5
"""It archives once there are so many commits more than may be. Writers that archive by themselves do so at each commit,
so that it leaves archiving to them for as long as they do."""
_LOOK_SECONDS = 600.0
"""What holds the timeline is asked again no sooner than this without commits."""


@dataclass(frozen=True, slots=True)
class ArchiveLook:
    """What could have gone from the timeline, when that was asked last."""

    at: str
    """The newest commit then."""
    until: float
    """When it is asked again although no commit has come, in seconds since the epoch."""
    instants: int
    why: str
    """What held the rest; empty where nothing did."""


@dataclass(slots=True)
class ArchiveMemory:
    look: ArchiveLook | None = None
    """None before the first, and after something was archived."""


class ArchiveService(Service[ArchiveOptions]):
    kind = JobKind.ARCHIVE
    permission = TableService.ARCHIVING
    jobs: Final = {JobKind.ARCHIVE: JobTraits(rank=1)}
    metrics = METRICS

    def new_memory(self) -> ArchiveMemory:
        return ArchiveMemory()

    def rules(self, table: TableRules) -> ArchiveOptions:
        return table.section(ArchiveSettings).chosen(table.as_hudi_has_it)

    def demand(self, facts: TableFacts, care: Care[ArchiveOptions]) -> Mapping[JobKind, ServiceDemand]:
        return {self.kind: self._demand(facts, care)}

    def _demand(self, facts: TableFacts, care: Care[ArchiveOptions]) -> ServiceDemand:
        """Whether the timeline is too long, and how many instants could go."""
        snapshot, clock = facts.snapshot, facts.clock
        timeline, options = snapshot.timeline, care.rules
        commits = len(timeline.completed_writes)
        if commits < options.commits_max + AFTER_COMMITS:
            return ServiceDemand(False)
        memory: ArchiveMemory = care.memory
        look, now = memory.look, clock.now()
        if look is None or now >= look.until or timeline.commits_since(look.at) >= AFTER_COMMITS:
            plan = own_timeline(facts.storage, snapshot, options, clock=clock).plan
            why = "" if plan.blocked_by is None else plan.blocked_by.why
            look = ArchiveLook(timeline.completed_writes[-1].time, now + _LOOK_SECONDS, len(plan.archived), why)
            memory.look = look
        if not look.instants:
            return ServiceDemand(False, f"Not archived, with {commits} commits on the timeline: {look.why}")
        return ServiceDemand(True, f"{look.instants:,} instants could be archived", instants=look.instants)

    def run(self, table: ServicedTable, care: Care[ArchiveOptions], order: JobOrder) -> JobReport:
        """Archive what is due. The report has no instants: an archiving has none."""
        report = Archiver(table, care.rules).archive()
        memory: ArchiveMemory = care.memory
        memory.look = None
        result = JobResult.COMMITTED if report.archived else JobResult.NOTHING
        return JobReport(result, JobFigures(instants_archived=len(report.archived)), own=report)

    def preview(self, table: ServicedTable, care: Care[ArchiveOptions], order: JobOrder) -> ArchivePlan:
        timezone = table.options.timezone
        return preview_archive(table.storage, table.base_path, care.rules, clock=table.clock, timezone=timezone)


SERVICE = ArchiveService()

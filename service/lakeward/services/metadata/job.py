"""The metadata table as a service of the daemon: are its services due, and the two jobs that do them.

Both are due at once, the clean where it may find something. What its timeline shows is read at each plan; its plans are
read once.

Touches: the metadata table, through `services/metadata/run/early_service.py`.
Keeps:   what cannot be read is not serviced, and holds nothing of the table back: a compaction of the table, which
         writes to it, says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeward.base.errors import BrokenFile, Unsupported, VerificationFailed
from lakeward.engine.task.entry import merge_metadata_slice_at
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.problem import problem_of
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.metrics import METRICS
from lakeward.services.metadata.plan.due_before_writers import MetadataService, MetadataTrigger
from lakeward.services.metadata.run.early_service import preview_trigger, scan_trigger, service_metadata
from lakeward.services.metadata.run.slice_merges import MergeTasks
from lakeward.services.service import Care, Fact, JobOrder, JobTraits, Service, ServiceDemand, TableFacts
from lakeward.table.metadata.compact_after import MetadataCompactAfter

if TYPE_CHECKING:
    from lakeward.services.metadata.run.metadata_round import MetadataDone

_SERVICES = {
    JobKind.METADATA_CLEAN: MetadataService.CLEAN,
    JobKind.METADATA_COMPACTION: MetadataService.COMPACTION,
}


class MetadataKeys(Protocol):
    """What the configuration says of a table."""

    @property
    def metadata_compact_after(self) -> MetadataCompactAfter: ...


@dataclass(slots=True)
class MetadataMemory:
    plans: Mapping[str, Any] = field(default_factory=dict)
    """What was read of the metadata table's plans, by the name of the timeline file."""
    trigger: MetadataTrigger | None = None
    """None where there is no metadata table, or it is left to its writers, or cannot be read."""


class MetadataTableService(Service[MetadataCompactAfter]):
    kind = JobKind.METADATA_COMPACTION
    permission = TableService.METADATA
    jobs: Final = {
        JobKind.METADATA_CLEAN: JobTraits(rank=1),
        JobKind.METADATA_COMPACTION: JobTraits(rank=1, takes_memory=True),
    }
    metrics = METRICS

    def rules(self, table: MetadataKeys) -> MetadataCompactAfter:
        """From how many delta commits on they are due."""
        return table.metadata_compact_after

    def new_memory(self) -> MetadataMemory:
        return MetadataMemory()

    def demand(self, facts: TableFacts, care: Care[MetadataCompactAfter]) -> Mapping[JobKind, ServiceDemand]:
        snapshot, memory = facts.snapshot, care.memory
        plans, trigger = dict(memory.plans), None
        try:
            trigger = scan_trigger(
                facts.storage, snapshot.base_path, snapshot.config, after=care.rules, clock=facts.clock, cache=plans
            )
        except (Unsupported, BrokenFile):
            return {}
        finally:
            memory.plans, memory.trigger = plans, trigger
        if trigger is None:
            return {}
        return {
            JobKind.METADATA_CLEAN: ServiceDemand(trigger.is_due and trigger.may_clean),
            JobKind.METADATA_COMPACTION: ServiceDemand(trigger.is_due),
        }

    def run(self, table: ServicedTable, care: Care[MetadataCompactAfter], order: JobOrder) -> JobReport:
        """What prevents it passes, and is no failure of the job."""
        only = None if order.at_once else _SERVICES[order.kind]
        tasks = MergeTasks(order.choose, order.task(merge_metadata_slice_at))
        report = service_metadata(table, after=care.rules, planned_by=care.planned_by, only=only, tasks=tasks)
        if isinstance(report.left, VerificationFailed) and not order.at_once:
            raise report.left
        if report.left is not None:
            return JobReport(JobResult.NOTHING, problems=(problem_of(report.left),), own=report)
        return replace(_report(report.done), own=report)

    def preview(
        self, table: ServicedTable, care: Care[MetadataCompactAfter], order: JobOrder
    ) -> MetadataTrigger | None:
        return preview_trigger(table.storage, table.base_path, after=care.rules, clock=table.clock)

    def shown(self, memory: MetadataMemory) -> Sequence[Fact]:
        return () if memory.trigger is None else (Fact("Metadata table", memory.trigger.why),)


def _report(done: MetadataDone | None) -> JobReport:
    """The report of a job; None for `done` means that another process did it meanwhile."""
    made = [] if done is None else [each for each in (done.clean, done.compaction) if each is not None]
    if done is None or not made:
        return JobReport(JobResult.NOTHING)
    compaction = done.compaction
    figures = JobFigures(
        read_bytes=compaction.input_bytes if compaction else 0,
        written_bytes=compaction.output_bytes if compaction else 0,
    )
    return JobReport(JobResult.COMMITTED, figures, tuple(each.instant for each in made))


SERVICE = MetadataTableService()

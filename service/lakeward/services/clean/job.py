"""Cleaning as a service of the daemon: is a clean due, the job that cleans, and what holds the table's storage.

Whether one is due follows from what the last poll saw, so that no poll lists more for it: `services/clean/plan/due.py`.
The job scans the table itself.

What could go is asked again after enough commits, and at times without any: no query may read it any more, or a pending
write or savepoint that held it is gone. So a table whose writers have stopped is cleaned to the end.

What the quarantine holds is listed once for each clean, and every ten minutes; what is due of it is a demand, too.

Touches: the table, through `services/clean/run/cleaner.py`; to decide whether a clean is due it reads one clean of the
         timeline, once.
Keeps:   file groups that are parked or paused are left out, and partitions that the configuration leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lakeward.base.quantities import format_size
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.metrics import METRICS
from lakeward.services.clean.plan.decision import CleanOutcome, ConsumerHold
from lakeward.services.clean.plan.due import FOREIGN_QUIET_SECONDS, newest_clean
from lakeward.services.clean.plan.hudi_cleaner_keys import CleanRules
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.clean.plan.purge_rules import PurgeReason, find_due
from lakeward.services.clean.plan.storage_states import FileState, storage_states
from lakeward.services.clean.run.clean_choice import CleanChoice, choose_overdue, find_retention
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.service import Care, JobOrder, JobTraits, Service, ServiceDemand, TableFacts, TableRules
from lakeward.table.quarantine import Quarantine, QuarantineKind, load_quarantine
from lakeward.table.timeline.cleans import CleanRetention

if TYPE_CHECKING:
    from lakeward.services.clean.run.cleaner import CleanReport
    from lakeward.services.clean.run.purge import PurgedRun

AFTER_COMMITS = 5
"""It cleans once slices could have gone for so many commits. Writers that clean by themselves do so at each commit, so
that it leaves cleaning to them for as long as they do."""
_QUARANTINE_SECONDS = 600.0
"""After so long the quarantine is listed again: a command may have changed it."""
_LOOK_SECONDS = 600.0
"""Without commits, the clean asks no sooner than after this time again what could go."""


@dataclass(frozen=True, slots=True)
class CleanLook:
    """What could have gone for long, when that was asked last."""

    at: str
    """The newest commit then."""
    until: float
    """When more may be dead although no commit has come, in seconds since the epoch."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class QuarantineLook:
    """What the quarantine held when it was listed last."""

    cleaned: str
    """The newest clean then."""
    at: float
    """When it was listed, in seconds since the epoch."""
    found: Quarantine


@dataclass(slots=True)
class CleanMemory:
    look: CleanLook | None = None
    """None before the first, and after a clean."""
    quarantine: QuarantineLook | None = None
    """None before the first, and after a clean of the daemon's."""
    retentions: Mapping[str, CleanRetention] = field(default_factory=dict)
    """What was read of cleans, by the name of the timeline file."""
    consumers: tuple[ConsumerHold, ...] | None = None
    """How far each incremental consumer held cleaning back at the last count; None before the first."""


class CleanService(Service[CleanRules]):
    kind = JobKind.CLEAN
    permission = TableService.CLEANING
    jobs: Final = {JobKind.CLEAN: JobTraits(rank=1)}
    metrics = METRICS
    states = tuple(state.value for state in FileState)

    def new_memory(self) -> CleanMemory:
        return CleanMemory()

    def rules(self, table: TableRules) -> CleanRules:
        return table.section(CleanSettings).rules

    def demand(self, facts: TableFacts, care: Care[CleanRules]) -> Mapping[JobKind, ServiceDemand]:
        return {self.kind: self._demand(facts, care)}

    def _demand(self, facts: TableFacts, care: Care[CleanRules]) -> ServiceDemand:
        """Whether a clean is due, and what could go."""
        memory: CleanMemory = care.memory
        look, cleaned, now = memory.quarantine, newest_clean(facts.snapshot.timeline), facts.clock.now()
        if look is None or look.cleaned != cleaned or now - look.at >= _QUARANTINE_SECONDS:
            look = QuarantineLook(cleaned, now, load_quarantine(facts.storage, facts.snapshot.base_path))
            memory.quarantine = look
        demand = _overdue(facts, care, look.found)
        due = find_due(look.found.runs, now=now, bytes_max=care.rules.quarantine_max)
        if due and not demand.is_due:
            size = sum(each.run.bytes for each in due)
            demand = replace(demand, is_due=True, why=f"{format_size(size)} in the quarantine have had their time")
        retired = sum(run.bytes for run in look.found.runs if run.kind is QuarantineKind.RETIRED)
        return replace(demand, quarantined_bytes=look.found.bytes, retired_log_bytes=retired)

    def run(self, table: ServicedTable, care: Care[CleanRules], order: JobOrder) -> JobReport:
        """End what is pending, then clean; with the instants of the cleans."""
        # It loads the kernels: only once there is something to clean.
        from lakeward.services.clean.run.cleaner import clean_and_purge

        report, purged = clean_and_purge(
            table,
            care.rules,
            selected=care.selected,
            is_part=bool(care.excluded) or care.selected(()) is not None,
            excluded=care.excluded,
            planned_by=care.planned_by,
        )
        memory: CleanMemory = care.memory
        memory.look = memory.quarantine = None
        return _reported(report, purged)

    def preview(self, table: ServicedTable, care: Care[CleanRules], order: JobOrder) -> CleanOutcome:
        choice = CleanChoice(table.storage, table.base_path, care.rules.options, clock=table.clock)
        snapshot = table.snapshot(service=self.permission)
        return choice.outcome(snapshot, care.selected(snapshot.partitions), care.excluded)

    def count(self, facts: TableFacts, care: Care[CleanRules]) -> Mapping[str, int]:
        """Asks for all slices whether a clean would take them."""
        snapshot, storage, memory = facts.snapshot, facts.storage, care.memory
        options, known = care.rules.options, dict(memory.retentions)
        retention = find_retention(storage, snapshot, options, cache=known)
        memory.retentions = known
        outcome = CleanOutcome(CleanPolicy(), None, "", ())
        if retention.policy is not None:
            options = replace(options, policy=retention.policy)
            outcome = CleanChoice(storage, snapshot.base_path, options, clock=facts.clock).outcome(snapshot)
        states = storage_states(snapshot, outcome, load_quarantine(storage, snapshot.base_path))
        memory.consumers = outcome.consumers
        return {state.value: total.bytes for state, total in states.items()}


def _overdue(facts: TableFacts, care: Care[CleanRules], quarantine: Quarantine) -> ServiceDemand:
    snapshot, rules, now = facts.snapshot, care.rules, facts.clock.now()
    timeline = snapshot.timeline
    memory: CleanMemory = care.memory
    for pending in (each for each in timeline.pending if each.action == "clean"):
        names = [each.file_name for each in timeline.instants if each.time == pending.time]
        if now - max(timeline.modified[name] for name in names) >= FOREIGN_QUIET_SECONDS:
            return ServiceDemand(True, f"clean {pending.time} was begun and not completed")
    look, cleaned = memory.look, newest_clean(timeline)
    if look is None or look.at <= cleaned or now >= look.until or timeline.commits_since(look.at) >= AFTER_COMMITS:
        if timeline.commits_since(cleaned) < AFTER_COMMITS:
            return ServiceDemand(False)
        options, known = rules.options, dict(memory.retentions)
        retention = find_retention(facts.storage, snapshot, options, cache=known)
        memory.retentions = known
        if retention.policy is None:
            return ServiceDemand(False, f"Not cleaned: {retention.why}.")
        overdue = choose_overdue(
            snapshot,
            options,
            retention.policy,
            after=AFTER_COMMITS,
            clock=facts.clock,
            partitions=care.selected(snapshot.partitions),
            excluded=care.excluded,
            quarantine=quarantine,
        )
        newest = timeline.completed_writes[-1].time
        files, size = sum(len(each.file_names) for each in overdue), sum(each.bytes for each in overdue)
        look = memory.look = CleanLook(newest, now + max(options.reader_window, _LOOK_SECONDS), files, size)
    if not look.files:
        return ServiceDemand(False)
    return ServiceDemand(True, f"{look.files:,} files of {format_size(look.bytes)} could go", look.files, look.bytes)


def _reported(report: CleanReport, purged: Collection[PurgedRun]) -> JobReport:
    done = [each for each in report.cleans if each.completion_time is not None]
    figures = JobFigures(
        files_deleted=sum(each.files for each in done),
        bytes_deleted=sum(each.bytes for each in done),
        runs_capped=sum(each.reason is PurgeReason.CAP for each in purged),
    )
    instants = tuple(each.instant for each in report.cleans)
    result = JobResult.COMMITTED if report.cleans or purged else JobResult.NOTHING
    return JobReport(result, figures, instants, own=(report, purged))


SERVICE = CleanService()

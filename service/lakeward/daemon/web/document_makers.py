"""The documents of the API, made of the values of the pages.

Touches: nothing.
Keeps:   what needs attention, and how old what is unmerged is, are said by the functions that the pages have.
"""

from __future__ import annotations

from dataclasses import asdict

from lakeward.base.quantities import format_iso_time
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.status import (
    GroupStatus,
    HoldStatus,
    JobProgress,
    PlanStatus,
    ServiceStatus,
    TablePage,
    TableStatus,
)
from lakeward.daemon.web.table_list import concerns, kind_of, kinds_of, number_concerned, numbers_of
from lakeward.services.compaction.plan.decision_in_words import DecisionInWords, decision_of, sentence_of
from lakeward.surface.documents import JobDocument, iso_time
from lakeward.surface.table_documents import (
    DecisionDocument,
    FactDocument,
    GroupDocument,
    HoldDocument,
    LimitationDocument,
    PlanDocument,
    RunningDocument,
    ServiceDocument,
    TableDocument,
    WholeTableDocument,
)


def service_document(status: ServiceStatus) -> ServiceDocument:
    numbers = numbers_of(kinds_of(status.tables, status.at))
    return ServiceDocument(
        name=status.name,
        version=status.version,
        phase=status.phase.value,
        ready=status.is_ready,
        at=status.at,
        time=format_iso_time(status.at),
        started_at=status.started_at,
        started_time=format_iso_time(status.started_at),
        tables=len(status.tables),
        concerned=number_concerned(numbers),
        kinds={kind.value: number for kind, number in numbers.items()},
        running=len(status.running),
        waiting=status.waiting,
        jobs_max=status.jobs_max,
        memory_bytes=status.memory_bytes,
        memory_reserved_bytes=status.memory_reserved_bytes,
        configuration=status.config.path,
        configuration_problem=status.config.problem,
        limitations=[LimitationDocument(what=each.what, remedy=each.remedy) for each in status.limitations],
        daemons=status.lease.daemons,
        leases=status.lease.held,
    )


def _running(job: Job, progress: JobProgress | None) -> RunningDocument:
    return RunningDocument(
        id=job.id,
        service=job.service.value,
        began_at=job.started_at,
        began_time=format_iso_time(job.started_at),
        progress={} if progress is None else progress.as_json(),
    )


def table_document(table: TableStatus, now: float) -> TableDocument:
    outlook = table.outlook
    return TableDocument(
        name=table.name,
        title=table.title,
        base_path=table.served.base_path,
        group=table.served.settings.group,
        state=table.state.value,
        reason=outlook.reason,
        kind=kind_of(table, now).value,
        concerns=concerns(table, now),
        next_action=outlook.next_action,
        next_action_at=outlook.next_action_at,
        next_action_time=iso_time(outlook.next_action_at),
        scanned_at=outlook.scanned_at,
        scanned_time=iso_time(outlook.scanned_at),
        objective_seconds=table.objective,
        oldest_unmerged_seconds=table.oldest_unmerged_age(now),
        age_unknown=table.age_unknown,
        breach_seconds=table.breach_seconds(now),
        backlog=None if table.backlog is None else asdict(table.backlog),
        write_amplification=table.write_amplification,
        storage=None if table.storage is None else table.storage.bytes,
        running=[_running(job, table.progress.get(job.id)) for job in table.running],
        last_job=None if table.last_job is None else JobDocument.of(table.last_job),
    )


def _hold(hold: HoldStatus) -> HoldDocument:
    return HoldDocument(
        kind=hold.kind,
        file_group=hold.file_group,
        reason=hold.reason,
        since=hold.since,
        until=hold.until,
        until_time=iso_time(hold.until),
        by=hold.by,
    )


def _plan(plan: PlanStatus) -> PlanDocument:
    return PlanDocument(**asdict(plan), requested_time=iso_time(plan.requested_at))


def whole_table(page: TablePage) -> WholeTableDocument:
    return WholeTableDocument(
        **dict(table_document(page.table, page.at)),
        facts=[FactDocument(label=fact.label, value=fact.value) for fact in page.facts],
        holds=[_hold(hold) for hold in page.holds],
        plans=[_plan(plan) for plan in page.plans],
        planned_at=page.planned_at,
        planned_time=iso_time(page.planned_at),
    )


def decision_document(words: DecisionInWords) -> DecisionDocument:
    decision = decision_of(words)
    return DecisionDocument(
        partition_path=words.partition_path,
        file_id=words.file_id,
        choice=words.choice,
        reason=words.reason,
        sentence=f"{words.choice}: {words.reason}." if decision is None else sentence_of(decision),
        numbers=words.numbers,
        instant=words.instant,
        instead_of=words.instead_of,
    )


def group_document(group: GroupStatus) -> GroupDocument:
    return GroupDocument(
        partition_path=group.partition_path,
        file_id=group.file_id,
        slices=group.slices,
        base_bytes=group.backlog.base_bytes,
        log_files=group.backlog.log_files,
        log_bytes=group.backlog.log_bytes,
        superseded_log_files=group.backlog.superseded_log_files,
        superseded_log_bytes=group.backlog.superseded_log_bytes,
        decision=None if group.decision is None else decision_document(group.decision),
        hold=None if group.hold is None else _hold(group.hold),
    )

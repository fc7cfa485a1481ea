"""What the API says of the daemon, its tables and their file groups; the figures are those of pages and metrics.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic, Self, TypeVar

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
from lakeward.daemon.web.pages import concerns
from lakeward.services.compaction.plan.decision_in_words import DecisionInWords, decision_of, sentence_of
from lakeward.surface.documents import Document, JobDocument

T = TypeVar("T")


class LimitationDocument(Document):
    what: str
    remedy: str


class ServiceDocument(Document):
    """The daemon at one moment."""

    name: str
    version: str
    phase: str
    """`starting`, `running` or `stopping`"""
    ready: bool
    """Tables are serviced."""
    at: float
    time: str
    started_at: float
    started_time: str
    tables: int
    concerned: int
    """Tables that need attention."""
    running: int
    """Jobs."""
    waiting: int
    """Jobs that run, and wait for others."""
    jobs_max: int
    memory_bytes: int
    """What all operations together may use."""
    memory_reserved_bytes: int
    configuration: str
    """The path of the file."""
    configuration_problem: str
    """Why the newest attempt to reload it failed; empty where it did not."""
    limitations: Sequence[LimitationDocument]
    """What the daemon cannot do now."""
    daemons: int
    """Daemons that share the store."""
    leases: int
    """Tables that this daemon services."""

    @classmethod
    def of(cls, status: ServiceStatus) -> Self:
        return cls(
            name=status.name,
            version=status.version,
            phase=status.phase.value,
            ready=status.is_ready,
            at=status.at,
            time=format_iso_time(status.at),
            started_at=status.started_at,
            started_time=format_iso_time(status.started_at),
            tables=len(status.tables),
            concerned=sum(bool(concerns(table, status.at)) for table in status.tables),
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


class RunningDocument(Document):
    """A job that runs now."""

    id: str
    service: str
    began_at: float
    began_time: str
    progress: Mapping[str, Any]
    """How far it is, or what it waits for."""

    @classmethod
    def of(cls, job: Job, progress: JobProgress | None) -> Self:
        return cls(
            id=job.id,
            service=job.service.value,
            began_at=job.started_at,
            began_time=format_iso_time(job.started_at),
            progress={} if progress is None else progress.as_json(),
        )


class TableDocument(Document):
    """A table in a list of tables."""

    name: str
    """What the configuration, the store and other answers call it."""
    title: str
    """A short name, as pages and metrics have it."""
    base_path: str
    group: str
    state: str
    """`idle`, `running`, `queued`, `parked`, `refused`, `paused`, ..."""
    reason: str
    """Why it is in that state, in a sentence."""
    concerns: Sequence[str]
    """What an operator should know first, each in a few words; empty where all is well."""
    next_action: str
    next_action_at: float | None
    next_action_time: str | None
    scanned_at: float | None
    """When it was read last; None: not by this daemon."""
    scanned_time: str | None
    objective_seconds: float | None
    """How long a record may stay unmerged."""
    oldest_unmerged_seconds: float | None
    """None where everything is merged, or it is not known."""
    age_unknown: str
    """Why that age is not known; empty where it is."""
    breach_seconds: float
    """How long the objective has been missed."""
    backlog: Mapping[str, Any] | None
    """What waits to be merged, in figures; None before the first look."""
    write_amplification: float | None
    storage: Mapping[str, int] | None
    """Bytes by state; None before the first count."""
    running: Sequence[RunningDocument]
    last_job: JobDocument | None
    """The one that ended last."""

    @classmethod
    def of(cls, table: TableStatus, now: float, **more: Any) -> Self:
        outlook = table.outlook
        return cls(
            name=table.name,
            title=table.title,
            base_path=table.served.base_path,
            group=table.served.settings.group,
            state=table.state.value,
            reason=outlook.reason,
            concerns=concerns(table, now),
            next_action=outlook.next_action,
            next_action_at=outlook.next_action_at,
            next_action_time=_time(outlook.next_action_at),
            scanned_at=outlook.scanned_at,
            scanned_time=_time(outlook.scanned_at),
            objective_seconds=table.objective,
            oldest_unmerged_seconds=table.oldest_unmerged_age(now),
            age_unknown=table.age_unknown,
            breach_seconds=table.breach_seconds(now),
            backlog=None if table.backlog is None else asdict(table.backlog),
            write_amplification=table.write_amplification,
            storage=None if table.storage is None else table.storage.bytes,
            running=[RunningDocument.of(job, table.progress.get(job.id)) for job in table.running],
            last_job=None if table.last_job is None else JobDocument.of(table.last_job),
            **more,
        )


class HoldDocument(Document):
    """What keeps services from a table or a file group."""

    kind: str
    """`paused`, `parked`, `refused`, `backing-off` or `shadow`"""
    file_group: tuple[str, str] | None
    """Partition path and file id; None: the whole table."""
    reason: str
    since: float
    """0 where nothing says."""
    until: float | None
    """None: until an operator resumes it, or the configuration says otherwise."""
    until_time: str | None
    by: str

    @classmethod
    def of(cls, hold: HoldStatus) -> Self:
        return cls(
            kind=hold.kind,
            file_group=hold.file_group,
            reason=hold.reason,
            since=hold.since,
            until=hold.until,
            until_time=_time(hold.until),
            by=hold.by,
        )


class PlanDocument(Document):
    """A plan on the timeline that is not carried out yet."""

    instant: str
    action: str
    requested_at: float | None
    requested_time: str | None
    operations: int
    planned_by: str

    @classmethod
    def of(cls, plan: PlanStatus) -> Self:
        return cls(**asdict(plan), requested_time=_time(plan.requested_at))


class FactDocument(Document):
    """A line of what was found on the table: `Table version`, `9`."""

    label: str
    value: str


class WholeTableDocument(TableDocument):
    """A table by itself."""

    facts: Sequence[FactDocument]
    """What was found on the table, for people."""
    holds: Sequence[HoldDocument]
    plans: Sequence[PlanDocument]
    planned_at: float | None
    """When the decisions about its file groups were taken."""
    planned_time: str | None

    @classmethod
    def of_page(cls, page: TablePage) -> Self:
        return cls.of(
            page.table,
            page.at,
            facts=[FactDocument(label=fact.label, value=fact.value) for fact in page.facts],
            holds=[HoldDocument.of(hold) for hold in page.holds],
            plans=[PlanDocument.of(plan) for plan in page.plans],
            planned_at=page.planned_at,
            planned_time=_time(page.planned_at),
        )


class DecisionDocument(Document):
    """What was decided about a file group, and why."""

    partition_path: str
    file_id: str
    choice: str
    """`FULL`, `LOG` or `NONE`"""
    reason: str
    """Its stable name."""
    sentence: str
    """The reason with its figures."""
    numbers: Mapping[str, int | float]
    instant: str | None
    """The plan that it stands in."""
    instead_of: str | None

    @classmethod
    def of(cls, words: DecisionInWords) -> Self:
        decision = decision_of(words)
        return cls(
            partition_path=words.partition_path,
            file_id=words.file_id,
            choice=words.choice,
            reason=words.reason,
            sentence=f"{words.choice}: {words.reason}." if decision is None else sentence_of(decision),
            numbers=words.numbers,
            instant=words.instant,
            instead_of=words.instead_of,
        )


class GroupDocument(Document):
    """A file group, and what was decided about it last."""

    partition_path: str
    file_id: str
    slices: int
    base_bytes: int
    log_files: int
    log_bytes: int
    superseded_log_files: int
    superseded_log_bytes: int
    decision: DecisionDocument | None
    """None for one that no plan has seen as it is."""
    hold: HoldDocument | None

    @classmethod
    def of(cls, group: GroupStatus) -> Self:
        return cls(
            partition_path=group.partition_path,
            file_id=group.file_id,
            slices=group.slices,
            base_bytes=group.backlog.base_bytes,
            log_files=group.backlog.log_files,
            log_bytes=group.backlog.log_bytes,
            superseded_log_files=group.backlog.superseded_log_files,
            superseded_log_bytes=group.backlog.superseded_log_bytes,
            decision=None if group.decision is None else DecisionDocument.of(group.decision),
            hold=None if group.hold is None else HoldDocument.of(group.hold),
        )


class StorageDocument(Document):
    """What a table's storage was held by at one moment."""

    at: float
    time: str
    bytes: Mapping[str, int]
    """Bytes of each state."""


class ListDocument(Document, Generic[T]):
    """A part of a list."""

    items: Sequence[T]
    total: int
    """How many match, of which these are some."""
    offset: int
    """How many come before these."""


def _time(at: float | None) -> str | None:
    return None if at is None else format_iso_time(at)

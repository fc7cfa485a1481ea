"""Documents of the daemon, its tables and their file groups, as the API has them; the figures are those of pages and
metrics. `daemon/web/document_makers` makes them.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from lakeward.state.records import ExaminationRecord, StorageRecord
from lakeward.surface.documents import Document, JobDocument, iso_time, with_times

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
    kinds: Mapping[str, int]
    """Tables of each kind that there is, the worst first."""
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


class RunningDocument(Document):
    """A job that runs now."""

    id: str
    service: str
    began_at: float
    began_time: str
    progress: Mapping[str, Any]
    """How far it is, or what it waits for."""


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
    kind: str
    """What it is first of all: `unreadable`, `parked`, `refused`, `late`, `concerned`, `held`, `waiting`, `working`,
    `calm` or `elsewhere`."""
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


class PlanDocument(Document):
    """A plan on the timeline that is not carried out yet."""

    instant: str
    action: str
    requested_at: float | None
    requested_time: str | None
    operations: int
    planned_by: str


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


class StorageDocument(Document):
    """What a table's storage was held by at one moment."""

    at: float
    time: str
    bytes: Mapping[str, int]
    """Bytes of each state."""

    @classmethod
    def of(cls, sample: StorageRecord) -> Self:
        return cls(**with_times(sample))


class ExaminationDocument(Document):
    """The newest examination of a table by the doctor, and what it found."""

    tried_at: float | None
    """None where there was none yet."""
    tried_time: str | None
    looked_at: float | None
    """When the table was seen last; None where it never was."""
    looked_time: str | None
    problem: str
    """Why the newest one saw nothing; empty where it did."""
    diagnosis: Mapping[str, Any] | None
    """The document of `lakeward doctor --json`, of the time when the table was seen; None where it never was."""

    @classmethod
    def of(cls, found: ExaminationRecord | None) -> Self:
        tried_at = None if found is None else found.tried_at
        looked_at = None if found is None else found.looked_at
        return cls(
            tried_at=tried_at,
            tried_time=iso_time(tried_at),
            looked_at=looked_at,
            looked_time=iso_time(looked_at),
            problem="" if found is None else found.problem or "",
            diagnosis=None if found is None else found.document,
        )


class ListDocument(Document, Generic[T]):
    """A part of a list."""

    items: Sequence[T]
    total: int
    """How many match, of which these are some."""
    offset: int
    """How many come before these."""

"""What is said of jobs, events, costs and orders as documents: the JSON of the command line and of the API alike.

Beside each time in seconds since the epoch stands the same in ISO 8601: `began_at` and `began_time`, `until` and
`until_time`, `at` and `time`.

Touches: nothing.
Keeps:   1. a document has each field of the record that it is of, so that no figure is said in one place alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from lakeward.base.quantities import format_iso_time
from lakeward.config.job_card import Card
from lakeward.protocol.job_kind import JobKind
from lakeward.state.records import (
    PROGRESS,
    CleanerProgress,
    ControlRecord,
    EventRecord,
    JobRecord,
    MonthBesideHudi,
    MonthlyCost,
)

API: Final = "/api/v1alpha"
"""The path below which a daemon answers programs."""


class Document(BaseModel):
    """A value that is shown as JSON. Fields that were not given are not shown; one that a later release added is passed
    over where a document is read."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class ProblemDocument(Document):
    """Why there is no other answer (RFC 9457)."""

    type: str
    """`urn:lakeward:error:LW-USAGE`"""
    code: str
    """The code of the error, as the command line has it."""
    title: str
    """What went wrong."""
    status: int
    detail: str
    """Why."""
    remedy: str
    """What to do about it."""


class DeletionDocument(Document):
    """How far the deletions of a clean are."""

    instant: str
    files: int
    """Deleted so far."""
    files_total: int


class JobDocument(Document):
    """A job that runs or ran."""

    id: str
    table: str
    """The name of its table."""
    service: str
    """`compaction`, `clean`, `clustering`, ..."""
    began_at: float
    began_time: str
    instant: str | None
    """What it carries out or wrote."""
    holder: str | None
    """The daemon."""
    token: int | None
    """The fencing token of the lease under which it began."""
    operations: int
    read_bytes: int
    write_bytes: int
    memory_bytes: int
    ended_at: float | None
    """None while it runs."""
    ended_time: str | None
    result: str | None
    """`committed`, `nothing`, `temporary`, `refused`, `failed`, `verification`, `cancelled` or `lost`."""
    error: str | None
    figures: Mapping[str, Any]
    """What it did."""
    from_timeline: bool
    """Found on the timeline alone, which says that it was done, and not how."""
    progress: Mapping[str, Any] = {}
    """How far it is, or what it waits for; only of a job that runs."""
    deletions: Sequence[DeletionDocument] = ()
    """Only cleans have some."""
    card: Mapping[str, Any] | None = None
    """Why, phases, files before and after, what was predicted and what it took, when it pays back: of the one job that
    was asked for."""

    @classmethod
    def of(cls, job: JobRecord, cleans: Sequence[CleanerProgress] | None = None) -> Self:
        """
        Args:
            cleans: how far its deletions are; None for what is no clean.
        """
        fields = with_times(job)
        if progress := progress_of(job):
            fields |= {"figures": {}, "progress": _progress_as_json(progress)}
        if cleans is not None:
            fields["deletions"] = [
                {"instant": each.instant, "files": each.files, "files_total": each.files_total} for each in cleans
            ]
        return cls(**fields)

    def with_card(self, card: Card | None) -> Self:
        return self.model_copy(update={"card": None if card is None else card.as_json()})


class EventDocument(Document):
    """Something that happened."""

    at: float
    time: str
    kind: str
    text: str
    """A sentence."""
    table: str | None
    file_group: tuple[str, str] | None
    """Partition path and file id."""
    instant: str | None
    job_id: str | None
    holder: str | None
    """The daemon."""
    fields: Mapping[str, Any]
    id: int | None
    """Grows."""

    @classmethod
    def of(cls, event: EventRecord) -> Self:
        return cls(**with_times(event))


class BesideHudiDocument(Document):
    """A table's days in a month: its compactions as they happened, and as Hudi's default would have made them on the
    same commits. Both by the planner's model."""

    days: int
    """Days that were compared."""
    unknown_days: int
    """Days of which nothing could be said."""
    written_bytes: int
    hudi_written_bytes: int
    job_core_seconds: float
    hudi_job_core_seconds: float
    reader_core_seconds: float | None
    """For logs; None where partitions have several read rates."""
    hudi_reader_core_seconds: float | None
    storage_bytes: float | None
    """On average over the days; what was replaced stays for ten commits on both sides."""
    hudi_storage_bytes: float | None
    replay_factor: float | None
    """Bytes by the model over bytes that compactions wrote; None where none was written."""
    is_close: bool
    """The factor is within 0.85 to 1.15, so that what was saved is shown."""
    saved_core_seconds: float | None
    """Core-seconds that Hudi's default would have taken more; negative where less."""

    @classmethod
    def of(cls, month: MonthBesideHudi) -> Self:
        factor = month.replay.factor
        return cls(
            days=month.days,
            unknown_days=month.unknown_days,
            written_bytes=month.written_bytes,
            hudi_written_bytes=month.hudi_written_bytes,
            job_core_seconds=month.job_seconds,
            hudi_job_core_seconds=month.hudi_job_seconds,
            reader_core_seconds=month.reader_seconds,
            hudi_reader_core_seconds=month.hudi_reader_seconds,
            storage_bytes=month.storage_bytes,
            hudi_storage_bytes=month.hudi_storage_bytes,
            replay_factor=None if factor is None else round(factor, 4),
            is_close=month.replay.is_close,
            saved_core_seconds=month.saved_seconds,
        )

    @property
    def core_seconds(self) -> float:
        """Jobs and readers."""
        return self.job_core_seconds + (self.reader_core_seconds or 0.0)

    @property
    def hudi_core_seconds(self) -> float:
        return self.hudi_job_core_seconds + (self.hudi_reader_core_seconds or 0.0)


class MonthDocument(Document):
    """The jobs of a service on a table that ended in a month."""

    table: str
    service: str
    month: str
    """`2026-11`"""
    jobs: int
    failed: int
    seconds: float
    """Wall time."""
    waited_seconds: float
    read_bytes: int
    written_bytes: int
    predicted_seconds: float | None
    """Core-seconds."""
    actual_seconds: float | None
    """Core-seconds."""
    actual_by_clock_seconds: float | None
    """The part of it of jobs whose CPU seconds are not known."""

    beside_hudi: BesideHudiDocument | None = None
    """What Hudi's default would have taken in the same days; of compaction alone, where days were compared."""

    @classmethod
    def of(cls, month: MonthlyCost) -> Self:
        return cls(**asdict(month))

    @classmethod
    def of_compactions(cls, cost: MonthlyCost | None, compared: MonthBesideHudi) -> Self:
        """The month of compactions beside Hudi's default.

        Args:
            cost: None where no compaction ended in it.
        """
        nothing = MonthlyCost(
            *(compared.table, JobKind.COMPACTION.value, compared.month, 0, 0, 0.0, 0.0, 0, 0, None, None, None)
        )
        return cls(**asdict(cost or nothing), beside_hudi=BesideHudiDocument.of(compared))


class ControlDocument(Document):
    """What an operator asked for."""

    kind: str
    """`pause`, `resume` or `cancel`"""
    target_kind: str
    """`table`, `group`, `file_group` or `job`"""
    target: str
    reason: str
    by: str
    at: float
    time: str
    file_group: tuple[str, str] | None
    until: float | None
    """When it ends by itself; None: it does not."""
    until_time: str | None
    id: int | None
    ended_at: float | None
    ended_time: str | None
    outcome: str | None

    @classmethod
    def of(cls, control: ControlRecord) -> Self:
        return cls(**with_times(control))


def progress_of(job: JobRecord) -> Mapping[str, Any]:
    """What a daemon said last of a job that runs; empty for others."""
    found = job.figures.get(PROGRESS) if job.ended_at is None else None
    return found if isinstance(found, dict) else {}


def is_clean(job: JobRecord) -> bool:
    return job.service == JobKind.CLEAN


def with_times(record: Any) -> dict[str, Any]:
    """The fields of a record of the store, each time twice."""
    found: dict[str, Any] = {}
    for name, value in asdict(record).items():
        found[name] = value
        if name in _TIMES:
            found[_TIMES[name]] = iso_time(value)
    return found


def iso_time(at: float | None) -> str | None:
    """The same time in ISO 8601."""
    return None if at is None else format_iso_time(at)


_TIMES = {"at": "time", "began_at": "began_time", "ended_at": "ended_time", "until": "until_time"}
_TIMES_OF_PROGRESS = {"at": "time", "waiting_since": "waiting_since_time"}


def _progress_as_json(progress: Mapping[str, Any]) -> dict[str, Any]:
    times = {
        _TIMES_OF_PROGRESS[name]: format_iso_time(progress[name]) for name in _TIMES_OF_PROGRESS if name in progress
    }
    return {**progress, **times}

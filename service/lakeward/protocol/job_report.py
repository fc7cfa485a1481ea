"""How a job of a service ended: its result, what it did in numbers, and what went wrong.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from lakeward.table.file_system_view import GroupId


class JobResult(StrEnum):
    COMMITTED = "committed"
    NOTHING = "nothing"
    FAILED = "failed"


class ProblemKind(StrEnum):
    TEMPORARY = "temporary"
    """Lock held, try later, storage: nothing is wrong with the table, tried again for ever."""
    REFUSED = "refused"
    """The table or its configuration is not one that we may change."""
    FAILED = "failed"
    VERIFICATION = "verification"
    """A result was not what its inputs say it must be."""
    CANCELLED = "cancelled"
    LOST = "lost"
    """The lease or the attempt is another process's now."""


@dataclass(frozen=True, slots=True)
class WorkProblem:
    kind: ProblemKind
    text: str
    """One sentence for an operator."""
    file_group: GroupId | None = None


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What a job did, in numbers; all 0 where a service has nothing of the kind."""

    full_operations: int = 0
    log_operations: int = 0
    read_bytes: int = 0
    """Bytes of the files that the operations read."""
    written_bytes: int = 0
    """Bytes of the files that were published."""
    log_files: int = 0
    """Log files that were merged away."""
    log_bytes: int = 0
    rows_written: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    merges: Mapping[str, int] = field(default_factory=dict)
    """Operations by how their file groups were merged (`MergedBy`)."""
    row_groups_copied: int = 0
    """Row groups of base files that were carried over as bytes."""
    peak_memory_bytes: int = 0
    """Peak of the operation that needed most."""
    operations_verified: int = 0
    """Operations whose output was checked before any reader could see it."""
    spark_jobs: int = 0
    """Spark jobs that did its work; what else was done ran on the daemon's machine."""
    groups_verified: int = 0
    groups_mismatched: int = 0
    files_deleted: int = 0
    """Files that a clean deleted, or that failed writes had left."""
    bytes_deleted: int = 0
    """What a clean freed."""
    writes_rolled_back: int = 0
    groups_clustered: int = 0
    """File groups that were replaced by new ones with their rows."""
    partitions_deleted: int = 0
    """Partitions that had expired."""
    clusterings_given_up: int = 0
    """Clusterings that were begun, and not published because of writers."""
    runs_capped: int = 0
    """Runs of the quarantine that were deleted before their time, because it held too much."""
    instants_archived: int = 0
    index_commits: int = 0
    """Commits that indexes of Lakeward's took in."""
    index_keys_verified: int = 0
    """Rows and entries of indexes that were held against each other."""
    index_keys_wrong: int = 0
    tee_keys_compared: int = 0
    """Keys of commits for which an index on trial was asked beside the one that writes use."""
    tee_keys_wrong: int = 0

    @property
    def operations(self) -> int:
        return self.full_operations + self.log_operations


@dataclass(frozen=True, slots=True)
class ReadLoad:
    """What a query of whole file slices reads of them."""

    files: int = 0
    bytes: int = 0
    logs_opened: int = 0
    """Logs that are opened, merged ones that no clean took away included."""
    merged_bytes: int = 0
    """Bytes of logs that are merged."""
    core_seconds: float = 0.0
    """What a reader takes for the logs, as the planner has it."""
    point_bytes: int = 0
    """What queries of one key each, one for each slice, read; 0 where a release did not say."""

    def __add__(self, other: ReadLoad) -> ReadLoad:
        return ReadLoad(
            self.files + other.files,
            self.bytes + other.bytes,
            self.logs_opened + other.logs_opened,
            self.merged_bytes + other.merged_bytes,
            self.core_seconds + other.core_seconds,
            self.point_bytes + other.point_bytes,
        )


@dataclass(frozen=True, slots=True)
class JobCost:
    """What a job took, beside what was predicted, and what readers have of it."""

    reasons: Mapping[str, int]
    """Operations by the reasons of the plan; those of a plan that was pending before are below `recovered`."""
    before: ReadLoad
    after: ReadLoad
    """Superseded logs are no part of it where a clean will take them."""
    saved_seconds_a_day: float
    """Core-seconds that readers save in a day, at the read rates that the planner assumed."""
    predicted_seconds: float
    """Core-seconds of the operations, as the planner has it."""
    task_seconds: float
    """How long the tasks took, all together."""
    cpu_seconds: float | None
    """CPU seconds of the tasks, without Spark's own; None where that is not known."""
    written: Mapping[str, int] = field(default_factory=dict)
    """The file slices that it wrote into, by its instants."""
    rewritten: Mapping[str, int] = field(default_factory=dict)
    """The file slices in which it merged what an instant had written, by these."""
    price: float = 1.0
    """What was predicted over what the model says of a table of which nothing is known."""

    @property
    def actual_seconds(self) -> float:
        """CPU seconds, or where these are not known, seconds of the clock."""
        return self.task_seconds if self.cpu_seconds is None else self.cpu_seconds


class KeptCost(Protocol):
    """What is remembered of what a job took."""

    @property
    def job_id(self) -> str: ...
    @property
    def ended_at(self) -> float: ...
    @property
    def seconds(self) -> float:
        """From its begin to its end."""

    @property
    def waited_seconds(self) -> float: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def written_bytes(self) -> int: ...
    @property
    def predicted_seconds(self) -> float | None:
        """None where there is no model of the service; the same of the three that follow."""

    @property
    def cpu_seconds(self) -> float | None: ...
    @property
    def task_seconds(self) -> float | None: ...
    @property
    def saved_seconds_a_day(self) -> float | None: ...
    @property
    def actual_seconds(self) -> float | None: ...
    @property
    def detail(self) -> Mapping[str, Any]:
        """Reasons, phases, and the rest of `JobCost`, by names."""


@dataclass(frozen=True, slots=True)
class JobReport:
    result: JobResult
    figures: JobFigures = field(default_factory=JobFigures)
    instants: tuple[str, ...] = ()
    """Instants of the plans that were brought to an end."""
    problems: tuple[WorkProblem, ...] = ()
    """File groups that went wrong while the rest went on."""
    reasons: tuple[str, ...] = ()
    """Why each of these instants was ended, where a job may end several for reasons of their own; and what else its
    event says."""
    cost: JobCost | None = None
    """None where the service has no model of what its work costs."""
    own: Any = field(default=None, compare=False, repr=False)
    """The service's own report, for a command that shows it."""

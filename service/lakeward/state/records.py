"""What goes into the store and comes out of it: values, in Hudi's words, that know neither SQL nor files.

Times are seconds since the epoch. `table` is the name of a watched table: the configured one, else its base path.

What a value holds is an observation or a request; no value here is the truth about a table.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from lakeward.base.estimate import Estimate

FileGroupKey = tuple[str, str]
"""Partition path and file id."""


class Watched(NamedTuple):
    """Since when the store knows a table."""

    since: float
    """The time since which instants may be expected to be known; earlier ones were not seen as they came."""
    serviced_since: float | None
    """When the table was first seen with a statement about its writers; None: not yet."""


@dataclass(frozen=True, slots=True)
class Planning:
    """The last time that a daemon or command decided about a table."""

    table: str
    planned_at: float
    instant: str | None
    file_groups: int


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    partition_path: str
    file_id: str
    choice: str
    reason: str
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    """The inputs that the reason rests on."""
    instant: str | None = None
    instead_of: str | None = None
    decided_at: float | None = None
    """The time since which the decision reads like this; set by the store."""
    chosen_at: float | None = None
    """The time since which it is this choice, for this reason, whatever its figures; set by the store."""


@dataclass(frozen=True, slots=True)
class ObservedOperation:
    partition_path: str
    file_id: str
    kind: str
    """FULL or LOG."""
    base_instant: str | None
    log_files: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True)
class ObservedPlan:
    """A plan that stood on the timeline and was not carried out yet, Lakeward's or another service's."""

    instant: str
    action: str
    """compaction or logcompaction."""
    state: str
    """requested or inflight."""
    operations: tuple[ObservedOperation, ...] = ()
    """Operations, by partition path and file id when they come from the store."""
    requested_at: float | None = None
    planned_by: str | None = None
    planned_by_service: str | None = None
    planned_by_store: str | None = None


@dataclass(frozen=True, slots=True)
class CleanerProgress:
    """How far the deletions of one clean are, that a job carries out. The timeline says what the clean names."""

    job_id: str
    instant: str
    files: int
    files_total: int
    at: float


@dataclass(frozen=True, slots=True)
class IndexBuildRecord:
    """The making of an index of a table; without a result while it goes on, also after its process died."""

    id: str
    table: str
    index_name: str
    index_type: str
    settings: str
    """The settings that it is made by, as text: with others, nothing of it can be gone on with."""
    began_at: float
    instant: str | None = None
    """The newest commit of the table whose rows it takes from file groups; later ones it catches up with."""
    file_groups: int = 0
    """How many there are to read."""
    ended_at: float | None = None
    result: str | None = None
    error: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexCheckpoint:
    """What a build has of one file group. The files that it names are looked for before they are relied on."""

    partition_path: str
    file_id: str
    instant: str
    """The commit as of which the group was read."""
    entries: int
    bytes: int
    made: Sequence[str]
    """Files that hold these entries, below the folder of the build."""
    at: float


Watermark = tuple[str | None, Mapping[str, str | None]]
"""What an index in the database has: the completion time up to which commits are settled, and those that are whole and
not settled, each with its completion time."""


@dataclass(frozen=True, slots=True)
class StorageRecord:
    """What a table's storage was held by."""

    at: float
    bytes: Mapping[str, int]
    """Bytes of each state."""


@dataclass(frozen=True, slots=True)
class ExaminationRecord:
    """The newest examination of a table by the doctor, and the newest one that saw it."""

    tried_at: float
    looked_at: float | None = None
    """When `document` was made; None where no examination has seen the table yet."""
    document: Mapping[str, Any] | None = None
    """What `lakeward doctor --json` gives (`services/together/doctor/diagnosis.py`)."""
    problem: str | None = None
    """Why the newest one saw nothing; None where it did."""


PROGRESS = "progress"
"""The one figure of a job that runs: how far it is, and what it waits for."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Our stored promise to carry something out; without a result while it runs."""

    id: str
    table: str
    service: str
    began_at: float
    instant: str | None = None
    holder: str | None = None
    token: int | None = None
    """The fencing token of the lease under which it began."""
    operations: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    memory_bytes: int = 0
    ended_at: float | None = None
    result: str | None = None
    error: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    from_timeline: bool = False
    """True for what `state rebuild` found: the timeline says that it was done, and not how."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One run of a job."""

    id: str
    job_id: str
    began_at: float
    instant: str | None = None
    holder: str | None = None
    ended_at: float | None = None
    result: str | None = None
    error: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CostRecord:
    """What a job took that has ended; kept for longer than the job."""

    job_id: str
    table: str
    service: str
    month: str
    """The month in which it ended, in UTC: `2027-01`."""
    ended_at: float
    result: str
    seconds: float
    """From its begin to its end."""
    waited_seconds: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    predicted_seconds: float | None = None
    """Core-seconds that the planner's model says of its operations; None where there is none of the service."""
    cpu_seconds: float | None = None
    """CPU seconds of its tasks; None where that is not known."""
    task_seconds: float | None = None
    """How long its tasks took, all together."""
    saved_seconds_a_day: float | None = None
    """Core-seconds that readers save in a day, at the read rates that were assumed."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """The rest of what a card shows: reasons, phases, what a query of the file slices read before and after, and which
    instants wrote and were merged."""

    @property
    def actual_seconds(self) -> float | None:
        """What its tasks took: CPU seconds, or where these are not known, seconds of the clock."""
        return self.task_seconds if self.cpu_seconds is None else self.cpu_seconds


@dataclass(frozen=True, slots=True)
class MonthlyCost:
    """The jobs of a service on a table that ended in a month."""

    table: str
    service: str
    month: str
    jobs: int
    failed: int
    seconds: float
    waited_seconds: float
    read_bytes: int
    written_bytes: int
    predicted_seconds: float | None
    actual_seconds: float | None
    """`CostRecord.actual_seconds` of all of them."""
    actual_by_clock_seconds: float | None
    """The part of it of jobs whose CPU seconds are not known."""


@dataclass(frozen=True, slots=True)
class ComparedDay:
    """What a table's compactions of a day wrote and took, beside what Hudi's default would have, both by the planner's
    model; core-seconds, and bytes."""

    table: str
    day: int
    """Days since the epoch."""
    at: float
    """When it was compared."""
    problem: str | None = None
    """Why nothing is known of it; then all figures are 0."""
    written_bytes: int = 0
    hudi_written_bytes: int = 0
    job_seconds: float = 0.0
    hudi_job_seconds: float = 0.0
    reader_seconds: float | None = None
    """None where partitions have several read rates."""
    hudi_reader_seconds: float | None = None
    storage_bytes: float = 0.0
    """On average."""
    hudi_storage_bytes: float = 0.0
    real_bytes: int = 0
    """What its compactions wrote, as their commits say."""
    modelled_bytes: int = 0
    """What the model of sizes says that these wrote."""
    carried: Mapping[str, int] | None = None
    """What the next day needs of it."""

    @property
    def core_seconds(self) -> float:
        """Jobs and readers together; jobs alone where nothing is known of readers."""
        return self.job_seconds + (self.reader_seconds or 0.0)

    @property
    def hudi_core_seconds(self) -> float:
        return self.hudi_job_seconds + (self.hudi_reader_seconds or 0.0)


@dataclass(frozen=True, slots=True)
class MonthBesideHudi:
    """The sums of a table's days in a month, beside Hudi's default."""

    table: str
    month: str
    days: int
    """Days that are known."""
    unknown_days: int
    """Days of which nothing could be said."""
    written_bytes: int
    hudi_written_bytes: int
    job_seconds: float
    hudi_job_seconds: float
    reader_seconds: float | None
    """None where one day or more has none."""
    hudi_reader_seconds: float | None
    storage_bytes: float | None
    """On average over the days."""
    hudi_storage_bytes: float | None
    counted_bytes: int
    modelled_bytes: int
    """What compactions wrote, and what the model of sizes says that they did."""

    @property
    def replay(self) -> Estimate:
        """How well the model says what was written."""
        return Estimate(self.counted_bytes, self.modelled_bytes)

    @property
    def core_seconds(self) -> float:
        """Jobs and readers together; jobs alone where nothing is known of readers."""
        return self.job_seconds + (self.reader_seconds or 0.0)

    @property
    def hudi_core_seconds(self) -> float:
        return self.hudi_job_seconds + (self.hudi_reader_seconds or 0.0)

    @property
    def saved_seconds(self) -> float | None:
        """Core-seconds that Hudi's default would have taken more; negative where less. None where the replay is not
        close enough to what was written."""
        return self.hudi_core_seconds - self.core_seconds if self.replay.is_close else None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to plan and to work for one table, until a time of the database's clock."""

    table: str
    holder: str
    token: int
    """Greater than that of every earlier lease of the table."""
    until: float


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    holder: str
    """Unique for each start of a process."""
    service: str
    version: str
    started_at: float
    address: str | None = None
    beat_at: float = 0.0
    """Set by the store."""
    process: str | None = None
    """The process of the daemon, as a line of `protocol/owner.py`; None where a row does not say it."""


class ControlKind(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


class TargetKind(StrEnum):
    TABLE = "table"
    GROUP = "group"
    """A named group of tables, by `group` in the configuration."""
    FILE_GROUP = "file_group"
    JOB = "job"
    """A job is a target to be cancelled, not to be paused."""


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """What an operator asked for. A pause holds until it expires or is resumed; a cancel until a daemon ended it.

    The newest resume of a target stays: it is also the operator's word about everything seen before it.
    """

    kind: ControlKind
    target_kind: TargetKind
    target: str
    """The name of the table or of the group, or the job's id."""
    reason: str
    by: str
    at: float
    file_group: FileGroupKey | None = None
    until: float | None = None
    id: int | None = None
    """Given by the store."""
    ended_at: float | None = None
    outcome: str | None = None

    def __post_init__(self) -> None:
        assert (self.file_group is not None) == (self.target_kind is TargetKind.FILE_GROUP), "one needs the other"


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """A table or a file group that failed too often and is excluded for a while."""

    table: str
    file_group: FileGroupKey | None
    """None: the whole table."""
    kind: str
    reason: str
    failures: int
    parked_at: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something that happened, for people."""

    at: float
    kind: str
    text: str
    table: str | None = None
    file_group: FileGroupKey | None = None
    instant: str | None = None
    job_id: str | None = None
    holder: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None
    """Given by the store; grows."""


@dataclass(frozen=True, slots=True)
class ReadsOfDay:
    """The reads of a partition on a day."""

    partition_path: str
    day: int
    """Days since the epoch."""
    reads: int


@dataclass(frozen=True, slots=True)
class Retention:
    """What `trim` keeps. Whatever is younger than the days and within the rows stays."""

    event_days: float = 30
    event_rows: int = 200_000
    job_days: float = 90
    job_rows: int = 100_000
    past_decision_days: float = 90
    past_decision_rows: int = 500_000
    past_decision_each_days: float = 14
    """How long each choice that was made for a file group is remembered; after that the last one of a day."""
    cost_days: float = 400
    """How long it is remembered what jobs took; the jobs themselves go before."""
    cost_rows: int = 400_000
    read_days: float = 28
    """How long it is remembered how often partitions were read on a day."""
    recent_read_days: float = 2
    """How long a read is known, so that it counts once."""
    control_days: float = 90
    write_days: float = 1
    """How long the id of a write is remembered; a retry comes within minutes."""
    daemon_days: float = 7
    storage_slot_days: float = 1
    """How long what holds a table's storage is remembered every ten minutes; after that once an hour."""
    storage_hour_days: float = 14
    """After that, once a day."""
    storage_days: float = 400


@dataclass(frozen=True, slots=True)
class Trimmed:
    """How many rows `trim` took, by table."""

    rows: Mapping[str, int]

"""What one file group gets of a write, and what happened to it: the values that travel to tasks and back.

Touches: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from lakeward.engine.task.operation_output import OutputPlace
from lakeward.engine.task.operation_spec import ChangeLog
from lakeward.format.bloom_size import ROW_BYTES_MAX
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.format.timeline.commit_metadata import NO_COMMIT, WriteStat
from lakeward.index.bloom.log_tails import LogsBefore
from lakeward.merge.memory_budget import MEMORY_BYTES, MemoryBudget
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.slice_input import SliceInput
from lakeward.table.file_group import FileSlice
from lakeward.table.index_definitions import IndexedColumns
from lakeward.write.request import FileSizes, WriteOperation


class HandleKind(StrEnum):
    CREATE = "create"
    """A new file group: one base file, and further ones where it grows too large."""
    MERGE = "merge"
    """The rows onto a base file: a new one in its place."""
    APPEND = "append"
    """Logs on a slice."""


@dataclass(frozen=True, slots=True)
class SliceNames:
    """The names of a slice's files."""

    base_file: str
    """Empty where there is none."""
    log_files: tuple[str, ...]
    """Logs of changes are among them."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    index: int
    """Place among the targets of the write, from 0; part of the write token."""
    kind: HandleKind
    partition_path: str
    file_id: str
    """The group's; with CREATE that of the first file, which ends in `-0`."""
    slice: SliceInput | None = None
    """For MERGE: what is merged over; a base file without logs."""
    prev_commit: str = NO_COMMIT
    """The instant at which the group's newest slice begins; for MERGE that of the base file."""
    keeps_duplicates: bool = False
    """For MERGE: rows are added to the base file's, and none takes another's place."""
    counts_as_updates: bool = False
    """For APPEND into a bucket that has a group: Hudi looks for no key there, and counts every row as an update. Keys
    may be new, and the record index gets all of them."""
    takes_new_keys: bool = False
    """For APPEND: rows of new keys are among those that come (`keyed_rows.IS_NEW`)."""
    beneath: SliceNames | None = None
    """For APPEND, where the table captures changes: what the logs lie on. Their stats name it, and readers of
    changes look there for the rows before."""
    before: LogsBefore | None = None
    """For APPEND, where logs get tails: the logs that the new one lies behind."""
    rolls_over: bool = True
    """For CREATE: False for a bucket, however large its file grows: Hudi refuses a bucket with two file groups."""
    rows_expected: int | None = None
    """For CREATE: about how many rows will come, where that is known; it sizes the bloom filter."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What all targets of a write have in common; picklable."""

    base_path: str
    instant: str
    attempt: int
    attempt_folder: str
    operation: WriteOperation
    schema: str
    """Avro JSON of the rows that are written, without meta columns: the table's from this write on."""
    rules: MergeRules
    deduplicates: bool
    indexed: IndexedColumns | None
    """Columns of which the metadata table wants statistics."""
    sizes: FileSizes
    codec: str
    verify: bool
    wants_keys: bool
    """Whether an index must learn which keys came and went (`TargetResult.key_changes`)."""
    notes_updates: bool = False
    """It learns of updates, too: where keys are found without it, it may know another place of a key that was in
    several, and leaves now all but one."""
    memory_bytes: int = MEMORY_BYTES
    bloom_bytes_max: int = ROW_BYTES_MAX
    """What the bits of a base file's bloom filter may take; no more than the budget has for them."""
    has_native_logs: bool = False
    """Logs are files of the base files' format (`TableVersion.has_native_logs`)."""
    supplemental_logging: SupplementalLogging | None = None
    """What is noted of each change where a base file is rewritten; None where the table captures none."""

    @property
    def budget(self) -> MemoryBudget:
        return MemoryBudget(self.memory_bytes)

    def place(self, target: WriteTarget) -> OutputPlace:
        return OutputPlace(
            self.base_path, target.partition_path, self.instant, self.attempt, self.attempt_folder, target.index
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that stands where its attempt keeps it, or in an object store in its place."""

    name: str
    size_bytes: int
    stat: WriteStat
    column_stats: tuple[ColumnStatsRecord, ...]
    replaces_base_file: bool
    change_log: ChangeLog | None = None
    """The log of changes beside it where the table captures them; its stat names it."""
    bloom_error_rate: float | None = None
    """How often the bloom filter of a base file errs, where it has more keys than there was room for."""


@dataclass(frozen=True, slots=True)
class TargetResult:
    index: int
    partition_path: str
    files: tuple[WrittenFile, ...]
    """None where nothing was left to write."""
    key_changes: str | None = None
    """Path of an Arrow file (`handles/key_changes`) in the attempt's folder: `key` (text), `file_id` (text; null: the
    key is gone). A key is in it once, but where rows of one key were all kept."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How many rows there are for each partition and place (`keyed_rows.PLACE`)."""

    rows: Mapping[tuple[str, str | None], int]


@dataclass(frozen=True, slots=True)
class Share:
    target: int
    """Index of a target."""
    rows: int
    """How many rows of the place it should get, about; the hash of its key chooses it, so that no key is in two."""


Places = Mapping[tuple[str, str | None], tuple[Share, ...]]
"""What each partition and place goes to."""


def rows_of_targets(places: Places) -> Counter[int]:
    """How many rows each target gets, about, by its index; 0 for one that gets none."""
    rows: Counter[int] = Counter()
    for share in chain.from_iterable(places.values()):
        rows[share.target] += share.rows
    return rows


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which target the rows of each partition and place go to."""

    targets: tuple[WriteTarget, ...]
    places: Places
    """Every place of the workload; without a share the rows go nowhere, as deletes of unknown keys."""
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The file groups that go, by partition path; partitions without any are among them, as in Hudi's commits."""
    taken: tuple[FileSlice, ...] = ()
    """The slices whose rows the targets get, where no rows come from elsewhere."""

"""What an operation needs to know and what it made: the values that travel to executors and back.

Touches: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from lakeward.base.paths import join
from lakeward.engine.task.operation_output import OutputPlace
from lakeward.engine.task.work_counters import CounterPlace
from lakeward.format.bloom_size import ROW_BYTES_MAX
from lakeward.format.file_name import CDC_SUFFIX, BaseFileName, LogFileName, NativeLogKind, NativeLogName
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.read.slice_input import MergeCounts, SliceInput
from lakeward.storage.storage import FileStatus
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.index_definitions import IndexedColumns

_LOG_VERSION = 1  # from table version 8 on every log file has an instant of its own, and none a second version


class OperationKind(StrEnum):
    """The values are those of hybrid plans."""

    FULL = "FULL"
    """Logs and base file become a new base file."""
    LOG = "LOG"
    """The oldest logs become one log."""


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """What a task needs to know; picklable."""

    index: int
    """Place in the plan, from 0."""
    slice: SliceInput
    """For LOG: without its base file, and with the logs that are merged, a prefix of the slice's."""
    attempt: int
    """The attempt's number, part of the write token."""
    attempt_folder: str
    input_bytes: int
    """Size of the files that are merged: superseded logs are not."""
    codec: str = "zstd"
    bloom_bytes_max: int = ROW_BYTES_MAX
    """What the bits of a new base file's bloom filter may take; no more than the budget has for them."""
    verify: bool = True
    kind: OperationKind = OperationKind.FULL
    indexed: IndexedColumns | None = None
    """Columns of which the metadata table wants statistics; None where it has none."""
    supplemental_logging: SupplementalLogging | None = None
    """What a FULL writes of each change; None where the table captures none."""
    native: bool = False
    """The table's version has native logs: rows and deletes of a LOG are files of their own, and so are the changes of
    a FULL."""
    tails: bool = False
    """The log of a LOG gets a tail (`format/log/log_tail`)."""
    counters: CounterPlace | None = None
    """The place of what it says of how far it is; None where the driver cannot look."""

    @property
    def group_id(self) -> tuple[str, str]:
        return self.slice.partition_path, self.slice.file_id

    @property
    def place(self) -> OutputPlace:
        of = self.slice
        return OutputPlace(of.base_path, of.partition_path, of.instant, self.attempt, self.attempt_folder, self.index)

    def file_name(self, task_attempt: int) -> str:
        """The new file's name. The native logs of a LOG are named as they are written."""
        token = self.place.token(task_attempt)
        if self.kind is OperationKind.LOG:
            assert not self.native
            return LogFileName(self.slice.file_id, self.slice.instant, _LOG_VERSION, token).text
        return BaseFileName(self.slice.file_id, token, self.slice.instant).text

    def change_log_name(self, task_attempt: int) -> str:
        """The name of the log of changes beside the new base file."""
        token = self.place.token(task_attempt)
        if self.native:
            of = self.slice
            return NativeLogName(of.file_id, token, of.instant, _LOG_VERSION, NativeLogKind.CHANGES).text
        return LogFileName(self.slice.file_id, self.slice.instant, _LOG_VERSION, token, CDC_SUFFIX).text


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """A log of changes that stands beside a new base file."""

    file_name: str
    size_bytes: int

    def stats_in(self, partition_path: str) -> dict[str, int]:
        """What the write stat of the base file says of it, `cdcStats`; readers of changes find it by this alone."""
        return {join(partition_path, self.file_name): self.size_bytes}


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """A native log of deletes that a LOG wrote beside its log of rows."""

    file_name: str
    size_bytes: int
    column_stats: tuple[ColumnStatsRecord, ...] = ()
    """An empty range for each indexed column: without one a query takes the file for one of unknown values."""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What one operation made, before anybody can see it."""

    index: int
    partition_path: str
    file_id: str
    file_name: str
    size_bytes: int
    counts: MergeCounts
    """Counts; those of a LOG operation: `rows` and `inserted` are the rows written, `deleted` the deletes; there is no
    base."""
    digest: str
    """Hexadecimal, over the rows without `_hoodie_file_name`, but for row groups that were copied; empty without
    verification."""
    input_bytes: int
    seconds: float
    kind: OperationKind = OperationKind.FULL
    cpu_seconds: float | None = None
    """CPU seconds of all threads of the process that ran it, of tries that were given up, too; None where nothing
    measured them."""
    peak_memory_bytes: int = 0
    """Peak of the process that ran it, interpreter included; 0 where it is unknown. The peak of what the process did
    before is in it where the system does not let a process reset its peak."""
    column_stats: tuple[ColumnStatsRecord, ...] = ()
    """Statistics of the columns that the operation was given."""
    damage: tuple[DamagedFile, ...] = ()
    """Corrupt blocks that were accepted, and are not in the result."""
    change_log: ChangeLog | None = None
    """None where the table captures no changes."""
    bloom_error_rate: float | None = None
    """How often the bloom filter of a new base file errs, where it has more keys than there was room for."""
    delete_log: DeleteLog | None = None
    """None where the file of `file_name` has the deletes as well, or there are none."""

    @property
    def output_bytes(self) -> int:
        """What a reader of the slice reads of it."""
        return self.size_bytes + (0 if self.delete_log is None else self.delete_log.size_bytes)

    def without_statistics(self) -> OperationResult:
        """For reports, once the statistics have gone where they belong."""
        deletes = None if self.delete_log is None else replace(self.delete_log, column_stats=())
        return replace(self, column_stats=(), delete_log=deletes)


def finished_operations(statuses: Iterable[FileStatus]) -> dict[int, int]:
    """From a listing of the attempt's folder: index of each finished operation → rows it wrote."""
    finished = {}
    for status in statuses:
        if (match := _DONE_NAME.fullmatch(status.name)) is not None:
            finished[int(match["index"])] = int(match["rows"])
    return finished


_DONE_NAME = re.compile(r"(?P<index>\d+)-\d+\.(?P<rows>\d+)-rows\.done")

"""What a planner answers: one decision for every file group, and the plans that carry the decisions out.

Two forms of plan hold LOG operations. The *split* form is two plans on the timeline, one of full compactions and one
that Hudi knows as log compaction; the *hybrid* form of RFC-103 is one plan whose operations say their type each.

    decision       split form                          hybrid form
    FULL           full_plan, `.compaction`            hybrid_plan, `.compaction`, operationType FULL
    LOG            log_plan, `.logcompaction`          hybrid_plan, `.compaction`, operationType LOG

Touches: nothing.
Keeps:   1. the operations are those of the decisions that are not NONE, in the order in which they are to be planned;
         2. a plan without operation types is, byte for byte, one that Hudi 1.2 could have written;
         3. every operation has all five metrics (Hudi fails on one that lacks any).
See:     docs/decisions/0006-hybrid-thresholds.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lakeward.format.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.table.file_group import FileSlice, LogFile

MEBIBYTE = 1024 * 1024

LOG_STRATEGY = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""What Hudi writes as the executor of a log compaction plan."""

HYBRID_STRATEGY = "org.apache.hudi.table.action.compact.plan.generators.HybridCompactionPlanGenerator"
"""Marks a hybrid plan."""

_VERSION_WITH_TYPES = 3


class Choice(StrEnum):
    FULL = "FULL"
    LOG = "LOG"
    NONE = "NONE"


class Reason(StrEnum):
    HAS_LOGS = "has-logs"
    NO_LOGS = "no-logs"
    NOT_SELECTED = "not-selected"
    PENDING_COMPACTION = "pending-compaction"
    PENDING_LOG_COMPACTION = "pending-log-compaction"
    PENDING_CLUSTERING = "pending-clustering"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to one file group, and why."""

    partition_path: str
    file_id: str
    choice: Choice
    reason: Reason
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    """What the reason rests on: `base_bytes`, `log_files`, `log_bytes` at least; nothing for a frozen group."""
    instant: str | None = None
    """The pending or unknown instant that stands in the way."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A decision for every file group, and an operation for each that is not NONE."""

    decisions: tuple[Decision, ...]
    operations: tuple[CompactionOperation, ...]
    """Each says FULL or LOG as its type."""

    @property
    def full_plan(self) -> CompactionPlan | None:
        """The full compactions as a plan of any Hudi release; None where there are none."""
        operations = self._of_type(Choice.FULL)
        return CompactionPlan(operations) if operations else None

    @property
    def log_plan(self) -> CompactionPlan | None:
        """The log compactions as a plan of any Hudi release; None where there are none."""
        operations = self._of_type(Choice.LOG)
        return CompactionPlan(operations, strategy=LOG_STRATEGY, preserve_metadata=True) if operations else None

    @property
    def hybrid_plan(self) -> CompactionPlan | None:
        """All operations with their types; None where there are none."""
        if not self.operations:
            return None
        return CompactionPlan(self.operations, version=_VERSION_WITH_TYPES, strategy=HYBRID_STRATEGY)

    @property
    def input_bytes(self) -> int:
        """What carrying out the operations reads."""
        return sum(round(operation.metrics["TOTAL_IO_READ_MB"] * MEBIBYTE) for operation in self.operations)

    def _of_type(self, choice: Choice) -> tuple[CompactionOperation, ...]:
        return tuple(
            replace(operation, operation_type=None)
            for operation in self.operations
            if operation.operation_type == choice.value
        )


def full_operation(slice_: FileSlice) -> CompactionOperation:
    """Base file and all logs of a slice into a new base file."""
    return _operation(
        slice_,
        slice_.log_files,
        Choice.FULL,
        read_bytes=slice_.base_bytes + slice_.log_bytes,
        write_bytes=slice_.base_bytes or slice_.log_bytes,
    )


def log_operation(slice_: FileSlice, run: tuple[LogFile, ...]) -> CompactionOperation:
    """The logs of `run` into one log; the base file is named, as Hudi does, and not read."""
    run_bytes = sum(log.size for log in run)
    return _operation(slice_, run, Choice.LOG, read_bytes=run_bytes, write_bytes=run_bytes)


def _operation(
    slice_: FileSlice, logs: tuple[LogFile, ...], choice: Choice, *, read_bytes: int, write_bytes: int
) -> CompactionOperation:
    return CompactionOperation(
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_instant=slice_.base_instant,
        base_file=slice_.base_file.name if slice_.base_file else None,
        log_files=tuple(log.name.text for log in logs),
        # Megabytes are MiB in Hudi, and whole ones there; the sizes of small tables would all be 0.
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(sum(log.size for log in logs)),
            "TOTAL_IO_READ_MB": read_bytes / MEBIBYTE,
            "TOTAL_IO_WRITE_MB": write_bytes / MEBIBYTE,
            "TOTAL_IO_MB": (read_bytes + write_bytes) / MEBIBYTE,
        },
        operation_type=choice.value,
    )

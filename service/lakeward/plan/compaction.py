"""Choose what to compact: one table snapshot in, one decision for each file group out.

For now there is one rule: a latest file slice with log files is rewritten whole (FULL), everything else is left
alone, with the reason.

Touches: nothing. No storage, clock or database, so equal inputs give equal plans.
Keeps:   1. a file group with a pending operation of any service is never planned;
         2. a file group whose slices are not certain (frozen) is never planned;
         3. only log files that the snapshot calls completed are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from lakeward.format.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot


MEBIBYTE = 1024 * 1024


class Choice(StrEnum):
    FULL = "FULL"
    NOTHING = "NOTHING"


class Reason(StrEnum):
    HAS_LOGS = "has-logs"
    NO_LOGS = "no-logs"
    NOT_SELECTED = "not-selected"
    PENDING_COMPACTION = "pending-compaction"
    PENDING_LOG_COMPACTION = "pending-log-compaction"
    PENDING_CLUSTERING = "pending-clustering"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Which file groups to look at; empty means all."""

    partitions: tuple[str, ...] = ()
    """Partition paths; `*` and `?` match as in a shell."""
    file_groups: tuple[str, ...] = ()
    """File ids."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to one file group, and why."""

    partition_path: str
    file_id: str
    choice: Choice
    reason: Reason
    numbers: Mapping[str, int] = field(default_factory=dict)
    """What the reason rests on: `base_bytes`, `log_files`, `log_bytes`; nothing for a frozen group."""
    instant: str | None = None
    """The pending or unknown instant that stands in the way."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A decision for every file group, and the operations of those that are FULL in the same order."""

    decisions: tuple[Decision, ...]
    operations: tuple[CompactionOperation, ...]

    @property
    def plan(self) -> CompactionPlan:
        return CompactionPlan(operations=self.operations)

    @property
    def input_bytes(self) -> int:
        return sum(
            decision.numbers["base_bytes"] + decision.numbers["log_bytes"]
            for decision in self.decisions
            if decision.choice is Choice.FULL
        )


def plan_compaction(snapshot: TableSnapshot, options: PlanOptions) -> PlanOutcome:
    """FULL for each selected file group that has log files and nothing pending."""
    slices = sorted(snapshot.latest_slices, key=lambda slice_: (slice_.partition_path, slice_.file_id))
    decisions = [_decide(snapshot, slice_, options) for slice_ in slices]
    operations = [
        _operation(slice_)
        for slice_, decision in zip(slices, decisions, strict=True)
        if decision.choice is Choice.FULL
    ]
    decisions += [
        Decision(group.partition_path, group.file_id, Choice.NOTHING, Reason.FROZEN, instant=group.instant)
        for group in snapshot.frozen
    ]
    return PlanOutcome(tuple(decisions), tuple(operations))


def _decide(snapshot: TableSnapshot, latest: FileSlice, options: PlanOptions) -> Decision:
    group_id = (latest.partition_path, latest.file_id)
    numbers = {
        "base_bytes": latest.base_bytes,
        "log_files": len(latest.log_files),
        "log_bytes": latest.log_bytes,
    }

    def nothing(reason: Reason, instant: str | None = None) -> Decision:
        return Decision(*group_id, Choice.NOTHING, reason, numbers, instant)

    if not _selects(options, latest):
        return nothing(Reason.NOT_SELECTED)
    for pending, reason in (
        (snapshot.pending_compactions, Reason.PENDING_COMPACTION),
        (snapshot.pending_log_compactions, Reason.PENDING_LOG_COMPACTION),
        (snapshot.pending_clusterings, Reason.PENDING_CLUSTERING),
    ):
        if group_id in pending:
            return nothing(reason, pending[group_id])
    if not latest.log_files:
        return nothing(Reason.NO_LOGS)
    return Decision(*group_id, Choice.FULL, Reason.HAS_LOGS, numbers)


def _selects(options: PlanOptions, latest: FileSlice) -> bool:
    by_partition = not options.partitions or any(
        fnmatchcase(latest.partition_path, pattern) for pattern in options.partitions
    )
    return by_partition and (not options.file_groups or latest.file_id in options.file_groups)


def _operation(latest: FileSlice) -> CompactionOperation:
    # Hudi fails on a plan without its five metrics (FileGroupReaderBasedMergeHandle reads them); MB there are MiB.
    read_mb = (latest.base_bytes + latest.log_bytes) / MEBIBYTE
    write_mb = (latest.base_bytes or latest.log_bytes) / MEBIBYTE
    return CompactionOperation(
        partition_path=latest.partition_path,
        file_id=latest.file_id,
        base_instant=latest.base_instant,
        base_file=latest.base_file.name if latest.base_file else None,
        log_files=tuple(log.name.text for log in latest.log_files),
        metrics={
            "TOTAL_LOG_FILES": float(len(latest.log_files)),
            "TOTAL_LOG_FILES_SIZE": float(latest.log_bytes),
            "TOTAL_IO_READ_MB": read_mb,
            "TOTAL_IO_WRITE_MB": write_mb,
            "TOTAL_IO_MB": read_mb + write_mb,
        },
    )

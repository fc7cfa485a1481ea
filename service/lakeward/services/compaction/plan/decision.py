"""The result of planning: one decision for every file group, and the plans that carry the decisions out.

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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lakeward.base.quantities import DAY_SECONDS
from lakeward.format.timeline.compaction_plan import MEBIBYTE, CompactionOperation, CompactionPlan
from lakeward.services.compaction.plan.cost import Cost
from lakeward.table.file_group import FileSlice, FrozenGroup, LogFile

LOG_STRATEGY = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""What Hudi writes as the executor of a log compaction plan."""

HYBRID_STRATEGY = "org.apache.hudi.table.action.compact.plan.generators.HybridCompactionPlanGenerator"
"""Marks a hybrid plan."""

_VERSION_WITH_TYPES = 3

VERSION_WITHOUT_LOG, ROWS_IN_PART = "version_without_log", "rows_in_part"
TWO_PLANS, SOURCES_STAY, FOUND_IN_LOGS = "two_plans", "sources_stay", "found_in_logs"
"""The last three are of the layout `lsm_tree` (decision 0130)."""
AGAINST_LOG = frozenset({VERSION_WITHOUT_LOG, ROWS_IN_PART, TWO_PLANS, SOURCES_STAY, FOUND_IN_LOGS})
"""Numbers of a decision that say why no log compaction is made of its table, or its file group."""


TAKEN_WHOLE = "taken_whole"
"""A number of a decision: of more logs a LOG is made, and of all of them, for what a delete in them does."""


class Choice(StrEnum):
    FULL = "FULL"
    LOG = "LOG"
    NONE = "NONE"


class Form(StrEnum):
    """How LOG operations are published; see the head of this module."""

    SPLIT = "split"
    HYBRID = "hybrid"


PARKED_SECONDS = DAY_SECONDS
"""A file group, or a table, that failed too often is tried again after a day."""


class Reason(StrEnum):
    """Stable names: they stand in logs, in JSON and in metrics. `services/compaction/plan/explain.py` says each in a
    sentence."""

    # for FULL
    OBJECTIVE = "objective"
    HAS_LOGS = "has-logs"
    NO_BASE = "no-base"
    SMALL_BASE = "small-base"
    LOG_RATIO = "log-ratio"
    TOO_MANY_LOGS = "too-many-logs"
    MANY_MERGED_LOGS = "many-merged-logs"
    # for FULL and LOG
    PAYS_BACK = "pays-back"
    OVER_CAP = "over-cap"
    # for LOG
    MANY_SMALL_LOGS = "many-small-logs"
    # for NONE: not considered
    NOT_SELECTED = "not-selected"
    STRATEGY = "strategy"
    PENDING_COMPACTION = "pending-compaction"
    PENDING_LOG_COMPACTION = "pending-log-compaction"
    PENDING_CLUSTERING = "pending-clustering"
    FROZEN = "frozen"
    NAMELESS = "nameless"
    # for NONE: considered, and not due
    NO_LOGS = "no-logs"
    ONE_LOG = "one-log"
    TABLE_TRIGGER = "table-trigger"
    GROUP_TRIGGER = "group-trigger"
    BELOW_THRESHOLDS = "below-thresholds"
    DOES_NOT_PAY = "does-not-pay"
    # for NONE: due, and prevented
    UNSUPPORTED_LOGS = "unsupported-logs"
    DAMAGED = "damaged"
    LOG_NOT_ALLOWED = "log-not-allowed"
    PENDING_WRITE = "pending-write"
    WRITE_AT_WORK = "write-at-work"
    OVER_BUDGET = "over-budget"
    PARKED = "parked"
    PAUSED = "paused"


REASONS_OF_COST = frozenset({Reason.PAYS_BACK, Reason.OVER_CAP, Reason.DOES_NOT_PAY})
"""Reasons that only the policy `cost` has."""


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
    """The pending or unknown instant that stands in the way; of a LOG, the pending write that its run ends before."""
    instead_of: Choice | None = None
    """What the rules chose, where the choice is NONE because something prevents it."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A decision for every file group, and an operation for each that is not NONE."""

    decisions: tuple[Decision, ...]
    operations: tuple[CompactionOperation, ...]
    """Each says FULL or LOG as its type."""
    form: Form = Form.SPLIT
    """The form that the LOG operations were chosen for; in the hybrid form each takes its whole slice."""

    @property
    def full_plan(self) -> CompactionPlan | None:
        """The full compactions as a plan of any Hudi release; None where there are none."""
        operations = self._of_type(Choice.FULL)
        return CompactionPlan(operations, missing_partitions=self.partitions_left) if operations else None

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
        return CompactionPlan(
            self.operations,
            version=_VERSION_WITH_TYPES,
            strategy=HYBRID_STRATEGY,
            missing_partitions=self.partitions_left,
        )

    @property
    def partitions_left(self) -> tuple[str, ...]:
        """Partitions in which a group keeps log files, for Hudi's own planner to come back to. It could not to one
        whose name is no text."""
        return tuple(sorted({decision.partition_path for decision in self.decisions if _keeps_logs(decision)}))

    @property
    def input_bytes(self) -> int:
        """What carrying out the operations reads."""
        return sum(operation.read_bytes for operation in self.operations)

    @property
    def objective_seconds_left(self) -> float | None:
        """Seconds until the objective makes a file group due that it does not make due now; None: there is none."""
        left = (
            decision.numbers["objective_due_seconds"] - decision.numbers["oldest_log_seconds"]
            for decision in self.decisions
            if "objective_due_seconds" in decision.numbers
        )
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _of_type(self, choice: Choice) -> tuple[CompactionOperation, ...]:
        return tuple(
            replace(operation, operation_type=None)
            for operation in self.operations
            if operation.operation_type == choice.value
        )


def decide_frozen(groups: Iterable[FrozenGroup]) -> list[Decision]:
    """NONE for each group that no service may touch."""
    return [
        Decision(
            group.partition_path,
            group.file_id,
            Choice.NONE,
            Reason.FROZEN if group.is_nameable else Reason.NAMELESS,
            instant=group.instant,
        )
        for group in sorted(groups, key=lambda group: (group.partition_path, group.file_id))
    ]


def _keeps_logs(decision: Decision) -> bool:
    if decision.choice is Choice.FULL:
        return False
    logs = decision.numbers.get("log_files", 0) + decision.numbers.get("superseded_log_files", 0)
    return decision.reason is Reason.FROZEN or logs > 0


def full_operation(slice_: FileSlice, logs: tuple[LogFile, ...], cost: Cost) -> CompactionOperation:
    """Base file and logs of a slice into a new base file; superseded logs are named, too, and cost nothing."""
    return _operation(slice_, logs, Choice.FULL, cost)


def log_operation(
    slice_: FileSlice, logs: tuple[LogFile, ...], cost: Cost, *, run: tuple[LogFile, ...] | None = None
) -> CompactionOperation:
    """The logs into one log; the base file is named, as Hudi does, and not read.

    Args:
        run: which of the logs are merged, with what they stand for; None: all.
    """
    operation = _operation(slice_, logs, Choice.LOG, cost)
    return operation if run is None else replace(operation, run=tuple(log.name.text for log in run))


def _operation(slice_: FileSlice, logs: tuple[LogFile, ...], choice: Choice, cost: Cost) -> CompactionOperation:
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
            "TOTAL_IO_READ_MB": cost.read_bytes / MEBIBYTE,
            "TOTAL_IO_WRITE_MB": cost.write_bytes / MEBIBYTE,
            "TOTAL_IO_MB": cost.io_bytes / MEBIBYTE,
        },
        operation_type=choice.value,
    )

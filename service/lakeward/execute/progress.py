"""What a long piece of work tells its watcher: where it is, how long its parts took, and what went wrong.

Touches: nothing; `Silent` drops everything, the command line draws it, the daemon counts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lakeward.dispatch.dispatcher import Engine


class Phase(StrEnum):
    """Parts of the work whose seconds are told apart. They nest: a commit waits for the lock, holds it, and scans."""

    LOCK_WAIT = "lock_wait"
    LOCK_HOLD = "lock_hold"
    SCAN = "look"
    """Reading what the table is now."""
    PLAN = "plan"
    """Choosing, with a read of the heads of the logs that are to be merged."""
    SCHEDULE = "schedule"
    YIELD = "yield"
    """Waiting for writers that would fail for what is published."""
    BESIDE_WRITES = "beside_writes"
    """Holding the lock while a write is live."""
    CLAIM = "claim"
    """Waiting for a living attempt of another process is in it."""
    MERGE = "merge"
    COMMIT = "commit"


class Count(StrEnum):
    """Events that are counted."""

    CONFLICT = "conflict"
    """The table changed so that the work could not be published."""
    ROLLED_BACK_ATTEMPT = "undone_attempt"
    """An attempt that died, or failed, was rolled back."""
    LOST_ATTEMPT = "lost_attempt"
    """Our own attempt, or the lock it needed, was taken by another process."""
    UNSCHEDULED_PLAN = "unscheduled_plan"
    METADATA_CLEAN = "metadata_clean"
    """Old files of a metadata table were deleted."""
    METADATA_COMPACTION = "metadata_compaction"
    METADATA_LEFT = "metadata_left"
    """A metadata table was to be cleaned or compacted, and something stood against it."""
    RAN_IN_PROCESS = "ran_in_process"
    """The operations of a plan were merged in this process."""
    RAN_LOCAL = "ran_local"
    """They were merged in processes of this machine."""
    RAN_SPARK = "ran_spark"


METADATA_COUNTS = frozenset({Count.METADATA_CLEAN, Count.METADATA_COMPACTION, Count.METADATA_LEFT})
ENGINE_COUNTS = {engine: Count(f"ran_{engine}") for engine in Engine}
RECOVERY_COUNTS = frozenset({Count.ROLLED_BACK_ATTEMPT, Count.LOST_ATTEMPT, Count.UNSCHEDULED_PLAN})


@dataclass(frozen=True, slots=True)
class Merged:
    """How much of a plan is merged so far."""

    operations: int
    operations_total: int
    input_bytes: int
    """Bytes of the slices that are finished."""
    input_bytes_total: int
    output_bytes: int
    """Bytes written so far, unfinished files included."""
    rows: int
    """Rows in finished files."""


@dataclass(frozen=True, slots=True)
class DeletedSoFar:
    """How much of a clean is done so far."""

    instant: str
    files: int
    files_total: int


class Observer(Protocol):
    def step(self, text: str) -> None:
        """A step begins: `compaction 2026… scheduled, 12 operations`."""

    def waiting(self, text: str, seconds: float) -> None:
        """Still waiting, after `seconds`; called often, the observer decides how often to show it."""

    def merged(self, state: Merged) -> None:
        """Operations have made progress."""

    def deleted(self, state: DeletedSoFar) -> None:
        """A clean begins to delete, or has deleted another batch."""

    def phase(self, phase: Phase, seconds: float) -> None:
        """A part of the work ended, well or not, and took so long."""

    def counted(self, count: Count, number: int = 1) -> None:
        """Something happened `number` times."""


class Silent:
    """Hears nothing; what watches only a part derives from it."""

    def step(self, text: str) -> None:
        pass

    def waiting(self, text: str, seconds: float) -> None:
        pass

    def merged(self, state: Merged) -> None:
        pass

    def deleted(self, state: DeletedSoFar) -> None:
        pass

    def phase(self, phase: Phase, seconds: float) -> None:
        pass

    def counted(self, count: Count, number: int = 1) -> None:
        pass

"""What a long piece of work reports to its watcher: where it is, how long its parts took, and what went wrong.

Touches: nothing; `Silent` drops everything, the command line draws it, the daemon counts it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Protocol

from lakeward.base.quantities import format_duration, format_share, format_size


class Engine(StrEnum):
    """What work can run on; the values are metric labels and stand in reports."""

    IN_PROCESS = "in_process"
    """The process that plans and publishes."""
    LOCAL = "local"
    """Processes of its machine."""
    SPARK = "spark"


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


WAITING_PHASES = frozenset({Phase.LOCK_WAIT, Phase.YIELD})
"""Phases in which work waits for others, as pages and traces say it."""


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
    """A metadata table was to be cleaned or compacted, and something prevented it."""
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
    """How much of a plan is merged so far: the figures of the terminal, of the page and of JSON. None but the rate and
    the time left ever goes down, and at the end all of the input is read."""

    operations: int
    """Operations that are finished."""
    operations_total: int
    input_bytes: int
    """Bytes of the file slices that were read."""
    input_bytes_total: int
    output_bytes: int
    """Bytes written so far, unfinished files included."""
    verified_bytes: int = 0
    """Bytes of these that were read back."""
    bytes_per_second: float | None = None
    """Bytes read in the last seconds; where all is read, those written or verified. None while that says nothing."""
    seconds_left: float | None = None
    """None while that is not known."""
    is_within_slices: bool = True
    """False where the work runs on other machines: then only what is finished is counted."""

    @property
    def all_is_read(self) -> bool:
        return self.input_bytes >= self.input_bytes_total > 0

    @property
    def ratio(self) -> float:
        """The part of the input that was read, from 0 to 1."""
        return min(1.0, self.input_bytes / self.input_bytes_total) if self.input_bytes_total else 0.0

    @property
    def doing(self) -> str:
        """The part of the work that lasts."""
        if not self.all_is_read or self.operations == self.operations_total:
            return "merging"
        return "verifying" if self.verified_bytes else "writing"

    @property
    def figures(self) -> str:
        """What is done, and how fast, in one line of text that fits a terminal of 80 columns."""
        finished = "" if self.is_within_slices else " (finished slices only)"
        of_total = "" if self.all_is_read else f" of {format_size(self.input_bytes_total)}{finished}"
        figures = [
            f"read {format_size(self.input_bytes)}{of_total}",
            *([f"wrote {format_size(self.output_bytes)}"] if self.output_bytes or self.is_within_slices else []),
            *([f"verified {format_size(self.verified_bytes)}"] if self.doing == "verifying" else []),
            *([] if self.bytes_per_second is None else [f"{format_size(int(self.bytes_per_second))}/s"]),
            f"{self.operations:,} of {self.operations_total:,} slices",
        ]
        return ", ".join(figures)

    @property
    def sentence(self) -> str:
        """All of it: what lasts, how much of it is done, and how long it still takes."""
        left = f", {self.left}" if self.left else ""
        return f"{self.doing}, {format_share(self.ratio)}: {self.figures}{left}"

    @property
    def left(self) -> str:
        """The time left, in whole seconds; empty where it is not known."""
        return "" if self.seconds_left is None else f"{format_duration(max(1, ceil(self.seconds_left)))} left"


RATE_SECONDS = 10.0
"""The rate is that of the last so many seconds: what is slow now is not hidden by what was fast before."""
LEFT_SECONDS = 300.0
"""The time left follows from the rate of the last so many seconds: a slice is read, then written and verified, so that
in ten seconds of it nothing may be read."""
_SAMPLE_SECONDS = 0.2
_SPAN_SECONDS_MIN = 3.0
"""A rate over less says little of what is to come."""


class Pace:
    """How fast a number grows that never goes down."""

    def __init__(self, *, seconds: float = RATE_SECONDS) -> None:
        """
        Args:
            seconds: over how many the rate is taken, at most.
        """
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, at: float, number: int) -> float | None:
        """The growth a second, the number being this now; None in the first seconds."""
        if not self._seen or at - self._seen[-1][0] >= _SAMPLE_SECONDS:
            self._seen.append((at, number))
        while len(self._seen) > 2 and at - self._seen[1][0] >= self._seconds:
            self._seen.popleft()
        since, before = self._seen[0]
        span = at - since
        return (number - before) / span if span >= _SPAN_SECONDS_MIN else None

    @staticmethod
    def seconds_for(number: int, rate: float | None) -> float | None:
        """How long so much more takes; None where nothing moves."""
        return number / rate if rate else None


class MergePace:
    """Adds rate and time left to how much is merged."""

    def __init__(self, *, is_within_slices: bool) -> None:
        # Whole slices come at once, minutes apart: their rate over a few seconds is nothing, or too much.
        of_rate, of_left = (RATE_SECONDS, LEFT_SECONDS) if is_within_slices else (float("inf"), float("inf"))
        self._read, self._written, self._verified = (Pace(seconds=of_rate) for _ in range(3))
        self._read_before = Pace(seconds=of_left)

    def of(self, state: Merged, at: float) -> Merged:
        read = self._read.rate(at, state.input_bytes)
        read_before = self._read_before.rate(at, state.input_bytes)
        written = self._written.rate(at, state.output_bytes)
        verified = self._verified.rate(at, state.verified_bytes)
        if not state.all_is_read:
            says_little = not state.is_within_slices and state.operations < _SLICES_MIN
            rate = None if says_little else read
            left_to_read = state.input_bytes_total - state.input_bytes
            left = Pace.seconds_for(left_to_read, None if says_little or not read else read_before)
        elif state.verified_bytes:
            rate, left = verified, Pace.seconds_for(max(0, state.output_bytes - state.verified_bytes), verified)
        else:
            rate, left = written, None  # how much there is to write is not known before
        return replace(state, bytes_per_second=rate, seconds_left=left)


_SLICES_MIN = 2
"""One whole slice says little of the time that others take."""


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


OnStep = Callable[[str], None]
"""Takes a sentence about how far a reading is, now and then."""


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

"""How a table's backlog went since this daemon began to watch it, in a bounded number of samples.

Samples come a minute apart at first. Once there are `SAMPLES_MAX`, every second one goes, and from then on they come
twice as far apart: whatever time there was, as many samples cover all of it.

Touches: nothing.
Keeps:   1. there are never more than `SAMPLES_MAX`, and the first one stays;
         2. a value that was given out never changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakeward.table.backlog import Backlog

SAMPLES_MAX = 60
STEP_SECONDS = 60.0

_FIELDS = 4


@dataclass(frozen=True, slots=True)
class BacklogSample:
    at: float
    log_bytes: float
    read_amplification: float
    oldest_age: float
    """Seconds; 0 where everything is merged."""


@dataclass(frozen=True, slots=True)
class BacklogHistory:
    step: float = STEP_SECONDS
    _numbers: array[float] = field(default_factory=lambda: array("d"))
    """The fields of all samples, one after the other: of thousands of tables, objects would take several times as
    much."""

    def __len__(self) -> int:
        return len(self._numbers) // _FIELDS

    def __iter__(self) -> Iterator[BacklogSample]:
        """Oldest first."""
        for start in range(0, len(self._numbers), _FIELDS):
            yield BacklogSample(*self._numbers[start : start + _FIELDS])

    def seen(self, at: float, backlog: Backlog) -> BacklogHistory:
        """The history with what is there now; as it was while it is too soon for another sample."""
        if self._numbers and at < self._numbers[-_FIELDS] + self.step:
            return self
        oldest = backlog.oldest_unmerged_at
        age = 0.0 if oldest is None else max(0.0, at - oldest)
        numbers = self._numbers + array("d", (at, backlog.log_bytes, backlog.read_amplification, age))
        if len(numbers) // _FIELDS <= SAMPLES_MAX:
            return BacklogHistory(self.step, numbers)
        kept = array("d")
        for start in range(0, len(numbers), 2 * _FIELDS):
            kept += numbers[start : start + _FIELDS]
        return BacklogHistory(2 * self.step, kept)

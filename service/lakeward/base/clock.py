"""Time as a component: wall clock, monotonic clock and sleep, so that tests can hold all three.

Touches: the machine's clocks.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Wall clock, seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

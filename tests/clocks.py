"""A clock whose sleeps cost nothing: real time plus what was slept."""

from __future__ import annotations

import time


class SkippingClock:
    """Agrees with the times of files just written, as tests of heartbeats and locks need."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        return time.time() + self.slept

    def monotonic(self) -> float:
        return time.monotonic() + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


class SettableClock:
    """Stands still until a test moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self.time = now
        self.stepped = 0.0
        """How far the wall clock was set forward, or back."""

    def now(self) -> float:
        return self.time + self.stepped

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock; the monotonic one takes no notice."""
        self.stepped += seconds

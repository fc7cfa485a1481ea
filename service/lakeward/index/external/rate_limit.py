"""So many operations a second and no more, spread evenly.

Touches: the clock, which it sleeps by.
"""

from __future__ import annotations

from lakeward.base.clock import Clock


class RateLimit:
    def __init__(self, per_second: float | None, *, clock: Clock) -> None:
        """
        Args:
            per_second: None: as many as there are.
        """
        assert per_second is None or per_second > 0
        self._per_second = per_second
        self._clock = clock
        self._free_at = clock.monotonic()

    def take(self, operations: int) -> None:
        """Wait for those before, then take these: a batch never waits for itself, but the next one does."""
        if self._per_second is None:
            return
        now = self._clock.monotonic()
        if self._free_at > now:
            self._clock.sleep(self._free_at - now)
        self._free_at = max(now, self._free_at) + operations / self._per_second

"""A budget of bytes per hour: a bucket that holds an hour's worth, fills steadily and starts full.

A job takes what it is predicted to read and write. One that needs more than the bucket holds runs when it is full
and leaves a debt, so that over time no more than the budget is spent. A restart starts full again.

Touches: nothing; time is handed in.
"""

from __future__ import annotations

_TOLERANCE = 1.0
"""Bytes. Filling is computed in floats; without it a bucket could stay a millionth of a byte short of full."""


class IoBudget:
    def __init__(self, per_hour: int | None) -> None:
        self._per_hour = per_hour
        self._level = float(per_hour or 0)
        self._level_at = 0.0

    def change(self, per_hour: int | None, now: float) -> None:
        """What was spent stays spent; a budget where there was none starts full."""
        self._fill(now)
        if per_hour is not None:
            spent = self._per_hour - self._level if self._per_hour is not None else 0.0
            self._level = per_hour - spent
        self._per_hour = per_hour

    def fits_at(self, need: int, now: float) -> float | None:
        """When that many bytes may be taken, now if they may; None: never, because nothing is ever left."""
        if self._per_hour is None or need == 0:
            return now
        if self._per_hour == 0:
            return None
        self._fill(now)
        missing = min(need, self._per_hour) - self._level
        return now if missing <= _TOLERANCE else now + missing * 3600 / self._per_hour

    def take(self, need: int, now: float) -> None:
        if self._per_hour is not None:
            self._fill(now)
            self._level -= need

    def _fill(self, now: float) -> None:
        if self._per_hour is not None:
            # A clock that was set back fills nothing; the next difference counts again.
            elapsed = max(0.0, now - self._level_at)
            self._level = min(float(self._per_hour), self._level + elapsed * self._per_hour / 3600)
        self._level_at = now

"""How long ago instants were, measured at the instant of a plan: the planner's clock, which does not tick.

Touches: nothing.
"""

from __future__ import annotations

from datetime import tzinfo

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import parse_instant_time


class Ages:
    """Seconds between an instant and the plan's. Remembers them: a table has many files and few instants."""

    def __init__(self, at: str, zone: tzinfo) -> None:
        self._zone = zone
        self._at_seconds = parse_instant_time(at, zone) // 1000
        self._known: dict[str | None, int] = {None: 0}

    def seconds_since(self, instant: str | None) -> int:
        """Whole seconds, both moments rounded down as Hudi does; 0 for instants that are no moment in time."""
        seconds = self._known.get(instant)
        if seconds is None:
            assert instant is not None, "None is known"
            try:
                seconds = self._at_seconds - parse_instant_time(instant, self._zone) // 1000
            except BrokenFile:
                seconds = 0
            self._known[instant] = seconds
        return seconds

    def moment(self, seconds: int) -> int:
        """When something was that is so many seconds old, in seconds since the epoch."""
        return self._at_seconds - seconds

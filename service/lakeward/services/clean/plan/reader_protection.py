"""What running queries and incremental consumers still need of the slices that a policy lets go.

    reader window   a query that began while a slice was the newest may read it until so long after the completion of
                    the instant that superseded it
    consumers       one that has read the table up to a time, its *watermark*, still needs what was superseded by an
                    instant that completed after that: by these slices it finds what changed, and the rows from before

Both are one rule. Each has a time, and what was superseded by an instant that completed after that time stays. By
commits and hours a clean has one earliest instant, as of which everything can be read (`planner.py`), and
Hudi's next clean looks at nothing before it. So these two move it back, to the first instant that completed after the
time; what was requested after a late write stays as long as what that one superseded. When archived
instants completed is not asked: what they superseded stays while the oldest write of the timeline is held.

Instants are compared with the clock of this machine. A consumer of which nothing is known keeps all.

Touches: nothing.
Keeps:   1. what an instant superseded that completed within the window, or after a watermark, stays;
         2. a watermark that is not known keeps everything; a zone that is not, all that may have been superseded within
            the window;
         3. a reader that holds a slice holds everything that was superseded by a later instant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, comparable_time, format_instant_time, parse_instant_time
from lakeward.services.clean.plan.decision import ConsumerHold
from lakeward.services.clean.plan.keeper import Keeper, KeepReason
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timezone import WESTERNMOST

if TYPE_CHECKING:
    import datetime

_BEFORE_ALL = ""
"""Everything completed after it."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far an incremental consumer has read the table."""

    consumer: str
    time: str | None
    """It has read everything that completed up to this time, or was requested by then; None where that is not known."""
    why: str = ""
    """Why it is not known."""


class ReaderProtection:
    """The readers of one table at one moment."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        window: float,
        watermarks: Iterable[Watermark],
        now: float,
        zone: datetime.tzinfo | None,
    ) -> None:
        """
        Args:
            window: seconds for which a query may run; 0: no query is waited for.
            now: seconds since the epoch.
            zone: the zone of the table's instants.
        """
        self._writes = timeline.completed_writes
        self._times = [comparable_time(write.time) for write in self._writes]
        # For each write, when the last one up to it completed.
        self._visible: Sequence[str] = list(
            accumulate((comparable_time(timeline.visible_at(write.time)) for write in self._writes), max)
        )
        self._window, self._zone = window, zone
        self._window_start: str | None = None
        if window > 0:
            self._window_start = (
                self._before_young(timeline, now - window)
                if zone is None
                else format_instant_time(round((now - window) * 1000), zone)
            )
        self._watermarks = tuple(watermarks)

    def keepers(self, superseded_by: str) -> Iterator[Keeper]:
        """Who still needs what this instant superseded, or replaced."""
        if self._is_held(superseded_by, self._window_start):
            yield Keeper(KeepReason.READER_WINDOW, not_before=self._window_ends(superseded_by))
        for mark in self._watermarks:
            if self._is_held(superseded_by, _time_of(mark)):
                yield Keeper(
                    KeepReason.CONSUMER,
                    consumer=mark.consumer,
                    read_up_to=None if mark.time is None else self._visible_by(superseded_by),
                )

    def move_back(self, earliest: Instant | None) -> Instant | None:
        """The earliest instant of the policy, or an older one that readers need; None where they need everything."""
        for time in (self._window_start, *map(_time_of, self._watermarks)):
            if earliest is None:
                return None
            earliest = self._held_from(time, earliest)
        return earliest

    def holds(self, earliest: Instant | None) -> Iterator[ConsumerHold]:
        """How far each consumer holds cleaning back.

        Args:
            earliest: that of the policy.
        """
        for mark in self._watermarks:
            held = 0
            if earliest is not None:
                held = self._number(earliest) - self._number(self._held_from(_time_of(mark), earliest))
            yield ConsumerHold(mark.consumer, mark.time, mark.why, held, self._seconds_behind(mark))

    def _before_young(self, timeline: Timeline, moment: float) -> str:
        """The time behind which everything may have completed since the moment, where the zone is not known."""
        start = format_instant_time(round(moment * 1000), WESTERNMOST)
        young = (
            visible
            for visible, write in zip(self._visible, self._writes, strict=True)
            if visible >= start or timeline.modified.get(write.file_name, moment) >= moment
        )
        first = next(young, None)
        if first is None:
            return self._visible[-1] if self._visible else _BEFORE_ALL
        number = bisect_left(self._visible, first)
        return self._visible[number - 1] if number else _BEFORE_ALL

    def _is_held(self, superseded_by: str, time: str | None) -> bool:
        return time is not None and (time == _BEFORE_ALL or self._visible_by(superseded_by) > time)

    def _visible_by(self, instant: str) -> str:
        """When the last write up to this one completed, for one that was archived the oldest that is left."""
        number = bisect_right(self._times, comparable_time(instant))
        return self._visible[max(0, number - 1)] if self._visible else ""

    def _held_from(self, time: str | None, earliest: Instant) -> Instant | None:
        if time is None:
            return earliest
        number = bisect_right(self._visible, time)
        if number == 0:
            return None
        return self._writes[number] if number < self._number(earliest) else earliest

    def _number(self, write: Instant | None) -> int:
        """Its place among the writes."""
        return 0 if write is None else self._times.index(comparable_time(write.time))

    def _window_ends(self, superseded_by: str) -> float | None:
        return None if (at := self._seconds(self._visible_by(superseded_by))) is None else at + self._window

    def _seconds_behind(self, mark: Watermark) -> float | None:
        if mark.time is None or not self._visible:
            return None
        newest, read = self._seconds(self._visible[-1]), self._seconds(mark.time)
        return None if newest is None or read is None else max(0.0, newest - read)

    def _seconds(self, time: str) -> float | None:
        if self._zone is None:
            return None
        try:
            return parse_instant_time(time, self._zone) / 1000
        except BrokenFile:  # one that Hudi reserves
            return None


def _time_of(mark: Watermark) -> str:
    return _BEFORE_ALL if mark.time is None else comparable_time(mark.time)

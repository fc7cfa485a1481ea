"""A weekly window in which work may start: `Mon-Fri 22:00-06:00 Europe/Berlin`.

    window = days time-time [zone]
    days   = day | day-day | days,days | daily      (Mon Tue Wed Thu Fri Sat Sun; Fri-Mon goes over the week's end)
    time   = HH:MM, the end also 24:00              (an end not after its begin is on the next day)
    zone   = an IANA name; UTC where none is given

The days are those on which a window begins: the one above is open on Saturday until 06:00 and not on Monday before.

Touches: the time zone database.
Keeps:   1. begin and end are wall-clock times of the zone, so a window is an hour longer or shorter where the
            clocks change inside it;
         2. of a time that the clocks show twice, the first is the begin and the second the end; where they skip a
            begin the window opens late, and where they skip an end it closes early, each by what was skipped;
         3. a window contains its begin and not its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MINUTES_A_DAY = 24 * 60
_SOME_MONDAY = datetime(2026, 1, 12, tzinfo=UTC).timestamp()
"""In a fortnight in which few zones set their clocks."""
_HOW = "A window is written like 'Mon-Fri 22:00-06:00 Europe/Berlin' or 'daily 01:00-05:00'."


@dataclass(frozen=True, slots=True)
class Window:
    text: str
    """The text that the operator wrote."""
    days: frozenset[int]
    """Days on which it begins; Monday is 0."""
    begin: int
    """Minutes after midnight."""
    end: int
    """Minutes after midnight of the day it begins; more than a day's where it goes over midnight."""
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Window:
        """Raises `ValueError` that says what would fit."""
        match = re.fullmatch(r"\s*(\S+)\s+(\d\d):(\d\d)-(\d\d):(\d\d)(?:\s+(\S+))?\s*", text)
        if match is None:
            raise ValueError(_HOW)
        begin, end = _minutes(match[2], match[3]), _minutes(match[4], match[5])
        if begin == _MINUTES_A_DAY:
            raise ValueError(f"A window begins at 23:59 at the latest. {_HOW}")
        return cls(
            text=" ".join(text.split()),
            days=_days(match[1]),
            begin=begin,
            end=end if end > begin else end + _MINUTES_A_DAY,
            zone=_zone(match[6] or "UTC"),
        )

    def is_open(self, now: float) -> bool:
        return any(opens <= now < closes for opens, closes in self._spans(now))

    def opens_at(self, now: float) -> float:
        """Now where it is open, else when it opens next."""
        for opens, closes in self._spans(now):
            if now < closes:
                return max(opens, now)
        raise AssertionError("a window opens at least once in two weeks")

    def closes_at(self, now: float) -> float:
        """When the window that is open, or else the next one, closes; one that begins where it ends goes on."""
        at = self.opens_at(now)
        for opens, closes in self._spans(at):
            if opens <= at < closes:
                at = closes
        return at

    def _spans(self, now: float) -> Iterator[tuple[float, float]]:
        """Begin and end of the windows around `now`, in order: from the day before yesterday to two weeks on, which
        holds a begin after now even where the clocks skip the only window of a week."""
        today = datetime.fromtimestamp(now, self.zone).date()
        for offset in range(-2, 17):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                opens, closes = self._instant(day, self.begin, fold=0), self._instant(day, self.end, fold=1)
                if opens < closes:
                    yield opens, closes

    def _instant(self, day: date, minutes: int, *, fold: int) -> float:
        days, minutes = divmod(minutes, _MINUTES_A_DAY)
        return datetime.combine(
            day + timedelta(days=days), time(*divmod(minutes, 60), fold=fold), self.zone
        ).timestamp()


def longest_closed(windows: Sequence[Window]) -> float:
    """For how long at a stretch none of them is open, at most, in seconds; 0 where there is none. In a week whose
    clocks do not change."""
    if not windows:
        return 0.0
    now = min(window.opens_at(_SOME_MONDAY) for window in windows)
    end, longest = now + 7 * _MINUTES_A_DAY * 60, 0.0
    while now < end:
        closed = max((window.closes_at(now) for window in windows if window.is_open(now)), default=None)
        if closed is not None:
            now = closed
            continue
        opens = min(window.opens_at(now) for window in windows)
        longest, now = max(longest, opens - now), opens
    return longest


def _minutes(hours: str, minutes: str) -> int:
    total = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or total > _MINUTES_A_DAY:
        raise ValueError(f"There is no time {hours}:{minutes}. {_HOW}")
    return total


def _days(text: str) -> frozenset[int]:
    if text.lower() == "daily":
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = _day(first), _day(last or first)
        days.update((begin + offset) % 7 for offset in range((end - begin) % 7 + 1))
    return frozenset(days)


def _day(text: str) -> int:
    if text.title() not in _DAYS:
        raise ValueError(f"There is no day '{text}'; the days are {', '.join(_DAYS)} and daily.")
    return _DAYS.index(text.title())


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"There is no time zone '{name}'; it is a name like Europe/Berlin.") from None

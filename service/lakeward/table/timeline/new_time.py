"""What a new instant may be where the zone of a table's instants is not known: a millisecond after the greatest time.

Nothing that services do hangs on what a clock shows, but on the order of times. The greatest time was shown by a clock
of the writers, or minted so itself; so the one after it has passed for that clock, and everything that is committed
from now on is later. Three things can make that wrong, and each has a name:

    ahead of any clock     the greatest time is shown nowhere on earth yet: what writers commit lies below it
    out of order           file times show that a greater time was written before a smaller one: writers are in two
                           zones, or their clocks were set back
    set back               the clocks of a zone that the writers may be in show less than the greatest time again

    01:50 UTC  a writer in Berlin commits 02:50, winter time began at 01:00; 01:55 we mint 02:50:00.001: right
    00:50 UTC  it commits 02:50, summer time; 01:10 we would mint 02:50:00.001; 01:20 it commits 02:20: below that

Touches: the time zone database, through `timezone`.
Keeps:   1. a new time is greater than the greatest, however many digits that has;
         2. no zone that the writers may be in shows a smaller time from now on than one that is found right;
         3. without a time zone database a greatest time of the last hours is not found right.
See:     docs/decisions/0092-instants-without-a-zone.md
"""

from __future__ import annotations

import datetime
from typing import Final

from lakeward.format.timeline.instant import comparable_time, format_instant_time, parse_instant_time
from lakeward.table.timeline.timezone import (
    EASTERNMOST,
    QUARTER_SECONDS,
    SET_BACK_SECONDS_MAX,
    TOLERANCE_SECONDS,
    WESTERNMOST,
    TimelineZone,
    all_zones,
    offset_at,
)

MAX_WAIT_SECONDS: Final = 5.0
"""How far in our future the newest time on a table may lie before Lakeward asks for help instead of waiting."""
_DIGITS: Final = 17
_CLOSE_SECONDS: Final = 1.0
"""New times that are made at once are no further apart."""


def times_after(greatest: str, number: int) -> list[str]:
    """The next times. Raises `BrokenFile` for what is no moment."""
    last = _milliseconds(greatest)
    return [format_instant_time(last + each, datetime.UTC) for each in range(1, number + 1)]


def is_ahead_of_every_clock(greatest: str, now: float) -> bool:
    return comparable_time(greatest) > format_instant_time(int(now * 1000), EASTERNMOST)


def find_set_back(zone: TimelineZone, greatest: str, now: float) -> str | None:
    """The zone that the writers may be in whose clocks show `greatest` once more, or less; None where there is none.
    Raises `BrokenFile` for what is no moment."""
    shown = _milliseconds(greatest) / 1000
    zones = zone.may_be or all_zones()
    if not zones and shown + _CLOSE_SECONDS + SET_BACK_SECONDS_MAX >= now + offset_at(WESTERNMOST, now):
        return "a zone that is not known, since there is no time zone database on this machine,"
    return next((str(each) for each in zones if _is_shown_again(each, shown, now)), None)


def _is_shown_again(zone: datetime.tzinfo, shown: float, now: float) -> bool:
    """Whether a clock in `zone` has shown a time, or nearly, and from now on shows it again, having been set back."""
    offset = offset_at(zone, now)
    if abs(now + offset - shown) > SET_BACK_SECONDS_MAX + TOLERANCE_SECONDS:
        return False
    quarter = now - now % QUARTER_SECONDS
    steps = range(0, SET_BACK_SECONDS_MAX + 1, QUARTER_SECONDS)
    past = [(moment, offset_at(zone, moment)) for moment in (quarter - after - 1 for after in steps)]
    coming = [(moment, offset_at(zone, moment)) for moment in (quarter + QUARTER_SECONDS + after for after in steps)]
    if max(moment + ahead for moment, ahead in (*past, (now, offset))) < shown - TOLERANCE_SECONDS:
        return False  # no clock there has shown it
    was_set = now + offset <= shown + _CLOSE_SECONDS and any(ahead > offset for _, ahead in past)
    return was_set or any(ahead < offset and moment + ahead <= shown + _CLOSE_SECONDS for moment, ahead in coming)


def _milliseconds(time: str) -> int:
    """The moment at which a clock in UTC would show it."""
    return parse_instant_time(comparable_time(time)[:_DIGITS], datetime.UTC)

"""New requested and completion times: greater than everything the table has seen, and past for every clock.

As in Hudi since 1.0 (SkewAdjustingTimeGenerator): under the table lock take the time, let the largest clock skew
between writers pass, then use the time taken. So no two writers share or invert times.

A time of the hour that comes twice when summer time ends is not used, nor one that another zone in which the writers
may be has yet to show: what they commit then would be taken for older than our file slice, and not be read.

Touches: the clock, which it lets pass: never for long, since every writer waits for the lock meanwhile.
Keeps:   1. a new time is greater than `floor`;
         2. when a time is used, it has passed on every machine whose clock is within the skew;
         3. no clock that the writers may have shows a smaller time from then on;
         4. what lies further in the future than clocks differ is not waited for: each attempt would hold the lock.
"""

from __future__ import annotations

from datetime import UTC

from lakeward.clock import Clock
from lakeward.errors import TryLater
from lakeward.format.timeline.instant import comparable_time, format_instant_time
from lakeward.table.timeline.timezone import TimelineZone, shown_again

MAX_CLOCK_SKEW_SECONDS = 0.2
"""Hudi's default of `hoodie.time.generator.max_expected_clock_skew_ms`."""

MAX_WAIT_SECONDS = 5.0
"""How far in our future the newest time on a table may lie before we ask for help instead of waiting."""


def next_time(*, floor: str | None, zone: TimelineZone, clock: Clock) -> str:
    """A new instant time. The caller holds the table lock until the file that carries the time exists."""
    return next_times(1, floor=floor, zone=zone, clock=clock)[0]


def next_times(number: int, *, floor: str | None, zone: TimelineZone, clock: Clock) -> list[str]:
    """The same for several, each a millisecond after the one before: the skew has to pass for all of them once.

    Args:
        floor: the greatest requested or completion time on the timeline, None when it is empty.
        zone: that of the table's instants; before the first commit there need be none, and UTC will do.
    """
    written_in = zone.zone or UTC
    deadline = clock.monotonic() + MAX_WAIT_SECONDS
    while True:
        now = clock.now()
        time = format_instant_time(int(now * 1000), written_in)
        if floor is None or time > comparable_time(floor):
            break
        soon = format_instant_time(int((now + MAX_WAIT_SECONDS) * 1000), written_in)
        if soon <= comparable_time(floor) or clock.monotonic() >= deadline:
            raise TryLater(
                f"The newest time on the timeline, {floor}, lies in the future of this machine's clock, {time}.",
                why="A time that is not greater would hide our work behind another writer's, or theirs behind ours.",
                remedy="Set this machine's clock and time zone right (--timezone names the zone of the writers). Where "
                "summer time has just ended, the clock gets there within the hour. `lakeward inspect` names every "
                "instant in the future.",
            )
        clock.sleep(0.01)
    if (elsewhere := shown_again(zone, now)) is not None:
        raise TryLater(
            f"The clocks of the writers may show {time}, the time of this machine in {written_in}, once more.",
            why=f"They do in {elsewhere}, where the clocks are set back about now, and nothing on the table says that "
            "the writers are elsewhere. What they commit then would lie below ours, where no reader reads it.",
            remedy="Run the command again when the clocks show more than that, or after the next commit of a writer; "
            "or name the zone of the writers (--timezone, as in Europe/Berlin), if it is not yet named.",
        )
    clock.sleep(MAX_CLOCK_SKEW_SECONDS + (number - 1) / 1000)
    return [format_instant_time(int(now * 1000) + following, written_in) for following in range(number)]


def later(*times: str | None) -> str | None:
    """The greatest of some times on timelines, None where there is none."""
    return max((time for time in times if time is not None), key=comparable_time, default=None)

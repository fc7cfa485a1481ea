"""New requested and completion times: greater than everything the table has seen, and past for every clock.

As in Hudi since 1.0 (SkewAdjustingTimeGenerator): under the table lock take the time, let the largest clock skew
between writers pass, then use the time taken. So no two writers share or invert times.

Touches: the clock, which it lets pass.
Keeps:   1. a new time is greater than `floor`;
         2. when a time is used, it has passed on every machine whose clock is within the skew.
"""

from __future__ import annotations

from datetime import tzinfo

from lakeward.clock import Clock
from lakeward.errors import TryLater
from lakeward.format.instant import comparable_time, format_instant_time

MAX_CLOCK_SKEW_SECONDS = 0.2
"""Hudi's default of `hoodie.time.generator.max_expected_clock_skew_ms`."""

MAX_WAIT_SECONDS = 5.0
"""How far in our future the newest time on a table may lie before we ask for help instead of waiting."""


def next_time(*, floor: str | None, zone: tzinfo, clock: Clock) -> str:
    """A new instant time. The caller holds the table lock until the file that carries the time exists.

    Args:
        floor: the greatest requested or completion time on the timeline, None when it is empty.
        zone: the zone of the table's instants.
    """
    deadline = clock.monotonic() + MAX_WAIT_SECONDS
    while True:
        time = format_instant_time(int(clock.now() * 1000), zone)
        if floor is None or time > comparable_time(floor):
            break
        if clock.monotonic() >= deadline:
            raise TryLater(
                f"The newest time on the timeline, {floor}, lies in the future of this machine's clock, {time}.",
                why="A time that is not greater would hide our work behind somebody else's, or theirs behind ours.",
                remedy="Set this machine's clock and time zone right (--timezone names the zone of the writers).",
            )
        clock.sleep(0.01)
    clock.sleep(MAX_CLOCK_SKEW_SECONDS)
    return time

"""New requested and completion times: greater than everything the table has seen, and past for every clock.

As in Hudi since 1.0 (SkewAdjustingTimeGenerator): under the table lock take the time, let the largest clock skew
between writers pass, then use the time taken. So no two writers share or invert times.

Where the zone of the table's instants is not known, a new time is the one after the greatest
(`table/timeline/new_time`), and the skew passes likewise: so never more milliseconds are minted than have passed.

A time of the hour that comes twice when summer time ends is not used, nor one that another zone in which the writers
may be has yet to show: what they commit then would be taken for older than our file slice, and not be read.

What was minted is remembered (`seen_times`) before it is used, so that no time comes back:

    lock    times are read -> new ones are chosen, and the skew passes -> the file is created -> those before it go
    then    the caller creates the timeline file that carries the time

    t0 A has chosen 5 and is stopped; t1 its lock runs out, B mints 9; t2 A wakes, creates 5 and deletes what it saw
    before: 9 stays, and A's fence fails. Had both chosen 5, the one that comes second would not create it.

Touches: the files of the greatest minted time; the caller holds the table lock. The clock, which it lets pass: never
         for long, since every writer waits for the lock meanwhile.
Keeps:   1. a new time is greater than `floor`;
         2. when a time is used, it has passed on every machine whose clock is within the skew;
         3. no clock that the writers may have shows a smaller time from then on;
         4. what lies further in the future than clocks differ is not waited for: each attempt would hold the lock;
         5. the file is there before the time is used, and never names a smaller one for it;
         6. no two processes mint one time, whatever happened to the lock.
See:     docs/decisions/0092-instants-without-a-zone.md
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from lakeward.base.clock import Clock
from lakeward.base.errors import AlreadyExists, AttemptLost, Refused, TryLater
from lakeward.base.paths import join
from lakeward.format.timeline.instant import comparable_time, format_instant_time
from lakeward.protocol.creation import create
from lakeward.protocol.times.seen_times import TIME, SeenTimes, minted_folder
from lakeward.storage.storage import Storage
from lakeward.table.timeline.new_time import (
    MAX_WAIT_SECONDS,
    find_set_back,
    is_ahead_of_every_clock,
    times_after,
)
from lakeward.table.timeline.timezone import TimelineZone, shown_again

MAX_CLOCK_SKEW_SECONDS = 0.2
"""Hudi's default of `hoodie.time.generator.max_expected_clock_skew_ms`."""

_NAME_IT = "Or name the zone in which the writers run: `[defaults] timezone` in the configuration, or --timezone."


Mint = Callable[[int], list[str]]
"""So many new times, each a millisecond after the one before."""


class Minter:
    """Mints times of one table, once, under the lock under which the times were read."""

    def __init__(self, storage: Storage, base_path: str, seen: SeenTimes, *, zone: TimelineZone, clock: Clock) -> None:
        self._storage = storage
        self._folder = minted_folder(base_path)
        self._seen = seen
        self._zone = zone
        self._clock = clock

    def mint(self, number: int = 1) -> list[str]:
        """New times, remembered. Raises `TryLater`, `Refused`, `AttemptLost`; then none of them was used."""
        times = next_times(number, floor=self._seen.greatest, zone=self._zone, clock=self._clock)
        self._remember(times[-1])
        return times

    def _remember(self, time: str) -> None:
        before = self._seen.minted
        self._storage.make_folder(self._folder)
        try:
            create(self._storage, join(self._folder, time), self._seen.content)
        except AlreadyExists as error:
            raise AttemptLost(
                f"{time} was minted by another process.",
                why="The table lock was taken from us meanwhile.",
                remedy="Run the command again: it finishes what is left, if anything is.",
            ) from error
        for status in self._storage.list(self._folder):
            if before is not None and TIME.fullmatch(status.name) and status.name <= before:
                self._storage.delete(status.path)


def next_times(number: int, *, floor: str | None, zone: TimelineZone, clock: Clock) -> list[str]:
    """New instant times, each a millisecond after the one before: the skew has to pass for all of them once. The caller
    holds the table lock until the file that carries a time exists.

    Args:
        floor: the greatest requested or completion time on the timeline, None when it is empty.
        zone: that of the table's instants; before the first commit there need be none, and UTC will do.
    """
    if zone.zone is None and floor is not None:
        return _next_after(floor, number, zone=zone, clock=clock)
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
                why="A time that is not greater would hide Lakeward's work or another writer's.",
                remedy="Set this machine's clock and time zone right (--timezone names the zone of the writers). Where "
                "summer time has just ended, the clock gets there within the hour. `lakeward inspect` names every "
                "instant in the future.",
            )
        clock.sleep(0.01)
    if (elsewhere := shown_again(zone, now)) is not None:
        raise TryLater(
            f"The clocks of the writers may show {time}, the time of this machine in {written_in}, once more.",
            why=f"They do in {elsewhere}, where the clocks are set back about now, and nothing on the table says that "
            "the writers are elsewhere. What they commit then would be older than Lakeward's work, and not be read.",
            remedy="Run the command again when the clocks show more than that, or after the next commit of a writer; "
            "or name the zone of the writers (--timezone, as in Europe/Berlin), if it is not yet named.",
        )
    clock.sleep(MAX_CLOCK_SKEW_SECONDS + (number - 1) / 1000)
    return [format_instant_time(int(now * 1000) + following, written_in) for following in range(number)]


def _next_after(greatest: str, number: int, *, zone: TimelineZone, clock: Clock) -> list[str]:
    """The same where the zone is not known: the times after the greatest."""
    deadline = clock.monotonic() + MAX_WAIT_SECONDS
    while is_ahead_of_every_clock(greatest, clock.now()):
        is_far = is_ahead_of_every_clock(greatest, clock.now() + MAX_WAIT_SECONDS)
        if is_far or clock.monotonic() >= deadline:
            raise Refused(
                f"instant-in-future: the greatest time of the table, {greatest}, is shown by no clock on earth yet.",
                why="The clock that made it was wrong. What writers commit lies below it, and so would our work.",
                remedy=f"Find out which clock made it: `lakeward inspect` names instants in the future. {_NAME_IT}",
            )
        clock.sleep(0.01)
    if zone.disorder:
        raise Refused(
            f"instants-out-of-order: {zone.disorder}.",
            why="So writers are in two time zones, or their clocks were set back, and what they commit next may lie "
            "below our work, where no reader reads it.",
            remedy=_NAME_IT,
        )
    if (elsewhere := find_set_back(zone, greatest, clock.now())) is not None:
        raise TryLater(
            f"clocks-set-back: the writers' clocks may show {greatest}, the greatest time of the table, once more.",
            why=f"They do in {elsewhere} where the clocks are set back about now, and nothing on the table says that "
            "the writers are elsewhere. What they commit then would be older than Lakeward's work, and not be read.",
            remedy=f"Run the command again when the clocks show more than that. {_NAME_IT}",
        )
    clock.sleep(MAX_CLOCK_SKEW_SECONDS + (number - 1) / 1000)
    return times_after(greatest, number)

"""New times are greater than everything seen, and past for every clock within the skew."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from lakeward.commit.instant_time import MAX_CLOCK_SKEW_SECONDS, next_time
from lakeward.errors import TryLater
from lakeward.format.instant import format_instant_time, parse_instant_time
from tests.clocks import SkippingClock


def at(clock: SkippingClock, seconds: float) -> str:
    return format_instant_time(int((clock.now() + seconds) * 1000), UTC)


def test_the_skew_passes_before_the_time_is_used() -> None:
    """So no machine whose clock is within the skew can still produce a smaller one."""
    clock = SkippingClock()
    time = next_time(floor=None, zone=UTC, clock=clock)
    assert clock.slept >= MAX_CLOCK_SKEW_SECONDS
    assert parse_instant_time(time, UTC) / 1000 + MAX_CLOCK_SKEW_SECONDS <= clock.now() + 0.001


def test_a_floor_a_little_ahead_is_waited_for() -> None:
    """Clocks differ by fractions of seconds."""
    clock = SkippingClock()
    floor = at(clock, 2.0)
    time = next_time(floor=floor, zone=UTC, clock=clock)
    assert time > floor
    assert clock.slept < 3


def test_a_floor_far_ahead_asks_for_help() -> None:
    """A time far in our future means a wrong clock or zone; guessing would hide somebody's commit."""
    clock = SkippingClock()
    with pytest.raises(TryLater, match="future of this machine's clock"):
        next_time(floor=at(clock, 3600.0), zone=UTC, clock=clock)


def test_times_are_in_the_zone_of_the_table() -> None:
    """Where the table's writers live in another zone, so do our instants."""
    clock = SkippingClock()
    zone = timezone(timedelta(hours=5, minutes=30))
    time = next_time(floor=None, zone=zone, clock=clock)
    assert abs(parse_instant_time(time, zone) / 1000 - clock.now()) < 5


def test_a_short_legacy_floor_counts_to_the_end_of_its_second() -> None:
    """Fourteen digits compare as if 999 were appended."""
    clock = SkippingClock()
    floor = at(clock, 0.0)[:14]
    assert next_time(floor=floor, zone=UTC, clock=clock) > floor + "999"

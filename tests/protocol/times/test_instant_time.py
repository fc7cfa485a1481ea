"""New times are greater than everything seen, and past for every clock within the skew."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from lakeward.base.clock import Clock
from lakeward.base.errors import TryLater
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.protocol.times.instant_time import MAX_CLOCK_SKEW_SECONDS, next_times
from lakeward.table.timeline.new_time import MAX_WAIT_SECONDS
from lakeward.table.timeline.timezone import TimelineZone, TimeSample, ZoneSource, resolve_zone
from tests.clocks import SettableClock, SkippingClock

IN_UTC = TimelineZone(ZoneSource.TABLE, UTC, "")


def next_time(*, floor: str | None, zone: TimelineZone, clock: Clock) -> str:
    (time,) = next_times(1, floor=floor, zone=zone, clock=clock)
    return time


def at(clock: SkippingClock, seconds: float) -> str:
    return format_instant_time(int((clock.now() + seconds) * 1000), UTC)


def test_the_skew_passes_before_the_time_is_used() -> None:
    """After that no machine whose clock is within the skew can still produce a smaller one. Keeps 2 of
    protocol/times/instant_time."""
    clock = SkippingClock()
    time = next_time(floor=None, zone=IN_UTC, clock=clock)
    assert clock.slept >= MAX_CLOCK_SKEW_SECONDS
    assert parse_instant_time(time, UTC) / 1000 + MAX_CLOCK_SKEW_SECONDS <= clock.now() + 0.001


def test_a_floor_a_little_ahead_is_waited_for() -> None:
    """Clocks differ by fractions of seconds. Keeps 1 of protocol/times/instant_time."""
    clock = SkippingClock()
    floor = at(clock, 2.0)
    time = next_time(floor=floor, zone=IN_UTC, clock=clock)
    assert time > floor
    assert clock.slept < 3


def test_a_floor_far_ahead_asks_for_help() -> None:
    """A time far in our future means a wrong clock or zone; guessing would hide another writer's commit. The lock is
    not held to wait for it. Keeps 4 of protocol/times/instant_time."""
    clock = SkippingClock()
    with pytest.raises(TryLater, match="future of this machine's clock"):
        next_time(floor=at(clock, 3600.0), zone=IN_UTC, clock=clock)
    assert clock.slept == 0.0


def test_a_clock_that_goes_back_while_we_wait_is_not_waited_for() -> None:
    """The wait ends by the monotonic clock."""
    clock = SettableClock(1_790_000_000.0)
    floor = format_instant_time(int((clock.now() + 2.0) * 1000), UTC)
    sleep = clock.sleep

    def stand_still(seconds: float) -> None:
        sleep(seconds)
        clock.step(-seconds)

    clock.sleep = stand_still  # type: ignore[method-assign]
    with pytest.raises(TryLater, match="future of this machine's clock"):
        next_time(floor=floor, zone=IN_UTC, clock=clock)
    assert clock.monotonic() < 1_790_000_000.0 + MAX_WAIT_SECONDS + 1


def test_times_are_in_the_zone_of_the_table() -> None:
    """Our instants are in the zone in which the table's writers live, also when it is not this machine's."""
    clock = SkippingClock()
    zone = timezone(timedelta(hours=5, minutes=30))
    time = next_time(floor=None, zone=TimelineZone(ZoneSource.GIVEN, zone, ""), clock=clock)
    assert abs(parse_instant_time(time, zone) / 1000 - clock.now()) < 5


def test_a_short_legacy_floor_counts_to_the_end_of_its_second() -> None:
    """Fourteen digits compare as if 999 were appended."""
    clock = SkippingClock()
    floor = at(clock, 0.0)[:14]
    assert next_time(floor=floor, zone=IN_UTC, clock=clock) > floor + "999"


# ------------------------------------------------------------------------------- where clocks are set forward and back

HOUR = 3600.0
COMMITS_EACH = 20 * 60.0

CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "America/New_York": ("2026-03-08T07:00", "2026-11-01T06:00"),
    "Australia/Lord_Howe": ("2026-10-03T15:30", "2026-04-04T15:00"),  # by half an hour
    "Atlantic/Azores": ("2026-03-29T01:00", "2026-10-25T01:00"),  # in summer it shows UTC
    "Antarctica/Troll": ("2026-03-29T01:00", "2026-10-25T01:00"),  # by two hours, and in winter it shows UTC
}


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def commit(zone: ZoneInfo, at: float) -> TimeSample:
    return TimeSample(format_instant_time(int(at * 1000), zone), at + 0.1)


@pytest.mark.parametrize("given", [None, "the offset", "the zone"])
@pytest.mark.parametrize("autumn", [0, 1])
@pytest.mark.parametrize("name", CHANGES)
def test_no_writer_commits_below_us_when_clocks_are_set(name: str, autumn: int, given: str | None) -> None:
    """Two days around each change of the year are tried, with writers before and after it, and each way to give the
    zone. Keeps 3 of protocol/times/instant_time."""
    zone, change = ZoneInfo(name), moment(CHANGES[name][autumn])
    start, end = change - 30 * HOUR, change + 30 * HOUR
    shown = {None: None, "the zone": name, "the offset": _offset(zone, start)}[given]
    commits = [commit(zone, start + n * COMMITS_EACH) for n in range(int((end - start) / COMMITS_EACH))]
    taken: list[tuple[float, str]] = []
    looks = [-27.0, -23.0, -12.0, *(n / 6 + 1 / 60 for n in range(-5 * 6, 8 * 6)), 12.0, 26.0]
    for now in (change + hours * HOUR for hours in looks):
        # Writers rest for some hours around the change, as at night; so what they wrote before it is all there is.
        known = [each for each in commits if each.modified < now and abs(each.modified - change) > 4 * HOUR]
        newest = sorted(known, key=lambda each: each.named, reverse=True)[:5]
        answer = resolve_zone("LOCAL", newest, given=shown, now=now)
        if answer.zone is None:
            continue
        try:
            floor = max(each.named for each in known)
            taken.append((now, next_time(floor=floor, zone=answer, clock=SettableClock(now))))
        except TryLater:
            continue
    sides = {math.copysign(1, at - change) for at, _ in taken}
    # An offset that is not the writers' any more disagrees with what they write.
    is_wrong = given == "the offset" and _offset(zone, start) != _offset(zone, end)
    assert sides >= ({-1} if is_wrong else {-1, 1}), "on both sides of the change there is time to work"
    for at, time in taken:
        below = [each.named for each in commits if each.modified > at + 1 and each.named <= time]
        assert not below, (at - change, time, below)


def _offset(zone: ZoneInfo, at: float) -> str:
    seconds = int(datetime.fromtimestamp(at, zone).utcoffset().total_seconds())  # type: ignore[union-attr]
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{abs(seconds) // 3600:02}:{abs(seconds) % 3600 // 60:02}"


def test_writers_in_utc_are_not_kept_waiting_by_the_azores() -> None:
    """When the Azores' clocks leave UTC, the next commit by UTC shows that the writers are elsewhere; a name does so
    at once."""
    change = moment("2026-10-25T01:00")
    before = [commit(ZoneInfo("UTC"), change - 60 - n) for n in range(5)]
    clock = SettableClock(change + 200)
    floor = before[0].named
    unknown = resolve_zone("LOCAL", before, given=None, now=clock.now())
    with pytest.raises(TryLater, match="Atlantic/Azores"):
        next_time(floor=floor, zone=unknown, clock=clock)
    after = [commit(ZoneInfo("UTC"), change + 150), *before[:4]]
    for samples, given in ((after, None), (before, "UTC")):
        known = resolve_zone("LOCAL", samples, given=given, now=clock.now())
        assert next_time(floor=floor, zone=known, clock=clock) > floor

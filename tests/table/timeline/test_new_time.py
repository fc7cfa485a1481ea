"""Without a zone a new time is the one after the greatest, unless the writers' clocks may show less than that again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from lakeward.base.errors import BrokenFile, Refused, TryLater
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.times.instant_time import MAX_CLOCK_SKEW_SECONDS, next_times
from lakeward.table.timeline import new_time
from lakeward.table.timeline.new_time import find_set_back, times_after
from lakeward.table.timeline.timezone import TimelineZone, TimeSample, ZoneSource, all_zones, resolve_zone
from tests.clocks import SettableClock, SkippingClock
from tests.runs import runs

HOUR = 3600.0
ANYWHERE = TimelineZone(ZoneSource.UNKNOWN, None, "")


def named(zone: tzinfo, at: float) -> str:
    return format_instant_time(round(at * 1000), zone)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("greatest", "after"),
    [
        ("20261121063705979", ["20261121063705980", "20261121063705981"]),
        ("20261231235959999", ["20270101000000000", "20270101000000001"]),
        ("20261121063705", ["20261121063706000", "20261121063706001"]),
        # Of metadata tables before Hudi 0.14.
        ("20261121063705979001", ["20261121063705980", "20261121063705981"]),
    ],
)
def test_a_new_time_comes_right_after_the_greatest(greatest: str, after: list[str]) -> None:
    """Keeps 1 of table/timeline/new_time."""
    assert times_after(greatest, 2) == after
    assert after[0] > greatest


def test_what_is_no_moment_has_none_after_it() -> None:
    """Hudi reserves some."""
    with pytest.raises(BrokenFile):
        times_after("00000000000000010", 1)


def test_the_skew_passes_all_the_same() -> None:
    """So never more milliseconds are minted than have passed."""
    clock = SkippingClock()
    times = next_times(3, floor="20260301120000000", zone=ANYWHERE, clock=clock)
    assert times == ["20260301120000001", "20260301120000002", "20260301120000003"]
    assert MAX_CLOCK_SKEW_SECONDS <= clock.slept < MAX_CLOCK_SKEW_SECONDS + 0.1


def test_an_instant_that_no_clock_shows_is_refused() -> None:
    """It is of 2099, or an hour more than what the easternmost clocks show; what is ahead by a second is waited for."""
    clock = SettableClock(moment("2026-11-21T06:00"))
    for greatest in ("20991231000000000", "20261121210000000"):
        with pytest.raises(Refused, match=r"^instant-in-future: ") as refused:
            next_times(1, floor=greatest, zone=ANYWHERE, clock=clock)
        assert greatest in refused.value.what and "`[defaults] timezone`" in refused.value.remedy
    assert next_times(1, floor="20261121200001000", zone=ANYWHERE, clock=clock) == ["20261121200001001"]
    assert clock.now() >= moment("2026-11-21T06:00") + 1


def test_a_table_of_two_zones_is_refused() -> None:
    """A writer in Berlin is ahead of one in UTC: by their names its instants come last, by their files' times not."""
    now = moment("2026-11-21T12:00")
    berlin = [TimeSample(named(ZoneInfo("Europe/Berlin"), now - after), now - after) for after in (600, 3000, 5400)]
    of_utc = [TimeSample(named(UTC, now - after), now - after) for after in (60, 1800)]
    samples = sorted([*berlin, *of_utc], key=lambda sample: sample.named, reverse=True)
    zone = resolve_zone("LOCAL", samples, given=None, now=now)
    assert zone.zone is None and "by its name" in zone.disorder
    with pytest.raises(Refused, match=r"^instants-out-of-order: ") as refused:
        next_times(1, floor=samples[0].named, zone=zone, clock=SettableClock(now))
    assert samples[0].named in refused.value.what and "`[defaults] timezone`" in refused.value.remedy


def test_two_offsets_that_no_zone_has_are_two_zones() -> None:
    """Though the order of the newest is right so far."""
    now = moment("2026-11-21T12:00")
    tokyo = TimeSample(named(ZoneInfo("Asia/Tokyo"), now - 60), now - 60)
    utc = TimeSample(named(UTC, now - 540), now - 540)
    zone = resolve_zone("LOCAL", [tokyo, utc], given=None, now=now)
    assert "one time zone nowhere" in zone.disorder
    assert resolve_zone("LOCAL", [tokyo, utc], given="Asia/Tokyo", now=now).disorder == ""


@pytest.mark.parametrize("seed", range(runs(20)))
def test_a_copy_is_in_no_disorder(seed: int) -> None:
    """Its files were written in any order, within a minute."""
    chance = random.Random(seed)
    now = moment("2026-11-21T12:00")
    names = [now - 30 * 86400 - chance.uniform(60, 7200) * n for n in range(6)]
    samples = [TimeSample(named(ZoneInfo("Asia/Tokyo"), at), now - chance.uniform(100, 160)) for at in names]
    assert resolve_zone("LOCAL", samples, given=None, now=now).disorder == "", seed


def test_a_copy_that_took_long_is_in_doubt() -> None:
    """Ten minutes apart, the other way round: that is no order in which to copy."""
    now = moment("2026-11-21T12:00")
    samples = [TimeSample(named(UTC, now - 90 * 86400 - 7 * n), now - 3600 + 600 * n) for n in range(3)]
    assert "by its name" in resolve_zone("LOCAL", samples, given=None, now=now).disorder


def test_without_a_database_a_young_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which zones set their clocks back is not known. Keeps 3 of table/timeline/new_time."""
    monkeypatch.setattr(new_time, "all_zones", lambda: ())
    now = moment("2026-11-21T12:00")
    assert find_set_back(ANYWHERE, named(UTC, now - HOUR), now) is not None
    assert find_set_back(ANYWHERE, named(UTC, now - 16 * HOUR), now) is None


CHANGES = (
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("Atlantic/Azores", "2026-10-25T01:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),  # by half an hour
    ("Antarctica/Troll", "2026-10-25T01:00"),  # by two hours
)


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_hours_around_a_set_back(name: str, change: str) -> None:
    """The greatest time is of ten minutes before the clocks go back: until they show it again, there is no new one."""
    zone, at = ZoneInfo(name), moment(change)
    here = TimelineZone(ZoneSource.UNKNOWN, None, "", (zone,))
    greatest = named(zone, at - 600)
    found = {minutes: find_set_back(here, greatest, at + minutes * 60) for minutes in range(-9, 200, 7)}
    for minutes, where in found.items():
        shows = named(zone, at + minutes * 60)
        is_repeated = minutes < 0 or shows <= greatest
        assert (where is not None) == is_repeated, (minutes, shows, where)
    given = resolve_zone("LOCAL", [], given="Africa/Lagos", now=at)
    assert given.zone is not None, "the key that is named helps"


@pytest.mark.parametrize("seed", range(runs(60)))
def test_no_writer_commits_below_a_new_time(seed: int) -> None:
    """Writers in one zone of the database or of an offset from -11 to +14, with services of Lakeward in between, on a
    table whose file times are gone. Whatever is minted, what the writers commit from then on is greater. Half of the
    runs are in the days around a set-back of their zone. Keeps 2 of table/timeline/new_time."""
    chance = random.Random(seed)
    zone: tzinfo = chance.choice(all_zones())
    start = moment("2026-01-01") + chance.uniform(0, 365 * 86400)
    if chance.random() < 0.5:
        name, change = chance.choice(CHANGES)
        zone, start = ZoneInfo(name), moment(change) - chance.uniform(0, 8 * HOUR)
    elif chance.random() < 0.5:
        zone = timezone(timedelta(hours=chance.randrange(-11, 15)))
    clock = SettableClock(start)
    greatest, last, outcomes = "", "", 0
    for _ in range(60):
        clock.sleep(chance.choice([1.0, 60.0, 900.0, chance.uniform(0, 2 * HOUR)]))
        if not greatest or chance.random() < 0.5:
            committed = named(zone, clock.now())
            assert committed > last, (seed, zone, committed, last)
            greatest = max(greatest, committed)
            continue
        outcomes += 1
        try:
            (last,) = next_times(1, floor=greatest, zone=ANYWHERE, clock=clock)
        except (Refused, TryLater):
            continue
        assert last > greatest
        greatest = last
    assert outcomes, seed

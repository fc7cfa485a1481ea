from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakeward.config.window import Window, longest_closed

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = Window.parse("Mon-Fri 22:00-06:00 Europe/Berlin")


def berlin(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("at", "is_open"),
    [
        ("2026-11-20 21:59:59", False),  # a Friday
        ("2026-11-20 22:00", True),
        ("2026-11-21 05:59:59", True),
        ("2026-11-21 06:00", False),
        ("2026-11-21 23:00", False),
        ("2026-11-23 03:00", False),  # a Monday: Sunday's night is none
        ("2026-11-23 22:00", True),
    ],
)
def test_over_midnight(at, is_open):
    """The days are those on which a window begins; it contains its begin and not its end."""
    assert NIGHTS.is_open(berlin(at)) is is_open


def test_opens_and_closes():
    """`opens_at` is now where it is open; `closes_at` is the end of that window."""
    inside, outside = berlin("2026-11-20 23:00"), berlin("2026-11-21 12:00")

    assert NIGHTS.opens_at(inside) == inside
    assert NIGHTS.closes_at(inside) == berlin("2026-11-21 06:00")
    assert NIGHTS.opens_at(outside) == berlin("2026-11-23 22:00")
    assert NIGHTS.closes_at(outside) == berlin("2026-11-24 06:00")


def test_zone_is_utc_where_none_is_given():
    """A window without a zone means UTC."""
    window = Window.parse("daily 01:00-05:00")

    assert window.opens_at(utc("2026-07-01 05:00")) == utc("2026-07-02 01:00")


@pytest.mark.parametrize(
    ("text", "begins_on"),
    [
        ("Sat 01:00-02:00", "Sat"),
        ("sat,SUN 01:00-02:00", "Sat Sun"),
        ("Fri-Mon 01:00-02:00", "Mon Fri Sat Sun"),
        ("Mon,Wed-Thu 01:00-02:00", "Mon Wed Thu"),
        ("daily 01:00-02:00", "Mon Tue Wed Thu Fri Sat Sun"),
    ],
)
def test_days(text, begins_on):
    """A day, a span of days that may go over the week's end, a list of those, or daily."""
    window = Window.parse(text)
    days = [utc(f"2026-11-{day} 01:30") for day in range(16, 23)]  # Monday to Sunday

    open_on = [datetime.fromtimestamp(at, UTC).strftime("%a") for at in days if window.is_open(at)]

    assert open_on == begins_on.split()


def test_whole_days():
    """A window up to 24:00, and one that ends where it begins, have no gap at midnight."""
    for text in ("daily 00:00-24:00", "daily 06:00-06:00"):
        window = Window.parse(text)
        now = utc("2026-11-20 12:00")
        assert all(window.is_open(now + hour * 3600) for hour in range(48))
        assert window.closes_at(now) > now + 7 * 86400


def test_clocks_go_forward():
    """A night on which the clocks skip an hour is an hour shorter; a begin that they skip comes late, an end early."""
    night = Window.parse("daily 22:00-06:00 Europe/Berlin")
    opens = night.opens_at(berlin("2027-03-27 12:00"))
    assert night.closes_at(opens) - opens == 7 * 3600

    skipped_begin = Window.parse("daily 02:30-05:00 Europe/Berlin")
    assert skipped_begin.opens_at(berlin("2027-03-28 00:00")) == berlin("2027-03-28 03:30")
    skipped_end = Window.parse("daily 01:00-02:30 Europe/Berlin")
    assert skipped_end.closes_at(berlin("2027-03-28 01:10")) == berlin("2027-03-28 01:30")
    skipped_whole = Window.parse("Sun 02:10-02:50 Europe/Berlin")
    assert skipped_whole.opens_at(berlin("2027-03-28 00:00")) == berlin("2027-04-04 02:10")


def test_clocks_go_back():
    """A night on which the clocks show an hour twice is an hour longer; the first is a begin and the second an end."""
    night = Window.parse("daily 22:00-06:00 Europe/Berlin")
    opens = night.opens_at(berlin("2026-10-24 12:00"))
    assert night.closes_at(opens) - opens == 9 * 3600

    begin = Window.parse("daily 02:30-05:00 Europe/Berlin")
    assert begin.opens_at(berlin("2026-10-25 00:00")) == berlin("2026-10-25 02:30", fold=0)
    end = Window.parse("daily 01:00-02:30 Europe/Berlin")
    assert end.closes_at(berlin("2026-10-25 01:10")) == berlin("2026-10-25 02:30", fold=1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "written like"),
        ("22:00-06:00", "written like"),
        ("Mon 22-6", "written like"),
        ("Mon 22:00-06:00 Europe/Berlin please", "written like"),
        ("Mond 22:00-06:00", "no day 'Mond'"),
        ("Mon-Fri-Sun 22:00-06:00", "no day 'Fri-Sun'"),
        ("Mon 25:00-26:00", "no time 25:00"),
        ("Mon 10:60-11:00", "no time 10:60"),
        ("Mon 24:00-02:00", "begins at 23:59"),
        ("Mon 22:00-06:00 Europe/Belrin", "no time zone 'Europe/Belrin'"),
        ("Mon 22:00-06:00 ../../etc/passwd", "no time zone"),
        ("Mon 22:00-06:00 Europe", "no time zone"),
    ],
)
def test_refused_texts(text, why):
    """What cannot be understood is refused with what would fit."""
    with pytest.raises(ValueError, match=why):
        Window.parse(text)


def test_agrees_with_the_wall_clock():
    """Away from changes of the clocks a window is open exactly when the wall clock says so. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    for _ in range(300):
        days = chance.sample(names, chance.randint(1, 7))
        begin, end = (chance.randrange(24 * 60) for _ in range(2))
        zone = ZoneInfo(chance.choice(("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe")))
        clock = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
        window = Window.parse(f"{','.join(days)} {clock} {zone.key}")
        at = utc("2026-01-01 00:00") + chance.randrange(366 * 86400)
        wall = datetime.fromtimestamp(at, zone)
        if len({(wall + timedelta(days=day)).utcoffset() for day in range(-2, 9)}) > 1:
            continue

        def says(wall: datetime, days: list[str] = days, begin: int = begin, end: int = end) -> bool:
            minute = wall.hour * 60 + wall.minute
            today, yesterday = names[wall.weekday()], names[wall.weekday() - 1]
            if begin < end:
                return today in days and begin <= minute < end
            return (today in days and minute >= begin) or (yesterday in days and minute < end)

        assert window.is_open(at) is says(wall)
        opens = window.opens_at(at)
        assert window.is_open(opens)
        assert opens == at or (not window.is_open(opens - 1) and not says(wall))
        closes = window.closes_at(at)
        assert closes > opens
        assert window.is_open(closes - 1)


@pytest.mark.parametrize(
    ("texts", "hours"),
    [
        ([], 0),
        (["daily 00:00-24:00"], 0),
        (["daily 22:00-06:00"], 16),
        (["daily 22:00-06:00 Europe/Berlin", "daily 12:00-13:00 Europe/Berlin"], 9),
        (["daily 00:00-12:00", "daily 12:00-24:00"], 0),
        (["Mon-Fri 22:00-06:00"], 64),
        (["Sun 05:00-06:00"], 167),
    ],
)
def test_for_how_long_all_are_closed(texts: list[str], hours: int) -> None:
    """The longest stretch of a week, over its end, too."""
    assert longest_closed([Window.parse(text) for text in texts]) == hours * 3600

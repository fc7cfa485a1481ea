"""Which moment a text means, and from which one on a table can be read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.scan.moment import EarliestMoment, GivenMoment, When, check_moment, earliest_moment, parse_when
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.timezone import TimelineZone, ZoneSource
from tests.synthetic_table import completed, file_group, minute, snapshot_of

BERLIN = TimelineZone(ZoneSource.GIVEN, ZoneInfo("Europe/Berlin"), "")
UNKNOWN = TimelineZone(ZoneSource.UNKNOWN, None, "The files are a copy.")
NOW = datetime(2026, 11, 28, 13, 0, tzinfo=UTC).timestamp()
"""14:00 in Berlin."""


@pytest.mark.parametrize(
    ("when", "instant"),
    [
        ("2026-11-28", "20261128000000000"),
        ("2026-11-28 14:00", "20261128140000000"),
        ("2026-07-01T12:00:00.123+00:00", "20260701140000123"),
        ("2026-11-28T12:00:00Z", "20261128130000000"),
        ("2 hours ago", "20261128120000000"),
        ("1 day ago", "20261127140000000"),
        ("90  Seconds ago", "20261128135830000"),
        ("yesterday", "20261127000000000"),
        ("today", "20261128000000000"),
        ("now", "20261128140000000"),
        (date(2026, 11, 28), "20261128000000000"),
        (datetime(2026, 11, 28, 14, 0, 0, 999_999), "20261128140000999"),
        (datetime(2026, 11, 28, 14, tzinfo=timezone(timedelta(hours=5))), "20261128100000000"),
    ],
)
def test_words_for_moments(when: When, instant: str) -> None:
    """Keeps 1 of scan/moment."""
    assert parse_when(when, BERLIN, now=NOW) == GivenMoment(instant)


def test_instants_are_taken_as_they_are() -> None:
    """Seconds, as of old commits, are all of the second; the zone does not matter."""
    assert parse_when("20261128140000123", UNKNOWN, now=NOW) == GivenMoment("20261128140000123", is_named=True)
    assert parse_when("20261128140000", UNKNOWN, now=NOW) == GivenMoment("20261128140000999", is_named=True)


@pytest.mark.parametrize("when", ["", "soon", "2026-13-01", "20261340000000000", "3 moons ago", "2026112814"])
def test_other_words_are_no_moment(when: str) -> None:
    with pytest.raises(UsageError, match=r"is no (moment|instant)[.:]"):
        parse_when(when, BERLIN, now=NOW)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("2026-13-01", ": there is no month 13.\n  2026-13-01\n       ^\n"),
        ("2026-02-30", ": the month has no day 30.\n  2026-02-30\n          ^\n"),
        ("2026-11-28 25:00", ": there is no hour 25.\n  2026-11-28 25:00\n             ^\n"),
        ("2026/11/28", ".\n  2026/11/28\n      ^\n"),
        ("3 hours", ": 'ago' is missing behind it.\n  3 hours\n         ^\n"),
        ("3 moons ago", ": its unit is not second, minute, hour, day or week.\n  3 moons ago\n    ^\n"),
        ("yesterda", ".\n  yesterda\n  ^\nDid you mean yesterday?"),
    ],
)
def test_a_slip_in_a_moment_has_carets(when: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_when(when, BERLIN, now=NOW)
    assert f"{when!r} is no moment{said}" in str(raised.value)


@pytest.mark.parametrize("when", ["2026-11-28", "yesterday", "2 hours ago", "2026-11-28T12:00Z"])
def test_a_zone_is_needed(when: str) -> None:
    """Keeps 1 of scan/moment: also a time with an offset must become one of the table's."""
    with pytest.raises(UsageError, match="The files are a copy") as caught:
        parse_when(when, UNKNOWN, now=NOW)
    assert "--timezone" in caught.value.remedy


def table(*minutes: int) -> TableSnapshot:
    """Commits at these minutes, each a slice of one group."""
    group = file_group("", "f1", base=(minute(minutes[-1]), 1), logs=())
    return snapshot_of(
        [group], [each for at in minutes for each in completed(minute(at), "deltacommit", minute(at + 1))]
    )


def check(asked: str, snapshot: TableSnapshot, earliest: str) -> None:
    moment = parse_when(asked, snapshot.zone, now=NOW)
    check_moment(moment, asked, snapshot.timeline, EarliestMoment(earliest, "Why."), newest="20261128140000000")


def test_an_instant_that_is_not_there_names_the_nearest() -> None:
    """Keeps 2 of scan/moment."""
    snapshot = table(10, 20, 30)
    for there in (minute(10), minute(21), minute(30)[:14], "2026-01-01 00:15"):
        check(there, snapshot, minute(10))
    with pytest.raises(UsageError) as caught:
        check(minute(15), snapshot, minute(10))
    assert str(caught.value) == (
        f"No completed commit has the instant {minute(15)}. The nearest are {minute(11)} and {minute(20)}. "
        "Name one of these; a moment between commits is given as a date and time."
    )
    with pytest.raises(UsageError, match=rf"The nearest is {minute(31)}\."):
        check(minute(99), snapshot, minute(10))
    with pytest.raises(UsageError, match=rf"2027-01-01 is yet to come. The newest instant is {minute(31)}\."):
        check("2027-01-01", snapshot, minute(10))


def test_a_moment_before_the_earliest_is_refused() -> None:
    """Keeps 3 of scan/moment."""
    with pytest.raises(Refused) as caught:
        check(minute(10), table(10, 20, 30), minute(20))
    assert str(caught.value).startswith(
        f"The table cannot be read as of {minute(10)}: the earliest moment is {minute(20)}. Why."
    )
    with pytest.raises(UsageError, match="has no commit yet"):
        check_moment(GivenMoment(minute(1)), "x", snapshot_of([], []).timeline, None, newest=minute(2))


@pytest.mark.parametrize(
    ("cleans", "is_archived", "earliest"),
    [
        ((), False, minute(10)),
        ((), True, minute(10)),
        ((Clean(minute(35), True, minute(20)),), False, minute(20)),
        ((Clean(minute(35), True, minute(30)), Clean(minute(36), True, minute(20))), False, minute(30)),
        ((Clean(minute(35), True, ""),), False, minute(10)),
        ((Clean(minute(35), True, ""),), True, minute(35)),
        ((Clean(minute(35), False, ""),), False, minute(35)),
        ((Clean(minute(35), True, "", {"": (f"f1_0-0-0_{minute(10)}.parquet",)}),), False, minute(30)),
        ((Clean(minute(35), True, "", {"": (f"f2_0-0-0_{minute(10)}.parquet",)}),), False, minute(25)),
        ((Clean(minute(35), True, "", {"": (f"f3_0-0-0_{minute(10)}.parquet",)}),), False, minute(35)),
        ((Clean(minute(35), True, minute(20)), Clean(minute(36), True, "", undoes=minute(35))), False, minute(10)),
    ],
    ids=[
        "first commit",
        "what was not archived",
        "retained",
        "retained by an earlier clean",
        "deleted nothing",
        "of file versions, earlier ones archived",
        "pending, of file versions",
        "the slice after",
        "a group that was replaced",
        "a group that is gone",
        "undone",
    ],
)
def test_the_earliest_moment(cleans: tuple[Clean, ...], is_archived: bool, earliest: str) -> None:
    """Keeps 3 of scan/moment."""
    snapshot = snapshot_of(
        table(10, 20, 30).file_groups, table(10, 20, 30).timeline.instants, replaced={("", "f2"): minute(25)}
    )
    found = earliest_moment(snapshot, cleans, is_archived=is_archived)
    assert found is not None and found.instant == earliest
    assert earliest_moment(snapshot_of([], []), cleans, is_archived=is_archived) is None

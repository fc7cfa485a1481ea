"""Whose clock instants are in is known from the table, by the operator, or by the files; and never guessed."""

from __future__ import annotations

import datetime
import itertools

import pytest

from lakeward.base.errors import UsageError
from lakeward.format.properties_head import PropertiesHead
from lakeward.format.timeline.instant import Instant, State, format_instant_time
from lakeward.table.timeline import timezone
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timezone import (
    SavedProperties,
    TimeSample,
    ZoneSource,
    parse_zone,
    resolve_zone,
    saved_properties,
    shown_again,
)

NOON = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC).timestamp()


def samples(offset_hours: float, *, age: float = 60.0, late: float = 0.4, count: int = 3) -> list[TimeSample]:
    """Instants written `age` seconds before noon by a clock that is ahead of UTC, `late` seconds before their files."""
    zone = datetime.timezone(datetime.timedelta(hours=offset_hours))
    moments = [NOON - age - 10 * n for n in range(count)]
    return [TimeSample(format_instant_time(round((m - late) * 1000), zone), m) for m in moments]


def test_a_table_in_utc_needs_no_more() -> None:
    """`UTC` in the properties wins over whatever the files look like."""
    answer = resolve_zone("UTC", samples(5), given="Europe/Berlin", now=NOON)
    assert (answer.source, answer.zone) == (ZoneSource.TABLE, datetime.UTC)


@pytest.mark.parametrize("hours", [0, 2, -5, 5.5, 5.75, 14, -12])
def test_the_zone_shows_in_the_files(hours: float) -> None:
    """Name and file time of the newest instants are the zone's offset apart, to a quarter of an hour."""
    answer = resolve_zone("LOCAL", samples(hours), given=None, now=NOON)

    assert answer.source is ZoneSource.INFERRED
    assert answer.zone is not None
    assert answer.zone.utcoffset(None) == datetime.timedelta(hours=hours)


def test_given_zone_that_fits_is_taken() -> None:
    """A named zone is checked with the offset it had when the newest instant was written."""
    answer = resolve_zone("LOCAL", samples(2), given="Europe/Berlin", now=NOON)
    assert (answer.source, answer.name) == (ZoneSource.GIVEN, "Europe/Berlin")


def test_given_zone_that_does_not_fit_is_refused() -> None:
    """An operator's zone and the files must not disagree."""
    answer = resolve_zone("LOCAL", samples(2), given="UTC", now=NOON)
    assert (answer.source, answer.zone) == (ZoneSource.DISAGREES, None)
    assert "+02:00" in answer.why


def test_given_zone_stands_where_nothing_can_be_inferred() -> None:
    """The operator's word counts for a table without instants, and for one whose file times were lost in a copy."""
    copied = [TimeSample(sample.named, NOON) for sample in samples(0, age=40 * 86400)]
    for found in ([], copied):
        answer = resolve_zone("LOCAL", found, given="UTC", now=NOON)
        assert (answer.source, answer.zone) == (ZoneSource.GIVEN, datetime.UTC)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "no completed instant"),
        (samples(0, late=7 * 60), "no time zone apart"),
        (samples(0, late=20 * 3600), "no time zone apart"),
        (samples(0, count=1) + samples(1, count=1), "+00:00 and +01:00"),
        (samples(2, age=2 * 86400), "summer time"),
    ],
)
def test_what_cannot_be_inferred_is_unknown(found: list[TimeSample], why: str) -> None:
    """No instants, times between two zones, instants that disagree, or an offset older than a day: no answer.

    Keeps 1 and 3 of table/timeline/timezone.
    """
    answer = resolve_zone("LOCAL", found, given=None, now=NOON)
    assert (answer.source, answer.zone) == (ZoneSource.UNKNOWN, None)
    assert why in answer.why


def test_an_old_instant_in_utc_still_says_utc() -> None:
    """Only an offset that summer time could have changed goes stale."""
    assert resolve_zone("LOCAL", samples(0, age=90 * 86400), given=None, now=NOON).zone == datetime.UTC


def test_every_quarter_hour_is_met_to_within_two_minutes() -> None:
    """Files that lag their names by up to two minutes do not change the offset. One that no zone has is refused.

    Keeps 2 of table/timeline/timezone.
    """
    between = {-9.5, -2.5, 3.5, 4.5, 5.5, 5.75, 6.5, 8.75, 9.5, 10.5, 12.75}
    for quarter, late in itertools.product(range(-48, 57), (0.0, 119.0)):
        answer = resolve_zone("LOCAL", samples(quarter / 4, late=late), given=None, now=NOON)
        if quarter % 4 and quarter / 4 not in between:
            assert answer.zone is None and "no time zone" in answer.why
            continue
        assert answer.zone is not None, (quarter, late)
        assert answer.zone.utcoffset(None) == datetime.timedelta(minutes=15 * quarter)


@pytest.mark.parametrize("text", ["Europe/Nowhere", "", "../etc/passwd", "02:00"])
def test_what_is_no_zone_is_a_usage_error(text: str) -> None:
    """A zone that this machine does not know ends the command with exit code 2."""
    with pytest.raises(UsageError):
        parse_zone(text)


@pytest.mark.parametrize(("text", "minutes"), [("utc", 0), ("Z", 0), ("+02:00", 120), ("-0330", -210)])
def test_names_of_a_zone(text: str, minutes: int) -> None:
    """UTC and offsets are understood without a zone database."""
    assert parse_zone(text).utcoffset(None) == datetime.timedelta(minutes=minutes)


# ---------------------------------------------------------------------------------------- where clocks are set

EVE = datetime.datetime(2026, 10, 24, 12, tzinfo=datetime.UTC).timestamp()
"""13 hours before the clocks of Europe go back."""


def written(zone: datetime.tzinfo, *moments: float) -> list[TimeSample]:
    return [TimeSample(format_instant_time(round(m * 1000), zone), m + 0.4) for m in moments]


def test_an_offset_that_is_about_to_change_is_not_inferred() -> None:
    """+02:00 is Berlin's summer, too, and nothing in the table says that it is not; `--timezone` does.

    Keeps 3 of table/timeline/timezone.
    """
    samples_ = written(parse_zone("Africa/Johannesburg"), EVE - 60, EVE - 120)
    answer = resolve_zone("LOCAL", samples_, given=None, now=EVE)
    assert (answer.source, answer.zone) == (ZoneSource.UNKNOWN, None)
    assert "change within a day" in answer.why
    known = resolve_zone("LOCAL", samples_, given="Africa/Johannesburg", now=EVE)
    assert known.source is ZoneSource.GIVEN
    two_days_before = written(parse_zone("Africa/Johannesburg"), EVE - 2 * 86400)
    assert resolve_zone("LOCAL", two_days_before, given=None, now=EVE - 2 * 86400 + 60).source is ZoneSource.INFERRED


def test_a_zone_that_just_changed_is_known_by_what_is_written_since() -> None:
    """Instants from before and after are no offset, and a zone that is given must fit the newest of them."""
    change = EVE + 13 * 3600
    both = written(parse_zone("Europe/Berlin"), change + 600, change - 7200)
    assert resolve_zone("LOCAL", both, given=None, now=change + 700).source is ZoneSource.UNKNOWN
    assert resolve_zone("LOCAL", both, given="Europe/Paris", now=change + 700).source is ZoneSource.GIVEN
    assert resolve_zone("LOCAL", both, given="Africa/Johannesburg", now=change + 700).source is ZoneSource.DISAGREES


def test_the_hour_that_comes_twice_is_shown_again() -> None:
    """It is, before the clocks go back and where they may; not in the zone next door, nor when the hour is over.

    Keeps 6 of table/timeline/timezone.
    """
    change = EVE + 13 * 3600
    berlin = resolve_zone("LOCAL", [], given="Europe/Berlin", now=EVE)
    lagos = resolve_zone("LOCAL", [], given="Africa/Lagos", now=EVE)
    for hours, again in ((-1.1, False), (-0.9, True), (-0.01, True), (0.0, False), (1.1, False)):
        assert (shown_again(berlin, change + hours * 3600) is not None) == again, hours
        assert shown_again(lagos, change + hours * 3600) is None


@pytest.mark.parametrize("hours", [0, 2])
def test_without_a_database_nothing_is_inferred(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the zones that there are are unknown; the operator's word still counts."""
    monkeypatch.setattr(timezone, "all_zones", lambda: ())
    timezone._fitting.cache_clear()
    answer = resolve_zone("LOCAL", samples(hours), given=None, now=NOON)
    given = resolve_zone("LOCAL", samples(hours), given=f"+0{hours}:00", now=NOON)
    timezone._fitting.cache_clear()
    assert (answer.source, answer.zone) == (ZoneSource.UNKNOWN, None)
    assert "no time zone database" in answer.why
    assert given.source is ZoneSource.GIVEN


# ------------------------------------------------------------------- where files are copies: the properties' head

BERLIN = parse_zone("Europe/Berlin")
COPIED = [TimeSample(sample.named, NOON - 77) for sample in samples(2, age=40 * 86400)]
"""Instants of May, in files of today."""


def head_of(zone: datetime.tzinfo, moment: float = NOON - 50 * 86400, name: str = "CEST") -> PropertiesHead:
    shown = datetime.datetime.fromtimestamp(moment, zone)
    offset = shown.utcoffset()
    assert offset is not None
    return PropertiesHead(moment, shown.replace(tzinfo=None), round(offset.total_seconds()), name)


def saved(zone: datetime.tzinfo, moment: float = NOON - 50 * 86400, name: str = "CEST") -> SavedProperties:
    return SavedProperties(head_of(zone, moment, name), "20260512140000000")


def test_a_copied_table_says_its_zone_in_its_properties() -> None:
    """Keeps 4 of table/timeline/timezone: +02:00 then, in each zone that fits, and so it is now."""
    of_may = saved(parse_zone("Africa/Johannesburg"), NOON - 50 * 86400, "SAST")
    answer = resolve_zone("LOCAL", COPIED, given=None, now=NOON, saved=of_may)

    assert (answer.source, str(answer.zone)) == (ZoneSource.INFERRED, "UTC+02:00")
    assert BERLIN in answer.may_be, "the abbreviation proves nothing"
    assert [each.kind.value for each in answer.evidence] == ["file-times", "properties"]
    assert [each.offset for each in answer.evidence] == [None, "+02:00"]


@pytest.mark.parametrize(("name", "source"), [("UTC", ZoneSource.INFERRED), ("GMT", ZoneSource.UNKNOWN)])
def test_only_utc_is_never_another_zone(name: str, source: ZoneSource) -> None:
    """Saved in winter at +00:00, asked in summer: London's clocks were set since, UTC's never are."""
    winter = saved(datetime.UTC, NOON - 170 * 86400, name)
    answer = resolve_zone("LOCAL", COPIED, given=None, now=NOON, saved=winter)
    assert answer.source is source
    if name == "UTC":
        assert (answer.zone, answer.may_be) == (datetime.UTC, (datetime.UTC,))
    else:
        assert "were set since" in answer.why


def test_properties_that_no_writer_of_the_timeline_saved_do_not_count() -> None:
    """An upgrade from another zone, with a program of its own, says nothing about the writers."""
    timeline = Timeline((Instant("20260512140000000", "deltacommit", State.COMPLETED, "20260512140009000", ""),))
    moment = datetime.datetime(2026, 5, 12, 12, 0, 4, tzinfo=datetime.UTC).timestamp()
    by_writer = saved_properties(head_of(BERLIN, moment), timeline)
    by_other = saved_properties(head_of(parse_zone("Asia/Kolkata"), moment, "IST"), timeline)

    assert (by_writer.instant, by_other.instant) == ("20260512140000000", None)
    answer = resolve_zone("LOCAL", COPIED, given=None, now=NOON, saved=by_other)
    assert answer.source is ZoneSource.UNKNOWN
    assert answer.evidence[1].offset is None and "during no instant" in answer.evidence[1].says
    found = resolve_zone("LOCAL", samples(2), given=None, now=NOON, saved=by_other)
    assert found.source is ZoneSource.INFERRED


@pytest.mark.parametrize(
    ("found", "of_properties"),
    [
        (samples(2), saved(datetime.UTC, name="UTC")),
        (samples(0), saved(parse_zone("America/Chicago"), name="CDT")),
        # A file that is older than its instant: the clock that named it was another one.
        ([TimeSample("20260701115000000", NOON)], saved(parse_zone("America/Chicago"), name="CDT")),
    ],
    ids=["utc", "chicago", "copied"],
)
def test_evidence_that_contradicts_itself_is_refused(found: list[TimeSample], of_properties: SavedProperties) -> None:
    """Keeps 5 of table/timeline/timezone: neither file times nor properties are believed; the operator may say."""
    answer = resolve_zone("LOCAL", found, given=None, now=NOON, saved=of_properties)
    assert (answer.source, answer.zone, answer.may_be) == (ZoneSource.UNKNOWN, None, ())
    assert len(answer.evidence) == 2


def test_summer_and_winter_of_one_zone_do_not_contradict_each_other() -> None:
    """Properties of January at +01:00 and files of July at +02:00 are both Berlin's."""
    january = saved(BERLIN, NOON - 170 * 86400, "CET")
    answer = resolve_zone("LOCAL", samples(2), given=None, now=NOON, saved=january)
    assert answer.source is ZoneSource.INFERRED


def test_a_given_zone_stands_over_what_the_properties_say() -> None:
    """The operator knows of a writer that moved; what the properties say is still shown."""
    answer = resolve_zone("LOCAL", COPIED, given="UTC", now=NOON, saved=saved(BERLIN))
    assert (answer.source, len(answer.evidence)) == (ZoneSource.GIVEN, 2)

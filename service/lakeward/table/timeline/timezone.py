"""Whose clock the instant times are: the zone of a table's timeline.

`UTC` says it all. `LOCAL` means the zone of the writer, and nothing in the table names it. An operator may,
or it shows: the newest completed instant carries a local time in its name and was written at a known moment.
The two must not disagree, because an instant in the writers' future swallows what they commit until then.

    20261121063705979 in the name, file written 04:37:06 UTC: two hours ahead, so +02:00

A copy of a table has other file times. Then the head of `hoodie.properties` may show: it has one moment in UTC and in
the local time of the Java process that saved it. Any process may have, in whatever zone; so it counts only where an
instant was under way by that local time, as when its writer creates the table, upgrades it or adds to its metadata
table. Where both say something, they must not disagree either.

Many zones show the same offset, and some of them change it. So beside the zone in which we write stand all in which
the writers may be, and no instant of Lakeward is later than what any of their clocks shows from now on:

    t00 a writer in Berlin commits 02:40, summer time; t10 we infer +02:00; t20 the clocks go back; t30 we publish
    03:10 by +02:00; t40 the writer commits 02:20, winter time: below our base file, and no reader sees it.

Touches: the time zone database of the machine, or else the one of the package `tzdata`.
Keeps:   1. a result without a zone says why;
         2. an inferred offset is a multiple of 15 minutes, met to within two, and the same for the last few instants;
         3. an offset other than zero is not inferred from file times of yesterday, nor while any zone that shows it
            changes within a day: summer time may have ended since, or is about to;
         4. the head of the properties counts only where files' times are those of a copy, and then no offset is
            inferred unless every zone that fits shows it now and tomorrow as it did;
         5. where file times and the head contradict each other, there is no zone;
         6. a time that the clocks of the writers may show again is named (`shown_again`), also when an operator says in
            which zone they are; where only some of the zones in which they may be show it again, there is no zone.
See:     docs/decisions/0021-what-properties-tell-of-the-zone.md, docs/decisions/0092-instants-without-a-zone.md,
         `new_time` for what services do without a zone
"""

from __future__ import annotations

import datetime
import itertools
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache

from lakeward.base.errors import BrokenFile, UsageError
from lakeward.format.properties_head import PropertiesHead
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.table.timeline.timeline import Timeline

_STEP_SECONDS = 15 * 60
TOLERANCE_SECONDS = 2 * 60
EASTERNMOST = datetime.timezone(datetime.timedelta(hours=14))
"""Its clocks are ahead of all others on earth."""
WESTERNMOST = datetime.timezone(datetime.timedelta(hours=-12))
"""Its clocks are behind all others: nothing is older than it is by them."""
_OFFSET_SECONDS_MIN = -12 * 3600
_OFFSET_SECONDS_MAX = 14 * 3600
_SAMPLES = 5
_AGE_SECONDS_MAX = 24 * 3600
QUARTER_SECONDS = 15 * 60
"""Clocks are set back at a full quarter of an hour, UTC."""
SET_BACK_SECONDS_MAX = 3 * 3600
"""The most by which clocks are set back at once."""

_NO_DATABASE = "there is no time zone database on this machine to say where that may be"

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


class ZoneSource(StrEnum):
    TABLE = "table"
    GIVEN = "given"
    INFERRED = "inferred"
    UNKNOWN = "unknown"
    DISAGREES = "disagrees"


class EvidenceKind(StrEnum):
    FILE_TIMES = "file-times"
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class ZoneEvidence:
    kind: EvidenceKind
    offset: str | None
    """None where it shows no offset."""
    says: str


@dataclass(frozen=True, slots=True)
class TimelineZone:
    source: ZoneSource
    zone: datetime.tzinfo | None
    """The zone in which we write instants."""
    why: str
    may_be: tuple[datetime.tzinfo, ...] = ()
    """Every zone in which the writers may be, by what they wrote; empty where `zone` is all that can be. Where there is
    no zone, empty means anywhere."""
    evidence: tuple[ZoneEvidence, ...] = ()
    """What the table's files reveal, whether it was needed or not."""
    disorder: str = ""
    """What shows that the order of the newest times is not that in which they were written, where there is no zone;
    empty where nothing does."""
    asked_at: float = field(default=0.0, compare=False)
    """When this was asked, in seconds since the epoch."""

    @property
    def name(self) -> str | None:
        return None if self.zone is None else str(self.zone)

    @property
    def of_ages(self) -> datetime.tzinfo:
        """The zone by which nothing is taken for older than it is."""
        return self.zone or WESTERNMOST


@dataclass(frozen=True, slots=True)
class TimeSample:
    """One moment twice: as the name of a timeline file says it, and as the file system does."""

    named: str
    modified: float


@dataclass(frozen=True, slots=True)
class SavedProperties:
    """When `hoodie.properties` was saved, and by which clock."""

    head: PropertiesHead
    instant: str | None
    """One that was under way by that clock, so that its writer saved them; None where there is none."""

    @property
    def sample(self) -> TimeSample:
        return TimeSample(format_instant_time(_milliseconds(self.head), datetime.UTC), self.head.moment)

    @property
    def says(self) -> str:
        head = self.head
        saved = f"hoodie.properties was saved at {_format_offset(head.offset_seconds)} ({head.zone_name})"
        return f"{saved} {f'during instant {self.instant}' if self.instant else 'during no instant of the timeline'}"


def parse_zone(text: str) -> datetime.tzinfo:
    """`UTC`, `Europe/Berlin` or `+02:00`. Raises `UsageError`."""
    if text.upper() in ("UTC", "Z"):
        return datetime.UTC
    if match := _OFFSET.fullmatch(text):
        seconds = (int(match[2]) * 60 + int(match[3])) * 60
        return datetime.timezone(datetime.timedelta(seconds=-seconds if match[1] == "-" else seconds))
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"{text!r} is not a time zone.",
            why="It is neither UTC, an offset nor a name of the time zone database of this machine.",
            remedy="Give one such as UTC, +02:00 or Europe/Berlin.",
        ) from error


def newest_samples(timeline: Timeline, layout: int) -> tuple[TimeSample, ...]:
    """The last few completed instants by their names, and by their files' times, in the order of names, newest first.

    Layout 2 has the completion time in the name of the completed file. Layout 1 says only when an instant was
    requested, so there the requested file is the one whose age fits.
    """
    if layout >= 2:
        named = [(i.completion_time, timeline.modified[i.file_name]) for i in timeline.completed if i.completion_time]
    else:
        requested = {i.time: i.file_name for i in timeline.instants if i.state.value == "requested"}
        named = [(i.time, timeline.modified[requested[i.time]]) for i in timeline.completed if i.time in requested]
    samples = [TimeSample(name, modified) for name, modified in named if len(name) == 17]
    by_name = sorted(samples, key=lambda sample: sample.named, reverse=True)[:_SAMPLES]
    by_time = sorted(samples, key=lambda sample: sample.modified, reverse=True)[:_SAMPLES]
    return tuple(sorted({*by_name, *by_time}, key=lambda sample: (sample.named, sample.modified), reverse=True))


def saved_properties(head: PropertiesHead, timeline: Timeline) -> SavedProperties:
    """Look for a completed instant that was under way by the clock that saved the properties."""
    shown = _milliseconds(head)
    for instant in timeline.completed:
        try:
            begun = parse_instant_time(instant.time, datetime.UTC)
            done = parse_instant_time(instant.completion_time or instant.time, datetime.UTC)
        except BrokenFile:
            continue  # the made-up time of an initial build
        if begun - 1000 * TOLERANCE_SECONDS <= shown <= done + 1000 * TOLERANCE_SECONDS:
            return SavedProperties(head, instant.time)
    return SavedProperties(head, None)


def resolve_zone(
    setting: str,
    samples: Sequence[TimeSample],
    *,
    given: str | None,
    now: float,
    saved: SavedProperties | None = None,
) -> TimelineZone:
    """The zone of a timeline whose table says `setting`, where the operator says `given`."""
    if setting == "UTC":
        return TimelineZone(ZoneSource.TABLE, datetime.UTC, "hoodie.table.timeline.timezone is UTC")
    offsets, why = _offsets(samples)
    evidence: list[ZoneEvidence] = []
    if samples:
        offset = _format_offset(next(iter(offsets))) if len(offsets) == 1 else None
        evidence.append(ZoneEvidence(EvidenceKind.FILE_TIMES, offset, why))
    if saved is not None:
        offset = _format_offset(saved.head.offset_seconds) if saved.instant is not None else None
        evidence.append(ZoneEvidence(EvidenceKind.PROPERTIES, offset, saved.says))
    counts = saved if saved is not None and saved.instant is not None else None
    if given is not None:
        zone = _given(given, samples, offsets, counts)
    elif len(offsets) == 1:
        zone = _by_file_times(samples, next(iter(offsets)), why, now)
        if zone.source is ZoneSource.INFERRED and counts is not None and not _any_saved(zone.may_be, counts):
            zone = TimelineZone(ZoneSource.UNKNOWN, None, f"{why}, but {counts.says}")
    elif samples and not offsets and counts is not None:
        zone = _by_properties(counts, samples, why, now)
    else:
        zone = TimelineZone(ZoneSource.UNKNOWN, None, why, _fitting(tuple(samples)) if offsets else ())
    if zone.zone is not None and zone.may_be and (again := shown_again(zone, now)) is not None:
        ambiguous = f"{zone.why}, as in {again}, whose clocks show less than that now, or will within hours"
        zone = TimelineZone(ZoneSource.UNKNOWN, None, ambiguous, zone.may_be)
    disorder = "" if zone.zone is not None else _find_disorder(samples, offsets, why)
    return replace(zone, evidence=tuple(evidence), disorder=disorder, asked_at=now)


def _find_disorder(samples: Sequence[TimeSample], offsets: frozenset[int], written: str) -> str:
    """What shows that a greater time was written before a smaller one, or may have been: empty where nothing does.

    A copy's files may have been written in any order within minutes, and no zone is between their names and times."""
    for newer, older in itertools.combinations(samples, 2):
        reversed_by = older.modified - newer.modified
        if reversed_by <= 0 or newer.named == older.named:
            continue
        apart = (_offset_of(newer), _offset_of(older))
        if apart[0] != apart[1] if None not in apart else reversed_by > TOLERANCE_SECONDS:
            return (
                f"instant {older.named} is before {newer.named} by its name, and {reversed_by:.0f} s after it by its "
                "file's time"
            )
    if len(offsets) > 1 and not _fitting(tuple(samples)):
        return f"{written}, which is one time zone nowhere"
    return ""


def _by_file_times(samples: Sequence[TimeSample], offset: int, written: str, now: float) -> TimelineZone:
    """The zone where every file was written at this one offset."""
    if offset != 0 and now - samples[0].modified > _AGE_SECONDS_MAX:
        written = f"the newest instant was written at {_format_offset(offset)}"
        why = f"{written}, but over a day ago, and summer time may have ended"
        return TimelineZone(ZoneSource.UNKNOWN, None, why, _fitting(tuple(samples)))
    may_be = _fitting(tuple(samples))
    if not may_be:
        known = "no time zone of this machine's database shows that" if all_zones() else _NO_DATABASE
        return TimelineZone(ZoneSource.UNKNOWN, None, f"{written}, and {known}")
    if offset != 0 and (changing := _changing(may_be, samples[0].modified, now)) is not None:
        why = f"{written}, as in {changing}, where the clocks change within a day"
        return TimelineZone(ZoneSource.UNKNOWN, None, why, may_be)
    zone = datetime.UTC if offset == 0 else datetime.timezone(datetime.timedelta(seconds=offset))
    return TimelineZone(ZoneSource.INFERRED, zone, written, may_be)


def shown_again(zone: TimelineZone, now: float) -> datetime.tzinfo | None:
    """The zone in which the writers' clocks may show again, or still have to show, what a clock in `zone` shows now."""
    zone_of_names = zone.zone or datetime.UTC
    own = now + offset_at(zone_of_names, now)
    quarter = now - now % QUARTER_SECONDS
    moments = [
        now,
        *(quarter + after for after in range(QUARTER_SECONDS, SET_BACK_SECONDS_MAX + 1, QUARTER_SECONDS)),
    ]
    for each in (zone_of_names, *zone.may_be):
        if any(moment + offset_at(each, moment) < own for moment in moments):
            return each
    return None


def _by_properties(saved: SavedProperties, samples: Sequence[TimeSample], why: str, now: float) -> TimelineZone:
    """The zone where the files' times reveal none."""
    head = saved.head
    may_be = (datetime.UTC,) if head.is_utc else _fitting((saved.sample,))
    if not may_be:
        return TimelineZone(ZoneSource.UNKNOWN, None, f"{why}; {saved.says}, which is the time of no known zone")
    for sample in samples:
        try:
            moments = [parse_instant_time(sample.named, zone) / 1000 for zone in may_be]
        except BrokenFile:
            return TimelineZone(ZoneSource.UNKNOWN, None, why)
        if min(moments) > sample.modified + TOLERANCE_SECONDS:
            unlikely = f"{saved.says}, but then the file of instant {sample.named} is older than the instant"
            return TimelineZone(ZoneSource.UNKNOWN, None, unlikely)
    if (changing := _changing(may_be, head.moment, now)) is not None:
        changed = f"{why}; {saved.says}, as in {changing}, where the clocks were set since or will be within a day"
        return TimelineZone(ZoneSource.UNKNOWN, None, changed, may_be)
    offset = datetime.timedelta(seconds=head.offset_seconds)
    zone = datetime.timezone(offset) if offset else datetime.UTC
    return TimelineZone(ZoneSource.INFERRED, zone, f"{saved.says}; {why}, as in a copy", may_be)


def _any_saved(zones: Sequence[datetime.tzinfo], saved: SavedProperties) -> bool:
    """True when a clock in one of the zones may be the one that saved the properties."""
    moment = datetime.datetime.fromtimestamp(saved.head.moment, datetime.UTC)
    return any(
        _fits(zone, saved.sample) and (not saved.head.is_utc or moment.astimezone(zone).tzname() == "UTC")
        for zone in zones
    )


def _milliseconds(head: PropertiesHead) -> int:
    """What the clock showed, as if it had been in UTC."""
    return round(head.shown.replace(tzinfo=datetime.UTC).timestamp() * 1000)


def _given(
    given: str, samples: Sequence[TimeSample], offsets: frozenset[int], saved: SavedProperties | None
) -> TimelineZone:
    zone = parse_zone(given)
    if len(offsets) == 1 and not _fits(zone, samples[0]) and saved is not None and _any_saved([zone], saved):
        # The properties say so too: the files' times are those of a copy, by a tool that shifted all of them alike.
        return TimelineZone(ZoneSource.GIVEN, zone, f"given as {given}, and {saved.says}")
    # Where they were written at several offsets and no zone explains it, their files' times mean nothing.
    is_offset = _OFFSET.fullmatch(given) is not None
    may_be = _fitting(tuple(samples)) if len(offsets) > 1 or (offsets and is_offset) else ()
    if (len(offsets) == 1 or may_be) and not _fits(zone, samples[0]):
        written = " and ".join(_format_offset(offset) for offset in sorted(offsets))
        why = f"{given} was given, but the newest instants were written at {written}"
        return TimelineZone(ZoneSource.DISAGREES, None, why)
    # An offset says what the writers' clocks showed when it was written down; a name says when they change, too.
    return TimelineZone(ZoneSource.GIVEN, zone, f"given as {given}", may_be if is_offset else ())


def _offsets(samples: Sequence[TimeSample]) -> tuple[frozenset[int], str]:
    """Seconds ahead of UTC at which the instants were written; if that is not one offset, and why."""
    if not samples:
        return frozenset(), "there is no completed instant to infer it from"
    offsets: set[int] = set()
    for sample in samples:
        try:
            ahead = _ahead(sample)
        except BrokenFile as error:
            return frozenset(), str(error)
        if not _is_offset(ahead):
            moment = format_instant_time(round(sample.modified * 1000), datetime.UTC)
            return (
                frozenset(),
                f"instant time {sample.named} and its file's time {moment} (UTC) are no time zone apart",
            )
        offsets.add(_rounded(ahead))
    written = " and ".join(_format_offset(offset) for offset in sorted(offsets))
    return frozenset(offsets), f"the newest instants were written at {written}"


def _offset_of(sample: TimeSample) -> int | None:
    """The offset at which a sample was written; None where its name and time are no zone apart."""
    try:
        ahead = _ahead(sample)
    except BrokenFile:
        return None
    return _rounded(ahead) if _is_offset(ahead) else None


def _rounded(ahead: float) -> int:
    return round(ahead / _STEP_SECONDS) * _STEP_SECONDS


def _is_offset(ahead: float) -> bool:
    offset = _rounded(ahead)
    return abs(ahead - offset) <= TOLERANCE_SECONDS and _OFFSET_SECONDS_MIN <= offset <= _OFFSET_SECONDS_MAX


@cache
def all_zones() -> tuple[datetime.tzinfo, ...]:
    """Loaded once in a process, in the order of their names, so that the same is named each time."""
    return tuple(zoneinfo.ZoneInfo(name) for name in sorted(zoneinfo.available_timezones()))


@lru_cache(maxsize=1024)
def _fitting(samples: tuple[TimeSample, ...]) -> tuple[datetime.tzinfo, ...]:
    """Every zone whose clocks showed all these names at these moments."""
    return tuple(zone for zone in all_zones() if all(_fits(zone, sample) for sample in samples))


def _changing(zones: Sequence[datetime.tzinfo], since: float, now: float) -> datetime.tzinfo | None:
    """The first of the zones whose offset at one of these moments, or within a day, is another one than it was."""
    for zone in zones:
        if len({offset_at(zone, moment) for moment in (since, now, now + _AGE_SECONDS_MAX)}) > 1:
            return zone
    return None


def _fits(zone: datetime.tzinfo, sample: TimeSample) -> bool:
    """True when a clock in `zone` showed that name at that moment, or just before it was set; asked only of names that
    are moments."""
    ahead = _ahead(sample)
    return any(
        abs(ahead - offset_at(zone, moment)) <= TOLERANCE_SECONDS
        for moment in (sample.modified, sample.modified - TOLERANCE_SECONDS)
    )


def _ahead(sample: TimeSample) -> float:
    """The seconds by which the clock that formatted the name was ahead of UTC. Raises `BrokenFile`."""
    return parse_instant_time(sample.named, datetime.UTC) / 1000 - sample.modified


def offset_at(zone: datetime.tzinfo, moment: float) -> float:
    offset = datetime.datetime.fromtimestamp(moment, zone).utcoffset()
    assert offset is not None, "a zone has an offset at every moment"
    return offset.total_seconds()


def _format_offset(offset: int) -> str:
    sign, seconds = ("-", -offset) if offset < 0 else ("+", offset)
    return f"{sign}{seconds // 3600:02}:{seconds % 3600 // 60:02}"

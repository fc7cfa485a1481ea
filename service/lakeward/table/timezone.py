"""Whose clock the instant times are: the zone of a table's timeline.

`UTC` says it all. `LOCAL` means the zone of whoever wrote, and nothing in the table names it. An operator may,
or it shows: the newest completed instant carries a local time in its name and was written at a known moment.
The two must not disagree, because an instant in the writers' future swallows what they commit until then.

    20261121063705979 in the name, file written 04:37:06 UTC: two hours ahead, so +02:00

Many zones show the same offset, and some of them change it. So beside the zone in which we spell stand all in which
the writers may be, and no instant of ours is later than what any of their clocks shows from now on:

    t00 a writer in Berlin commits 02:40, summer time; t10 we infer +02:00; t20 the clocks go back; t30 we publish
    03:10 by +02:00; t40 the writer commits 02:20, winter time: below our base file, and no reader sees it.

Touches: the time zone database of the machine, or else the one of the package `tzdata`.
Keeps:   1. an answer without a zone says why;
         2. an inferred offset is a multiple of 15 minutes, met to within two, and the same for the last few instants;
         3. an offset other than zero is not inferred from yesterday, nor while any zone that shows it changes within
            a day: summer time may have ended since, or is about to;
         4. a time that the clocks of the writers may show again is named (`shown_again`), whoever said in which zone
            they are.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from lakeward.errors import BrokenFile, UsageError
from lakeward.format.instant import format_instant_time, parse_instant_time
from lakeward.table.timeline import Timeline

_STEP_SECONDS = 15 * 60
_TOLERANCE_SECONDS = 2 * 60
_OFFSET_SECONDS_MIN = -12 * 3600
_OFFSET_SECONDS_MAX = 14 * 3600
_SAMPLES = 5
_AGE_SECONDS_MAX = 24 * 3600
_QUARTER_SECONDS = 15 * 60
"""Clocks are set back at a full quarter of an hour, UTC."""
_SET_BACK_SECONDS_MAX = 3 * 3600
"""By more than this no clock is set back at once."""

_NO_DATABASE = "there is no time zone database on this machine to say where that may be"

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


class ZoneSource(StrEnum):
    TABLE = "table"
    GIVEN = "given"
    INFERRED = "inferred"
    UNKNOWN = "unknown"
    DISAGREES = "disagrees"


@dataclass(frozen=True, slots=True)
class TimelineZone:
    source: ZoneSource
    zone: datetime.tzinfo | None
    """In which instants are spelled."""
    why: str
    may_be: tuple[datetime.tzinfo, ...] = ()
    """Every zone in which the writers may be, by what they wrote; empty where `zone` is all that can be."""

    @property
    def name(self) -> str | None:
        return None if self.zone is None else str(self.zone)


@dataclass(frozen=True, slots=True)
class TimeSample:
    """One moment twice: as the name of a timeline file spells it, and as the file system does."""

    named: str
    modified: float


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
    """The last few completed instants, newest first.

    Layout 2 spells the completion time in the completed file. Layout 1 spells only when an instant was
    requested, so there the requested file is the one whose age fits.
    """
    if layout >= 2:
        named = [(i.completion_time, timeline.modified[i.file_name]) for i in timeline.completed if i.completion_time]
    else:
        requested = {i.time: i.file_name for i in timeline.instants if i.state.value == "requested"}
        named = [(i.time, timeline.modified[requested[i.time]]) for i in timeline.completed if i.time in requested]
    samples = [TimeSample(name, modified) for name, modified in named if len(name) == 17]
    return tuple(sorted(samples, key=lambda sample: sample.named, reverse=True)[:_SAMPLES])


def resolve_zone(setting: str, samples: Sequence[TimeSample], *, given: str | None, now: float) -> TimelineZone:
    """The zone of a timeline whose table says `setting`, where the operator says `given`."""
    if setting == "UTC":
        return TimelineZone(ZoneSource.TABLE, datetime.UTC, "hoodie.table.timeline.timezone is UTC")
    offsets, why = _offsets(samples)
    if given is not None:
        return _given(given, samples, offsets)
    if len(offsets) != 1:
        return TimelineZone(ZoneSource.UNKNOWN, None, why)
    offset = next(iter(offsets))
    written = f"the newest instants were written at {_spell(offset)}"
    if offset != 0 and now - samples[0].modified > _AGE_SECONDS_MAX:
        why = f"the newest instant was written at {_spell(offset)}, but over a day ago, and summer time may have ended"
        return TimelineZone(ZoneSource.UNKNOWN, None, why)
    may_be = _fitting(tuple(samples))
    if not may_be:
        known = "no time zone of this machine's database shows that" if _all_zones() else _NO_DATABASE
        return TimelineZone(ZoneSource.UNKNOWN, None, f"{written}, and {known}")
    if offset != 0 and (changing := _changing(may_be, samples[0].modified, now)) is not None:
        why = f"{written}, as in {changing}, where the clocks change within a day"
        return TimelineZone(ZoneSource.UNKNOWN, None, why)
    zone = datetime.UTC if offset == 0 else datetime.timezone(datetime.timedelta(seconds=offset))
    return TimelineZone(ZoneSource.INFERRED, zone, written, may_be)


def shown_again(zone: TimelineZone, now: float) -> datetime.tzinfo | None:
    """The zone in which the writers' clocks may show again, or still have to show, what a clock in `zone` shows now."""
    spelled_in = zone.zone or datetime.UTC
    ours = now + _offset_at(spelled_in, now)
    quarter = now - now % _QUARTER_SECONDS
    moments = [
        now,
        *(quarter + after for after in range(_QUARTER_SECONDS, _SET_BACK_SECONDS_MAX + 1, _QUARTER_SECONDS)),
    ]
    for each in (spelled_in, *zone.may_be):
        if any(moment + _offset_at(each, moment) < ours for moment in moments):
            return each
    return None


def _given(given: str, samples: Sequence[TimeSample], offsets: frozenset[int]) -> TimelineZone:
    zone = parse_zone(given)
    # Where they were written at several offsets and no zone explains it, their files' times mean nothing.
    is_offset = _OFFSET.fullmatch(given) is not None
    may_be = _fitting(tuple(samples)) if len(offsets) > 1 or (offsets and is_offset) else ()
    if (len(offsets) == 1 or may_be) and not _fits(zone, samples[0]):
        spelled = " and ".join(_spell(offset) for offset in sorted(offsets))
        why = f"{given} was given, but the newest instants were written at {spelled}"
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
        offset = round(ahead / _STEP_SECONDS) * _STEP_SECONDS
        if abs(ahead - offset) > _TOLERANCE_SECONDS or not _OFFSET_SECONDS_MIN <= offset <= _OFFSET_SECONDS_MAX:
            moment = format_instant_time(round(sample.modified * 1000), datetime.UTC)
            return (
                frozenset(),
                f"instant time {sample.named} and its file's time {moment} (UTC) are no time zone apart",
            )
        offsets.add(offset)
    spelled = " and ".join(_spell(offset) for offset in sorted(offsets))
    return frozenset(offsets), f"the newest instants were written at {spelled}"


@cache
def _all_zones() -> tuple[datetime.tzinfo, ...]:
    """Loaded once in a process, in the order of their names, so that the same is named each time."""
    return tuple(zoneinfo.ZoneInfo(name) for name in sorted(zoneinfo.available_timezones()))


@lru_cache(maxsize=1024)
def _fitting(samples: tuple[TimeSample, ...]) -> tuple[datetime.tzinfo, ...]:
    """Every zone whose clocks showed all these names at these moments."""
    return tuple(zone for zone in _all_zones() if all(_fits(zone, sample) for sample in samples))


def _changing(zones: Sequence[datetime.tzinfo], since: float, now: float) -> datetime.tzinfo | None:
    """The first of the zones whose offset at one of these moments, or within a day, is another one than it was."""
    for zone in zones:
        if len({_offset_at(zone, moment) for moment in (since, now, now + _AGE_SECONDS_MAX)}) > 1:
            return zone
    return None


def _fits(zone: datetime.tzinfo, sample: TimeSample) -> bool:
    """True when a clock in `zone` showed that name at that moment, or just before it was set; asked only of names that
    are moments."""
    ahead = _ahead(sample)
    return any(
        abs(ahead - _offset_at(zone, moment)) <= _TOLERANCE_SECONDS
        for moment in (sample.modified, sample.modified - _TOLERANCE_SECONDS)
    )


def _ahead(sample: TimeSample) -> float:
    """By how much the clock that spelled the name was ahead of UTC. Raises `BrokenFile`."""
    return parse_instant_time(sample.named, datetime.UTC) / 1000 - sample.modified


def _offset_at(zone: datetime.tzinfo, moment: float) -> float:
    offset = datetime.datetime.fromtimestamp(moment, zone).utcoffset()
    assert offset is not None, "a zone has an offset at every moment"
    return offset.total_seconds()


def _spell(offset: int) -> str:
    sign, seconds = ("-", -offset) if offset < 0 else ("+", offset)
    return f"{sign}{seconds // 3600:02}:{seconds % 3600 // 60:02}"

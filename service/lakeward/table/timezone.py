"""Whose clock the instant times are: the zone of a table's timeline.

`UTC` says it all. `LOCAL` means the zone of whoever wrote, and nothing in the table names it. An operator may,
or it shows: the newest completed instant carries a local time in its name and was written at a known moment.
The two must not disagree, because an instant in the writers' future swallows what they commit until then.

    20261121063705979 in the name, file written 04:37:06 UTC: two hours ahead, so +02:00

Touches: nothing.
Keeps:   1. an answer without a zone says why;
         2. an inferred offset is a multiple of 15 minutes, met to within two, and the same for the last few instants;
         3. an offset other than zero is not inferred from yesterday: summer time may have ended since.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.errors import BrokenFile, UsageError
from lakeward.format.instant import format_instant_time, parse_instant_time
from lakeward.table.timeline import Timeline

_STEP_SECONDS = 15 * 60
_TOLERANCE_SECONDS = 2 * 60
_OFFSET_SECONDS_MIN = -12 * 3600
_OFFSET_SECONDS_MAX = 14 * 3600
_SAMPLES = 5
_AGE_SECONDS_MAX = 24 * 3600

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
    why: str

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
    offset, why = infer_offset(samples)
    if given is not None:
        zone = parse_zone(given)
        if offset is None or _fits(zone, samples[0]):
            return TimelineZone(ZoneSource.GIVEN, zone, f"given as {given}")
        return TimelineZone(
            ZoneSource.DISAGREES, None, f"{given} was given, but the newest instants were written at {_spell(offset)}"
        )
    if offset is None:
        return TimelineZone(ZoneSource.UNKNOWN, None, why)
    if offset != 0 and now - samples[0].modified > _AGE_SECONDS_MAX:
        why = f"the newest instant was written at {_spell(offset)}, but over a day ago, and summer time may have ended"
        return TimelineZone(ZoneSource.UNKNOWN, None, why)
    zone = datetime.UTC if offset == 0 else datetime.timezone(datetime.timedelta(seconds=offset))
    return TimelineZone(ZoneSource.INFERRED, zone, f"the newest instants were written at {_spell(offset)}")


def infer_offset(samples: Sequence[TimeSample]) -> tuple[int | None, str]:
    """Seconds ahead of UTC, or None, and why."""
    if not samples:
        return None, "there is no completed instant to infer it from"
    offsets: set[int] = set()
    for sample in samples:
        try:
            ahead = parse_instant_time(sample.named, datetime.UTC) / 1000 - sample.modified
        except BrokenFile as error:
            return None, str(error)
        offset = round(ahead / _STEP_SECONDS) * _STEP_SECONDS
        if abs(ahead - offset) > _TOLERANCE_SECONDS or not _OFFSET_SECONDS_MIN <= offset <= _OFFSET_SECONDS_MAX:
            moment = format_instant_time(round(sample.modified * 1000), datetime.UTC)
            return None, f"instant time {sample.named} and its file's time {moment} (UTC) are no time zone apart"
        offsets.add(offset)
    if len(offsets) > 1:
        return None, f"the newest instants were written at {' and '.join(_spell(o) for o in sorted(offsets))}"
    return offsets.pop(), ""


def _fits(zone: datetime.tzinfo, sample: TimeSample) -> bool:
    """True when a clock in `zone` showed that name at that moment; asked only of names that are moments."""
    return abs(parse_instant_time(sample.named, zone) / 1000 - sample.modified) <= _TOLERANCE_SECONDS


def _spell(offset: int) -> str:
    sign, seconds = ("-", -offset) if offset < 0 else ("+", offset)
    return f"{sign}{seconds // 3600:02}:{seconds % 3600 // 60:02}"

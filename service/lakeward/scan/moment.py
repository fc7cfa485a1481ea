"""Moments of a table: which instant a text means, and from which one on the table can still be read.

    "2026-11-28", "2026-11-28 14:00+01:00", "2 hours ago"    a moment, shown by the clock of the table's instants
    "20261128140000123"                                      an instant: one that a commit has, requested or completed

Hudi compares with the times at which commits were requested (`as.of.instant`), and so do moments here.

Touches: nothing.
Keeps:   1. a time without an offset is in the zone of the table's instants, and where that is not known it is an error;
         2. an instant that no commit has is an error that names the nearest; so is a moment that is yet to come, and
            one before the first commit;
         3. a moment before what cleans and the archiver left is refused with the earliest one that can be read.
Source:  HoodieSqlCommonUtils.formatQueryInstant, TimelineUtils.validateTimestampAsOf (Hudi 1.2.0)
See:     docs/decisions/0123-moments-of-a-table.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import BrokenFile, Refused, UsageError
from lakeward.base.place_in_text import pointed_at
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import (
    State,
    comparable_time,
    format_instant_time,
    is_before,
    parse_instant_time,
)
from lakeward.table.file_group import FileGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean, not_undone
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timezone import TimelineZone

When = str | date | datetime
"""A moment as it is asked for; from Python also as a date or a datetime."""

FORMS: Final = (
    "An instant of 17 or 14 digits, a date (2026-11-28), a date and time (2026-11-28 14:00, with an offset if need be: "
    "2026-11-28T14:00+01:00), '2 hours ago', 'yesterday' or 'now' is understood."
)
_DIGITS: Final = re.compile(r"[0-9]{14}([0-9]{3})?")
_WORDS: Final = ("yesterday", "today", "now", "earliest")
_PARTS: Final = (
    (r"([0-9]{4})", 1, 9999, "year"),
    (r"-([0-9]{2})", 1, 12, "month"),
    (r"-([0-9]{2})", 1, 31, "day"),
    (r"[T ]([0-9]{2})", 0, 23, "hour"),
    (r":([0-9]{2})", 0, 59, "minute"),
    (r":([0-9]{2})", 0, 59, "second"),
)
"""A date and time in their order: what each part is like, its least and its greatest, and its name."""
_AGO: Final = re.compile(r"(?P<number>[0-9]{1,6})\s+(?P<unit>second|minute|hour|day|week)s?\s+ago")


@dataclass(frozen=True, slots=True)
class GivenMoment:
    instant: str
    """17 digits."""
    is_named: bool = False
    """It was given as an instant, so a commit must have it."""


def parse_when(when: When, zone: TimelineZone, *, now: float) -> GivenMoment:
    """The moment that is meant. Raises `UsageError`."""
    if isinstance(when, str):
        text = when.strip()
        if _DIGITS.fullmatch(text):
            _check_digits(text)
            return GivenMoment(comparable_time(text), is_named=True)
        if (past := _ago(text.lower(), now)) is not None:
            return GivenMoment(_shown(past, when, zone))
        when = _from_words(text, zone, now)
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day)
    if when.tzinfo is None:
        when = when.replace(tzinfo=_known(zone, when).zone)
    return GivenMoment(_shown(when, when, zone))


def parse_seconds(when: When, zone: TimelineZone, *, now: float) -> float:
    """The same in seconds since the epoch."""
    known = _known(zone, when).zone
    assert known is not None, "it is known"
    return parse_instant_time(parse_when(when, zone, now=now).instant, known) / 1000


def _from_words(text: str, zone: TimelineZone, now: float) -> date:
    words = text.lower()
    if words in ("yesterday", "today"):
        today = datetime.fromtimestamp(now, _known(zone, text).zone).date()
        return today - timedelta(days=words == "yesterday")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        start, why = _slip(text)
        raise UsageError(
            f"{text!r} is no moment{why}.", why=pointed_at(text, start), remedy=did_you_mean(words, _WORDS) or FORMS
        ) from error


def _slip(text: str) -> tuple[int, str]:
    """The place from which on a text is no moment, and why, as far as that is seen."""
    if (number := re.match(r"[0-9]+\s+", text)) is not None:
        past = re.match(r"[0-9]+\s+(second|minute|hour|day|week)s?\b", text, re.IGNORECASE)
        if past is None:
            return number.end(), ": its unit is not second, minute, hour, day or week"
        return past.end(), ": 'ago' is missing behind it"
    begin = 0
    for shape, low, high, name in _PARTS:
        if (part := re.compile(shape).match(text, begin)) is None:
            return begin, ""
        if not low <= int(part[1]) <= high:
            return part.start(1), f": there is no {name} {part[1]}"
        begin = part.end()
        if name == "day" and begin == len(text):
            return part.start(1), f": the month has no day {part[1]}"
    return begin, ""


def _ago(words: str, now: float) -> datetime | None:
    if words == "now":
        return datetime.fromtimestamp(now, UTC)
    match = _AGO.fullmatch(words)
    if match is None:
        return None
    return datetime.fromtimestamp(now, UTC) - timedelta(**{f"{match['unit']}s": int(match["number"])})


def _shown(moment: datetime, asked: object, zone: TimelineZone) -> str:
    known = _known(zone, asked)
    assert known.zone is not None, "it is known"
    whole = moment.replace(microsecond=0)
    return format_instant_time(int(whole.timestamp()) * 1000 + moment.microsecond // 1000, known.zone)


def _known(zone: TimelineZone, asked: object) -> TimelineZone:
    if zone.zone is None:
        raise UsageError(
            f"{str(asked)!r} is no instant of this table as long as the zone of its instants is not known.",
            why=zone.why,
            remedy="Name the zone (--timezone, timezone=), or give an instant of 17 digits.",
        )
    return zone


def _check_digits(text: str) -> None:
    try:
        parse_instant_time(text, UTC)
    except BrokenFile as error:
        raise UsageError(f"{text} is no instant.", why=error.why, remedy=FORMS) from error


@dataclass(frozen=True, slots=True)
class EarliestMoment:
    """From when on all rows can still be read."""

    instant: str
    why: str


def earliest_moment(snapshot: TableSnapshot, cleans: Iterable[Clean], *, is_archived: bool) -> EarliestMoment | None:
    """None for a table without commits.

    Args:
        cleans: those of the active timeline.
        is_archived: there is something in the history.
    """
    timeline = snapshot.timeline
    start = timeline.first_active_write if is_archived else next((i.time for i in timeline.completed_writes), None)
    if start is None:
        return None
    why = "Older commits were archived." if is_archived else "It is the table's first commit."
    return max(
        (EarliestMoment(start, why), *_left_by(snapshot, tuple(not_undone(cleans)), is_archived=is_archived)),
        key=lambda each: comparable_time(each.instant),
    )


def _left_by(snapshot: TableSnapshot, cleans: tuple[Clean, ...], *, is_archived: bool) -> Iterator[EarliestMoment]:
    groups = {(group.partition_path, group.file_id): group for group in snapshot.file_groups}
    groups |= {
        (group.partition_path, group.file_id): group
        for group in snapshot.replaced_groups
        if isinstance(group, FileGroup)
    }
    for clean in cleans:
        why = f"Clean {clean.instant} deleted what older moments need."
        if clean.earliest_retained:
            yield EarliestMoment(clean.earliest_retained, why)
        elif not clean.is_completed:
            yield EarliestMoment(clean.instant, f"Clean {clean.instant} is under way.")
        else:
            for instant in _whole_again(clean, groups, snapshot.replaced):
                yield EarliestMoment(instant, why)
    if is_archived and cleans and not cleans[-1].earliest_retained:
        # By file versions a clean does not say from when on all is there, and older cleans were archived with commits.
        yield EarliestMoment(cleans[0].instant, "Older cleans were archived with what they deleted.")


def _whole_again(clean: Clean, groups: Mapping[GroupId, FileGroup], replaced: Mapping[GroupId, str]) -> Iterator[str]:
    """From when on each file group of which a clean took slices can be read: the slice after these, or when it was
    replaced."""
    for partition_path, names in clean.deleted.items():
        for name in names:
            if (parsed := parse_any_data_file(name, native=True)) is None:
                continue
            group_id = (partition_path, parsed.file_id)
            slices = groups[group_id].slices if group_id in groups else ()
            since = [each.base_instant for each in slices if is_before(parsed.instant, each.base_instant)]
            yield min(since, key=comparable_time, default=replaced.get(group_id, clean.instant))


def check_moment(
    moment: GivenMoment, asked: object, timeline: Timeline, earliest: EarliestMoment | None, *, newest: str
) -> None:
    """Raises `UsageError` for a moment that is none of the table's, and `Refused` for one that cannot be read any more.

    Args:
        newest: what the clock of the table's instants shows now.
    """
    if earliest is None:
        raise UsageError("The table has no commit yet.", remedy="Read it without a moment.")
    if is_before(moment.instant, earliest.instant):
        raise Refused(
            f"The table cannot be read as of {asked}: the earliest moment is {earliest.instant}.",
            why=earliest.why,
            remedy="Ask for a later moment. A cleaner that retains more commits leaves more moments.",
        )
    times = sorted(_times_of(timeline), key=comparable_time)
    if moment.is_named:
        if not any(comparable_time(time) == moment.instant or _is_second(time, moment) for time in times):
            near = _nearest(moment.instant, times)
            raise UsageError(
                f"No completed commit has the instant {asked}.",
                why=f"The nearest are {' and '.join(near)}." if len(near) > 1 else f"The nearest is {near[0]}.",
                remedy="Name one of these; a moment between commits is given as a date and time.",
            )
    elif is_before(newest, moment.instant):
        raise UsageError(
            f"{asked} is yet to come.", why=f"The newest instant is {times[-1]}.", remedy="Ask for an earlier moment."
        )


def _times_of(timeline: Timeline) -> Iterator[str]:
    for instant in timeline.instants:
        if instant.state is State.COMPLETED:
            yield instant.time
            if instant.completion_time:
                yield instant.completion_time


def _is_second(time: str, moment: GivenMoment) -> bool:
    """Whether the moment was given to the second, and the time lies within it."""
    return moment.instant.endswith("999") and time.startswith(moment.instant[:14])


def _nearest(instant: str, times: list[str]) -> list[str]:
    before = [time for time in times if is_before(time, instant)]
    after = [time for time in times if is_before(instant, time)]
    return [*before[-1:], *after[:1]]

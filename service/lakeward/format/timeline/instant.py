"""The names of timeline files: one file name in, one state of one instant out, and back.

    layout 1, .hoodie/            layout 2, .hoodie/timeline/
    <T>.<action>.requested        the same
    <T>.<action>.inflight         the same; of a commit simply <T>.inflight in both
    <T>.<action>                  <T>_<completion time>.<action>

Three pending actions change their name as they complete: compaction ends as commit, log compaction as deltacommit,
clustering as replacecommit. Times are digits, `yyyyMMddHHmmssSSS` in the zone of the writer, compared as text.

Touches: nothing.
Keeps:   1. a name is parsed only if it is formatted exactly as Hudi formats it, so `instant_file_name` gives it back;
         2. the temporary names of an unfinished write (final name and a uuid) are no timeline files.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import BrokenFile
from lakeward.base.quantities import format_duration


class State(StrEnum):
    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


_ALL_STATES = frozenset(State)
_PENDING_STATES = frozenset({State.REQUESTED, State.INFLIGHT})

# Hudi ignores every other combination. A savepoint is never requested.
_STATES_OF_ACTION = {
    "commit": _ALL_STATES,
    "deltacommit": _ALL_STATES,
    "replacecommit": _ALL_STATES,
    "clean": _ALL_STATES,
    "rollback": _ALL_STATES,
    "restore": _ALL_STATES,
    "indexing": _ALL_STATES,
    "schemacommit": _ALL_STATES,
    "savepoint": frozenset({State.INFLIGHT, State.COMPLETED}),
    "compaction": _PENDING_STATES,
    "logcompaction": _PENDING_STATES,
    "clustering": _PENDING_STATES,
}

_COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}

_FILE_NAME = re.compile(
    r"(?P<time>[0-9]+)(_(?P<completion_time>[0-9]+))?\.(?P<action>[a-z]+)(\.(?P<state>requested|inflight))?"
)
_COMMIT_INFLIGHT = re.compile(r"(?P<time>[0-9]+)\.inflight")

_SECONDS_LENGTH = len("yyyyMMddHHmmss")
_MILLISECONDS_LENGTH = len("yyyyMMddHHmmssSSS")
_MILLISECONDS_OF_LEGACY = "999"
"""Instants of Hudi before 0.10 end with the second; they count as the last of its milliseconds."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One state of one instant, as one file name describes it."""

    time: str
    action: str
    """The action in the name: compaction while pending, commit once completed."""
    state: State
    completion_time: str | None
    """The completion time, in layout 2 only; there too it may be missing from a completed file that an old release
    left."""
    file_name: str

    @property
    def comparable_action(self) -> str:
        """The same for every state of an instant."""
        return _COMPLETES_AS.get(self.action, self.action)


def parse_instant(file_name: str, layout: int) -> Instant | None:
    """What `file_name` says; None for what is no timeline file."""
    if match := _COMMIT_INFLIGHT.fullmatch(file_name):
        return Instant(match["time"], "commit", State.INFLIGHT, None, file_name)
    match = _FILE_NAME.fullmatch(file_name)
    if match is None:
        return None
    state = State(match["state"] or State.COMPLETED)
    if state not in _STATES_OF_ACTION.get(match["action"], ()) or (match["action"], state) == ("commit", "inflight"):
        return None
    if match["completion_time"] is not None and (layout == 1 or state is not State.COMPLETED):
        return None
    return Instant(match["time"], match["action"], state, match["completion_time"], file_name)


def instant_file_name(time: str, action: str, state: State, layout: int, completion_time: str | None = None) -> str:
    """The name of the file that puts an instant into `state`; `completion_time` for completed ones in layout 2."""
    has_completion_time = layout >= 2 and state is State.COMPLETED
    assert has_completion_time == (completion_time is not None), "exactly what layout 2 completes has the time of it"
    if action == "commit" and state is State.INFLIGHT:
        name = f"{time}.inflight"
    elif state is State.COMPLETED:
        name = f"{time}_{completion_time}.{action}" if has_completion_time else f"{time}.{action}"
    else:
        name = f"{time}.{action}.{state}"
    assert parse_instant(name, layout) is not None, f"{name} would not be read back"
    return name


def comparable_time(time: str) -> str:
    """`time` as text that compares with every other: legacy instants of 14 digits get their milliseconds."""
    return time + _MILLISECONDS_OF_LEGACY if len(time) == _SECONDS_LENGTH else time


def is_before(time: str, other: str) -> bool:
    """Whether one instant time is earlier than another, legacy ones of seconds among them."""
    return comparable_time(time) < comparable_time(other)


def format_instant_time(epoch_ms: int, zone: datetime.tzinfo) -> str:
    """The instant time of a moment, as a clock in `zone` shows it."""
    seconds, milliseconds = divmod(epoch_ms, 1000)
    local = datetime.datetime.fromtimestamp(seconds, zone)
    return (
        f"{local.year:04}{local.month:02}{local.day:02}"
        f"{local.hour:02}{local.minute:02}{local.second:02}{milliseconds:03}"
    )


def parse_instant_time(time: str, zone: datetime.tzinfo) -> int:
    """The moment, in milliseconds since the epoch, that a clock in `zone` shows as `time`.

    An hour that happens twice when summer time ends means its first time, as in Java. Raises `BrokenFile` for
    text that is no date, such as the instants that Hudi reserves (`00000000000001`).
    """
    digits = comparable_time(time)
    try:
        if len(digits) != _MILLISECONDS_LENGTH or not (digits.isascii() and digits.isdigit()):
            raise ValueError("It is not the digits of yyyyMMddHHmmssSSS.")
        local = datetime.datetime(
            int(digits[0:4]),
            int(digits[4:6]),
            int(digits[6:8]),
            int(digits[8:10]),
            int(digits[10:12]),
            int(digits[12:14]),
            tzinfo=zone,
        )
        return int(local.timestamp()) * 1000 + int(digits[14:17])
    except (ValueError, OverflowError) as error:
        raise BrokenFile(f"The instant {time!r} is no moment in time.", why=str(error)) from error


def format_age(time: str, now: float, zone: datetime.tzinfo | None) -> str:
    """` 3 h ago`; nothing where the zone is not known, or the instant is no moment.

    Args:
        now: seconds since the epoch.
    """
    if zone is None:
        return ""
    try:
        return f" {format_duration(max(0.0, now - parse_instant_time(time, zone) / 1000))} ago"
    except BrokenFile:  # one that Hudi reserves
        return ""

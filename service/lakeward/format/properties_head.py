"""When `hoodie.properties` was saved, and what the clock of its writer showed: the two comment lines at its head.

    #Properties saved on 2026-11-21T04:37:12.545116777Z    or "Updated at"; Hudi 0.15 to 1.2: the moment in UTC
    #Sat Nov 21 05:37:12 CET 2026                          java.util.Date: the same in the zone of the Java process

The abbreviation of a zone says little: "CST" is Chicago's, Havana's and Shanghai's. What counts is how far the second
line is ahead of the first. Only "UTC", which no other zone is called, and offsets ("GMT+05:30") say something of
their own; a head in which they say otherwise than the two times says nothing.

Touches: nothing.
Keeps:   lines that are not as above, or are no whole quarter of an hour apart to within a minute, say nothing.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

_LINES_BYTES_MAX = 256
_MOMENT = re.compile(
    r"#(?:Properties saved on|Updated at) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?:\d{3}|\d{6}|\d{9}))?Z"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SHOWN = re.compile(
    rf"#(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({'|'.join(_MONTHS)}) (\d\d) (\d\d:\d\d:\d\d) ([A-Za-z0-9+:\-]+) (\d{{4}})"
)
_OFFSET_NAME = re.compile(r"GMT([+-])(\d\d):(\d\d)")

_STEP_SECONDS = 15 * 60
_TOLERANCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class PropertiesHead:
    moment: float
    """Seconds since 1970."""
    shown: datetime.datetime
    """What the writer's clock showed, without a zone."""
    offset_seconds: int
    """How far ahead of UTC it was."""
    zone_name: str
    """The name that Java gives it: an abbreviation."""

    @property
    def is_utc(self) -> bool:
        """The writer's zone is UTC itself, and not one that happened to show the same time."""
        return self.zone_name == "UTC"


def parse_properties_head(data: bytes) -> PropertiesHead | None:
    """None where the file does not begin with both lines, or they prove nothing."""
    lines = data[:_LINES_BYTES_MAX].decode("iso-8859-1").splitlines()[:2]
    if len(lines) < 2:
        return None
    moment, shown = _MOMENT.fullmatch(lines[0]), _SHOWN.fullmatch(lines[1])
    if moment is None or shown is None:
        return None
    month = _MONTHS.index(shown[1]) + 1
    try:
        saved = datetime.datetime.fromisoformat(moment[1]).replace(tzinfo=datetime.UTC)
        local = datetime.datetime.fromisoformat(f"{shown[5]}-{month:02}-{shown[2]}T{shown[3]}")
    except ValueError:
        return None
    ahead = (local.replace(tzinfo=datetime.UTC) - saved).total_seconds()
    offset = round(ahead / _STEP_SECONDS) * _STEP_SECONDS
    if abs(ahead - offset) > _TOLERANCE_SECONDS or _named_offset(shown[4]) not in (None, offset):
        return None
    return PropertiesHead(saved.timestamp(), local, offset, shown[4])


def _named_offset(zone_name: str) -> int | None:
    """Seconds; None for abbreviations that several zones share."""
    if zone_name in ("UTC", "GMT"):
        return 0
    if match := _OFFSET_NAME.fullmatch(zone_name):
        seconds = (int(match[2]) * 60 + int(match[3])) * 60
        return -seconds if match[1] == "-" else seconds
    return None

"""The day or hour in a partition's path, by a pattern as Java writes it: `yyyy-MM-dd`, `yyyyMMdd/HH`.

    path                      pattern          is over at
    dt=2026-08-31             yyyy-MM-dd       2026-09-01 00:00
    region=eu/20260831/05     yyyyMMdd/HH      2026-08-31 06:00

The pattern is looked for in each run of as many folders, names of fields left out; where it fits none, or two that
differ, the path has no date.

Touches: nothing.
Keeps:   a path in which the date is not certain has none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from lakeward.base.errors import UsageError

_PARTS = {"yyyy": ("%Y", 4), "MM": ("%m", 2), "dd": ("%d", 2), "HH": ("%H", 2)}
_TOKEN = re.compile("|".join(_PARTS))


def check_pattern(pattern: str) -> None:
    """Raises `UsageError`."""
    rest = _TOKEN.sub("", pattern)
    if (
        any(pattern.count(part) != 1 for part in ("yyyy", "MM", "dd"))
        or pattern.count("HH") > 1
        or re.search("[A-Za-z%]", rest)
    ):
        raise UsageError(
            f"The date format {pattern!r} is not understood.",
            why="It has yyyy, MM and dd once each, HH at most once, and no other letters.",
            remedy="Write it like yyyy-MM-dd, yyyyMMdd or yyyy/MM/dd/HH; a slash means the next folder.",
        )


def end_of_path(path: str, pattern: str) -> float | None:
    """When what the path names was over, in UTC, in seconds since the epoch; None where that is not certain."""
    values = [folder.partition("=")[2] if "=" in folder else folder for folder in path.split("/")]
    folders = pattern.count("/") + 1
    found = {
        at
        for first in range(len(values) - folders + 1)
        if (at := _parsed("/".join(values[first : first + folders]), pattern)) is not None
    }
    if len(found) != 1:
        return None
    (begin,) = found
    return (begin + timedelta(hours=1 if "HH" in pattern else 24)).timestamp()


def _parsed(text: str, pattern: str) -> datetime | None:
    digits = _TOKEN.sub(lambda part: rf"\d{{{_PARTS[part[0]][1]}}}", re.escape(pattern).replace(r"\-", "-"))
    if re.fullmatch(digits, text) is None:
        return None
    try:
        return datetime.strptime(text, _TOKEN.sub(lambda part: _PARTS[part[0]][0], pattern)).replace(tzinfo=UTC)
    except ValueError:
        return None

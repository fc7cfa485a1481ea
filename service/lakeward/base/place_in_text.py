"""A place in a text that a person wrote, shown by carets below it.

    id ~ 'k1'
       ^

Touches: nothing.
Keeps:   the carets are below the place, whatever stands before it: wide characters, control characters, other lines.
"""

from __future__ import annotations

from unicodedata import combining, east_asian_width

_AROUND = 60
"""Characters that are shown before and behind the place, so that no terminal breaks the line."""


def pointed_at(text: str, start: int, end: int | None = None) -> str:
    """The line of the place, and below it carets.

    Args:
        end: behind the place; None for one character, or for the end of the text.
    """
    begin = text.rfind("\n", 0, start) + 1
    line = text[begin:].partition("\n")[0]
    start, end = start - begin, min(max(start + 1 if end is None else end, start + 1) - begin, len(line) + 1)
    first, last = max(start - _AROUND, 0), max(end, start + 1) + _AROUND
    before = ("…" if first else "") + _printable(line[first:start])
    place, behind = _printable(line[start:end]), _printable(line[end:last]) + ("…" if last < len(line) else "")
    return f"  {before}{place}{behind}\n  {' ' * _cells(before)}{'^' * max(_cells(place), 1)}"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def _cells(text: str) -> int:
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)

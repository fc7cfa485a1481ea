"""Patterns of dates as Joda-Time has them, by which Hudi reads and names the time of a partition.

    y, Y  year; yy: its last two digits, written only         M  month     d  day of the month     D  day of the year
    H     hour, 0 to 23        m  minute        s  second     S  fraction of a second
    Z, ZZ offset from UTC, read only            'text', ''    itself, and a quotation mark

As often as a letter stands, so many digits a number has at least. What is read must be in that form, with one digit or
two of a month, day, hour, minute and second; Joda reads more. Names of months and days, weeks and halves of days are
not known here.

Touches: nothing.
Keeps:   1. a text is what Joda-Time 2 makes of the moment, and a text that is read is read as it does;
         2. a pattern with a letter that is not known, and a text that is not in its form, are refused.
Source:  DateTimeFormat of Joda-Time 2, held against that in Hudi's bundle
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_ORDER: Final = "yMDdHmsS"
_FLOORS: Final = {"y": "year", "M": "month", "D": "day", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_YEAR_DIGITS: Final = 4
_MONTH_DIGITS: Final = 2
"""More letters stand for its name."""


@dataclass(frozen=True)
class JodaPattern:
    """Raises `ValueError` with the letter that is not known."""

    text: str

    def __post_init__(self) -> None:
        for letter, text in self._tokens:
            if letter and (letter not in f"{_ORDER}Z" or (letter == "M" and len(text) > _MONTH_DIGITS)):
                raise ValueError(text)

    @property
    def floor(self) -> str:
        """The unit, in Arrow's words, below which a moment may be cut without a change of its text."""
        letters = [letter for letter, _ in self._tokens if letter in _ORDER and letter]
        return _FLOORS.get(max(letters, key=_ORDER.index, default="y"), "millisecond")

    @property
    def has_offset(self) -> bool:
        return any(letter == "Z" for letter, _ in self._tokens)

    @property
    def can_be_read(self) -> bool:
        """It says the year, in four digits, and nothing twice."""
        letters = [letter for letter, _ in self._tokens if letter]
        years = [text for letter, text in self._tokens if letter == "y"]
        return (
            len({*letters}) == len(letters) and "D" not in letters and [len(year) for year in years] == [_YEAR_DIGITS]
        )

    def format(self, moment: datetime.datetime) -> str:
        """The text of a moment, whose fields are taken as they are."""
        return "".join(self._part(letter, len(text), moment) if letter else text for letter, text in self._tokens)

    def parse(self, text: str) -> datetime.datetime | None:
        """The moment, with its offset where the pattern has one; None where the text is not in this form."""
        found = self._read.fullmatch(text)
        if found is None:
            return None
        parts = found.groupdict()
        fraction = parts.get("S") or "0"
        offset = parts.get("Z")
        year, month, day = (int(parts.get(letter) or 1) for letter in "yMd")
        hour, minute, second = (int(parts.get(letter) or 0) for letter in "Hms")
        microsecond = int(fraction[:3].ljust(3, "0")) * 1000
        zone = None if offset is None else _offset(offset)
        try:
            return datetime.datetime(year, month, day, hour, minute, second, microsecond, zone)
        except ValueError:
            return None

    @cached_property
    def _tokens(self) -> tuple[tuple[str, str], ...]:
        """(letter, the letters as they stand) of each number, ("", text) of literal text."""
        tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise ValueError("'")
            at = found.end()
            if found[1] is not None:
                tokens.append(("", found[1].replace("''", "'") or "'"))
            else:
                tokens.append((found[2].replace("Y", "y") if found[2] else "", found[0]))
        return tuple(tokens)

    @cached_property
    def _read(self) -> re.Pattern[str]:
        return re.compile("".join(self._reader(letter, text) for letter, text in self._tokens), re.ASCII)

    def _reader(self, letter: str, text: str) -> str:
        match letter:
            case "":
                return re.escape(text)
            case "y":
                return rf"(?P<y>\d{{{_YEAR_DIGITS}}})"
            case "S":
                return rf"(?P<S>\d{{1,{len(text)}}}+)"
            case "Z":
                return r"(?P<Z>Z|[+-]\d\d:?\d\d)"
            case _:
                return rf"(?P<{letter}>\d{{1,2}}+)"

    def _part(self, letter: str, digits: int, moment: datetime.datetime) -> str:
        match letter:
            case "y":
                return f"{moment.year % 100:02d}" if digits == 2 else f"{moment.year:0{digits}d}"
            case "S":
                return f"{moment.microsecond // 1000:03d}".ljust(digits, "0")[:digits]
            case "D":
                return f"{moment.timetuple().tm_yday:0{digits}d}"
            case "Z":
                raise AssertionError("an offset is not written")
        names = {"M": moment.month, "d": moment.day, "H": moment.hour, "m": moment.minute, "s": moment.second}
        return f"{names[letter]:0{digits}d}"


def _offset(text: str) -> datetime.tzinfo:
    if text == "Z":
        return datetime.UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return datetime.timezone(datetime.timedelta(minutes=-minutes if text[0] == "-" else minutes))

"""How often readers scan a partition: what an operator says of it, else what was learned, or is assumed.

    planner.reads = "200/day"                                  each partition
    planner.reads = "<7d: 200/day, archive/*: 0/day, 1/day"    the first that fits: by the age of the day that the
                                                               path names, by a pattern, the rest

What the configuration says comes first. Partitions that it leaves out are asked of the table's property `PROPERTY`,
and then of what reads showed.

Nothing here depends on what was merged: a partition's age is that of the day in its path, and of no file.

Touches: nothing.
Keeps:   1. the first rule that fits a partition is its rate, and those of the configuration come first; what was
            learned counts where none fits.
See:     docs/decisions/0175-read-rates.md
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Protocol

from lakeward.base.errors import LakewardError, UsageError
from lakeward.base.quantities import DAY_SECONDS, parse_duration
from lakeward.table.table_config import PROPERTIES_FILE, TableConfig

READS_PER_DAY = 1.0
"""What is assumed of each partition where it is not given."""

PROPERTY = "lakeward.planner.reads"
"""A property of Lakeward's on the table: the same words as `planner.reads`."""

_UNITS_OF_DAY = {"minute": 1440.0, "hour": 24.0, "day": 1.0, "week": 1 / 7}
_YOUNGER = "<"
LEARNED_DAYS = "reads_learned_days"
_DAY = re.compile(
    r"(?:^|[/=])(\d{4})(?:(\d\d)(\d\d)|-(\d\d)-(\d\d)|/(?:[^/=]*=)?(\d{1,2})/(?:[^/=]*=)?(\d{1,2}))(?!\d)"
)


class RateSource(StrEnum):
    """The origin of a rate, as a number of the decisions that have it."""

    SAID = "reads_said"
    OF_PROPERTY = "reads_of_property"
    LEARNED = "reads_learned"
    ASSUMED = "reads_assumed"


@dataclass(frozen=True, slots=True)
class ReadRate:
    per_day: float
    source: RateSource
    reads: int = 1
    """Reads of the table that it was learned from."""
    days: int = 0
    """The days on which."""

    @property
    def per_second(self) -> float:
        return self.per_day / DAY_SECONDS

    @property
    def numbers(self) -> dict[str, int | float]:
        """What a decision says of it."""
        of_days: dict[str, int | float] = {LEARNED_DAYS: self.days} if self.source is RateSource.LEARNED else {}
        return {"reads_per_day": round(self.per_day, 3), self.source.value: self.reads, **of_days}


@dataclass(frozen=True, slots=True)
class RateRule:
    per_day: float
    pattern: str = "*"
    """Partition paths that it fits; `*` and `?` match as in a shell."""
    younger_than: float | None = None
    """Seconds since the day began that the path names; a path that names none never fits."""
    source: RateSource = RateSource.SAID

    def fits(self, partition_path: str, today: datetime.date) -> bool:
        if self.younger_than is None:
            return fnmatchcase(partition_path, self.pattern)
        day = day_in(partition_path)
        return day is not None and (today - day).days * DAY_SECONDS < self.younger_than


class Learned(Protocol):
    """What reads of the table showed (`learned_reads.py`)."""

    @property
    def reads(self) -> int: ...
    @property
    def days(self) -> int: ...
    def per_day(self, partition_path: str) -> float: ...


@dataclass(frozen=True, slots=True)
class ReadRates:
    rules: tuple[RateRule, ...] = ()
    learned: Learned | None = None
    """Asked where nothing is said."""

    @property
    def everywhere(self) -> float | None:
        """The rate of all partitions alike; None where rates differ, as those that were learned do."""
        if not self.rules:
            return READS_PER_DAY if self.learned is None else None
        first = self.rules[0]
        return first.per_day if first.pattern == "*" and first.younger_than is None else None

    def of(self, partition_path: str, today: datetime.date) -> ReadRate:
        for rule in self.rules:
            if rule.fits(partition_path, today):
                return ReadRate(rule.per_day, rule.source)
        if self.learned is not None:
            rate = self.learned.per_day(partition_path)
            return ReadRate(rate, RateSource.LEARNED, self.learned.reads, self.learned.days)
        return ReadRate(READS_PER_DAY, RateSource.ASSUMED)

    def on(self, table: TableConfig) -> ReadRates:
        """The same with what the table says of itself. Raises `UsageError`."""
        text = table.get(PROPERTY)
        if text is None:
            return self
        try:
            rules = parse_rates(text)
        except ValueError as error:
            raise UsageError(
                f"The table's property {PROPERTY} cannot be '{text}'.",
                why=str(error),
                remedy=f"Correct it in {PROPERTIES_FILE}, with a tool of Hudi's, or remove it there.",
            ) from error
        return replace(self, rules=(*self.rules, *(replace(rule, source=RateSource.OF_PROPERTY) for rule in rules)))


def parse_rates(text: str) -> tuple[RateRule, ...]:
    """From the words of an operator. Raises `ValueError`."""
    return tuple(_rule(part.strip()) for part in text.split(","))


def day_in(partition_path: str) -> datetime.date | None:
    """The day that a path names: `2026/11/21`, `2026-11-21` or `20261121`, with or without names of columns, and
    behind other columns, too; the first if there are several."""
    for found in _DAY.finditer(partition_path):
        year, month, day = (int(part) for part in found.groups() if part is not None)
        try:
            return datetime.date(year, month, day)
        except ValueError:
            continue
    return None


def _rule(text: str) -> RateRule:
    before, has_pattern, rate = text.rpartition(":")
    per_day, pattern = _per_day(rate), before.strip()
    if not has_pattern:
        return RateRule(per_day)
    if not pattern.startswith(_YOUNGER):
        if not pattern:
            raise ValueError(f"There is no partition before '{text}'. {_LIKE}")
        return RateRule(per_day, pattern)
    try:
        return RateRule(per_day, younger_than=parse_duration(pattern.removeprefix(_YOUNGER).strip()))
    except (LakewardError, ValueError) as error:
        raise ValueError(f"'{pattern}' is no age. {_LIKE}") from error


def _per_day(text: str) -> float:
    number, _, unit = text.partition("/")
    try:
        reads = float(number) * _UNITS_OF_DAY[unit.strip()]
    except (KeyError, ValueError):
        reads = math.nan
    if not 0 <= reads < math.inf:
        raise ValueError(f"'{text.strip()}' is no number with one of {', '.join(_UNITS_OF_DAY)}. {_LIKE}")
    return reads


_LIKE = "Write a rate, such as 200/day, or several; the first that fits counts: <7d: 200/day, a/*: 0/day, 1/day."

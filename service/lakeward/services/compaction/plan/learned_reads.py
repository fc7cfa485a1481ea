"""How often readers scan partitions, learned from reads that engines reported: counts of days in, rates out.

    rate of a partition = (reads of it and of the whole table, weighted, and what is assumed of one more day)
                          / (days, weighted, and that one)

A day weighs e^(-age / `AGE_DAYS`), so that what readers do now counts more than what they did. Only whole days count:
not today, nor the first one, on which reporting began at some hour.

A *read* is one (requester, application, partition, ten minutes), however many requests it takes. Requests are never
counted: they fall after each merge, and a planner that learned from them would run in circles.

Touches: nothing.
Keeps:   1. nothing is learned before a whole day was seen, nor where no read came for `SILENT_DAYS`.
See:     docs/decisions/0175-read-rates.md
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.read_rates import READS_PER_DAY

WHOLE_TABLE = "*"
"""In place of a partition's path: the read was of all of them."""
AGE_DAYS = 14.0
DAYS_MAX = 28
"""Days that are looked at."""
READ_AGE_SECONDS_MAX = DAY_SECONDS
"""How old a read may be that is counted: the store knows for longer which ones it has."""
OWN = "lakeward*"
SILENT_DAYS = 14
"""Without any read of the table for so long, who reports is taken to be silent."""


class CountedReads(Protocol):
    """The reads of a partition on a day."""

    @property
    def partition_path(self) -> str: ...
    @property
    def day(self) -> int:
        """Days since the epoch."""

    @property
    def reads(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LearnedReads:
    reads: int
    """Reads of the table that were counted."""
    days: int
    """The days on which."""
    weighted_days: float
    weighted_reads: Mapping[str, float] = field(repr=False)

    def per_day(self, partition_path: str) -> float:
        seen = self.weighted_reads.get(partition_path, 0.0) + self.weighted_reads.get(WHOLE_TABLE, 0.0)
        return (READS_PER_DAY + seen) / (1 + self.weighted_days)


def is_reader(requester: str, application: str, left_out: Iterable[str]) -> bool:
    """Whether reads of these names count.

    Args:
        left_out: patterns of the names of writers and services; Lakeward's own are among them.
    """
    names = requester.lower(), application.lower()
    return not any(fnmatchcase(name, pattern.lower()) for name in names for pattern in (OWN, *left_out))


def day_of_time(at: float) -> int:
    return math.floor(at / DAY_SECONDS)


def learn(counts: Iterable[CountedReads], *, today: int) -> LearnedReads | None:
    """None where there is too little to learn from.

    Args:
        counts: of one table, in any order.
        today: days since the epoch.
    """
    seen = [each for each in counts if today - DAYS_MAX <= each.day <= today]
    days = [each.day for each in seen]
    if not days or today - max(days) >= SILENT_DAYS:
        return None
    first = min(days) + 1
    if first >= today:
        return None
    weighted: dict[str, float] = defaultdict(float)
    reads = 0
    for each in seen:
        if first <= each.day < today:
            weighted[each.partition_path] += each.reads * _weight(today - each.day)
            reads += each.reads
    return LearnedReads(reads, today - first, sum(_weight(today - day) for day in range(first, today)), weighted)


def _weight(age: int) -> float:
    return math.exp(-age / AGE_DAYS)

"""Which partitions are looked at, as Hudi's clustering chooses them.

    recent     the newest by name: skip so many, take so many
    between    from one path to another, both among them, by name
    named      some paths, or those that match a pattern
    rolling    by name, each twenty-fourth, beginning with the hour of the day: all of them once a day

Touches: nothing.
Source:  ClusteringPlanPartitionFilter (Hudi 1.2)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_HOURS = 24


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """All partitions, if nothing else is said."""

    recent: int | None = None
    skipped: int = 0
    """With `recent`: so many of the newest are left out first."""
    begin: str | None = None
    end: str | None = None
    named: Collection[str] | None = None
    pattern: str | None = None
    """A regular expression that a path matches as it is, from beginning to end."""
    hour: int | None = None
    """The hour of the day, for a rolling choice."""

    def choose(self, paths: Collection[str]) -> frozenset[str]:
        chosen = sorted(
            path
            for path in paths
            if (self.named is None or path in self.named)
            and (self.pattern is None or re.fullmatch(self.pattern, path))
            and (self.begin is None or path >= self.begin)
            and (self.end is None or path <= self.end)
        )
        if self.recent is not None:
            chosen = chosen[::-1][self.skipped : self.skipped + self.recent]
        if self.hour is not None:
            chosen = chosen[self.hour :: _HOURS]
        return frozenset(chosen)


EVERY_PARTITION = PartitionFilter()

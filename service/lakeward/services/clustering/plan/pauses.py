"""How much a clustering takes on beside writers, where and when: by what came of the ones before.

    what came of it                           next time
    published                                 twice as many bytes
    a writer changed one of its file groups   half as many, and not in that partition for a while
    no pause of the writers was found         as many, after a while

A while is a minute at first, and twice as long each time in a row, up to an hour. A smaller clustering is sooner done,
so it fits into a shorter pause.

Touches: nothing.
Keeps:   1. a partition in which a writer was met is left out for a while, and it alone;
         2. each while ends, and after a clustering that was published nothing is left of those before, but for the
            partitions in which writers were met;
         3. the bytes of a clustering stay between 64 MiB and 32 GiB.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

BYTES_FIRST = 1024**3
BYTES_MIN = 64 * 1024**2
BYTES_MAX = 32 * 1024**3
WHILE_SECONDS = 60.0
WHILE_SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class _Met:
    times: int
    until: float


@dataclass(frozen=True, slots=True)
class WriterPauses:
    """What is known of a table's writers. Times are seconds since the epoch."""

    bytes_max: int = BYTES_FIRST
    given_up: int = 0
    """Clusterings in a row that were not published because of writers."""
    until: float = 0.0
    """None is begun before."""
    why: str = ""
    """What came of the last one, where it was given up."""
    met: Mapping[str, _Met] = field(default_factory=dict)

    def published(self) -> WriterPauses:
        return WriterPauses(min(self.bytes_max * 2, BYTES_MAX), met=self.met)

    def not_found(self, why: str, now: float) -> WriterPauses:
        """No pause of the writers came."""
        given_up = self.given_up + 1
        return replace(self, given_up=given_up, until=now + _while(given_up), why=why)

    def met_writer(self, partition: str | None, bytes_taken: int, why: str, now: float) -> WriterPauses:
        """A writer changed what was taken, in this partition; None: it is not known in which."""
        smaller = replace(self, bytes_max=max(BYTES_MIN, min(self.bytes_max, bytes_taken) // 2))
        if partition is None:
            return smaller.not_found(why, now)
        times = 1 if (before := self.met.get(partition)) is None else before.times + 1
        met = {**self.met, partition: _Met(times, now + _while(times))}
        return replace(smaller, given_up=self.given_up + 1, why=why, met=met)

    def free(self, partitions: Collection[str], now: float) -> frozenset[str]:
        """The partitions of these in which no writer was met lately."""
        return frozenset(path for path in partitions if path not in self.met or self.met[path].until <= now)

    def next_try(self, now: float) -> float | None:
        """When one of the whiles is over; None where all are."""
        times = (self.until, *(each.until for each in self.met.values()))
        return min((at for at in times if at > now), default=None)


def _while(times: int) -> float:
    return min(WHILE_SECONDS * 2.0 ** min(times - 1, 10), WHILE_SECONDS_MAX)

"""Who may run next: the order of those that wait, and what they share.

    order    1. jobs that waited longer than their floor, the longest first: none waits for ever
             2. recovery, which nothing else on its table can do without
             3. earliest deadline (oldest unmerged record + objective), then benefit per byte, then name
             4. verification
    shared   job slots, slots of a group of tables, memory permits, bytes per hour

A job that does not fit is passed by those behind it, because they may be smaller; one that waited longer than its floor
is not passed by any that takes what it waits for, or a large job would wait for ever among small ones.

Touches: nothing; time is handed in.
Keeps:   1. no more than `jobs_max` jobs run, and no more of a group than its limit;
         2. the memory of running jobs adds up to the limit at most, except that one may run alone that is larger;
         3. what runs holds its share until `end`, whatever happens to its table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lakeward.base.quantities import format_size, format_time
from lakeward.daemon.scheduling.job_traits import TRAITS
from lakeward.daemon.scheduling.schedule import Limits
from lakeward.protocol.job_kind import JobKind

_TOLERANCE = 1.0
"""Bytes. Filling is computed in floats; without it a bucket could stay a millionth of a byte short of full."""


class IoBudget:
    """A budget of bytes per hour: a bucket that holds an hour's worth, fills steadily and starts full.

    A job takes what it is predicted to read and write. One that needs more than the bucket holds runs when it is full
    and leaves a debt, so that over time no more than the budget is spent. A restart starts full again.
    """

    def __init__(self, per_hour: int | None) -> None:
        self._per_hour = per_hour
        self._level = float(per_hour or 0)
        self._level_at = 0.0

    def change(self, per_hour: int | None, now: float) -> None:
        """What was spent stays spent; a budget where there was none starts full."""
        self._fill(now)
        if per_hour is not None:
            spent = self._per_hour - self._level if self._per_hour is not None else 0.0
            self._level = per_hour - spent
        self._per_hour = per_hour

    def fits_at(self, need: int, now: float) -> float | None:
        """When that many bytes may be taken, now if they may; None: never, because nothing is ever left."""
        if self._per_hour is None or need == 0:
            return now
        if self._per_hour == 0:
            return None
        self._fill(now)
        missing = min(need, self._per_hour) - self._level
        return now if missing <= _TOLERANCE else now + missing * 3600 / self._per_hour

    def take(self, need: int, now: float) -> None:
        if self._per_hour is not None:
            self._fill(now)
            self._level -= need

    def _fill(self, now: float) -> None:
        if self._per_hour is not None:
            # A clock that was set back fills nothing; the next difference counts again.
            elapsed = max(0.0, now - self._level_at)
            self._level = min(float(self._per_hour), self._level + elapsed * self._per_hour / 3600)
        self._level_at = now


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that its table would let run now."""

    table: str
    group: str
    service: JobKind
    queued_at: float
    floor_at: float
    """The moment from which on it goes ahead of all that wait less long."""
    operations: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    memory_bytes: int = 0
    deadline: float = float("inf")
    benefit: float = 0.0

    @property
    def io_bytes(self) -> int:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class AdmissionObstacle:
    """What a candidate waits for."""

    text: str
    """Completes the sentence: It waits because ..."""
    at: float | None = None
    """When it goes away by itself; None: when a job ends."""
    holds_others: bool = True
    """It is shared by all, so one that waited too long for it is not passed."""


class Admission:
    def __init__(self, limits: Limits) -> None:
        self.retry_at: float | None = None
        """When one that waits for bytes may run although nothing else happened."""
        self._limits = limits
        self._budget = IoBudget(limits.io_per_hour)
        self._running: dict[str, Candidate] = {}
        self._memory = 0
        self._groups: dict[str, int] = {}

    def change(self, limits: Limits, now: float) -> None:
        """Running jobs go on, even where there are now more of them than the limits allow."""
        self._limits = limits
        self._budget.change(limits.io_per_hour, now)

    def admit(self, candidates: Collection[Candidate], now: float) -> Iterator[Candidate]:
        """Candidates that may run, in order; the caller calls `begin` for each before it asks for the next."""
        self.retry_at = None
        if not candidates or self._is_full():
            return
        held_back = False
        for candidate in in_order(candidates, now):
            takes_nothing = not candidate.memory_bytes and not candidate.io_bytes
            if held_back and not takes_nothing:
                continue
            obstacle = self.obstacle(candidate, now)
            if obstacle is None:
                yield candidate
                if self._is_full():
                    return
                continue
            if obstacle.at is not None:
                self.retry_at = obstacle.at if self.retry_at is None else min(self.retry_at, obstacle.at)
            held_back = held_back or (obstacle.holds_others and candidate.floor_at <= now)

    def obstacle(self, candidate: Candidate, now: float) -> AdmissionObstacle | None:
        """The first of the shared things that it does not fit into; None: it fits."""
        if self._is_full():
            return AdmissionObstacle(f"{len(self._running)} of {self._limits.jobs_max} jobs are running")
        in_group, group_max = self._groups.get(candidate.group, 0), self._limits.groups.get(candidate.group)
        if group_max is not None and in_group >= group_max:
            return AdmissionObstacle(
                f"{in_group} of {group_max} jobs of group {candidate.group} are running", None, False
            )
        if (
            self._memory
            and candidate.memory_bytes
            and self._memory + candidate.memory_bytes > self._limits.memory_bytes
        ):
            return AdmissionObstacle(
                f"it needs {format_size(candidate.memory_bytes)} of memory, and running jobs hold "
                f"{format_size(self._memory)} of {format_size(self._limits.memory_bytes)}"
            )
        fits_at = self._budget.fits_at(candidate.io_bytes, now)
        if fits_at is None or fits_at > now:
            when = "never" if fits_at is None else f"at {format_time(fits_at)}"
            return AdmissionObstacle(
                f"it reads and writes {format_size(candidate.io_bytes)}, which the budget of "
                f"{format_size(self._limits.io_per_hour or 0)} per hour has left {when}",
                fits_at,
            )
        return None

    def begin(self, job_id: str, candidate: Candidate, now: float) -> None:
        self._running[job_id] = candidate
        self._memory += candidate.memory_bytes
        self._groups[candidate.group] = self._groups.get(candidate.group, 0) + 1
        self._budget.take(candidate.io_bytes, now)

    def end(self, job_id: str) -> None:
        candidate = self._running.pop(job_id)
        self._memory -= candidate.memory_bytes
        self._groups[candidate.group] -= 1

    def _is_full(self) -> bool:
        return len(self._running) >= self._limits.jobs_max


def in_order(candidates: Collection[Candidate], now: float) -> list[Candidate]:
    """The queue, the next one first."""
    return sorted(candidates, key=lambda candidate: _place(candidate, now))


def _place(candidate: Candidate, now: float) -> tuple[bool, float, int, float, float, str]:
    floored = candidate.floor_at <= now
    return (
        not floored,
        candidate.queued_at if floored else 0.0,
        TRAITS[candidate.service].rank,
        candidate.deadline,
        -candidate.benefit / max(1, candidate.io_bytes),
        candidate.table,
    )

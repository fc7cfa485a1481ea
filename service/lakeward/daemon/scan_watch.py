"""Polls and plans that are under way, and how one of them is stopped: at its next question.

Touches: nothing. `guard` is called on the scan's thread, all else on the loop's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.base.errors import Cancelled
from lakeward.daemon.metrics.specs import WatchedStep


@dataclass(frozen=True, slots=True)
class ScanWatch:
    """One poll or plan."""

    table: str
    is_plan: bool
    stopped: list[str] = field(default_factory=list)

    def guard(self) -> None:
        """Raises `Cancelled` once the scan was stopped."""
        if self.stopped:
            raise Cancelled("The scan was stopped.", why=self.stopped[0], remedy="It is repeated.")


class Scans:
    """All of them, by the ids of their works."""

    def __init__(self) -> None:
        self._watches: dict[str, ScanWatch] = {}

    @property
    def are_any(self) -> bool:
        return bool(self._watches)

    def begin(self, work_id: str, table: str, *, is_plan: bool) -> ScanWatch:
        watch = self._watches[work_id] = ScanWatch(table, is_plan)
        return watch

    def end(self, work_id: str) -> None:
        """It has a result, or could not begin."""
        self._watches.pop(work_id, None)

    def stop(self, work_id: str, why: str) -> None:
        """Nothing happens where it has ended."""
        if (watch := self._watches.get(work_id)) is not None:
            watch.stopped.append(why)

    def stuck_step(self, table: str) -> WatchedStep:
        """What of the table was stopped and has not answered; its job, where no scan was."""
        watch = next((each for each in self._watches.values() if each.table == table and each.stopped), None)
        if watch is None:
            return WatchedStep.JOB
        return WatchedStep.PLAN if watch.is_plan else WatchedStep.POLL

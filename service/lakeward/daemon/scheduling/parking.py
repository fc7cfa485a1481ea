"""The file groups of one table that failed, and those that are excluded for a while because of it.

    counted --(failures_max in a row, or a failed verification)--> parked --(its time is over)--> counted, one try
       ^------------------ a job without it among the problems: forgotten ---------------------------+

Touches: nothing; time is handed in.
Keeps:   a group is parked with a reason and an end, and after the end one more failure parks it again.
"""

from __future__ import annotations

from collections.abc import Collection

from lakeward.daemon.scheduling.events import ParkedGroup
from lakeward.table.file_system_view import GroupId


class Parking:
    def __init__(self) -> None:
        self.parked: dict[GroupId, ParkedGroup] = {}
        self._failures: dict[GroupId, int] = {}

    def count(self, group: GroupId) -> int:
        """One more failure; returns how many in a row."""
        self._failures[group] = self._failures.get(group, 0) + 1
        return self._failures[group]

    def forgive_all_but(self, groups: Collection[GroupId]) -> None:
        """A job went well, apart from these."""
        self._failures = {group: count for group, count in self._failures.items() if group in groups}

    def park(self, group: GroupId, reason: str, until: float) -> None:
        self.parked[group] = ParkedGroup(group, reason, until)

    def unpark(self, group: GroupId) -> bool:
        """An operator's word: the group starts without blame. False where it was not parked."""
        self._failures.pop(group, None)
        return self.parked.pop(group, None) is not None

    def expire(self, now: float, *, failures_max: int) -> list[ParkedGroup]:
        """Let those go whose time is over, and return them."""
        over = [group for group in self.parked.values() if group.until <= now]
        for group in over:
            del self.parked[group.file_group]
            self._failures[group.file_group] = failures_max - 1
        return over

    def next_expiry(self) -> float | None:
        return min((group.until for group in self.parked.values()), default=None)

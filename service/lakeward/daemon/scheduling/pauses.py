"""The pauses that are in force: of tables, of groups of tables and of single file groups.

Touches: nothing; time is handed in.
Keeps:   1. a pause may name a table that is not known yet, and outlives one that is removed;
         2. a target has one pause, the one that was said last.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.table.file_system_view import GroupId


class ControlTargetKind(StrEnum):
    TABLE = "table"
    GROUP = "group"
    """A named group of tables."""
    FILE_GROUP = "file_group"


@dataclass(frozen=True, slots=True)
class ControlTarget:
    """What an operator speaks about."""

    kind: ControlTargetKind
    name: str
    """The table, or the group of tables."""
    file_group: GroupId | None = None

    def __str__(self) -> str:
        if self.file_group is not None:
            partition, file_id = self.file_group
            return f"file group {file_id} of partition '{partition}'"
        return "the table" if self.kind is ControlTargetKind.TABLE else f"group {self.name}"


@dataclass(frozen=True, slots=True)
class Control:
    """A pause or a cancellation; `id` is the store's."""

    id: str
    target: ControlTarget
    reason: str
    by: str = ""
    until: float | None = None


class Pauses:
    def __init__(self) -> None:
        self._of: dict[ControlTarget, Control] = {}
        self._file_groups: dict[str, dict[GroupId, ControlTarget]] = {}
        """Paused file groups by table, so that a table's are found without a scan of all."""

    def add(self, control: Control) -> None:
        target = control.target
        self._of[target] = control
        if target.file_group is not None:
            self._file_groups.setdefault(target.name, {})[target.file_group] = target

    def lift(self, target: ControlTarget) -> None:
        self._of.pop(target, None)
        if target.file_group is not None:
            groups = self._file_groups.get(target.name, {})
            groups.pop(target.file_group, None)
            if not groups:
                self._file_groups.pop(target.name, None)

    def expire(self, now: float) -> list[Control]:
        """Forget and return those whose time is over."""
        over = [pause for pause in self._of.values() if _end(pause) <= now]
        for pause in over:
            self.lift(pause.target)
        return over

    def next_expiry(self) -> float | None:
        return min((pause.until for pause in self._of.values() if pause.until is not None), default=None)

    def of_table(self, table: str, group: str) -> Control | None:
        """The pause that keeps the table from running, its own or its group's: the one that lasts longest."""
        if not self._of:
            return None
        targets = (ControlTarget(ControlTargetKind.TABLE, table), ControlTarget(ControlTargetKind.GROUP, group))
        return max((self._of[target] for target in targets if target in self._of), key=_end, default=None)

    def file_groups(self, table: str) -> tuple[GroupId, ...]:
        return tuple(self._file_groups.get(table, ()))


def _end(pause: Control) -> float:
    return float("inf") if pause.until is None else pause.until

"""Pauses, resumes and cancellations that operators left in the store, handed to the scheduler once each.

Operators speak through the store, so what they said holds across restarts and for every daemon. The registry compares
what the store says now with what it said before, and finds the words again that a table needs to hear that comes later.

A cancellation stands in the store until a daemon ended it: the one that services its target, at once; or else any, when
every daemon has had the time to read it.

Touches: nothing.
Keeps:   a cancellation is handed on once and stops what runs then; it never keeps anything from beginning later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakeward.daemon.scheduling.events import CancelRequested, Event, Paused, Resumed
from lakeward.daemon.scheduling.pauses import Control, ControlTarget, ControlTargetKind
from lakeward.state.records import ControlKind, ControlRecord
from lakeward.state.records import TargetKind as StoredTarget

CANCEL_TIMEOUT_SECONDS = 30.0
"""How long a cancellation waits for a daemon that can carry it out; each reads the store every few seconds."""

_KINDS = {
    StoredTarget.TABLE: ControlTargetKind.TABLE,
    StoredTarget.GROUP: ControlTargetKind.GROUP,
    StoredTarget.FILE_GROUP: ControlTargetKind.FILE_GROUP,
}

ForeignSeen = Callable[[ControlRecord], str | None]
"""The instant up to which a resume speaks of foreign services, in the time zone of its table."""


class ControlRegistry:
    def __init__(self, *, foreign_seen: ForeignSeen) -> None:
        self._foreign_seen = foreign_seen
        self._known: dict[int, ControlRecord] = {}
        self._cancels: dict[int, float] = {}
        """Cancellations in force that this daemon has not ended, and since when it knows of them."""
        self._ended: set[int] = set()
        """Cancellations that it has ended, while the store still shows them."""

    def update(self, controls: Sequence[ControlRecord], now: float) -> list[Event]:
        """What is new, as events."""
        current = {control.id: control for control in controls if control.id is not None}
        new = [control for id_, control in current.items() if id_ not in self._known]
        self._known = current
        self._ended &= current.keys()
        self._cancels = {
            id_: self._cancels.get(id_, now)
            for id_, control in current.items()
            if control.kind is ControlKind.CANCEL and id_ not in self._ended
        }
        return list(self._events(new))

    def cancels(self, now: float) -> list[tuple[ControlRecord, bool]]:
        """Cancellations to be carried out and ended, each with whether every daemon had the time to read it."""
        return [(self._known[id_], now - since >= CANCEL_TIMEOUT_SECONDS) for id_, since in self._cancels.items()]

    def end(self, control: ControlRecord) -> None:
        """Notes that a daemon carried a cancellation out, and the store is being updated."""
        if control.id is not None and self._cancels.pop(control.id, None) is not None:
            self._ended.add(control.id)

    def for_table(self, table: str, group: str) -> list[Event]:
        """What was said before about a table that is added now."""
        about = [
            control
            for control in self._known.values()
            if control.kind is not ControlKind.CANCEL
            and control.target == (group if control.target_kind is StoredTarget.GROUP else table)
        ]
        return list(self._events(about))

    def resumed_at(self, table: str) -> float | None:
        """When an operator last resumed the table itself; None: never, or it is forgotten."""
        times = [
            control.at
            for control in self._known.values()
            if control.kind is ControlKind.RESUME
            and control.target_kind is StoredTarget.TABLE
            and control.target == table
        ]
        return max(times, default=None)

    def _events(self, controls: Iterable[ControlRecord]) -> Iterable[Event]:
        for control in sorted(controls, key=lambda control: control.id or 0):
            if control.target_kind not in _KINDS:
                continue  # a job, which only its daemon can cancel
            target = ControlTarget(_KINDS[control.target_kind], control.target, control.file_group)
            control_given = Control(str(control.id), target, control.reason, control.by, control.until)
            match control.kind:
                case ControlKind.PAUSE:
                    yield Paused(control_given)
                case ControlKind.RESUME:
                    yield Resumed(target, self._foreign_seen(control))
                case ControlKind.CANCEL:
                    # `until` says how long the control waits for a reader; the scheduler would take it for a pause.
                    yield CancelRequested(Control(control_given.id, target, control.reason, control.by))

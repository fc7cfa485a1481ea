"""What operators said, as the store shows it, and what of it the daemon hears."""

from __future__ import annotations

from typing import Any

from lakeward.daemon.loop.control_registry import CANCEL_TIMEOUT_SECONDS, ControlRegistry
from lakeward.daemon.scheduling.events import CancelRequested, Paused, Resumed
from lakeward.daemon.scheduling.pauses import ControlTargetKind
from lakeward.state.records import ControlKind, ControlRecord
from lakeward.state.records import TargetKind as StoredTarget

NOW = 1_800_000_000.0


def control(id_: int, kind: ControlKind, target: str = "t", **changes: Any) -> ControlRecord:
    usual: dict[str, Any] = {"target_kind": StoredTarget.TABLE, "reason": "because", "by": "anna", "at": NOW}
    return ControlRecord(kind, target=target, id=id_, **(usual | changes))


def registry() -> ControlRegistry:
    return ControlRegistry(foreign_seen=lambda resume: "20270115000000000")


def test_each_word_is_shown_once_and_in_order() -> None:
    """The store shows a pause for as long as it holds; the scheduler hears of it when it is new."""
    controls = registry()
    pause, resume = control(1, ControlKind.PAUSE, until=NOW + 60), control(2, ControlKind.RESUME)

    first, second = controls.update([pause, resume], NOW)

    assert isinstance(first, Paused) and first.control.until == NOW + 60 and first.control.by == "anna"
    assert isinstance(second, Resumed) and second.foreign_seen_until == "20270115000000000"
    assert controls.update([pause, resume], NOW) == []


def test_a_file_group_and_a_group_are_targets_too() -> None:
    """Each kind of target of the store is one of the scheduler; a job is not, only its daemon knows it."""
    controls = registry()
    events = controls.update(
        [
            control(1, ControlKind.PAUSE, target_kind=StoredTarget.FILE_GROUP, file_group=("p", "f")),
            control(2, ControlKind.PAUSE, "g", target_kind=StoredTarget.GROUP),
            control(3, ControlKind.CANCEL, "j1", target_kind=StoredTarget.JOB),
        ],
        NOW,
    )
    targets = [event.control.target for event in events if isinstance(event, Paused)]
    assert [(target.kind, target.file_group) for target in targets] == [
        (ControlTargetKind.FILE_GROUP, ("p", "f")),
        (ControlTargetKind.GROUP, None),
    ]
    assert len(events) == 2


def test_a_cancellation_pauses_nothing() -> None:
    """Its expiry says how long it waits for a reader, and not that nothing may begin until then."""
    (event,) = registry().update([control(1, ControlKind.CANCEL, until=NOW + 3600)], NOW)

    assert isinstance(event, CancelRequested) and event.control.until is None


def test_a_cancellation_is_offered_until_a_daemon_ended_it() -> None:
    """At first only to whom it concerns, later to everybody; once ended it is not offered again, even while the
    store still shows it."""
    controls, demand = registry(), control(1, ControlKind.CANCEL)
    controls.update([demand], NOW)
    assert controls.cancels(NOW) == [(demand, False)]
    later = NOW + CANCEL_TIMEOUT_SECONDS
    controls.update([demand], later)
    assert controls.cancels(later) == [(demand, True)]

    controls.end(demand)

    controls.update([demand], later)
    assert controls.cancels(later) == []
    controls.update([], later)
    assert controls.cancels(later) == []


def test_a_table_that_comes_later_hears_what_was_said_of_it() -> None:
    """The controls for the table itself and for its group are handed on in order; not what was cancelled, and nothing
    for others."""
    controls = registry()
    controls.update(
        [
            control(1, ControlKind.PAUSE, "g", target_kind=StoredTarget.GROUP),
            control(2, ControlKind.PAUSE, "other"),
            control(3, ControlKind.CANCEL),
            control(4, ControlKind.RESUME),
            control(5, ControlKind.PAUSE, "t", target_kind=StoredTarget.GROUP),
        ],
        NOW,
    )

    assert [type(event) for event in controls.for_table("t", "g")] == [Paused, Resumed]


def test_when_a_table_was_resumed() -> None:
    """The answer is about the table itself, not about a file group of it; after a restart as well, since the store
    keeps the newest."""
    controls = registry()
    assert controls.resumed_at("t") is None
    controls.update(
        [
            control(1, ControlKind.RESUME, at=NOW - 5),
            control(2, ControlKind.RESUME, target_kind=StoredTarget.FILE_GROUP, file_group=("p", "f")),
        ],
        NOW,
    )
    assert controls.resumed_at("t") == NOW - 5

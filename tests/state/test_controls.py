"""Pauses, resumes, cancellations, and what is parked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeward.state.records import (
    ControlKind,
    ParkedRecord,
    TargetKind,
)
from lakeward.state.store import Store
from tests.state.state_records import NOW, pause


def test_controls_survive_a_restart_and_expire(store: Store, open_again: Callable[[], Store]) -> None:
    """They hold until their time, and in the store that another process opens next."""
    first = store.controls.add(pause(until=NOW + 60))
    second = store.controls.add(pause("orders", target_kind=TargetKind.FILE_GROUP, file_group=("", "fg1")))
    assert first < second
    assert [control.id for control in open_again().controls.in_force(NOW)] == [first, second]
    assert [control.file_group for control in store.controls.in_force(NOW + 61)] == [("", "fg1")]


def test_a_pause_replaces_the_one_before(store: Store) -> None:
    """Keeps 1 of state/controls: a later pause replaces that of the same target; a file group's is not its table's."""
    store.controls.add(pause(reason="first"))
    store.controls.add(pause(target_kind=TargetKind.FILE_GROUP, file_group=("p", "fg1"), reason="group"))
    store.controls.add(pause(reason="second"))
    store.controls.add(pause("orders", target_kind=TargetKind.GROUP, reason="a group of tables with that name"))
    assert {control.reason for control in store.controls.in_force(NOW)} == {
        "group",
        "second",
        "a group of tables with that name",
    }


def test_a_resume_ends_the_pause_and_unparks_what_is_parked(store: Store) -> None:
    """Keeps 2 of state/controls: the resume stays in force itself, because it is also the operator's word about what
    was seen before it."""
    store.controls.add(pause())
    store.controls.add(pause("other"))
    for group in (None, ("p", "fg1")):
        store.controls.park(ParkedRecord("orders", group, "failed", "too often", 5, NOW))
    store.controls.park(ParkedRecord("other", ("p", "fg1"), "failed", "too often", 5, NOW))
    store.controls.park(ParkedRecord("other", ("p", "fg2"), "failed", "too often", 5, NOW))

    store.controls.add(pause(kind=ControlKind.RESUME))
    again = store.controls.add(pause(kind=ControlKind.RESUME, at=NOW + 1))
    store.controls.add(
        pause("other", kind=ControlKind.RESUME, target_kind=TargetKind.FILE_GROUP, file_group=("p", "fg1"))
    )

    in_force = store.controls.in_force(NOW + 1)
    assert [(each.kind, each.target) for each in in_force] == [
        (ControlKind.PAUSE, "other"),
        (ControlKind.RESUME, "orders"),
        (ControlKind.RESUME, "other"),
    ]
    assert in_force[1].id == again
    # A file group stays parked when its table is resumed, as in the scheduler: it has a reason of its own.
    assert [(each.table, each.file_group) for each in store.controls.parked(NOW)] == [
        ("orders", ("p", "fg1")),
        ("other", ("p", "fg2")),
    ]


def test_a_cancel_waits_for_a_daemon(store: Store) -> None:
    """It is in force until a daemon has done it; the first outcome counts."""
    asked = store.controls.add(pause(kind=ControlKind.CANCEL))
    assert [control.kind for control in store.controls.in_force(NOW)] == [ControlKind.CANCEL]
    store.controls.end(asked, "cancelled job j1", at=NOW + 1)
    store.controls.end(asked, "too late", at=NOW + 2)
    assert store.controls.in_force(NOW) == ()


def test_what_is_parked_comes_back_by_itself(store: Store) -> None:
    """It comes back at its time; parking again replaces what was there."""
    parked = ParkedRecord("orders", ("", "fg1"), "failed", "five times", 5, NOW, NOW + 60)
    store.controls.park(replace(parked, reason="four times"))
    store.controls.park(parked)
    store.controls.park(replace(parked, file_group=None))
    assert store.controls.parked(NOW) == (replace(parked, file_group=None), parked)
    assert store.controls.parked(NOW + 61) == ()

    store.controls.unpark("orders")
    assert store.controls.parked(NOW) == (parked,)
    store.controls.park(replace(parked, file_group=None))
    store.controls.unpark("orders", ("", "fg1"))
    assert store.controls.parked(NOW) == (replace(parked, file_group=None),)

"""Who planned what is on the timeline, and when that means that we are not alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import State
from lakeward.table.timeline.service_instants import ServiceInstant, ServiceName, daemon_of, foreign_instants
from lakeward.table.watching.incremental_view import IncrementalView
from tests.clocks import SkippingClock
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden

US = ServiceName("lakeward", "store-1")
SINCE = 1000.0


def instant(action: str = "compaction", *, at: float = 2000.0, **planner: str | None) -> ServiceInstant:
    return ServiceInstant("20260101000000000", action, State.REQUESTED, at, **planner)  # type: ignore[arg-type]


OWN = {"planned_by": "lakeward", "planned_by_service": "lakeward", "planned_by_store": "store-1"}


@pytest.mark.parametrize(
    ("seen", "foreign"),
    [
        pytest.param(instant(), True, id="its planner is unknown"),
        pytest.param(instant(at=1.0), False, id="its planner is unknown, and it is history"),
        pytest.param(instant("logcompaction"), True, id="log compaction"),
        pytest.param(instant("clustering"), True, id="clustering"),
        pytest.param(instant("clean"), False, id="writers clean"),
        pytest.param(instant("rollback"), False, id="writers roll back"),
        pytest.param(instant(planned_by="lakeward"), False, id="our command line"),
        pytest.param(instant(**OWN), False, id="ourselves"),
        pytest.param(instant(**OWN | {"planned_by_service": "other"}), True, id="another service"),
        pytest.param(
            instant(at=999.0, **OWN | {"planned_by_service": "other"}), False, id="another service, in history"
        ),
        pytest.param(instant(**OWN | {"planned_by_store": "store-2"}), True, id="another store, while we watch"),
        pytest.param(instant(at=999.0, **OWN | {"planned_by_store": "store-2"}), False, id="our store before this one"),
        pytest.param(instant(**OWN | {"planned_by_store": None}), False, id="our service, no store said"),
        pytest.param(replace(instant(), is_readable=False), False, id="a plan that cannot be read"),
    ],
)
def test_foreign_or_not(seen: ServiceInstant, foreign: bool) -> None:
    """Only an instant that another service made, for certain, after we began calls for shadow mode; a table about
    whose writers nothing is said yet has history alone."""
    assert foreign_instants([seen], US, since=SINCE) == ((seen,) if foreign else ())
    assert foreign_instants([seen], US, since=None) == ()


def view_of(table: Path) -> tuple[IncrementalView, FaultyStorage]:
    storage = FaultyStorage()
    return IncrementalView(storage, str(table), timezone="UTC", clock=SkippingClock()), storage


def put_plan(table: Path, name: str, extra: dict[str, str], at: float) -> Path:
    file = table / ".hoodie" / "timeline" / name
    file.write_bytes(write_compaction_plan(CompactionPlan((), extra_metadata=extra)))
    os.utime(file, (at, at))
    return file


def test_plans_say_who_made_them_and_are_read_once(tmp_path: Path) -> None:
    """Pending and completed ones do; Hudi's own say nothing."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    put_plan(table, "20261121043800000.logcompaction.requested", {"planned_by": "lakeward"} | US.as_metadata(), 50.0)
    timeline = table / ".hoodie" / "timeline"
    (timeline / "20261121043900000.clean.requested").write_bytes(b"plan")
    view, storage = view_of(table)
    view.refresh()

    found = view.service_instants()

    assert [(i.action, i.state, i.planned_by) for i in found] == [
        ("compaction", State.REQUESTED, None),
        ("logcompaction", State.REQUESTED, "lakeward"),
        ("clean", State.REQUESTED, None),
    ]
    assert (found[1].planned_by_service, found[1].planned_by_store, found[1].requested_at) == (
        "lakeward",
        "store-1",
        50.0,
    )
    assert [i.action for i in foreign_instants(found, US, since=0.0)] == ["compaction"]
    before = len(storage.calls)
    assert view.service_instants() == found
    assert len(storage.calls) == before


def test_the_state_is_that_of_the_instant(tmp_path: Path) -> None:
    """A completed compaction still shows who planned it, as long as its plan is on the timeline."""
    table = copy_golden("v9", tmp_path / "table", pending=True)
    (table / ".hoodie/timeline/20261121043710038_20261121043800000.commit").write_bytes(b"x")
    view, _ = view_of(table)
    view.refresh()
    (found,) = view.service_instants()
    assert (found.action, found.state) == ("compaction", State.COMPLETED)


def test_a_torn_plan_is_of_no_service(tmp_path: Path) -> None:
    """It is read again, since it may be whole by then."""
    table = copy_golden("v9", tmp_path / "table")
    file = put_plan(table, "20261121043800000.compaction.requested", {"planned_by": "lakeward"}, 50.0)
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    view, _ = view_of(table)
    view.refresh()
    assert [i.is_readable for i in view.service_instants()] == [False]
    file.write_bytes(whole)
    assert [(i.is_readable, i.planned_by) for i in view.service_instants()] == [(True, "lakeward")]


def test_in_layout_1_a_replacecommit_may_be_a_clustering(tmp_path: Path) -> None:
    """It may also be an insert_overwrite, which is a write."""
    table = copy_golden("v6", tmp_path / "table")
    (table / ".hoodie" / "20261121043800000.replacecommit.requested").write_bytes(b"")
    view, _ = view_of(table)
    view.refresh()
    assert view.service_instants() == ()


def test_another_daemon_is_shown_by_process_host_and_store() -> None:
    """A plan says of which daemon it is; one of a release that did not say it, of which service."""
    said = ServiceName("nightly", "store-2", daemon_of(pid=16180, host="vm-7", store="postgresql://lw@db/lakeward"))
    them = instant(**{"planned_by": "lakeward", **said.as_metadata()})
    daemon = "process 16180 on vm-7, store postgresql://lw@db/lakeward"
    assert them.planner == f"another Lakeward (service nightly: {daemon})"
    before = instant(planned_by="lakeward", planned_by_service="nightly", planned_by_store="store-2")
    assert before.planner == "another Lakeward (service nightly)"

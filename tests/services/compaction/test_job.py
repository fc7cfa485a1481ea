"""Compaction as a service: what it remembers of a table from one job to the next plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobCost, JobReport, JobResult, ReadLoad
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction import job
from lakeward.services.compaction.job import MODEL_HOLDS, MODEL_IS_OFF, SERVICE, CompactionMemory
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.price import Price
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.service import Care, JobOrder
from lakeward.state.records import CostRecord
from tests.clocks import SettableClock
from tests.synthetic_table import file_group, minute, snapshot_of


def test_a_group_is_taken_whole_until_it_has_another_base() -> None:
    """What a compaction found in the logs of a slice holds for that slice, whatever comes into it."""
    memory = CompactionMemory()
    old, other = (file_group("p", f"{name}-0", base=(minute(10), 9), logs=[(minute(20), 1)]).slices[0] for name in "ab")
    memory.keep_whole({("p", "a-0")}, [old, other])
    assert memory.whole([old, other]) == {("p", "a-0")}
    new = file_group("p", "a-0", base=(minute(30), 9), logs=[]).slices[0]
    assert memory.whole([new, other]) == set()
    memory.keep_whole({("p", "b-0")}, [old, other])
    assert memory.whole([old, other]) == {("p", "a-0"), ("p", "b-0")}


DAY = 86400.0


@dataclass
class Table:
    clock: SettableClock = field(default_factory=lambda: SettableClock(2 * DAY))


def care(*costs: CostRecord, policy: str = "cost") -> Care[Planner]:
    rules = planner_of(CompactionType.HYBRID, GroupFilter(), {"planner.policy": policy})
    return Care(rules, CompactionMemory(), {}, lambda partitions: None, {}, True, costs)


def took(at: float, times: float) -> CostRecord:
    return CostRecord(
        str(at), "t", "compaction", "m", at, "committed", 1.0, predicted_seconds=2.0, cpu_seconds=2.0 * times
    )


def reasons_of(monkeypatch: pytest.MonkeyPatch, of: Care[Planner], times: float) -> tuple[str, ...]:
    """What a job says that ends two days after the epoch, and took so many times what was predicted."""
    load = ReadLoad()
    report = JobReport(JobResult.COMMITTED, cost=JobCost({}, load, load, 0.0, 2.0, 9.0, 2.0 * times))
    monkeypatch.setattr(job, "_DOES", {JobKind.COMPACTION: lambda *given: report})
    monkeypatch.setattr(job, "_compactor", lambda *given: None)
    order = cast(JobOrder, type("Order", (), {"kind": JobKind.COMPACTION}))
    return SERVICE.run(cast(ServicedTable, cast(Any, Table())), of, order).reasons


def test_a_job_says_when_the_model_begins_or_ends_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event says it, once: by the job that makes a whole day of jobs off, and by the first that is predicted well;
    never where the operator did not ask for what pays."""
    off = [took(hour * 3600.0, 4.0) for hour in range(24, 48)]
    assert reasons_of(monkeypatch, care(*off), 4.0) == (MODEL_IS_OFF,)
    assert reasons_of(monkeypatch, care(*off), 1.0) == ()
    assert reasons_of(monkeypatch, care(*off[1:]), 4.0) == ()
    assert reasons_of(monkeypatch, care(*off, policy="rfc-103"), 4.0) == ()
    day = [took(hour * 3600.0, 4.0) for hour in range(20, 48)]
    assert reasons_of(monkeypatch, care(*day), 4.0) == ()
    assert reasons_of(monkeypatch, care(*day), 1.1) == (MODEL_HOLDS,)


def test_a_plan_says_what_it_would_be_by_cost() -> None:
    """Operations and reasons are those of the policy that acts."""
    snapshot = snapshot_of([file_group("p", "a", base=(minute(0), 9), logs=[(minute(1), 9)])], [])
    acting = care(policy="rfc-103")
    alone, both = (SERVICE.plan(snapshot, minute(9), each) for each in (acting, replace(acting, shadow=care().rules)))
    assert both.operations == alone.operations and alone.operations
    (decision,) = both.decisions
    assert decision.reason is Reason.SMALL_BASE
    assert decision.numbers["by_cost_none"] == 1 and decision.numbers["by_cost_reads_per_day"] == 1
    assert alone.decisions[0].numbers.items() < decision.numbers.items()


def test_plans_are_made_at_the_price_of_the_tables_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its jobs took, which the daemon remembers across restarts, is what a plan predicts with."""
    costs = [took(hour * 3600.0, 2.0) for hour in range(20)]
    seen: list[Planner] = []
    monkeypatch.setattr(Planner, "__call__", lambda self, *given: seen.append(self))
    snapshot = cast(Any, type("Snapshot", (), {"latest_slices": ()}))
    said = care()
    said = replace(said, rules=said.rules.priced(Price(3.0)))
    for each in (care(), care(*costs), said):
        SERVICE.plan(snapshot, "0", each)
    assert [planner.options.price.factor for planner in seen] == [1.0, 2.0, 3.0]

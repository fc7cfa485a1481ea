"""What the policy `cost` would decide, beside what is decided."""

from __future__ import annotations

from dataclasses import replace

from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.compaction.plan.planner import planner_of, shadow_seconds_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.shadow import with_shadow
from tests.synthetic_table import file_group, minute, snapshot_of

MIB = 1024 * 1024


def test_what_is_done_is_what_it_was() -> None:
    """Keeps 1 of services/compaction/plan/shadow: choice, reason, operations and numbers, with what cost would choose
    beside them; and where neither may touch a group, nothing is beside."""
    groups = [
        file_group("p", "none", base=(minute(0), 64 * MIB), logs=[]),
        file_group("p", "pays", base=(minute(0), 512 * MIB), logs=[(minute(1), 4 * MIB), (minute(2), 4 * MIB)]),
        file_group("p", "small", base=(minute(0), MIB), logs=[(minute(1), MIB)]),
    ]
    snapshot = snapshot_of(groups, [])
    acting = planner_of(CompactionType.HYBRID, GroupFilter(), {})(snapshot, minute(600), {})
    settings = {"planner.policy": "cost", "planner.reads": "900/day"}
    by_cost = planner_of(CompactionType.HYBRID, GroupFilter(), settings)(snapshot, minute(600), {})
    assert [each.choice for each in acting.decisions] == [Choice.NONE, Choice.NONE, Choice.FULL]
    assert [each.choice for each in by_cost.decisions] == [Choice.NONE, Choice.FULL, Choice.FULL]
    found = with_shadow(acting, by_cost)
    assert found.operations == acting.operations
    for before, after in zip(acting.decisions, found.decisions, strict=True):
        assert replace(after, numbers=before.numbers) == before
        assert after.numbers.items() >= before.numbers.items()
    assert ["by_cost_full" in each.numbers for each in found.decisions] == [False, True, True]
    small = found.decisions[2]
    assert small.numbers["by_cost_full"] == 1 and small.numbers["by_cost_reads_per_day"] == 900
    assert "; the policy cost, which does not act yet, would choose FULL, as a merge pays back in" in explain(small)
    assert explain(small).startswith(explain(acting.decisions[2])[:-1])
    assert "by_cost" not in explain(acting.decisions[2]) and "cost" not in explain(acting.decisions[2])


def test_a_week_unless_the_operator_says_otherwise() -> None:
    assert shadow_seconds_of({}) == 7 * 86400
    assert shadow_seconds_of({"planner.shadow": "2d"}) == 2 * 86400
    assert shadow_seconds_of({"planner.shadow": "0"}) == 0

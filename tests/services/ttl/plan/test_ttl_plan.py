"""Which partitions expire: ages and a snapshot in, decisions out."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.services.ttl.plan.ttl_plan import TtlReason, plan_ttl
from lakeward.table.file_group import FrozenGroup
from tests.services.clustering.plan.test_pack_plan import groups_of, table
from tests.synthetic_table import minute

NOW = 1_000_000.0
OPTIONS = TtlOptions(keep=1000.0)


def planned(ages: dict[str, float | None], options: TtlOptions = OPTIONS, **held: Any) -> dict[str, TtlReason]:
    groups = [group for path in ages for group in groups_of([10], path)]
    excluded = held.pop("excluded", ())
    plan = plan_ttl(table(*groups, **held), ages, options, now=NOW, excluded=excluded)
    return {each.partition_path: each.reason for each in plan.decisions}


def test_by_age() -> None:
    """Keeps 2 of services/ttl/plan/ttl_plan: one whose age is just `keep`, or not known, stays."""
    ages = {"old": NOW - 1001, "just": NOW - 1000, "young": NOW - 1, "unknown": None, "future": NOW + 9}
    assert planned(ages) == {
        "old": TtlReason.EXPIRED,
        "just": TtlReason.YOUNG,
        "young": TtlReason.YOUNG,
        "unknown": TtlReason.UNKNOWN,
        "future": TtlReason.YOUNG,
    }


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ({"pending_compactions": {("p", "f001-0"): minute(9)}}, TtlReason.PENDING),
        ({"pending_log_compactions": {("p", "f001-0"): minute(9)}}, TtlReason.PENDING),
        ({"pending_clusterings": {("p", "f001-0"): minute(9)}}, TtlReason.PENDING),
        ({"savepointed": {minute(9): frozenset({"p/x.parquet"})}}, TtlReason.SAVEPOINT),
        ({"frozen": (FrozenGroup("p", "cold-0", minute(1), "nothing explains it"),)}, TtlReason.FROZEN),
        ({"excluded": {("p", "f001-0")}}, TtlReason.SET_ASIDE),
    ],
)
def test_what_names_a_partition_keeps_it(held: dict[str, Any], reason: TtlReason) -> None:
    """Keeps 1 of services/ttl/plan/ttl_plan. Others go."""
    assert planned({"p": 0.0, "q": 0.0}, **held) == {"p": reason, "q": TtlReason.EXPIRED}


def test_the_oldest_go_first() -> None:
    """Keeps 3 of services/ttl/plan/ttl_plan."""
    found = planned({"a": 3.0, "b": 1.0, "c": 2.0}, TtlOptions(keep=1.0, partitions_max=2))
    assert found == {"a": TtlReason.OVER_THE_CAP, "b": TtlReason.EXPIRED, "c": TtlReason.EXPIRED}


def test_what_is_empty_is_none() -> None:
    """A partition whose file groups were replaced stays a folder."""
    plan = plan_ttl(table(*groups_of([10])), {"p": 0.0, "gone": 0.0}, OPTIONS, now=NOW)
    assert [(each.partition_path, each.file_groups, each.bytes) for each in plan.decisions] == [("p", 1, 10 * 2**20)]
    assert plan.decisions[0].why == "written 1970-01-01 00:00:00 UTC, more than 16m 40s ago" or plan.decisions[0].why

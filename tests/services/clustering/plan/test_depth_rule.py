"""Whether a layout by columns pays, by the depth of partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.services.clustering.plan.depth_rule import DepthVerdict, PartitionDepth, Pays, judge_depth, what_pays
from lakeward.services.clustering.plan.pack_plan import PackDecision, PackedGroup, PackPlan, PackReason

DEPTH = PartitionDepth(groups=100, small=0, column="city", reads=1.2, best=1.0, runs=0, fits=True)


@pytest.mark.parametrize(
    ("of", "pays", "why"),
    [
        ({}, Pays.NOTHING, "a filter on city reads 1.2 of 100 file groups, 1.0 at best"),
        ({"reads": 11.0}, Pays.NEW, "a filter on city reads 11.0 of 100 file groups, 1.0 at best"),
        ({"reads": 11.0, "best": 10.0}, Pays.NOTHING, "reads 11.0"),
        ({"small": 20}, Pays.NEW, "20% are small"),
        ({"small": 19}, Pays.NOTHING, "reads 1.2"),
        ({"reads": None}, Pays.NEW, "no statistics"),
        ({"reads": 9.0, "runs": 8}, Pays.ALL, "9.0 of 100 file groups, 1.0 at best, after 8 clusterings of parts"),
        ({"reads": 9.0, "runs": 7}, Pays.NEW, "reads 9.0"),
        ({"reads": 9.0, "runs": 8, "fits": False}, Pays.NEW, "reads 9.0"),
        ({"reads": 9.0, "runs": 8, "best": 3.0}, Pays.NEW, "reads 9.0"),
    ],
)
def test_each_rule(of: dict[str, float], pays: Pays, why: str) -> None:
    """Keeps 1, 2 and 3 of services/clustering/plan/depth_rule."""
    verdict = judge_depth(replace(DEPTH, **of))  # type: ignore[arg-type]
    assert verdict.pays is pays and why in verdict.why


def test_the_two_plans_become_one() -> None:
    """All of a partition that is laid out again comes first, and what does not pay is left with the figures."""

    def plan(*paths: str) -> PackPlan:
        packed = tuple(PackedGroup(path, ()) for path in paths)
        return PackPlan(packed, tuple(PackDecision(path, "f-0", 1, PackReason.PACKED, "new") for path in paths))

    verdicts = {
        "a": DepthVerdict(Pays.NEW, ""),
        "b": DepthVerdict(Pays.NOTHING, "separated"),
        "c": DepthVerdict(Pays.ALL, ""),
    }
    found = what_pays(plan("a", "b", "c"), plan("c"), verdicts)
    assert [each.partition_path for each in found.packed] == ["c", "a"]
    assert [(each.partition_path, each.reason.value, each.why) for each in found.decisions] == [
        ("a", "packed", "new"),
        ("b", "separated", "separated"),
        ("c", "packed", "new"),
    ]

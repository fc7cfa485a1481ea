"""Hudi's own plans, by its keys: as text here, beside Hudi's in tests/interop/test_clustering_plans."""

from __future__ import annotations

import pytest

from lakeward.base.errors import Refused
from lakeward.services.clustering.plan.hudi_plan import BY_KEY, plan_as_hudi, read_hudi_keys
from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from tests.services.clustering.plan.test_pack_plan import MIB, groups_of, table
from tests.synthetic_table import file_group, minute

PLAN = "hoodie.clustering.plan.strategy."
OPTIONS = PackOptions()


def planned(sizes: list[float], keys: dict[str, str], options: PackOptions = OPTIONS) -> list[str]:
    """`f001 f002 -> 1` for each group, sizes in MiB."""
    plan = plan_as_hudi(table(*groups_of(sizes)), read_hudi_keys(keys, hour=0), options)
    ids = [" ".join(each.file_id.removesuffix("-0") for each in group.slices) for group in plan.packed]
    return sorted(f"{text} -> {group.outputs}" for text, group in zip(ids, plan.packed, strict=True))


@pytest.mark.parametrize(
    ("sizes", "keys", "groups"),
    [
        ([], {}, []),
        ([300], {}, []),
        ([299, 10], {}, ["f001 f002 -> 1"]),
        ([10], {}, ["f001 -> 1"]),
        ([10], {"single.group.clustering.enabled": "false"}, []),
        ([40, 30, 20, 10], {"max.bytes.per.group": str(60 * MIB)}, ["f001 -> 1", "f002 f003 f004 -> 1"]),
        ([40, 30, 20, 10], {"target.file.max.bytes": str(30 * MIB)}, ["f001 f002 f003 f004 -> 4"]),
        ([40, 30], {"max.bytes.per.group": "1", "max.num.groups": "1"}, ["f001 -> 1"]),
        ([40, 30], {"small.file.limit": str(35 * MIB)}, ["f002 -> 1"]),
    ],
)
def test_groups(sizes: list[float], keys: dict[str, str], groups: list[str]) -> None:
    """Keeps of services/clustering/plan/hudi_plan."""
    assert planned(sizes, {f"{PLAN}{key}": value for key, value in keys.items()}) == groups


def test_a_slice_without_a_base_file_counts_as_a_full_one() -> None:
    """Its logs do not count; so the two together are more than a group may have."""
    logs = file_group("p", "f001-0", base=None, logs=[(minute(1), 500 * MIB)])
    keys = read_hudi_keys({f"{PLAN}max.bytes.per.group": str(125 * MIB)}, hour=0)
    plan = plan_as_hudi(table(logs, *groups_of([10], first=2)), keys, OPTIONS)
    assert [len(each.slices) for each in plan.packed] == [1, 1]


def test_what_is_set_aside_stays() -> None:
    plan = plan_as_hudi(table(*groups_of([20, 10])), read_hudi_keys({}, hour=0), OPTIONS, excluded={("p", "f001-0")})
    assert [each.reason.value for each in plan.decisions] == ["set-aside", "packed"]


def test_what_the_new_groups_get() -> None:
    sort = {f"{PLAN}sort.columns": "city, day"}
    assert read_hudi_keys(sort, hour=0).layout == Layout(ClusterMode.SORT, ("city", "day"))
    curve = {**sort, "hoodie.layout.optimize.strategy": "ZORDER"}
    assert read_hudi_keys(curve, hour=0).layout == Layout(ClusterMode.CURVE, ("city", "day"))
    assert read_hudi_keys({}, hour=0).layout == BY_KEY


@pytest.mark.parametrize(
    "keys",
    [
        {f"{PLAN}class": "org.example.Mine"},
        {"hoodie.layout.optimize.strategy": "HILBERT"},
        {"hoodie.clustering.plan.partition.filter.mode": "WEEKLY"},
        {f"{PLAN}small.file.limit": "300MB"},
    ],
)
def test_keys_that_are_refused(keys: dict[str, str]) -> None:
    with pytest.raises(Refused, match=next(iter(keys))):
        read_hudi_keys(keys, hour=0)


def test_the_cap_counts_beside_hudis_keys() -> None:
    assert planned([40, 30], {}, PackOptions(bytes_max=60 * MIB)) == []


def test_partition_filters_of_hudi() -> None:
    mode = "hoodie.clustering.plan.partition.filter.mode"
    recent = read_hudi_keys({mode: "RECENT_DAYS", f"{PLAN}daybased.lookback.partitions": "1"}, hour=0)
    assert recent.partitions.choose({"a", "b", "c"}) == {"c"}
    assert read_hudi_keys({mode: "DAY_ROLLING"}, hour=1).partitions.choose({"a", "b", "c"}) == {"b"}
    between = {mode: "SELECTED_PARTITIONS", f"{PLAN}cluster.begin.partition": "b"}
    assert read_hudi_keys(between, hour=0).partitions.choose({"a", "b", "c"}) == {"b", "c"}

"""Which file groups get a layout by columns: sizes in MiB and the records of earlier runs in, the plan out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.layout_plan import plan_layout
from lakeward.services.clustering.plan.layout_record import LayoutRecord, read_records, write_records
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackPlan
from lakeward.table.file_system_view import GroupId
from tests.services.clustering.plan.test_pack_plan import MIB, groups_of, shown, table, taken_by
from tests.synthetic_table import file_group, minute

BY_CITY = Layout(ClusterMode.SORT, ("city",))
OPTIONS = PackOptions(target_bytes=100 * MIB, layout=BY_CITY)


def records(
    sizes: Sequence[float | None], layout: Layout = BY_CITY, partition: str = "p"
) -> Mapping[GroupId, LayoutRecord]:
    """A record for each file group with a size, as `groups_of` names them."""
    ids = [(partition, f"f{number:03}-0") for number in range(1, len(sizes) + 1)]
    found = (
        LayoutRecord(group, layout, int(size * MIB), (("a", "f"),))
        for group, size in zip(ids, sizes, strict=True)
        if size is not None
    )
    return {each.group_id: each for each in found}


def reasons(plan: PackPlan) -> str:
    return " ".join(each.reason.value for each in plan.decisions)


@pytest.mark.parametrize(
    ("sizes", "recorded", "taken", "outputs"),
    [
        ([], [], [], 0),
        ([10], [None], [], 0),
        ([200], [None], ["p: f001"], 2),
        ([100, 100, 100], [None] * 3, ["p: f001 f002 f003"], 3),
        ([100, 100, 60], [100, 100, None], [], 0),
        ([100, 100, 80], [100, 100, None], ["p: f003"], 1),
        ([100, 131, 100], [100, 100, 100], ["p: f002"], 1),
        ([100, 40, 80], [100, 40, None], ["p: f002 f003"], 1),
        ([40, 40], [40, 40], [], 0),
        ([10] * 5, [10] * 5, ["p: f001 f002 f003 f004 f005"], 1),
    ],
)
def test_what_came_since_is_taken(
    sizes: list[float], recorded: list[float | None], taken: list[str], outputs: int
) -> None:
    """New groups, and those that grew by 30 %; small ones that are laid out already go along."""
    plan = plan_layout(table(*groups_of(sizes)), OPTIONS, records(recorded))
    assert (shown(plan), plan.outputs) == (taken, outputs)


def test_columns_may_change() -> None:
    """What another layout has stays as it is, unless all is to be done again."""
    groups = table(*groups_of([100, 100, 100]))
    other = records([100, 100, None], Layout(ClusterMode.CURVE, ("day", "city")))
    plan = plan_layout(groups, OPTIONS, other)
    assert reasons(plan) == "other-layout other-layout packed"
    assert plan.decisions[0].why == "laid out otherwise: curve by day, city"
    assert plan_layout(groups, replace(OPTIONS, again=True), other).input_groups == 3


def test_what_is_set_aside_stays() -> None:
    """Also a small one that would go along with others."""
    groups, excluded = table(*groups_of([100, 40, 80])), {("p", "f001-0"), ("p", "f002-0")}
    plan = plan_layout(groups, OPTIONS, records([None, 40, None]), excluded=excluded)
    assert (shown(plan), reasons(plan)) == (["p: f003"], "set-aside set-aside packed")


def test_one_file_stays_what_it_is_where_its_keys_are_in_order() -> None:
    """A sort changes it, the hybrid layout does not."""
    by_key = replace(OPTIONS, layout=Layout(ClusterMode.HYBRID, ("city",)))
    assert plan_layout(table(*groups_of([100])), OPTIONS, {}).input_groups == 1
    assert plan_layout(table(*groups_of([100])), by_key, {}).input_groups == 0


def test_reasons_have_their_figures() -> None:
    """Keeps 1 and 3 of services/clustering/plan/layout_plan."""
    bucket = file_group("p", "00000003-1234-0", base=(minute(1), MIB), logs=())
    groups = table(bucket, *groups_of([100, 100, 100, 100]), pending_clusterings={("p", "f002-0"): minute(9)})
    plan = plan_layout(groups, OPTIONS, records([90]))
    assert [(each.file_id, each.reason.value, each.why) for each in plan.decisions] == [
        ("00000003-1234-0", "bucket", "it is bucket 3, where writers look for its keys"),
        ("f001-0", "laid-out", "laid out, 90.0 MiB then, 100.0 MiB now"),
        ("f002-0", "pending-work", f"clustering {minute(9)} is planned over it; `lakeward rollback` ends a stuck one"),
        ("f003-0", "packed", "2 file groups, 200.0 MiB, become 2"),
        ("f004-0", "packed", "2 file groups, 200.0 MiB, become 2"),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_any_table(seed: int) -> None:
    """Keeps 1, 2, 3, 4, and 5 of services/clustering/plan/layout_plan, on tables of every kind."""
    dice = random.Random(seed)
    groups, recorded = [], dict[GroupId, LayoutRecord]()
    for partition in ("p", "q", ""):
        sizes = [dice.choice((0.1, 5, 20, 60, 80, 300)) for _ in range(dice.randrange(30))]
        groups += groups_of(sizes, partition)
        known = [dice.choice((None, size, size / 2)) for size in sizes]
        recorded |= records(known, dice.choice((BY_CITY, Layout(ClusterMode.SORT, ("day",)))), partition)
    held = {(each.partition_path, each.file_id): minute(99) for each in groups if dice.random() < 0.2}
    options = replace(
        OPTIONS,
        groups_min=dice.choice((2, 5)),
        bytes_max=dice.choice((None, 350 * MIB)),
        together_bytes=dice.choice((400 * MIB, OPTIONS.together_bytes)),
        again=dice.random() < 0.3,
    )
    plan = plan_layout(table(*groups, pending_clusterings=held), options, recorded)
    taken = taken_by(plan, groups, held, seed)
    for group in plan.packed:
        assert len(group.slices) == 1 or group.bytes <= options.together_bytes, seed
        assert 0.75 * options.target_bytes <= group.bytes / group.outputs or group.outputs == 1, seed
    assert options.bytes_max is None or plan.input_bytes <= options.bytes_max, seed
    assert plan_layout(table(*groups, pending_clusterings=held), options, recorded) == plan, seed
    places = {(each.partition_path, each.file_id) for each in groups}
    after = [each for each in groups if (each.partition_path, each.file_id) not in taken]
    for group in plan.packed:
        sizes = [group.bytes / group.outputs / MIB] * group.outputs
        new = groups_of(sizes, group.partition_path, first=100 * (1 + len(after)))
        after += new
        for each in new:
            place = (each.partition_path, each.file_id)
            recorded[place] = LayoutRecord(place, BY_CITY, each.slices[0].bytes, ())
    second = plan_layout(table(*after, pending_clusterings=held), replace(options, again=False), recorded)
    again = [slice_ for group in second.packed for slice_ in group.slices if slice_.group_id not in places]
    assert all(slice_.bytes < options.target_bytes / 2 for slice_ in again), seed


def test_records_are_read_as_they_were_written() -> None:
    """Keeps of services/clustering/plan/layout_record: what is no record counts as none."""
    known = records([3.5, 7], Layout(ClusterMode.CURVE, ("city", "day")))
    assert read_records(write_records(known.values())) == known
    for text in ("", "null", "[]", "{}", '{"mode": "spiral", "columns": [], "groups": {}}', "{"):
        assert read_records(text) == {}

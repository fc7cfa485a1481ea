"""Which small file groups become one, as text: sizes in MiB in, the plan and the reasons out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import PackPlan, PackReason, plan_packing
from lakeward.table.file_group import FileGroup, FrozenGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from tests.synthetic_table import file_group, minute, snapshot_of

MIB = 1024 * 1024
OPTIONS = PackOptions(target_bytes=100 * MIB)


def groups_of(sizes: Sequence[float], partition: str = "p", *, first: int = 1) -> list[FileGroup]:
    """One file group for each size, each a minute younger than the one before."""
    return [
        file_group(partition, f"f{number:03}-0", base=(minute(number), int(size * MIB)), logs=())
        for number, size in enumerate(sizes, start=first)
    ]


def table(*groups: FileGroup, **fields: Any) -> TableSnapshot:
    return snapshot_of(groups, (), **fields)


def shown(plan: PackPlan) -> list[str]:
    """`p: f001 f002` for each packed group."""
    return [
        f"{group.partition_path}: {' '.join(slice_.file_id.removesuffix('-0') for slice_ in group.slices)}"
        for group in plan.packed
    ]


@pytest.mark.parametrize(
    ("sizes", "packed"),
    [
        ([], []),
        ([10], []),
        ([10] * 4, []),
        ([10] * 5, ["p: f001 f002 f003 f004 f005"]),
        ([30, 30, 30], ["p: f001 f002 f003"]),
        ([60, 40], ["p: f001 f002"]),
        ([67, 33], []),
        ([75, 1], []),
        ([50, 60, 50, 50], ["p: f003 f004"]),
        ([40] * 6, ["p: f001 f002", "p: f003 f004", "p: f005 f006"]),
        ([30, 90, 30, 200, 30], ["p: f001 f003 f005"]),
    ],
)
def test_neighbours_by_age_fill_the_target(sizes: list[float], packed: list[str]) -> None:
    """What has 75 % of the target is left alone, two that do not reach it are too few, and of two that do neither has
    more than two thirds."""
    assert shown(plan_packing(table(*groups_of(sizes)), OPTIONS)) == packed


def test_reasons_have_their_figures() -> None:
    """Keeps 3 of services/clustering/plan/pack_plan: of each file group it is said why it is packed, or is not."""
    bucket = file_group("q", "00000003-1234-0", base=(minute(1), MIB), logs=())
    frozen = FrozenGroup("q", "cold-0", minute(1), "nothing explains it")
    groups = [*groups_of([40, 50, 90]), *groups_of([10, 10], "q"), bucket]
    pending = {("q", "f002-0"): minute(9)}
    plan = plan_packing(table(*groups, frozen=(frozen,), pending_compactions=pending), OPTIONS)
    assert [(each.partition_path, each.file_id, each.reason.value, each.why) for each in plan.decisions] == [
        ("p", "f001-0", "packed", "2 file groups become one, 90.0 MiB of 100.0 MiB"),
        ("p", "f002-0", "packed", "2 file groups become one, 90.0 MiB of 100.0 MiB"),
        ("p", "f003-0", "large-enough", "90.0 MiB, of 75.0 MiB or more"),
        ("q", "00000003-1234-0", "bucket", "it is bucket 3, where writers look for its keys"),
        ("q", "cold-0", "frozen", "nothing explains it"),
        (
            "q",
            "f001-0",
            "too-few",
            "with its neighbours 1 small file group, 10.0 MiB: fewer than 5, and less than 75.0 MiB",
        ),
        ("q", "f002-0", "pending-work", f"compaction {minute(9)} is planned over it"),
    ]


@pytest.mark.parametrize("of", ["pending_compactions", "pending_log_compactions", "pending_clusterings"])
def test_what_is_pending_is_left_alone(of: str) -> None:
    """Keeps 1 of services/clustering/plan/pack_plan."""
    plan = plan_packing(table(*groups_of([10] * 6), **{of: {("p", "f003-0"): minute(9)}}), OPTIONS)
    assert shown(plan) == ["p: f001 f002 f004 f005 f006"]


def test_logs_count() -> None:
    """A slice is as large as what is read of it."""
    logged = file_group("p", "f001-0", base=(minute(1), 10 * MIB), logs=[(minute(2), 70 * MIB)])
    plan = plan_packing(table(logged, *groups_of([60], first=2)), OPTIONS)
    assert plan.packed == () and plan.decisions[0].reason is PackReason.LARGE_ENOUGH


def test_what_outweighs_the_others_stays() -> None:
    """Keeps 5 of services/clustering/plan/pack_plan: the others are packed without it where they are enough, and a file
    group that takes in five of a hundredth of the target at a time is packed seldom."""
    plan = plan_packing(table(*groups_of([60, 4, 4, 4, 4, 4])), OPTIONS)
    assert shown(plan) == ["p: f002 f003 f004 f005 f006"]
    assert plan.decisions[0].reason is PackReason.OUTWEIGHS
    assert plan.decisions[0].why.startswith("60.0 MiB of 80.0 MiB with its neighbours")
    sizes: list[float] = []
    written = came = 0.0
    while came < 400:
        sizes.append(1)
        came += 1
        plan = plan_packing(table(*groups_of(sizes)), OPTIONS)
        for group in plan.packed:
            written += group.bytes / MIB
            for number in sorted((int(each.file_id[1:4]) - 1 for each in group.slices), reverse=True):
                del sizes[number]
            sizes.append(group.bytes / MIB)
    assert written <= 12 * came and len(sizes) <= 400 / 75 + 20


def test_what_is_set_aside_is_left_alone() -> None:
    """Keeps 1 of services/clustering/plan/pack_plan: what is parked or paused."""
    plan = plan_packing(table(*groups_of([10] * 6)), OPTIONS, excluded={("p", "f003-0")})
    assert shown(plan) == ["p: f001 f002 f004 f005 f006"]
    assert plan.decisions[2].reason is PackReason.SET_ASIDE


def test_partitions_that_are_asked_for() -> None:
    groups = [*groups_of([10] * 5), *groups_of([10] * 5, "q")]
    plan = plan_packing(table(*groups), OPTIONS, partitions={"q"})
    assert shown(plan) == ["q: f001 f002 f003 f004 f005"]
    assert {each.partition_path for each in plan.decisions} == {"q"}


def test_the_cap_takes_first_what_ends_most_file_groups() -> None:
    """Keeps 4 of services/clustering/plan/pack_plan."""
    groups = [*groups_of([40, 40]), *groups_of([8] * 10, "q")]
    plan = plan_packing(table(*groups), replace(OPTIONS, bytes_max=100 * MIB))
    assert shown(plan) == [f"q: {' '.join(f'f{number:03}' for number in range(1, 11))}"]
    assert Counter(each.reason for each in plan.decisions) == {PackReason.PACKED: 10, PackReason.OVER_THE_CAP: 2}


def taken_by(plan: PackPlan, groups: Sequence[FileGroup], held: Collection[GroupId], seed: int) -> list[GroupId]:
    """Each file group has one decision, and what is packed is what they say: none twice, none that is held."""
    places = [(each.partition_path, each.file_id) for each in plan.decisions]
    assert sorted(places) == sorted((each.partition_path, each.file_id) for each in groups), seed
    taken = [slice_.group_id for group in plan.packed for slice_ in group.slices]
    assert len(taken) == len(set(taken)) and not set(held) & set(taken), seed
    assert set(taken) == {
        place for place, each in zip(places, plan.decisions, strict=True) if each.reason is PackReason.PACKED
    }, seed
    for group in plan.packed:
        assert {slice_.partition_path for slice_ in group.slices} == {group.partition_path}, seed
    return taken


@pytest.mark.parametrize("seed", range(20))
def test_any_table(seed: int) -> None:
    """Keeps 1, 2, 3, 4 and 5 of services/clustering/plan/pack_plan, on tables of every kind."""
    dice = random.Random(seed)
    groups = [
        group
        for partition in ("p", "q", "")
        for group in groups_of([dice.choice((0.1, 5, 20, 60, 80, 300)) for _ in range(dice.randrange(30))], partition)
    ]
    held = {(each.partition_path, each.file_id): minute(99) for each in groups if dice.random() < 0.2}
    options = PackOptions(
        target_bytes=100 * MIB, groups_min=dice.choice((2, 5)), bytes_max=dice.choice((None, 150 * MIB))
    )
    plan = plan_packing(table(*groups, pending_clusterings=held), options)
    taken_by(plan, groups, held, seed)
    for group in plan.packed:
        assert len(group.slices) > 1 and group.bytes <= options.target_bytes, seed
        assert max(slice_.bytes for slice_ in group.slices) * 3 <= group.bytes * 2, seed
    assert options.bytes_max is None or plan.input_bytes <= options.bytes_max, seed
    assert plan_packing(table(*groups, pending_clusterings=held), options) == plan, seed

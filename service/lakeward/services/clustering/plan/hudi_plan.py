"""The plan that Hudi's clustering makes for a table, by the keys that its writers have.

    file group   something pending names it, or its base file has `small.file.limit` or more    left alone
    others       of a partition, largest base file first                                        groups of no more than
                                                                                                `max.bytes.per.group`

A group becomes as many file groups as it has `target.file.max.bytes`, rounded up. A file group without a base file
counts as small and, where sizes are added up, as large as writers make files; logs do not count.

Touches: nothing, so equal snapshots and keys give equal plans.
Keeps:   the groups are those of Hudi's plan: their file groups, and how many each becomes.
Source:  SparkSizeBasedClusteringPlanStrategy, PartitionAwareClusteringPlanStrategy (Hudi 1.2)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lakeward.base.errors import Refused
from lakeward.base.quantities import format_count, format_size
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.services.clustering.plan.layout import PACKED, ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import (
    PackDecision,
    PackedGroup,
    PackPlan,
    PackReason,
    decision,
    frozen_decisions,
    not_to_touch,
    over_the_cap,
    plan_of,
    set_aside,
)
from lakeward.services.clustering.plan.partition_filter import EVERY_PARTITION, PartitionFilter
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

BY_KEY = Layout(ClusterMode.HYBRID, (RECORD_KEY_FIELD,))
"""Without columns Hudi spreads rows over the new files in the order in which they come: here, in that of their keys."""
_STRATEGY = "hoodie.clustering.plan.strategy."
SORT_COLUMNS = f"{_STRATEGY}sort.columns"
_MIB = 1024 * 1024
_SORT_ORDERS = {"LINEAR": ClusterMode.SORT, "ZORDER": ClusterMode.CURVE}
_SIZE_BASED = "org.apache.hudi.client.clustering.plan.strategy.SparkSizeBasedClusteringPlanStrategy"
_ONLY = {
    f"{_STRATEGY}class": (_SIZE_BASED,),
    "hoodie.layout.optimize.strategy": tuple(_SORT_ORDERS),
    "hoodie.clustering.plan.partition.filter.mode": ("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
}
"""Keys of which Lakeward knows these values alone."""


@dataclass(frozen=True, slots=True)
class HudiPlanKeys:
    """What the keys say; the defaults are Hudi's."""

    small_file_limit: int = 300 * _MIB
    target_file_bytes: int = 1024 * _MIB
    group_bytes_max: int = 2048 * _MIB
    groups_max: int = 30
    takes_single: bool = True
    """Whether a file group may be a group by itself."""
    file_bytes: int = 120 * _MIB
    """`hoodie.parquet.max.file.size`"""
    layout: Layout = PACKED
    """What its new file groups get."""
    partitions: PartitionFilter = EVERY_PARTITION


def read_hudi_keys(keys: Mapping[str, str], *, hour: int) -> HudiPlanKeys:
    """Raises `Refused` for a value that Lakeward does not know.

    Args:
        hour: of the day, for the partition filter DAY_ROLLING.
    """
    for key, known in _ONLY.items():
        if (value := keys.get(key)) is not None and value not in known:
            raise Refused(
                f"{key}={value} is not one of Hudi's plans that Lakeward makes.",
                why=f"It knows {', '.join(known)}.",
                remedy="Leave this clustering to Hudi, or leave the key out.",
            )
    own = HudiPlanKeys()
    columns = tuple(name.strip() for name in keys.get(SORT_COLUMNS, "").split(",") if name.strip())
    mode = _SORT_ORDERS[keys.get("hoodie.layout.optimize.strategy", "LINEAR")]
    return HudiPlanKeys(
        small_file_limit=_number(keys, f"{_STRATEGY}small.file.limit", own.small_file_limit),
        target_file_bytes=max(1, _number(keys, f"{_STRATEGY}target.file.max.bytes", own.target_file_bytes)),
        group_bytes_max=_number(keys, f"{_STRATEGY}max.bytes.per.group", own.group_bytes_max),
        groups_max=_number(keys, f"{_STRATEGY}max.num.groups", own.groups_max),
        takes_single=keys.get(f"{_STRATEGY}single.group.clustering.enabled", "true").lower() == "true",
        file_bytes=_number(keys, "hoodie.parquet.max.file.size", own.file_bytes),
        layout=Layout(mode, columns) if columns else BY_KEY,
        partitions=_partitions(keys, hour),
    )


def plan_as_hudi(
    snapshot: TableSnapshot,
    keys: HudiPlanKeys,
    options: PackOptions,
    *,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> PackPlan:
    """
    Args:
        options: of these the cap on bytes counts, which Hudi has not.
        partitions: the paths of those that are looked at; None for all that the keys choose.
        excluded: file groups that are parked or paused.
    """
    paths = {slice_.partition_path for slice_ in snapshot.latest_slices}
    looked_at = keys.partitions.choose(paths if partitions is None else paths & set(partitions))
    decisions: dict[GroupId, PackDecision] = dict(frozen_decisions(snapshot, looked_at))
    eligible: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in snapshot.latest_slices:
        if slice_.partition_path not in looked_at:
            continue
        found = not_to_touch(snapshot, slice_) or set_aside(slice_, excluded)
        if found is None and slice_.base_bytes >= keys.small_file_limit:
            limit = format_size(keys.small_file_limit)
            found = PackReason.LARGE_ENOUGH, f"its base file has {format_size(slice_.base_bytes)}, of {limit} or more"
        if found is None:
            eligible[slice_.partition_path].append(slice_)
        else:
            decisions[slice_.group_id] = decision(slice_, *found)
    chosen: list[PackedGroup] = []
    for path in sorted(eligible):
        for together, size in _groups(eligible[path], keys):
            outputs = -(-size // keys.target_file_bytes)
            group = PackedGroup(path, tuple(together), outputs)
            groups = format_count(len(together), "file group")
            reason, why = PackReason.PACKED, f"{groups} become {outputs}, as Hudi plans"
            if len(together) == 1 and not keys.takes_single:
                reason, why = PackReason.TOO_FEW, "one file group alone"
            elif options.bytes_max is not None and sum(each.bytes for each in (*chosen, group)) > options.bytes_max:
                reason, why = over_the_cap(group, options)
            elif len(chosen) >= keys.groups_max:
                reason, why = PackReason.OVER_THE_CAP, f"{keys.groups_max} groups are planned already"
            else:
                chosen.append(group)
            for slice_ in together:
                decisions[slice_.group_id] = decision(slice_, reason, why)
    return plan_of(chosen, decisions)


def _groups(slices: list[FileSlice], keys: HudiPlanKeys) -> Iterator[tuple[list[FileSlice], int]]:
    """Each with its bytes, as Hudi counts them."""

    def size_of(slice_: FileSlice) -> int:
        return keys.file_bytes if slice_.base_file is None else slice_.base_bytes

    together: list[FileSlice] = []
    size = 0
    for slice_ in sorted(slices, key=size_of, reverse=True):
        if together and size + size_of(slice_) > keys.group_bytes_max:
            yield together, size
            together, size = [], 0
        together.append(slice_)
        size += size_of(slice_)
    if together:
        yield together, size


def _partitions(keys: Mapping[str, str], hour: int) -> PartitionFilter:
    mode = keys.get("hoodie.clustering.plan.partition.filter.mode", "NONE")
    named = keys.get(f"{_STRATEGY}partition.selected")
    chosen = PartitionFilter(
        named=None if named is None else frozenset(path.strip() for path in named.split(",")),
        pattern=keys.get(f"{_STRATEGY}partition.regex.pattern"),
        recent=_number(keys, f"{_STRATEGY}daybased.lookback.partitions", 2) if mode == "RECENT_DAYS" else None,
        skipped=_number(keys, f"{_STRATEGY}daybased.skipfromlatest.partitions", 0),
        begin=keys.get(f"{_STRATEGY}cluster.begin.partition") if mode == "SELECTED_PARTITIONS" else None,
        end=keys.get(f"{_STRATEGY}cluster.end.partition") if mode == "SELECTED_PARTITIONS" else None,
        hour=hour if mode == "DAY_ROLLING" else None,
    )
    return chosen


def _number(keys: Mapping[str, str], key: str, default: int) -> int:
    value = keys.get(key, "").strip()
    if not value:
        return default
    if not (value.isascii() and value.isdigit()):
        raise Refused(
            f"{key}={value} is no number.",
            why="Hudi's clustering takes whole numbers of bytes, groups or partitions there.",
            remedy="Write a whole number, as in 314572800.",
        )
    return int(value)

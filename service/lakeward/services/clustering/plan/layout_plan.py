"""Choose which file groups get a layout by columns: a table snapshot and the records of earlier runs in, a plan out.

    file group         by what                                            becomes
    pending, frozen    something pending names it, or it is not known     left alone
    bucket             its id begins like that of a bucket                left alone: it is where writers look for keys
    laid out           a run gave it this layout, and it grew by less     left alone; where it is small, it is taken
                       than 30 % since                                    along with others
    otherwise laid out a run gave it another layout                       left alone, unless all are to be done again
    else               new, or written over                               laid out with its neighbours, oldest first, as
                                                                          many as are laid out together

So a run writes what came since the last one, and columns may change without a rewrite of everything. What one run lays
out together becomes so many new file groups of the target size, each with a range of its own.

Touches: nothing, so equal snapshots, options and records give equal plans.
Keeps:   1. a file group that something pending names, that is frozen or is a bucket is never taken;
         2. what is laid out together is of one partition, and has no more bytes than are laid out together;
         3. each file group of the partitions has one decision, with its figures;
         4. no more bytes are taken than the cap;
         5. what a run made, and nothing wrote to since, is taken again only where it is small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from lakeward.base.quantities import format_count, format_size
from lakeward.services.clustering.plan.layout import ClusterMode
from lakeward.services.clustering.plan.layout_record import LayoutRecord
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.plan.pack_plan import (
    PackDecision,
    PackedGroup,
    PackPlan,
    PackReason,
    decision,
    frozen_decisions,
    neighbours,
    not_to_touch,
    plan_of_worth,
    set_aside,
    too_few,
)
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_GROWN = 1.3
"""A group that has so many times the bytes of its record was written over enough to be laid out again."""

_SMALL = 0.5
"""A group that is laid out and has less of the target is taken along; it may have less than was planned for."""
_OUTPUTS_MAX = 128


def plan_layout(
    snapshot: TableSnapshot,
    options: PackOptions,
    records: Mapping[GroupId, LayoutRecord],
    *,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> PackPlan:
    """
    Args:
        records: of living file groups.
        partitions: the paths of those that are looked at; None for all.
        excluded: file groups that are parked or paused.
    """
    decisions: dict[GroupId, PackDecision] = dict(frozen_decisions(snapshot, partitions))
    due: dict[str, list[FileSlice]] = defaultdict(list)
    small: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in snapshot.latest_slices:
        if partitions is not None and slice_.partition_path not in partitions:
            continue
        found = not_to_touch(snapshot, slice_) or set_aside(slice_, excluded)
        found = found or _laid_out(slice_, records.get(slice_.group_id), options)
        if found is None:
            due[slice_.partition_path].append(slice_)
        elif found[0] is PackReason.LAID_OUT and slice_.bytes < options.target_bytes * _SMALL:
            small[slice_.partition_path].append(slice_)
        else:
            decisions[slice_.group_id] = decision(slice_, *found)
    worth: list[PackedGroup] = []
    for path in {**due, **small}:
        for together in _together(due[path], small[path], options):
            group = PackedGroup(path, together, _outputs(together, options))
            if _is_worth(group, options, has_due=any(each not in small[path] for each in together)):
                worth.append(group)
                continue
            for slice_ in together:
                decisions[slice_.group_id] = decision(slice_, PackReason.TOO_FEW, too_few(group, options))
    return plan_of_worth(worth, decisions, options, why=_taken)


def _laid_out(slice_: FileSlice, record: LayoutRecord | None, options: PackOptions) -> tuple[PackReason, str] | None:
    """None for what is due."""
    if record is None or options.again or not record.layout.columns:
        return None
    if slice_.bytes >= record.bytes * _GROWN:
        return None
    if record.layout != options.layout:
        return PackReason.OTHER_LAYOUT, f"laid out otherwise: {record.layout}"
    return PackReason.LAID_OUT, f"laid out, {format_size(record.bytes)} then, {format_size(slice_.bytes)} now"


def _taken(group: PackedGroup) -> str:
    groups = format_count(len(group.slices), "file group")
    return f"{groups}, {format_size(group.bytes)}, become {group.outputs}"


def _together(due: list[FileSlice], small: list[FileSlice], options: PackOptions) -> list[tuple[FileSlice, ...]]:
    """What is laid out together; small groups that are laid out already go along with what is due."""
    bytes_max = min(options.together_bytes, _OUTPUTS_MAX * options.target_bytes)
    if options.bytes_max is not None:
        bytes_max = min(bytes_max, options.bytes_max)
    found = list(neighbours(due, bytes_max))
    if not small:
        return found
    with_small = list(neighbours([*(found[-1] if found else ()), *small], bytes_max))
    return [*found[:-1], *with_small]


def _outputs(slices: tuple[FileSlice, ...], options: PackOptions) -> int:
    """So many groups that each has 80 to 160 % of the target."""
    return max(1, int(sum(each.bytes for each in slices) / options.target_bytes + 0.4))


def _is_worth(group: PackedGroup, options: PackOptions, *, has_due: bool) -> bool:
    if len(group.slices) == 1 and group.outputs == 1 and options.layout.mode is ClusterMode.HYBRID:
        return False  # it would be the same file again
    if not has_due:
        return len(group.slices) >= options.groups_min
    return group.bytes >= options.enough_bytes or len(group.slices) >= options.groups_min

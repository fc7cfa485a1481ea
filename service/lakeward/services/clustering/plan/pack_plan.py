"""Choose which small file groups become one: a table snapshot in, the plan of a packing out.

    file group         by what                                            becomes
    pending, frozen    something pending names it, or it is not known     left alone
    set aside          it is parked or paused                             left alone
    bucket             its id begins like that of a bucket                left alone: it is where writers look for keys
    large enough       75 % of the target or more                         left alone
    small              put together with its neighbours, oldest first,    one new file group, where that has 75 % of the
                       as long as they fit into the target                target, or takes in as many as are worth it

Neighbours by age stay neighbours, since rows that came together are often asked for together. What is too few is left
for a later run, which finds more of them: else every run would write the same rows again for one more small file. For
the same reason a file group that is more than two thirds of what it would be packed into stays out of it.

Touches: nothing, so equal snapshots and options give equal plans.
Keeps:   1. a file group that something pending names, that is frozen or is a bucket is never packed;
         2. what is packed into one is of one partition, two file groups or more, and no larger than the target;
         3. each file group of the partitions has one decision, with its figures;
         4. no more bytes are packed than the cap, those first that end the most files for a byte;
         5. at least a third of what becomes one file is not one file yet, so a row is packed a dozen times at most
            until its file group is large enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from lakeward.base.quantities import format_count, format_size
from lakeward.index.simple_bucket import bucket_of
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_BUCKETS_LIKELY = 10_000
"""A random id has a smaller number of eight digits in front in one of 400,000 cases, and is then left alone."""


class PackReason(StrEnum):
    """Why a file group is packed, or is not."""

    PACKED = "packed"
    LARGE_ENOUGH = "large-enough"
    TOO_FEW = "too-few"
    OVER_THE_CAP = "over-the-cap"
    BUCKET = "bucket"
    OUTWEIGHS = "outweighs-others"
    PENDING = "pending-work"
    SET_ASIDE = "set-aside"
    FROZEN = "frozen"
    LAID_OUT = "laid-out"
    OTHER_LAYOUT = "other-layout"
    SEPARATED = "separated"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class PackDecision:
    partition_path: str
    file_id: str
    bytes: int
    """The newest slice has so many, logs among them; 0 where it is not known."""
    reason: PackReason
    why: str


@dataclass(frozen=True, slots=True)
class PackedGroup:
    """File slices that become new file groups."""

    partition_path: str
    slices: tuple[FileSlice, ...]
    """Oldest first."""
    outputs: int = 1
    """How many new ones; with a layout by columns more than one."""

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.slices)


@dataclass(frozen=True, slots=True)
class PackPlan:
    packed: tuple[PackedGroup, ...]
    decisions: tuple[PackDecision, ...]
    """One for each file group of the partitions that were looked at, by partition and id."""

    @property
    def input_groups(self) -> int:
        return sum(len(each.slices) for each in self.packed)

    @property
    def input_bytes(self) -> int:
        return sum(each.bytes for each in self.packed)

    @property
    def outputs(self) -> int:
        return sum(each.outputs for each in self.packed)


def plan_packing(
    snapshot: TableSnapshot,
    options: PackOptions,
    *,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
) -> PackPlan:
    """
    Args:
        partitions: the paths of those that are looked at; None for all.
        excluded: file groups that are parked or paused.
    """
    decisions: dict[GroupId, PackDecision] = dict(frozen_decisions(snapshot, partitions))
    small: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in snapshot.latest_slices:
        if partitions is not None and slice_.partition_path not in partitions:
            continue
        found = not_to_touch(snapshot, slice_) or _large_enough(slice_, options) or set_aside(slice_, excluded)
        if found is None:
            small[slice_.partition_path].append(slice_)
        else:
            decisions[slice_.group_id] = decision(slice_, *found)
    worth: list[PackedGroup] = []
    for path, slices in small.items():
        for near in neighbours(slices, options.target_bytes):
            together = _balanced(near)
            taken = {slice_.file_id for slice_ in together}
            for slice_ in near:
                if slice_.file_id not in taken:
                    decisions[slice_.group_id] = decision(slice_, PackReason.OUTWEIGHS, _outweighs(slice_, near))
            group = PackedGroup(path, together)
            if len(together) > 1 and (group.bytes >= options.enough_bytes or len(together) >= options.groups_min):
                worth.append(group)
                continue
            for slice_ in together:
                decisions[slice_.group_id] = decision(slice_, PackReason.TOO_FEW, too_few(group, options))
    return plan_of_worth(worth, decisions, options, why=partial(_packed, options=options))


def plan_of_worth(
    worth: Sequence[PackedGroup],
    decisions: Mapping[GroupId, PackDecision],
    options: PackOptions,
    *,
    why: Callable[[PackedGroup], str],
) -> PackPlan:
    """What is worth it, as far as the cap goes.

    Args:
        decisions: of the file groups that are left alone.
        why: what is said of one that is taken.
    """
    chosen, decided = _within_cap(worth, options), dict(decisions)
    for number, group in enumerate(worth):
        reason, text = (PackReason.PACKED, why(group)) if number in chosen else over_the_cap(group, options)
        for slice_ in group.slices:
            decided[slice_.group_id] = decision(slice_, reason, text)
    return plan_of([worth[number] for number in chosen], decided)


def plan_of(chosen: Iterable[PackedGroup], decisions: Mapping[GroupId, PackDecision]) -> PackPlan:
    in_order = sorted(chosen, key=lambda group: (group.partition_path, group.slices[0].base_instant))
    return PackPlan(tuple(in_order), tuple(decisions[place] for place in sorted(decisions)))


def frozen_decisions(
    snapshot: TableSnapshot, partitions: Collection[str] | None
) -> Iterator[tuple[GroupId, PackDecision]]:
    for frozen in snapshot.frozen:
        if partitions is None or frozen.partition_path in partitions:
            place = (frozen.partition_path, frozen.file_id)
            yield place, PackDecision(*place, 0, PackReason.FROZEN, frozen.why)


def set_aside(slice_: FileSlice, excluded: Collection[GroupId]) -> tuple[PackReason, str] | None:
    return (PackReason.SET_ASIDE, "it is parked or paused") if slice_.group_id in excluded else None


def not_to_touch(snapshot: TableSnapshot, slice_: FileSlice) -> tuple[PackReason, str] | None:
    """None for a file group that may be replaced."""
    group_id = slice_.group_id
    if group_id in snapshot.pending_compactions:
        return PackReason.PENDING, f"compaction {snapshot.pending_compactions[group_id]} is planned over it"
    if group_id in snapshot.pending_log_compactions:
        return PackReason.PENDING, f"log compaction {snapshot.pending_log_compactions[group_id]} is planned over it"
    if group_id in snapshot.pending_clusterings:
        instant = snapshot.pending_clusterings[group_id]
        return PackReason.PENDING, f"clustering {instant} is planned over it; `lakeward rollback` ends a stuck one"
    bucket = bucket_of(slice_.file_id)
    if bucket is not None and bucket < _BUCKETS_LIKELY:
        return PackReason.BUCKET, f"it is bucket {bucket}, where writers look for its keys"
    return None


def _large_enough(slice_: FileSlice, options: PackOptions) -> tuple[PackReason, str] | None:
    if (found := slice_.bytes) >= options.enough_bytes:
        size, enough = format_size(found), format_size(options.enough_bytes)
        return PackReason.LARGE_ENOUGH, f"{size}, of {enough} or more"
    return None


def neighbours(slices: Sequence[FileSlice], bytes_max: int) -> Iterator[tuple[FileSlice, ...]]:
    together: list[FileSlice] = []
    size = 0
    for slice_ in sorted(slices, key=lambda each: (each.base_instant, each.file_id)):
        of_slice = slice_.bytes
        if together and size + of_slice > bytes_max:
            yield tuple(together)
            together, size = [], 0
        together.append(slice_)
        size += of_slice
    if together:
        yield tuple(together)


def _balanced(neighbours: tuple[FileSlice, ...]) -> tuple[FileSlice, ...]:
    """The slices of these that are left once none is more than two thirds of all; one where each outweighs the rest."""
    sizes = [each.bytes for each in neighbours]
    size = sum(sizes)
    if max(sizes) * 3 <= size * 2:
        return neighbours
    kept = sorted(neighbours, key=lambda each: each.bytes)
    while len(kept) > 1 and kept[-1].bytes * 3 > size * 2:
        size -= kept.pop().bytes
    if len(kept) == len(neighbours):
        return neighbours
    left = {each.file_id for each in kept}
    return tuple(each for each in neighbours if each.file_id in left)


def _within_cap(worth: Sequence[PackedGroup], options: PackOptions) -> Collection[int]:
    """The places of those that are packed."""
    places = range(len(worth))
    if options.bytes_max is None:
        return places
    chosen, left = set(), options.bytes_max
    for place in sorted(places, key=lambda each: worth[each].bytes / len(worth[each].slices)):
        if worth[place].bytes <= left:
            chosen.add(place)
            left -= worth[place].bytes
    return chosen


def decision(slice_: FileSlice, reason: PackReason, why: str) -> PackDecision:
    return PackDecision(slice_.partition_path, slice_.file_id, slice_.bytes, reason, why)


def _packed(group: PackedGroup, options: PackOptions) -> str:
    groups = format_count(len(group.slices), "file group")
    sizes = f"{format_size(group.bytes)} of {format_size(options.target_bytes)}"
    return f"{groups} become one, {sizes}"


def over_the_cap(group: PackedGroup, options: PackOptions) -> tuple[PackReason, str]:
    assert options.bytes_max is not None
    cap = format_size(options.bytes_max)
    return PackReason.OVER_THE_CAP, f"with its neighbours {format_size(group.bytes)}, more than is left of {cap}"


def _outweighs(slice_: FileSlice, neighbours: Sequence[FileSlice]) -> str:
    size, total = format_size(slice_.bytes), format_size(sum(each.bytes for each in neighbours))
    return f"{size} of {total} with its neighbours: more than two thirds, so packing it pays little"


def too_few(group: PackedGroup, options: PackOptions) -> str:
    number, enough = format_count(len(group.slices), "small file group"), format_size(options.enough_bytes)
    least = options.groups_min
    return f"with its neighbours {number}, {format_size(group.bytes)}: fewer than {least}, and less than {enough}"

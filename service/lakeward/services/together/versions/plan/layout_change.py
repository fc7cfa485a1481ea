"""What makes of a table of the layout `default` one of `lsm_tree`, or the other way: a snapshot of it and what is known
of the order of its base files in, steps out.

    default -> lsm_tree    failed writes rolled back -> FULL of every file group with logs -> base files that are not
                           sorted rewritten -> every base file's keys read -> the property
    lsm_tree -> default    failed writes rolled back -> FULL of every file group with logs -> the property

A step is what is next on the table as it is; what follows is found by looking again.

The two layouts fold a key's records in another order (`merge/rules/winner`), so no log that readers merge is there when
the property changes. Sorted files are files: on the way back nothing is to be sorted, nor read.

What lies in older slices stays as it is. The table says from which time on it is of the layout, so that queries as of
an earlier one merge logs as they were merged then (`read/slice_input`).

Touches: nothing.
Keeps:   1. no table gets another layout that has logs in a slice that readers merge, or a plan over any;
         2. no table gets the layout `lsm_tree` that has a base file in a slice that readers merge of which it is not
            known that it is sorted;
         3. file groups that cannot be known, such as another engine is about to replace, and files with a key in
            several
            rows, are refused by name.
See:     docs/decisions/0070-a-table-becomes-lsm-tree.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import Refused
from lakeward.services.together.versions.plan.change_step import ChangeStep, StepKind
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice
from lakeward.table.file_order import FileOrder
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import LSM_TREE, LSM_TREE_SINCE, STORAGE_LAYOUT

_SHOWN = 20
_PLANS = frozenset({"compaction", "logcompaction"})
_SORTED = FileOrder(is_sorted=True)


class StorageLayout(StrEnum):
    DEFAULT = "default"
    LSM_TREE = LSM_TREE


@dataclass(frozen=True, slots=True)
class LayoutChange:
    found: StorageLayout
    target: StorageLayout
    steps: tuple[ChangeStep, ...]
    """In their order; none where the table is there already."""


def layout_of(snapshot: TableSnapshot) -> StorageLayout:
    return StorageLayout.LSM_TREE if snapshot.config.is_lsm_tree else StorageLayout.DEFAULT


def files_to_check(snapshot: TableSnapshot) -> tuple[BaseFile, ...]:
    """The base files that no compaction writes again."""
    return tuple(each.base_file for each in _to_keep(snapshot) if each.base_file is not None)


def slices_to_sort(snapshot: TableSnapshot, orders: Mapping[BaseFile, FileOrder]) -> tuple[FileSlice, ...]:
    """The slices whose base file is out of order."""
    return tuple(
        each for each in _to_keep(snapshot) if each.base_file and not orders.get(each.base_file, _SORTED).is_sorted
    )


def groups_to_merge(snapshot: TableSnapshot) -> tuple[str, ...]:
    """Ids of the file groups with logs that readers merge, or under a pending plan."""
    return tuple(group.file_id for group in snapshot.file_groups if _is_to_merge(snapshot, group))


def plan_layout_change(
    snapshot: TableSnapshot,
    target: StorageLayout,
    failed: Sequence[str],
    orders: Mapping[BaseFile, FileOrder],
) -> LayoutChange:
    """The steps that are left to do. The first one is certain; what follows is what is known of it now.

    Args:
        snapshot: a scan of the whole table.
        failed: instants that `lakeward rollback` would end.
        orders: what is known of those of `files_to_check`, to become `lsm_tree`.

    Raises `Refused`.
    """
    found = layout_of(snapshot)
    if found is target:
        return LayoutChange(found, target, ())
    _check(snapshot, failed, orders)
    steps: list[ChangeStep] = []
    if failed:
        why = "what they left would be taken for files of the other layout, should they be ended later"
        steps.append(ChangeStep(StepKind.ROLLBACK, why, subjects=tuple(failed)))
    to_merge = [group for group in snapshot.file_groups if _is_to_merge(snapshot, group)]
    pending = tuple(each.time for each in snapshot.timeline.pending if each.action in _PLANS)
    if to_merge or pending:
        files = [slice_ for group in to_merge for slice_ in group.read_slices]
        names = tuple("/".join(part for part in (each.partition_path, each.file_id) if part) for each in to_merge)
        why = "the layouts merge logs in another order" if to_merge else "what was planned is to be over"
        size = sum(each.bytes for each in files)
        steps.append(ChangeStep(StepKind.COMPACTION, why, subjects=names or pending, bytes=size))
    if target is StorageLayout.LSM_TREE:
        steps += _sorting(snapshot, orders)
    changes: dict[str, str | None] = {STORAGE_LAYOUT: target.value}
    if target is StorageLayout.LSM_TREE and snapshot.timeline.latest_time is not None:
        changes[LSM_TREE_SINCE] = snapshot.timeline.latest_time
    steps.append(ChangeStep(StepKind.PROPERTIES, "all else is done once this is", changes))
    return LayoutChange(found, target, tuple(steps))


def _sorting(snapshot: TableSnapshot, orders: Mapping[BaseFile, FileOrder]) -> Iterator[ChangeStep]:
    to_sort = slices_to_sort(snapshot, orders)
    if to_sort:
        why = "readers of the layout trust that every file is in the order of its keys, each of them once"
        paths = tuple(each.base_file.path for each in to_sort if each.base_file is not None)
        yield ChangeStep(StepKind.SORTING, why, subjects=paths, bytes=sum(each.base_bytes for each in to_sort))
    slices = (slice_ for group in snapshot.file_groups for slice_ in group.read_slices)
    live = [each.base_file for each in slices if each.base_file is not None]
    if live:
        why = "of each base file, or of what takes its place, the keys are read before the table says that it is sorted"
        size = sum(each.size for each in live)
        yield ChangeStep(StepKind.VERIFICATION, why, subjects=tuple(each.path for each in live), bytes=size)


def find_unknown(snapshot: TableSnapshot, orders: Mapping[BaseFile, FileOrder]) -> tuple[BaseFile, ...]:
    """The base files that were not there when orders were looked at."""
    return tuple(each for each in files_to_check(snapshot) if each not in orders)


def _to_keep(snapshot: TableSnapshot) -> Iterator[FileSlice]:
    """The newest slices of file groups that are not to be merged."""
    for group in snapshot.file_groups:
        if group.latest_slice is not None and not _is_to_merge(snapshot, group):
            yield group.latest_slice


def _is_to_merge(snapshot: TableSnapshot, group: FileGroup) -> bool:
    group_id = (group.partition_path, group.file_id)
    is_planned = group_id in snapshot.pending_compactions or group_id in snapshot.pending_log_compactions
    return is_planned or any(not log.name.is_cdc for slice_ in group.read_slices for log in slice_.log_files)


def _check(snapshot: TableSnapshot, failed: Sequence[str], orders: Mapping[BaseFile, FileOrder]) -> None:
    """Raises `Refused` for what only the operator can clear away."""
    if not snapshot.config.version.has_native_logs:
        raise Refused(
            f"{snapshot.base_path} cannot become {LSM_TREE}: it has version {snapshot.config.version}.",
            why="Tables have this layout from version 10 on, whose logs are files of the base files' format.",
            remedy="Run `lakeward table upgrade --to 10` first; nothing was changed.",
        )
    repeated = [
        f"{file.path}: {order.repeated!r}"
        for file in files_to_check(snapshot)
        if (order := orders.get(file, _SORTED)).repeated is not None
    ]
    if repeated:
        raise Refused(
            f"{snapshot.base_path} cannot become {LSM_TREE}: in {len(repeated)} base files a key is in several rows.",
            why="Queries find all of them now; in that layout the next log on the file would fold them into one. "
            f"{_shown(repeated)}.",
            remedy="Read such a partition, and write it with insert_overwrite and --deduplicate.",
        )
    ended = set(failed)
    obstacles = [
        f"{'/'.join(part for part in (each.partition_path, each.file_id) if part)}: {each.why}"
        for each in snapshot.frozen
    ]
    obstacles += [
        f"{'/'.join(part for part in group_id if part)}: clustering {instant} is pending on it"
        for group_id, instant in sorted(snapshot.pending_clusterings.items())
        if instant not in ended
    ]
    if obstacles:
        raise Refused(
            f"{snapshot.base_path} keeps its layout: of {len(obstacles)} file groups it is not certain what they hold.",
            why=f"{_shown(obstacles)}.",
            remedy="See `lakeward inspect`; have a pending clustering carried out or rolled back, and restore damaged "
            "files. Then give the command again.",
        )


def _shown(each: Sequence[str]) -> str:
    more = f"; and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
    return f"{'; '.join(each[:_SHOWN])}{more}"

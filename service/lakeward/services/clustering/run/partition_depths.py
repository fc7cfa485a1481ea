"""What filters on columns read of partitions, by the ranges of the columns in their file groups.

Touches: storage, reading: column_stats of the metadata table, or footers.
Keeps:   what cannot be read is not known, and no error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError
from lakeward.scan.column_ranges import column_ranges, measured_columns
from lakeward.scan.layout_depth import GroupRange, estimate_clustering, measure_depth
from lakeward.services.clustering.plan.depth_rule import PartitionDepth
from lakeward.services.clustering.plan.layout import ClusterMode
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def partition_depths(
    storage: Storage,
    snapshot: TableSnapshot,
    options: PackOptions,
    partitions: Collection[str],
    *,
    runs: Mapping[str, int],
    clock: Clock,
) -> dict[str, PartitionDepth]:
    """The figures of each of these partitions that has file groups.

    Args:
        options: with the layout that fits the table.
        runs: how many clusterings laid out file groups that are there, by partition.
    """
    layout = options.layout
    # A filter on a later column of a sort is not what it is for.
    columns = layout.columns[:1] if layout.mode is ClusterMode.SORT else layout.columns
    groups = tuple(each for each in snapshot.file_groups if each.partition_path in partitions)
    by_column = _ranges(storage, replace(snapshot, file_groups=groups), columns, clock)
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for each in snapshot.latest_slices:
        if each.partition_path in partitions:
            sizes[each.partition_path].append(each.bytes)
    found = {}
    for path, of in sizes.items():
        read = {column: _reads(ranges[path]) for column, ranges in by_column.items() if path in ranges}
        known = {column: reads for column, reads in read.items() if reads is not None}
        column = max(known, key=lambda each: known[each], default=columns[0])
        best = estimate_clustering([(path, size) for size in of], len(columns), options.target_bytes).groups_read
        found[path] = PartitionDepth(
            groups=len(of),
            small=sum(size < options.enough_bytes for size in of),
            column=column,
            reads=known.get(column),
            best=best,
            runs=runs.get(path, 0),
            fits=sum(of) <= options.together_bytes,
        )
    return found


def _ranges(
    storage: Storage, snapshot: TableSnapshot, columns: Collection[str], clock: Clock
) -> dict[str, dict[str, list[GroupRange]]]:
    """The ranges of each column in each partition."""
    try:
        measured = column_ranges(storage, snapshot, measured_columns(snapshot, tuple(columns)), clock=clock)
    except LakewardError:
        return {}
    found: dict[str, dict[str, list[GroupRange]]] = {}
    for column, ranges in measured.of_column.items():
        for each in ranges:
            found.setdefault(column, {}).setdefault(each.partition_path, []).append(each)
    return found


def _reads(ranges: list[GroupRange]) -> float | None:
    depth = measure_depth(ranges)
    return None if depth is None else depth.groups_read

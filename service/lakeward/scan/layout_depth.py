"""How well a table's files separate the values of a column: ranges in, depth and overlap out.

    file group 1   a --------- g                 depth of a file group: how many hold one value of it at most, itself
    file group 2        d ------------ m         included; here 3, 3, 3, 2
    file group 3             f -- h              overlap: how many others share a value with it; here 2, 3, 2, 1
    file group 4                     l ---- z

A filter on one value reads the file groups whose ranges hold it. The ends of the ranges are values that the column
really has, so the mean over all ends says what such a filter reads. File groups of different partitions are apart.

Touches: nothing.
Keeps:   1. depth and overlap are those of comparing each pair of file groups of a partition;
         2. a file group whose range is not known counts as one that holds every value.
Source:  average depth and average overlaps of Snowflake's clustering information
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupRange:
    """The values of a column in a file group."""

    partition_path: str
    bytes: int
    ends: tuple[Any, Any] | None
    """The smallest and the greatest value; None where they are not known."""


@dataclass(frozen=True, slots=True)
class ColumnDepth:
    groups: int
    known: int
    """File groups whose range is known."""
    mean_depth: float
    depth_max: int
    mean_overlap: float
    histogram: tuple[tuple[int, int], ...]
    """The greatest depth of each class, a power of two, and the file groups in it; classes are there up to the last one
    with any."""
    groups_read: float
    """The file groups of a partition that a filter on one value reads, on average,"""
    groups_of: float
    """and those that the partition has."""
    bytes_share: float
    """The share of the partition's bytes that they are."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """What clustering whole partitions by columns would cost and give, at best."""

    bytes: int
    """What it would rewrite."""
    groups_before: int
    groups_after: int
    groups_read: float
    """The file groups of a partition that a filter on a value of any of these columns would read, on average,"""
    groups_of: float
    """and those that the partition would have."""
    bytes_share: float


def estimate_clustering(sizes: Iterable[tuple[str, int]], columns: int, target_bytes: int) -> Clustering:
    """A filter on one of k columns reads n^(1 - 1/k) of n file groups that lie along a curve through all of them, if
    values are even.

    Args:
        sizes: the partition path and the bytes of each file group.
        target_bytes: the size of a file after clustering.
    """
    of_partition: defaultdict[str, list[int]] = defaultdict(list)
    for partition, size in sizes:
        of_partition[partition].append(size)
    total = np.array([sum(each) for each in of_partition.values()], dtype=np.float64)
    after = np.maximum(1, np.ceil(total / target_bytes))
    read = after ** (1 - 1 / columns)
    return Clustering(
        bytes=int(total.sum()),
        groups_before=sum(map(len, of_partition.values())),
        groups_after=int(after.sum()),
        groups_read=float(read.mean()),
        groups_of=float(after.mean()),
        bytes_share=float((read / after * total).sum() / max(1, total.sum())),
    )


def measure_depth(ranges: Sequence[GroupRange]) -> ColumnDepth | None:
    """None where no range is known. The ends must be comparable with each other."""
    partitions: defaultdict[str, list[GroupRange]] = defaultdict(list)
    for each in ranges:
        partitions[each.partition_path].append(each)
    known = sum(each.ends is not None for each in ranges)
    if not known:
        return None
    found = [_measure_partition(each) for each in partitions.values()]
    depths = np.concatenate([each.depths for each in found])
    overlaps = np.concatenate([each.overlaps for each in found])
    reads = np.concatenate([each.groups_read for each in found])
    return ColumnDepth(
        groups=len(ranges),
        known=known,
        mean_depth=float(depths.mean()),
        depth_max=int(depths.max()),
        mean_overlap=float(overlaps.mean()),
        histogram=_classes(depths),
        groups_read=float(reads.mean()),
        groups_of=float(np.concatenate([np.full(len(each.groups_read), len(each.depths)) for each in found]).mean()),
        bytes_share=float(np.concatenate([each.bytes_share for each in found]).mean()),
    )


@dataclass(frozen=True, slots=True)
class _Partition:
    depths: Numbers
    """The depths of its file groups, in any order,"""
    overlaps: Numbers
    groups_read: Numbers
    """and what a filter on each end of its ranges reads."""
    bytes_share: npt.NDArray[np.float64]


def _measure_partition(ranges: Sequence[GroupRange]) -> _Partition:
    known = [each for each in ranges if each.ends is not None]
    everywhere = [each for each in ranges if each.ends is None]
    lows, highs, places = _ranks(each.ends for each in known if each.ends is not None)
    # How many ranges hold each place, and how many bytes they have.
    count = _held(lows, highs, np.ones(len(known), dtype=np.int64), places) + len(everywhere)
    size = _held(lows, highs, np.array([each.bytes for each in known], dtype=np.int64), places)
    size += sum(each.bytes for each in everywhere)
    depths = _greatest(count, lows, highs)
    ends_before, starts_before = np.sort(highs), np.sort(lows)
    apart = np.searchsorted(ends_before, lows, "left") + len(known) - np.searchsorted(starts_before, highs, "right")
    ends = np.unique(np.concatenate([lows, highs]))
    total = max(1, sum(each.bytes for each in ranges))
    return _Partition(
        depths=np.concatenate([depths, np.full(len(everywhere), max(count, default=0) or len(everywhere))]),
        overlaps=np.concatenate([len(ranges) - 1 - apart, np.full(len(everywhere), len(ranges) - 1)]),
        groups_read=count[ends],
        bytes_share=size[ends] / total,
    )


def _ranks(ends: Iterable[tuple[Any, Any]]) -> tuple[Numbers, Numbers, int]:
    """The ends as places in the order of all of them, and how many places there are."""
    pairs = list(ends)
    order = {value: place for place, value in enumerate(sorted({value for pair in pairs for value in pair}))}
    places = np.array([[order[low], order[high]] for low, high in pairs], dtype=np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1], len(order)


def _held(lows: Numbers, highs: Numbers, weights: Numbers, places: int) -> Numbers:
    """The weight of the ranges that hold each place."""
    steps = np.zeros(places + 1, dtype=np.int64)
    np.add.at(steps, lows, weights)
    np.add.at(steps, highs + 1, -weights)
    return steps.cumsum()[:places]


def _greatest(count: Numbers, lows: Numbers, highs: Numbers) -> Numbers:
    """The greatest count from each low to its high, of two stretches whose lengths are powers of two."""
    levels = [count]
    while (step := 1 << (len(levels) - 1)) * 2 <= len(count):
        last = levels[-1]
        levels.append(np.maximum(last[:-step], last[step:]))
    found = np.zeros(len(lows), dtype=np.int64)
    of_level = np.log2(highs - lows + 1).astype(np.int64)
    for level, greatest in enumerate(levels):
        at = of_level == level
        found[at] = np.maximum(greatest[lows[at]], greatest[highs[at] + 1 - (1 << level)])
    return found


def _classes(depths: Numbers) -> tuple[tuple[int, int], ...]:
    of_class = np.ceil(np.log2(np.maximum(depths, 1))).astype(np.int64)
    return tuple((1 << at, int(groups)) for at, groups in enumerate(np.bincount(of_class)))

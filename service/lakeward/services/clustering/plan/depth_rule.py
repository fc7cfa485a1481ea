"""Choose whether bringing rows of a partition together by columns pays: what a filter reads in, a verdict out.

    what a partition shows                                               what is laid out
    a fifth of its file groups is small                                  what is new or has grown
    a filter on a value reads half as many again as it would at best,    what is new or has grown
    and one file group more at least
    eight clusterings laid it out one after the other, a filter reads    all of it
    eight file groups and four times as many as at best, and all of it
    is laid out at once
    its statistics are not known                                         what is new or has grown
    else                                                                 nothing

Each clustering lays out what came since the last one, so ranges overlap by one file group for each of them. What one
run lays out together has no such overlaps left, whatever the values are.

Touches: nothing.
Keeps:   1. all of a partition is laid out again only after eight clusterings of parts of it, so what clustering cannot
            make better (a value that fills many file groups) is not tried for ever;
         2. nothing is laid out that a filter would read as much of afterwards, but for many small file groups;
         3. each verdict names the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lakeward.base.quantities import format_share
from lakeward.services.clustering.plan.pack_plan import PackPlan, PackReason

SMALL_SHARE = 0.2
READS_MORE = 1.5
RUNS_MANY = 8
READS_MANY = 8.0
READS_TIMES = 4.0


class Pays(StrEnum):
    NEW = "new"
    """What is new or has grown is laid out."""
    ALL = "all"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class PartitionDepth:
    """How well the file groups of a partition separate the values of the columns."""

    groups: int
    small: int
    """They have less than 75 % of the target."""
    column: str
    """The one by which a filter reads most,"""
    reads: float | None
    """and so many file groups, on average over the values; None where no range is known."""
    best: float
    """So many it would read if all of the partition was laid out together."""
    runs: int
    """Clusterings that laid out file groups which are there."""
    fits: bool
    """All of it is laid out together in one run."""


@dataclass(frozen=True, slots=True)
class DepthVerdict:
    pays: Pays
    why: str


def judge_depth(depth: PartitionDepth) -> DepthVerdict:
    groups = f"{depth.groups:,} file group" + ("s" if depth.groups != 1 else "")
    if depth.reads is None:
        return DepthVerdict(Pays.NEW, f"no statistics say what a filter reads of {groups}")
    reads = f"a filter on {depth.column} reads {depth.reads:,.1f} of {groups}, {depth.best:,.1f} at best"
    is_deep = depth.reads >= max(READS_MANY, READS_TIMES * depth.best)
    if is_deep and depth.runs >= RUNS_MANY and depth.fits:
        return DepthVerdict(Pays.ALL, f"{reads}, after {depth.runs:,} clusterings of parts")
    if depth.small >= SMALL_SHARE * depth.groups:
        return DepthVerdict(Pays.NEW, f"{format_share(depth.small / max(1, depth.groups))} are small; {reads}")
    if depth.reads >= max(depth.best + 1, depth.best * READS_MORE):
        return DepthVerdict(Pays.NEW, reads)
    return DepthVerdict(Pays.NOTHING, reads)


def what_pays(new: PackPlan, whole: PackPlan, verdicts: Mapping[str, DepthVerdict]) -> PackPlan:
    """The two plans in one, by the verdicts.

    Args:
        new: lays out what is new or has grown, in all partitions.
        whole: lays out all of the partitions of which all is to be.
        verdicts: by partition path, of those in which something would be laid out.
    """
    entire = {path for path, verdict in verdicts.items() if verdict.pays is Pays.ALL}
    left = {path: verdict for path, verdict in verdicts.items() if verdict.pays is Pays.NOTHING}
    packed = [each for each in new.packed if each.partition_path not in entire and each.partition_path not in left]
    decisions = [each for each in new.decisions if each.partition_path not in entire]
    decided = [
        replace(each, reason=PackReason.SEPARATED, why=left[each.partition_path].why)
        if each.reason is PackReason.PACKED and each.partition_path in left
        else each
        for each in decisions
    ]
    ordered = sorted([*decided, *whole.decisions], key=lambda each: (each.partition_path, each.file_id))
    return PackPlan((*whole.packed, *packed), tuple(ordered))

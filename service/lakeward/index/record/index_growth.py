"""The growth of a record index past the buckets that it was made with: RFC-08's two ways, each with its reason.

    GROUP    a further group of buckets is opened, with a hash of its own. New entries go to it; a key is looked for in
             its bucket of each group, the newest first. It has as many buckets as all before it together, so that
             groups stay few: an index that grew tenfold has five
    SEAL     a bucket's file group is sealed when it is full, and the bucket gets another one. A key stays in its
             bucket, and is looked for in all file groups of it, the newest first

A full file group is one that has `entries_max`. Entries that were shadowed since count: they are in the file.

Touches: nothing.
See:     docs/decisions/0079-how-the-record-index-grows.md
Source:  RFC-08, scaling of buckets
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.quantities import format_share


class ScalingWay(StrEnum):
    GROUP = "group"
    SEAL = "seal"


@dataclass(frozen=True, slots=True)
class Scaling:
    way: ScalingWay = ScalingWay.GROUP
    entries_max: int = 1_000_000
    """Entries that a file group has at most, but for those of the commit by which it got full."""
    load_max: float = 0.8
    """For GROUP alone: the mean load at which the next group of buckets is opened."""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """One group of buckets: the entries of each bucket's open file group, by bucket."""

    group: int
    entries: Sequence[int]

    def mean_load(self, scaling: Scaling) -> float:
        """The mean share of what open file groups may have; 1 is full."""
        return sum(self.entries) / (len(self.entries) * scaling.entries_max)

    def max_load(self, scaling: Scaling) -> float:
        return max(self.entries) / scaling.entries_max


@dataclass(frozen=True, slots=True)
class IndexLoad:
    """How full an index is: the open file groups of its newest group of buckets, to which entries go; 1 is full."""

    mean: float
    fullest: float
    """The fullest bucket: keys that are spread badly show here first."""


@dataclass(frozen=True, slots=True)
class Seal:
    group: int
    bucket: int
    reason: str


@dataclass(frozen=True, slots=True)
class OpenGroup:
    group: int
    """The number of the new group."""
    buckets: int
    reason: str


def grow(groups: Sequence[GroupLoad], scaling: Scaling) -> tuple[Seal, ...] | OpenGroup | None:
    """What is to be done before more is written; None where there is room.

    Args:
        groups: from the first on; the newest one is what is written to.
    """
    newest = groups[-1]
    if scaling.way is ScalingWay.SEAL:
        seals = tuple(
            Seal(newest.group, bucket, f"{entries:,} entries of {scaling.entries_max:,}")
            for bucket, entries in enumerate(newest.entries)
            if entries >= scaling.entries_max
        )
        return seals or None
    mean = newest.mean_load(scaling)
    if mean >= scaling.load_max:
        reason = f"mean load {format_share(mean)} of {format_share(scaling.load_max)}"
    elif newest.max_load(scaling) >= 1:
        full = max(range(len(newest.entries)), key=newest.entries.__getitem__)
        reason = f"bucket {full} has {newest.entries[full]:,} entries of {scaling.entries_max:,}"
    else:
        return None
    return OpenGroup(newest.group + 1, sum(len(each.entries) for each in groups), reason)

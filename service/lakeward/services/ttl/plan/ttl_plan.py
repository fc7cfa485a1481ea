"""Choose which partitions expire: a table snapshot and ages in, a decision with its reason for each partition out.

    partition                                              becomes
    not selected, or of a table without partitions         left alone
    its age is not known, or is less than `keep`           kept
    a plan, savepoint or frozen file group names it        kept, until that is over
    else                                                   expired, the oldest first, up to a number at once

Touches: nothing.
Keeps:   1. a partition that a pending plan or a savepoint names, or with a file group that is not known, never expires;
         2. one whose age is not known never expires, nor does that of a table without partitions;
         3. no more expire at once than the number, the oldest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.quantities import format_duration, format_time
from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


class TtlReason(StrEnum):
    """Why a partition expires, or does not. Scripts match on these."""

    EXPIRED = "expired"
    YOUNG = "young"
    UNKNOWN = "age-unknown"
    PENDING = "pending-work"
    SAVEPOINT = "savepoint"
    FROZEN = "frozen"
    SET_ASIDE = "set-aside"
    OVER_THE_CAP = "over-the-cap"


@dataclass(frozen=True, slots=True)
class TtlDecision:
    partition_path: str
    since: float | None
    """From when its age counts, in seconds since the epoch; None where that is not known."""
    file_groups: int
    bytes: int
    reason: TtlReason
    why: str


@dataclass(frozen=True, slots=True)
class TtlPlan:
    decisions: tuple[TtlDecision, ...]

    @property
    def expired(self) -> tuple[TtlDecision, ...]:
        return tuple(each for each in self.decisions if each.reason is TtlReason.EXPIRED)

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(each.partition_path for each in self.expired)

    @property
    def next_at(self) -> float | None:
        """From when the age of the next partition counts that is too young."""
        return min(
            (each.since for each in self.decisions if each.reason is TtlReason.YOUNG and each.since), default=None
        )


@dataclass(frozen=True, slots=True)
class TtlReport:
    plan: TtlPlan
    instant: str | None = None
    """None where nothing had expired."""
    completion_time: str | None = None
    first_at: float | None = None
    """When they may be deleted first, in seconds since the epoch, where a notice keeps them until then."""


def plan_ttl(
    snapshot: TableSnapshot,
    ages: Mapping[str, float | None],
    options: TtlOptions,
    *,
    now: float,
    excluded: Collection[GroupId] = (),
) -> TtlPlan:
    """
    Args:
        ages: from when the age of each partition that is looked at counts.
        excluded: file groups that are parked or paused.
    """
    assert options.keep is not None, "there is nothing to plan without"
    held = _held(snapshot, excluded)
    groups, sizes = dict.fromkeys(ages, 0), dict.fromkeys(ages, 0)
    for slice_ in snapshot.latest_slices:
        if slice_.partition_path in ages:
            groups[slice_.partition_path] += 1
            sizes[slice_.partition_path] += slice_.bytes
    decisions = []
    expired = 0
    for path in sorted(ages, key=lambda each: (ages[each] is None, ages[each], each)):
        if not groups[path] and path not in held:
            continue  # its rows are gone already
        reason, why = _reason(ages[path], held.get(path), options, now)
        if reason is TtlReason.EXPIRED:
            expired += 1
            if expired > options.partitions_max:
                reason, why = TtlReason.OVER_THE_CAP, f"{options.partitions_max:,} older ones go first"
        decisions.append(TtlDecision(path, ages[path], groups[path], sizes[path], reason, why))
    return TtlPlan(tuple(sorted(decisions, key=lambda each: each.partition_path)))


def _reason(
    since: float | None, held: tuple[TtlReason, str] | None, options: TtlOptions, now: float
) -> tuple[TtlReason, str]:
    assert options.keep is not None
    if since is None:
        return TtlReason.UNKNOWN, f"when it counts from is not known ({options.by})"
    age = f"{options.by} {format_time(since)}"
    if now - since <= options.keep:
        return TtlReason.YOUNG, f"{age}, kept until {format_time(since + options.keep)}"
    if held is not None:
        return held
    return TtlReason.EXPIRED, f"{age}, more than {format_duration(options.keep)} ago"


def _held(snapshot: TableSnapshot, excluded: Collection[GroupId]) -> Mapping[str, tuple[TtlReason, str]]:
    found: dict[str, tuple[TtlReason, str]] = {}
    plans = (
        (snapshot.pending_compactions, "compaction"),
        (snapshot.pending_log_compactions, "log compaction"),
        (snapshot.pending_clusterings, "clustering"),
    )
    for path, _ in excluded:
        found[path] = TtlReason.SET_ASIDE, "a file group of it is parked or paused"
    for frozen in snapshot.frozen:
        found[frozen.partition_path] = TtlReason.FROZEN, f"file group {frozen.file_id}: {frozen.why}"
    for planned, what in plans:
        for (path, _), instant in planned.items():
            found[path] = TtlReason.PENDING, f"{what} {instant} is planned over it"
    pinned: dict[str, list[str]] = defaultdict(list)
    for instant, paths in snapshot.savepointed.items():
        for folder in {path.rpartition("/")[0] for path in paths}:
            pinned[folder].append(instant)
    for path, instants in pinned.items():
        found[path] = TtlReason.SAVEPOINT, f"savepoint {min(instants)} needs files of it"
    return found

"""Which writes landed since a write began and meet it, by Hudi's rules: then the write fails, and nothing of it stays.

A write remembers two things when it begins: *last*, of the completed writes the one with the greatest requested time,
and what was pending. When it commits, candidates are

    (a) completed writes with a requested time after *last*; on a table that is merged on read no compaction
    (b) pending clusterings, and other pending replacecommits that were requested after the write
    (c) what was pending then, and is completed now

A candidate meets the write where both name a file group, by what they wrote and what they replaced; of buckets, where
both name the bucket, whatever the group's id. A compaction that was requested before the write meets nothing.

New groups meet none, so two writers that insert one new key at a time leave two rows of it, as Hudi's do, unless
buckets or the record index place it.

Touches: nothing.
Keeps:   1. what completed since the write began, and names a file group that it names, is found;
         2. a compaction of a table that is merged on read is none, as for Hudi's own writers.
Source:  SimpleConcurrentFileWritesConflictResolutionStrategy, TransactionUtils,
         BucketIndexConcurrentFileWritesConflictResolutionStrategy (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lakeward.format.timeline.instant import Instant, is_before
from lakeward.index.simple_bucket import BUCKET_DIGITS
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_REMEMBERED = frozenset({*WRITE_ACTIONS, "clustering", "compaction"})
_COMPACT = "COMPACT"
_GROUP_DIGITS = 7
"""The most that the number has behind the last `-` of a file id; what is longer belongs to its uuid."""


@dataclass(frozen=True, slots=True)
class SeenAtStart:
    """What a write remembers of the timeline."""

    last: str | None
    """The greatest requested time of a completed write; None where there is none."""
    pending: frozenset[str]

    @classmethod
    def of(cls, timeline: Timeline) -> SeenAtStart:
        last = None
        for each in timeline.completed_writes:
            if last is None or is_before(last, each.time):
                last = each.time
        return cls(last, frozenset(each.time for each in timeline.pending if each.action in _REMEMBERED))


@dataclass(frozen=True, slots=True)
class Touched:
    """What another instant says that it touched."""

    groups: frozenset[GroupId]
    operation_type: str | None = None


@dataclass(frozen=True, slots=True)
class WriteConflict:
    """Another instant that names a file group of Lakeward."""

    instant: str
    action: str
    group: GroupId


def find_conflict(
    timeline: Timeline,
    seen: SeenAtStart,
    own: str,
    groups: Collection[GroupId],
    *,
    is_merge_on_read: bool,
    by_bucket: bool,
    touched: Callable[[Instant], Touched],
) -> WriteConflict | None:
    """The first that meets this write; None where none does.

    Args:
        timeline: as it is under the lock, with this write pending.
        groups: what this write wrote to or replaced.
        by_bucket: groups are distinguished by their buckets.
        touched: reads what a candidate touched.
    """
    mine = {_comparable(group, by_bucket=by_bucket): group for group in groups}
    for candidate in _candidates(timeline, seen, own, is_merge_on_read=is_merge_on_read):
        written = touched(candidate)
        if written.operation_type == _COMPACT and is_before(candidate.time, own):
            continue
        met = mine.keys() & {_comparable(group, by_bucket=by_bucket) for group in written.groups}
        if met:
            return WriteConflict(candidate.time, candidate.action, mine[min(met)])
    return None


def _candidates(timeline: Timeline, seen: SeenAtStart, own: str, *, is_merge_on_read: bool) -> Iterator[Instant]:
    for each in timeline.completed_writes:
        is_new = seen.last is None or is_before(seen.last, each.time)
        is_compaction = is_merge_on_read and each.comparable_action == "commit"
        if each.time in seen.pending or (is_new and not is_compaction):
            yield each
    for each in timeline.pending:
        if each.time == own:
            continue
        if each.action == "clustering" or (each.action == "replacecommit" and is_before(own, each.time)):
            yield each


def _comparable(group: GroupId, *, by_bucket: bool) -> GroupId:
    """Without the number behind the last `-`, which some writers leave out."""
    partition_path, file_id = group
    if by_bucket:
        return (partition_path, file_id[:BUCKET_DIGITS])
    head, dash, tail = file_id.rpartition("-")
    return (partition_path, head if dash and len(tail) <= _GROUP_DIGITS and tail.isdigit() else file_id)

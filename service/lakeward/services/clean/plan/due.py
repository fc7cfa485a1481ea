"""When a clean is due: once slices could have gone for a number of commits, and none was cleaned since.

Writers that clean by themselves do so at each commit, by Hudi's default. A Lakeward clean beside those gains nothing,
and both could complete one clean at the same moment. So Lakeward waits for as long as they would not have left
anything: what is dead now must have been dead `after` commits ago.

    cheap       enough commits since the newest clean, or since the last time that this was asked? By the timeline
    then        commits: with so many more retained, is anything dead?
                hours: was it, when the commit of so many ago began?
                versions: is the slice that pushed it out so many commits old?

Touches: nothing.
Keeps:   1. what is overdue is dead by the policy itself;
         2. with `after` 1 everything is overdue that is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from lakeward.format.timeline.instant import comparable_time, parse_instant_time
from lakeward.services.clean.plan.decision import CleanOutcome, SliceDecision, SourceDecision
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.reader_protection import Watermark
from lakeward.table.file_system_view import GroupId
from lakeward.table.quarantine import QuarantinedRun
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline

FOREIGN_QUIET_SECONDS = 3600.0
"""A clean of another engine is taken up when its files on the timeline are that old, by the clock of this machine."""


def newest_clean(timeline: Timeline) -> str:
    """The instant of the newest completed clean of any engine; empty without any."""
    return max((each.time for each in timeline.completed if each.action == "clean"), default="")


def find_overdue(
    snapshot: TableSnapshot,
    policy: CleanPolicy,
    *,
    after: int,
    now: float,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
    reader_window: float = 0.0,
    watermarks: Sequence[Watermark] = (),
    left_in_place: Mapping[str, QuarantinedRun] | None = None,
    retires_by_anchors: bool = False,
) -> tuple[SliceDecision | SourceDecision, ...]:
    """The slices that could have gone for `after` commits, this one included, and the logs that could have retired; the
    rest as for `plan_clean`."""
    match policy.kind:
        case CleanPolicyKind.COMMITS:
            policy = replace(policy, retain=policy.retain + after - 1)
        case CleanPolicyKind.HOURS:
            commits = snapshot.timeline.completed_writes
            if len(commits) < after:
                return ()
            if after > 1:
                now = min(now, parse_instant_time(commits[-after].time, snapshot.zone.of_ages) / 1000)
    outcome = plan_clean(
        snapshot,
        policy,
        now=now,
        partitions=partitions,
        excluded=excluded,
        reader_window=reader_window,
        watermarks=watermarks,
        left_in_place=left_in_place or {},
        retires_by_anchors=retires_by_anchors,
    )
    if policy.kind is CleanPolicyKind.VERSIONS and after > 1:
        return _pushed_out_before(snapshot, outcome, after)
    return (*outcome.dead, *outcome.retiring)


def _pushed_out_before(snapshot: TableSnapshot, outcome: CleanOutcome, after: int) -> tuple[SliceDecision, ...]:
    commits = snapshot.timeline.completed_writes
    if len(commits) < after:
        return ()
    limit = comparable_time(commits[-after].time)
    slices = {
        (group.partition_path, group.file_id): [each for each in group.slices if not each.is_empty]
        for group in snapshot.file_groups
    }
    found = []
    for decision in outcome.dead:
        of = slices.get(decision.slice.group_id)
        by = snapshot.replaced.get(decision.slice.group_id, "")
        if of is not None:
            newer = [
                each for each in of if comparable_time(each.base_instant) > comparable_time(decision.slice.base_instant)
            ]
            by = newer[-outcome.policy.retain].base_instant if len(newer) >= outcome.policy.retain else ""
        if by and comparable_time(by) <= limit:
            found.append(decision)
    return tuple(found)

"""When to plan: Hudi's five triggers, asked of a whole table, and the same five of one file group.

    NUM_COMMITS                      enough delta commits since the last plan
    NUM_COMMITS_AFTER_LAST_REQUEST   enough since the last plan was requested, done or not
    TIME_ELAPSED                     enough time since the last plan
    NUM_AND_TIME, NUM_OR_TIME        both, either of NUM_COMMITS and TIME_ELAPSED

A plan is a compaction (`commit`, hybrid ones too) or a log compaction, of any engine. To Hudi 1.2 the latter is one
more delta commit and ends no count, so that a table in which LOG does for a while would be due at each commit. All else
is Hudi's, to the edge: a plan counts once it is completed; delta commits count if they completed after it was
*requested* (after a request: if they were requested later, pending ones included); time runs from its request, in whole
seconds; where there was none, all delta commits count, and time runs from the first.

For a file group: the writes that have a log in its latest slice, and the time since the slice's base instant. Outputs
of log compaction count for neither.

Touches: nothing.
Source:  ScheduleCompactionActionExecutor.needCompact and CompactionUtils, Hudi 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import comparable_time, parse_instant_time
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.table.timeline.timeline import Timeline


class Ages:
    """Seconds between an instant and the plan's. Remembers them: a table has many files and few instants."""

    def __init__(self, at: str, zone: tzinfo) -> None:
        self._zone = zone
        self._at_seconds = parse_instant_time(at, zone) // 1000
        self._known: dict[str | None, int] = {None: 0}

    def seconds_since(self, instant: str | None) -> int:
        """Whole seconds, both moments rounded down as Hudi does; 0 for instants that are no moment in time."""
        seconds = self._known.get(instant)
        if seconds is None:
            assert instant is not None, "None is known"
            try:
                seconds = self._at_seconds - parse_instant_time(instant, self._zone) // 1000
            except BrokenFile:
                seconds = 0
            self._known[instant] = seconds
        return seconds

    def moment(self, seconds: int) -> int:
        """When something was that is so many seconds old, in seconds since the epoch."""
        return self._at_seconds - seconds


class TriggerStrategy(StrEnum):
    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


_TWO_CONDITIONS = (TriggerStrategy.NUM_AND_TIME, TriggerStrategy.NUM_OR_TIME)


@dataclass(frozen=True, slots=True)
class Trigger:
    strategy: TriggerStrategy = TriggerStrategy.NUM_COMMITS
    """`hoodie.compact.inline.trigger.strategy`"""
    delta_commits: int = 5
    """`hoodie.compact.inline.max.delta.commits`"""
    seconds: int = 3600
    """`hoodie.compact.inline.max.delta.seconds`"""

    @property
    def counts_commits(self) -> bool:
        return self.strategy is not TriggerStrategy.TIME_ELAPSED

    @property
    def counts_seconds(self) -> bool:
        return self.strategy in (TriggerStrategy.TIME_ELAPSED, *_TWO_CONDITIONS)

    @property
    def conditions(self) -> int:
        """How many of what it counts must be reached."""
        return 2 if self.strategy is TriggerStrategy.NUM_AND_TIME else 1


@dataclass(frozen=True, slots=True)
class Firing:
    """The result of a trigger and what it rests on."""

    fires: bool
    delta_commits: int
    seconds: int


def table_fires(trigger: Trigger, timeline: Timeline, ages: Ages) -> Firing:
    """Whether the table as a whole is due."""
    log_compactions = {i.time for i in timeline.instants if i.action == "logcompaction"}
    plans = [i.time for i in timeline.completed if i.action == "commit" or i.time in log_compactions]
    deltas = [i for i in timeline.completed if i.action == "deltacommit" and i.time not in log_compactions]
    requests = [i.time for i in (*deltas, *timeline.pending) if i.action == "deltacommit"]
    if trigger.strategy is TriggerStrategy.NUM_COMMITS_AFTER_LAST_REQUEST:
        requested = [i.time for i in timeline.pending if i.action in ("compaction", "logcompaction")]
        since = _newest(requested) or _newest(plans)
        times = requests
    else:
        since = _newest(plans)
        times = [i.completion_time or i.time for i in deltas]
    if since is None and not requests:
        return Firing(False, 0, 0)
    count = sum(since is None or comparable_time(time) > comparable_time(since) for time in times)
    return _fire(trigger, count, ages.seconds_since(since or min(requests, key=comparable_time)))


def group_fires(trigger: Trigger, profile: SliceProfile, ages: Ages) -> Firing:
    """Whether one file group is due. A group whose compaction is requested is not asked, so a request is the base."""
    return _fire(trigger, profile.delta_commits, ages.seconds_since(profile.slice.base_instant))


def _fire(trigger: Trigger, count: int, seconds: int) -> Firing:
    reached = (trigger.counts_commits and count >= trigger.delta_commits) + (
        trigger.counts_seconds and seconds >= trigger.seconds
    )
    return Firing(reached >= trigger.conditions, count, seconds)


def _newest(times: list[str]) -> str | None:
    return max(times, key=comparable_time, default=None)

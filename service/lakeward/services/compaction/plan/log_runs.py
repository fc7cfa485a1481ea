"""Which logs of a slice a LOG operation may take: a run of neighbours, ending before any write that may still come
between, and not beginning with what would be written again for little.

The output of log compaction stands at the place of its newest source. A write that is pending now keeps its own
place, given by its instant, whenever it completes:

    t10 log A         t15 a writer starts, still pending         t20 log B
    LOG over A B would stand at t20. When t15 completes its rows belong between A and B, and would come before both.

So the run ends before the smallest pending write that may touch the file group.

Where it starts decides what is written. A run that always started at the oldest log would write the output of the LOG
before once more each time, and bytes would grow with the square of the commits. So a run starts behind the logs that
are larger than all that comes after them:

    live logs (MiB)    40   9   1 1 1 1 1     the run: the five of 1, then later 9 with what happened to them

Each byte is then written once more only when its log at least doubles, a few times in the life of a slice.

By commit time the last record of a key wins, wherever a run starts. By event time a fold is the greatest of all,
wherever it starts, as long as no delete wins whatever its ordering value: with such a delete in the run, or before a
run that has deletes of its own, only a run from the oldest log is right. The planner does not see that;
`read/logs/log_deletes.py` looks, and the planner gets the groups that are to be taken *whole*. So are all in the hybrid
form, whose LOG may be carried out as FULL by another engine, and all where LOG is asked for at once.

What one write left in a slice has one place, and is one thing to a run: an output stands for instants, not for files.
Of inline logs there are several where the first one became too large; of native ones rows and deletes are a file each,
and so they are of an output.

    live logs     t10 (1 GiB)  t10 (1 MiB)  t20  t30      a run from the second one on would hide the rows of the first

Touches: nothing.
Keeps:   1. the logs of a run are neighbours, by their places, and none can be written between them;
         2. an output of log compaction is in a run together with all logs it stands for, which readers need to see;
         3. where there is a choice, the first write of a run of several is no larger than all others together;
         4. a run has all logs of a write, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from lakeward.format.timeline.instant import comparable_time
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.table.file_group import LogFile
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import COMMIT_TIME_ORDERING, TableConfig
from lakeward.table.timeline.timeline_reader import WriteProfile

WRITES_MIN = 2
"""Writes whose logs a run has; merging those of one would change nothing."""

_WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
"""Pending actions that may end with rows in a file group. Table services have other actions, see below."""


@dataclass(frozen=True, slots=True)
class PendingWrites:
    """The writes that were pending when the snapshot was taken, oldest first."""

    instants: tuple[str, ...]
    profiles: tuple[WriteProfile | None, ...]
    """What each says of itself; None: it may touch anything."""

    def first_into(self, partition_path: str, file_id: str) -> str | None:
        """The smallest of those that may touch the file group."""
        for instant, profile in zip(self.instants, self.profiles, strict=True):
            if profile is None or profile.may_touch(partition_path, file_id):
                return instant
        return None


def pending_writes(snapshot: TableSnapshot) -> PendingWrites:
    # A clustering of older releases is requested as a replacecommit; its groups are among the pending clusterings.
    clusterings = set(snapshot.pending_clusterings.values())
    instants = sorted(
        (
            instant.time
            for instant in snapshot.timeline.pending
            if instant.action in _WRITES and instant.time not in clusterings
        ),
        key=comparable_time,
    )
    return PendingWrites(tuple(instants), tuple(snapshot.write_profiles.get(instant) for instant in instants))


def pick_prefix(profile: SliceProfile, *, before: str | None) -> tuple[LogFile, ...]:
    """The longest run of live logs whose places lie before `before`, in the order in which they are merged."""
    if before is None:
        return profile.live
    end = comparable_time(before)
    count = 0
    for log in profile.live:
        if comparable_time(profile.place(log)) >= end:
            break
        count += 1
    return profile.live[:count]


def output_ranks_last(config: TableConfig) -> bool:
    """Whether a reader may merge an output behind every write that began before it, and not in its sources' place, and
    rows would change by that: then nothing of an older instant may be pending, or be written beside it."""
    return config.is_lsm_tree or (config.version.has_hybrid_plans and config.merge_mode == COMMIT_TIME_ORDERING)


def by_place(profile: SliceProfile, logs: Sequence[LogFile]) -> list[list[LogFile]]:
    """Live logs, in the order of merging, in lists of those that have one place."""
    return [list(logs_there) for _, logs_there in groupby(logs, key=profile.place)]


def first_of_run(profile: SliceProfile, *, bytes_max: float) -> int:
    """The place among the live logs at which a run over their end starts.

    Args:
        bytes_max: no log is larger; if one of the last write is, there is no run, and the logs' end is the answer.
    """
    writes = by_place(profile, profile.live)
    start = first = len(profile.live)
    behind = 0
    for logs in reversed(writes):
        size = sum(log.size for log in logs)
        if max(log.size for log in logs) > bytes_max:
            break
        start -= len(logs)
        if size <= behind or logs is writes[-1]:
            first = start
        behind += size
    return first


def logs_ahead(profile: SliceProfile, run: Sequence[LogFile]) -> tuple[LogFile, ...]:
    """The live logs before a run; none where no log of it is live any more."""
    return profile.live[: profile.live.index(run[0])] if run else ()


def files_of_run(profile: SliceProfile, run: tuple[LogFile, ...]) -> tuple[LogFile, ...]:
    """The files that an operation over `run` names: its logs and all that they stand for, in Hudi's order."""
    if not profile.merged:
        return run
    names: set[str] = set()
    todo = list(run)
    while todo:
        name = todo.pop().name.text
        if name not in names:  # an output of outputs names them and what they stand for
            names.add(name)
            todo.extend(profile.merged.get(name, ()))
    return tuple(log for log in profile.log_files if log.name.text in names)

"""One file slice for thousands of commits, as sizes and names alone: a log a commit, a plan every fifth, what was
merged retires as the rules of cleans have it, and what a log compaction planned is known while its output is there.

    commit    a log, at the next two instants
    plan      the planner's own; a FULL leaves a base file and no log, a LOG a log as large as what it merges
    clean     logs that `find_stood_for` names, some commits after the log compaction

Output is never smaller than what it was made of, which is the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from random import Random

from lakeward.format.timeline.instant import format_instant_time
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.table.file_group import FileGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.live_logs import live_logs
from lakeward.table.retired_logs import find_stood_for
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import completed, file_group, snapshot_of

MIB = 1024**2
PLAN_EVERY = 5

VERSION_8 = {"hoodie.table.version": "8"}
VERSION_10 = {"hoodie.table.version": "10"}
LSM_TREE = VERSION_10 | {"hoodie.table.storage.layout": "LSM_TREE"}
BY_COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
PARTIAL_UPDATES = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}


@dataclass
class SliceLife:
    """What happened to the slice, and the most that it had after any commit."""

    chance: Random
    properties: dict[str, str]
    only: Choice | None = None
    retires: bool = False
    retained: int = 10
    """Commits that a clean retains, or a reader window holds."""
    is_whole: bool = False
    """A delete in its logs always wins, so that a LOG takes all of them."""
    base_bytes: int = 1024 * MIB
    log_bytes_max: int = 2 * MIB
    archived_after: int | None = None
    """The commits after which the plan of a log compaction is forgotten; None: never while its output is there."""

    commits: int = 0
    base: str = ""
    logs: dict[str, int] = field(default_factory=dict)
    log_compactions: list[tuple[int, LogCompaction]] = field(default_factory=list)
    """Each with the commit after which it came."""
    ingested: int = 0
    by_log: int = 0
    by_full: int = 0
    full: int = 0
    merges: int = 0
    files_max: int = 0
    live_max: int = 0
    bytes_max: int = 0

    def __post_init__(self) -> None:
        self.base = at_millisecond(0)
        trigger = Trigger(delta_commits=1) if self.only is Choice.LOG else None
        is_lsm_tree = self.properties.get("hoodie.table.storage.layout") == "LSM_TREE"
        options = HybridOptions(only=self.only, table_trigger=trigger, sources_retire=is_lsm_tree)
        self._generator = HybridCompactionPlanGenerator(options)

    def live(self, commits: int) -> SliceLife:
        for _ in range(commits):
            self.commits += 1
            size = self.chance.randint(1, self.log_bytes_max)
            self.logs[at_millisecond(2 * self.commits)] = size
            self.ingested += size
            if self.commits % PLAN_EVERY == 0:
                self._compact()
                if self.retires:
                    self._clean()
            group = self._group()
            known = self._known()
            self.files_max = max(self.files_max, len(self.logs))
            self.live_max = max(self.live_max, len(live_logs(group.slices[0], known).live))
            self.bytes_max = max(self.bytes_max, sum(self.logs.values()))
        return self

    @property
    def times(self) -> float:
        """How often LOG wrote each byte."""
        return self.by_log / self.ingested

    def __str__(self) -> str:
        return (
            f"LOG wrote each byte {self.times:.1f} times in {self.merges} runs, FULL "
            f"{self.by_full / self.ingested:.1f} times in {self.full}; at most {self.live_max} live logs, "
            f"{self.files_max} files, {self.bytes_max / MIB:.0f} MiB of logs"
        )

    def _group(self) -> FileGroup:
        return file_group("p", "a", base=(self.base, self.base_bytes), logs=self.logs.items())

    def _known(self) -> list[LogCompaction]:
        return [
            each
            for at, each in self.log_compactions
            if self.archived_after is None or at > self.commits - self.archived_after
        ]

    def _compact(self) -> None:
        time = at_millisecond(2 * self.commits + 1)
        snapshot = snapshot_of(
            [self._group()],
            completed(at_millisecond(2 * self.commits), "deltacommit"),
            properties=self.properties,
            log_compactions={("p", "a"): tuple(self._known())},
        )
        whole = {("p", "a")} if self.is_whole else frozenset[GroupId]()
        for operation in self._generator.generate(snapshot, at=time, whole=whole).operations:
            if operation.operation_type == Choice.FULL:
                self.by_full += self.base_bytes
                self.full += 1
                self.base, self.logs, self.log_compactions = time, {}, []
                continue
            names = operation.log_files if operation.run is None else operation.run
            is_lsm_tree = operation.run is not None
            live = {log.instant for log in live_logs(self._group().slices[0], self._known()).live}
            size = sum(self.logs[each] for each in {instant_of(name) for name in names} & live)
            self.logs[time] = size
            self.by_log += size
            self.merges += 1
            merged = LogCompaction(time, frozenset(names), ranks_last=is_lsm_tree)
            self.log_compactions.append((self.commits, merged))

    def _clean(self) -> None:
        names = [log.name.text for log in self._group().slices[0].log_files]
        completed_at = {each.instant: at for at, each in self.log_compactions}
        for name, by in find_stood_for(names, self._known()).by.items():
            if name in names and completed_at[by] <= self.commits - self.retained:
                del self.logs[instant_of(name)]
        there = self.logs.keys()
        # What is gone is looked for no more: the history is asked for plans of logs that are there.
        self.log_compactions = [each for each in self.log_compactions if each[1].instant in there]


def instant_of(name: str) -> str:
    return name.split("_")[1].split(".")[0]


def at_millisecond(number: int) -> str:
    return format_instant_time(1_767_225_600_000 + number, UTC)

"""A trace carried out again, with a planner in place of what was decided: which bytes are written and read, and when.

    each commit of the trace -> sizes of file groups -> the planner, on a snapshot of them -> its merges, at once
         between two commits -> readers pay for the logs that they meet; the planner is asked where time alone decides

Sizes after a merge are a model (`SizeModel`):

    base     what it was, and `growth` bytes for each byte of logs that was inserted; where no commit counts inserts,
             `drift` bytes for each byte
    LOG      inserts as they are; updates hit a group's rows alike, so that n bytes over rows of h bytes become
             h * (1 - e^(-n/h))

Both are measured on the compactions of the trace. `measure_fit` says how good all of it is: the compactions that were
really made, with their sizes by the model, each with the growth that was measured before it.

A merge is there at once and conflicts with nothing; for how long it would have run beside commits is counted. Files
that it replaced are kept for `KEPT_COMMITS` more commits.

Touches: nothing.
Keeps:   1. with the sizes that were, the compactions of a trace write what its commits say;
         2. a planner is asked with what was there at that moment, and what it chose is carried out before the next
            commit;
         3. the memory of a replay grows with file groups and their files, not with commits;
         4. a group is left out of a question only where the planner's answer is known: what comes out is the same.
See:     docs/decisions/0172-what-would-have-happened.md
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from operator import attrgetter

from lakeward.base.errors import Refused
from lakeward.base.estimate import Estimate
from lakeward.base.quantities import DAY_SECONDS, format_count, format_time
from lakeward.format.file_name import LogFileName
from lakeward.format.timeline.instant import Instant, State, format_instant_time, instant_file_name
from lakeward.services.compaction.plan.cost import Cost, full_cost, log_cost
from lakeward.services.compaction.plan.decision import Choice, Form, PlanOutcome, Reason
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.objective import GRID, due_from
from lakeward.services.compaction.plan.pay_back import (
    BASE_OF_LOG,
    LOOK_SECONDS,
    Cut,
    distinct_bytes,
    look_in,
    may_be_chosen,
    read_seconds,
    soonest_cuts,
)
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_of
from lakeward.services.compaction.plan.trigger import Ages, table_fires
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, TracedCommit, TracedFile
from lakeward.table.backlog import read_amplification
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile
from lakeward.table.file_system_view import GroupId, PartitionFiles
from lakeward.table.live_logs import LiveLogs
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import LoadedConfig, TableConfig
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import LogCompaction
from lakeward.table.timeline.timezone import TimelineZone, ZoneSource

TOKEN = "0-0-0"
KEPT_COMMITS = 10
"""Commits for which Hudi's cleaner keeps what was replaced (hoodie.clean.commits.retained)."""
REPLAN_SECONDS = 900.0
"""After so long the daemon plans a table again that does not change (`schedule.replan`)."""
SPANS = 48
"""Parts of a replay that figures over time are of."""
GROWTH_MAX = 4.0
WRITES_MIN = 10
"""Delta commits with logs, below which a replay says nothing about a policy."""
DELTAS_MAX = 1024
"""Delta commits that a trigger may count, where it is not given."""
_TIMES_MAX = 10_000
_STEP_EACH = 100
_UTC = TimelineZone(ZoneSource.TABLE, UTC, "hoodie.table.timeline.timezone is UTC")


def sized_snapshot(
    groups: Sequence[FileGroup],
    instants: Sequence[Instant],
    config: TableConfig,
    log_compactions: Mapping[GroupId, tuple[LogCompaction, ...]],
    files: tuple[PartitionFiles, ...] = (),
) -> TableSnapshot:
    """The snapshot of a table that exists as sizes only, as far as planners ask."""
    return TableSnapshot(
        base_path="/table",
        loaded_config=LoadedConfig(config, "hoodie.properties", backup_present=False, checksum_ok=True),
        timeline=Timeline(tuple(instants)),
        zone=_UTC,
        partitions=tuple(sorted({group.partition_path for group in groups})),
        file_groups=tuple(groups),
        frozen=(),
        uncommitted_files=(),
        unrecognised_files=(),
        links=(),
        replaced={},
        pending_compactions={},
        pending_log_compactions={},
        pending_clusterings={},
        plans={},
        schema=None,
        schema_history=None,
        latest_schema=None,
        base_file_facts=(),
        archive_problems=(),
        log_compactions=log_compactions,
        files=files,
    )


@dataclass(slots=True)
class SizeModel:
    hot_bytes: int | None = None
    """Bytes of the rows of a group that updates hit; None: all of its base, as rows of logs."""
    inserted: int = 0
    """Bytes that the logs of the FULLs before had of inserts, of updates, and by which they made bases grow."""
    updated: int = 0
    grown: int = 0

    def learn(self, merge: SizedMerge) -> None:
        if merge.choice is Choice.FULL:
            self.inserted += merge.inserted_bytes
            self.updated += merge.updated_bytes
            self.grown += merge.grown_bytes

    @property
    def growth(self) -> float:
        """Bytes of a base for each byte that was inserted by logs."""
        return _clamped(self.grown / self.inserted) if self.inserted else BASE_OF_LOG

    @property
    def drift(self) -> float:
        """The same for each byte of updates, where commits call all rows updates: some writers do not look."""
        return _clamped(self.grown / self.updated) if self.updated and not self.inserted else 0.0

    def base_bytes(self, group: SizedGroup, logs: Sequence[SizedLog]) -> int:
        """What a FULL writes."""
        inserted, updated = sum(log.insert_bytes for log in logs), sum(log.update_bytes for log in logs)
        return (group.base_bytes or 0) + round(inserted * self.growth + updated * self.drift)

    def log_bytes(self, group: SizedGroup, run: Sequence[SizedLog]) -> int:
        """What a LOG writes."""
        updates = sum(log.update_bytes for log in run)
        rows_bytes = (group.base_bytes or 0) / BASE_OF_LOG if self.hot_bytes is None else self.hot_bytes
        return round(distinct_bytes(updates, rows_bytes)) + sum(log.insert_bytes for log in run)


@dataclass(frozen=True, slots=True)
class _SizedName(LogFileName):
    """A log's name with its text, for which planners ask again and again."""

    text: str = ""


@dataclass(slots=True)
class SizedLog:
    began: int
    at: int
    size: int
    update_bytes: int
    """What was written; the output of a LOG stands for all that its sources do."""
    insert_bytes: int
    number: int
    """Keeps logs of one moment apart."""
    place: int
    """The moment at whose place readers merge it."""
    file: LogFile | None = None
    """Made where a planner is asked about the group."""


_by_name = attrgetter("at", "number")
_by_place = attrgetter("place", "at", "number")


@dataclass(slots=True)
class SizeSums:
    """What a reader of all file groups meets."""

    base_bytes: int = 0
    merged_bytes: int = 0
    """What it would read if all was merged."""
    logs: int = 0
    log_bytes: int = 0
    superseded: int = 0
    superseded_bytes: int = 0

    @property
    def opened(self) -> int:
        return self.logs + self.superseded

    @property
    def amplification(self) -> float:
        return read_amplification(read_bytes=self.base_bytes + self.log_bytes, merged_bytes=self.merged_bytes)

    def plus(self, other: SizeSums, sign: int) -> None:
        self.base_bytes += sign * other.base_bytes
        self.merged_bytes += sign * other.merged_bytes
        self.logs += sign * other.logs
        self.log_bytes += sign * other.log_bytes
        self.superseded += sign * other.superseded
        self.superseded_bytes += sign * other.superseded_bytes


@dataclass(slots=True)
class SizedGroup:
    base_at: int = 0
    base_bytes: int | None = None
    live: list[SizedLog] = field(default_factory=list)
    dead: list[SizedLog] = field(default_factory=list)
    """Logs that LOGs have merged, until the next FULL."""
    merged: list[LogCompaction] = field(default_factory=list)
    sources: dict[str, tuple[LogFile, ...]] = field(default_factory=dict)
    """The logs for which each output of a LOG stands, by its name."""
    places: dict[str, str] = field(default_factory=dict)
    """The place of each such output, where it is not its own instant."""
    sums: SizeSums = field(default_factory=SizeSums)
    """Kept up to date: a group that nothing merges has thousands of logs."""
    oldest: int | None = None
    """When the oldest log completed that is in no base yet."""
    merging: tuple[int, int] | None = None
    """From when until when the last job ran that merged it."""
    known: tuple[FileGroup, SliceProfile] | None = None
    """What planners see, as long as nothing changes."""
    is_settled: bool = False
    """The planner was asked about what is there, and its rules choose nothing."""

    def changed(self) -> None:
        self.known, self.is_settled = None, False

    def count(self) -> None:
        self.changed()
        live, dead = (sum(log.size for log in logs) for logs in (self.live, self.dead))
        base = self.base_bytes or 0
        self.sums = SizeSums(base, base or live, len(self.live), live, len(self.dead), dead)
        self.oldest = min((log.at for log in (*self.live, *self.dead)), default=None)


@dataclass(frozen=True, slots=True)
class SizedMerge:
    """A FULL or a LOG that was carried out."""

    group: int
    choice: Choice
    cost: Cost
    written_bytes: int
    inserted_bytes: int
    """What its logs had of inserts, and of updates."""
    updated_bytes: int
    grown_bytes: int
    """What a FULL's base has more than the one before."""


class SizedGroups:
    """The file groups of a table as sizes, from commit to commit."""

    def __init__(
        self, ids: Sequence[GroupId], config: TableConfig, model: SizeModel, *, deltas_max: int = DELTAS_MAX
    ) -> None:
        """
        Args:
            deltas_max: the delta commits that a trigger counts to.
        """
        self.ids, self.config, self.model = ids, config, model
        self.numbers = {group_id: number for number, group_id in enumerate(ids)}
        self.groups: dict[int, SizedGroup] = {}
        self.sums = SizeSums()
        self.commits = 0
        self.kept_bytes = 0
        """What was replaced and is not cleaned yet."""
        self._going: deque[tuple[int, int]] = deque()
        self._plans: list[Instant] = []
        self._deltas: list[Instant] = []
        self._deltas_max = max(1, deltas_max)
        self._names = 0
        self._times: dict[int, str] = {}
        self._oldest: int | None = None
        self._oldest_known = True

    @property
    def oldest(self) -> int | None:
        """When the oldest log completed that is in no base yet."""
        if not self._oldest_known:
            found = (oldest for group in self.groups.values() if (oldest := group.oldest) is not None)
            self._oldest, self._oldest_known = min(found, default=None), True
        return self._oldest

    @property
    def storage_bytes(self) -> int:
        return self.sums.base_bytes + self.sums.log_bytes + self.sums.superseded_bytes + self.kept_bytes

    def committed(self, at: int, *, is_delta: bool = True) -> None:
        """A commit completed whose files are here."""
        self.commits += 1
        while self._going and self._going[0][0] <= self.commits - KEPT_COMMITS:
            self.kept_bytes -= self._going.popleft()[1]
        if is_delta and not (self._deltas and self._deltas[-1].time == self._time(at)):  # a timeline has it once
            self._deltas.append(_completed(at, "deltacommit"))
            if len(self._deltas) > 2 * self._deltas_max:
                del self._deltas[1 : -self._deltas_max]  # the first one is where time begins for a trigger

    def write_log(self, number: int, *, began: int, at: int, update_bytes: int, insert_bytes: int) -> None:
        group = self.groups.get(number)
        if group is None:
            group = self.groups[number] = SizedGroup()
        size = update_bytes + insert_bytes
        self._names += 1
        group.live.append(SizedLog(began, at, size, update_bytes, insert_bytes, self._names, at))
        group.changed()
        if group.oldest is None or at < group.oldest:
            group.oldest = at
        if self._oldest_known and (self._oldest is None or at < self._oldest):
            self._oldest = at
        for sums in (group.sums, self.sums):
            sums.logs += 1
            sums.log_bytes += size
            if not group.base_bytes:
                sums.merged_bytes += size

    def write_base(self, number: int, *, at: int, size: int) -> None:
        """A writer's base, or a clustering's: logs that are there stay on it."""
        group = self.groups.setdefault(number, SizedGroup())
        if group.base_bytes:
            self._let_go(group.base_bytes)
        group.base_at, group.base_bytes = at, size
        self._count(group)

    def drop(self, number: int) -> None:
        """Readers see the group no more."""
        if (group := self.groups.pop(number, None)) is not None:
            sums, self._oldest_known = group.sums, False
            self._let_go(sums.base_bytes + sums.log_bytes + sums.superseded_bytes)
            self.sums.plus(sums, -1)

    def full(self, number: int, *, began: int, size: int | None = None) -> SizedMerge:
        """FULL over the logs that were complete when it began.

        Args:
            size: of the new base; None: by the model.
        """
        group = self.groups.setdefault(number, SizedGroup())
        logs = [log for log in group.live if log.at <= began]
        old_bytes, log_bytes = group.base_bytes or 0, sum(log.size for log in logs)
        cost = full_cost(base_bytes=old_bytes, log_bytes=log_bytes, logs=len(logs))
        written = self.model.base_bytes(group, logs) if size is None else size
        inserted, updated = sum(log.insert_bytes for log in logs), sum(log.update_bytes for log in logs)
        self._let_go(old_bytes + log_bytes + sum(log.size for log in group.dead))
        group.base_at, group.base_bytes = began, written
        group.live = [log for log in group.live if log.at > began]
        group.dead, group.merged, group.sources, group.places = [], [], {}, {}
        self._oldest_known = False
        self._count(group)
        return SizedMerge(number, Choice.FULL, cost, written, inserted, updated, written - old_bytes)

    def log(self, number: int, *, began: int, at: int, run: Sequence[SizedLog], size: int | None = None) -> SizedMerge:
        """LOG over live logs that are neighbours."""
        group = self.groups[number]
        cost = log_cost(run_bytes=sum(log.size for log in run), logs=len(run))
        written = self.model.log_bytes(group, run) if size is None else size
        updates, inserts = sum(log.update_bytes for log in run), sum(log.insert_bytes for log in run)
        self._names += 1
        is_lsm_tree = self.config.is_lsm_tree
        place = at if is_lsm_tree else max(log.place for log in run)
        output = SizedLog(began, at, written, updates, inserts, self._names, place)
        taken = {log.number for log in run}
        first = next(place for place, log in enumerate(group.live) if log.number == run[0].number)
        rest = [log for log in group.live if log.number not in taken]
        group.live = [*rest[:first], output, *rest[first:]]
        group.dead += run
        sources = {file.file_name: file for file in (self._file(number, log) for log in run)}
        for name in list(sources):  # an output of outputs stands for what they stand for, too
            sources |= {file.file_name: file for file in group.sources.get(name, ())}
        name = self._file(number, output).file_name
        group.sources[name] = tuple([sources[each] for each in sorted(sources)])
        if not is_lsm_tree:
            group.places[name] = self._time(place)
        group.merged.append(LogCompaction(self._time(at), frozenset(sources), ranks_last=is_lsm_tree))
        group.changed()
        for sums in (group.sums, self.sums):
            sums.logs += 1 - len(run)
            sums.log_bytes += written - cost.read_bytes
            sums.superseded += len(run)
            sums.superseded_bytes += cost.read_bytes
            if not group.base_bytes:
                sums.merged_bytes += written - cost.read_bytes
        return SizedMerge(number, Choice.LOG, cost, written, inserts, updates, 0)

    def merging(self, merges: Sequence[SizedMerge], began: int, until: int) -> None:
        """A job ran from then until then."""
        for merge in merges:
            if (group := self.groups.get(merge.group)) is not None:
                group.merging = (began, until)

    def beside(self, commit: TracedCommit) -> float:
        """Seconds for which a commit was on its way while a job merged a file group of it: the most of these."""
        longest = 0
        for file in commit.files:
            group = self.groups.get(file.group)
            if group is not None and group.merging is not None:
                began, until = group.merging
                longest = max(longest, min(until, commit.at) - max(began, commit.began))
        return longest / 1000

    def run_of(self, number: int, names: Sequence[str]) -> list[SizedLog]:
        """The live logs of these names."""
        wanted = set(names)
        return [log for log in self.groups[number].live if self._file(number, log).file_name in wanted]

    def settle(self, outcome: PlanOutcome) -> None:
        """Groups for which the rules chose nothing are not asked about again until they change."""
        for decision in outcome.decisions:
            if decision.choice is Choice.NONE and decision.reason is not Reason.OVER_BUDGET:
                self.groups[self.numbers[decision.partition_path, decision.file_id]].is_settled = True

    def carry_out_fulls(self, at: int) -> list[SizedMerge]:
        """FULL of each group that has logs."""
        done = [self.full(number, began=at) for number, group in self.groups.items() if group.live]
        if done:
            self.committed(at, is_delta=False)
            self.planned(at, is_full=True)
        return done

    def carry_out(self, outcome: PlanOutcome, at: int) -> list[SizedMerge]:
        """What a planner chose, done at that moment."""
        done = []
        for operation in outcome.operations:
            number = self.numbers[operation.partition_path, operation.file_id]
            if operation.operation_type == Choice.FULL:
                done.append(self.full(number, began=at))
            else:
                run = self.run_of(number, operation.run or operation.log_files)
                done.append(self.log(number, began=at, at=at, run=run))
        if done:
            self.committed(at, is_delta=False)
            is_full = outcome.form is Form.HYBRID or any(merge.choice is Choice.FULL for merge in done)
            self.planned(at, is_full=is_full)
        return done

    def planned(self, at: int, *, is_full: bool) -> None:
        """A compaction was requested at that moment and is done: triggers count from there."""
        time = format_instant_time(at, UTC)
        if is_full:
            self._plans = [_completed(at, "commit")]
        else:
            name = instant_file_name(time, "logcompaction", State.REQUESTED, 2)
            requested = Instant(time, "logcompaction", State.REQUESTED, None, name)
            self._plans = [requested, _completed(at, "deltacommit")]
        self._deltas = [each for each in self._deltas if each.time > time]

    def timeline(self) -> Timeline:
        """What triggers ask: the newest plan, and delta commits since."""
        return Timeline((*self._plans, *self._deltas))

    def snapshot(self, wanted: Callable[[SizedGroup], bool] = lambda group: True) -> TableSnapshot:
        """The file groups that have logs, as far as they are wanted."""
        found: list[FileGroup] = []
        merged: dict[GroupId, tuple[LogCompaction, ...]] = {}
        for number, group in self.groups.items():
            if not group.live or not wanted(group):
                continue
            if group.known is None:
                group.known = self._known(number, group)
            found.append(group.known[0])
            if group.merged:
                merged[self.ids[number]] = tuple(group.merged)
        return sized_snapshot(found, self.timeline().instants, self.config, merged)

    def profiles(self, snapshot: TableSnapshot) -> dict[GroupId, SliceProfile]:
        """The profiles of the snapshot's slices. They are what `profile_slice` finds, at a tenth of its price."""
        ids = [(group.partition_path, group.file_id) for group in snapshot.file_groups]
        known = ((group_id, self.groups[self.numbers[group_id]].known) for group_id in ids)
        return {group_id: found[1] for group_id, found in known if found is not None}

    def _known(self, number: int, group: SizedGroup) -> tuple[FileGroup, SliceProfile]:
        partition, file_id = self.ids[number]
        logs, live, dead = (
            tuple([log.file or self._file(number, log) for log in sorted(found, key=order)])
            for found, order in ((group.live + group.dead, _by_name), (group.live, _by_place), (group.dead, _by_name))
        )
        base = None
        instant = logs[0].instant
        if group.base_bytes is not None:
            instant = self._time(group.base_at)
            name = f"{file_id}_{TOKEN}_{instant}.parquet"
            base = BaseFile(file_id, instant, name, partition, group.base_bytes, TOKEN)
        slice_ = FileSlice(partition, file_id, instant, base, logs)
        outputs = frozenset([compaction.instant for compaction in group.merged])
        by_rank = bool(outputs) and self.config.is_lsm_tree
        known = LiveLogs(logs, live, group.sources, outputs, by_rank, dead, group.places)
        return FileGroup(partition, file_id, (slice_,)), profile_of(slice_, known)

    def _file(self, number: int, log: SizedLog) -> LogFile:
        if log.file is None:
            partition, file_id = self.ids[number]
            name = LogFileName(file_id, self._time(log.at), log.number, TOKEN)
            named = _SizedName(name.file_id, name.instant, name.version, TOKEN, text=name.text)
            log.file = LogFile(named, partition, log.size)
        return log.file

    def _time(self, at: int) -> str:
        """The instant of that moment. Many files have that of one."""
        time = self._times.get(at)
        if time is None:
            if len(self._times) > _TIMES_MAX:
                self._times.clear()
            time = self._times[at] = format_instant_time(at, UTC)
        return time

    def _count(self, group: SizedGroup) -> None:
        self.sums.plus(group.sums, -1)
        group.count()
        self.sums.plus(group.sums, 1)

    def _let_go(self, size: int) -> None:
        self._going.append((self.commits, size))
        self.kept_bytes += size


def _completed(at: int, action: str) -> Instant:
    time = format_instant_time(at, UTC)
    return Instant(
        time, action, State.COMPLETED, time, instant_file_name(time, action, State.COMPLETED, 2, completion_time=time)
    )


@dataclass(slots=True)
class Span:
    """Means over a part of a replay."""

    seconds: float = 0.0
    opened: float = 0.0
    """Logs that a query of all file groups opens."""
    amplification: float = 0.0
    base_bytes: float = 0.0
    log_bytes: float = 0.0
    """Logs that readers merge."""
    superseded_bytes: float = 0.0
    """Logs that a LOG has merged lie in slices until the next FULL."""
    replaced_bytes: float = 0.0
    """What a FULL, a writer or a clustering has replaced, until a clean takes it."""

    def add(self, groups: SizedGroups, seconds: float) -> None:
        self.seconds += seconds
        share, sums = seconds / self.seconds if self.seconds else 0.0, groups.sums
        self.opened += share * (sums.opened - self.opened)
        self.amplification += share * (sums.amplification - self.amplification)
        self.base_bytes += share * (sums.base_bytes - self.base_bytes)
        self.log_bytes += share * (sums.log_bytes - self.log_bytes)
        self.superseded_bytes += share * (sums.superseded_bytes - self.superseded_bytes)
        self.replaced_bytes += share * (groups.kept_bytes - self.replaced_bytes)

    @property
    def storage_bytes(self) -> float:
        return self.base_bytes + self.log_bytes + self.superseded_bytes + self.replaced_bytes


@dataclass(slots=True)
class ReplayedFigures:
    """What a policy would have written and read."""

    writer_bytes: int = 0
    clustering_bytes: int = 0
    compaction_bytes: int = 0
    compaction_read_bytes: int = 0
    fulls: int = 0
    logs: int = 0
    jobs: int = 0
    job_seconds: float = 0.0
    """Core-seconds."""
    reader_seconds: float = 0.0
    """Core-seconds for logs; reading bases costs each policy the same."""
    opened_max: int = 0
    storage_bytes_max: int = 0
    longest_job_seconds: float = 0.0
    """A job merges its file groups one after another, on one core; what happened has the time from plan to commit."""
    writes_beside: int = 0
    """Commits of writers that were on their way while a job merged a file group into which they wrote."""
    beside_seconds: float = 0.0
    """How long they were."""
    last_job_at: int | None = None
    """When the planner merged last."""
    spans: list[Span] = field(default_factory=lambda: [Span() for _ in range(SPANS)])

    @property
    def core_seconds(self) -> float:
        """Jobs and readers together."""
        return self.job_seconds + self.reader_seconds

    @property
    def service_bytes(self) -> int:
        return self.compaction_bytes + self.clustering_bytes

    @property
    def write_amplification(self) -> float:
        """Bytes that reach storage for each byte that writers wrote, themselves included."""
        return 1 + self.service_bytes / self.writer_bytes if self.writer_bytes else 1.0

    def mean(self, of: Callable[[Span], float]) -> float:
        seconds = sum(span.seconds for span in self.spans)
        return sum(of(span) * span.seconds for span in self.spans) / seconds if seconds else 0.0

    def wrote(self, commit: TracedCommit) -> None:
        size = sum(file.size for file in commit.files)
        if commit.author is CommitAuthor.WRITER:
            self.writer_bytes += size
        else:
            self.clustering_bytes += size

    def merged(self, merges: Sequence[SizedMerge], *, jobs: int) -> None:
        self.jobs += jobs
        for merge in merges:
            self.compaction_bytes += merge.written_bytes
            self.compaction_read_bytes += merge.cost.read_bytes
            self.job_seconds += merge.cost.core_seconds
            self.fulls += merge.choice is Choice.FULL
            self.logs += merge.choice is Choice.LOG


OnStep = Callable[[float], None]
"""Takes the part of a replay that is done."""


def check_is_long_enough(trace: Trace, what: str) -> None:
    """Raises `Refused`.

    Args:
        what: what was traced, for the message.
    """
    writes = sum(
        commit.author is CommitAuthor.WRITER and any(not file.is_base for file in commit.files)
        for commit in trace.replayed
    )
    if writes < WRITES_MIN:
        since = format_time(trace.begins / 1000)
        raise Refused(
            f"The timeline of {what} is too short: {format_count(writes, 'delta commit')} with logs since {since}.",
            why=f"Policies differ in when they merge; below {WRITES_MIN} delta commits none has much to decide.",
            remedy="Give a longer --last, or wait for more writes.",
        )


def replay(
    trace: Trace,
    *,
    planner: Planner | None,
    model: SizeModel,
    reads_per_day: float,
    on_step: OnStep = lambda done: None,
    counts_from: int | None = None,
    begins_merged: bool = False,
) -> ReplayedFigures:
    """What a planner would have done; or, without one, what was done, with the sizes that were.

    Args:
        reads_per_day: how often each partition is read.
        counts_from: figures are of what comes after that moment; None: after the beginning of the trace.
        begins_merged: the planner merges all logs at the beginning of the trace, which no figure counts.
    """
    trigger = None if planner is None else planner.options.trigger
    groups = SizedGroups(trace.groups, trace.config, model, deltas_max=trigger.delta_commits if trigger else 1)
    figures = ReplayedFigures()
    clock = _ManualClock(trace, groups, figures, reads_per_day)
    counted = [commit for commit in trace.commits if commit.at > trace.begins]
    before = len(trace.commits) - len(counted)
    for commit in trace.commits[:before]:
        apply_commit(groups, commit)
    if begins_merged:
        groups.carry_out_fulls(trace.begins)
        groups.planned(trace.begins, is_full=True)  # triggers count from there, also where there was no log
    for number, commit in enumerate(counted, start=before):
        if number and number % _STEP_EACH == 0:
            on_step(number / len(trace.commits))
        if counts_from is not None and commit.at > counts_from:
            figures, counts_from = clock.count_from(counts_from, planner), None
        if planner is not None:
            clock.look_until(commit.at, planner)
        clock.advance(commit.at)
        if commit.author is CommitAuthor.COMPACTION:
            if planner is None:
                merges = apply_commit(groups, commit)
                figures.merged(merges, jobs=1)
                groups.merging(merges, commit.began, commit.at)
                figures.longest_job_seconds = max(figures.longest_job_seconds, (commit.at - commit.began) / 1000)
            continue
        if commit.author is CommitAuthor.WRITER and (seconds := groups.beside(commit)) > 0:
            figures.writes_beside += 1
            figures.beside_seconds += seconds
        apply_commit(groups, commit)
        figures.wrote(commit)
        if planner is not None:
            clock.look(commit.at + 1, planner)
    if counts_from is not None:
        figures = clock.count_from(counts_from, planner)
    if planner is not None:
        clock.look_until(trace.ends, planner)
    clock.advance(trace.ends)
    return figures


class _ManualClock:
    """Moves on from one moment of a trace to the next, and readers pay for the time between."""

    def __init__(self, trace: Trace, groups: SizedGroups, figures: ReplayedFigures, reads_per_day: float) -> None:
        self._groups, self._figures = groups, figures
        self._reads_per_second = reads_per_day / DAY_SECONDS
        self._begins = self._now = trace.begins
        self._ends = trace.ends
        self._reads_superseded = trace.config.is_lsm_tree
        self._look_in = math.inf
        """Seconds after the last look until what the planner left begins to pay."""

    def count_from(self, moment: int, planner: Planner | None) -> ReplayedFigures:
        """Go on to that moment, and count from there."""
        if planner is not None:
            self.look_until(moment, planner)
        self.advance(moment)
        self._figures = ReplayedFigures()
        self._begins = moment
        return self._figures

    def advance(self, until: int) -> None:
        sums, figures = self._groups.sums, self._figures
        figures.opened_max = max(figures.opened_max, sums.opened)
        figures.storage_bytes_max = max(figures.storage_bytes_max, self._groups.storage_bytes)
        log_bytes = sums.log_bytes + (sums.superseded_bytes if self._reads_superseded else 0)
        seconds = max(0, until - self._now) / 1000
        figures.reader_seconds += read_seconds(log_bytes, sums.opened) * self._reads_per_second * seconds
        # In whole milliseconds: by fractions, the end of a span may round to its own beginning, and time stands still.
        length = max(1, self._ends - self._begins)
        while self._now < until:
            number = min(SPANS - 1, (self._now - self._begins) * SPANS // length)
            end_of_span = self._begins - (number + 1) * length // -SPANS
            end = until if number == SPANS - 1 else min(until, end_of_span)
            figures.spans[number].add(self._groups, (end - self._now) / 1000)
            self._now = end

    def look_until(self, until: int, planner: Planner) -> None:
        """Ask the planner where time alone may decide, as long as no commit does."""
        step = _seconds_between_looks(planner)
        if step is None:
            return
        while (moment := self._next_look(planner.options, step, until)) < until:
            self.advance(moment)
            self.look(moment, planner)

    def _next_look(self, options: HybridOptions, step: float, until: int) -> int:
        """The moment of the next look in which something may be due: the regular one, or one before it for what begins
        to pay until then, as the daemon has it."""
        regular, soonest = self._now + math.ceil(step * 1000), self._now + math.ceil(LOOK_SECONDS * 1000)
        if not options.is_by_cost or options.reads is None or (reads := options.reads.everywhere) is None:
            return regular
        if soonest >= until:
            return regular
        left = self._look_in  # of the groups that the planner was asked about; of others what is certain is enough
        for group in self._groups.groups.values():
            if not group.live:
                continue
            cuts = _soonest_cuts(options, group, self._now, self._reads_superseded)
            if not _may_be_chosen(cuts, group, reads / DAY_SECONDS):
                left = min(left, *(cut.look_in(reads / DAY_SECONDS) for cut in cuts))
        return max(soonest, min(regular, self._now + math.ceil(min(step, left) * 1000)))

    def look(self, at: int, planner: Planner) -> None:
        """Ask the planner, and carry out what it chooses."""
        self._look_in = math.inf
        groups, options, time = self._groups, planner.options, format_instant_time(at, UTC)
        trigger = options.trigger
        fires = trigger is None or table_fires(trigger, groups.timeline(), Ages(time, UTC)).fires
        due_until = _NEVER
        if _keeps_objective(planner) and options.objective is not None:
            due_until = at - math.floor(due_from(options.objective) * 1000)
        if not fires and (groups.oldest is None or groups.oldest > due_until):
            return  # no group can be due: what the planner would answer is known
        if fires and _takes_all(options):
            self._merged(groups.carry_out_fulls(at), at, plans=1)
            return

        def wanted(group: SizedGroup) -> bool:
            """Not one for which the planner is known to choose nothing."""
            if group.oldest is not None and group.oldest <= due_until:
                return True
            return fires and not group.is_settled and _may_pay(options, group, at, self._reads_superseded)

        snapshot = groups.snapshot(wanted)
        if not snapshot.file_groups:
            return
        outcome = planner(snapshot, time, {}, profiles=groups.profiles(snapshot))
        self._look_in = look_in(outcome.decisions)
        if fires and not _watches_clock(options):
            groups.settle(outcome)
        merges = groups.carry_out(outcome, at)
        self._merged(merges, at, plans=1 if outcome.form is Form.HYBRID else len({merge.choice for merge in merges}))

    def _merged(self, merges: Sequence[SizedMerge], at: int, *, plans: int) -> None:
        if not merges:
            return
        self._figures.merged(merges, jobs=plans)
        self._figures.last_job_at = at
        seconds = sum(merge.cost.core_seconds for merge in merges)
        self._figures.longest_job_seconds = max(self._figures.longest_job_seconds, seconds)
        self._groups.merging(merges, at, at + math.ceil(seconds * 1000))


_NEVER = -1
"""A moment before all logs."""


def _takes_all(options: HybridOptions) -> bool:
    """Whether each group with logs gets FULL, whatever its sizes are, so that the planner need not be asked: Hudi's
    default."""
    return replace(options, table_trigger=None, trigger_of_rules=None) == HybridOptions(only=Choice.FULL)


def _may_pay(options: HybridOptions, group: SizedGroup, at: int, reads_superseded: bool) -> bool:
    """Whether the group may have a merge that pays, where that is what decides."""
    if options.reads is None or not options.is_by_cost:
        return True
    if (reads_per_day := options.reads.everywhere) is None:
        return True
    return _may_be_chosen(_soonest_cuts(options, group, at, reads_superseded), group, reads_per_day / DAY_SECONDS)


def _may_be_chosen(cuts: tuple[Cut, Cut], group: SizedGroup, reads: float) -> bool:
    return may_be_chosen(cuts, logs=group.sums.logs, superseded=group.sums.superseded, reads=reads)


def _soonest_cuts(options: HybridOptions, group: SizedGroup, at: int, reads_superseded: bool) -> tuple[Cut, Cut]:
    oldest = at if group.oldest is None else group.oldest
    base_at = oldest if group.base_bytes is None else group.base_at
    sums = group.sums
    return soonest_cuts(
        base_bytes=sums.base_bytes,
        log_bytes=sums.log_bytes,
        logs=sums.logs,
        superseded_bytes=sums.superseded_bytes if reads_superseded else 0,
        superseded=sums.superseded,
        base_seconds=at // 1000 - base_at // 1000,
        oldest_seconds=at // 1000 - oldest // 1000,
        sources_go=options.sources_retire,
        price=options.price.factor,
    )


def _watches_clock(options: HybridOptions) -> bool:
    """Whether time alone may change what the rules choose for a group, the objective apart."""
    return (
        options.reads is not None
        or (options.group_trigger is not None and options.group_trigger.counts_seconds)
        or bool(options.selection.strategies)
    )


def _keeps_objective(planner: Planner) -> bool:
    return planner.options.objective is not None and planner.options.only is not Choice.LOG


def _seconds_between_looks(planner: Planner) -> float | None:
    """None where only commits make a difference."""
    options, steps = planner.options, []
    if _keeps_objective(planner) and options.objective is not None:
        steps.append(options.objective / GRID)
    if options.trigger is not None and options.trigger.counts_seconds:
        steps.append(max(60.0, options.trigger.seconds))
    if _watches_clock(options):
        steps.append(REPLAN_SECONDS)
    return min(steps, default=None)


def apply_commit(groups: SizedGroups, commit: TracedCommit, *, by_model: bool = False) -> list[SizedMerge]:
    """The commit, with the sizes that its files had; what it merged, where it is a compaction.

    Args:
        by_model: what is merged has the sizes of the model.
    """
    merges = []
    for number in commit.replaced:
        groups.drop(number)
    for file in commit.files:
        if commit.author is CommitAuthor.COMPACTION:
            size = None if by_model else file.size
            merges.append(_merge(groups, commit, file, size))
        elif file.is_base:
            groups.write_base(file.group, at=commit.began, size=file.size)
        else:
            group = groups.groups.get(file.group)
            is_first = group is None or (group.base_bytes is None and not group.live)
            inserts = file.size if is_first else round(file.size * file.insert_share)
            groups.write_log(
                file.group, began=commit.began, at=commit.at, update_bytes=file.size - inserts, insert_bytes=inserts
            )
    groups.committed(commit.at, is_delta=commit.author is CommitAuthor.WRITER and not commit.replaced)
    if merges:
        groups.planned(commit.began, is_full=any(merge.choice is Choice.FULL for merge in merges))
    return merges


def _merge(groups: SizedGroups, commit: TracedCommit, file: TracedFile, size: int | None) -> SizedMerge:
    if file.is_base:
        return groups.full(file.group, began=commit.began, size=size)
    live = groups.groups.setdefault(file.group, SizedGroup()).live
    # Where no plan says what it merged, it is all that was there.
    run = [log for log in live if (log.began in file.sources if file.sources else log.at <= commit.began)]
    if not run:
        groups.write_log(file.group, began=commit.began, at=commit.at, update_bytes=file.size, insert_bytes=0)
        return SizedMerge(file.group, Choice.LOG, Cost(0, file.size, 0), file.size, 0, file.size, 0)
    return groups.log(file.group, began=commit.began, at=commit.at, run=run, size=size)


@dataclass(frozen=True, slots=True)
class Fit:
    """How well the model says what the compactions of a trace wrote."""

    real_bytes: int
    modelled_bytes: int
    model: SizeModel
    """What all of its compactions show."""

    @property
    def factor(self) -> float | None:
        """Bytes by the model for each byte that was written; None where nothing was."""
        return self._estimate.factor

    @property
    def is_close(self) -> bool:
        return self._estimate.is_close

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.real_bytes, self.modelled_bytes)


def measure_fit(trace: Trace, *, model: SizeModel | None = None, counts_from: int | None = None) -> Fit:
    """The compactions that were made, side by side with the sizes that were and with those of the model. Its growth is
    at each moment what the compactions before showed, so that none is judged by what it has taught.

    Args:
        model: what compactions before `counts_from` have shown; it goes on to learn.
        counts_from: the bytes are of what completed after that moment; None: after the beginning of the trace.
    """
    model = SizeModel() if model is None else model
    counts_from = trace.begins if counts_from is None else counts_from
    real, modelled = (SizedGroups(trace.groups, trace.config, each) for each in (SizeModel(), model))
    real_bytes = modelled_bytes = 0
    for commit in trace.commits:
        done = apply_commit(real, commit)
        guessed = apply_commit(modelled, commit, by_model=commit.at > trace.begins)
        if commit.at > counts_from:
            real_bytes += sum(merge.written_bytes for merge in done)
            modelled_bytes += sum(merge.written_bytes for merge in guessed)
            for merge in done:
                model.learn(merge)
    return Fit(real_bytes, modelled_bytes, model)


def _clamped(growth: float) -> float:
    return min(GROWTH_MAX, max(0.0, growth))

"""Which file slices of a table are dead: one snapshot and a policy in, a decision for every slice out.

A slice goes whole, base file and logs, or stays whole; but of a slice that stays, logs retire one by one for which the
output of a log compaction stands (`table/retired_logs.py`). What is in no committed slice, files of failed writes and
of writes under way, is not looked at.

    commits, hours    E is the earliest instant of the policy. The newest slice stays, each slice from E on, and the
                      newest before E, which is what reads as of E need
    versions          of each file group the newest N; a pending compaction or log compaction counts as one, and what
                      it holds back besides
    merged logs       by commits and hours those that were merged by a log compaction which completed before E; in the
                      layout `default` only if the operator asked for it, and then all but the anchors
    replaced groups   readers of the table as it is now read nothing of them: all of a group that was replaced before
                      E; by versions all of every replaced group

Whatever the policy says, these stay:

    what a pending plan reads    of compaction and log compaction each slice from the plan's base instant on and each
                                 with a file that the plan names; where one of these is in no slice, all of the group.
                                 Of clustering the slice that was the newest when it was planned, and newer ones
    what a savepoint names       the whole slice, also where it names one file of it
    what readers still need      within the reader window, or for a consumer
    (`services/clean/plan/reader_protection.py`) what cannot be known          frozen groups

and what an earlier clean took away, and will delete from where it stands (`table/quarantine.py`), is not taken away
again, but for what was replaced since: who lists a replaced group whose replacecommit is archived reads it.

Hudi uses the plan's base instant alone, and has deleted logs that a pending compaction was to read (its issue 19290:
they were in an older slice than the plan says). It also takes what a plan reads in a replaced group, and by versions
and hours what a clustering reads. Here these stay until the plan is done.

By commits and by hours a clean has an *earliest instant*: as of it, and after it, everything can still be read. By
commits it is never after the last commit before the oldest pending one, plans of compaction, log compaction and
clustering counted: what is pending completes later under an instant that lies before others, and readers of what came
since must still find it. By hours Hudi asks for nothing pending, and a pending plan itself holds what it needs.
Commits are counted in the order in which they were requested, also those that completed late.

Where the zone of the instants is not known, a commit is as old as both its name and its file are at least: the name as
the westernmost clocks on earth show it, which is up to 26 hours too young; the file, since one of our own instants may
be named after a commit of months ago (`table/timeline/new_time`). The files of a copy are as young as the copy.

Touches: nothing.
Keeps:   1. the newest slice of a group that readers see is never dead;
         2. nothing that a pending plan names, and no slice that a savepoint names a file of, is ever dead;
         3. a slice is dead or stays, whole;
         4. without an earliest instant nothing dies by commits or hours;
         5. what is not looked at, for its partition or because it is frozen, is not in the outcome as dead;
         6. a slice of which every file was taken away by an earlier clean is not dead again, unless it was replaced;
         7. the earliest instant is a completed commit of the active timeline, or there is none and nothing dies by it;
         8. without a zone no commit is taken for older than it is;
         9. a log retires only where an output stands for it, in the layout `lsm_tree` one of Lakeward's, and everything
            can be read as of after that log compaction completed; never one of a slice that a pending plan reads or a
            savepoint pins;
        10. in the layout `default` no anchor retires, no log of a table that captures changes or of a slice without a
            base file, and no output before the logs that it names are gone.
Source:  CleanPlanner (Hudi 1.2); CleanerUtils.getEarliestCommitToRetain (Hudi 1.2)
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from lakeward.base.errors import BrokenFile
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import (
    Instant,
    comparable_time,
    format_instant_time,
    is_before,
    parse_instant_time,
)
from lakeward.services.clean.plan.decision import CleanOutcome, SliceDecision, SourceDecision
from lakeward.services.clean.plan.keeper import DeadReason, Keeper, KeepReason
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.reader_protection import ReaderProtection, Watermark
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.quarantine import QuarantinedRun
from lakeward.table.retired_logs import find_stood_for
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline
from lakeward.table.timeline.timezone import WESTERNMOST

_NONE_IN_PLACE: Mapping[str, QuarantinedRun] = {}
_NEWEST = (Keeper(KeepReason.NEWEST),)
_PROOF = (DeadReason.NOT_NEWEST, DeadReason.NOT_PLANNED, DeadReason.NOT_SAVEPOINTED, DeadReason.NOT_READ)
"""What is true of every dead slice, beside what the policy says."""
_DEAD_BY = {verdict: (verdict, *_PROOF) for verdict in DeadReason}


def plan_clean(
    snapshot: TableSnapshot,
    policy: CleanPolicy,
    *,
    now: float,
    partitions: Collection[str] | None = None,
    reader_window: float = 0.0,
    watermarks: Sequence[Watermark] = (),
    excluded: Collection[GroupId] = (),
    left_in_place: Mapping[str, QuarantinedRun] = _NONE_IN_PLACE,
    retires_by_anchors: bool = False,
) -> CleanOutcome:
    """What is dead on the table, and what stays for which reason.

    Args:
        snapshot: a scan of the whole table, or at least of `partitions`.
        now: seconds since the epoch; hours and the reader window depend on it.
        partitions: look only at these partition paths; None: at all.
        reader_window: seconds for which a query may run; 0, as with Hudi: none is waited for.
        watermarks: how far the incremental consumers have read.
        excluded: do not look at these file groups.
        left_in_place: what earlier cleans took away and is still in its place, by path.
        retires_by_anchors: the operator asked that merged logs retire in the layout `default`, too.
    """
    commits = snapshot.timeline.completed_writes
    earliest = find_earliest_retained(snapshot.timeline, policy, now=now, zone=snapshot.zone.zone)
    readers = _readers(snapshot, now, reader_window, watermarks)
    named = readers.move_back(earliest)
    cleaner = _Cleaner(snapshot, policy, earliest, readers, left_in_place)
    replaced = [group for group in snapshot.replaced_groups if isinstance(group, FileGroup)]
    frozen = [*snapshot.frozen, *(group for group in snapshot.replaced_groups if isinstance(group, FrozenGroup))]
    asked = [
        *((group, cleaner.decide) for group in _within(snapshot.file_groups, partitions, excluded)),
        *((group, cleaner.decide_replaced) for group in _within(replaced, partitions, excluded)),
    ]
    asked.sort(key=lambda each: (each[0].partition_path, each[0].file_id))
    decisions = [each for group, decide in asked for each in decide(group)]
    merged = _Sources(snapshot, cleaner, named, left_in_place, asked=retires_by_anchors)
    sources = [each for group in _within(snapshot.file_groups, partitions, excluded) for each in merged.decide(group)]
    left = _replaced_left(snapshot, decisions, but_for=_SAVEPOINT)
    oldest_pending = oldest_pending_write(snapshot.timeline)
    return CleanOutcome(
        policy=policy,
        earliest=named,
        last_completed=commits[-1].time if commits else "",
        decisions=tuple(decisions),
        sources=tuple(sources),
        frozen=tuple(_within(frozen, partitions, excluded)),
        savepoints=tuple(sorted(snapshot.timeline.savepoints, key=comparable_time)),
        pending_cleans=tuple(i.time for i in snapshot.timeline.pending if i.action == "clean"),
        leaves_nothing=named is not None
        and _leaves_nothing(snapshot, named, decisions, frozen)
        and all(source.retires or _waits_for_more(source, named) for source in sources),
        is_left_for_readers=not _replaced_left(snapshot, decisions, but_for=_SAVEPOINT | _READERS),
        consumers=tuple(readers.holds(earliest)),
        reader_window=reader_window,
        is_whole=partitions is None and not excluded,
        replaced_left=tuple(sorted(left, key=comparable_time)),
        commits=len(commits),
        oldest_pending=None if oldest_pending is None else oldest_pending.time,
    )


def find_earliest_retained(
    timeline: Timeline, policy: CleanPolicy, *, now: float, zone: datetime.tzinfo | None
) -> Instant | None:
    """The earliest instant. None where the policy has none, and where there are too few commits to let anything go.

    Args:
        zone: the zone of the table's instants.
    """
    commits = timeline.completed_writes
    match policy.kind:
        case CleanPolicyKind.VERSIONS:
            return None
        case CleanPolicyKind.HOURS:
            since = now - policy.milliseconds / 1000
            return next((commit for commit in commits if _may_be_since(timeline, commit, since, zone)), None)
        case CleanPolicyKind.COMMITS:
            if len(commits) <= policy.retain:
                return None
            found = commits[len(commits) - policy.retain]
            limit = oldest_pending_write(timeline)
            if limit is None or comparable_time(found.time) <= comparable_time(limit.time):
                return found
            before = [commit for commit in commits if comparable_time(commit.time) < comparable_time(limit.time)]
            return before[-1] if before else None


def oldest_pending_write(timeline: Timeline) -> Instant | None:
    """The oldest write, or plan that moves rows, that did not complete."""
    return next((instant for instant in timeline.pending if instant.comparable_action in WRITE_ACTIONS), None)


def _may_be_since(timeline: Timeline, write: Instant, moment: float, zone: datetime.tzinfo | None) -> bool:
    """Whether a completed write was requested at the moment, in seconds since the epoch, or later, as far as that is
    known."""
    if comparable_time(write.time) >= format_instant_time(round(moment * 1000), zone or WESTERNMOST):
        return True
    return zone is None and timeline.modified.get(write.file_name, moment) >= moment


def find_earliest(
    snapshot: TableSnapshot,
    policy: CleanPolicy,
    *,
    now: float,
    reader_window: float = 0.0,
    watermarks: Sequence[Watermark] = (),
) -> Instant | None:
    """The earliest instant of the same plan, from the timeline of the snapshot alone."""
    earliest = find_earliest_retained(snapshot.timeline, policy, now=now, zone=snapshot.zone.zone)
    return _readers(snapshot, now, reader_window, watermarks).move_back(earliest)


def _readers(snapshot: TableSnapshot, now: float, window: float, watermarks: Sequence[Watermark]) -> ReaderProtection:
    return ReaderProtection(snapshot.timeline, window=window, watermarks=watermarks, now=now, zone=snapshot.zone.zone)


def _leaves_nothing(
    snapshot: TableSnapshot, earliest: Instant, decisions: Iterable[SliceDecision], frozen: Sequence[FrozenGroup]
) -> bool:
    """Whether nothing that was superseded before the earliest instant stays, or may be seen again, but for what
    savepoints keep."""
    timeline = snapshot.timeline
    pending = oldest_pending_write(timeline)
    if frozen or (pending is not None and is_before(pending.time, earliest.time)):
        return False
    under_way = {instant.time for instant in timeline.pending}
    names = (path.rpartition("/")[2] for path in snapshot.uncommitted_files)
    files = (parse_any_data_file(name, native=True) for name in names)
    if any(file is None or file.instant not in under_way for file in files):
        return False
    planned = (each for each in decisions if any(k.reason is KeepReason.PENDING_PLAN for k in each.keepers))
    return all(any(keeper.reason not in _BESIDE_THE_POLICY for keeper in each.keepers) for each in planned)


def _waits_for_more(source: SourceDecision, earliest: Instant) -> bool:
    """Whether the next clean finds the log by what was written since the earliest instant, or by the savepoints; others
    go with their slices, or by a log compaction to come."""
    reasons = {keeper.reason for keeper in source.keepers}
    return (
        not is_before(source.merged_by, earliest.time)
        or not reasons.isdisjoint(_UNTIL_WRITTEN_TO)
        or reasons == {KeepReason.SAVEPOINT}
    )


_BESIDE_THE_POLICY = frozenset({KeepReason.SAVEPOINT, KeepReason.PENDING_PLAN})
_SAVEPOINT = frozenset({KeepReason.SAVEPOINT})
_UNTIL_WRITTEN_TO = frozenset(
    {
        KeepReason.OTHER_ENGINE,
        KeepReason.ANCHOR,
        KeepReason.NO_BASE,
        KeepReason.CAPTURES_CHANGES,
        KeepReason.NOT_TRIED,
        KeepReason.NOT_ASKED_FOR,
    }
)
_READERS = frozenset({KeepReason.READER_WINDOW, KeepReason.CONSUMER})


def _replaced_left(
    snapshot: TableSnapshot, decisions: Iterable[SliceDecision], *, but_for: Set[KeepReason]
) -> frozenset[str]:
    """Instants whose replaced groups have files that this clean leaves, but for what these reasons alone keep."""
    groups = {(group.partition_path, group.file_id) for group in snapshot.replaced_groups}
    goes = {
        (*each.slice.group_id, each.slice.base_instant)
        for each in decisions
        if each.slice.group_id in groups and all(keeper.reason in but_for for keeper in each.keepers)
    }
    left = set()
    for group in snapshot.replaced_groups:
        group_id = (group.partition_path, group.file_id)
        slices = group.slices if isinstance(group, FileGroup) else ()
        is_whole = isinstance(group, FileGroup) and all(
            slice_.is_empty or (*group_id, slice_.base_instant) in goes for slice_ in slices
        )
        if not is_whole:
            left.add(snapshot.replaced[group_id])
    return frozenset(left)


_Group = TypeVar("_Group", FileGroup, FrozenGroup)


def _within(
    groups: Iterable[_Group], partitions: Collection[str] | None, excluded: Collection[GroupId]
) -> Iterator[_Group]:
    for group in groups:
        is_asked_for = partitions is None or group.partition_path in partitions
        if is_asked_for and (group.partition_path, group.file_id) not in excluded:
            yield group


@dataclass(frozen=True, slots=True)
class _Hold:
    """What one pending plan reads of a file group."""

    instant: str
    from_instant: str
    """Each slice from this base instant on."""
    files: frozenset[str] = frozenset()
    """Names of files; each slice with one of them is read too."""


class _Cleaner:
    """The questions that are asked of each slice."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        policy: CleanPolicy,
        earliest: Instant | None,
        readers: ReaderProtection,
        left_in_place: Mapping[str, QuarantinedRun],
    ) -> None:
        self._policy = policy
        self._readers = readers
        self._earliest = None if earliest is None else comparable_time(earliest.time)
        self._commits = [comparable_time(commit.time) for commit in snapshot.timeline.completed_writes]
        self._zone = snapshot.zone.zone
        self._visible_at = snapshot.timeline.visible_at
        self._replaced = snapshot.replaced
        self._clustered = snapshot.pending_clusterings
        self._holds = _planned(snapshot)
        self._savepointed = _savepointed(snapshot)
        self._left_in_place = left_in_place
        # Values that thousands of slices share, by the instant that superseded them.
        self._by_newer: dict[str, tuple[Keeper, ...]] = {}
        self._by_reader: dict[str, tuple[Keeper, ...]] = {}

    def decide(self, group: FileGroup) -> Iterator[SliceDecision]:
        """One decision for each slice of a group that readers see, newest first."""
        if self._policy.kind is CleanPolicyKind.VERSIONS:
            return self._decide(group, self._by_versions(group), DeadReason.BEYOND_VERSIONS)
        return self._decide(group, self._by_earliest(group), DeadReason.BEFORE_EARLIEST)

    def decide_replaced(self, group: FileGroup) -> Iterator[SliceDecision]:
        """The same for a group that was replaced."""
        by = self._replaced[group.partition_path, group.file_id]
        keepers: list[Keeper] = []
        if self._policy.kind is not CleanPolicyKind.VERSIONS:
            if self._earliest is None:
                keepers.append(Keeper(KeepReason.TOO_FEW_COMMITS, commits=self._more_commits(by)))
            elif comparable_time(by) >= self._earliest:
                keepers.append(self._until_earliest_passes(KeepReason.REPLACED_LATELY, by, by))
        by_policy_and_readers = (*keepers, *self._needed_by_readers(by))
        return self._decide(group, [by_policy_and_readers] * len(group.slices), DeadReason.REPLACED)

    def _decide(
        self, group: FileGroup, kept: Sequence[tuple[Keeper, ...]], verdict: DeadReason
    ) -> Iterator[SliceDecision]:
        """The same with what else keeps a slice.

        Args:
            kept: what policy and readers keep of each slice.
        """
        holds, dead_by = self._holds_on(group), _DEAD_BY[verdict]
        pinned = self._savepointed.get((group.partition_path, group.file_id), {})
        for slice_, keepers in zip(group.slices, kept, strict=True):
            if slice_.is_empty:
                continue
            if holds or pinned:
                keepers = (*keepers, *_held(slice_, holds), *_pinned(slice_, pinned))
            if self._left_in_place and not keepers and verdict is not DeadReason.REPLACED:
                keepers = self._taken_away(slice_)
            yield SliceDecision(slice_, keepers, () if keepers else dead_by)

    # What the policy and readers keep, of each slice

    def _by_earliest(self, group: FileGroup) -> list[tuple[Keeper, ...]]:
        slices, read = group.slices, len(group.read_slices)
        superseded = (self._superseded_by(slices[number - 1].base_instant) for number in range(read, len(slices)))
        return [*([_NEWEST] * read), *superseded]

    def _superseded_by(self, newer: str) -> tuple[Keeper, ...]:
        known = self._by_newer.get(newer)
        if known is None:
            keepers: list[Keeper] = []
            if self._earliest is None:
                keepers.append(Keeper(KeepReason.TOO_FEW_COMMITS, commits=self._more_commits(newer)))
            # It serves reads as of E where the next newer slice begins at E or after it.
            elif comparable_time(newer) >= self._earliest:
                keepers.append(self._until_earliest_passes(KeepReason.RETAINED, None, newer))
            known = self._by_newer[newer] = (*keepers, *self._needed_by_readers(newer))
        return known

    def _needed_by_readers(self, superseded_by: str) -> tuple[Keeper, ...]:
        known = self._by_reader.get(superseded_by)
        if known is None:
            known = self._by_reader[superseded_by] = tuple(self._readers.keepers(superseded_by))
        return known

    def _by_versions(self, group: FileGroup) -> list[tuple[Keeper, ...]]:
        holds = self._holds.get((group.partition_path, group.file_id), ())
        held_from = min((comparable_time(hold.from_instant) for hold in holds), default=None)
        left = self._policy.retain - (1 if holds else 0)
        read = len(group.read_slices)
        keepers: list[tuple[Keeper, ...]] = []
        for number, slice_ in enumerate(group.slices):
            found = _NEWEST if number < read else ()
            if held_from is None or comparable_time(slice_.base_instant) < held_from:
                if left > 0 and not found:
                    found = (Keeper(KeepReason.RETAINED, versions=left),)
                left -= 1
            if number >= read:
                found = (*found, *self._needed_by_readers(group.slices[number - 1].base_instant))
            keepers.append(found)
        return keepers

    def keeps_merged(self, group: FileGroup, slice_: FileSlice, log: LogFile, by: str) -> Iterator[Keeper]:
        """What keeps a log for which the output of the log compaction `by` stands."""
        completed = comparable_time(self._visible_at(by))
        if self._policy.kind is CleanPolicyKind.VERSIONS:
            yield Keeper(KeepReason.NO_EARLIEST)
        elif self._earliest is None:
            yield Keeper(KeepReason.TOO_FEW_COMMITS, commits=self._more_commits(completed))
        elif completed >= self._earliest:
            yield self._until_earliest_passes(KeepReason.RETAINED, None, completed)
        yield from self._needed_by_readers(by)
        yield from _held(slice_, self._holds_on(group))
        yield from _pinned(slice_, self._savepointed.get((group.partition_path, group.file_id), {}))
        if (run := self._left_in_place.get(log.path)) is not None:
            yield Keeper(KeepReason.QUARANTINED, run.run, not_before=run.keep_until)

    def _until_earliest_passes(self, reason: KeepReason, instant: str | None, end: str) -> Keeper:
        """A keeper that ends once the earliest instant lies after `end`."""
        if self._policy.kind is CleanPolicyKind.COMMITS:
            return Keeper(reason, instant, commits=self._more_commits(end))
        return Keeper(reason, instant, not_before=self._in_hours(end))

    def _more_commits(self, instant: str) -> int:
        """How many more commits must complete, at least, before the earliest instant lies after `instant`."""
        if self._policy.kind is CleanPolicyKind.HOURS:
            return 1
        up_to = bisect_right(self._commits, comparable_time(instant))
        return max(1, up_to + self._policy.retain - len(self._commits))

    def _in_hours(self, instant: str) -> float | None:
        if self._zone is None:
            return None
        try:
            return (parse_instant_time(instant, self._zone) + self._policy.milliseconds) / 1000
        except BrokenFile:  # one that Hudi reserves
            return None

    # What else keeps a slice

    def _holds_on(self, group: FileGroup) -> list[_Hold]:
        group_id = (group.partition_path, group.file_id)
        holds: list[_Hold] = []
        if group_id in self._holds:
            there = {name for slice_ in group.slices for name in _names(slice_)}
            # A file that the plan names and no slice has: which slices it reads is not known.
            holds = [hold if hold.files <= there else _Hold(hold.instant, "") for hold in self._holds[group_id]]
        if (clustering := self._clustered.get(group_id)) is not None:
            planned = comparable_time(clustering)
            before = (s.base_instant for s in group.slices if comparable_time(s.base_instant) < planned)
            holds.append(_Hold(clustering, next(before, "")))
        return holds

    def _taken_away(self, slice_: FileSlice) -> tuple[Keeper, ...]:
        runs = [self._left_in_place.get(file.path) for file in slice_.files]
        found = {run.run: run for run in runs if run is not None}
        if None in runs:
            return ()
        return tuple(
            Keeper(KeepReason.QUARANTINED, run.run, not_before=run.keep_until) for _, run in sorted(found.items())
        )


class _Sources:
    """The questions that are asked of each log for which an output stands."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        cleaner: _Cleaner,
        earliest: Instant | None,
        left_in_place: Mapping[str, QuarantinedRun],
        *,
        asked: bool,
    ) -> None:
        """
        Args:
            earliest: as of it, and after it, everything can be read after the clean.
            asked: in the layout `default` the operator asked for it.
        """
        self._snapshot = snapshot
        self._cleaner = cleaner
        self._earliest = earliest
        self._in_place = _in_place_by_group(left_in_place)
        config = snapshot.config
        self._against: tuple[Keeper, ...] = ()
        if not config.is_lsm_tree:
            found = (
                (KeepReason.NOT_ASKED_FOR, not asked),
                (KeepReason.CAPTURES_CHANGES, config.cdc_enabled),
                (KeepReason.NOT_TRIED, not config.has_log_compaction),
            )
            self._against = tuple(Keeper(reason) for reason, holds in found if holds)

    def decide(self, group: FileGroup) -> Iterator[SourceDecision]:
        """One decision for each such log of the slices that readers read."""
        log_compactions = self._snapshot.log_compactions.get((group.partition_path, group.file_id))
        if log_compactions is None:
            return
        for slice_ in group.read_slices:
            found = find_stood_for((*slice_.log_names, *self._in_place.get(slice_.group_id, ())), log_compactions)
            stays = {name: Keeper(KeepReason.ANCHOR, by) for name, by in found.anchors.items()}
            stays |= {name: Keeper(KeepReason.NAMES_LOGS, by) for name, by in found.waiting.items()}
            written_by = {log.instant for log in slice_.log_files}
            others = (each for each in reversed(log_compactions) if not each.is_own and each.instant in written_by)
            of_others = {name: each.instant for each in others for name in each.log_files}
            for log in slice_.log_files:
                if (by := found.by.get(log.name.text)) is not None:
                    yield SourceDecision(slice_, log, by, tuple(self._keepers(group, slice_, log, by)))
                elif (keeper := stays.get(log.name.text)) is not None and keeper.instant is not None:
                    yield SourceDecision(slice_, log, keeper.instant, (keeper, *self._against_slice(slice_)))
                elif (by := of_others.get(log.name.text)) is not None:
                    yield SourceDecision(slice_, log, by, (Keeper(KeepReason.OTHER_ENGINE, by),))

    def _keepers(self, group: FileGroup, slice_: FileSlice, log: LogFile, by: str) -> Iterator[Keeper]:
        found = [*self._against_slice(slice_), *self._cleaner.keeps_merged(group, slice_, log, by)]
        completed = self._snapshot.timeline.visible_at(by)
        if not found and (self._earliest is None or not is_before(completed, self._earliest.time)):
            # What readers need moved the earliest instant back to a commit that was requested earlier still.
            found.append(Keeper(KeepReason.RETAINED))
        return iter(found)

    def _against_slice(self, slice_: FileSlice) -> Iterator[Keeper]:
        yield from self._against
        if slice_.base_file is None and not self._snapshot.config.is_lsm_tree:
            yield Keeper(KeepReason.NO_BASE)


def _in_place_by_group(left_in_place: Iterable[str]) -> Mapping[GroupId, list[str]]:
    """Names of files that were taken away and are not deleted yet."""
    found: dict[GroupId, list[str]] = {}
    for path in left_in_place:
        partition, _, name = path.rpartition("/")
        if (parsed := parse_any_data_file(name, native=True)) is not None:
            found.setdefault((partition, parsed.file_id), []).append(name)
    return found


def _planned(snapshot: TableSnapshot) -> Mapping[GroupId, list[_Hold]]:
    """What pending compactions and log compactions read, by file group."""
    holds: dict[GroupId, list[_Hold]] = {}
    for instant, plan in sorted(snapshot.plans.items()):
        for operation in plan.operations:
            hold = _Hold(instant, operation.base_instant or "", frozenset(operation.file_names))
            holds.setdefault((operation.partition_path, operation.file_id), []).append(hold)
    return holds


def _savepointed(snapshot: TableSnapshot) -> Mapping[GroupId, Mapping[str, frozenset[str]]]:
    """Paths of the files that savepoints pin, by file group and by the savepoint, oldest first."""
    found: dict[GroupId, dict[str, set[str]]] = {}
    native = snapshot.config.version.has_native_logs
    for time, paths in sorted(snapshot.savepointed.items()):
        for path in paths:
            partition, _, name = path.rpartition("/")
            if (parsed := parse_any_data_file(name, native=native)) is not None:
                found.setdefault((partition, parsed.file_id), {}).setdefault(time, set()).add(path)
    return {group: {time: frozenset(of) for time, of in times.items()} for group, times in found.items()}


def _pinned(slice_: FileSlice, savepointed: Mapping[str, frozenset[str]]) -> Iterator[Keeper]:
    for time, paths in savepointed.items():
        if any(file.path in paths for file in slice_.files):
            yield Keeper(KeepReason.SAVEPOINT, time)


def _held(slice_: FileSlice, holds: Sequence[_Hold]) -> Iterator[Keeper]:
    names = _names(slice_) if holds else frozenset()
    for hold in holds:
        if comparable_time(slice_.base_instant) >= comparable_time(hold.from_instant) or names & hold.files:
            yield Keeper(KeepReason.PENDING_PLAN, hold.instant)


def _names(slice_: FileSlice) -> frozenset[str]:
    return frozenset(file.file_name for file in slice_.files)

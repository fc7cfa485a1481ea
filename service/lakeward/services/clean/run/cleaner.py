"""Clean a table: end the cleans that are pending, then choose again, write the choice down and carry it out.

    pending    of this process and of dead ones: ended first, whatever the policy says now
    schedule   lock: the choice is held against the table as it is -> T.clean.requested
    claim      lock: no attempt alive? dead ones rolled back or forward; what is needed by now is left out -> .inflight
    carry out  `clean_run.py`, through the life cycle that all services have

What a clean has deleted does not come back by itself. So once it is begun it is only ever gone on with, by us or by
Hudi; its `.inflight` says that deletions may have begun. A plan of Lakeward that is only requested, and names a file
that is needed by now, goes off the timeline instead. In any other plan such a file is left out with its whole slice,
and what is completed does not name it. An undo (`undoing.py`) is a clean, too, and ended as the others are.

Hudi gives its cleans no heartbeat: they run within a writer's process, and each of its writers that cleans carries out
every pending clean that it finds. Deletions may be done twice; completing may not, for two completed files of one
instant are broken. So a clean of another engine is taken up only when nothing of it has changed on the timeline for an
hour, or the operator says that no writer is at work; until then it is that engine's to end, and none is planned beside
it.

A little room on the table's disk, which a clean lets go where there is no other, so that it can begin.

A clean frees space, and needs some before: a lock, its plan, the claim of its attempt. On a disk that writers have
filled up to the last byte it could not write them, and nothing could be freed but by hand. So each clean leaves a file
behind, as long as there is plenty of room, and the next one that finds no room deletes it.

    .hoodie/.lakeward/reserve       1 MiB of chance, which no file system compresses

Touches: the table, through `commit`; the reserve, but in an object store, which has no end.
Keeps:   1. a clean whose process lives, or another engine's that is younger than an hour, is left alone;
         2. stopped at any call, the plan is not there or the next run ends it, and what is needed is still there;
         3. a clean is completed once; who finds it completed changes nothing;
         4. nothing of the plan is deleted that is needed when the clean is claimed;
         5. nothing is deleted where the metadata table could not record it;
         6. room is taken only where there is plenty, and nothing fails because it cannot be taken;
         7. it is let go only where there is less than it holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from lakeward.base.errors import AttemptLost, LakewardError, Refused, TryLater
from lakeward.base.paths import join, parent
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS
from lakeward.format.timeline.clean_plan import (
    CleanPlan,
    clean_plan_root,
    read_clean_plan,
    read_extra_metadata,
    write_clean_plan,
)
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.attempts.heartbeat import Life, Liveness
from lakeward.protocol.life_cycle import run_attempt, settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.preconditions import check_metadata_table
from lakeward.protocol.progress import Phase
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.services.clean.plan.due import FOREIGN_QUIET_SECONDS
from lakeward.services.clean.plan.hudi_cleaner_keys import CleanRules
from lakeward.services.clean.plan.policy import READER_WINDOW_SECONDS
from lakeward.services.clean.plan.validity import DROPS_CHANGES, find_needed, find_unretirable, groups_of_files
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.clean_run import ClaimedClean, CleanRun
from lakeward.services.clean.run.purge import PurgedRun, purge_quarantine
from lakeward.services.clean.run.retirement_run import RetirementRun
from lakeward.services.clean.run.undo_run import UndoRun, find_undo
from lakeward.table.file_group import BaseFile, FileGroup, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import hoodie_folder
from lakeward.table.timeline.cleans import UNDO_OF
from lakeward.table.timeline.service_instants import PLANNED_BY

Choose = Callable[[TableSnapshot], CleanPlan | None]
"""From a scan of the table, or of where something may be dead, to what is to be deleted; None where nothing is."""

Where = Callable[[TableSnapshot], frozenset[str] | None]
"""From a scan of the timeline to the partitions in which something may be dead; None where that may be anywhere."""


RESERVE_BYTES: Final = 1024**2
PLENTY_BYTES: Final = 64 * RESERVE_BYTES
PLACE: Final = ".lakeward/reserve"


def keep_reserve(table: ServicedTable) -> None:
    """Take the room, if there is plenty and none is taken."""
    free, path = table.storage.free_bytes(table.base_path), _path(table)
    if free is None or free < PLENTY_BYTES:
        return
    with suppress(LakewardError, OSError):  # what comes next says whether the storage works
        if table.storage.stat(path) is None:
            with table.locked() as _:  # only then is what a dead process had begun of it removed (`sweep`)
                table.storage.make_folder(parent(path))
                table.storage.create(path, os.urandom(RESERVE_BYTES))


def use_reserve(table: ServicedTable) -> None:
    """Let the room go, if there is no other."""
    free, path = table.storage.free_bytes(table.base_path), _path(table)
    if free is not None and free < RESERVE_BYTES and table.storage.delete(path):
        table.observer.step(f"the disk is full: the reserve of {RESERVE_BYTES // 1024} KiB is let go")


def _path(table: ServicedTable) -> str:
    return join(hoodie_folder(table.base_path), PLACE)


@dataclass(frozen=True, slots=True)
class FinishedClean:
    """A clean that this run ended."""

    instant: str
    completion_time: str | None
    """None for a plan of Lakeward that was taken off the timeline, or that another process completed meanwhile."""
    recovered: bool
    """True when it was pending before this run."""
    files: int
    """The number of files that are gone, or were set aside, or came back."""
    bytes: int
    """What they held, those that were there when the clean was claimed."""
    earliest_retained: str
    """The instant as of which, and after which, everything can still be read; empty by file versions."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Files that the plan named and that stay, each with the reason."""
    kept_until: float | None = None
    """When what it took away is deleted, in seconds since the epoch; None where it is gone."""
    retires: bool = False
    """They are logs that retired: in slices that readers read, and in their places until then."""
    undoes: str | None = None
    """The clean whose files it brought back instead."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WaitingClean:
    """A pending clean that was left alone."""

    instant: str
    why: str


@dataclass(frozen=True, slots=True)
class CleanReport:
    cleans: tuple[FinishedClean, ...] = ()
    waiting: tuple[WaitingClean, ...] = ()
    """While there is one, no clean is planned."""


def clean_and_purge(
    table: ServicedTable,
    rules: CleanRules,
    *,
    selected: Callable[[Collection[str]], Collection[str] | None],
    is_part: bool,
    excluded: Collection[GroupId] = (),
    planned_by: Mapping[str, str] = MappingProxyType({}),
) -> tuple[CleanReport, tuple[PurgedRun, ...]]:
    """End what is pending, clean, and delete what the quarantine has held for long enough.

    Args:
        selected: the partitions of these that are cleaned; None for all.
        is_part: partitions or file groups are left out, so an earlier clean does not say where something may be dead.
    """
    choice = CleanChoice(table.storage, table.base_path, rules.options, clock=table.clock)
    window = rules.options.reader_window
    report = Cleaner(table, planned_by, keep_seconds=rules.keep_deleted, reader_window=window).clean(
        lambda snapshot: choice.plan(snapshot, selected(snapshot.partitions), excluded),
        None if is_part else choice.where,
    )
    return report, purge_quarantine(table, bytes_max=rules.quarantine_max)


class Cleaner:
    """Cleans one table. One process, one attempt number."""

    def __init__(
        self,
        table: ServicedTable,
        planned_by: Mapping[str, str],
        *,
        keep_seconds: float = 0.0,
        reader_window: float = READER_WINDOW_SECONDS,
    ) -> None:
        """
        Args:
            planned_by: more to write into our plans' extra metadata.
            keep_seconds: for so long what goes can be brought back; 0: it is deleted at once.
            reader_window: seconds for which a query may run, and logs that retire stand in their places.
        """
        self._table = table
        self._keep_seconds = keep_seconds
        self._reader_window = reader_window
        self._extra_metadata = {**planned_by, PLANNED_BY: "lakeward"}

    def clean(self, choose: Choose, where: Where | None = None) -> CleanReport:
        """End what is pending, then choose and clean.

        Args:
            where: where something may be dead; not given: everywhere.

        Raises:
            Refused, Unsupported, BrokenFile: the table is not one that this release may clean, or its metadata table is
                not one that it can write to; nothing was written.
            LockHeld, TryLater: another process is at work.
            Whatever the guard raises: nothing was deleted after it did.
        """
        use_reserve(self._table)
        report = self._clean(choose, where)
        keep_reserve(self._table)
        return report

    def _clean(self, choose: Choose, where: Where | None) -> CleanReport:
        report = self.end_pending()
        if report.waiting:
            return report
        for _ in range(2):  # what is dead, and then the logs that retire
            seen = self._look(where)
            plan = choose(seen)
            if plan is None or plan.is_empty:
                break
            check_metadata_table(self._table, seen)
            with self._table.measured(Phase.SCHEDULE):
                instant = self._schedule(plan)
            cleaned = self.carry_out(instant, recovered=False)
            report = replace(report, cleans=(*report.cleans, *([] if cleaned is None else [cleaned])))
            if plan.retired or not seen.log_compactions:
                break
        return report

    def end_pending(self) -> CleanReport:
        """End the cleans that are pending, oldest first, but for those that are left to a living process."""
        table = self._table
        snapshot = table.snapshot(only=(), service=TableService.CLEANING)
        check_readable_by_writers(snapshot)
        table.watch_own()
        with table.locked() as _:
            table.sweep(snapshot)
        cleans: list[FinishedClean] = []
        waiting: list[WaitingClean] = []
        for instant in snapshot.timeline.pending:
            if instant.action != ServiceAction.CLEAN.pending:
                continue
            if (why := self._why_waiting(snapshot, instant)) is not None:
                table.observer.step(f"clean {instant.time} is left alone: {why}")
                waiting.append(WaitingClean(instant.time, why))
                continue
            check_metadata_table(table, snapshot)
            if (cleaned := self.carry_out(instant.time, recovered=True)) is not None:
                cleans.append(cleaned)
        return CleanReport(tuple(cleans), tuple(waiting))

    def _look(self, where: Where | None) -> TableSnapshot:
        """The partitions in which something may be dead: those by the same timeline as all else in the snapshot."""
        table = self._table
        if where is not None:
            looked = where(table.snapshot(only=(), service=TableService.CLEANING))
            if looked is not None:
                seen = table.snapshot(partitions=looked, service=TableService.CLEANING)
                # What was committed meanwhile may have moved the earliest instant on.
                if (now := where(seen)) is not None and now <= looked:
                    table.observer.step(f"partitions written to since the last clean: {len(looked)}")
                    return seen
        return table.snapshot(service=TableService.CLEANING)

    def _schedule(self, plan: CleanPlan) -> str:
        """Write the choice down, if all of it is still dead. Returns its instant."""
        table = self._table
        with table.locked() as fence:
            snapshot = table.snapshot(only=_groups(plan), service=TableService.CLEANING)
            pending = [each for each in snapshot.timeline.pending if each.action == ServiceAction.CLEAN.pending]
            if pending or (needed := self._needed(snapshot, plan)):
                raise TryLater(
                    f"{table.base_path} changed while its clean was planned.",
                    why=f"clean {pending[0].time} was requested." if pending else _first(needed),
                    remedy="Run the command again; nothing was written.",
                )
            (instant,) = table.minter(snapshot).mint()
            written = replace(plan, extra_metadata={**plan.extra_metadata, **self._extra_metadata})
            files = table.attempt(snapshot, instant, ServiceAction.CLEAN).files
            fence()
            files.request(write_clean_plan(written, root=clean_plan_root(table.base_path)))
        table.observer.step(f"clean {instant} scheduled, files: {_count(plan) or _count_retired(plan)}")
        return instant

    def carry_out(self, instant: str, *, recovered: bool) -> FinishedClean | None:
        """End the clean of this instant. None when another process completed it."""
        table, started = self._table, self._table.clock.monotonic()
        with table.measured(Phase.CLAIM):
            claimed = self._claim(instant)
        if not isinstance(claimed, tuple):
            return None if claimed is None else replace(claimed, recovered=recovered)
        clean, kept = claimed
        run = self._run(clean)
        try:
            completion_time = run_attempt(table, run)
        except AttemptLost:
            if clean.attempt.files.find_completed() is None:
                raise
            table.observer.step(f"clean {instant} was completed by another process")
            return None
        retained = clean.plan.earliest_retained
        return FinishedClean(
            instant=instant,
            completion_time=completion_time,
            recovered=recovered,
            files=_count(clean.plan) if isinstance(run, CleanRun) else len(run.files),
            bytes=_bytes(clean.snapshot, clean.plan)
            if isinstance(run, CleanRun)
            else sum(file.size for file in run.files),
            earliest_retained=retained.time if retained else "",
            kept=kept,
            kept_until=None if isinstance(run, UndoRun) else run.kept_until,
            retires=isinstance(run, RetirementRun),
            undoes=run.undoes if isinstance(run, UndoRun) else None,
            seconds=table.clock.monotonic() - started,
        )

    def _run(self, claimed: ClaimedClean) -> CleanRun | RetirementRun | UndoRun:
        undone = claimed.plan.extra_metadata.get(UNDO_OF)
        undo = None if undone is None else find_undo(self._table, claimed, undone)
        if undo is not None:
            return UndoRun(self._table, claimed, undo)
        if claimed.plan.retired:
            return RetirementRun(
                self._table, claimed, keep_seconds=self._keep_seconds, reader_window=self._reader_window
            )
        return CleanRun(self._table, claimed, keep_seconds=self._seconds_kept(claimed.attempt.instant))

    def _seconds_kept(self, instant: str) -> float:
        """What a dead process had begun to keep is kept on, for as long as it said, whatever the options say."""
        begun = load_quarantine(self._table.storage, self._table.base_path).find(instant)
        said = 0.0 if begun is None else begun.keep_until - self._table.clock.now()
        return max(self._keep_seconds, said)

    def _claim(self, instant: str) -> tuple[ClaimedClean, dict[str, str]] | FinishedClean | None:
        """The clean with what stays of it; what ended it where there is nothing to carry out; None when completed."""
        table = self._table
        table.watch([instant])
        with table.locked() as fence:
            snapshot = table.snapshot(only=(), service=TableService.CLEANING)
            attempt = table.attempt(snapshot, instant, ServiceAction.CLEAN)
            if attempt.files.find_completed() is not None:
                return None
            judged = table.liveness(instant)
            if judged.life is Life.ALIVE:
                raise TryLater(
                    f"Another process is carrying out clean {instant}.",
                    why=f"Its heartbeat is {judged.age_seconds:.0f} s old.",
                    remedy="Run the command again when it has finished.",
                )
            requested = attempt.files.requested
            content = table.storage.read(requested)
            plan = read_clean_plan(content, root=clean_plan_root(table.base_path), file=requested)
            snapshot = table.snapshot(only=_groups(plan), service=TableService.CLEANING)
            fence()
            if judged.life is not Life.ABSENT and not self._settle(attempt, judged, fence):
                return None
            needed = self._needed(snapshot, plan)
            if needed and PLANNED_BY in plan.extra_metadata and not attempt.files.is_inflight():
                fence()
                attempt.unschedule()
                table.observer.step(f"clean {instant} is taken back: {_first(needed)}")
                return FinishedClean(instant, None, recovered=True, files=0, bytes=0, earliest_retained="", kept=needed)
            for path, why in needed.items():
                table.observer.step(f"clean {instant} leaves {path}: {why}")
            attempt.claim()
            return ClaimedClean(snapshot, attempt, _without(plan, needed)), needed

    def _settle(self, attempt: Attempt, judged: Liveness, fence: Fence) -> bool:
        """Roll dead attempts back. False where one had stated its intent, and is rolled forward."""
        return settle(self._table, attempt, (), judged.owner, check_intent=_fits, fence=fence)

    def _needed(self, snapshot: TableSnapshot, plan: CleanPlan) -> dict[str, str]:
        """What stays, and of what no slice explains whatever is there at all."""
        needed = find_needed(snapshot, plan.files, drops_changes=DROPS_CHANGES in plan.extra_metadata)
        needed |= find_unretirable(snapshot, plan.retired)
        listed = set(_paths(snapshot))
        for partition, names in plan.files.items():
            for name in names:
                path = join(partition, name)
                if path in needed or path in listed:
                    continue
                if self._table.storage.stat(join(self._table.base_path, path)) is not None:
                    needed[path] = "no file slice explains it"
        return needed

    def _why_waiting(self, snapshot: TableSnapshot, instant: Instant) -> str | None:
        table, timeline = self._table, snapshot.timeline
        judged = table.liveness(instant.time)
        if judged.life is Life.ALIVE:
            return f"a process is carrying it out; its heartbeat is {judged.age_seconds:.0f} s old"
        if judged.life is not Life.ABSENT or table.options.writers_stopped or self._is_own(snapshot, instant.time):
            return None
        names = [each.file_name for each in timeline.instants if each.time == instant.time]
        quiet = table.clock.now() - max(timeline.modified[name] for name in names)
        if quiet < FOREIGN_QUIET_SECONDS:
            return f"another engine planned it, and began or planned it {max(0.0, quiet):.0f} s ago"
        return None

    def _is_own(self, snapshot: TableSnapshot, instant: str) -> bool:
        files = self._table.attempt(snapshot, instant, ServiceAction.CLEAN).files
        return PLANNED_BY in read_extra_metadata(self._table.storage.read(files.requested), file=files.requested)


def _paths(snapshot: TableSnapshot) -> Iterator[str]:
    """Paths of all files that are in a slice."""
    return (file.path for file in _files(snapshot))


def _bytes(snapshot: TableSnapshot, plan: CleanPlan) -> int:
    named = {join(partition, name) for partition, names in plan.files.items() for name in names}
    return sum(file.size for file in _files(snapshot) if file.path in named)


def _files(snapshot: TableSnapshot) -> Iterator[BaseFile | LogFile]:
    groups = [*snapshot.file_groups, *(each for each in snapshot.replaced_groups if isinstance(each, FileGroup))]
    for group in groups:
        for slice_ in group.slices:
            if slice_.base_file is not None:
                yield slice_.base_file
            yield from slice_.log_files


def _without(plan: CleanPlan, paths: Mapping[str, str]) -> CleanPlan:
    """Hudi's next clean looks at nothing that was not written to since the earliest instant that the last one names. So
    one that leaves something names none, and Hudi looks at all."""
    if not paths:
        return plan

    def left(named: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        return {
            partition: tuple(name for name in names if join(partition, name) not in paths)
            for partition, names in named.items()
        }

    return replace(plan, files=left(plan.files), retired=left(plan.retired), earliest_retained=None)


def _groups(plan: CleanPlan) -> set[GroupId]:
    return {*groups_of_files(plan.files), *groups_of_files(plan.retired)}


def _count(plan: CleanPlan) -> int:
    return sum(len(names) for names in plan.files.values())


def _count_retired(plan: CleanPlan) -> int:
    return sum(len(names) for names in plan.retired.values())


def _first(needed: Mapping[str, str]) -> str:
    path, why = next(iter(needed.items()))
    return f"{path} is needed: {why}; and files beside it: {len(needed) - 1}."


def check_readable_by_writers(snapshot: TableSnapshot) -> None:
    """A process of Hudi 1.0.2 that has just begun may fail over the deletes that a clean writes into these, its own as
    well as Lakeward's. Raises `Refused`.

    Spark brings Avro by its own class loader, and Hudi's bundle by another where it comes by `--packages` or `--jars`.
    If the first delete block that the process reads is read in a thread that has only the former, Avro does not find
    Hudi's classes, and remembers that: each later one is a ClassCastException (GenericData.Record, HoodieDeleteRecord).
    """
    has_deletes = {COLUMN_STATS, BLOOM_FILTERS}.intersection(snapshot.config.built_metadata_partitions)
    if snapshot.config.version.may_fail_over_metadata_deletes and has_deletes:
        raise Refused(
            f"{snapshot.base_path} is of version 8, and its metadata table has {', '.join(sorted(has_deletes))}.",
            why="What a clean deletes there, a writer of Hudi 1.0.2 that has just begun may fail to read, after cleans "
            "of Hudi's own too.",
            remedy="Leave cleaning of this table to Hudi, or upgrade it to version 9; nothing was written.",
        )


def _fits() -> None:
    """What was deleted stays so; the metadata table judges for itself."""

"""Take a table back to a commit: as if nothing after it had ever been written, but for a restore on the timeline.

    no lock  heartbeats are watched until they can be told
    lock     dead attempts of ours are rolled back -> what goes is chosen, and whether all that stays is there
             -> metadata table away -> pending cleans away -> R.restore.requested -> .inflight
             -> for each instant, the last to complete first:
                    a write, a clustering     its completed file -> its data files -> what says that it is pending
                    a compaction of either    what says that it is pending -> its data files -> its completed file
                    kind, completed
             -> rollbacks after the commit -> R_C.restore

A compaction changes no row: without its files readers merge what it merged, and so it is never left half undone as a
plan that a writer might carry out. While a restore is pending Hudi's writers refuse to begin a write.

*The metadata table goes as a whole, and first*: while its readers would look for files that are gone, they list the
storage. Hudi's next writer that has it on builds it anew. *Pending cleans go before the restore is requested*: what
they would delete was dead as of a later commit, and may be in the newest slices as of this one.

A process that finds a restore pending, ours or Hudi's, carries its plan out from the start: what is gone already is
gone. Hudi ends ours by the same plan.

Touches: the whole table; under the lock, with no other process at work.
Keeps:   1. nothing is changed before it is known that every file of the table as of the commit is there;
         2. a file is deleted only if its name carries an instant that a restore on the timeline names;
         3. stopped anywhere, the table is as it was, or the restore is pending and the next one ends it;
         4. when it is completed no file of what was rolled back is left, no plan, and no metadata table.
See:     docs/decisions/0035-restore.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakeward.commit.attempt import Attempt, Publication, rollback_place
from lakeward.commit.heartbeat import Life, read_liveness, watch
from lakeward.commit.instant_time import later, next_time
from lakeward.commit.lock.table_lock import Fence
from lakeward.commit.orphan_files import Fate, Left, delete_orphans, forget_failed_write
from lakeward.commit.table_properties import recover_properties
from lakeward.commit.transition import ServiceAction, UndoAction, UndoneFiles
from lakeward.errors import Conflict, Refused, TryLater
from lakeward.execute.compaction.recovery import recover
from lakeward.execute.life_cycle import settle
from lakeward.execute.metadata.removal import remove_beside_restore
from lakeward.execute.rollback.failed_writes import heartbeat_places
from lakeward.execute.rollback.taking_over import take_over, tidy
from lakeward.execute.serviced_table import ServicedTable
from lakeward.format.file_name import parse_data_file
from lakeward.format.timeline.clean_plan import clean_plan_root, read_clean_plan
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import Instant, State, is_before
from lakeward.format.timeline.restore_metadata import encode_restore_metadata
from lakeward.format.timeline.restore_plan import PlannedInstant, RestorePlan, encode_restore_plan, read_restore_plan
from lakeward.format.timeline.rollback_plan import RollbackPlan
from lakeward.plan.eligibility import TableService
from lakeward.plan.restoring import check_nothing_in_the_way, check_readable, find_later, find_target
from lakeward.storage.storage import join
from lakeward.table.data_files import DataFiles, list_data_files
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import BACKUP_FILE, hoodie_folder, timeline_folder
from lakeward.table.timeline.cleans import Clean, read_cleans
from lakeward.table.timeline.reader import TimelineReader
from lakeward.table.timeline.savepoints import read_savepoints
from lakeward.table.timeline.timeline import WRITE_ACTIONS, load_timeline

_DELETIONS_A_FENCE = 100
_ROWS_STAY = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations that change no row."""

Names = Mapping[str, tuple[str, ...]]
"""Names of files, by partition path."""


@dataclass(frozen=True, slots=True)
class Undone:
    """An instant that goes, or went."""

    instant: str
    action: str
    is_completed: bool
    operation: str
    """Hudi's name, `UPSERT`; empty for what is pending."""
    inserted: int
    """Rows that it says it wrote, of each kind; none for a service, which changes no row."""
    updated: int
    deleted: int
    files: Names
    bytes: int


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """What a restore does, or would do."""

    target: str
    undone: tuple[Undone, ...]
    """In the order in which they go; none where the table is there already."""
    cleans: tuple[str, ...]
    """Pending cleans that go."""
    stays_pending: tuple[str, ...]
    """Compactions that were requested before the commit, and stay."""
    has_metadata_table: bool
    pending_restore: str | None
    """The restore to the same commit that was interrupted."""


@dataclass(frozen=True, slots=True)
class Restored:
    planned: PlannedRestore
    restore: str | None
    """The instant of the restore; None where there was nothing to do."""
    completion_time: str | None


def preview_restore(table: ServicedTable, target: str) -> PlannedRestore:
    """What `restore` would do now, or why it would not: raises as that does. Writes nothing, and may wait for
    heartbeats."""
    _watch(table)
    return _prepare(table, target).planned


def restore(table: ServicedTable, target: str) -> Restored:
    """Take the table back to the commit `target`.

    Raises:
        UsageError: there is no such completed commit.
        Refused: the table, or what is on its timeline, does not allow it; nothing was written.
        LockHeld, TryLater: another process is at work.
        Conflict: a writer was at work all the same; nothing was rolled back.
    """
    assert table.options.writers_stopped, "nothing protects a writer from a restore, nor a restore from a writer"
    if table.storage.stat(join(hoodie_folder(table.base_path), BACKUP_FILE)) is not None:
        # A restore that died while it took the metadata table out of the properties, among others.
        with table.locked() as fence:
            recover_properties(table.storage, table.base_path, fence=fence)
    _watch(table)
    with table.locked() as fence:
        _end_attempts(table, _snapshot(table), fence)
        found = _prepare(table, target)
        if found.planned.pending_restore is None and not found.planned.undone:
            return Restored(found.planned, None, None)
        return _Restore(table, found, fence).run()


@dataclass(frozen=True, slots=True)
class _Prepared:
    snapshot: TableSnapshot
    there: DataFiles
    plan: RestorePlan
    planned: PlannedRestore


class _Restore:
    """One restore. Under the lock."""

    def __init__(self, table: ServicedTable, found: _Prepared, fence: Fence) -> None:
        self._table = table
        self._snapshot = found.snapshot
        self._plan = found.plan
        self._planned = found.planned
        self._fence = fence
        self._timeline = timeline_folder(table.base_path, found.snapshot.config)
        self._started = table.clock.monotonic()

    def run(self) -> Restored:
        table, fence, planned = self._table, self._fence, self._planned
        fence()
        removal = remove_beside_restore(
            table.storage, table.base_path, clock=table.clock, attempt=table.owner.attempt, fence=fence
        )
        if removal.named:
            table.observer.step("metadata table removed: Hudi's next writer that has it on builds it anew")
        self._drop_cleans()
        if planned.pending_restore is not None:
            attempt = self._attempt(planned.pending_restore)
            table.observer.step(f"restore {attempt.instant}: ending what was interrupted")
            if (completion_time := take_over(table, attempt, fence)) is not None:
                return Restored(planned, attempt.instant, completion_time)
        else:
            snapshot = self._snapshot
            attempt = self._attempt(
                next_time(floor=snapshot.timeline.latest_time, zone=snapshot.zone, clock=table.clock)
            )
            fence()
            attempt.claim()
            attempt.request(encode_restore_plan(self._plan))
            self._check_writers_stopped(attempt)
        rolled_back = [self._roll_back(each) for each in _once(self._plan.instants)]
        self._delete_rest()
        self._drop_rollbacks()
        milliseconds = int((table.clock.monotonic() - self._started) * 1000)
        attempt.stage(
            encode_restore_metadata(
                rolled_back, instant=attempt.instant, milliseconds=milliseconds, base_path=table.base_path
            )
        )
        latest_time = later(self._snapshot.timeline.latest_time, attempt.instant)
        publication = Publication(latest_time=latest_time, zone=self._snapshot.zone)
        completion_time = attempt.publish(publication, clock=table.clock, fence=fence)
        attempt.clear()
        table.observer.step(f"table restored to {self._plan.target}, instants rolled back: {len(rolled_back)}")
        return Restored(planned, attempt.instant, completion_time)

    def _drop_cleans(self) -> None:
        """What they would delete may be needed as of the commit; Hudi plans its next clean anew."""
        for instant in self._planned.cleans:
            files = self._table.attempt(self._snapshot, instant, ServiceAction.CLEAN).files
            self._fence()
            files.check_uncompleted()
            files.roll_back()
            files.unschedule()

    def _check_writers_stopped(self, attempt: Attempt) -> None:
        """Once a restore is pending no writer begins. One that began before would be rolled back half: then nothing is
        done. Raises `Conflict`."""
        before = {(each.time, each.comparable_action) for each in self._snapshot.timeline.instants}
        now = load_timeline(self._table.storage, self._table.base_path, self._snapshot.config)
        came = {(i.time, i.comparable_action): i for i in now.instants if i.time != attempt.instant}
        if new := sorted(came.keys() - before):
            self._fence()
            attempt.files.roll_back()
            attempt.files.unschedule()
            attempt.forget()
            raise Conflict(
                f"{came[new[0]].action} {new[0][0]} appeared while the restore was prepared.",
                why="You said --writers stopped, and a writer is at work.",
                remedy="Stop it, and run the command again; nothing was rolled back.",
            )

    def _roll_back(self, instant: PlannedInstant) -> RollbackPlan:
        table = self._table
        files = next((each.files for each in self._planned.undone if each.instant == instant.time), {})
        on_timeline = UndoneFiles(table.storage, self._timeline, instant.time, WRITE_ACTIONS)
        self._fence()
        # A plan that stayed behind its commit, or none: it is a compaction of either kind, which changes no row.
        rows_stay = instant.action in ("commit", "deltacommit") and instant.action not in on_timeline.pending_actions
        if rows_stay:
            on_timeline.forget()
        else:
            on_timeline.unpublish()
        self._delete(join(table.base_path, path, name) for path, names in files.items() for name in names)
        self._fence()
        if rows_stay:
            on_timeline.unpublish()
        else:
            on_timeline.forget()
        forget_failed_write(table.storage, table.base_path, instant.time)
        table.observer.step(f"{instant.action} {instant.time} rolled back")
        return RollbackPlan(instant.time, instant.action, files)

    def _delete_rest(self) -> None:
        """What a task of a dead writer wrote meanwhile, and what an earlier process did not reach."""
        table = self._table
        timeline = load_timeline(table.storage, table.base_path, self._snapshot.config)
        there = list_data_files(table.storage, table.base_path, self._snapshot.config, timeline)
        found = _files_of(there, self._plan.times)
        self._delete(
            join(table.base_path, path, name)
            for names in found.values()
            for path, each in names.items()
            for name in each
        )

    def _drop_rollbacks(self) -> None:
        """Delete, as Hudi does, those after the commit: they are about instants of which nothing is left."""
        table = self._table
        timeline = load_timeline(table.storage, table.base_path, self._snapshot.config)
        rollbacks = {i.time for i in timeline.instants if i.action == "rollback"}
        for time in sorted(each for each in rollbacks if is_before(self._plan.target, each)):
            files = UndoneFiles(table.storage, self._timeline, time, {"rollback"})
            self._fence()
            files.unpublish()
            files.forget()

    def _delete(self, paths: Iterable[str]) -> None:
        every = list(paths)
        for first in range(0, len(every), _DELETIONS_A_FENCE):
            self._fence()
            batch = every[first : first + _DELETIONS_A_FENCE]
            delete_orphans(self._table.storage, Left.WRITTEN, Fate.RESTORED, batch)

    def _attempt(self, instant: str) -> Attempt:
        table = self._table
        place = rollback_place(table.storage, table.base_path, self._timeline)
        return Attempt(place, instant, UndoAction.RESTORE, table.owner)


def _prepare(table: ServicedTable, target: str) -> _Prepared:
    snapshot = _snapshot(table)
    storage, base_path, config, timeline = table.storage, table.base_path, snapshot.config, snapshot.timeline
    _check_nothing_lives(table, snapshot)
    commit = find_target(timeline, target)
    pending = _pending_restore(table, snapshot, target)
    if pending is None:
        later_ones = find_later(timeline, commit, merge_on_read=config.table_type.upper() != "COPY_ON_WRITE")
        check_nothing_in_the_way(timeline, target, later_ones)
        plan = RestorePlan(target, tuple(_planned(snapshot, later_ones)))
    else:
        plan = pending[1]
    there = list_data_files(storage, base_path, config, timeline)
    cleans, dropped = _cleans(table, snapshot, there)
    if pending is None:
        written = TimelineReader(storage, base_path, config, timeline).written_files()
        savepoints = read_savepoints(storage, base_path, config, timeline)
        check_readable(
            commit,
            plan.times,
            there.without(plan.times, written),
            there.content.replaced,
            cleans,
            next((each for each in savepoints if each.instant == target), None),
            there.sizes,
            timeline,
        )
    files = _files_of(there, plan.times)
    undone = tuple(_undone(table, snapshot, each, files.get(each.time, {}), there) for each in _once(plan.instants))
    stay = [i.time for i in timeline.pending if i.action == "compaction" and i.time not in plan.times]
    planned = PlannedRestore(
        target=target,
        undone=undone,
        cleans=dropped,
        stays_pending=tuple(stay),
        has_metadata_table=has_metadata_table(config),
        pending_restore=None if pending is None else pending[0],
    )
    return _Prepared(snapshot, there, plan, planned)


def _planned(snapshot: TableSnapshot, later_ones: Iterable[Instant]) -> Iterator[PlannedInstant]:
    """Plans as Hudi does, but for a completed clustering, which is named a second time as what it is once its completed
    file is gone: a process of Hudi's that ends our restore then finds it, too."""
    clusterings = {i.time for i in snapshot.timeline.instants if i.action == "clustering"}
    for each in later_ones:
        yield PlannedInstant(each.time, each.action)
        if each.state is State.COMPLETED and each.time in clusterings:
            yield PlannedInstant(each.time, "clustering")


def _once(instants: Iterable[PlannedInstant]) -> list[PlannedInstant]:
    """Each instant as it is named first."""
    return list({each.time: each for each in reversed(tuple(instants))}.values())[::-1]


def _pending_restore(table: ServicedTable, snapshot: TableSnapshot, target: str) -> tuple[str, RestorePlan] | None:
    """A restore that was interrupted, which must lead to where this one does. Raises `Refused`."""
    pending = [each.time for each in snapshot.timeline.pending if each.action == "restore"]
    if not pending:
        return None
    requested = join(timeline_folder(table.base_path, snapshot.config), f"{pending[-1]}.restore.requested")
    plan = read_restore_plan(table.storage.read(requested), file=requested)
    if plan.target != target:
        raise Refused(
            f"The table cannot go back to {target}: restore {pending[-1]} to {plan.target} is pending.",
            why="It was interrupted, and what it rolls back may be gone in part.",
            remedy=f"End it first: lakeward restore TABLE --to {plan.target} --writers stopped.",
        )
    return pending[-1], plan


def _cleans(table: ServicedTable, snapshot: TableSnapshot, there: DataFiles) -> tuple[list[Clean], tuple[str, ...]]:
    """The cleans, and the instants of those that are pending. Of these counts what is gone already."""
    cleans: list[Clean] = []
    pending: list[str] = []
    for each in read_cleans(table.storage, table.base_path, snapshot.config, snapshot.timeline):
        if each.is_completed:
            cleans.append(each)
            continue
        pending.append(each.instant)
        requested = table.attempt(snapshot, each.instant, ServiceAction.CLEAN).files.requested
        plan = read_clean_plan(table.storage.read(requested), root=clean_plan_root(table.base_path), file=requested)
        gone = {
            path: tuple(name for name in names if name not in there.sizes.get(path, {}))
            for path, names in plan.files.items()
        }
        cleans.append(Clean(each.instant, True, "", gone))
    return cleans, tuple(pending)


def _files_of(there: DataFiles, instants: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The data files that each instant wrote: names by partition path."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for path, sizes in there.sizes.items():
        for name in sorted(sizes):
            parsed = parse_data_file(name)
            if parsed is not None and parsed.instant in instants:
                of = found.setdefault(parsed.instant, {})
                of[path] = (*of.get(path, ()), name)
    return found


def _undone(
    table: ServicedTable, snapshot: TableSnapshot, instant: PlannedInstant, files: Names, there: DataFiles
) -> Undone:
    found = snapshot.timeline.find_write(instant.time)
    size = sum(there.sizes[path][name] for path, names in files.items() for name in names)
    if found is None or found.state is not State.COMPLETED:
        return Undone(instant.time, instant.action, False, "", 0, 0, 0, files, size)
    file = join(timeline_folder(table.base_path, snapshot.config), found.file_name)
    metadata = read_commit_metadata(table.storage.read(file), file=file, layout=snapshot.config.layout)
    operation = metadata.operation_type or ""
    stats = [] if operation in _ROWS_STAY else [s for each in metadata.partition_to_write_stats.values() for s in each]
    return Undone(
        instant=instant.time,
        action=instant.action,
        is_completed=True,
        operation=operation,
        inserted=sum(stat.num_inserts or 0 for stat in stats),
        updated=sum(stat.num_update_writes or 0 for stat in stats),
        deleted=sum(stat.num_deletes or 0 for stat in stats),
        files=files,
        bytes=size,
    )


def _watch(table: ServicedTable) -> None:
    """Wait until it can be told of each heartbeat whether it beats. Not under the lock."""
    snapshot = _snapshot(table)

    def on_wait(what: str, seconds: float) -> None:
        table.guard()
        table.observer.waiting(what, seconds)

    pending = [each.time for each in snapshot.timeline.pending]
    for place in heartbeat_places(table, snapshot):
        watch(table.storage, place, pending, clock=table.clock, processes=table.processes, on_wait=on_wait)


def _check_nothing_lives(table: ServicedTable, snapshot: TableSnapshot) -> None:
    for each in snapshot.timeline.pending:
        for place in heartbeat_places(table, snapshot):
            judged = read_liveness(table.storage, place, each.time, clock=table.clock, processes=table.processes)
            if judged.life is Life.ALIVE:
                raise TryLater(
                    f"{each.action} {each.time} is under way.",
                    why=f"Its heartbeat is {judged.age_seconds:.0f} s old, and a restore would take its files away.",
                    remedy="Stop it where it runs, and run the command again; two minutes after the last heartbeat it "
                    "counts as dead.",
                )


def _end_attempts(table: ServicedTable, snapshot: TableSnapshot, fence: Fence) -> None:
    """Attempts of ours that died are rolled back, or forward where they had stated their intent, so that no process
    that wakes publishes into the restored table."""
    _check_nothing_lives(table, snapshot)
    recover(table, snapshot, fence=fence)
    tidy(table, snapshot)
    for each in snapshot.timeline.pending:
        judged = table.liveness(each.time)
        if each.action == ServiceAction.CLEAN.pending and judged.owner is not None:
            attempt = table.attempt(snapshot, each.time, ServiceAction.CLEAN)
            settle(table, attempt, (), judged.owner, check_intent=_fits, fence=fence)


def _fits() -> None:
    """What a clean deleted stays so."""


def _snapshot(table: ServicedTable) -> TableSnapshot:
    return table.snapshot(only=(), service=TableService.RESTORE)  # what of the files matters is listed as of the commit

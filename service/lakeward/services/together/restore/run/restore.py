"""Take a table back to a commit: as if nothing after it had ever been written, but for a restore on the timeline.

    no lock  heartbeats are watched until they can be known
    lock     dead attempts of Lakeward are rolled back -> what goes is chosen, and whether all that stays is there
             -> metadata table away -> pending cleans away
    [no lock cleans whose files are needed are undone, the newest first -> and then once more from the top]
             -> R.restore.requested -> .inflight
             -> for each instant, the last to complete first:
                    a write, a clustering     its completed file -> its data files -> what says that it is pending
                    a compaction of either    what says that it is pending -> its data files -> its completed file
                    kind, completed
             -> rollbacks after the commit -> R_C.restore

A compaction changes no row: without its files readers merge what it merged, and so it is never left half undone as a
plan that a writer might carry out. While a restore is pending Hudi's writers refuse to begin a write.

*The metadata table goes as a whole, and first*: while its readers would look for files that are gone, they list the
storage. Hudi's next writer that has it on rebuilds it. *Pending cleans go before the restore is requested*: what
they would delete was dead as of a later commit, and may be in the newest slices as of this one. *Cleans are undone
after both*: without a metadata table an undo only moves files, and completes a clean of none. A process that dies
between leaves a sound table, in which a clean is undone.

*The lock is held* from the choice to the end: no writer waits for it, since all are stopped, and another restore, or a
daemon that was forgotten, must not begin in the middle. It is given back only for the undos, which take it themselves.

A process that finds a restore pending, Lakeward's or Hudi's, carries its plan out from the start: what is gone already
is gone. Hudi ends Lakeward's by the same plan.

Touches: the whole table; under the lock, with no other process at work.
Keeps:   1. nothing is changed before it is known that every file of the table as of the commit is there;
         2. a file is deleted only if its name carries an instant that a restore on the timeline names;
         3. stopped anywhere, the table is as it was, or the restore is pending and the next one ends it;
         4. when it is completed no file of what was rolled back is left, no plan, and no metadata table.
See:     docs/decisions/0035-restore.md
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakeward.base.errors import Conflict, TryLater
from lakeward.base.paths import join
from lakeward.base.quantities import format_size
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import is_before
from lakeward.format.timeline.restore_metadata import encode_restore_metadata
from lakeward.format.timeline.restore_plan import PlannedInstant, encode_restore_plan
from lakeward.format.timeline.rollback_plan import RollbackPlan
from lakeward.protocol.attempts.attempt import Attempt, Publication, rollback_place
from lakeward.protocol.attempts.heartbeat import watch
from lakeward.protocol.attempts.orphan_files import Fate, Left, delete_orphans, forget_failed_write
from lakeward.protocol.life_cycle import settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.pending.stuck_services import check_nothing_lives, heartbeat_places
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.table_properties import recover_properties
from lakeward.protocol.transition import ServiceAction, UndoAction, UndoneFiles
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.compaction.run.recovery import recover
from lakeward.services.metadata.run.removal import remove_beside_restore
from lakeward.services.rollback.run.takeover import take_over, tidy
from lakeward.services.together.restore.run.restore_preparation import (
    OTHERWISE,
    PlannedRestore,
    Prepared,
    once,
    prepare,
    scan,
)
from lakeward.table.listing_source import find_table_partitions
from lakeward.table.partition import list_partitions
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import BACKUP_FILE, hoodie_folder, load_table_config, timeline_folder
from lakeward.table.timeline.timeline import WRITE_ACTIONS, load_timeline

_DELETIONS_A_FENCE = 100
_KEPT_SECONDS = 3600.0
"""For so long, at least, what is brought back next is kept."""
_SERVICES = frozenset({"compaction", "logcompaction"})


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
    return prepare(table, target).planned


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
        _end_attempts(table, scan(table), fence)
        found = prepare(table, target)
        if not found.planned.brought_back:
            return _restore_now(table, found, fence)
        _make_way(table, found, fence)
    _bring_back(table, found)
    with table.locked() as fence:
        _end_attempts(table, scan(table), fence)
        now = prepare(table, target)
        if now.planned.brought_back:
            raise TryLater(
                f"The table has not gone back to {target} yet: clean {now.planned.brought_back[0].clean} took files "
                "away while earlier ones were brought back.",
                remedy="Stop what cleans the table, and run the command again.",
            )
        done = _restore_now(table, now, fence)
    seen = replace(
        done.planned,
        brought_back=found.planned.brought_back,
        cleans=found.planned.cleans,
        has_metadata_table=found.planned.has_metadata_table,
    )
    return replace(done, planned=seen)


def _restore_now(table: ServicedTable, found: Prepared, fence: Fence) -> Restored:
    if found.planned.pending_restore is None and not found.planned.undone:
        return Restored(found.planned, None, None)
    return _Restore(table, found, fence).run()


def _make_way(table: ServicedTable, found: Prepared, fence: Fence) -> None:
    """Take the metadata table away, and pending cleans: what they would delete may be needed as of the commit, and Hudi
    plans its next clean again. New times come after those of the metadata table, so one is minted, and remembered,
    while they can be read."""
    if found.planned.has_metadata_table:
        table.minter(found.snapshot).mint()
    fence()
    removal = remove_beside_restore(
        table.storage, table.base_path, clock=table.clock, attempt=table.owner.attempt, fence=fence
    )
    if removal.named:
        table.observer.step("metadata table removed: Hudi's next writer that has it on rebuilds it")
    for instant in found.planned.cleans:
        files = table.attempt(found.snapshot, instant, ServiceAction.CLEAN).files
        fence()
        files.check_uncompleted()
        files.roll_back()
        files.unschedule()


def _bring_back(table: ServicedTable, found: Prepared) -> None:
    """Undo the cleans. Raises what that raises; the table is sound then, and as it was but for what came back."""
    for instant in found.to_end:
        Cleaner(table, {}, keep_seconds=_KEPT_SECONDS).carry_out(instant, recovered=True)
    for each in found.planned.brought_back:
        table.observer.step(f"undoing clean {each.clean}: files: {each.files}, {format_size(each.bytes)}")
        undo_clean(table, each.clean)


class _Restore:
    """One restore. Under the lock."""

    def __init__(self, table: ServicedTable, found: Prepared, fence: Fence) -> None:
        self._table = table
        self._found = found
        self._snapshot = found.snapshot
        self._plan = found.plan
        self._planned = found.planned
        self._fence = fence
        self._timeline = timeline_folder(table.base_path, found.snapshot.config)
        self._started = table.clock.monotonic()

    def run(self) -> Restored:
        table, fence, planned = self._table, self._fence, self._planned
        _make_way(table, self._found, fence)
        if planned.pending_restore is not None:
            attempt = self._attempt(planned.pending_restore)
            table.observer.step(f"restore {attempt.instant}: ending what was interrupted")
            if (completion_time := take_over(table, attempt, fence)) is not None:
                return Restored(planned, attempt.instant, completion_time)
        else:
            attempt = self._attempt(table.minter(self._snapshot).mint()[0])
            fence()
            attempt.claim()
            attempt.request(encode_restore_plan(self._plan))
            self._check_writers_stopped(attempt)
        rolled_back = [self._roll_back(each) for each in once(self._plan.instants)]
        self._delete_rest()
        self._drop_rollbacks()
        milliseconds = int((table.clock.monotonic() - self._started) * 1000)
        attempt.stage(
            encode_restore_metadata(
                rolled_back, instant=attempt.instant, milliseconds=milliseconds, base_path=table.base_path
            )
        )
        completion_time = attempt.publish(Publication(table.minter(self._snapshot).mint), fence=fence)
        attempt.clear()
        table.observer.step(f"table restored to {self._plan.target}, instants rolled back: {len(rolled_back)}")
        return Restored(planned, attempt.instant, completion_time)

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
        """What a task of a dead writer wrote meanwhile, and what an earlier process did not reach. It may be in any
        partition where a write never completed; what completed is in the partitions that it named."""
        table, undone = self._table, self._planned.undone
        if all(each.is_completed or each.action in _SERVICES for each in undone):
            touched = {path for each in undone for path in each.files}
            found = list_partitions(table.storage, table.base_path, touched)
        else:
            # The metadata table is used now, and there were no partitions that only it knew of (`preparing`).
            config = load_table_config(table.storage, table.base_path, clock=table.clock).config
            found = find_table_partitions(
                table.storage, table.base_path, config, self._snapshot.timeline, clock=table.clock
            )
        statuses = (status for partition in found.partitions for status in partition.files if not status.is_link)
        self._delete(status.path for status in statuses if self._is_undone(status.name))

    def _is_undone(self, name: str) -> bool:
        parsed = parse_any_data_file(name, native=self._snapshot.config.version.has_native_logs)
        return parsed is not None and parsed.instant in self._plan.times

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
            if len(every) > _DELETIONS_A_FENCE:
                self._table.observer.step(f"files deleted: {first + len(batch)} of {len(every)}")

    def _attempt(self, instant: str) -> Attempt:
        table = self._table
        place = rollback_place(table.storage, table.base_path, self._timeline)
        return Attempt(place, instant, UndoAction.RESTORE, table.owner)


def _watch(table: ServicedTable) -> None:
    """Wait until it can be known of each heartbeat whether it beats. Not under the lock."""
    snapshot = scan(table)

    def on_wait(what: str, seconds: float) -> None:
        table.guard()
        table.observer.waiting(what, seconds)

    pending = [each.time for each in snapshot.timeline.pending]
    for place in heartbeat_places(table.base_path, snapshot):
        watch(table.storage, place, pending, clock=table.clock, processes=table.processes, on_wait=on_wait)


def _end_attempts(table: ServicedTable, snapshot: TableSnapshot, fence: Fence) -> None:
    """Attempts of Lakeward that died are rolled back, or forward where they had stated their intent, so that no process
    that wakes publishes into the restored table."""
    check_nothing_lives(table, snapshot, otherwise=OTHERWISE)
    recover(table, snapshot, fence=fence)
    tidy(table, snapshot)
    for each in snapshot.timeline.pending:
        judged = table.liveness(each.time)
        if each.action == ServiceAction.CLEAN.pending and judged.owner is not None:
            attempt = table.attempt(snapshot, each.time, ServiceAction.CLEAN)
            settle(table, attempt, (), judged.owner, check_intent=_fits, fence=fence)


def _fits() -> None:
    """What a clean deleted stays so."""

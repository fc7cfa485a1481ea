"""Make a savepoint of a commit, or delete one, beside the table's writers.

    list the table -> under the lock: nothing came that matters, or list again -> `.savepoint.inflight` ->
    `T_C.savepoint`, with the files that it keeps -> no clean came in between, or delete it again

The files are listed before the lock is asked for, since a listing of a large table is long. A clean that was planned
before our savepoint knows nothing of it; so what was listed counts only while no clean, rollback or restore came since,
no second savepoint, and nothing up to the commit. Later writes only add files, which are none of the savepoint's.

    t0 we list and are stopped; t1 our lock ends, a cleaner plans and deletes; t2 we wake and complete the savepoint

keeps nothing that is gone: after it is completed the timeline is read once more.

Touches: files of the savepoint on the timeline, through `protocol/transition.py` and under the table lock.
Keeps:   1. stopped anywhere, there is a savepoint with all of its files, or none: one that was only begun keeps
            nothing, and the next call makes it or deletes it;
         2. one that another process may be making just now is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.base.errors import AttemptLost, Refused, TryLater, UsageError
from lakeward.base.paths import join
from lakeward.format.timeline.instant import Instant, State, is_before
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import SavepointFiles
from lakeward.services.savepoint.savepoint_plan import Pinned, check_commit, check_uncleaned, files_to_keep, pinned_by
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileGroup, FrozenGroup
from lakeward.table.past_slices import groups_as_of
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.cleans import not_undone, read_cleans
from lakeward.table.timeline.savepoints import read_savepoints
from lakeward.table.timeline.timeline import Timeline, load_timeline

_DELETE_FILES = frozenset({"clean", "rollback", "restore"})

ABANDONED_SECONDS = 600.0
"""A savepoint that was begun so long ago and is not completed will not be: between the two is a wait for the lock."""


@dataclass(frozen=True, slots=True)
class Saved:
    instant: str
    completion_time: str | None
    """None where it was only looked what it would keep."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Deleted:
    instant: str
    was_completed: bool
    """False for one that was only begun."""


def create_savepoint(table: ServicedTable, instant: str | None, *, user: str, comment: str) -> Saved:
    """Make one, of the newest commit where none is named. Raises `Refused`, `UsageError`, `TryLater`, `AttemptLost`."""
    seen = _prepare(table, instant)
    with table.locked() as fence:
        timeline = load_timeline(table.storage, table.base_path, seen.snapshot.config)
        if seen.is_outdated_by(timeline):
            seen = _prepare(table, instant)
            timeline = seen.snapshot.timeline
        seen.check_nobody_makes_it(table)
        return _publish(table, seen, timeline, fence, user=user, comment=comment)


def preview_savepoint(table: ServicedTable, instant: str | None) -> Saved:
    """What `create_savepoint` would keep now. Takes no lock and writes nothing."""
    seen = _prepare(table, instant)
    return Saved(seen.instant, None, *seen.measure())


def delete_savepoint(table: ServicedTable, instant: str) -> Deleted:
    """Delete one, Hudi's likewise. Raises `UsageError` where the commit has none."""
    with table.locked() as fence:
        snapshot = table.snapshot(only=(), service=TableService.SAVEPOINT)
        found = [each for each in snapshot.timeline.instants if (each.time, each.action) == (instant, "savepoint")]
        if not found:
            raise UsageError(
                f"{instant} has no savepoint.",
                why="There is none of it on the timeline.",
                remedy="`lakeward savepoint list` shows those that there are.",
            )
        fence()
        _files(table, snapshot, instant).delete()
    table.observer.step(f"savepoint {instant} deleted")
    return Deleted(instant, any(each.state is State.COMPLETED for each in found))


@dataclass(frozen=True, slots=True)
class _Prepared:
    snapshot: TableSnapshot
    instant: str
    names: dict[str, tuple[str, ...]]

    def measure(self) -> tuple[int, int]:
        """The number of files that it keeps, and their bytes."""
        kept = {join(path, name) for path, names in self.names.items() for name in names}
        sizes = [size for files in self.snapshot.files for path, size in files.sizes if path in kept]
        assert len(sizes) == len(kept), "it keeps files that were listed"
        return len(sizes), sum(sizes)

    def is_outdated_by(self, timeline: Timeline) -> bool:
        """Whether something came, or went, after which other files may have to be kept, or fewer are there."""
        before, now = set(self.snapshot.timeline.instants), set(timeline.instants)
        came = now - before
        return bool(before - now) or any(
            each.action in _DELETE_FILES or each.action == "savepoint" or not is_before(self.instant, each.time)
            for each in came
        )

    def check_nobody_makes_it(self, table: ServicedTable) -> None:
        begun = [i for i in self.snapshot.timeline.pending if (i.time, i.action) == (self.instant, "savepoint")]
        for each in begun:
            age = table.clock.now() - self.snapshot.timeline.modified[each.file_name]
            if not table.options.writers_stopped and age < ABANDONED_SECONDS:
                raise TryLater(
                    f"A savepoint of {self.instant} was begun {max(0.0, age):.0f} s ago.",
                    why="Another process may be about to complete it, or died over it.",
                    remedy=f"Run the command again {ABANDONED_SECONDS / 60:.0f} minutes after that, which completes "
                    "it; `lakeward savepoint delete` removes it now.",
                )


def _prepare(table: ServicedTable, instant: str | None) -> _Prepared:
    snapshot = table.snapshot(service=TableService.SAVEPOINT)
    timeline = snapshot.timeline
    if instant is None:
        if not timeline.completed_writes:
            raise UsageError("There is no completed commit on the timeline.", remedy="Write to the table first.")
        instant = timeline.completed_writes[-1].time
    cleans = not_undone(read_cleans(table.storage, table.base_path, snapshot.config, timeline))
    check_commit(timeline, instant, cleans)
    then = groups_as_of(snapshot, instant)
    if frozen := [group for group in then if isinstance(group, FrozenGroup)]:
        raise Refused(
            f"{table.base_path} cannot be savepointed: the files of {len(frozen)} of its file groups are in doubt.",
            why=f"{frozen[0].partition_path or '(none)'}/{frozen[0].file_id}: {frozen[0].why}.",
            remedy="`lakeward inspect` names them all, and `lakeward verify` what is wrong with each.",
        )
    groups = [group for group in then if isinstance(group, FileGroup)]
    check_uncleaned(groups, snapshot.replaced, instant, cleans, native=snapshot.config.version.has_native_logs)
    return _Prepared(snapshot, instant, files_to_keep(groups, instant))


def _publish(
    table: ServicedTable, seen: _Prepared, timeline: Timeline, fence: Fence, *, user: str, comment: str
) -> Saved:
    files = _files(table, seen.snapshot, seen.instant)
    fence()
    files.begin()
    (time,) = table.minter(seen.snapshot, timeline=timeline).mint()
    metadata = SavepointMetadata(user, comment, seen.names, milliseconds=int(table.clock.now() * 1000))
    fence()
    files.complete(time, write_savepoint_metadata(metadata))
    now = load_timeline(table.storage, table.base_path, seen.snapshot.config)
    if strangers := _strangers(set(now.instants) - set(timeline.instants), seen.instant, time):
        files.delete()
        raise AttemptLost(
            f"The savepoint of {seen.instant} was deleted again: {strangers[0].file_name} came while it was made.",
            why="The table lock was lost meanwhile, and what the savepoint keeps may be gone.",
            remedy="Run the command again.",
        )
    table.observer.step(f"savepoint {seen.instant} made")
    return Saved(seen.instant, time, *seen.measure())


def _strangers(came: Iterable[Instant], instant: str, time: str) -> list[Instant]:
    """What came beside our savepoint and may have deleted files, or is a second savepoint of the commit."""
    return [
        each
        for each in came
        if each.action in _DELETE_FILES
        or (
            (each.time, each.action, each.state) == (instant, "savepoint", State.COMPLETED)
            and each.completion_time != time
        )
    ]


def _files(table: ServicedTable, snapshot: TableSnapshot, instant: str) -> SavepointFiles:
    return SavepointFiles(table.storage, timeline_folder(table.base_path, snapshot.config), instant)


def find_pinned(storage: Storage, base_path: str, snapshot: TableSnapshot) -> list[Pinned]:
    """What each savepoint alone keeps, the oldest first, with one read for each; the snapshot is of the whole table."""
    return pinned_by(read_savepoints(storage, base_path, snapshot.config, snapshot.timeline), snapshot)

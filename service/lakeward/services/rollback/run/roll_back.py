"""Roll failed writes back: as if each had never begun, but for a rollback on the timeline that says what went. And what
the dead attempts at services left.

    no lock  heartbeats are watched until they can be known
    lock     judge again -> R.rollback.requested (every file by name) -> .inflight -> what the write has in the metadata
             table -> its files -> its .inflight, .requested -> its markers, its heartbeat -> R_C.rollback

One lock for each write, held until its rollback is completed: so a process that holds the lock and finds a rollback of
Lakeward pending knows that its process died, or lost the lock, and ends it. Hudi does so too, by the plan.

The write goes from the metadata table as an attempt of Lakeward would (decision 0013), without a rollback there: while
it is pending nothing of it counts, whichever of its files are left. *A completed rollback on the table makes blocks of
the write in its metadata table count*, so none is left by then. Whether it can be rolled back there is asked before
anything is written.

    t0 A judges a writer dead and waits for the lock; t1 the writer was merely stopped, wakes, and commits; t2 A has the
    lock: the write is completed, and A leaves it.
    t0 a write of Lakeward is about to commit and is stopped; t1 A judges it dead and deletes its files; t2 it wakes and
    commits: so it is fenced off first. In an object store it may have stated its intent: then A completes it.
    t0 A is stopped before it deletes; t1 its lock runs out, B ends the rollback; t2 A wakes: its fence fails. What one
    request still deletes, B deleted.

Free the file groups of a compaction or log compaction whose process died: what its attempt left goes.

    compaction       its files -> .inflight -> heartbeat; the plan stays, and the next compaction carries it out
    log compaction   the same, and then its plan

No rollback is on the timeline afterwards: nothing of the attempt counts while the instant is pending, and Hudi needs
none to carry the plan out. Hudi's own rollback of a compaction deletes every log of the slices that it was about to
open, those of completed commits too (1.2.0); here a file goes only if its name carries the instant.

Touches: under the table lock: files of one instant in the table and in its metadata table, its heartbeat, its
         attempt's folder and what its intent names, and a rollback on the timeline. Reads the markers of the instant.
Keeps:   1. nothing of a write is deleted that is completed, or whose heartbeat beats, as seen under the lock;
         2. a file is deleted only after a plan on the timeline names it;
         3. stopped anywhere in between, the next process ends it, be it Hudi;
         4. when the rollback is completed nothing of the write is left in the metadata table;
         5. a write of Lakeward that had stated its intent is completed, unless another one meets it;
         6. a rollback is taken away only where its plan cannot be read under the lock, and no writer is at work;
         7. an attempt of Lakeward that was not complete can publish nothing once this has said False;
         8. what completed since on a file group of the write keeps it from being completed;
         9. a partition that leads out of the table is refused (`UntrustedName`);
         10. where there is no marker the answer is None, never "no partition";
         11. what goes carries the instant in its name, and lies in a file group of its plan;
         12. stopped anywhere in between, the plan is still there: the next run does the rest, or, where nothing else is
            left, a compaction carries it out.
See:     docs/decisions/0032-what-is-rolled-back.md
Source:  MarkerBasedRollbackUtils, MarkerUtils, WriteMarkers (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import BrokenFile, Conflict, LakewardError, Refused, TryLater, UsageError
from lakeward.base.paths import join, parent
from lakeward.format.file_name import check_relative_path
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.instant import is_before, parse_instant
from lakeward.format.timeline.rollback_metadata import encode_rollback_metadata, read_rollback_plan
from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan, read_planned_rollback
from lakeward.protocol.attempts.attempt import Attempt, Publication, rollback_place
from lakeward.protocol.attempts.attempt_files import (
    COMMIT_FILE,
    MARKER,
    MARKERS,
    MARKERS_IN_LISTS,
    MARKERS_TYPE,
    attempt_folder,
    temp_folder,
)
from lakeward.protocol.attempts.heartbeat import Life, find_intent
from lakeward.protocol.attempts.heartbeat_line import CommitIntent, heartbeat_path
from lakeward.protocol.attempts.orphan_files import Fate, Left, delete_orphans, find_moved_in, forget_failed_write
from lakeward.protocol.creation import read_if_there
from lakeward.protocol.life_cycle import settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.delta_commit import DeltaCommit
from lakeward.protocol.pending.pending_work import PendingWork, pending_work
from lakeward.protocol.pending.rollback import RollbackDecision, RollbackReason, Step, plan_rollback
from lakeward.protocol.pending.stuck_services import heartbeat_places
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import TimelineFiles, UndoAction, WriteAction
from lakeward.services.rollback.run.failed_writes import is_own, judge, judge_quiet, watch_writers
from lakeward.services.rollback.run.takeover import take_over, tidy
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import find_table_partitions
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline

_DELETIONS_A_FENCE = 100
_RELEASES = frozenset({Step.RELEASE, Step.UNSCHEDULE})


def plan_release(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision) -> RollbackPlan:
    """The files that would go now."""
    work = _work(snapshot, decision)
    files: dict[str, list[str]] = {}
    native = snapshot.config.version.has_native_logs
    for path in sorted(find_moved_in(table.storage, table.base_path, work.instant, work.groups, native=native)):
        partition, _, name = path.removeprefix(table.base_path).lstrip("/").rpartition("/")
        files.setdefault(partition, []).append(name)
    return RollbackPlan(work.instant, decision.action, {partition: tuple(names) for partition, names in files.items()})


def release(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> bool:
    """False where the attempt had stated its intent: then it was one of Lakeward's, and is complete now. Under the
    lock.
    """
    work = _work(snapshot, decision)
    attempt, judged = table.attempt(snapshot, work.instant, work.action), table.liveness(work.instant)
    fence()
    if not settle(table, attempt, work.groups, judged.owner, check_intent=_fits, fence=fence):
        return False
    what = "released, its plan stays"
    if decision.step is Step.UNSCHEDULE:
        fence()
        attempt.unschedule()
        what = "unscheduled"
    table.observer.step(f"{label(work.action)} {work.instant} {what}: {decision.why}")
    return True


def _work(snapshot: TableSnapshot, decision: RollbackDecision) -> PendingWork:
    return next(work for work in pending_work(snapshot) if work.instant == decision.instant)


def _fits() -> None:
    """The table's own slices are closed by the plan; its metadata table judges for itself."""


def marked_partitions(storage: Storage, base_path: str, instant: str) -> frozenset[str] | None:
    """The partitions that markers of `instant` name. None where it has no markers.

    The markers of a write: which data files it may have put into the table, and so into which partitions.

        .hoodie/.temp/<instant>/<partition>/<file>.marker.<CREATE|MERGE|APPEND>   one file each: direct markers
        .hoodie/.temp/<instant>/MARKERS<n>                                        the same as lines of lists, where
        .hoodie/.temp/<instant>/MARKERS.type                                      says TIMELINE_SERVER_BASED

    A writer creates a marker before its data file. They are written for another engine's rollback, so what they name is
    checked: the partitions only, whose files are then found by the instant in their names.
    """
    folder = temp_folder(base_path, instant)
    entries = {status.name: status for status in storage.list(folder)}
    if MARKERS_TYPE in entries:
        kind = storage.read(entries[MARKERS_TYPE].path)
        if kind.strip() != MARKERS_IN_LISTS:
            raise BrokenFile(
                f"{entries[MARKERS_TYPE].path} says {kind[:40]!r}.",
                why=f"What names the files of the write is {MARKERS_IN_LISTS.decode()}, or nothing says so.",
                remedy="Find out which program wrote it; nothing was deleted.",
            )
        lists = [status.path for name, status in entries.items() if name.startswith(MARKERS) and name != MARKERS_TYPE]
        named: Iterator[str] = (line for path in lists for line in storage.read(path).decode().splitlines())
    else:
        named = _direct_markers(storage, folder)
    partitions = frozenset(marker.rpartition("/")[0] for marker in named if MARKER in marker)
    return frozenset(check_relative_path(path) for path in partitions) or None


def _direct_markers(storage: Storage, folder: str) -> Iterator[str]:
    """Their paths below the folder."""
    folders = [""]
    while folders:
        below = folders.pop()
        for status in storage.list(join(folder, below)):
            path = join(below, status.name)
            if status.is_folder:
                folders.append(path)
            else:
                yield path


def finish_write(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> bool:
    """True where the write is complete now. False: it is another engine's, or was fenced off before it stated an
    intent. Raises `Conflict`.

    A write of Lakeward whose process died is fenced off; where it had stated its intent it is completed by that, if it
    fits.

        t0 A checks conflicts, states its intent and dies; t1 its lock runs out, a Hudi writer commits to the same file
        group; t2 B. Both commits would hold, and a group would have two base files, so that the rows of one would be
        lost.

    So B compares what A is about to complete with what completed since A stated its intent.
    """
    action = next((each for each in WriteAction if each.pending == decision.action), None)
    judged = table.liveness(decision.instant)
    if decision.step is not Step.ROLL_BACK or action is None or judged.owner is None:
        return False
    attempt = table.write_attempt(snapshot, decision.instant, action)
    fence()
    if attempt.fence_off():
        return False
    intent = find_intent(table.storage, table.base_path, decision.instant)
    assert intent is not None, "what cannot be fenced off has stated its intent"
    _check_fits(table, snapshot, decision.instant, intent)
    attempt.roll_forward(fence=fence)
    attempt.clear(judged.owner)
    table.observer.step(
        f"{decision.action} {decision.instant} was about to be published when its process died: completed"
    )
    return True


def _check_fits(table: ServicedTable, snapshot: TableSnapshot, instant: str, intent: CommitIntent) -> None:
    staged = join(attempt_folder(table.base_path, instant, intent.attempt), COMMIT_FILE)
    layout = snapshot.config.layout
    groups = read_commit_metadata(table.storage.read(staged), file=staged, layout=layout).file_groups
    intended = parse_instant(intent.completed, layout)
    since = intended.completion_time if intended is not None else None
    contents = InstantContents(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    for each in snapshot.timeline.completed_writes:
        if each.completion_time is None or since is None or not is_before(since, each.completion_time):
            continue
        written = read_commit_metadata(contents.read(each.file_name), file=each.file_name, layout=layout)
        if met := groups & written.file_groups:
            raise Conflict(
                f"{instant} was about to be published when its process died, and fits the table no more.",
                why=f"{each.file_name} wrote to {min(met)[1]} since.",
                remedy="Let a Hudi writer of the table roll it back, and write its rows again.",
                file_group=min(met),
            )


class FoundBy(StrEnum):
    """The source of the partitions of the files that go; there, each file says by its name whether it does."""

    MARKERS = "markers"
    LISTING = "listing"
    """There were no markers, and every partition was listed."""
    PLAN = "plan"
    """A rollback that was pending names every file."""
    FILE_GROUPS = "file-groups"
    """The plan of a service names the file groups; there, each file says by its name whether it goes."""


@dataclass(frozen=True, slots=True)
class PlannedRollback:
    """What is, or would be, rolled back."""

    decision: RollbackDecision
    plan: RollbackPlan
    found_by: FoundBy


@dataclass(frozen=True, slots=True)
class RolledBackWrite:
    """A failed write that is gone, or what the dead attempt at a service left."""

    planned: PlannedRollback
    rollback: str | None
    """The instant of the rollback; None for a service that was released or unscheduled and for a rollback that was
    dropped, for which there is none."""
    completion_time: str | None


@dataclass(frozen=True, slots=True)
class RollbackReport:
    rolled_back: tuple[RolledBackWrite, ...]
    left: tuple[RollbackDecision, ...]


def find_decisions(table: ServicedTable, *, asked: str | None = None) -> tuple[RollbackDecision, ...]:
    """What there is to do, the newest first. Takes no lock, writes nothing, and may wait for heartbeats."""
    watch_writers(table, _snapshot(table), asked=asked)
    return judge(table, _snapshot(table), asked=asked)


def find_decision(table: ServicedTable, instant: str, *, accepts_left: bool) -> RollbackDecision:
    """The decision about one instant. Raises why it is not rolled back: `Refused`, `TryLater`, `UsageError`.

    Args:
        accepts_left: a decision to leave it is returned, too.
    """
    found = find_decisions(table, asked=instant)
    ended = next((each for each in found if each.target == instant), None)
    decision = ended or next((each for each in found if each.instant == instant), None)
    if decision is None:
        raise _not_pending(_snapshot(table).timeline, instant)
    if accepts_left or decision.step is not Step.LEAVE:
        return decision
    what = f"{decision.action} {decision.instant} is not rolled back."
    why = f"{decision.why[:1].upper()}{decision.why[1:]}."
    if decision.reason is RollbackReason.LIVE_WRITER:
        raise TryLater(what, why=why, remedy="Wait until it ends, or stop it where it runs, and try again.")
    raise Refused(what, why=why, remedy="`lakeward rollback TABLE --dry-run` names all that is pending.")


def _not_pending(timeline: Timeline, instant: str) -> LakewardError:
    if any(each.time == instant for each in timeline.completed):
        return Refused(
            f"{instant} is completed, and is not rolled back.",
            why="Readers may have seen its rows, and later commits may rest on them.",
            remedy="Write the rows again, or take the table back to the commit before it: lakeward restore TABLE --to.",
        )
    return UsageError(
        f"Nothing is pending at {instant}.",
        why="It is not on the timeline: rolled back already, archived, or never there.",
        remedy="`lakeward inspect` shows what is pending.",
    )


def find_quiet(table: ServicedTable, *, quiet_seconds: float) -> tuple[RollbackDecision, ...]:
    """The same, where there is something to do, and of instants of which nothing has changed for so long."""
    watch_writers(table, _snapshot(table))
    return judge_quiet(table, _snapshot(table), quiet_seconds=quiet_seconds)


def preview(table: ServicedTable, decision: RollbackDecision) -> PlannedRollback:
    """What would be deleted now."""
    return _plan(table, _snapshot(table), decision)


def may_be_ended(table: ServicedTable, decision: RollbackDecision) -> bool:
    """Whether it is about a write of Lakeward whose process died, or about a rollback that one began."""
    if decision.step is Step.END_ROLLBACK:
        return is_own(table, decision.instant)
    return decision.step is Step.ROLL_BACK and table.liveness(decision.instant).owner is not None


def has_leftovers(table: ServicedTable) -> bool:
    """Whether a process of Lakeward died at its work, right after it, or before it said anything."""
    beating = table.storage.list(parent(heartbeat_path(table.base_path, "0")))
    lives = (table.liveness(status.name) for status in beating if status.name.isdigit())
    return any(each.owner is not None and each.life is not Life.ALIVE for each in lives)


def roll_back_writes(table: ServicedTable, instants: Sequence[str], *, asked: str | None = None) -> RollbackReport:
    """Carry out what is decided of these pending instants, in their order.

    Args:
        asked: the instant that an operator named.

    Raises:
        Refused: the table is not one that this release may change; nothing was written.
        LockHeld, TryLater: another process is at work.
        Conflict: what a write left in the metadata table cannot be rolled back; nothing was written for it.
    """
    if not instants and has_leftovers(table):
        with table.locked():
            tidy(table, _snapshot(table))
    done: list[RolledBackWrite] = []
    left: list[RollbackDecision] = []
    for instant in instants:
        with table.locked() as fence:
            snapshot = _snapshot(table)
            tidy(table, snapshot)
            decision = next((each for each in judge(table, snapshot, asked=asked) if each.instant == instant), None)
            if decision is None:
                table.observer.step(f"{instant} is pending no more: completed, or rolled back by another process")
            elif decision.step is Step.LEAVE:
                left.append(decision)
            elif decision.step is Step.DROP:
                if _drop(table, snapshot, decision, fence):
                    done.append(RolledBackWrite(_plan(table, snapshot, decision), None, None))
            elif decision.step in _RELEASES:
                planned = _plan(table, snapshot, decision)
                if release(table, snapshot, decision, fence):
                    done.append(RolledBackWrite(planned, None, None))
            elif not finish_write(table, snapshot, decision, fence):
                done.append(_Rollback(table, snapshot, decision, fence).run())
    return RollbackReport(tuple(done), tuple(left))


def _drop(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> bool:
    """Take a pending rollback away whose plan cannot be read. Under the lock.

    The files that it had deleted belong to a write that is pending, and no reader sees them: a rollback of that write,
    which comes next, deletes the rest. A rollback of a completed write makes it pending before it deletes anything.
    """
    storage, folder = table.storage, timeline_folder(table.base_path, snapshot.config)
    files = TimelineFiles(storage, folder, decision.instant, UndoAction.ROLLBACK)
    files.check_uncompleted()
    with suppress(BrokenFile):  # a storage that fails is another matter, and raises
        if (data := read_if_there(storage, files.requested)) is not None:
            read_rollback_plan(data, file=files.requested)
            table.observer.step(f"rollback {decision.instant} can be read now, and is left")
            return False
    fence()
    files.roll_back()
    files.unschedule()
    for place in heartbeat_places(table.base_path, snapshot):
        forget_failed_write(storage, place, decision.instant)
    table.observer.step(f"rollback {decision.instant} is taken away: its plan cannot be read")
    return True


class _Rollback:
    """One rollback of one write. Under the lock."""

    def __init__(self, table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision, fence: Fence) -> None:
        self._table = table
        self._snapshot = snapshot
        self._decision = decision
        self._fence = fence
        self._timeline = timeline_folder(table.base_path, snapshot.config)

    def run(self) -> RolledBackWrite:
        table, fence = self._table, self._fence
        planned = _plan(table, self._snapshot, self._decision)
        write = self._write_files(planned.plan)
        write.check_uncompleted()
        metadata = DeltaCommit(table.storage, table.base_path, planned.plan.instant, table.clock)
        metadata.check_removable()
        if self._decision.step is Step.END_ROLLBACK:
            attempt = self._attempt(self._decision.instant)
            table.observer.step(f"rollback {attempt.instant}: ending what was interrupted")
            if (completion_time := take_over(table, attempt, fence)) is not None:
                return RolledBackWrite(planned, attempt.instant, completion_time)
        else:
            attempt = self._attempt(table.minter(self._snapshot).mint()[0])
            fence()
            attempt.claim()
            attempt.request(encode_rollback_plan(planned.plan, base_path=table.base_path))
        metadata.roll_back(by=table.owner.attempt, fence=fence)
        return RolledBackWrite(planned, attempt.instant, self._carry_out(attempt, planned.plan, write))

    def _carry_out(self, attempt: Attempt, plan: RollbackPlan, write: TimelineFiles) -> str:
        table, fence, started = self._table, self._fence, self._table.clock.monotonic()
        paths = [join(table.base_path, partition, name) for partition, names in plan.files.items() for name in names]
        for first in range(0, len(paths), _DELETIONS_A_FENCE):
            fence()
            delete_orphans(table.storage, Left.WRITTEN, Fate.ROLLED_BACK, paths[first : first + _DELETIONS_A_FENCE])
        fence()
        write.check_uncompleted()
        write.roll_back()
        write.unschedule()
        for place in heartbeat_places(table.base_path, self._snapshot):
            forget_failed_write(table.storage, place, plan.instant)
        milliseconds = int((table.clock.monotonic() - started) * 1000)
        attempt.stage(
            encode_rollback_metadata(
                plan, instant=attempt.instant, milliseconds=milliseconds, base_path=table.base_path
            )
        )
        completion_time = attempt.publish(Publication(table.minter(self._snapshot).mint), fence=fence)
        attempt.clear()
        table.observer.step(f"{plan.action} {plan.instant} rolled back, files deleted: {len(paths)}")
        return completion_time

    def _attempt(self, instant: str) -> Attempt:
        table = self._table
        place = rollback_place(table.storage, table.base_path, self._timeline)
        return Attempt(place, instant, UndoAction.ROLLBACK, table.owner)

    def _write_files(self, plan: RollbackPlan) -> TimelineFiles:
        action = next((action for action in WriteAction if action.pending == plan.action), None)
        if action is None:
            raise Refused(
                f"A rollback of {plan.action} {plan.instant} is pending, which is not ended here.",
                why="That is no write, and what else must be done for it is not known.",
                remedy="Let the engine that began the rollback end it.",
            )
        return TimelineFiles(self._table.storage, self._timeline, plan.instant, action)


def _snapshot(table: ServicedTable) -> TableSnapshot:
    return table.snapshot(only=(), service=TableService.ROLLBACK)  # the timeline says all that matters


def _plan(table: ServicedTable, snapshot: TableSnapshot, decision: RollbackDecision) -> PlannedRollback:
    storage, base_path, native = table.storage, table.base_path, snapshot.config.version.has_native_logs
    if decision.step is Step.DROP:
        return PlannedRollback(decision, RollbackPlan(decision.instant, decision.action, {}), FoundBy.PLAN)
    if decision.step in _RELEASES:
        return PlannedRollback(decision, plan_release(table, snapshot, decision), FoundBy.FILE_GROUPS)
    if decision.step is Step.END_ROLLBACK:
        requested = join(timeline_folder(base_path, snapshot.config), f"{decision.instant}.rollback.requested")
        plan = read_planned_rollback(storage.read(requested), base_path=base_path, file=requested, native=native)
        return PlannedRollback(decision, plan, FoundBy.PLAN)
    marked = marked_partitions(storage, base_path, decision.instant)
    if marked is None:
        listed = find_table_partitions(storage, base_path, snapshot.config, snapshot.timeline, clock=table.clock)
        found = {each.path: each.files for each in listed.partitions}
    else:
        found = {path: tuple(storage.list(join(base_path, path))) for path in sorted(marked)}
    names = {path: [each.name for each in files if not each.is_folder] for path, files in found.items()}
    plan = plan_rollback(decision.instant, decision.action, names, native=native)
    return PlannedRollback(decision, plan, FoundBy.LISTING if marked is None else FoundBy.MARKERS)

"""One attempt at one instant: the one life cycle that every service has.

    claim        heartbeat, folder; `.inflight`, where a plan is already on the timeline
    stage        results and the commit, where no reader looks; beats meanwhile
    publish      markers, results in their places -> orphan files out -> commit intent -> participants -> completed file
    clear        staged files and heartbeat go
    roll_back    fenced off -> nothing completed -> participants -> results -> staged -> .inflight -> heartbeat
    roll_forward not fenced off, for an intent was stated -> what it names is created, by this process

Stopped anywhere, the same or another process can roll back or roll forward; each step can be done again.

What a clean has deleted does not come back: rolled back, its `.inflight` stays, and the next attempt goes on with it.
What differs between services else is where they work and what they publish:

    place          on the table a plan is promised first, and stays when an attempt at it is rolled back. On its
                   metadata table Hudi's writers carry out at once every plan that they find, so the plan comes with the
                   result and goes with the attempt. And there every result is staged, because a base file hides from
                   readers what completes after it, unless its instant is pending or completed
    participants   other timelines that get a commit of the same instant, complete before this one: that of the metadata
                   table, for attempts on the table (`protocol/metadata/delta_commit.py`)

The heartbeats are always those of the table, not of its metadata table: by one there Hudi's writers would fail for two
minutes after we died, instead of carrying the plan out (`validateHeartBeat` of BaseHoodieTableServiceClient, Hudi 1.2).

Touches: the heartbeat, the timeline, and files of the instant, through the other modules of this room.
Keeps:   1. an attempt that was fenced off publishes nothing, and says that it is lost;
         2. a commit intent is rolled forward by its one name, and never rolled back;
         3. nothing is rolled back while a commit of the instant exists or might exist;
         4. a participant's commit is complete before the table's, and is never left with an instant that is gone.
See:     docs/decisions/0023-one-attempt-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lakeward.base.errors import AlreadyExists, AttemptLost, Conflict
from lakeward.base.paths import join
from lakeward.format.file_name import HFILE, PARQUET
from lakeward.format.timeline.instant import State, comparable_time, parse_instant
from lakeward.format.timeline.rollback_metadata import read_rollback_plan
from lakeward.protocol.attempts.attempt_files import COMMIT_FILE, Winner, attempt_folder
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat import Heartbeat, find_intent
from lakeward.protocol.attempts.heartbeat_line import CommitIntent
from lakeward.protocol.attempts.orphan_files import (
    Fate,
    Left,
    delete_orphans,
    delete_staged,
    find_moved_in,
    find_staged,
)
from lakeward.protocol.attempts.staged_commit import named_files
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.owner import Owner
from lakeward.protocol.times.instant_time import Mint
from lakeward.protocol.transition import END_BY_HAND, LAYOUT, MetadataAction, TimelineAction, TimelineFiles, WriteAction
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import metadata_base_path


@dataclass(frozen=True, slots=True)
class AttemptPlace:
    """The place in which attempts work: a table, or its metadata table."""

    storage: Storage
    base_path: str
    """The base path of the table."""
    root: str
    """The folder below which their files are: the table's base path or its metadata table's."""
    timeline: str
    keeps_plans: bool
    """Whether plans are on the timeline before an attempt at them, and after it was rolled back."""
    begins_new_groups: bool = False
    """Whether results may be in file groups that no plan names: then every file of the instant in the partitions
    of its groups is the attempt's. So it is with writes, whose instant no other process shares."""
    extension: str = PARQUET
    """The extension of base files."""
    layout: int = LAYOUT
    """The timeline's."""
    native: bool = False
    """The table's version has native logs, which are among what its attempts make and leave."""

    @property
    def logs_name_writes(self) -> bool:
        """A log carries the instant that wrote it. In layout 1 it carries that of its slice, so that what carries the
        instant of a compaction are the rows of writers that came after its plan."""
        return self.layout >= LAYOUT


class Participant(Protocol):
    """A timeline beside the attempt's that gets a commit of the same instant."""

    def roll_back(self, *, by: int, fence: Fence) -> bool:
        """Remove what is there of the instant. False where nothing was. Raises `Conflict` where it must stay."""

    def roll_forward(self, intent: CommitIntent, folder: str, *, fence: Fence) -> None:
        """Complete what the intent names, from what lies in the attempt's folder. Raises `Conflict` where it does not
        fit any more."""


class StagedParticipant(Protocol):
    """Its commit, which is whole but for the completion time."""

    def completed_name(self, completion_time: str) -> str:
        """The name of its completed file."""

    def publish(self, completion_time: str, *, is_pending: Callable[[], bool], fence: Fence) -> None:
        """Complete it. Nothing of it is seen before our commit exists."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What an attempt makes visible, all of it staged."""

    mint: Mint
    """Makes its completion times."""
    winners: Sequence[Winner] = ()
    """What tasks wrote."""
    groups: Sequence[GroupId] = ()
    """File groups in which tasks may have written more than the winners."""
    staged: Mapping[str, int] = field(default_factory=dict)
    """What lies in the folder, by its path below the place's root, with its size."""
    participants: Sequence[StagedParticipant] = ()
    afterwards: Callable[[], None] | None = None
    """Said of the table once the instant is complete, under the same hold of the lock."""


class Attempt:
    """This process's attempt at `instant`, and what there may be of others at the same."""

    def __init__(
        self,
        place: AttemptPlace,
        instant: str,
        action: TimelineAction,
        owner: Owner,
        *,
        participants: Sequence[Participant] = (),
    ) -> None:
        self._place = place
        self._storage = place.storage
        self._fencing = fencing_of(place.storage)
        self._owner = owner
        self._heartbeat = Heartbeat(place.storage, place.base_path, instant, owner)
        self._participants = participants
        self.instant = instant
        self.keeps_plan = place.keeps_plans
        """Whether its plan stays when it is rolled back."""
        self.action = action
        self.folder = attempt_folder(place.root, instant, owner.attempt)
        self.files = TimelineFiles(place.storage, place.timeline, instant, action, layout=place.layout)

    # ------------------------------------------------------------------------------------------------------- our own

    def claim(self) -> None:
        """Become the one attempt at the instant. Raises `AttemptLost`."""
        try:
            self._heartbeat.start()
            self._fencing.fence_off_rollbacks(self._place.root, self.instant, by=self._owner.attempt)
            self._storage.make_folder(self.folder)
            if self._place.keeps_plans and not (self.action.stays_begun and self.files.is_inflight()):
                self.files.begin()
                if not self.action.stays_begun and not self.is_own() and self.files.find_completed() is None:
                    # t0 we are about to create `.inflight` and are stopped; t1 our lock and heartbeat run out, and
                    # another process rolls our attempt back; t2 we wake up and create it: it would have no owner.
                    self.files.roll_back()
                    raise self._lost(None)
        except (AlreadyExists, AttemptLost) as error:
            # t0 we prove that we hold the lock and are stopped; t1 it runs out, and another process begins, or
            # unschedules the plan, so that no process would look for our heartbeat any more; t2 we wake up.
            self._heartbeat.end()
            raise AttemptLost(
                f"We cannot begin {self.action.pending} {self.instant} any more.",
                why=f"{error.what} The table lock was taken from us meanwhile.",
                remedy="Run the command again: it finishes what is left, if anything is.",
            ) from error

    def beat(self) -> None:
        self._heartbeat.beat()

    def is_own(self) -> bool:
        """No process has fenced us off yet."""
        return self._heartbeat.is_own() and self._fencing.holds(self.folder)

    def check_held(self) -> None:
        """Raise `AttemptLost` unless our attempt is still the one at its instant. Under the lock."""
        completed = self.files.find_completed()
        begun = self.files.is_inflight() or not self._place.keeps_plans
        if completed is not None or not begun or not self.is_own():
            raise self._lost(f"{completed} exists." if completed else None)

    def request(self, plan: bytes) -> None:
        """Put a plan that comes with its result on the timeline, and begin it."""
        self.files.request(plan)
        self.files.begin()
        self._check_requested()

    def announce(self, plan: bytes) -> None:
        """Put a write on the timeline, which begins once it knows what it will touch."""
        self.files.request(plan)
        self._check_requested()

    def _check_requested(self) -> None:
        if self.is_own():
            return
        # t0 we prove that we hold the lock and are stopped; t1 another process removes what it takes for a dead attempt
        # that said nothing yet; t2 we wake up. A clean may stay, the next process ends it. A compaction would be
        # carried out by Hudi's next writer, as of a time long past, and a write would hold others up without a
        # heartbeat that says it is dead; one that was completed already is left alone.
        goes = self.action in (MetadataAction.COMPACTION, MetadataAction.DELTA_COMMIT)
        goes = goes or isinstance(self.action, WriteAction)
        if goes and self.files.find_completed() is None:
            self.files.roll_back()
            self.files.unschedule()
        raise self._lost(None)

    def stage(self, commit: bytes) -> None:
        """Put the commit where the completed file is made from."""
        self._storage.create(join(self.folder, COMMIT_FILE), commit)

    def stage_empty(self, commit: bytes) -> None:
        """Put a commit of nothing in the place of what was staged, if anything was."""
        if not self.files.is_inflight():
            self.files.begin()
        self._storage.delete(join(self.folder, COMMIT_FILE))
        self.stage(commit)

    def list_markers(self, winners: Iterable[Winner]) -> None:
        """Before anything but results is staged; needs no lock."""
        self._fencing.list_markers(self._place.root, self.instant, self._owner.attempt, self.folder, winners)

    def publish(self, publication: Publication, *, fence: Fence) -> str:
        """Complete the instant by the commit that was staged. Returns the completion time. Under the lock."""
        if publication.groups:
            fence()
            self._fencing.bring_in(self._place.root, self.folder, publication.winners)
            self._delete_losers(publication, fence)
        # One for each participant, and the greatest for the table's own commit.
        times = publication.mint(1 + len(publication.participants))
        names = [each.completed_name(time) for each, time in zip(publication.participants, times, strict=False)]
        fence()
        staged = join(self.folder, COMMIT_FILE)
        self.files.read_staged(staged)
        completed = self.files.completed(times[-1]).rpartition("/")[2]
        self._heartbeat.state_intent(completed, metadata=names[0] if names else None)
        for participant, time in zip(publication.participants, times, strict=False):
            participant.publish(time, is_pending=self.files.is_inflight, fence=fence)
        self._fencing.bring_staged(self._place.root, self.folder, publication.staged)
        fence()
        self._fencing.complete(self.files, staged, times[-1])
        if publication.afterwards is not None:
            publication.afterwards()
        return times[-1]

    def clear(self, *judged: Owner | None) -> None:
        """Remove what is no longer needed: after the commit, this attempt's or one that was rolled forward.

        Args:
            judged: whose heartbeat it may be but this process's.
        """
        delete_staged(self._storage, Fate.COMPLETED, find_staged(self._storage, self._place.root, self.instant))
        self._heartbeat.remove(*judged)

    # ---------------------------------------------------------------------------------------------------- of others

    def fence_off(self) -> bool:
        """No attempt that has begun at the instant can publish from here on. False where one has stated its intent."""
        return self._fencing.fence_off(self._place.base_path, self._place.root, self.instant, by=self._owner)

    def roll_back(self, groups: Iterable[GroupId], *, fence: Fence) -> None:
        """Remove what attempts left, once they are fenced off. The heartbeat stays, which the caller ends last. A plan
        that was promised stays, and any other goes. Under the lock.

        A process that is stopped in here may wake up when its lock is long another's, and the plan carried out by a new
        attempt:

            t0 A finds nothing completed and is stopped; t1 B publishes; t2 A wakes, lists, and deletes what B made.

        So what is deleted was listed before the lock was proved once more: no attempt that began later can be among it.
        In a file system the folder, and everywhere `.inflight`, may be a later one's all the same. That attempt finds
        that it is lost, and is rolled back; or it has stated its intent, and `roll_forward` begins it again.
        """
        # No attempt can publish any more, so from here on the answer to this question stays true.
        self.files.check_uncompleted()
        for participant in self._participants:
            participant.roll_back(by=self._owner.attempt, fence=fence)
        storage, root = self._storage, self._place.root
        moved_in = find_moved_in(
            storage,
            root,
            self.instant,
            groups,
            extension=self._place.extension,
            logs_too=self._place.logs_name_writes,
            new_groups_too=self._place.begins_new_groups,
            native=self._place.native,
        )
        staged = find_staged(storage, root, self.instant)
        fence()
        delete_orphans(storage, Left.MOVED_IN, Fate.FENCED_OFF, moved_in)
        fence()
        delete_staged(storage, Fate.FENCED_OFF, staged)
        self._fencing.check_fenced_off(self._place.base_path, self.instant, by=self._owner)
        if not self.action.stays_begun:
            self.files.roll_back()
        if not self._place.keeps_plans:
            self.files.unschedule()

    def roll_forward(self, *, fence: Fence) -> str | None:
        """Publish what a commit intent names, unless it is published. Returns the completion time, in layout 1 the
        instant itself; None where no intent was stated. Under the lock.

        Raises `Conflict` where the table changed so that it cannot be published.
        """
        intent = find_intent(self._storage, self._place.base_path, self.instant)
        if intent is None:
            return None
        completed = self.files.find_completed()
        if completed is None:
            folder = attempt_folder(self._place.root, self.instant, intent.attempt)
            staged = join(folder, COMMIT_FILE)
            if not self.files.is_inflight():
                self._begin_again(intent, staged, fence)
            for participant in self._participants:
                participant.roll_forward(intent, folder, fence=fence)
            if self.action is MetadataAction.COMPACTION:
                self._fencing.bring_staged(self._place.root, folder, self._named_files(staged))
            fence()
            self.files.finish(staged, intent.completed)
        named = parse_instant((completed or intent.completed).rpartition("/")[2], LAYOUT)
        assert named is not None, "it is on the timeline by that name"
        return named.completion_time or named.time

    def end(self, *judged: Owner | None) -> None:
        """Attempts at the instant were rolled back: this one, or those that were judged dead (None: another engine's).
        A written intent stays, for the next process to complete."""
        if self._place.keeps_plans:
            self._heartbeat.end(*judged)
        elif find_intent(self._storage, self._place.base_path, self.instant) is None:
            self._heartbeat.remove(*judged)

    def make_way(self, *judged: Owner | None) -> None:
        """Attempts judged dead are over, and their plan stays, of whatever place: our own attempt at it follows."""
        self._heartbeat.end(*judged)

    def forget(self, *judged: Owner | None) -> None:
        """Remove what is left of attempts of which nothing is on the timeline, once they are fenced off."""
        delete_staged(self._storage, Fate.GONE, find_staged(self._storage, self._place.root, self.instant))
        self._heartbeat.remove(*judged)

    def unschedule(self) -> None:
        """Take the plan off the timeline, once its attempts are rolled back. No process looks for a heartbeat then."""
        self.files.unschedule()
        self._heartbeat.remove()

    def _delete_losers(self, publication: Publication, fence: Fence) -> None:
        names = frozenset(winner.file_name for winner in publication.winners)
        groups = publication.groups
        losers = find_moved_in(
            self._storage,
            self._place.root,
            self.instant,
            groups,
            keep=names,
            logs_too=self._place.logs_name_writes,
            new_groups_too=self._place.begins_new_groups,
            native=self._place.native,
        )
        fence()  # else what was listed could be of an attempt that took our place while we slept
        delete_orphans(self._storage, Left.MOVED_IN, Fate.PUBLISHING, losers)

    def _begin_again(self, intent: CommitIntent, staged: str, fence: Fence) -> None:
        """`.inflight` is gone. A process of Lakeward deleted it that slept while it rolled an earlier attempt back; or
        another engine did, which rolled this one back, with its files. Raises `Conflict` in the second case."""
        if self._place.keeps_plans or self._place.begins_new_groups:
            if (rollback := self._find_rollback(intent)) is not None:
                raise self._rolled_back(intent, f"{rollback} rolled it back")
            named = {} if self.action.stays_begun else self._named_files(staged)
            for path, size in named.items():
                status = self._storage.stat(join(self._place.root, path))
                if status is None or status.size != size:
                    raise self._rolled_back(
                        intent, f"Another engine took it for dead and rolled it back: {path} is gone"
                    )
        fence()
        self.files.begin()

    def _find_rollback(self, intent: CommitIntent) -> str | None:
        """A rollback of the instant, or a restore, that began after the intent was stated."""
        intended = parse_instant(intent.completed, LAYOUT)
        since = comparable_time(intended.completion_time) if intended is not None and intended.completion_time else ""
        for status in self._storage.list(self._place.timeline):
            found = parse_instant(status.name, LAYOUT)
            if found is None or found.state is not State.REQUESTED or comparable_time(found.time) <= since:
                continue
            if found.action == "restore" or (found.action == "rollback" and self._is_rolled_back_by(status.path)):
                return status.name
        return None

    def _is_rolled_back_by(self, requested: str) -> bool:
        return read_rollback_plan(self._storage.read(requested), file=requested) == self.instant

    def _named_files(self, staged: str) -> dict[str, int]:
        return named_files(
            self._storage, staged, self.instant, extension=self._place.extension, native=self._place.native
        )

    def _rolled_back(self, intent: CommitIntent, why: str) -> Conflict:
        return Conflict(
            f"{intent.completed} is in a commit intent, and its .inflight is gone.",
            why=f"{why}.",
            remedy=END_BY_HAND,
        )

    def _lost(self, why: str | None) -> AttemptLost:
        return AttemptLost(
            f"This attempt at {self.action.pending} {self.instant} was taken over.",
            why=why or "Its heartbeat, its folder or its .inflight file belongs to another process now.",
            remedy="Run the command again: it finishes what is left, if anything is.",
        )


def write_place(storage: Storage, base_path: str, timeline: str, *, native: bool = False) -> AttemptPlace:
    """Writes of rows: nothing is promised, and an attempt that is rolled back leaves nothing."""
    return AttemptPlace(
        storage, base_path, base_path, timeline, keeps_plans=False, begins_new_groups=True, native=native
    )


def rollback_place(storage: Storage, base_path: str, timeline: str) -> AttemptPlace:
    """Rollbacks on the table: their plan comes with the attempt. Any process ends one that it finds, so none is itself
    rolled back."""
    return AttemptPlace(storage, base_path, base_path, timeline, keeps_plans=False)


def metadata_place(storage: Storage, base_path: str, timeline: str, *, native: bool = False) -> AttemptPlace:
    root = metadata_base_path(base_path)
    return AttemptPlace(storage, base_path, root, timeline, keeps_plans=False, extension=HFILE, native=native)

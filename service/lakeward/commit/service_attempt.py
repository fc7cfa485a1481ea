"""An attempt at a service of the metadata table, a compaction or a clean: how it publishes, and how it is shut out.

    start     heartbeat, folder
    request   T.requested -> T.inflight
    publish   what was prepared in the folder -> T_C completed

    file system    base files are renamed out of the folder, and the completed file is linked. Whoever shuts the attempt
                   out renames its folder away first (`commit/attempt.py`)
    object store   the completed file is announced, base files are copied out of the folder, and the completed file is
                   created. Whoever shuts the attempt out takes its heartbeat over first; what was announced is finished
                   (`commit/heartbeat.py`)

A base file of T hides from readers what completes after T, unless T is pending or completed. In an object store an
upload that a dead process began can end at any time. So nothing is in a place where readers look before it is settled
that T will be completed, and every file has one name and one content then:

    t0 A uploads a base file of T to its place and is stopped; t1 B takes T back, plan and all; t2 a writer commits;
    t3 A's upload ends: what the writer committed is seen no more.          This is what copies after the word prevent.

The heartbeat is among those of the table, not of the metadata table: by one there Hudi's writers would fail for two
minutes after we died, instead of carrying the plan out (`validateHeartBeat` of BaseHoodieTableServiceClient, Hudi 1.2).

Touches: the metadata table's timeline, files of one instant in it, its folder for attempts, the table's heartbeats.
Keeps:   1. what was announced is finished by its one name, and never taken back;
         2. after `shut_out` said True no attempt that had begun before can publish.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from lakeward.commit.announced import shut_out
from lakeward.commit.attempt import COMMIT_FILE, Attempt, Winner, attempt_folder, remove_temp_folder
from lakeward.commit.heartbeat import Heartbeat, Sign, find_announced, remove_dead, remove_heartbeat
from lakeward.commit.metadata_publication import copy_in, named_files
from lakeward.commit.owner import Owner
from lakeward.commit.transition import LAYOUT, MetadataAction, TimelineFiles
from lakeward.errors import AttemptLost
from lakeward.format.instant import parse_instant
from lakeward.storage.storage import RenamingStorage, Storage, join
from lakeward.table.metadata_table import metadata_base_path


class ServiceAttempt:
    """Ours at `instant`, and what there may be of earlier ones at the same."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        timeline_folder: str,
        instant: str,
        action: MetadataAction,
        owner: Owner,
    ) -> None:
        """
        Args:
            base_path: of the table.
            timeline_folder: of its metadata table.
        """
        self._storage = storage
        self._base_path = base_path
        self._metadata_path = metadata_base_path(base_path)
        self._action = action
        self._owner = owner
        self._heartbeat = Heartbeat(storage, base_path, instant, owner)
        self._attempt = Attempt(storage, self._metadata_path, instant, owner.attempt)
        self.instant = instant
        self.files = TimelineFiles(storage, timeline_folder, instant, action)

    @property
    def folder(self) -> str:
        return self._attempt.folder

    # ------------------------------------------------------------------------------------------------------- our own

    def start(self) -> None:
        """Raises `AlreadyExists` when another attempt beats."""
        self._heartbeat.start()
        self._attempt.start()

    def beat(self) -> None:
        self._heartbeat.beat()

    def is_ours(self) -> bool:
        """Nobody shut us out yet."""
        if not self._heartbeat.is_ours():
            return False
        return not isinstance(self._storage, RenamingStorage) or self._storage.stat(self.folder) is not None

    def check_ours(self) -> None:
        if not self.is_ours():
            raise self._lost()

    def request(self, plan: bytes) -> None:
        """Say on the timeline what is about to be done."""
        self.files.request(plan)
        self.files.begin()
        if self.is_ours():
            return
        # t0 we prove the lock ours and are stopped; t1 another process removes what it takes for a dead attempt that
        # said nothing yet; t2 we wake up. A clean may stay, whoever comes next ends it. A compaction would be carried
        # out by Hudi's next writer, as of a time long past; one that was already is left alone.
        if self._action is MetadataAction.COMPACTION and self.files.find_completed() is None:
            self.files.undo()
            self.files.unschedule()
        raise self._lost()

    def stage(self, commit: bytes) -> None:
        self._attempt.stage_commit(commit)

    def publish(self, winners: Iterable[Winner], completion_time: str, *, fence: Callable[[], None]) -> None:
        """Complete the instant by the commit that was staged, with the base files that it names.

        Args:
            winners: those base files, in our folder.
        """
        staged = join(self.folder, COMMIT_FILE)
        if isinstance(self._storage, RenamingStorage):
            self._attempt.move_in(winners)
        fence()
        self.files.complete(staged, completion_time, announce=partial(self._announce, fence))

    def clear(self) -> None:
        """Remove what is no longer needed of ours."""
        remove_temp_folder(self._storage, self._metadata_path, self.instant)
        self._heartbeat.stop()

    def _lost(self) -> AttemptLost:
        return AttemptLost(
            f"Our attempt at {self._action.pending} {self.instant} of the metadata table was taken over.",
            why="Its heartbeat or its folder is no longer ours.",
            remedy="Run the command again.",
        )

    def _announce(self, fence: Callable[[], None], completed: str) -> None:
        self._heartbeat.announce(completed)
        self._copy_in(self.folder)
        fence()
        # Whoever found our word made the same file. A Hudi writer, who does not know it, made another one.
        found = self.files.find_completed()
        if found is not None and found.rpartition("/")[2] != completed:
            self.files.check_uncompleted()

    # ---------------------------------------------------------------------------------------------------- of others

    def shut_out(self) -> bool:
        """False where an attempt announced that it will publish, so that it has to be finished."""
        return shut_out(self._storage, self._base_path, self.instant, by=self._owner, folders=self._metadata_path)

    def finish_announced(self, *, fence: Callable[[], None]) -> str | None:
        """Publish what an attempt announced, unless it is published. Returns its completion time; None where nothing
        was announced."""
        announced = find_announced(self._storage, self._base_path, self.instant)
        if announced is None:
            return None
        completed = self.files.find_completed()
        if completed is None:
            folder = attempt_folder(self._metadata_path, self.instant, announced.attempt)
            fence()
            if not self.files.is_inflight():
                self.files.begin()  # a Hudi writer rolled it back, and died before it carried it out again
            self._copy_in(folder)
            fence()
            self.files.finish(join(folder, COMMIT_FILE), announced.completed)
        named = parse_instant((completed or announced.completed).rpartition("/")[2], LAYOUT)
        assert named is not None, "it is on the timeline by that name"
        return named.completion_time

    def make_way(self, judged: Sign) -> None:
        """Remove the heartbeat that was judged, so that ours can start. After it was shut out."""
        remove_dead(self._storage, self._base_path, self.instant, judged, by=self._owner)

    def remove(self, judged: Sign) -> None:
        """The same, and the folders of all attempts: where none will follow."""
        remove_temp_folder(self._storage, self._metadata_path, self.instant)
        self.make_way(judged)

    def remove_ended(self) -> None:
        """All of it, of an instant at which nobody begins any more: it is completed, or gone from the timeline."""
        remove_temp_folder(self._storage, self._metadata_path, self.instant)
        remove_heartbeat(self._storage, self._base_path, self.instant)

    def _copy_in(self, folder: str) -> None:
        """The base files of a compaction; a clean has none."""
        if self._action is MetadataAction.COMPACTION:
            files = named_files(self._storage, join(folder, COMMIT_FILE), self.instant)
            copy_in(self._storage, folder, files, self._metadata_path)

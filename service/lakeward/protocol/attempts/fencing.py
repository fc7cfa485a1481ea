"""What keeps two attempts at one instant apart. It is chosen once, by what the storage can do; no other module asks.

    FolderFencing    file systems, where a folder changes its name in one step: an attempt publishes out of its folder,
                     and a process that fences it off renames that folder away
    IntentFencing    object stores, where one object is replaced if it is still the one that was read: an attempt states
                     in its heartbeat what it will create, and a process that fences it off replaces the heartbeat first

                     file system                                  object store
    a task writes    into the attempt's folder                    to the file's place, its marker first, while the
                                                                  heartbeat says that its attempt is at work
    it fails late    the folder is gone                           it reads the heartbeat, before its first byte and
                                                                  before its upload ends
    the commit       is linked out of the folder                  is stated, and then created where there is none
    fenced off       nothing leaves the folder any more           no intent can be stated any more; one that was stated
                                                                  is rolled forward, by any process

    t0 A moves its files in and is stopped; t1 B, the lock being expired, takes over and renames A's folder away;
    t2 B sees no commit of A, deletes A's moved files; t3 A wakes: its link fails, for the folder is gone.

    t0 A is about to state its intent and is stopped; t1 B takes the heartbeat over, rolls A back, and publishes;
    t2 A wakes: the heartbeat is another one, A states nothing and creates nothing.

    t0 A is about to delete a heartbeat that it read and is stopped; t1 B begins at the same instant, states its intent
    and dies; t2 A wakes: what it deletes says which file B may still be creating.

So in an object store a heartbeat is deleted only where no process begins at its instant any more. Until then it is
handed on: every change of it replaces the very line that was read.

Touches: heartbeats, attempts' folders, markers, and files on their way into the table; under the table lock, but for
         beats and tasks.
Keeps:   1. once `fence_off` said True no attempt that began before can publish; what it left can be rolled back;
         2. an intent is never replaced, and its heartbeat stays until the instant is completed;
         3. a marker exists before its data file stands in a partition, as Hudi's rollback expects;
         4. no heartbeat of a later attempt is removed.
See:     docs/decisions/0012-attempts-in-object-stores.md, docs/decisions/0023-one-attempt-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.attempts.folder_fencing import FolderFencing
from lakeward.protocol.attempts.intent_fencing import IntentFencing
from lakeward.protocol.owner import Owner
from lakeward.protocol.transition import TimelineFiles
from lakeward.storage.storage import RenamingStorage, Storage, VersionedStorage


class Fencing(Protocol):
    # ------------------------------------------------------------------------------------------------- its heartbeat

    def start_heartbeat(self, path: str, owner: Owner) -> None:
        """Raises `AlreadyExists` when another attempt beats."""

    def beat(self, path: str, lines: Collection[bytes]) -> None:
        """Make the heartbeat young, if it holds one of these lines."""

    def end_heartbeat(self, path: str, owners: Collection[Owner | None], *, by: Owner) -> None:
        """Say that the attempt is over, if the heartbeat is one of these owners' (None: another engine's). Others may
        begin at the instant after this."""

    def remove_heartbeat(self, path: str, owners: Collection[Owner | None], *, by: Owner) -> None:
        """The same, where no process begins at the instant any more: it is completed, or its plan is gone."""

    # ------------------------------------------------------------------------------------------------- other attempts

    def fence_off(self, base_path: str, root: str, instant: str, *, by: Owner) -> bool:
        """No attempt that has begun at `instant` can publish from here on. False where one has stated its intent: that
        is then rolled forward.

        Args:
            base_path: of the table, which has the heartbeats.
            root: below which attempts have their folders: the table's or its metadata table's.
        """

    def check_fenced_off(self, base_path: str, instant: str, *, by: Owner) -> None:
        """Raise `AttemptLost` where another attempt has begun since, as far as that can be seen."""

    def fence_off_rollbacks(self, root: str, instant: str, *, by: int) -> None:
        """A process that still rolls an earlier attempt back takes nothing of what is written from here on."""

    def holds(self, folder: str) -> bool:
        """Whether an attempt with this folder may still publish out of it."""

    # ------------------------------------------------------------------------------------------------------- results

    def output_path(self, base_path: str, folder: str, partition_path: str, file_name: str) -> str:
        """The path at which a task writes a result."""

    def open_output(
        self, base_path: str, instant: str, attempt: int, folder: str, output: Winner
    ) -> AbstractContextManager[BinaryIO]:
        """A context in which a task writes it. Raises `AttemptLost` or `NotFound` when the attempt is over."""

    def create_beside(self, staged: str, target: str, content: bytes) -> None:
        """Create a file in the table that other writers may create too, where it is not there yet.

        Args:
            staged: a path in the attempt's folder. Raises `AttemptLost` where that is gone.
        """

    def list_markers(self, root: str, instant: str, number: int, folder: str, winners: Iterable[Winner]) -> None:
        """All markers of the attempt are in a list, before anything is staged beside them or stands in a partition."""

    def bring_in(self, root: str, folder: str, winners: Collection[Winner]) -> None:
        """The results have their places in the table, for good. They stay invisible until the commit exists."""

    # ------------------------------------------------------------------------------------------------------- publish

    def state_intent(self, path: str, owner: Owner, completed: str, metadata: str | None) -> bytes | None:
        """Say which files will be created, where others finish what was said. Returns the heartbeat's new line.
        Raises `AttemptLost`."""

    def open(self, files: TimelineFiles, folder: str, is_pending: Callable[[], bool]) -> None:
        """`.requested` and `.inflight` of a participant, of whose instant nothing is on the timeline."""

    def bring_staged(self, root: str, folder: str, files: Mapping[str, int]) -> None:
        """What was staged in the folder is in its place, by path below `root` and with its size."""

    def complete(self, files: TimelineFiles, staged: str, completion_time: str) -> None:
        """Create the completed file."""

    def replace_file(self, path: str, old: bytes, new: bytes) -> None:
        """A file that changes in place has this content, where it had the other. Readers find the one or the other.
        Raises `Conflict` where it had neither."""

    # ------------------------------------------------------------------------------------------------------ deletions

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files, those that are there; they are gone for good."""

    @property
    def moves_aside(self) -> bool:
        """Whether a file can be taken out of the table and brought back; else it is deleted, sooner or later."""

    def move_files(self, moves: Iterable[tuple[str, str]]) -> None:
        """Move files (from, to), each in one step; one that is not there has gone, or was moved before. Raises
        `AttemptLost` where the folder is gone that one is moved to: another process ended what this is part of."""

    def find_staged(self, root: str, instant: str) -> list[str]:
        """Files and folders of the attempts that have begun at the instant."""

    def delete_staged(self, found: Iterable[str]) -> None:
        """Delete what `find_staged` found."""

    def take_off_timeline(self, files: TimelineFiles, aside: str, fence: Callable[[], None]) -> None:
        """Remove a participant's `.inflight` and `.requested`, but not those of an attempt that began since.

        Args:
            aside: a `rollback_folder` of Lakeward, from before the lock was proved.
        """

    def take_aside(self, folder: str, aside: str, fence: Callable[[], None]) -> str | None:
        """Take a folder that no property names any more from its place. Returns what is left to delete of it."""


def fencing_of(storage: Storage) -> Fencing:
    """The one place that asks which of the two a storage can do; the locks ask for themselves."""
    if isinstance(storage, RenamingStorage):
        return FolderFencing(storage)
    assert isinstance(storage, VersionedStorage), "a storage renames, or it replaces on conditions"
    return IntentFencing(storage)

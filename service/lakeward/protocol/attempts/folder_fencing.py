"""Attempts kept apart by renaming the folder of one away (`protocol/attempts/fencing.py` says what each step is for).

Touches: heartbeats, attempts' folders, marker lists, and files on their way out of a folder into the table.
Keeps:   1. nothing leaves a folder after it was renamed away: results, marker lists, commits;
         2. a heartbeat is removed only if it is the one that was meant, where a rename is one step
            (`storage/exclusive_rename.py`); a successor's is put back.
See:     docs/decisions/0001-the-timeline-is-the-truth.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from lakeward.base.errors import AlreadyExists, AttemptLost, Conflict, NotFound
from lakeward.base.paths import join, parent
from lakeward.protocol.attempts.attempt_files import (
    ATTEMPT,
    FENCED_OFF,
    ROLLING_BACK,
    Winner,
    marker_files,
    temp_folder,
)
from lakeward.protocol.creation import changed_meanwhile, create, read_if_there
from lakeward.protocol.owner import Owner, parse_owner
from lakeward.protocol.transition import TimelineFiles, gone
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import RenamingStorage

ENDED = "ended-by-"
"""Part of the name of a heartbeat that is being removed; what a process that dies over it leaves is an orphan file."""


class FolderFencing:
    def __init__(self, storage: RenamingStorage) -> None:
        self._storage = storage

    def start_heartbeat(self, path: str, owner: Owner) -> None:
        self._storage.make_folder(parent(path))
        self._storage.create(path, owner.to_line())

    def beat(self, path: str, lines: Collection[bytes]) -> None:
        if read_if_there(self._storage, path) in lines:
            self._storage.touch(path)

    def end_heartbeat(self, path: str, owners: Collection[Owner | None], *, by: Owner) -> None:
        try:
            if parse_owner(self._storage.read(path)) not in owners:
                return
            # t0 we see that we still hold it and are stopped; t1 another process takes our attempt over, and its
            # heartbeat beats; t2 we wake up. So it is renamed, and deleted only if it is the one that was meant.
            aside = f"{parent(path)}/.{path.rpartition('/')[2]}.{ENDED}{by.attempt}{TEMPORARY_SUFFIX}"
            self._storage.rename(path, aside)
            if parse_owner(self._storage.read(aside)) not in owners:
                try:
                    self._storage.rename(aside, path)
                    return
                except AlreadyExists:
                    pass  # its place was taken, and the attempt whose it was will see that
            self._storage.delete(aside)
        except NotFound:
            return

    remove_heartbeat = end_heartbeat

    def fence_off(self, base_path: str, root: str, instant: str, *, by: Owner) -> bool:
        self._put_aside(root, instant, by=by.attempt)
        return True

    def check_fenced_off(self, base_path: str, instant: str, *, by: Owner) -> None:
        """What an attempt loses that began since makes it publish nothing, and is made again by the next one."""

    def fence_off_rollbacks(self, root: str, instant: str, *, by: int) -> None:
        self._put_aside(root, instant, by=by, ending=ROLLING_BACK)

    def holds(self, folder: str) -> bool:
        return self._storage.stat(folder) is not None

    def output_path(self, base_path: str, folder: str, partition_path: str, file_name: str) -> str:
        return join(folder, file_name)

    @contextmanager
    def open_output(
        self, base_path: str, instant: str, attempt: int, folder: str, output: Winner
    ) -> Iterator[BinaryIO]:
        # The folder is never created here: a task that wakes up after its attempt is over finds none, and fails.
        with self._storage.open_output(join(folder, output.file_name)) as sink:
            yield sink

    def create_beside(self, staged: str, target: str, content: bytes) -> None:
        # Out of the folder: a process that dies half-way leaves nothing where readers list.
        try:
            self._storage.create(staged, content)
            self._storage.link(staged, target)
        except AlreadyExists:
            return
        except NotFound as error:
            raise gone(staged) from error

    def list_markers(self, root: str, instant: str, number: int, folder: str, winners: Iterable[Winner]) -> None:
        # Out of the folder, as everything: an attempt that was fenced off leaves no marker behind.
        for name, content in marker_files(number, (winner.marker for winner in winners)):
            staged, target = join(folder, name), join(temp_folder(root, instant), name)
            try:
                self._storage.create(staged, content)
                self._storage.rename(staged, target)
            except AlreadyExists:
                self._storage.delete(staged)  # another engine's of the same type
            except NotFound as error:
                raise gone(staged) from error

    def bring_in(self, root: str, folder: str, winners: Collection[Winner]) -> None:
        self._move(folder, (join(root, winner.path) for winner in winners))

    def state_intent(self, path: str, owner: Owner, completed: str, metadata: str | None) -> bytes | None:
        return None

    def open(self, files: TimelineFiles, folder: str, is_pending: Callable[[], bool]) -> None:
        try:
            files.request(b"")
            files.begin()
        except AlreadyExists as error:
            raise _lost(folder) from error  # it was not there under the lock, which is another's by now
        if not self.holds(folder):
            # t0 we prove that we hold the lock and are stopped; t1 another process takes our attempt over; t2 we wake
            # up. If it goes on with the plan it removes what we just made; if it took the plan back nothing else would.
            if not is_pending():
                files.roll_back()
                files.unschedule()
            raise _lost(folder)

    def bring_staged(self, root: str, folder: str, files: Mapping[str, int]) -> None:
        self._move(folder, (join(root, path) for path in files))

    def complete(self, files: TimelineFiles, staged: str, completion_time: str) -> None:
        files.link(self._storage, staged, completion_time)

    def replace_file(self, path: str, old: bytes, new: bytes) -> None:
        name = path.rpartition("/")[2]
        aside = f"{parent(path)}/.{name}{TEMPORARY_SUFFIX}"
        for status in self._storage.list(parent(path)):
            # What processes left that died before the next step, or over that one.
            if name in status.name and status.name.endswith(TEMPORARY_SUFFIX):
                self._storage.delete(status.path)
        create(self._storage, aside, new)
        # The caller has proved the lock, under which alone it is written: this finds writers that take none.
        if self._storage.read(path) != old:
            raise changed_meanwhile(path)
        self._storage.put_over(aside, path)

    def delete_files(self, paths: Iterable[str]) -> None:
        # To sync a folder takes longer than to delete a hundred files in it.
        folders = {parent(path) for path in paths if self._storage.remove(path)}
        for folder in sorted(folders):
            self._storage.sync(folder)

    moves_aside = True

    def move_files(self, moves: Iterable[tuple[str, str]]) -> None:
        folders = set()
        for source, target in moves:
            try:
                self._storage.move(source, target)
            except NotFound as error:
                if self._storage.stat(parent(target)) is None:
                    raise gone(parent(target)) from error
                continue
            except AlreadyExists:
                self._end_move(source, target)
            folders |= {parent(source), parent(target)}
        for folder in sorted(folders):
            self._storage.sync(folder)

    def _end_move(self, source: str, target: str) -> None:
        """Both names are there: where a rename is not one step, its process died between the two. Raises `Conflict`."""
        old, new = self._storage.stat(source), self._storage.stat(target)
        if old is not None and new is not None and old.size != new.size:
            raise Conflict(
                f"{source} and {target} are two files, of {old.size} and {new.size} bytes.",
                why="They have one name and one place in the table, and only one of them can be what was written.",
                remedy="Find out who put one of them there, and move it away; neither was touched.",
            )
        self._storage.remove(source)

    def find_staged(self, root: str, instant: str) -> list[str]:
        return [temp_folder(root, instant)]

    def delete_staged(self, found: Iterable[str]) -> None:
        for folder in found:
            self._storage.delete_folder(folder)

    def take_off_timeline(self, files: TimelineFiles, aside: str, fence: Callable[[], None]) -> None:
        for path in (files.inflight, files.requested):
            try:
                self._storage.rename(path, join(aside, path.rpartition("/")[2]))
            except NotFound as error:
                if not self.holds(aside):
                    raise AttemptLost(
                        f"{aside} is no longer there.",
                        why="Another process began an attempt at the instant while this one rolled another back.",
                        remedy="Run the command again: it finishes what is left, if anything is.",
                    ) from error
        self._storage.sync(parent(files.inflight))
        self._storage.delete_folder(aside)

    def take_aside(self, folder: str, aside: str, fence: Callable[[], None]) -> str | None:
        self._storage.make_folder(parent(aside))
        self._storage.rename(folder, aside)
        return aside

    def _move(self, folder: str, targets: Iterable[str]) -> None:
        touched = set()
        for target in targets:
            source = join(folder, target.rpartition("/")[2])
            try:
                self._storage.move(source, target)
            except NotFound as error:
                raise gone(source) from error
            touched.add(parent(target))
        # Once a folder: syncing takes longer than moving a hundred files, and all of this is under the lock.
        for each in sorted(touched):
            self._storage.sync(each)

    def _put_aside(self, root: str, instant: str, *, by: int, ending: str = "") -> None:
        """Rename the folders of attempts away; only those whose name ends so."""
        temp = temp_folder(root, instant)
        for status in self._storage.list(temp):
            if status.is_folder and status.name.startswith(ATTEMPT) and status.name.endswith(ending):
                try:
                    self._storage.rename(
                        status.path, join(temp, f"{FENCED_OFF}{status.name.removeprefix(ATTEMPT)}-{by}")
                    )
                except NotFound:
                    continue  # gone since it was listed, and nothing comes out of it either


def _lost(folder: str) -> AttemptLost:
    return AttemptLost(
        f"This process has lost the attempt in {folder}.",
        why="Another process took it over.",
        remedy="Run the command again: it finishes what is left, if anything is.",
    )

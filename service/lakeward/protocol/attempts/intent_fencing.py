"""Attempts kept apart by the commit intent in the heartbeat (`protocol/attempts/fencing.py` says what each step is
for).

Each step is a conditional write to one object, so of two processes that want the next one, one is refused:

    alive --state_intent--> publishing      what is completed is named; a process that comes later creates it
    alive --fence_off--> rolling back       the attempt that was alive can state no intent any more
    ... --end_heartbeat--> ended --start_heartbeat--> alive

Touches: heartbeats, markers, and files on their way from an attempt's folder into the table.
Keeps:   1. a heartbeat that others may begin at changes by replacing the line that was read, and is not deleted;
         2. what was staged is copied whole, to one name, whichever process does it and however late;
         3. what is deleted was listed before: a later attempt has other names.
See:     docs/decisions/0012-attempts-in-object-stores.md, docs/decisions/0015-the-metadata-table-in-object-stores.md
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import BinaryIO

from lakeward.base.errors import (
    AlreadyExists,
    AttemptLost,
    LakewardError,
    NotFound,
    OutcomeUnknown,
    TryLater,
    VersionChanged,
)
from lakeward.base.paths import join
from lakeward.protocol.attempts.attempt_files import ATTEMPT, MARKER, Winner, marker_files, temp_folder
from lakeward.protocol.attempts.heartbeat_line import (
    encode_ended,
    encode_intent,
    encode_rolling_back,
    heartbeat_path,
    is_at_work,
    is_ended,
    parse_intent,
)
from lakeward.protocol.creation import changed_meanwhile, confirm, create_once, read_if_there
from lakeward.protocol.owner import Owner, parse_owner
from lakeward.protocol.transition import END_BY_HAND, TimelineFiles, gone
from lakeward.storage.storage import Storage, VersionedStorage

AT_ONCE_BYTES = 8 * 1024 * 1024
"""A file that is no larger is copied by one request that reads and one that writes."""

_TRIES = 20
"""Each may meet a beat of the other's, and so many in a row are no beats."""


class IntentFencing:
    def __init__(self, storage: VersionedStorage) -> None:
        self._storage = storage

    def start_heartbeat(self, path: str, owner: Owner) -> None:
        try:
            self._storage.create(path, owner.to_line())
        except AlreadyExists:
            line, version = self._storage.read_version(path)
            if not is_ended(line) and line != encode_rolling_back(owner):
                raise
            try:
                self._storage.replace(path, owner.to_line(), expected=version)
            except VersionChanged as error:
                raise AlreadyExists(f"{path} is another attempt's by now.") from error

    def beat(self, path: str, lines: Collection[bytes]) -> None:
        try:
            line, version = self._storage.read_version(path)
            if line in lines:
                self._storage.replace(path, line, expected=version)
        except (NotFound, VersionChanged):
            return  # we state our intent just now, or another took our place

    def end_heartbeat(self, path: str, owners: Collection[Owner | None], *, by: Owner) -> None:
        for _ in range(_TRIES):
            try:
                line, version = self._storage.read_version(path)
                if parse_owner(line) not in owners or parse_intent(line) is not None or is_ended(line):
                    return
                self._storage.replace(path, encode_ended(by), expected=version)
                return
            except NotFound:
                return
            except VersionChanged:
                continue
        raise _changes(path)

    def remove_heartbeat(self, path: str, owners: Collection[Owner | None], *, by: Owner) -> None:
        line = read_if_there(self._storage, path)
        if line is not None and (parse_owner(line) in owners or is_ended(line)):
            self._storage.delete(path)

    def fence_off(self, base_path: str, root: str, instant: str, *, by: Owner) -> bool:
        path = heartbeat_path(base_path, instant)
        for _ in range(_TRIES):
            try:
                line, version = self._storage.read_version(path)
                if parse_intent(line) is not None:
                    return False
                self._storage.replace(path, encode_rolling_back(by), expected=version)
                return True
            except NotFound:
                return True  # without a heartbeat no intent can be stated
            except VersionChanged:
                continue
        raise _changes(path)

    def check_fenced_off(self, base_path: str, instant: str, *, by: Owner) -> None:
        path = heartbeat_path(base_path, instant)
        line = read_if_there(self._storage, path)
        if line is not None and line != encode_rolling_back(by):
            raise gone(path)

    def fence_off_rollbacks(self, root: str, instant: str, *, by: int) -> None:
        """A process that rolls back meets the heartbeat: `check_fenced_off`. What it deletes later is made again."""

    def holds(self, folder: str) -> bool:
        return True

    def output_path(self, base_path: str, folder: str, partition_path: str, file_name: str) -> str:
        return join(base_path, partition_path, file_name)

    @contextmanager
    def open_output(
        self, base_path: str, instant: str, attempt: int, folder: str, output: Winner
    ) -> Iterator[BinaryIO]:
        self._check_at_work(base_path, instant, attempt)
        self._storage.create(join(temp_folder(base_path, instant), output.marker), b"")
        with self._storage.open_output(join(base_path, output.path)) as sink:
            yield sink
            self._check_at_work(base_path, instant, attempt)

    def create_beside(self, staged: str, target: str, content: bytes) -> None:
        with suppress(AlreadyExists):
            create_once(self._storage, target, content)

    def list_markers(self, root: str, instant: str, number: int, folder: str, winners: Iterable[Winner]) -> None:
        # Tasks that failed, or ran twice, left markers that no winner has.
        temp = temp_folder(root, instant)
        markers = [path.removeprefix(f"{temp}/") for path in _files_below(self._storage, temp) if MARKER in path]
        for name, content in marker_files(number, markers):
            create_once(self._storage, join(temp, name), content)

    def bring_in(self, root: str, folder: str, winners: Collection[Winner]) -> None:
        """The tasks wrote them to their places; none was deleted since."""
        names: dict[str, set[str]] = {}
        for winner in winners:
            names.setdefault(winner.partition_path, set()).add(winner.file_name)
        for partition_path, wanted in names.items():
            place = join(root, partition_path)
            missing = wanted - {status.name for status in self._storage.list(place)}
            if missing:
                raise gone(join(place, min(missing)))

    def state_intent(self, path: str, owner: Owner, completed: str, metadata: str | None) -> bytes | None:
        intent = encode_intent(owner, completed, metadata)
        for _ in range(_TRIES):
            try:
                line, version = self._storage.read_version(path)
                if line == intent:
                    return intent
                if line != owner.to_line():
                    break
                self._storage.replace(path, intent, expected=version)
                return intent
            except NotFound:
                break
            except VersionChanged:
                continue  # our own beat, as a rule
            except (LakewardError, OSError) as error:
                confirm(self._storage, path, intent, error)
                return intent
        raise AttemptLost(
            f"This process has lost the attempt of {path}.",
            why="Another process took this attempt over.",
            remedy="Run the command again: it finishes what is left, if anything is.",
        )

    def open(self, files: TimelineFiles, folder: str, is_pending: Callable[[], bool]) -> None:
        files.open_again()

    def bring_staged(self, root: str, folder: str, files: Mapping[str, int]) -> None:
        for path, size in files.items():
            self._copy(join(folder, path.rpartition("/")[2]), join(root, path), size)

    def complete(self, files: TimelineFiles, staged: str, completion_time: str) -> None:
        # Another process that found our intent made the same file. A Hudi writer, who knows of none, made another one.
        name = files.completed(completion_time).rpartition("/")[2]
        found = files.find_completed()
        if found is not None and found.rpartition("/")[2] != name:
            files.check_uncompleted()
        files.finish(staged, name)

    def replace_file(self, path: str, old: bytes, new: bytes) -> None:
        found, version = self._storage.read_version(path)
        if found == new:
            return
        if found != old:
            raise changed_meanwhile(path)
        try:
            self._storage.replace(path, new, expected=version)
        except VersionChanged as error:
            raise changed_meanwhile(path) from error

    def delete_files(self, paths: Iterable[str]) -> None:
        self._storage.delete_many(list(paths))

    moves_aside = False

    def move_files(self, moves: Iterable[tuple[str, str]]) -> None:
        """Nothing was moved that could be moved back."""

    def find_staged(self, root: str, instant: str) -> list[str]:
        # File by file: what an attempt stages that begins later has other names, and a folder would take it along. The
        # attempts' folders come last, because they are the mark that the rest is this process's.
        temp = temp_folder(root, instant)
        return sorted(_files_below(self._storage, temp), key=lambda path: path.startswith(f"{temp}/{ATTEMPT}"))

    def delete_staged(self, found: Iterable[str]) -> None:
        # In the order in which they were found, which one request for many does not keep.
        for _, paths in groupby(found, key=lambda path: f"/{ATTEMPT}" in path):
            self.delete_files(paths)

    def take_off_timeline(self, files: TimelineFiles, aside: str, fence: Callable[[], None]) -> None:
        fence()
        files.roll_back()
        files.unschedule()

    def take_aside(self, folder: str, aside: str, fence: Callable[[], None]) -> str | None:
        # t0 we begin to delete and are stopped; t1 our lock runs out, and a writer rebuilds it; t2 we wake up.
        for below in [status.path for status in self._storage.list(folder) if status.is_folder]:
            fence()
            self._storage.delete_folder(below)
        fence()
        self._storage.delete_folder(folder)
        return None

    def _check_at_work(self, base_path: str, instant: str, attempt: int) -> None:
        path = heartbeat_path(base_path, instant)
        if not is_at_work(read_if_there(self._storage, path) or b"", attempt):
            raise AttemptLost(
                f"{path} does not say that attempt {attempt} is alive.",
                why="It was rolled back, or another process took it over, or it published without this task.",
                remedy="Nothing is to be done: the process that started the task knows.",
            )

    def _copy(self, source: str, target: str, size: int) -> None:
        """The file at `target` is what was staged at `source`, whichever process made it."""
        try:
            if size <= AT_ONCE_BYTES:
                content = self._storage.read(source)
                if len(content) != size:
                    raise _torn(source, found=len(content), expected=size)
                create_once(self._storage, target, content)
                return
            self._copy_in_parts(source, target)
        except NotFound as error:
            raise OutcomeUnknown(
                f"A commit intent was stated, and what was to be in the commit is gone: {source}.",
                why="Another program removed the temporary files of an attempt that was about to be published.",
                remedy=END_BY_HAND,
            ) from error
        status = self._storage.stat(target)
        if status is None or status.size != size:
            raise _torn(target, found=status.size if status is not None else 0, expected=size)

    def _copy_in_parts(self, source: str, target: str) -> None:
        # Nothing else has this name, and every process that writes to it writes the same.
        if self._storage.stat(target) is not None:
            return
        with self._storage.open_input(source) as staged:
            try:
                with self._storage.open_output(target) as sink:
                    shutil.copyfileobj(staged, sink, AT_ONCE_BYTES)
            except AlreadyExists:
                return
            except OSError:
                if self._storage.stat(target) is None:
                    raise


def _files_below(storage: Storage, folder: str) -> Iterator[str]:
    for status in storage.list(folder):
        if status.is_folder:
            yield from _files_below(storage, status.path)
        else:
            yield status.path


def _changes(path: str) -> TryLater:
    return TryLater(
        f"{path} changes again and again.",
        why="The attempt that it is of is alive.",
        remedy="Run the command again when it has finished.",
    )


def _torn(path: str, *, found: int, expected: int) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{path} has {found} bytes instead of {expected}.",
        why="The storage does not hold what was written, or another program wrote there.",
        remedy="Look at the file before anything else touches the table; nothing was deleted.",
    )

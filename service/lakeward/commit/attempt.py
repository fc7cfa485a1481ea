"""The files of one attempt, from their folder to their places in the table, and back out again.

Tasks write into `.hoodie/.temp/<instant>/attempt-<number>/`. Just before the commit, under the table lock, the
winners leave it for their partitions. Undoing an attempt renames its folder away *first*: from then on no process
that still believes in the attempt can move a file out of it or publish the commit prepared in it.

    t0 A moves its files in and is stopped; t1 B, the lock being expired, takes over and renames A's folder away;
    t2 B sees no commit of A, deletes A's moved files; t3 A wakes: its link fails, for the folder is gone.

In an object store nothing is renamed. Tasks write to the final places, markers first, and only while the heartbeat
says that their attempt is alive. Undoing an attempt takes its heartbeat over *first*: from then on it can announce
nothing, and without that it creates no completed file. One that has announced is not undone but finished
(`commit/announced.py`).

Touches: `.hoodie/.temp/<instant>/`, and base and log files of that instant in the plan's file groups.
Keeps:   1. a data file is deleted only if its name carries the instant of a plan of compaction, the file group is in
            that plan, no completed instant names it, and we hold the lock: the one deletion by listing there is;
         2. a marker exists before its data file stands in a partition, as Hudi's rollback expects.
See:     docs/decisions/0012-attempts-in-object-stores.md
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.errors import AttemptLost, NotFound
from lakeward.format.file_name import PARQUET, parse_base_file, parse_log_file
from lakeward.storage.storage import FileStatus, RenamingStorage, Storage, join, parent

COMMIT_FILE = "commit"

UNDOING = "-undoing"
"""Ends the name of a folder into which an attempt is taken back, instead of out of which it is published."""


@dataclass(frozen=True, slots=True)
class Winner:
    """A file that will belong to the commit."""

    partition_path: str
    file_name: str
    replaces_base_file: bool
    """Whether the slice had a base file: the marker's type says so."""


def temp_folder(base_path: str, instant: str) -> str:
    return join(base_path, ".hoodie/.temp", instant)


def attempt_folder(base_path: str, instant: str, number: int) -> str:
    return join(temp_folder(base_path, instant), f"attempt-{number}")


def undoing_folder(base_path: str, instant: str, number: int) -> str:
    """Named like an attempt's, so that whoever shuts an attempt out shuts out whoever takes one back, too."""
    return attempt_folder(base_path, instant, number) + UNDOING


def marker_path(base_path: str, instant: str, winner: Winner) -> str:
    kind = "MERGE" if winner.replaces_base_file else "CREATE"
    name = f"{winner.file_name}.marker.{kind}"
    return join(temp_folder(base_path, instant), winner.partition_path, name)


def write_marker(storage: Storage, base_path: str, instant: str, winner: Winner) -> None:
    marker = marker_path(base_path, instant, winner)
    storage.make_folder(parent(marker))
    storage.create(marker, b"")


def result_path(storage: Storage, base_path: str, folder: str, partition_path: str, file_name: str) -> str:
    """Where a result lies before its attempt publishes: in the attempt's folder, in an object store in its place."""
    if isinstance(storage, RenamingStorage):
        return join(folder, file_name)
    return join(base_path, partition_path, file_name)


class Attempt:
    """One attempt at the plan of `instant`."""

    def __init__(self, storage: Storage, base_path: str, instant: str, number: int) -> None:
        self._storage = storage
        self._base_path = base_path
        self._instant = instant
        self._number = number
        self.folder = attempt_folder(base_path, instant, number)

    def start(self) -> None:
        if isinstance(self._storage, RenamingStorage):
            # Who takes an earlier attempt back and was stopped over it would take this one's files away (UNDOING).
            put_aside(self._storage, self._base_path, self._instant, by=self._number, ending=UNDOING)
        self._storage.make_folder(self.folder)

    def write_markers(self, winners: Iterable[Winner]) -> None:
        if not isinstance(self._storage, RenamingStorage):
            return  # the tasks did, before they wrote
        markers = [marker_path(self._base_path, self._instant, winner) for winner in winners]
        folders = sorted({parent(marker) for marker in markers})
        for folder in folders:
            self._storage.make_folder(folder)
        for marker in markers:
            self._storage.mark(marker)
        for folder in folders:
            self._storage.sync(folder)

    def move_in(self, winners: Iterable[Winner]) -> None:
        """Give the winners their places in the table, for good. They stay invisible until the commit exists."""
        if not isinstance(self._storage, RenamingStorage):
            self._check_in(winners)
            return
        touched = set()
        for winner in winners:
            source = join(self.folder, winner.file_name)
            target = join(self._base_path, winner.partition_path, winner.file_name)
            try:
                self._storage.move(source, target)
            except NotFound as error:
                raise AttemptLost(
                    f"{source} is no longer there.",
                    why="Another process took this attempt over.",
                    remedy="Run the command again: it finishes what is left, if anything is.",
                ) from error
            touched.add(parent(target))
        # Once a folder: syncing takes longer than moving a hundred files, and all of this is under the lock.
        for folder in sorted(touched):
            self._storage.sync(folder)

    def _check_in(self, winners: Iterable[Winner]) -> None:
        """The tasks wrote them to their places; nobody deleted one since."""
        names: dict[str, set[str]] = {}
        for winner in winners:
            names.setdefault(winner.partition_path, set()).add(winner.file_name)
        for partition_path, wanted in names.items():
            folder = join(self._base_path, partition_path)
            gone = wanted - {status.name for status in self._storage.list(folder)}
            if gone:
                raise AttemptLost(
                    f"{join(folder, min(gone))} is no longer there.",
                    why="Another process took this attempt over.",
                    remedy="Run the command again: it finishes what is left, if anything is.",
                )

    def stage_commit(self, content: bytes) -> str:
        """Write the commit metadata where `TimelineFiles.complete` links it from."""
        staged = join(self.folder, COMMIT_FILE)
        self._storage.create(staged, content)
        return staged


def strays(
    storage: Storage,
    base_path: str,
    instant: str,
    groups: Iterable[tuple[str, str]],
    *,
    keep: frozenset[str] = frozenset(),
    extension: str = PARQUET,
) -> list[FileStatus]:
    """Base and log files that `instant` wrote in the plan's file groups (partition path, file id), but for `keep`.

    A log file carries the instant that wrote it in its name since table version 8; before, the slice's base instant.
    """
    groups = set(groups)
    found = []
    for partition_path in sorted({partition for partition, _ in groups}):
        for status in storage.list(join(base_path, partition_path)):
            # Most files are of other instants, and taking a name apart takes a while.
            if instant not in status.path or status.name in keep:
                continue
            name = parse_base_file(status.name, extension=extension) or parse_log_file(status.name)
            if name is None or name.instant != instant:
                continue
            if (partition_path, name.file_id) in groups:
                found.append(status)
    return found


def put_aside(storage: RenamingStorage, base_path: str, instant: str, *, by: int, ending: str = "") -> list[str]:
    """Rename the folders of all attempts at `instant` away, so that nobody can publish from them. Returns them.

    Args:
        ending: only those whose name ends so.
    """
    aside = []
    for status in storage.list(temp_folder(base_path, instant)):
        if status.is_folder and status.name.startswith("attempt-") and status.name.endswith(ending):
            target = join(temp_folder(base_path, instant), f"dead-{status.name}-{by}")
            try:
                storage.rename(status.path, target)
            except NotFound:
                continue  # gone since it was listed, and nothing comes out of it either
            aside.append(target)
    return aside


def remove_temp_folder(storage: Storage, base_path: str, instant: str) -> None:
    """Delete markers and attempt folders of an instant that is completed or undone."""
    storage.delete_folder(temp_folder(base_path, instant))

"""Take files out of the table: for good, or into the quarantine, from where they can be brought back for a while.

    manifest -> folders -> files are moved, each in one step          in a file system
    manifest                                                          in an object store: the files stay, and go later

The manifest is there before the first file moves, and says of each where it was. Files of a file group that was
replaced are deleted at once where they cannot be moved: once Hudi has archived the instant that replaced them, they
would be read again.

    purge         `purging` -> files -> manifests                     nothing of it can be brought back from there on
    bring back    `undo-<instant>` -> files are moved back            and then they are listed again (`execute/clean`)

Each of the two says that it begins before it looks whether the other has begun, so of two that race one stops at least,
whatever happened to the lock.

A process that was stopped in the middle finds no folder when it wakes up after a purge or an undo, and moves nothing:
the folders are made once, when it begins.

Touches: files that a clean's plan names, or that are proved orphan files; the quarantine.
Keeps:   1. a file leaves its place only after a manifest names it, where it is to be kept;
         2. a file is moved in one step and never copied, so that what comes back is what went, to the byte;
         3. of a purge and an undo of one run, one at most goes on;
         4. a run whose manifest cannot be read is not purged;
         5. stopped at any call, a purge is ended by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeward.base.errors import Conflict
from lakeward.base.paths import join, parent
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.creation import create_once
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import (
    FILES,
    MANIFEST,
    PURGING,
    STATS,
    UNDO,
    Manifest,
    QuarantinedFile,
    QuarantinedRun,
    QuarantineKind,
    load_quarantine,
    quarantine_folder,
    quarantined_path,
    run_folder,
    write_manifest,
)
from lakeward.table.stray_record import STRAYS, RecordedStray, encode_record, find_records


class FileRemoval:
    """Takes the files of one run out of the table, batch by batch."""

    def __init__(self, storage: Storage, base_path: str) -> None:
        self._storage = storage
        self._base_path = base_path
        self._fencing = fencing_of(storage)
        self._run: str | None = None
        self._stays: frozenset[str] = frozenset()
        """Paths of the files that are deleted later, from where they stand."""

    def keep(
        self,
        run: str,
        files: Sequence[QuarantinedFile],
        *,
        kind: QuarantineKind,
        attempt: int,
        since: float,
        keep_until: float,
    ) -> None:
        """Set these files aside from now on instead of deleting them."""
        in_place = not self._fencing.moves_aside
        kept = [file for file in files if not in_place or file.replaced_by is None]
        folder = run_folder(self._base_path, run)
        self._storage.make_folder(folder)
        manifest = Manifest(kind, since, keep_until, in_place, tuple(kept))
        create_once(self._storage, join(folder, f"{MANIFEST}{attempt}"), write_manifest(manifest))
        if in_place:
            self._stays = frozenset(file.path for file in kept)
            return
        self._run = run
        for partition in sorted({file.partition_path for file in kept}):
            self._storage.make_folder(join(folder, FILES, partition))

    def take(self, paths: Iterable[str]) -> None:
        """Take these files out, by their paths below the table; what is gone already is success."""
        if self._run is None:
            self._fencing.delete_files([join(self._base_path, path) for path in paths if path not in self._stays])
        else:
            self._fencing.move_files([self._aside(self._run, path) for path in paths])

    def _aside(self, run: str, path: str) -> tuple[str, str]:
        return join(self._base_path, path), quarantined_path(self._base_path, run, path)


def begin_retirement(storage: Storage, base_path: str, run: str) -> None:
    """Make the place for what is said of logs that retire."""
    storage.make_folder(run_folder(base_path, run))


def retire_logs(
    storage: Storage,
    base_path: str,
    run: str,
    files: Sequence[QuarantinedFile],
    *,
    attempt: int,
    since: float,
    keep_until: float,
    not_before: float,
) -> None:
    """Say that these logs of slices that readers read go once the clean is completed: they stay in their places until
    then, and for the queries that began before. `begin_retirement` comes first."""
    folder = run_folder(base_path, run)
    manifest = Manifest(QuarantineKind.RETIRED, since, keep_until, True, tuple(files), not_before)
    create_once(storage, join(folder, f"{MANIFEST}{attempt}"), write_manifest(manifest))


def write_stats(storage: Storage, base_path: str, run: str, attempt: int, content: bytes) -> None:
    """Keep what the metadata table says of the files, which the clean deletes there."""
    create_once(storage, join(run_folder(base_path, run), f"{STATS}{attempt}"), content)


def record_strays(storage: Storage, base_path: str, recorded: Mapping[str, RecordedStray], *, now: float) -> None:
    """Record what looked like orphan files, in the place of what was recorded before. Under the lock."""
    storage.make_folder(quarantine_folder(base_path))
    older = find_records(storage, base_path)
    number = max([int(now * 1000), *(int(name.removeprefix(STRAYS)) + 1 for name in older)])
    create_once(storage, join(quarantine_folder(base_path), f"{STRAYS}{number}"), encode_record(recorded))
    fencing_of(storage).delete_files([join(quarantine_folder(base_path), name) for name in older])


def begin_purge(storage: Storage, base_path: str, run: QuarantinedRun) -> bool:
    """Say that nothing of the run comes back. False where it is being brought back. Under the lock."""
    assert run.problem is None, "its caller leaves such a run alone"
    mark = join(run_folder(base_path, run.run), PURGING)
    create_once(storage, mark, b"")
    now = load_quarantine(storage, base_path).find(run.run)
    if now is not None and now.undone_by is None and now.problem is None:
        return True
    storage.delete(mark)
    return False


def purge(storage: Storage, base_path: str, run: QuarantinedRun, in_place: Sequence[str]) -> None:
    """Delete what a purge that has begun is of.

    Args:
        in_place: paths below the table of what is deleted where it stands.
    """
    fencing_of(storage).delete_files([join(base_path, path) for path in in_place])
    forget_run(storage, base_path, run)


def forget_run(storage: Storage, base_path: str, run: QuarantinedRun) -> None:
    """Remove what the quarantine has of the run; its manifests go last, and the mark of a purge after them."""
    folder = run_folder(base_path, run.run)
    storage.delete_folder(join(folder, FILES))
    entries = [status for status in storage.list(folder) if not status.is_folder]
    entries.sort(key=lambda status: (status.name == PURGING, status.name.startswith(MANIFEST)))
    for status in entries:
        storage.delete(status.path)
    storage.delete_folder(folder)


def begin_undo(storage: Storage, base_path: str, run: str, instant: str) -> None:
    """Say that the clean `instant` brings the run back. Raises `Conflict` where it is being purged. Under the lock."""
    mark = join(run_folder(base_path, run), f"{UNDO}{instant}")
    create_once(storage, mark, b"")
    now = load_quarantine(storage, base_path).find(run)
    if now is None or now.is_purging or now.undone_by != instant:
        storage.delete(mark)
        raise Conflict(
            f"What clean {run} took away is being deleted, or brought back, by another process.",
            why="Its quarantine changed meanwhile.",
            remedy="Nothing was brought back; `lakeward quarantine list` shows what there is.",
        )


def end_undo(storage: Storage, base_path: str, run: str, instant: str) -> None:
    """Record that an undo was given up."""
    storage.delete(join(run_folder(base_path, run), f"{UNDO}{instant}"))


def bring_back(storage: Storage, base_path: str, run: str, files: Iterable[QuarantinedFile]) -> None:
    """Move the files to where they were; those that are there already stay."""
    fencing_of(storage).move_files(
        [(quarantined_path(base_path, run, file.path), join(base_path, file.path)) for file in files]
    )


def set_aside_again(storage: Storage, base_path: str, run: str, files: Iterable[QuarantinedFile]) -> None:
    """Move the files of a run aside that an undo had brought back before it was given up."""
    fencing_of(storage).move_files(
        [(join(base_path, file.path), quarantined_path(base_path, run, file.path)) for file in files]
    )


def find_missing(storage: Storage, base_path: str, run: QuarantinedRun) -> list[str]:
    """Paths of files of the run that are not there with their size, neither in the quarantine nor in their places."""
    missing = []
    listed: dict[str, dict[str, int]] = {}
    for file in run.files:
        for path in (quarantined_path(base_path, run.run, file.path), join(base_path, file.path)):
            folder = parent(path)
            if folder not in listed:
                listed[folder] = {status.name: status.size for status in storage.list(folder)}
            if listed[folder].get(file.name) == file.size:
                break
        else:
            missing.append(file.path)
    return missing

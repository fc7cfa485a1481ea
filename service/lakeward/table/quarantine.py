"""Files that were taken out of the table and are not gone yet: what the quarantine says of them.

    .hoodie/.quarantine/<run>/manifest-<attempt>    which files, from where, until when they stay, and whether they
                                                    stand in their places
                             /files/<path>          the files, by their paths below the table, where they were moved
                             /stats-<attempt>       what the metadata table said of their columns
                             /undo-<instant>        that this clean brings them back
                             /purging               that they are being deleted

A run is a clean, by its instant, or a look for orphan files, `orphans-<milliseconds>`. Where nothing can be renamed, in
object stores, the files stand in their places meanwhile, and the manifest alone says that they go. So do logs of slices
that readers read and for which the output of a log compaction stands (`table/retired_logs.py`), everywhere.

Hudi lists partitions, the timeline and the archive, each by its own folder, and enters no other one below `.hoodie`.
So no reader, lister or cleaner of its sees what is in here.

Touches: storage, reading only: a listing of the quarantine and of each run, and a read of each manifest.
Keeps:   1. a manifest that cannot be read is a problem of its run, never a run without files;
         2. names that lead out of the table are such a problem, too;
         3. of several attempts at one clean a file stands to go only where each of them names it;
         4. a log has retired only once its clean is completed, and as long as its log compaction is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from lakeward.base.errors import BrokenFile, LakewardError, NotFound
from lakeward.base.paths import join
from lakeward.base.quantities import format_time
from lakeward.format.file_name import check_plain_name, check_relative_path
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.table_config import TableConfig, hoodie_folder
from lakeward.table.timeline.timeline import Timeline

QUARANTINE = ".quarantine"
FILES = "files"
PURGING = "purging"
MANIFEST = "manifest-"
STATS = "stats-"
UNDO = "undo-"
_RUN = re.compile(r"(orphans-)?\d{13,17}")
_VERSION = 1


class QuarantineKind(StrEnum):
    CLEAN = "clean"
    ORPHANS = "orphans"
    RETIRED = "retired"
    """Logs for which the output of a log compaction stands: of a clean, in their places in every file system."""


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    partition_path: str
    name: str
    size: int
    replaced_by: str | None = None
    """The instant that replaced its file group: its files are read again once that is archived."""
    merged_by: str | None = None
    """The log compaction that stands for it, of a log that retired."""

    @property
    def path(self) -> str:
        """The path below the table."""
        return join(self.partition_path, self.name)


@dataclass(frozen=True, slots=True)
class Manifest:
    kind: QuarantineKind
    since: float
    """When it was written, in seconds since the epoch."""
    keep_until: float
    in_place: bool
    """Whether the files stand where they were."""
    files: tuple[QuarantinedFile, ...]
    not_before: float = 0.0
    """The files stay until then whatever the quarantine holds, for the queries that run."""


@dataclass(frozen=True, slots=True)
class QuarantinedRun:
    """What one clean, or one look for orphan files, set aside."""

    run: str
    kind: QuarantineKind
    manifests: tuple[Manifest, ...]
    """One of each attempt that began to set files aside, oldest first."""
    is_purging: bool = False
    undone_by: str | None = None
    """The clean instant that brings it back, or did."""
    problem: str | None = None
    """Why what it holds is not known; then nothing of it is touched."""
    stats: tuple[str, ...] = ()
    """Names of the files with statistics of columns, oldest first."""

    @property
    def in_place(self) -> bool:
        return any(manifest.in_place for manifest in self.manifests)

    @property
    def files(self) -> tuple[QuarantinedFile, ...]:
        """Ordered by path."""
        by_path: dict[str, QuarantinedFile] = {}
        for manifest in self.manifests:
            by_path.update((file.path, file) for file in manifest.files)
        if self.in_place:
            # A later attempt leaves out what is needed by then, and of what it names nothing is new.
            common = set.intersection(*({file.path for file in manifest.files} for manifest in self.manifests))
            by_path = {path: file for path, file in by_path.items() if path in common}
        return tuple(by_path[path] for path in sorted(by_path))

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def since(self) -> float:
        return min((manifest.since for manifest in self.manifests), default=0.0)

    @property
    def keep_until(self) -> float:
        return max((manifest.keep_until for manifest in self.manifests), default=0.0)

    @property
    def not_before(self) -> float:
        return max((manifest.not_before for manifest in self.manifests), default=0.0)


@dataclass(frozen=True, slots=True)
class Quarantine:
    runs: tuple[QuarantinedRun, ...] = ()
    """Oldest first."""

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.runs)

    def find(self, run: str) -> QuarantinedRun | None:
        return next((each for each in self.runs if each.run == run), None)

    def run_of(self, path: str) -> QuarantinedRun | None:
        """The oldest run that has the file."""
        return next((run for run in self.runs if any(file.path == path for file in run.files)), None)

    def left_in_place(self) -> dict[str, QuarantinedRun]:
        """The run that each file is of which stands in its place and is to go, by its path."""
        return {file.path: run for run in self.runs if run.in_place and run.undone_by is None for file in run.files}


def may_have_retired(config: TableConfig, timeline: Timeline, *, has_archived: bool) -> bool:
    """Whether logs of the table may have retired; in the layout `default` only behind a log compaction.

    Args:
        has_archived: whether there may be a log compaction that is archived.
    """
    if config.is_lsm_tree or (has_archived and config.has_log_compaction):
        return True
    return any(
        instant.action == "logcompaction" or (instant.action == "compaction" and config.version.has_hybrid_plans)
        for instant in timeline.instants
    )


def find_retired(storage: Storage, base_path: str, timeline: Timeline) -> frozenset[str]:
    """Paths of the logs that retired, and still stand in their places for the queries that began before: no new query
    is to open them, whatever the storage lists.

    A log is none as long as its clean is pending, and none any more where its log compaction was rolled back.
    """
    pending = {instant.time for instant in timeline.pending}
    runs = load_quarantine(storage, base_path).runs
    return frozenset(
        file.path
        for run in runs
        if run.kind is QuarantineKind.RETIRED and run.run not in pending and run.undone_by is None
        for file in run.files
        if file.merged_by is not None and _is_completed(timeline, file.merged_by)
    )


def _is_completed(timeline: Timeline, write: str) -> bool:
    return timeline.completion_time(write) is not None or timeline.is_archived(write)


def kind_of_run(run: str) -> QuarantineKind:
    return QuarantineKind.ORPHANS if run.startswith("orphans-") else QuarantineKind.CLEAN


def set_aside_sentence(run: str, until: float | None) -> str:
    """What happened to a file of a run, and how it comes back.

    Args:
        until: seconds since the epoch; None where it is not known.
    """
    kept = "" if until is None else f" until {format_time(until)}"
    who = "A search for orphan files" if kind_of_run(run) is QuarantineKind.ORPHANS else f"Clean {run}"
    return (
        f"{who} set it aside, and it is kept{kept}: no reader sees it. `lakeward quarantine restore TABLE {run}` "
        "brings it back, `lakeward quarantine purge` deletes it sooner."
    )


def quarantine_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), QUARANTINE)


def run_folder(base_path: str, run: str) -> str:
    return join(quarantine_folder(base_path), run)


def quarantined_path(base_path: str, run: str, path: str) -> str:
    """The place of a file of the table after it was moved aside. `path` is below the table."""
    return join(run_folder(base_path, run), FILES, path)


def load_quarantine(storage: Storage, base_path: str) -> Quarantine:
    """All runs."""
    folders = [status for status in storage.list(quarantine_folder(base_path)) if status.is_folder]
    runs = [_load_run(storage, status.path, status.name) for status in folders if _RUN.fullmatch(status.name)]
    return Quarantine(tuple(sorted(runs, key=lambda run: (run.since, run.run))))


def write_manifest(manifest: Manifest) -> bytes:
    return orjson.dumps(
        {
            "version": _VERSION,
            "kind": manifest.kind.value,
            "since": manifest.since,
            "keep_until": manifest.keep_until,
            "in_place": manifest.in_place,
            "not_before": manifest.not_before,
            "files": [
                [each.partition_path, each.name, each.size, each.replaced_by, each.merged_by] for each in manifest.files
            ],
        }
    )


def read_manifest(data: bytes, *, file: str) -> Manifest:
    """Raises `BrokenFile`, `UntrustedName`."""
    try:
        said = orjson.loads(data)
        if said["version"] != _VERSION:
            raise BrokenFile(f"{file} is of version {said['version']}.", why="This release reads version 1.")
        return Manifest(
            QuarantineKind(said["kind"]),
            float(said["since"]),
            float(said["keep_until"]),
            bool(said["in_place"]),
            tuple(
                QuarantinedFile(check_relative_path(str(path)), check_plain_name(str(name)), int(size), *by)
                for path, name, size, *by in said["files"]
            ),
            not_before=float(said.get("not_before", 0.0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFile(
            f"{file} is not a readable manifest.",
            why=str(error),
            remedy="What it is of stays where it is; move it by hand, by its paths below `files`.",
        ) from error


@dataclass(slots=True)
class _Found:
    manifests: list[Manifest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _load_run(storage: Storage, folder: str, run: str) -> QuarantinedRun:
    entries = {status.name: status for status in storage.list(folder)}
    found = _Found()
    for status in _by_age(entries, MANIFEST):
        try:
            found.manifests.append(read_manifest(storage.read(status.path), file=status.path))
        except NotFound:
            continue  # purged since it was listed
        except LakewardError as error:
            found.problems.append(str(error))
    if not found.manifests and not found.problems and FILES in entries and PURGING not in entries:
        found.problems.append(f"{folder} has files and no manifest.")
    undo = sorted(name.removeprefix(UNDO) for name in entries if name.startswith(UNDO))
    return QuarantinedRun(
        run,
        found.manifests[0].kind if found.manifests else kind_of_run(run),
        tuple(sorted(found.manifests, key=lambda manifest: manifest.since)),
        is_purging=PURGING in entries,
        undone_by=undo[-1] if undo else None,
        problem=" ".join(found.problems) or None,
        stats=tuple(status.name for status in _by_age(entries, STATS)),
    )


def _by_age(entries: Mapping[str, FileStatus], prefix: str) -> Iterable[FileStatus]:
    found = (status for name, status in entries.items() if name.startswith(prefix) and not status.is_folder)
    return sorted(found, key=lambda status: (status.modified, status.name))

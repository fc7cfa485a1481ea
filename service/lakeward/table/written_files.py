"""What completed instants say that they wrote, held against the files that are there.

Every completed commit names each file that it wrote, with its size. A file that is shorter or longer than that, that is
gone, or that no commit names, is damage: rows are missing from it, or rows are in it that no commit made. Released
Hudi does not check: it takes what a listing shows, and when a file comes back after a compaction, no reader reads it.

    listed, named, of that size             sound
    listed, named, of another size          OTHER_SIZE
    listed and empty, size not known         EMPTY
    listed, its instant completed, not named    ORPHAN
    named and not listed                    MISSING, unless a newer base file of its group has taken its place

Files of archived instants are not held against anything: their commits are not read. Logs of changes (`.cdc`) are none
of a table's rows.

Touches: nothing.
Keeps:   1. a file of an instant that is not completed is never damage, whatever its size;
         2. a file that a cleaner may have removed, because a newer base file is there, is never missing;
         3. damage of an instant ends when the instant is archived, but for files without a byte.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeward.format.file_name import parse_any_log, parse_base_file
from lakeward.format.timeline.commit_metadata import WrittenFiles
from lakeward.format.timeline.instant import comparable_time
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.file_system_view import PartitionFiles
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The files that one completed instant says it wrote, by partition path and path."""

    instant: str
    files: WrittenFiles


def find_damage(
    partitions: Iterable[PartitionFiles], written: Iterable[WrittenBy], timeline: Timeline, *, native: bool = False
) -> dict[str, tuple[DamagedFile, ...]]:
    """The damaged files of these partitions, by partition path and then by path.

    Args:
        native: as in `sort_files`.
    """
    completed = _Completed(timeline)
    scans = {files.partition_path: _PartitionScan(files, completed, native=native) for files in partitions}
    for named in written:
        for scan in scans.values():
            scan.hold(named.instant, named.files.get(scan.path, {}))
    return {path: damaged for path, scan in scans.items() if (damaged := scan.damaged())}


def without_archived(
    damage: Mapping[str, Sequence[DamagedFile]], timeline: Timeline
) -> dict[str, tuple[DamagedFile, ...]]:
    """What is left of damage that was found before instants were archived: the same as `find_damage` finds now."""
    completed, named = _Completed(timeline), {i.time for i in timeline.completed_writes}
    left: dict[str, list[DamagedFile]] = defaultdict(list)
    for path, files in damage.items():
        for file in files:
            if file.instant in named:
                is_held = file.kind is not DamageKind.MISSING or not completed.is_before_start(file.instant)
                left[path] += [file] if is_held else []
            elif file.size == 0:
                left[path].append(DamagedFile(file.path, file.instant, DamageKind.EMPTY, None, 0))
    return {path: tuple(files) for path, files in left.items() if files}


class _Completed:
    """Which instants are completed, asked once for all files."""

    def __init__(self, timeline: Timeline) -> None:
        self._times = {i.time: i.completion_time or i.time for i in timeline.completed_writes}
        self._start = comparable_time(timeline.first_active_write or "")
        self._first = comparable_time(timeline.first_write or "")

    def is_before_start(self, instant: str) -> bool:
        """True where the active timeline has begun since; savepoints may keep some of these instants on it."""
        return comparable_time(instant) < self._start

    def has(self, instant: str) -> bool:
        return instant in self._times or comparable_time(instant) < self._first

    def moment(self, instant: str) -> str:
        return comparable_time(self._times.get(instant, instant))


class _PartitionScan:
    """One partition while the commits are gone through."""

    def __init__(self, files: PartitionFiles, completed: _Completed, *, native: bool) -> None:
        self.path = files.partition_path
        self._native = native
        self._completed = completed
        self._files: dict[str, BaseFile | LogFile] = {base.path: base for base in files.base_files}
        self._files |= {log.path: log for log in files.log_files if not log.name.is_cdc}
        self._bases: dict[str, list[str]] = defaultdict(list)
        for base in files.base_files:
            self._bases[base.file_id].append(base.instant)
        self._by_instant: dict[str, set[str]] = defaultdict(set)
        for path, file in self._files.items():
            self._by_instant[file.instant].add(path)
        self._found: dict[str, DamagedFile] = {
            path: DamagedFile(path, file.instant, DamageKind.EMPTY, None, 0)
            for path, file in self._files.items()
            if file.size == 0
        }

    def hold(self, instant: str, named: Mapping[str, int | None]) -> None:
        for path, size in named.items():
            file = self._files.get(path)
            if file is None:
                if self._should_be_here(instant, path):
                    self._found[path] = DamagedFile(path, instant, DamageKind.MISSING, size, None)
            elif size and size != file.size:
                self._found[path] = DamagedFile(path, instant, DamageKind.OTHER_SIZE, size, file.size)
        for path in self._by_instant.get(instant, set()) - named.keys():
            self._found[path] = DamagedFile(path, instant, DamageKind.ORPHAN, None, self._files[path].size)

    def damaged(self) -> tuple[DamagedFile, ...]:
        return tuple(self._found[path] for path in sorted(self._found))

    def _should_be_here(self, instant: str, path: str) -> bool:
        name = posixpath.basename(path)
        base, log = parse_base_file(name), parse_any_log(name, native=self._native)
        if log is not None and log.is_cdc:
            return False
        parsed = base or log
        if parsed is None or self._completed.is_before_start(instant):
            return False
        # A log belongs to the slice that was the newest one when it completed.
        moment = self._completed.moment(instant) if log is not None else comparable_time(instant)
        newest = max(map(comparable_time, filter(self._completed.has, self._bases[parsed.file_id])), default="")
        return moment >= newest

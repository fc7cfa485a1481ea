"""From files to file groups and slices: which base file and which logs make up what a reader sees.

Layout 1 (table version 6) puts a log into the slice whose base instant its name carries. Layout 2 uses time:
a log belongs to the newest slice that began before the log's commit completed. So a commit that started before a
compaction was planned and completed after it lands on top of the new base:

    t10 log A starts .......... t25 A completes
                 t20 compaction planned: slice t20 opens
    A belongs to slice t20, although its name carries t10.

Every file first takes its place, as in Hudi's own view, and only then are the invisible ones taken away: files of
pending, failed and rolled-back instants, slices at instants that did not happen, replaced groups. Wherever the
place of a committed file would be a guess, the whole group is frozen instead, naming the instant. So is a group whose
newest slice has a damaged file (`written_files.py`); damage to older slices matters to time travel only.

Touches: nothing.
Keeps:   1. a committed file is in exactly one slice, or its group is frozen;
         2. an instant older than the active timeline counts as completed, but a log of such an instant needs its
            completion time from the history (Hudi issue 14365 lost data by guessing it), and a log of changes only
            where the base file is gone that was written with it; one between a savepoint and what was not archived is
            not older, and a group for which the history says that it completed is frozen;
         3. a file whose name fits no grammar is in no slice and is reported; so is a native log, but in a table whose
            version has them;
         4. no group has a damaged file in what a reader of its newest slice reads, but logs that were accepted.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.base.paths import join
from lakeward.format.file_name import (
    PARQUET,
    BaseFileName,
    is_native_log,
    parse_any_data_file,
    parse_any_log,
    parse_base_file,
)
from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.format.timeline.instant import State, comparable_time
from lakeward.storage.storage import FileStatus
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup, LogFile
from lakeward.table.found_link import FoundLink, StandsFor, format_path
from lakeward.table.timeline.timeline import Timeline, is_visible_write

GroupId = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True, slots=True)
class FileSystemView:
    groups: tuple[FileGroup, ...]
    frozen: tuple[FrozenGroup, ...] = ()
    uncommitted: tuple[str, ...] = ()
    """Paths of data files that no reader sees: their instants are pending, failed or rolled back."""
    unrecognised: tuple[str, ...] = ()
    """Paths that look like data files and are none."""
    accepted: Mapping[GroupId, tuple[DamagedFile, ...]] = field(default_factory=dict)
    """Damaged logs of groups that are not frozen for them."""
    replaced: tuple[FileGroup | FrozenGroup, ...] = ()
    """Groups that a replacecommit took away from readers, and whose files are still there."""


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The files of one partition, sorted by what their names say."""

    partition_path: str
    base_files: tuple[BaseFile, ...]
    log_files: tuple[LogFile, ...]
    unrecognised: tuple[str, ...]
    links: tuple[FoundLink, ...] = ()

    @property
    def sizes(self) -> Iterator[tuple[str, int]]:
        """Path and bytes of each base file and log."""
        yield from ((base.path, base.size) for base in self.base_files)
        yield from ((log.path, log.size) for log in self.log_files)


def build_file_groups(
    partitions: Iterable[PartitionFiles],
    timeline: Timeline,
    *,
    layout: int,
    archived: Mapping[str, str],
    pending_compactions: Mapping[GroupId, str],
    replaced: Mapping[GroupId, str],
    damage: Mapping[str, Sequence[DamagedFile]] | None = None,
    accept_damaged_logs: bool = False,
) -> FileSystemView:
    """The table's file groups, by partition path and file id.

    Args:
        archived: instants that left the active timeline, and their completion times.
        pending_compactions: groups, and the instant that compacts each.
        replaced: groups, and the instant that replaced each.
        damage: by partition path; of any slices.
        accept_damaged_logs: do not freeze a group for logs that are gone or of another size.
    """
    history = _History(timeline, archived)
    groups: list[FileGroup] = []
    frozen: list[FrozenGroup] = []
    uncommitted: list[str] = []
    unrecognised: list[str] = []
    accepted: dict[GroupId, tuple[DamagedFile, ...]] = {}
    gone: list[FileGroup | FrozenGroup] = []
    for partition in partitions:
        unrecognised.extend(partition.unrecognised)
        base_files: dict[str, list[BaseFile]] = defaultdict(list)
        log_files: dict[str, list[LogFile]] = defaultdict(list)
        for base in partition.base_files:
            base_files[base.file_id].append(base)
        for log in partition.log_files:
            log_files[log.name.file_id].append(log)
        damaged = _by_file_id((damage or {}).get(partition.partition_path, ()))
        for file_id in sorted(base_files.keys() | log_files.keys() | damaged.keys()):
            group_id = (partition.partition_path, file_id)
            pending = pending_compactions.get(group_id)
            slicing = _Slicing(group_id, history, layout, pending, base_files[file_id], log_files[file_id])
            result = slicing.visible_group()
            uncommitted.extend(slicing.uncommitted)
            if group_id in replaced:
                if isinstance(result, FrozenGroup) or result.slices:
                    gone.append(result)
                continue
            if isinstance(result, FileGroup) and (hurt := slicing.damage_to(result, damaged.get(file_id, ()))):
                if accept_damaged_logs and all(map(_is_acceptable, hurt)):
                    accepted[group_id] = hurt
                else:
                    result = frozen_for(group_id, hurt)
            if isinstance(result, FrozenGroup):
                frozen.append(result)
            elif result.slices:
                groups.append(result)
    return FileSystemView(tuple(groups), tuple(frozen), tuple(uncommitted), tuple(unrecognised), accepted, tuple(gone))


def frozen_for(group_id: GroupId, damage: Sequence[DamagedFile]) -> FrozenGroup:
    """A group that is frozen because of these files."""
    first, *others = damage
    more = f" and {len(others)} more of its files are damaged" if others else ""
    return FrozenGroup(*group_id, first.instant, f"{first.what}{more}", damage=tuple(damage))


def _by_file_id(damage: Iterable[DamagedFile]) -> Mapping[str, Sequence[DamagedFile]]:
    found: dict[str, list[DamagedFile]] = defaultdict(list)
    for file in damage:
        name = posixpath.basename(file.path)
        # What was found to be damaged was a file of the table, of whichever names it has.
        if (parsed := parse_any_data_file(name, native=True)) is not None:
            found[parsed.file_id].append(file)
    return found


def _is_acceptable(file: DamagedFile) -> bool:
    """True for what Hudi's readers go on after, as if nothing were wrong: they miss rows, and have none too many."""
    return file.is_log and file.kind is not DamageKind.ORPHAN


def sort_files(
    partition_path: str, files: Iterable[FileStatus], *, extension: str = PARQUET, native: bool = False
) -> PartitionFiles:
    """Distinguish base files and logs by their names. Hudi takes any name with the base format's extension in it for a
    base file, so such a name that fits no grammar is worth reporting; Lakeward does not judge anything else.

    Args:
        native: the table's version has native logs; in others they are reported.
    """
    base_files: list[BaseFile] = []
    log_files: list[LogFile] = []
    unrecognised: list[str] = []
    links: list[FoundLink] = []
    for status in files:
        if status.is_link:
            path = join(partition_path, status.name)
            links.append(FoundLink(format_path(path), _stands_for(status.name, extension, native)))
        elif (base := parse_base_file(status.name, extension=extension)) is not None:
            base_files.append(_base_file(base, partition_path, status))
        elif (log := parse_any_log(status.name, native=native)) is not None:
            log_files.append(LogFile(log, partition_path, status.size))
        elif is_native_log(status.name) or _looks_like_base_file(status.name, extension):
            unrecognised.append(format_path(join(partition_path, status.name)))
    return PartitionFiles(partition_path, tuple(base_files), tuple(log_files), tuple(unrecognised), tuple(links))


def archived_instants(partitions: Sequence[PartitionFiles], timeline: Timeline) -> frozenset[str]:
    """The instants that the active timeline does not know and the history is to be asked for: of logs, whose place
    their completion times decide, and of any files between a savepoint and what was not archived."""
    known = {instant.time for instant in timeline.instants}
    of_logs: set[str] = set()
    for partition in partitions:
        of_logs.update(log.instant for log in partition.log_files if not log.name.is_cdc)
        if changes := {(log.name.file_id, log.instant) for log in partition.log_files if log.name.is_cdc}:
            changes -= {(base.file_id, base.instant) for base in partition.base_files}
            of_logs.update(instant for _, instant in changes)
    of_bases = {base.instant for partition in partitions for base in partition.base_files}
    return frozenset(of_logs - known) | _behind_savepoint(of_bases - known, timeline)


def _stands_for(name: str, extension: str, native: bool) -> StandsFor:
    is_log = parse_any_log(name, native=native) is not None
    is_data = f".{extension}" in name or is_log or is_partition_metadata(name)
    return StandsFor.DATA_FILE if is_data else StandsFor.NOTHING


def _looks_like_base_file(name: str, extension: str) -> bool:
    return f".{extension}" in name and not name.startswith(".") and not is_partition_metadata(name)


def _base_file(name: BaseFileName, partition_path: str, status: FileStatus) -> BaseFile:
    return BaseFile(name.file_id, name.instant, status.name, partition_path, status.size, name.write_token)


class _History:
    """What the timelines say about an instant, asked once for every file of the table."""

    def __init__(self, timeline: Timeline, archived: Mapping[str, str]) -> None:
        writes = {t: i for t in {i.time for i in timeline.instants} if (i := timeline.find_write(t)) is not None}
        self._completed = {t: i.completion_time for t, i in writes.items() if i.state is State.COMPLETED}
        self._visible = frozenset(t for t, i in writes.items() if is_visible_write(i))
        self._archived = archived
        self._start = timeline.first_write
        self._visible_start = timeline.first_visible_write
        self._holes = _behind_savepoint(archived, timeline)

    def is_completed(self, instant: str) -> bool:
        if instant in self._completed or instant in self._archived:
            return True
        return _is_before(instant, self._start)

    def is_in_hole(self, instant: str) -> bool:
        """True for a completed write that Hudi's readers see no more: it was archived behind a savepoint."""
        return instant in self._holes

    def completion_time(self, instant: str) -> str | None:
        """The completion time; None for what did not complete, and for what did at an unknown time."""
        return self._completed.get(instant) or self._archived.get(instant)

    def can_open_slice(self, instant: str) -> bool:
        """True for base instants that readers accept: completed writes, pending compactions, and all that is older."""
        return instant in self._visible or instant in self._archived or _is_before(instant, self._visible_start)


class _Slicing:
    """One file group on its way from files to slices."""

    def __init__(
        self,
        group_id: GroupId,
        history: _History,
        layout: int,
        pending_compaction: str | None,
        base_files: Sequence[BaseFile],
        log_files: Sequence[LogFile],
    ) -> None:
        self._group_id = group_id
        self._history = history
        self._layout = layout
        self._pending_compaction = pending_compaction
        self._base_files = base_files
        self._log_files = sorted(log_files, key=lambda log: log.name.sort_key)
        self.uncommitted: list[str] = []

    def visible_group(self) -> FileGroup | FrozenGroup:
        files: Iterable[BaseFile | LogFile] = (*self._base_files, *self._log_files)
        for file in files:
            if self._history.is_in_hole(file.instant):
                return self._frozen(file.instant, f"{file.path} was archived behind a savepoint; Hudi reads it no more")
        bases: dict[str, list[BaseFile]] = defaultdict(list)
        for base in self._base_files:
            bases[base.instant].append(base)
        logs: dict[str, list[LogFile]] = {instant: [] for instant in bases}
        if self._pending_compaction is not None:
            logs.setdefault(self._pending_compaction, [])
        for log in self._log_files:
            if self._layout == 1:
                logs.setdefault(log.instant, []).append(log)
            elif (instant := self._place(log, logs)) is None:
                # 2026-11-30: Hudi 1.2.0 gave back a row that a delete and its own compaction had taken. It read logs
                # from before an upgrade of version 6 with the newest base file.
                return self._frozen(
                    log.instant,
                    f"{log.path} completed at a time that neither timeline shows, so it is not certain which base "
                    "file it belongs to. Tables that Hudi 1.2.0 upgraded from version 6 have such logs; Hudi itself "
                    "may read them with a newer base file, and give deleted rows back.",
                )
            else:
                logs.setdefault(instant, []).append(log)

        slices: list[FileSlice] = []
        for instant in sorted(logs, key=comparable_time, reverse=True):
            base_files = [base for base in bases.get(instant, []) if self._is_committed_base(base)]
            log_files = [log for log in logs[instant] if self._is_committed_log(log)]
            if len(base_files) > 1:
                return self._frozen(instant, f"there are two base files, {' and '.join(b.name for b in base_files)}")
            if not self._history.can_open_slice(instant):
                if log_files and self._layout >= 2:
                    return self._frozen(instant, f"{log_files[0].path} is committed on top of an instant that is not")
                self.uncommitted.extend(base.path for base in base_files)
                self.uncommitted.extend(log.path for log in log_files)
                continue
            if base_files or log_files or instant == self._pending_compaction:
                base_file = base_files[0] if base_files else None
                slices.append(FileSlice(*self._group_id, instant, base_file, tuple(log_files)))
        return FileGroup(*self._group_id, tuple(slices))

    def damage_to(self, group: FileGroup, damage: Sequence[DamagedFile]) -> tuple[DamagedFile, ...]:
        """Damaged files that matter to a reader of the newest slice."""
        if not damage:
            return ()
        read = group.read_slices
        paths = {log.path for slice_ in read for log in slice_.log_files}
        paths |= {slice_.base_file.path for slice_ in read if slice_.base_file is not None}
        start = comparable_time(read[-1].base_instant) if read and read[-1].base_file is not None else ""
        return tuple(
            file
            for file in damage
            if file.path in paths or (file.kind is DamageKind.MISSING and self._moment(file) >= start)
        )

    def _moment(self, file: DamagedFile) -> str:
        """What decides into which slice a file that is missing would go."""
        completed = self._history.completion_time(file.instant) if file.is_log else None
        return comparable_time(completed or file.instant)

    def _place(self, log: LogFile, slices: Iterable[str]) -> str | None:
        """The base instant of the slice that `log` belongs to; None where only a guess could say."""
        if log.name.is_cdc and any(base.instant == log.instant for base in self._base_files):
            # No other slice opens while the compaction that wrote both is under way.
            return log.instant
        completed = self._history.completion_time(log.instant)
        if completed is None and self._history.is_completed(log.instant):
            return None
        newest_first = sorted(slices, key=comparable_time, reverse=True)
        if not newest_first:
            return log.instant
        if completed is None:
            return newest_first[0]
        began = (t for t in newest_first if comparable_time(t) <= comparable_time(completed))
        return next(began, log.instant)

    def _is_committed_base(self, base: BaseFile) -> bool:
        # One at a pending compaction was left by an attempt that died; its slice stays open without it.
        committed = self._history.is_completed(base.instant)
        if not committed:
            self.uncommitted.append(base.path)
        return committed

    def _is_committed_log(self, log: LogFile) -> bool:
        # In layout 1 the name carries the base instant, and whether a block counts is seen only inside the file.
        committed = self._layout == 1 or self._history.is_completed(log.instant)
        if not committed:
            self.uncommitted.append(log.path)
        return committed

    def _frozen(self, instant: str, why: str) -> FrozenGroup:
        # Also the files of slices that were not looked at: an archiving uses the oldest that no instant explains.
        is_completed = self._history.is_completed
        bases = (
            b for b in self._base_files if not (is_completed(b.instant) and self._history.can_open_slice(b.instant))
        )
        logs = (log for log in self._log_files if self._layout >= 2 and not is_completed(log.instant))
        self.uncommitted = [*(base.path for base in bases), *(log.path for log in logs)]
        return FrozenGroup(*self._group_id, instant, why)


def _behind_savepoint(instants: Iterable[str], timeline: Timeline) -> frozenset[str]:
    """The instants that lie in holes of the active timeline, if there may be any."""
    start, end = timeline.first_write, timeline.first_active_write
    if start == end:
        return frozenset()
    between = (time for time in instants if not _is_before(time, start) and _is_before(time, end))
    return frozenset(time for time in between if timeline.find_write(time) is None)


def _is_before(instant: str, start: str | None) -> bool:
    return start is not None and comparable_time(instant) < comparable_time(start)

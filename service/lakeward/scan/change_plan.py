"""The places where changes of commits are: logs of changes, or the rows before and after a commit.

    commits of a window, by completion --what each wrote and replaced--> change sources

    a base file with a log of changes that has both rows    the log
    any other base file                                     the slice before it (none for a new file group), the file
    logs on a file slice                                    the slice with the logs before, and with these
    a file group that was replaced                          its newest slice, nothing after it

Compactions, log compactions and clusterings change no row.

Touches: nothing.
Keeps:   1. a commit is in the plan whole: where a file is gone that its changes are in, or that they are found by, the
            plan is refused by name;
         2. the slice before a log holds what had been completed when the log was, wherever it lies since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.base.errors import Refused
from lakeward.format.file_name import LogFileName, parse_any_log
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, WriteStat
from lakeward.format.timeline.instant import Instant, comparable_time
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_CHANGES_NOTHING = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX", "ALTER_SCHEMA", "BUCKET_RESCALE"})


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """What one commit changed in one file group."""

    instant: str
    group_id: GroupId
    logs: tuple[LogFile, ...] = ()
    """Logs of changes, each with the rows before and after; where there are none, it is found from the slices."""
    before: FileSlice | None = None
    after: FileSlice | None = None

    @property
    def bytes(self) -> int:
        """The size of the files that are read for it."""
        slices = (each for each in (self.before, self.after) if each is not None)
        return sum(log.size for log in self.logs) + sum(each.bytes for each in slices)


class ChangePlanner:
    """Finds the sources of commits among the files of a snapshot."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._timeline = snapshot.timeline
        self._has_both_rows = snapshot.config.supplemental_logging is SupplementalLogging.DATA_BEFORE_AFTER
        groups = (each for each in (*snapshot.file_groups, *snapshot.replaced_groups) if isinstance(each, FileGroup))
        self._groups: Mapping[GroupId, FileGroup] = {(each.partition_path, each.file_id): each for each in groups}
        self._frozen = {(each.partition_path, each.file_id): each for each in snapshot.frozen}
        self.damaged: dict[GroupId, FrozenGroup] = {}
        """File groups that cannot be read, of which commits named changes so far; these are in no source."""
        self._base_files = {base.path: base for each in snapshot.files for base in each.base_files}
        self._logs = {log.path: log for each in snapshot.files for log in each.log_files}

    def sources(self, instant: Instant, metadata: CommitMetadata) -> Iterator[ChangeSource]:
        """What a commit changed, group by group. Raises `Refused` where a file for it is gone."""
        if metadata.compacted or metadata.operation_type in _CHANGES_NOTHING:
            return
        for partition, file_ids in sorted(metadata.partition_to_replace_file_ids.items()):
            for file_id in sorted(file_ids):
                if self._is_damaged((partition, file_id)):
                    continue
                before = self._slice_at((partition, file_id), instant, lambda slices: _newest_with_base(slices))
                yield ChangeSource(instant.time, (partition, file_id), before=before)
        for partition, stats in sorted(metadata.partition_to_write_stats.items()):
            by_group: dict[str, list[WriteStat]] = {}
            for stat in stats:
                if stat.file_id and stat.path:
                    by_group.setdefault(stat.file_id, []).append(stat)
            for file_id, written in sorted(by_group.items()):
                if self._is_damaged((partition, file_id)):
                    continue
                yield from self._of_group(instant, (partition, file_id), written)

    def _is_damaged(self, group_id: GroupId) -> bool:
        if (frozen := self._frozen.get(group_id)) is not None:
            self.damaged[group_id] = frozen
        return frozen is not None

    def _of_group(self, instant: Instant, group_id: GroupId, stats: Sequence[WriteStat]) -> Iterator[ChangeSource]:
        logs = [stat.path for stat in stats if stat.path and _log_name(stat.path) is not None]
        for stat in stats:
            if stat.path and _log_name(stat.path) is None:
                yield self._of_base_file(instant, group_id, stat)
        if logs:
            yield self._of_logs(instant, group_id, logs)

    def _of_base_file(self, instant: Instant, group_id: GroupId, stat: WriteStat) -> ChangeSource:
        assert stat.path is not None
        changes = sorted(stat.cdc_stats or ())
        if changes and self._has_both_rows and all(isinstance(_log_name(path), LogFileName) for path in changes):
            return ChangeSource(instant.time, group_id, logs=tuple(self._log(path, instant) for path in changes))
        if stat.num_writes == 0 and stat.num_deletes:
            after = None
        else:
            base = self._base_files.get(stat.path)
            if base is None:
                raise _gone(stat.path, instant)
            after = _of_base(base, group_id)
        if stat.prev_commit in (None, NO_COMMIT, ""):
            return ChangeSource(instant.time, group_id, after=after)
        earlier = stat.prev_commit
        before = self._slice_at(group_id, instant, lambda slices: _with_base(slices, earlier))
        return ChangeSource(instant.time, group_id, before=before, after=after)

    def _of_logs(self, instant: Instant, group_id: GroupId, paths: Sequence[str]) -> ChangeSource:
        own = {self._log(path, instant).path for path in paths}
        at = self._slice_at(group_id, instant, lambda slices: _holding(slices, own))
        earlier = tuple(log for log in at.row_logs if log.path not in own and self._is_before(log, instant))
        before = replace(at, log_files=earlier)
        after = replace(at, log_files=tuple(log for log in at.row_logs if log.path in own or log in earlier))
        return ChangeSource(instant.time, group_id, before=None if before.is_empty else before, after=after)

    def _is_before(self, log: LogFile, instant: Instant) -> bool:
        """True for a log that was completed first; one that the active timeline does not know was archived."""
        completed = self._timeline.completion_time(log.instant)
        own = comparable_time(instant.completion_time or instant.time)
        return completed is None or comparable_time(completed) < own

    def _log(self, path: str, instant: Instant) -> LogFile:
        if (found := self._logs.get(path)) is None:
            raise _gone(path, instant)
        return found

    def _slice_at(
        self, group_id: GroupId, instant: Instant, find: Callable[[Sequence[FileSlice]], FileSlice | None]
    ) -> FileSlice:
        group = self._groups.get(group_id)
        found = None if group is None else find(group.slices)
        if found is None:
            partition, file_id = group_id
            raise _gone(f"a slice of file group {file_id} in partition {partition or '(none)'}", instant)
        return found


def _newest_with_base(slices: Sequence[FileSlice]) -> FileSlice | None:
    """What a query read of a file group at its end."""
    return None if not slices else _joined(slices, 0)


def _holding(slices: Sequence[FileSlice], paths: set[str]) -> FileSlice | None:
    """The slice with these logs."""
    for number, each in enumerate(slices):
        if paths <= {log.path for log in each.log_files}:
            return _joined(slices, number)
    return None


def _joined(slices: Sequence[FileSlice], number: int) -> FileSlice:
    """A slice to read; if a pending compaction opened it, the one before it with the logs that came since."""
    found = slices[number]
    if found.base_file is None and number + 1 < len(slices):
        below = slices[number + 1]
        found = replace(below, log_files=(*below.log_files, *found.log_files))
    return replace(found, log_files=found.row_logs)


def _with_base(slices: Sequence[FileSlice], instant: str) -> FileSlice | None:
    for each in slices:
        if each.base_file is not None and each.base_instant == instant:
            return replace(each, log_files=each.row_logs)
    return None


def _of_base(base: BaseFile, group_id: GroupId) -> FileSlice:
    return FileSlice(*group_id, base.instant, base, ())


def _log_name(path: str) -> object:
    return parse_any_log(path.rpartition("/")[2], native=True)


def _gone(what: str, instant: Instant) -> Refused:
    return Refused(
        f"The changes of the commit {instant.time} cannot be read: {what} is gone.",
        why="A cleaner took what they are found by, so some of them would be missing.",
        remedy=f"Begin later: --since {instant.completion_time or instant.time}, and let the cleaner keep more.",
    )

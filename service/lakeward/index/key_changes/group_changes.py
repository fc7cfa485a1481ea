"""What is read to find out what commits did to the keys of each file group: commits and the table's files in, a choice
out.

    a base file onto another         the keys of both: what came, what went
    a new file group                 the keys of its base file: all came
    logs                             their keys; where the slice may hold deletes, those that it has now came, the
                                     others went
    a FULL compaction                nothing; where rows are merged by ordering values, the keys of the logs on top of
                                     it: what a delete had hidden may be there again
    a LOG compaction                 nothing; where a delete may be among its rows, their keys as of other logs
    file groups that were replaced   nothing: a location in a file group that is not live is none
    a rollback or a restore of what may be in the index    the file groups that it took files from are read again, all
                                     live ones where it brought replaced ones back

The files of a commit may be used the time it is looked at, since a clean took their slice. Then its file group is
*read again*: each key of the newest slice came, each that the index has there and the slice has not went. So it is for
the first and the last such commit of those that are looked at together: the last one makes right what the commits in
between did, the first one makes right what a process that dies before the last would leave.

    t1 C1 writes B1 over B0; t2 C2 writes B2; t3 a clean takes B0 and B1; t4 both are looked at, and the index has B0's
    keys: C1 and C2 lack a file each, and each of them brings the index to the keys of B2.

Keys are looked up in the slice as of the commit, where its files are all there: no clean was planned since, or it is
the newest one and none of its logs that a log compaction merged after the commit is gone. Otherwise they are looked up
in the newest slice. A key that moves on later is moved by the commit that does it, so that in the end each key is where
the last commit put it; but what the index says *as of* such a commit is not exact, and after a restore all that was
undone is read again, indexed or not.

Touches: nothing.
Keeps:   1. a slice as of a commit is made of files that no clean can have begun to take away;
         2. a commit of a file group that is not live says nothing about it.
See:     docs/decisions/0075-an-index-follows-its-table.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeward.base.errors import Refused
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.key_changes.table_commits import FileOfCommit, TableCommit
from lakeward.read.newest_slice import newest_slice
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.hidden_group import hidden_for_now, hiding_write
from lakeward.table.snapshot import TableSnapshot

_BRINGING_BACK = frozenset({"replacecommit", "clustering", ""})
"""Actions that file groups may live again without; an empty text is one that is not known."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A base file was written: keys before and after it."""

    group: GroupId
    after: FileSlice
    before: tuple[str, ...] = ()
    """Paths of base files, relative to the base path."""
    logs_before: tuple[str, ...] = ()
    """Paths of logs on top of them: then not every key that is found was there."""


@dataclass(frozen=True, slots=True)
class KeysOfLogs:
    group: GroupId
    logs: tuple[str, ...]
    after: FileSlice
    """The slice that decides of keys where there may be deletes."""
    only_with_deletes: bool = False
    """They add nothing where the slice has no delete."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    group: GroupId
    after: FileSlice


GroupChange = Compared | KeysOfLogs | ReadAgain


@dataclass(frozen=True, slots=True)
class CommitChanges:
    commit: TableCommit
    changes: tuple[GroupChange, ...]

    @property
    def read_again(self) -> frozenset[GroupId]:
        return frozenset(each.group for each in self.changes if isinstance(each, ReadAgain))


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A snapshot, as far as it matters here."""

    newest: Mapping[GroupId, FileSlice]
    """What a query reads of each live file group."""
    frozen: Mapping[GroupId, str]
    """Live file groups whose slices cannot be known, with the reason."""
    hidden: Mapping[GroupId, str]
    """File groups among them that a write hides which has not ended, with its instant."""
    slices: Mapping[GroupId, tuple[FileSlice, ...]]
    """All slices of live file groups, newest first."""
    completed: Mapping[str, str]
    """When instants of the active timeline completed."""
    merged_since: Mapping[GroupId, tuple[str, ...]]
    """When the log compactions completed of each group of which a log that was merged is gone."""
    newest_clean: str | None
    is_merge_on_read: bool
    by_event_time: bool

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> TableFiles:
        slices, newest = {}, {}
        for group in snapshot.file_groups:
            slice_ = newest_slice(group.slices)
            if slice_ is not None and not slice_.is_empty:
                slices[slice_.group_id], newest[slice_.group_id] = group.slices, slice_
        cleans = [each.time for each in snapshot.timeline.instants if each.action == "clean"]
        return cls(
            newest,
            {(group.partition_path, group.file_id): group.why for group in snapshot.frozen},
            {
                (group.partition_path, group.file_id): instant
                for group in snapshot.frozen
                if (instant := hiding_write(snapshot.timeline, group)) is not None
            },
            slices,
            {each.time: each.completion_time or each.time for each in snapshot.timeline.completed_writes},
            {group: times for group, of in slices.items() if (times := tuple(_merged_and_gone(snapshot, group, of)))},
            max(cleans, key=comparable_time, default=None),
            snapshot.config.is_merge_on_read,
            bool(snapshot.config.ordering_fields) and snapshot.config.merge_mode == "EVENT_TIME_ORDERING",
        )

    @property
    def live(self) -> frozenset[GroupId]:
        return frozenset(self.newest) | self.frozen.keys()

    def paths(self, group: GroupId) -> frozenset[str]:
        """All files of the group."""
        return frozenset(file.path for slice_ in self.slices[group] for file in slice_.files)

    def as_of(self, group: GroupId, commit: TableCommit) -> FileSlice | None:
        """What a query read of the group when the commit had completed; None where files of it may be gone."""

        def is_there(instant: str) -> bool:
            return not is_before(commit.completed, self.completed.get(instant, instant))

        kept: list[FileSlice] = []
        for slice_ in self.slices[group]:
            kept.append(slice_)
            if slice_.base_file is not None and is_there(slice_.base_file.instant):
                break
        oldest = kept[-1]
        has_base = oldest.base_file is not None and is_there(oldest.base_file.instant)
        if self.is_merge_on_read and commit.instant not in self.completed:
            return None  # archived, and so may be a log compaction whose sources are gone
        # s1 and s2 are merged into O1 and retire: as of s2 the slice had s1, as of O1 it reads the same without.
        if any(is_before(commit.completed, merged) for merged in self.merged_since.get(group, ())):
            return None
        # A slice before the newest one may be gone, and where none is left the newest base may have come later.
        is_newest = oldest.base_file == self.newest[group].base_file and (has_base or oldest.base_file is None)
        if not is_newest and not self.is_untouched(commit):
            return None
        # As in a query, under a compaction that is pending then, what came since lies behind what is compacted.
        logs = (log for slice_ in reversed(kept) for log in slice_.row_logs if is_there(log.instant))
        return replace(oldest, base_file=oldest.base_file if has_base else None, log_files=tuple(logs))

    def is_untouched(self, commit: TableCommit) -> bool:
        """Whether no clean that was planned since the commit can have taken a file that it stood on."""
        if commit.instant not in self.completed:
            return False
        return self.newest_clean is None or is_before(self.newest_clean, commit.instant)


def _merged_and_gone(snapshot: TableSnapshot, group: GroupId, slices: Sequence[FileSlice]) -> Iterator[str]:
    there = {name for slice_ in slices for name in slice_.log_names}
    for compaction in snapshot.log_compactions.get(group, ()):
        if not compaction.log_files <= there:
            yield snapshot.timeline.visible_at(compaction.instant)


@dataclass(slots=True)
class _Choice:
    commit: TableCommit
    changes: list[GroupChange] = field(default_factory=list)


def choose_changes(commits: Sequence[TableCommit], table: TableFiles, known: Collection[str]) -> list[CommitChanges]:
    """What is read for each commit.

    Args:
        commits: in order of completion, none left out that is not indexed and completed before the last of them.
        known: instants that were undone and that the index may have something of.

    Raises `Refused` where a file group is touched whose slices cannot be known, `TryLater` where they cannot for now.
    """
    chosen = [_Choice(commit, list(_changes(commit, table, known))) for commit in commits]
    seen: set[GroupId] = set()
    last: dict[GroupId, int] = {}
    for number, choice in enumerate(chosen):
        last.update({each.group: number for each in choice.changes if isinstance(each, ReadAgain)})
    for number, choice in enumerate(chosen):
        kept: list[GroupChange] = []
        read_again = {each.group for each in choice.changes if isinstance(each, ReadAgain)}
        for each in choice.changes:
            if each.group not in read_again:
                kept.append(each)
        again = (group for group in sorted(read_again) if group not in seen or last[group] == number)
        kept += [ReadAgain(group, table.newest[group]) for group in again]
        seen |= read_again
        choice.changes = kept
    return [CommitChanges(choice.commit, tuple(choice.changes)) for choice in chosen]


def _changes(commit: TableCommit, table: TableFiles, known: Collection[str]) -> Iterator[GroupChange]:
    if commit.undone is not None:
        for group in sorted(_undone_groups(commit, table, known)):
            yield ReadAgain(group, table.newest[group])
        return
    by_group: dict[GroupId, list[FileOfCommit]] = {}
    for file in commit.files:
        by_group.setdefault(file.group, []).append(file)
    for group, files in sorted(by_group.items()):
        check_not_frozen(group, table)
        if group in table.newest:
            of = _compacted if commit.is_compaction else _written
            yield from of(commit, group, files, table)


def _undone_groups(commit: TableCommit, table: TableFiles, known: Collection[str]) -> Iterable[GroupId]:
    undone = commit.undone
    assert undone is not None, "it undid something"
    if not any(instant in known for instant in undone.instants):
        return ()
    if any(action in _BRINGING_BACK for action in undone.instants.values()):
        for group in table.frozen:
            check_not_frozen(group, table)
        return table.newest
    for group in undone.groups:
        check_not_frozen(group, table)
    return undone.groups & table.newest.keys()


def check_not_frozen(group: GroupId, table: TableFiles) -> None:
    """Raise `Refused` for a file group whose slices cannot be known, `TryLater` where a write hides them that has not
    ended."""
    what = f"The keys of file group {group[1]} in partition '{group[0]}' cannot be known"
    if (write := table.hidden.get(group)) is not None:
        raise hidden_for_now(what, write=write, why=table.frozen[group], group=group)
    if group in table.frozen:
        raise Refused(
            f"{what}.",
            why=f"Its file slices cannot be told apart: {table.frozen[group]}.",
            remedy="`lakeward inspect` says what is wrong with it; the index goes on once that is repaired.",
            file_group=group,
        )


def _written(
    commit: TableCommit, group: GroupId, files: Sequence[FileOfCommit], table: TableFiles
) -> Iterator[GroupChange]:
    paths, newest = table.paths(group), table.newest[group]
    as_of = table.as_of(group, commit)
    if logs := tuple(file.path for file in files if file.is_log):
        yield KeysOfLogs(group, logs, as_of or newest) if paths.issuperset(logs) else ReadAgain(group, newest)
    for file in files:
        if file.is_log:
            continue
        before = ((), ()) if file.onto is None else _before(commit, group, file, table)
        if before is None:
            yield ReadAgain(group, newest)
            continue
        yield Compared(group, as_of or _alone(file, group, table) or newest, *before)


def _alone(file: FileOfCommit, group: GroupId, table: TableFiles) -> FileSlice | None:
    """The base file without the logs on top of it; None where it is gone."""
    bases = (slice_ for slice_ in table.slices[group] if slice_.base_file is not None)
    found = next((slice_ for slice_ in bases if slice_.base_file and slice_.base_file.path == file.path), None)
    return None if found is None else replace(found, log_files=())


def _before(
    commit: TableCommit, group: GroupId, file: FileOfCommit, table: TableFiles
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Base files and logs of the slice that a base file was written over; None where they are not all there."""
    found = (slice_.base_file for slice_ in table.slices[group])
    bases = tuple(base.path for base in found if base and base.instant == file.onto and base.path != file.path)
    if not table.is_merge_on_read:
        return (bases, ()) if bases else None
    if not table.is_untouched(commit):
        return None
    logs = (log for slice_ in table.slices[group] for log in slice_.row_logs)
    return bases, tuple(log.path for log in logs if is_before(log.instant, commit.instant))


def _compacted(
    commit: TableCommit, group: GroupId, files: Sequence[FileOfCommit], table: TableFiles
) -> Iterator[GroupChange]:
    if not table.by_event_time:
        return  # the last record wins, whether it is compacted in one step or in two
    paths, newest = table.paths(group), table.newest[group]
    as_of = table.as_of(group, commit)
    if logs := tuple(file.path for file in files if file.is_log):
        if paths.issuperset(logs):
            yield KeysOfLogs(group, logs, as_of or newest, only_with_deletes=True)
        else:
            yield ReadAgain(group, newest)
    if any(not file.is_log for file in files):
        if as_of is None:
            yield ReadAgain(group, newest)
        elif as_of.log_files:
            yield KeysOfLogs(group, tuple(log.path for log in as_of.log_files), as_of)

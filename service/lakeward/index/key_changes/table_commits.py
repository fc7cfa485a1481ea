"""The commits of a table that an index does not have yet, in the order in which they completed.

    commit, deltacommit, replacecommit   which files they wrote, onto which base file, and what they replaced
    rollback, restore                    which instants they undid, and which file groups they took files from
    others                               do nothing to the places of keys, and are none

A commit that was archived before it was indexed is read from the history, where it says the same.

Touches: storage, reading: the timeline's files of these commits, and the history.
Memory:  what `number` commits say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Refused
from lakeward.base.paths import join
from lakeward.format.file_name import is_change_log, parse_any_log
from lakeward.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, read_commit_metadata
from lakeward.format.timeline.instant import comparable_time, is_before, parse_instant_time
from lakeward.format.timeline.rollback_metadata import UndoneInstants, read_undone
from lakeward.index.index import Indexed
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import history_folder, load_archived_commits
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_UNDOING = frozenset({"rollback", "restore"})
CHANGING = WRITE_ACTIONS | _UNDOING
"""Completed actions that may change where keys are."""
_COMPACTIONS = frozenset({"COMPACT", "LOG_COMPACT"})
COMMITS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class FileOfCommit:
    group: GroupId
    path: str
    """Relative to the base path."""
    is_log: bool
    onto: str | None
    """The base instant of the slice that a base file follows; None: the file group began with it."""


@dataclass(frozen=True, slots=True)
class TableCommit:
    instant: str
    completed: str
    action: str
    files: tuple[FileOfCommit, ...] = ()
    """Logs of changes are not among them."""
    replaced: frozenset[GroupId] = frozenset()
    is_compaction: bool = False
    """A compaction of either kind moves no key to another file group."""
    undone: UndoneInstants | None = None
    """What a rollback or a restore undid."""
    bytes: int = 0
    """What its files have, as it says."""

    @property
    def groups(self) -> frozenset[GroupId]:
        """The file groups that it wrote to or replaced."""
        return frozenset(file.group for file in self.files) | self.replaced


@dataclass(frozen=True, slots=True)
class CommitsBehind:
    """What an index lacks of its table."""

    commits: tuple[TableCommit, ...] = ()
    """The first ones."""
    count: int = 0
    """All of them."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """How far an index is behind its table: the one definition, for gauge, command and page."""

    commits: int = 0
    """Commits, rollbacks and restores that it does not have yet; of the cache of filters, commits of whose files it
    lacks any (`index/bloom/cache_coverage`)."""
    bytes: int = 0
    """What these commits wrote, or these files have."""
    seconds: float = field(default=0.0)
    """Since the first of them completed; 0 where there is none, or the table's zone is not known."""


def commits_behind(
    storage: Storage, snapshot: TableSnapshot, indexed: Indexed, *, number: int = COMMITS_AT_ONCE
) -> CommitsBehind:
    """What completed on the table as of the snapshot, and is not indexed.

    Args:
        number: how many of them are read.

    Raises `Refused` for a table of version 6, and `BrokenFile` where a commit cannot be read.
    """
    check_can_be_followed(snapshot)
    archived = load_archived_commits(
        storage,
        snapshot.base_path,
        snapshot.config,
        lambda *of: not indexed.has(*of),
        actions=CHANGING,
        number=number,
        after=indexed.through,
    )
    found = {row.time: (row.completion_time or row.time, row.action, row.metadata or b"") for row in archived.rows}
    # One that is on both timelines is archived: the other one is about to go.
    active = {
        each.time: (each.completion_time or each.time, each.action, each.file_name)
        for each in snapshot.timeline.completed
        if each.comparable_action in CHANGING and each.time not in found
    }
    lacking = {time: comparable_time(completed) for time, (completed, *_) in found.items()}
    lacking |= {
        time: comparable_time(completed) for time, (completed, *_) in active.items() if not indexed.has(time, completed)
    }
    contents = InstantContents(storage, snapshot.base_path, snapshot.config, snapshot.timeline)
    commits = []
    for time in sorted(lacking, key=lambda each: (lacking[each], comparable_time(each)))[:number]:
        if time in found:
            completed, action, data = found[time]
            where = f"the row of {time} in {history_folder(snapshot.base_path, snapshot.config)}"
        else:
            completed, action, file_name = active[time]
            data = contents.read(file_name)
            where = join(timeline_folder(snapshot.base_path, snapshot.config), file_name)
        commits.append(_read_commit(snapshot, time, completed, action, data, where))
    unread = archived.count - len(archived.rows)
    return CommitsBehind(tuple(commits), len(lacking) + unread)


def staleness(storage: Storage, snapshot: TableSnapshot, indexed: Indexed, *, clock: Clock) -> Staleness:
    """How far behind is what follows the commits of a table, as of the snapshot. Raises what `commits_behind` does."""
    behind = commits_behind(storage, snapshot, indexed)
    if not behind.commits:
        return Staleness()
    # Of more commits than are read at once the others are taken to be as large as these.
    size = sum(commit.bytes for commit in behind.commits) * behind.count // len(behind.commits)
    return Staleness(behind.count, size, seconds_since(snapshot, behind.commits[0].completed, clock=clock))


def seconds_since(snapshot: TableSnapshot, time: str, *, clock: Clock) -> float:
    """Since that time on the table's timeline; 0 where the table's zone is not known."""
    zone = snapshot.zone.zone
    return 0.0 if zone is None else max(0.0, clock.now() - parse_instant_time(time, zone) / 1000)


def known_undone(commits: Iterable[TableCommit], indexed: Indexed) -> frozenset[str]:
    """The instants that were undone and that the index may have something of.

    What a restore undoes had completed: it is in the index, or commits that were indexed since may have been read from
    slices that it was in. A write that failed is in none, and is what a rollback undoes; but where it began before the
    last indexed commit completed, nothing tells it apart from one that had completed.
    """
    if indexed == Indexed():
        return frozenset()
    return frozenset(
        instant
        for commit in commits
        if commit.undone is not None
        for instant in commit.undone.instants
        if commit.action == "restore"
        or instant in indexed.instants
        or (indexed.through is not None and is_before(instant, indexed.through))
    )


def newest_change(timeline: Timeline) -> TableCommit | None:
    """The change of the table that completed last, by its names alone; None of a table without any."""
    times = [
        (comparable_time(each.completion_time or each.time), each.completion_time or each.time, each.time)
        for each in timeline.completed
        if each.comparable_action in CHANGING
    ]
    if not times:
        return None
    _, completed, instant = max(times)
    return TableCommit(instant, completed, "")


def check_commits_are_known(snapshot: TableSnapshot) -> None:
    """Raise `Refused` for a table whose commits do not say what each of them did to keys."""
    if snapshot.config.layout < 2:
        version = snapshot.config.version.number
        raise Refused(
            f"Lakeward keeps no indexes of tables of version {version}.",
            why="The timeline does not say when a commit completed, and writes share log files, so that what each "
            "commit did to keys is unknown.",
            remedy="Upgrade the table with Hudi (CALL upgrade_table in its Spark SQL), then build the index. Until "
            "then use simple, bloom or metadata; `lakeward index drop` removes an index that is there.",
        )


def check_can_be_followed(snapshot: TableSnapshot) -> None:
    """Raise `Refused` for a table that an index of Lakeward cannot follow: its commits do not say what they did to
    keys, or its rows not what their keys are."""
    check_commits_are_known(snapshot)
    if not snapshot.config.populate_meta_fields and not snapshot.config.made_key_fields:
        raise Refused(
            "An index cannot follow this table.",
            why="Its rows carry no keys, and of its key fields none can be made.",
            remedy="Use it without an index of Lakeward's.",
        )


def _read_commit(
    snapshot: TableSnapshot, time: str, completed: str, action: str, data: bytes, where: str
) -> TableCommit:
    """What a file of the timeline, or a row of the history, says. Raises `BrokenFile`."""
    if not data:
        raise BrokenFile(
            f"What the {action} of {time} did is unknown.",
            why=f"{where} is empty.",
            remedy="Build the index again (`lakeward index rebuild`).",
        )
    if action in _UNDOING:
        undone = read_undone(data, file=where, native=snapshot.config.version.has_native_logs)
        return TableCommit(time, completed, action, undone=undone)
    metadata = read_commit_metadata(data, file=where, layout=snapshot.config.layout)
    replaced = metadata.partition_to_replace_file_ids.items()
    return TableCommit(
        time,
        completed,
        action,
        tuple(_files(metadata, native=snapshot.config.version.has_native_logs)),
        frozenset((path, file_id) for path, file_ids in replaced for file_id in file_ids),
        is_compaction=bool(metadata.compacted) or metadata.operation_type in _COMPACTIONS,
        bytes=sum(
            stat.file_size_in_bytes or stat.total_write_bytes or 0
            for stats in metadata.partition_to_write_stats.values()
            for stat in stats
        ),
    )


def _files(metadata: CommitMetadata, *, native: bool) -> Iterable[FileOfCommit]:
    for partition_path, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            if not stat.file_id or not stat.path:
                continue
            name = stat.path.rpartition("/")[2]
            if is_change_log(name):
                continue
            onto = stat.prev_commit if stat.prev_commit not in ("", NO_COMMIT) else None
            is_log = parse_any_log(name, native=native) is not None
            yield FileOfCommit((partition_path, stat.file_id), join(partition_path, name), is_log, onto)

"""Keep an index of Lakeward up to date with its table, whatever wrote it: one index commit for each commit of the
table.

    snapshot -> what completed and is not indexed, in that order (`index/key_changes/table_commits`)
             -> what is read for each (`group_changes`) -> its key changes (`reading`) -> `WritableIndex.update`
             -> of a rollback or a restore: what it undid is forgotten (`WritableIndex.rollback`)

What went counts only where the index says that it is there: a key that is in another file group by now stays in it.

*Stopped anywhere*, what the index has is what it has, and the next update goes on behind that. A restore is indexed
before what it undid is forgotten: until then the index says that it does not have the restore, and what was undone
does not count, since it is on no timeline any more.

A writer of Lakeward puts its own commit into the index, so that this may have commits already that completed after one
that it lacks. What that one took away is judged by the index as of then:

    t10 Hudi deletes k from A; t20 a write of Lakeward, to which k was a new key, puts it into B, and the index has
    that; t30 the commit of t10 is indexed: k is in B now, but was in A until t10; were that not kept, k would be in A
    again once the commit of t20 is undone.

A clean may take files while they are read: then all begins again with another snapshot.

Touches: the index; the table, reading.
Keeps:   1. the commits of a table are indexed in the order in which they completed, and none is passed over;
         2. a key is gone only where the index had it in the file group that it went from;
         3. stopped at any call, the next update makes the same index.
See:     docs/decisions/0075-an-index-follows-its-table.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import NotFound, TryLater
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.index import Indexed, WritableIndex, record_locations
from lakeward.index.key_changes.group_changes import CommitChanges, TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.marked_keys import IS_THERE
from lakeward.index.key_changes.table_commits import COMMITS_AT_ONCE, commits_behind, known_undone, newest_change
from lakeward.index.location import (
    FILE_ID,
    LOCATIONS,
    PARTITION_PATH,
    RECORD_KEY,
    group_names,
    location_names,
    names_of,
)
from lakeward.services.indexing.run.staying_files import SNAPSHOTS
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What an update did."""

    commits: tuple[str, ...] = ()
    """The instants that were indexed, in order of completion."""
    read_again: int = 0
    """File groups of which all keys were read, because files of their commits were gone, or commits were undone."""
    through: str | None = None
    """The index has all that completed up to then, what its own writers put in as well; None where nothing has."""
    is_tidied: bool = False
    """Something was settled, forgotten or merged."""


def update_index(
    storage: Storage,
    open_index: Callable[[TableSnapshot], WritableIndex],
    take: Callable[[], TableSnapshot],
    *,
    guard: Callable[[], None] = lambda: None,
    at_once: int = COMMITS_AT_ONCE,
) -> IndexUpdate:
    """Index what completed on the table as of now. One process at a time.

    Args:
        open_index: the index as of a snapshot, whose commits count in it.
        take: the table as it is now.
        guard: stops it by raising an error of Lakeward, between commits.
        at_once: commits that are looked at together.

    Raises `Refused`, `Unsupported` and `BrokenFile` where the keys of a commit cannot be known; what was indexed before
    stays. `TryLater` where cleans are always faster.
    """
    done: list[str] = []
    again = 0
    failed = 0
    while True:
        snapshot = take()
        index = open_index(snapshot)
        indexed = index.indexed()
        try:
            behind = commits_behind(storage, snapshot, indexed, number=at_once)
            reader = KeyReader(storage, snapshot)
            undone = known_undone(behind.commits, indexed)
            for chosen in choose_changes(behind.commits, TableFiles.of(snapshot), undone):
                guard()
                then = index if not _has_later(snapshot, indexed, chosen) else open_index(_before(snapshot, chosen))
                _index_commit(storage, index, then, reader, chosen)
                done.append(chosen.commit.instant)
                again += len(chosen.read_again)
        except NotFound as gone:
            failed += 1
            if failed == SNAPSHOTS:
                raise TryLater(
                    "The index is not up to date yet: files of the table go while they are read.",
                    why=str(gone),
                    remedy="Run the command again; what was indexed stays.",
                ) from gone
            continue
        if len(behind.commits) == behind.count:
            newest = newest_change(snapshot.timeline)
            through = [indexed for indexed in (index.indexed().through,) if indexed is not None]
            through += [] if newest is None else [newest.completed]
            return IndexUpdate(tuple(done), again, max(through, key=comparable_time, default=None))


def _has_later(snapshot: TableSnapshot, indexed: Indexed, chosen: CommitChanges) -> bool:
    """Whether the index has a commit that completed after this one."""
    return any(
        each.time in indexed.instants and is_before(chosen.commit.completed, each.completion_time or each.time)
        for each in snapshot.timeline.completed
    )


def _before(snapshot: TableSnapshot, chosen: CommitChanges) -> TableSnapshot:
    """The table, and the timeline as it was before the commit completed."""
    return replace(snapshot, timeline=snapshot.timeline.until(chosen.commit.completed))


def _index_commit(
    storage: Storage, index: WritableIndex, index_then: WritableIndex, reader: KeyReader, chosen: CommitChanges
) -> None:
    """
    Args:
        index_then: the index as of the moment before the commit completed.
    """
    commit = chosen.commit
    index.update(commit.instant, changes_to_apply(storage, index_then, reader, chosen), completed=commit.completed)
    for undone in sorted(commit.undone.instants if commit.undone is not None else ()):
        index.rollback(undone)


def changes_to_apply(
    storage: Storage, index: WritableIndex, reader: KeyReader, chosen: CommitChanges
) -> Iterator[pa.RecordBatch]:
    """The changes as an index takes them: without those that are none to it. While they are read, it is looked into."""

    def located(groups: frozenset[GroupId]) -> Iterator[pa.RecordBatch]:
        return _located_in(storage, index, groups)

    for batch in reader.changes(chosen, is_global=index.is_global, located=located):
        effective = _effective(storage, index, batch, chosen.commit.instant)
        if effective.num_rows:
            yield effective


def _located_in(storage: Storage, index: WritableIndex, groups: frozenset[GroupId]) -> Iterator[pa.RecordBatch]:
    """All that the index says of these file groups."""
    wanted = names_of(groups)
    for part in index.parts(sorted({path for path, _ in groups})):
        for batch in index.look_up(storage, part, None):
            found = batch.filter(pc.is_in(group_names(batch.column(PARTITION_PATH), batch.column(FILE_ID)), wanted))
            if found.num_rows:
                yield found


def _effective(storage: Storage, index: WritableIndex, changes: pa.RecordBatch, instant: str) -> pa.RecordBatch:
    """The changes as the index takes them: in `LOCATIONS`, without those that are none to it."""
    is_there = changes.column(IS_THERE)
    gone = changes.filter(pc.invert(is_there))
    if gone.num_rows:
        found = record_locations(storage, index, gone.column(RECORD_KEY), None)
        counts = pc.is_in(location_names(changes), pc.unique(location_names(found)))
        changes = changes.filter(pc.or_(is_there, counts))
        is_there = changes.column(IS_THERE)
    file_ids = pc.if_else(is_there, changes.column(FILE_ID), pa.scalar(None, pa.string()))
    columns = [changes.column(RECORD_KEY), changes.column(PARTITION_PATH), file_ids]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.repeat(pa.scalar(instant, pa.string()), changes.num_rows)], schema=LOCATIONS
    )

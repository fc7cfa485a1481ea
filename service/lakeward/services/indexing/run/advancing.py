"""An index of Lakeward of a table of version 6 brought up to date: all that happened to the table since, as one commit
of it.

    snapshot -> what completed and was not seen (`index/key_changes/unseen_commits`) -> the file groups that are read
             again (`unseen_changes`) -> their keys -> `OwnIndex.advance`, with the timeline that is seen by now

*Stopped anywhere*, the index is what it was, or has all of it: what it has seen comes with the keys.

What it takes in is settled at once: no commit of its own is undone when one of the table is, but what a rollback took
away is read again. Its commits are newer one than the other, whatever the instants of the table's.

Touches: the index; the table, reading.
Keeps:   1. stopped at any call, the next update makes the same index;
         2. a table that was upgraded is followed by its commits from the next update on, and none is passed over.
See:     docs/decisions/0075-an-index-follows-its-table.md
"""

from __future__ import annotations

from collections.abc import Callable

from lakeward.base.errors import NotFound, TryLater
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.index import OwnIndex
from lakeward.index.key_changes.group_changes import TableFiles
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.table_commits import TableCommit, newest_change
from lakeward.index.key_changes.unseen_changes import changes_since
from lakeward.index.key_changes.unseen_commits import seen_by, seen_of, unseen_commits
from lakeward.index.seen_timeline import SeenTimeline
from lakeward.services.indexing.run.index_update import IndexUpdate, told_changes
from lakeward.services.indexing.run.staying_files import while_files_stay
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def advance_index(
    storage: Storage, open_index: Callable[[TableSnapshot], OwnIndex], take: Callable[[], TableSnapshot]
) -> IndexUpdate | None:
    """Take in what happened to the table. One process at a time. None of an index that follows the table's commits.

    Raises `Refused`, `Unsupported` and `BrokenFile` where that cannot be known; `TryLater` where cleans are always
    faster.
    """

    def advance(snapshot: TableSnapshot) -> IndexUpdate | None:
        index = open_index(snapshot)
        seen = seen_by(snapshot, index.indexed())
        return None if seen is None else _advance(storage, index, snapshot, seen)

    def not_advanced(gone: NotFound) -> TryLater:
        return TryLater(
            "The index is not up to date yet: files of the table go while they are read.",
            why=str(gone),
            remedy="Run the command again.",
        )

    return while_files_stay(advance, take, or_else=not_advanced)


def _advance(storage: Storage, index: OwnIndex, snapshot: TableSnapshot, seen: SeenTimeline) -> IndexUpdate:
    unseen, now = unseen_commits(storage, snapshot, seen), seen_of(snapshot)
    through = index.indexed().through
    newest = newest_change(snapshot.timeline)
    if now == seen or newest is None:
        return IndexUpdate(through=through)
    instant = unseen.commits[-1].instant if unseen.commits else newest.instant
    completed = newest.completed
    if through is not None and not is_before(through, completed):
        completed = str(int(comparable_time(through)) + 1)
    stands_for = TableCommit(instant, completed, "")
    chosen = changes_since(snapshot, TableFiles.of(snapshot), unseen, seen, stands_for)
    changes = told_changes(storage, index, KeyReader(storage, snapshot), chosen)
    index.advance(instant, changes, completed=completed, seen=now)
    return IndexUpdate(tuple(commit.instant for commit in unseen.commits), len(chosen.anew), completed)

"""What is read of a table of version 6 for all that an index has not seen: file groups again, all at once.

What one commit did to keys cannot be known there, for its writes share log files. What all of them did is shown by the
newest slices of the file groups that they wrote to.

    a commit                                 what it wrote to
    a rollback or a restore of               nothing
      what was not seen
    what was seen may be undone              all live file groups: a rollback does not say of which logs it took
                                             something back, nor a restore which groups it brought back

Readers take what is older than the first completed write for completed, so that archiving brings back what a write left
that failed, and that no rollback found:

    t1 a write dies, and a rollback misses its block in a log; t2 an index is built, without it; t3 the commits around
    t1 are archived: to Hudi's readers and Lakeward's the block counts from now on

So whenever the first completed write is another one, slices with logs that are older than it are read again, too.

Touches: nothing.
Keeps:   a file group that is not read again has the keys that it had when the index saw it.
"""

from __future__ import annotations

from lakeward.format.timeline.instant import is_before
from lakeward.index.key_changes.group_changes import CommitChanges, ReadAnew, TableFiles, check_not_frozen
from lakeward.index.key_changes.table_commits import TableCommit
from lakeward.index.key_changes.unseen_commits import UnseenCommits, seen_of
from lakeward.index.seen_timeline import SeenTimeline
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


def changes_since(
    snapshot: TableSnapshot, table: TableFiles, unseen: UnseenCommits, seen: SeenTimeline, newest: TableCommit
) -> CommitChanges:
    """What is read for these commits, as one. Raises `Refused` where a file group is touched whose slices are not
    known.

    Args:
        newest: stands for all of them.
    """
    groups = table.live
    if not unseen.is_all:
        groups = frozenset(group for commit in unseen.commits for group in commit.groups)
        groups |= _brought_back(snapshot, table, unseen, seen)
    for group in sorted(groups):
        check_not_frozen(group, table)
    there = sorted(groups & table.newest.keys())
    return CommitChanges(newest, tuple(ReadAnew(group, table.newest[group]) for group in there))


def _brought_back(
    snapshot: TableSnapshot, table: TableFiles, unseen: UnseenCommits, seen: SeenTimeline
) -> frozenset[GroupId]:
    """File groups of which readers may count more since the timeline begins with another write."""
    now = seen_of(snapshot)
    if now is None:
        return frozenset()
    known = seen.writes | {commit.instant for commit in unseen.commits}

    def is_new(file_group: GroupId) -> bool:
        slice_ = table.newest[file_group]
        base = slice_.base_file
        if slice_.row_logs and _has_passed(slice_.base_instant, seen.counts_before, now.counts_before):
            return True
        return (
            base is not None
            and base.instant not in known
            and _has_passed(base.instant, seen.start, now.start)
            and not is_before(base.instant, seen.start or "")
        )

    return frozenset(filter(is_new, table.newest))


def _has_passed(instant: str, before: str | None, now: str | None) -> bool:
    """Whether the timeline begins behind this instant by now, with another write than before."""
    return now is not None and now != before and is_before(instant, now)

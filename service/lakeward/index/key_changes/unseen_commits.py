"""Which commits of a table of version 6 an index has not seen: by their instants alone, since its timeline, of layout
1, does not say in which order they completed.

    on the timeline, and not seen    it is one
    archived, and not seen           it is one: the archive says what it said
    seen, and on it no more          it is in the archive; or a rollback or a restore undid it, or is about to, or the
                                     timeline is not what it was: then the index has nothing that can be relied on

A restore takes rollbacks from the timeline, and says nothing of them, so that a write that was rolled back may be gone
without a word.

A table that was upgraded since goes on so once more, for its indexes; then they follow its commits one by one.

Touches: storage, reading: the timeline's files of these commits, and what was archived.
Keeps:   1. no completed instant is passed over, in whichever order they completed and wherever they are by now;
         2. where what was seen may be undone, nothing that the index has is relied on;
         3. an index that followed the commits of a table is refused once that is of version 6.
Memory:  what the commits say that are not indexed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.format.timeline.rollback_metadata import UndoneInstants
from lakeward.index.index import Indexed
from lakeward.index.key_changes.table_commits import (
    CHANGING,
    CommitsBehind,
    Staleness,
    TableCommit,
    check_can_be_followed,
    read_table_commit,
    staleness,
    staleness_of,
    told_by,
)
from lakeward.index.seen_timeline import SeenTimeline
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived_entries import ArchivedEntry
from lakeward.table.timeline.archived_log import load_entries_since
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import WRITE_ACTIONS

NOTHING_SEEN = SeenTimeline()


def seen_of(snapshot: TableSnapshot) -> SeenTimeline | None:
    """What an index has seen that is as of this snapshot; None for a table whose timeline has completion times."""
    if snapshot.config.layout >= 2:
        return None
    timeline = snapshot.timeline
    assert snapshot.archive_end is not None, "it was scanned for this"
    return SeenTimeline(
        frozenset(each.time for each in timeline.completed_writes),
        frozenset(each.time for each in timeline.completed if each.comparable_action in CHANGING - WRITE_ACTIONS),
        timeline.first_write,
        min((each.time for each in timeline.completed_writes), key=comparable_time, default=None),
        snapshot.archive_end,
    )


def seen_by(snapshot: TableSnapshot, indexed: Indexed) -> SeenTimeline | None:
    """What the index has seen, of one that goes on by that; None of one that follows commits. Raises `Refused` where
    the table is of version 6 and it is not known what of it the index has."""
    if indexed.seen is not None:
        return indexed.seen
    if snapshot.config.layout >= 2:
        return None
    if indexed == Indexed():
        return NOTHING_SEEN
    raise Refused(
        "The index cannot follow the table any more.",
        why=f"It followed its commits one by one, which the timeline of version {snapshot.config.version.number} does "
        "not show.",
        remedy="Build it again (`lakeward index rebuild`).",
    )


def index_staleness(storage: Storage, snapshot: TableSnapshot, indexed: Indexed, *, clock: Clock) -> Staleness:
    """How far the index is behind, as of the snapshot. Raises what `commits_behind` and `unseen_commits` do."""
    seen = seen_by(snapshot, indexed)
    if seen is None:
        return staleness(storage, snapshot, indexed, clock=clock)
    commits = unseen_commits(storage, snapshot, seen).commits
    return staleness_of(snapshot, CommitsBehind(commits, len(commits)), clock=clock)


@dataclass(frozen=True, slots=True)
class UnseenCommits:
    commits: tuple[TableCommit, ...]
    """In the order in which they began."""
    is_all: bool = False
    """What was seen may be undone, or is not known."""


def unseen_commits(storage: Storage, snapshot: TableSnapshot, seen: SeenTimeline) -> UnseenCommits:
    """What completed and was not seen. Raises `Refused` and `Unsupported` for a table that no index of Lakeward can be
    of, `BrokenFile`, and `NotFound` where an archiver was faster."""
    check_can_be_followed(snapshot)
    timeline = snapshot.timeline
    active = {each.time: each for each in timeline.completed if each.comparable_action in CHANGING}
    contents = InstantContents(storage, snapshot.base_path, snapshot.config, timeline)
    commits: list[TableCommit] = []
    for time, instant in active.items():
        if not seen.has(time):
            where = join(timeline_folder(snapshot.base_path, snapshot.config), instant.file_name)
            data = contents.read(instant.file_name)
            commits.append(
                read_table_commit(snapshot, time, instant.completion_time or time, instant.action, data, where)
            )
    archived: set[str] = set()
    for entry in _archived(storage, snapshot, seen):
        if not seen.has(entry.time) and entry.time not in active and entry.time not in archived:
            commits.append(_archived_commit(snapshot, entry))
        archived.add(entry.time)
    commits.sort(key=lambda each: comparable_time(each.instant))
    undone = {time for commit in commits if commit.undone is not None for time in commit.undone.instants}
    is_whole = timeline.first_write == timeline.first_active_write == seen.start
    may_lack = snapshot.config.layout >= 2 and not is_whole
    is_undone = not seen.writes.isdisjoint(undone) or not seen.writes <= active.keys() | archived
    return UnseenCommits(tuple(commits), seen == NOTHING_SEEN or may_lack or is_undone)


def _archived(storage: Storage, snapshot: TableSnapshot, seen: SeenTimeline) -> Iterator[ArchivedEntry]:
    """What was archived since, and is no older than what was on the timeline. What happens to an archive of layout 1
    when the table is upgraded is not known here."""
    if seen == NOTHING_SEEN or snapshot.config.layout >= 2:
        return
    for entry in load_entries_since(storage, snapshot.base_path, snapshot.config, seen.archive):
        if entry.action in CHANGING and (seen.start is None or not is_before(entry.time, seen.start)):
            yield entry


def _archived_commit(snapshot: TableSnapshot, entry: ArchivedEntry) -> TableCommit:
    if entry.action in WRITE_ACTIONS:
        return told_by(entry.commit_metadata(), snapshot, entry.time, entry.time, entry.action)
    undone = UndoneInstants(dict.fromkeys(entry.rolled_back(), ""), frozenset())
    return TableCommit(entry.time, entry.time, entry.action, undone=undone)

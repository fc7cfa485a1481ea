"""Rows that commits of a window wrote: what Hudi's incremental query gives.

    commits that completed after `since`, up to `until`    -> the files that they wrote
    of each file group the newest slice of these files     -> merged, rows that one of the commits wrote last

So a row that was overwritten within the window comes once, a deleted one not at all, and a row whose ordering value
lost against one from before the window comes nevertheless: what lies before is not read. Commits of the window may also
have replaced groups: rows of these do not come. In tables of version 6 commits are compared by when they were
requested, since no name there says when they completed.

Touches: `read_window` the table, reading only: completed commits of the window, and the history.
Keeps:   1. the rows are those of Hudi's incremental query by its default settings, where that does not leave commits
            out;
         2. a window whose commits were archived, or whose files are gone, is refused with the earliest beginning that
            can be read, and so is one that ends behind a pending write of version 6;
         3. windows one after the other, each from the end of the one before, have each commit once.
Source:  IncrementalQueryAnalyzer, MergeOnReadIncrementalRelationV1 and V2 (Hudi 1.2.0)
See:     docs/decisions/0123-moments-of-a-table.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Final

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Refused, UsageError
from lakeward.format.timeline.instant import (
    Instant,
    comparable_time,
    format_instant_time,
    is_before,
    parse_instant_time,
)
from lakeward.scan.moment import When, parse_when
from lakeward.scan.past_snapshot import check_whole
from lakeward.scan.scan_plan import WindowCommits
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import PartitionFiles, build_file_groups
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.archived import history_folder, load_archived_commits
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.table.timeline.timezone import EASTERNMOST
from lakeward.table.written_files import WrittenBy

EARLIEST: Final = "earliest"
"""The beginning of a window that has all commits up to its end."""
BEFORE_ALL: Final = "0" * 17
AFTER_ALL: Final = "9" * 17


def read_window(
    storage: Storage, snapshot: TableSnapshot, since: When, until: When | None = None, *, clock: Clock
) -> tuple[TableSnapshot, WindowCommits]:
    """The slices that the commits of a window wrote, and nothing else; and the commits. Raises `UsageError`, `Refused`
    and `BrokenFile`.

    Args:
        since: commits that completed after it; `earliest` for all.
        until: commits that completed up to it, too; None for all.
    """
    config, timeline, now = snapshot.config, snapshot.timeline, clock.now()
    if not config.populate_meta_fields:
        raise Refused(
            f"{snapshot.base_path} cannot be read incrementally: its rows do not say which commit wrote them.",
            why="The table is written without meta columns (hoodie.populate.meta.fields=false).",
            remedy="Compare two moments: --as-of with --diff.",
        )
    is_earliest = isinstance(since, str) and since.strip().lower() == EARLIEST
    begin = BEFORE_ALL if is_earliest else parse_when(since, snapshot.zone, now=now).instant
    end = AFTER_ALL if until is None else parse_when(until, snapshot.zone, now=now).instant
    if is_before(end, begin):
        raise UsageError(f"The window ends before it begins: {until} is before {since}.", remedy="Exchange the two.")
    newest = format_instant_time(int(now * 1000), snapshot.zone.zone or EASTERNMOST)
    latest = timeline.latest_time or newest
    if is_before(max(newest, comparable_time(latest)), begin):
        raise UsageError(f"{since} is yet to come.", why=f"The newest instant is {latest}.", remedy="Begin earlier.")
    _check_archived(begin, since, newest_archived(storage, snapshot, begin))
    commits = commits_between(timeline, begin, end)
    if config.layout == 1:
        _check_pending(commits, timeline)
    given = None if is_earliest else begin
    reader = TimelineReader(storage, snapshot.base_path, config, timeline)
    written = tuple(reader.written_files(of=commits))
    if broken := sorted({each.time for each in commits} - {each.instant for each in written}):
        raise BrokenFile(
            f"Commit {broken[0]} cannot be read.",
            why="It says which files the rows of the window are in.",
            remedy="If an archiver took it meanwhile, read again.",
        )
    if not commits:
        return replace(snapshot, file_groups=(), frozen=(), read_until=begin), WindowCommits(frozenset(), given)
    last = commits[-1].time
    window = window_snapshot(snapshot, written, last)
    check_whole(window, written, timeline, what=f"The commits since {since} cannot be read")
    return window, WindowCommits(frozenset(each.time for each in commits), max(map(completed_at, commits)))


def check_options(*, as_of: bool, read_optimized: bool) -> None:
    """Raises `UsageError` for what an incremental read does not go with."""
    if as_of:
        raise UsageError("A window is not read as of a moment.", remedy="End it with until.")
    if read_optimized:
        raise UsageError(
            "An incremental read takes base files and logs.",
            why="Rows that a compaction brings into base files were written by commits before it.",
            remedy="Leave read-optimized out.",
        )


def completed_at(instant: Instant) -> str:
    """When it completed; in version 6 when it was requested."""
    return comparable_time(instant.completion_time or instant.time)


def commits_between(timeline: Timeline, begin: str, end: str) -> tuple[Instant, ...]:
    """The completed writes after `begin`, up to `end`, in the order in which they were requested."""
    return tuple(each for each in timeline.completed_writes if begin < completed_at(each) <= end)


def window_snapshot(snapshot: TableSnapshot, written: Iterable[WrittenBy], last: str) -> TableSnapshot:
    """The table with the files of these commits alone, as of the last of them."""
    paths = {path for by in written for named in by.files.values() for path in named}
    view = build_file_groups(
        [_among(partition, paths) for partition in snapshot.files],
        snapshot.timeline,
        layout=snapshot.config.layout,
        archived={},
        pending_compactions=snapshot.pending_compactions,
        replaced={group: at for group, at in snapshot.replaced.items() if not is_before(last, at)},
    )
    groups = [
        replace(group, slices=tuple(each for each in group.slices if not is_before(last, each.base_instant)))
        for group in view.groups
    ]
    return replace(
        snapshot,
        file_groups=tuple(group for group in groups if group.slices),
        frozen=view.frozen,
        read_until=last,
    )


def _among(files: PartitionFiles, paths: set[str]) -> PartitionFiles:
    return replace(
        files,
        base_files=tuple(base for base in files.base_files if base.path in paths),
        log_files=tuple(log for log in files.log_files if log.path in paths),
    )


def newest_archived(storage: Storage, snapshot: TableSnapshot, begin: str) -> str | None:
    """When the last commit completed that completed after `begin` and was archived; None where none was. Raises
    `BrokenFile`."""
    config, base_path, timeline = snapshot.config, snapshot.base_path, snapshot.timeline
    if all(entry.name.endswith(".crc") for entry in storage.list(history_folder(base_path, config))):
        return None
    if config.layout == 1:  # the history of version 6 is not read: what is just before the first commit that is left
        start = timeline.first_active_write
        return None if start is None else format_instant_time(parse_instant_time(start, UTC) - 1, UTC)
    try:
        return load_archived_commits(
            storage,
            base_path,
            config,
            lambda time, completed: is_before(begin, completed),
            actions=WRITE_ACTIONS,
            number=0,
            after=begin,
        ).newest
    except BrokenFile as error:
        raise BrokenFile("The history of the table cannot be read.", why=str(error)) from error


def _check_archived(begin: str, since: When, newest: str | None) -> None:
    if newest is not None and is_before(begin, newest):
        raise Refused(
            f"The commits since {since} cannot be read: the earliest beginning is {newest}.",
            why="Commits after it were archived.",
            remedy=f"Read the whole table once, and go on from there; since {newest} the commits are there.",
        )


def _check_pending(commits: Sequence[Instant], timeline: Timeline) -> None:
    """In version 6 a write that completes late is before others that were read, and would never come."""
    for pending in timeline.pending:
        if pending.action in WRITE_ACTIONS and commits and is_before(pending.time, commits[-1].time):
            before = [each.time for each in commits if is_before(each.time, pending.time)]
            raise Refused(
                f"Commits after {pending.time} cannot be read incrementally yet: it is pending.",
                why="In a table of version 6 it comes before them, and who goes on from the end would miss its rows.",
                remedy=f"Read until {before[-1]}, or wait." if before else "Wait until it is completed or rolled back.",
            )

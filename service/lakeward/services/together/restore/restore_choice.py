"""Choose what a restore rolls back, and whether the table can go back at all: a timeline in, instants in order out.

What is after the commit that the table goes back to (T), as Hudi 1.2 has it:

    pending, but for a compaction     after T, whenever it was requested
    completed                         after T if it completed after T did
    a compaction on MERGE_ON_READ     after T if it was requested after T, pending or completed: what completes after
                                      its request lies in the slice that it opens, and it merges nothing later

The pending ones go first, clusterings before others, then the completed ones, the last to complete first. So at each
moment readers see the table as it once was.

What is not rolled back, and stands in the way:

    a savepoint of an instant after T      Hudi would fail half-way; it must be deleted first
    a pending rollback, a pending indexing what began it ends it first
    what cleans deleted since T            unless the quarantine has it, and an undo brings it back first
    another layout since T                 files that are not of the layout would be the table's newest ones again

Touches: nothing.
Keeps:   1. what is after T goes, and what completed before T stays, whichever was requested first;
         2. a restore after which a file would be missing is refused;
         3. cleans are undone from the newest on, no more of them than it takes, and none where that is not enough.
Source:  RestorePlanActionExecutor, RestoreInstantComparatorFactory, BaseRollbackActionExecutor (Hudi 1.2).
See:     docs/decisions/0035-restore.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lakeward.base.errors import Refused, UsageError
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import Instant, State, comparable_time, is_before
from lakeward.services.clean.plan.undo_plan import UndoPlan
from lakeward.services.savepoint.savepoint_plan import why_cleaned, why_file_gone
from lakeward.table.file_system_view import FileSystemView, GroupId
from lakeward.table.timeline.cleans import Clean, not_undone
from lakeward.table.timeline.savepoints import Savepoint
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_COMPACTION = frozenset({"compaction", "commit"})
_CLUSTERING = "clustering"
_LAST = "9" * 17
"""An instant after all others: of an undo that is still to come."""


def find_target(timeline: Timeline, target: str) -> Instant:
    """The completed commit that is named. Raises `UsageError`."""
    found = timeline.find_write(target)
    if found is None or found.state is not State.COMPLETED:
        state = "not on the active timeline" if found is None else f"{found.state.value}, not completed"
        raise UsageError(
            f"The table cannot go back to {target}.",
            why=f"It goes back to a completed commit, delta commit or replace commit; this one is {state}.",
            remedy="`lakeward inspect` shows the commits, `lakeward savepoint list` those that have a savepoint.",
        )
    return found


def find_later(timeline: Timeline, target: Instant, *, merge_on_read: bool) -> tuple[Instant, ...]:
    """What a restore to `target` rolls back, in its furthest state, in order."""
    pending = [
        each
        for each in timeline.pending
        if each.comparable_action in WRITE_ACTIONS and _is_later(each, target, merge_on_read=merge_on_read)
    ]
    completed = [each for each in timeline.completed_writes if _is_later(each, target, merge_on_read=merge_on_read)]
    pending.sort(key=lambda each: comparable_time(each.time), reverse=True)
    pending.sort(key=lambda each: each.action != _CLUSTERING)
    completed.sort(key=_completed_at, reverse=True)
    return (*pending, *completed)


def check_nothing_in_the_way(timeline: Timeline, target: str, later: Iterable[Instant]) -> None:
    """Raises `Refused` for what on the timeline must be ended first."""
    gone = {each.time for each in later}
    if pinned := sorted(gone & timeline.savepoints):
        raise Refused(
            f"The table cannot go back to {target}: {pinned[-1]} is later, and has a savepoint.",
            why="A commit that has a savepoint is not rolled back.",
            remedy=f"Delete it first: lakeward savepoint delete TABLE {pinned[-1]}.",
        )
    for each in timeline.pending:
        if each.action == "rollback":
            raise Refused(
                f"The table cannot go back to {target}: rollback {each.time} is pending.",
                why="It is of a write that failed, and was interrupted itself.",
                remedy="End it first: lakeward rollback TABLE --writers stopped.",
            )


def check_layout(target: str, later: Iterable[Instant], since: str) -> None:
    """Raises `Refused` where what would be rolled back is part of what became a table of the layout `lsm_tree`.

    Args:
        since: the newest time on the timeline when it did; empty where it was made so, or is not of the layout.
    """
    if since and any(not is_before(since, each.time) for each in later):
        raise Refused(
            f"The table cannot go back to {target}: it has the layout lsm_tree since.",
            why="Its files as of that commit may be out of order, with logs that readers of the layout do not know.",
            remedy="Run `lakeward table convert --layout default` first, and with `--layout lsm_tree` after it.",
        )


def check_readable(
    target: Instant,
    gone: Collection[str],
    after: FileSystemView,
    replaced: Mapping[GroupId, str],
    cleans: Iterable[Clean],
    savepoint: Savepoint | None,
    names: Mapping[str, Collection[str]],
    timeline: Timeline,
    *,
    native: bool,
) -> None:
    """Whether all files of the table as of `target` are still there. Raises `Refused`.

    Args:
        gone: the instants that would be rolled back.
        after: the table's file groups without these.
        cleans: also those that are pending, by the names that they planned and that are gone.
        savepoint: the one of the target.
        names: all data files, by partition path.
        native: the table's version has native logs.
    """
    if after.frozen:
        group = after.frozen[0]
        raise _unreadable(target, f"{group.partition_path or '(none)'}/{group.file_id}: {group.why}")
    cleans = tuple(cleans)
    if savepoint is None:
        if (why := why_cleaned(target.time, cleans)) is not None:
            raise _unreadable(target, why)
    else:
        # It kept its files whatever the cleans say of their window.
        cleans = tuple(replace(each, earliest_retained="") for each in cleans)
        for path, kept in savepoint.files.items():
            missing = sorted(n for n in kept - set(names.get(path, ())) if _stays(n, timeline, gone, native=native))
            if missing:
                raise _unreadable(target, f"Its savepoint names {path}/{missing[0]}, which is gone")
    still_replaced = {group: at for group, at in replaced.items() if at not in gone}
    if (why := why_file_gone(after.groups, still_replaced, target.time, cleans, native=native)) is not None:
        raise _unreadable(target, why)
    for path, found in names.items():
        for name in found:
            parsed = parse_any_data_file(name, native=native)
            if parsed is not None and is_before(target.time, parsed.instant) and timeline.is_archived(parsed.instant):
                raise _unreadable(target, f"{parsed.instant}, which wrote {path}/{name} after it, is archived already")


def _stays(name: str, timeline: Timeline, gone: Collection[str], *, native: bool) -> bool:
    """Whether what wrote the file counts after the restore. A savepoint names logs of later commits too, and those that
    an earlier restore to it rolled back are gone from the timeline, rightly with their files."""
    parsed = parse_any_data_file(name, native=native)
    if parsed is None or timeline.is_archived(parsed.instant):
        return True
    found = timeline.find_write(parsed.instant)
    return found is not None and found.state is State.COMPLETED and found.time not in gone


def choose_undos(
    target: Instant,
    cleans: Sequence[Clean],
    *,
    undo: Callable[[str, Sequence[Clean]], UndoPlan],
    check: Callable[[Sequence[Clean], Sequence[UndoPlan]], None],
) -> tuple[UndoPlan, ...]:
    """The cleans that must be undone before the table can go back, in that order. Raises `Refused`.

    Args:
        cleans: all that took something away, and those that undid them, oldest first.
        undo: what undoing a clean brings back, given the cleans that there are by then; raises where it cannot be.
        check: raises `Refused` where a file is missing, given the cleans, and what those before brought back.
    """
    then, undos = list(cleans), list[UndoPlan]()
    try:
        check(then, undos)
        return ()
    except Refused as error:
        missing = error
    for clean in reversed(not_undone(cleans)):
        if is_before(clean.instant, target.time):
            break
        if not any(clean.deleted.values()):
            continue
        try:
            undos.append(undo(clean.instant, then))
        except (Refused, UsageError) as error:
            raise Refused(
                missing.what,
                why=f"{missing.why} Clean {clean.instant} took files away since, and cannot be undone: {error.why}",
                remedy=missing.remedy,
            ) from error
        then.append(Clean(_LAST, True, undos[-1].earliest.time, undoes=clean.instant))
        try:
            check(then, undos)
            return tuple(undos)
        except Refused:
            continue
    raise missing


def _is_later(instant: Instant, target: Instant, *, merge_on_read: bool) -> bool:
    if merge_on_read and instant.action in _COMPACTION:
        return is_before(target.time, instant.time)
    return instant.state is not State.COMPLETED or _completed_at(instant) > _completed_at(target)


def _completed_at(instant: Instant) -> tuple[str, str]:
    return comparable_time(instant.completion_time or instant.time), comparable_time(instant.time)


def _unreadable(target: Instant, why: str) -> Refused:
    return Refused(
        f"The table cannot go back to {target.time}: not all of its files are there any more.",
        why=f"{why.rstrip('.')}.",
        remedy="Choose a later commit. A savepoint keeps the files of a commit from cleans; for a while, so does "
        "`lakeward clean --keep-deleted`.",
    )

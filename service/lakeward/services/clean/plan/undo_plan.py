"""Whether a clean can be undone, and what the table can be read as of afterwards.

An undo is a clean of its own that deletes nothing: completed, it is the last one on the timeline, and what it names as
earliest instant is what the clean before the undone one named. Hudi's next clean looks at everything that was written
since then, and Hudi's archiver keeps the replacecommits since then, as if the undone clean had never been. No completed
instant changes.

    t1 clean A keeps what is read as of 10; t2 clean B keeps what is read as of 20, and is undone by t3, which says 10

Files of a replaced group whose replacecommit is archived, or may be, stay away: they would be read again.

Touches: nothing.
Keeps:   1. a clean is undone only while no later one took anything away, and no restore came since;
         2. nothing comes back whose commit is not completed any more, and no replaced file without its replacecommit;
         3. the earliest instant is never one before which an earlier clean took something away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.base.errors import Refused, UsageError
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.clean_plan import Retained
from lakeward.format.timeline.instant import State, is_before
from lakeward.table.quarantine import QuarantinedFile, QuarantinedRun
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class UndoPlan:
    run: str
    """The instant of the clean that is undone."""
    files: tuple[QuarantinedFile, ...]
    """What comes back."""
    earliest: Retained
    """The instant as of which, and after which, everything can be read then."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Paths of files that stay away, each with the reason."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def plan_undo(
    instant: str,
    timeline: Timeline,
    cleans: Sequence[Clean],
    run: QuarantinedRun | None,
    *,
    missing: Collection[str] = (),
    partitions_gone: Collection[str] = (),
    native: bool = False,
) -> UndoPlan:
    """What undoing the clean of this instant brings back. Raises `Refused`, `UsageError`.

    Args:
        cleans: those on the timeline.
        run: what the quarantine has of it.
        missing: paths of its files that are nowhere.
        partitions_gone: partition paths of its files that are no partitions any more.
        native: the table's version has native logs; in another one none comes back.
    """
    _check_on_timeline(instant, timeline, cleans)
    _check_latest(instant, timeline, cleans)
    if run is None or not run.manifests:
        raise _refused(
            instant,
            "Its files are gone: they were deleted at once, or have been purged since.",
            "Only what `lakeward clean --keep-deleted` took away can be brought back, for as long as was said.",
        )
    if run.problem is not None:
        raise _refused(instant, run.problem, "Mend the manifest, or move the files by hand.")
    if run.is_purging:
        raise _refused(instant, "Its quarantine is being purged.", "Nothing of it comes back.")
    if missing:
        raise _refused(
            instant,
            f"{len(missing)} of its {len(run.files)} files are nowhere any more, {min(missing)} for one; another "
            "engine's clean, or a person, deleted them.",
            "What is left lies in the quarantine, by its paths in the table.",
        )
    if partitions_gone:
        raise _refused(
            instant,
            f"{min(partitions_gone) or 'The table'} is no partition any more: Hudi removed it.",
            "Write a row into it first, then it is one again.",
        )
    for file in run.files:
        parsed = parse_any_data_file(file.name, native=native)
        if parsed is None or not (timeline.completion_time(parsed.instant) or timeline.is_archived(parsed.instant)):
            raise _refused(
                instant,
                f"{file.path} is of a commit that was rolled back since.",
                "Nothing was brought back; its rows are not of the table any more.",
            )
    earliest = _earliest(instant, timeline, cleans)
    left = {
        file.path: f"its file group was replaced by {file.replaced_by}, which is archived or may be"
        for file in run.files
        if file.replaced_by is not None
        and (timeline.completion_time(file.replaced_by) is None or is_before(file.replaced_by, earliest.time))
    }
    files = tuple(file for file in run.files if file.path not in left)
    if not files:
        raise _refused(instant, f"None of its files may come back: {next(iter(left.values()), 'it has none')}.", "")
    return UndoPlan(instant, files, earliest, left)


def _check_on_timeline(instant: str, timeline: Timeline, cleans: Sequence[Clean]) -> None:
    clean = next((each for each in cleans if each.instant == instant), None)
    if clean is None:
        if timeline.is_archived(instant):
            raise _refused(instant, "It is not on the active timeline any more.", "An archived clean cannot be undone.")
        raise UsageError(
            f"There is no clean {instant} on the timeline.",
            remedy="`lakeward quarantine list` shows the cleans whose files are still there.",
        )
    if not clean.is_completed:
        raise _refused(instant, "It is pending.", "`lakeward clean` ends it.")
    if (undo := _undone(cleans).get(instant)) is not None:
        raise UsageError(f"Clean {instant} is undone already.", why=f"By {undo}.")


def _check_latest(instant: str, timeline: Timeline, cleans: Sequence[Clean]) -> None:
    undone = _undone(cleans)
    for clean in cleans:
        takes = not clean.is_completed or any(clean.deleted.values())
        if takes and clean.instant not in undone and is_before(instant, clean.instant):
            raise _refused(
                instant,
                f"Clean {clean.instant} came after it, and took away what reads before it need as well.",
                f"Undo {clean.instant} first, if its files are still there.",
            )
    for each in timeline.instants:
        if each.action == "restore" and is_before(instant, each.time):
            raise _refused(
                instant,
                f"Restore {each.time} came after it.",
                "What the table was before that is gone, and its old files with it.",
            )


def _undone(cleans: Sequence[Clean]) -> dict[str, str]:
    """The instant of the undo, by that of the undone clean."""
    return {clean.undoes: clean.instant for clean in cleans if clean.undoes is not None}


def _earliest(instant: str, timeline: Timeline, cleans: Sequence[Clean]) -> Retained:
    undone = _undone(cleans)
    before = [
        clean.earliest_retained
        for clean in cleans
        if clean.is_completed and is_before(clean.instant, instant) and clean.instant not in undone
    ]
    # Where none is left on the active timeline, those that were archived kept less than what it starts with.
    time = (before[-1] if before else "") or timeline.completed_writes[0].time
    write = timeline.find_write(time)
    action = write.comparable_action if write is not None else "commit"
    return Retained(time, action, State.COMPLETED.name)


def _refused(instant: str, why: str, remedy: str) -> Refused:
    return Refused(f"Clean {instant} cannot be undone.", why=why, remedy=remedy)

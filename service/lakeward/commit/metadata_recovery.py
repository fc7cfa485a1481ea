"""Take back what an attempt at an instant left in the metadata table: files of the instant, as if none had been there.

    completed file -> log files that carry the instant -> .inflight -> .requested

Whoever asks holds the table lock, knows that the data table's instant is pending, and that nobody can publish it any
more. As long as it is pending, nothing of the same instant counts in the metadata table (`table/metadata_table.py`), so
readers see no difference between any two steps, nor after the last one. Stopped anywhere in between, there is still a
file of the instant on the timeline, by which the next one who asks knows that there is something to do: log files are
moved in only behind `.inflight`, and taken away before it. But once the data table's instant is gone, what is complete
in the metadata table counts: so this comes *before* a plan is unscheduled.

Hudi leaves a rollback on both timelines instead. We write none: it would be of an instant of which nothing is left,
and one on the data table's timeline would make what the next attempt writes here count before its commit does.

    t0 A lists what is to be deleted and is stopped; t1 B takes over and publishes; t2 A wakes, and must delete nothing.

So the lock is proved once more between the listing and the first deletion. Nobody but the attempt that wrote them has
log files and a completed file of these names. But every attempt at the instant has an `.inflight` and a `.requested`:

    t0 A has proved its lock and is stopped before it deletes `.inflight`; t1 B takes over and is about to publish, its
    log files are in; t2 A wakes and deletes B's `.inflight` and `.requested`; t3 B dies. Its log files stay, nothing on
    the timeline says so, and with the commit of the next attempt at the same instant they count, B's files and all.

So in a file system the two leave the timeline as an attempt's files come onto it: they are renamed, into a folder that
B renames away before it begins (`commit/attempt.py`). In an object store the lock is proved a third time; there B has
announced what it writes, and it is created again by whoever finishes it (`commit/announced.py`).

Touches: files of one instant in the metadata table; no file of another one, whoever wrote it.
Keeps:   1. nothing is deleted while the lock is not proved since the listing;
         2. what a compaction of the metadata table has merged already is not taken back, but is an error;
         3. in a file system nothing of an attempt that began since is taken away.
See:     docs/decisions/0013-undoing-in-the-metadata-table.md
"""

from __future__ import annotations

from collections.abc import Callable

from lakeward.clock import Clock
from lakeward.commit.attempt import undoing_folder
from lakeward.commit.transition import MetadataAction, TimelineFiles
from lakeward.errors import AttemptLost, Conflict, NotATable, NotFound
from lakeward.format.file_name import parse_log_file
from lakeward.format.instant import State, comparable_time
from lakeward.format.rollback_metadata import read_rollback_plan
from lakeward.storage.storage import RenamingStorage, Storage, delete_all, join
from lakeward.table.metadata_table import latest_compaction, metadata_base_path
from lakeward.table.table_config import HOODIE_FOLDER, load_table_config, timeline_folder
from lakeward.table.timeline import Timeline, load_timeline


def take_back_metadata(
    storage: Storage, base_path: str, instant: str, *, by: int, clock: Clock, fence: Callable[[], None]
) -> bool:
    """Remove what is of `instant`. False where nothing was. Idempotent.

    Raises:
        Conflict: it must stay.
        AttemptLost: somebody else began an attempt at the instant meanwhile.
    """
    metadata_path = metadata_base_path(base_path)
    try:
        config = load_table_config(storage, metadata_path, clock=clock).config
    except NotATable:
        return False  # the table has no metadata table
    timeline = load_timeline(storage, metadata_path, config)
    ours = [each for each in timeline.instants if each.time == instant]
    if not ours:
        return False
    folder = timeline_folder(metadata_path, config)
    _check_removable(storage, folder, instant, timeline)
    logs = _logs_of(storage, metadata_path, instant)
    aside = undoing_folder(base_path, instant, by)
    storage.make_folder(aside)  # before the proof: whoever takes the lock later finds it
    fence()
    delete_all(storage, [join(folder, each.file_name) for each in ours if each.state is State.COMPLETED])
    delete_all(storage, logs)
    files = TimelineFiles(storage, folder, instant, MetadataAction.DELTA_COMMIT)
    if isinstance(storage, RenamingStorage):
        for path in (files.inflight, files.requested):
            _take_away(storage, path, aside)
        storage.sync(folder)
        storage.delete_folder(aside)
    else:
        fence()
        files.undo()
        files.unschedule()
    return True


def check_not_rolled_back(storage: Storage, folder: str, instant: str, timeline: Timeline) -> None:
    """Raise `Conflict` where a rollback of `instant` in the metadata table has begun: whoever goes on with it would
    delete what is written now."""
    for pending in timeline.pending:
        if pending.action not in ("rollback", "restore"):
            continue
        requested = join(folder, f"{pending.time}.{pending.action}.{State.REQUESTED}")
        if pending.action == "restore" or read_rollback_plan(storage.read(requested), file=requested) == instant:
            raise Conflict(
                f"{pending.action} {pending.time} of the metadata table is under way or was interrupted.",
                why=f"It takes {instant} back, whose commit we are about to write or to remove.",
                remedy="Let a Hudi writer of the table finish it, and run the command again.",
            )


def _take_away(storage: RenamingStorage, path: str, aside: str) -> None:
    try:
        storage.rename(path, join(aside, path.rpartition("/")[2]))
    except NotFound as error:
        if storage.stat(aside) is None:
            raise AttemptLost(
                f"{aside} is no longer there.",
                why="Another process began an attempt at the instant while this one took an earlier attempt back.",
                remedy="Run the command again: it finishes what is left, if anything is.",
            ) from error


def _check_removable(storage: Storage, folder: str, instant: str, timeline: Timeline) -> None:
    check_not_rolled_back(storage, folder, instant, timeline)
    for each in timeline.instants:
        if each.time == instant and each.action != MetadataAction.DELTA_COMMIT.completed:
            raise _stays(instant, f"{each.file_name} is on the metadata table's timeline, which is no commit's.")
    completed, compacted = timeline.completion_time(instant), latest_compaction(timeline)
    if completed is not None and compacted is not None and comparable_time(completed) <= comparable_time(compacted):
        raise _stays(instant, f"The metadata table was compacted at {compacted}, after the commit's {completed}.")


def _logs_of(storage: Storage, metadata_path: str, instant: str) -> list[str]:
    found = []
    for partition in storage.list(metadata_path):
        if partition.is_folder and partition.name != HOODIE_FOLDER:
            for status in storage.list(partition.path):
                name = parse_log_file(status.name)
                if name is not None and name.instant == instant:
                    found.append(status.path)
    return found


def _stays(instant: str, why: str) -> Conflict:
    return Conflict(
        f"What was written to the metadata table for {instant} cannot be taken back.",
        why=why,
        remedy="Let Hudi finish or roll back that instant; or disable the metadata table, which its next writer builds "
        "anew.",
    )

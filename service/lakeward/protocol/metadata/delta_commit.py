"""The metadata table's part in an attempt at an instant of the table: a delta commit of the same instant.

    publish       .requested -> .inflight -> log files -> completed file                   and then the table's commit
    roll back     completed file -> log files that carry the instant -> .inflight -> .requested   as if none had been
    roll forward  what the commit intent names, from what was staged

Hudi can see by `.inflight` that there is something to roll back, since no log file is in its place before that. All
of it counts from the moment that the table's commit is complete; in the other order there would be a time in which
readers that list by the metadata table do not see what is committed. In an object store both are in one commit intent,
and nothing of it is begun before that was stated: from then on every file has one name and one content, from what was
staged.

**Rolling back.** As long as the table's instant is pending, nothing of the same instant counts in the metadata table
(`table/metadata/metadata_table.py`), so readers see no difference between any two steps. Stopped anywhere in between,
there is still a file of the instant on the timeline, by which the next process knows that there is something to do. But
once the table's instant is gone, what is complete here counts: so this comes *before* a plan is unscheduled. Hudi
leaves a rollback on both timelines instead. We write none: it would be of an instant of which nothing is left, and one
on the table's timeline would make what the next attempt writes here count before its commit does.

    t0 A lists what is to be deleted and is stopped; t1 B takes over and publishes; t2 A wakes, and must delete nothing.

So the lock is proved once more between the listing and the first deletion. No other attempt has log files and a
completed file of these names. But every attempt at the instant has an `.inflight` and a `.requested`:

    t0 A has proved its lock and is stopped before it deletes `.inflight`; t1 B takes over and is about to publish, its
    log files are in; t2 A wakes and deletes B's `.inflight` and `.requested`; t3 B dies. Its log files stay, nothing on
    the timeline says so, and with the commit of the next attempt at the same instant they count, B's files and all.

So in a file system the two leave the timeline as an attempt's files come onto it: they are renamed, into a folder that
B renames away before it begins. In an object store the lock is proved a third time; there B has stated what it writes,
and it is created again by the process that rolls it forward.

**Rolling forward.** Other processes may have worked on the table since the intent was stated:

    t0 A states its intent and dies; t1 its lock runs out, a Hudi writer takes it and compacts the metadata table; t2 B.

The completion time that A stated lies before that compaction then, and readers would not see A's records behind it. A's
completed file is on its way all the same, for all that B knows, so it cannot have another name either. The same holds
for a partition that was built meanwhile, without the files of an instant that was pending. So B reads first, and where
such a thing happened it leaves everything as it is and says what helps: without a metadata table nothing is in its way,
and the next writer rebuilds it, with A's files in it.

Touches: of the metadata table, files of one instant; under the table lock, with the table's instant pending.
Keeps:   1. the lock is proved before the first file, and again before the completed one;
         2. what a commit names is whole: its size is the one that was staged;
         3. nothing is deleted while the lock is not proved since the listing;
         4. what a compaction of the metadata table has merged already is not rolled back, but is an error;
         5. in a file system nothing of an attempt that began since is taken away;
         6. a commit is not completed without its records in the metadata table that readers use;
         7. a partition of the metadata table that has records is one to Hudi's rollbacks.
See:     docs/decisions/0013-undoing-in-the-metadata-table.md,
         docs/decisions/0015-the-metadata-table-in-object-stores.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Conflict, NotATable
from lakeward.base.paths import join, parent
from lakeward.format.file_name import HFILE, parse_any_log
from lakeward.format.partition_metadata import PROPERTIES_NAME, PartitionMetadata, write_partition_metadata
from lakeward.format.timeline.instant import Instant, State, comparable_time, parse_instant
from lakeward.format.timeline.rollback_metadata import read_rollback_plan
from lakeward.protocol.attempts.attempt_files import rollback_folder
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat_line import CommitIntent
from lakeward.protocol.attempts.staged_commit import named_files
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.transition import LAYOUT, MetadataAction, TimelineFiles
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import has_metadata_table, latest_compaction, metadata_base_path
from lakeward.table.table_config import HOODIE_FOLDER, TableConfig, load_table_config, timeline_folder
from lakeward.table.timeline.timeline import Timeline, load_timeline

COMMIT_FILE = "metadata-commit"
"""The name of a file in the attempt's folder: what will be the completed file."""


@dataclass(frozen=True, slots=True)
class StagedDeltaCommit:
    """A delta commit that is whole but for its completion time."""

    storage: Storage
    files: TimelineFiles
    metadata_path: str
    """The base path of the metadata table."""
    instant: str
    folder: str
    """The attempt's, with the commit and its log files in it."""
    logs: Mapping[str, int]
    """Log files, by their path below the metadata table, with their sizes."""

    def completed_name(self, completion_time: str) -> str:
        return self.files.completed(completion_time).rpartition("/")[2]

    def publish(self, completion_time: str, *, is_pending: Callable[[], bool], fence: Fence) -> None:
        """Complete it. It counts from the moment that the table's commit is complete.

        Args:
            is_pending: whether some attempt is under way at the table's instant.
        """
        fencing = fencing_of(self.storage)
        fence()
        fencing.open(self.files, self.folder, is_pending)
        _begin_partitions(self.storage, self.metadata_path, self.folder, self.instant, self.logs)
        fencing.bring_staged(self.metadata_path, self.folder, self.logs)
        fence()
        fencing.complete(self.files, join(self.folder, COMMIT_FILE), completion_time)


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """What there may be of the instant in the metadata table, if the table has one."""

    storage: Storage
    base_path: str
    """The base path of the table."""
    instant: str
    clock: Clock

    def roll_back(self, *, by: int, fence: Fence) -> bool:
        """Remove what is of the instant. False where nothing was. Idempotent.

        Args:
            by: number of the attempt that does so.

        Raises:
            Conflict: it must stay.
            AttemptLost: another process began an attempt at the instant meanwhile.
        """
        storage, metadata_path = self.storage, metadata_base_path(self.base_path)
        found = self._find()
        if found is None:
            return False
        config, own = found
        folder = timeline_folder(metadata_path, config)
        logs = _logs_of(storage, metadata_path, self.instant, native=config.version.has_native_logs)
        aside = rollback_folder(self.base_path, self.instant, by)
        storage.make_folder(aside)  # before the proof: a process that takes the lock later finds it
        fence()
        fencing = fencing_of(storage)
        fencing.delete_files([join(folder, each.file_name) for each in own if each.state is State.COMPLETED])
        fencing.delete_files(logs)
        files = TimelineFiles(storage, folder, self.instant, MetadataAction.DELTA_COMMIT)
        fencing.take_off_timeline(files, aside, fence)
        return True

    def check_removable(self) -> None:
        """Raise `Conflict` where `roll_back` would now."""
        self._find()

    def _find(self) -> tuple[TableConfig, list[Instant]] | None:
        """The properties of the metadata table, and the instant's files on its timeline; None where it has none. Raises
        `Conflict` where they must stay."""
        metadata_path = metadata_base_path(self.base_path)
        try:
            config = load_table_config(self.storage, metadata_path, clock=self.clock).config
        except NotATable:
            return None  # the table has no metadata table
        timeline = load_timeline(self.storage, metadata_path, config)
        own = [each for each in timeline.instants if each.time == self.instant]
        if not own:
            return None
        _check_removable(self.storage, timeline_folder(metadata_path, config), self.instant, timeline)
        return config, own

    def roll_forward(self, intent: CommitIntent, folder: str, *, fence: Fence) -> None:
        """Complete the delta commit that the intent names, from what lies in `folder`. Idempotent. Raises `Conflict`
        where the metadata table changed so that it does not fit."""
        storage, instant = self.storage, self.instant
        config = load_table_config(storage, self.base_path, clock=self.clock).config
        if not has_metadata_table(config):
            return  # its next writer builds it from the storage, with the files of this commit
        if intent.metadata is None:
            raise _changed(instant, "The table got a metadata table since, without the files of this commit.")
        metadata_path = metadata_base_path(self.base_path)
        metadata_config = load_table_config(storage, metadata_path, clock=self.clock).config
        timeline = load_timeline(storage, metadata_path, metadata_config)
        timeline_path = timeline_folder(metadata_path, metadata_config)
        check_not_rolled_back(storage, timeline_path, instant, timeline)
        _check_still_right(instant, intent.metadata, timeline, load_timeline(storage, self.base_path, config))
        staged = join(folder, COMMIT_FILE)
        native = metadata_config.version.has_native_logs
        logs = named_files(storage, staged, instant, extension=HFILE, native=native)
        files = TimelineFiles(storage, timeline_path, instant, MetadataAction.DELTA_COMMIT)
        fencing = fencing_of(storage)
        fence()
        fencing.open(files, folder, lambda: True)
        _begin_partitions(storage, metadata_path, folder, instant, logs)
        fencing.bring_staged(metadata_path, folder, logs)
        fence()
        files.finish(staged, intent.metadata)


def check_not_rolled_back(storage: Storage, folder: str, instant: str, timeline: Timeline) -> None:
    """Raise `Conflict` where a rollback of `instant` in the metadata table has begun: the process that goes on with it
    would delete what is written now."""
    for pending in timeline.pending:
        if pending.action not in ("rollback", "restore"):
            continue
        requested = join(folder, f"{pending.time}.{pending.action}.{State.REQUESTED}")
        if pending.action == "restore" or read_rollback_plan(storage.read(requested), file=requested) == instant:
            raise Conflict(
                f"{pending.action} {pending.time} of the metadata table is under way or was interrupted.",
                why=f"It rolls {instant} back, whose commit we are about to write or to remove.",
                remedy="Let a Hudi writer of the table finish it, and run the command again.",
            )


def _begin_partitions(storage: Storage, metadata_path: str, folder: str, instant: str, logs: Iterable[str]) -> None:
    """Each partition that gets its first records has the file that makes it one: Hudi's rollback of a completed commit
    finds the partitions by it, and would leave the logs in others, which count again once the commit is archived."""
    for number, partition in enumerate(sorted({parent(path) for path in logs})):
        target = join(metadata_path, partition, PROPERTIES_NAME)
        if storage.stat(target) is None:
            content = write_partition_metadata(PartitionMetadata(instant, 1))
            fencing_of(storage).create_beside(join(folder, f"metadata-partition-{number}"), target, content)


def _check_removable(storage: Storage, folder: str, instant: str, timeline: Timeline) -> None:
    check_not_rolled_back(storage, folder, instant, timeline)
    for each in timeline.instants:
        if each.time == instant and each.action != MetadataAction.DELTA_COMMIT.completed:
            raise _stays(instant, f"{each.file_name} is on the metadata table's timeline, which is no commit's.")
    completed, compacted = timeline.completion_time(instant), latest_compaction(timeline)
    if completed is not None and compacted is not None and comparable_time(completed) <= comparable_time(compacted):
        raise _stays(instant, f"The metadata table was compacted at {compacted}, after the commit's {completed}.")


def _logs_of(storage: Storage, metadata_path: str, instant: str, *, native: bool) -> list[str]:
    found = []
    for partition in storage.list(metadata_path):
        if partition.is_folder and partition.name != HOODIE_FOLDER:
            for status in storage.list(partition.path):
                name = parse_any_log(status.name, native=native)
                if name is not None and name.instant == instant:
                    found.append(status.path)
    return found


def _check_still_right(instant: str, name: str, metadata: Timeline, data: Timeline) -> None:
    """Since the completion time that `name` carries the metadata table got nothing but the commits of writers."""
    intended = parse_instant(name, LAYOUT)
    if intended is None or intended.completion_time is None:
        raise BrokenFile(
            f"The heartbeat of {instant} names {name!r} as its commit in the metadata table.",
            why="That is not the name of a completed file.",
            remedy="Find out who wrote that file in .hoodie/.heartbeat; nothing was created by that name.",
        )
    since = comparable_time(intended.completion_time)
    writers = {each.time for each in data.instants if each.action != "indexing"}
    for each in metadata.instants:
        if each.time == instant:
            if each.state is State.COMPLETED and each.file_name != name:
                raise _changed(instant, f"{each.file_name} is on the metadata table's timeline, which we did not make.")
        elif each.comparable_action == MetadataAction.DELTA_COMMIT.completed:
            completed = each.completion_time if each.state is State.COMPLETED else None
            if completed is not None and comparable_time(completed) > since and each.time not in writers:
                raise _changed(instant, f"{each.file_name} built a partition of the metadata table since.")
        elif each.action not in ("clean", "rollback") and comparable_time(each.time) > since:
            raise _changed(instant, f"The metadata table was compacted or restored since: {each.file_name} is there.")
    if metadata.unknown:
        raise _changed(instant, f"{metadata.unknown[0]} on the metadata table's timeline is not known.")


def _stays(instant: str, why: str) -> Conflict:
    return Conflict(
        f"What was written to the metadata table for {instant} cannot be rolled back.",
        why=why,
        remedy="Let Hudi finish or roll back that instant; or disable the metadata table, which its next writer builds "
        "again.",
    )


def _changed(instant: str, why: str) -> Conflict:
    return Conflict(
        f"{instant} was about to be published when its process died, and does not fit the metadata table any more.",
        why=why,
        remedy="Run `lakeward metadata disable` and then this again, before any writer writes: the commit is finished "
        "without the metadata table, which the next writer builds again.",
    )

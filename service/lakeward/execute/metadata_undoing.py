"""Take back what attempts at compacting the metadata table left, so that the table is as if none had been made.

An attempt merges into a folder of its own and says nothing on the timeline until all of it is done. What a process that
died can leave is therefore either a folder that nobody else knows of, or, if it died while it published, a plan on the
metadata table's timeline:

    plan   -> folder aside -> no completed file? -> base files that carry the instant -> folder -> .inflight
           -> .requested -> heartbeat
    folder -> folder -> heartbeat

The plan goes too, and not only the attempt: nothing was promised by it, and a plan that waits holds up the writers, who
carry out every plan of the metadata table that they find. Until it goes, or a Hudi writer has carried it out, readers
merge the logs before and after it, and see no difference.

The heartbeat of such an attempt is among those of the table, not of the metadata table: by one there Hudi's writers
would fail for two minutes after we died, instead of carrying the plan out (`validateHeartBeat` of
BaseHoodieTableServiceClient, Hudi 1.2).

Touches: the metadata table's timeline, files of one instant in the groups of its plan, and the folders and
         heartbeats of our own attempts; under the table lock.
Keeps:   1. a plan that another engine made is not touched, nor what an attempt left that may be alive;
         2. nothing is deleted while a commit of the instant exists or might exist, nor unless the lock was proved since
            the listing;
         3. stopped anywhere in between, the same can be done again.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
"""

from __future__ import annotations

from lakeward.commit.attempt import put_aside, remove_temp_folder, strays, temp_folder
from lakeward.commit.heartbeat import Life, heartbeat_path, remove_heartbeat
from lakeward.commit.tidy import tidy
from lakeward.commit.transition import MetadataAction
from lakeward.errors import TryLater
from lakeward.execute.pending_work import groups_of
from lakeward.execute.progress import Count
from lakeward.execute.serviced_metadata import ServicedMetadata, metadata_files
from lakeward.execute.serviced_table import Fence, ServicedTable
from lakeward.format.compaction_plan import CompactionPlan, read_compaction_plan
from lakeward.format.file_name import HFILE
from lakeward.storage.storage import RenamingStorage, parent
from lakeward.table.metadata_table import MetadataTable
from lakeward.table.service_instants import PLANNED_BY
from lakeward.table.table_config import timeline_folder


def recover_metadata(table: ServicedTable, look: ServicedMetadata, *, fence: Fence) -> bool:
    """Whether something of the timeline was taken back, so that one has to look again."""
    metadata = look.table
    table.tidy(look.snapshot)
    tidy(table.storage, metadata.base_path, timeline_folder(metadata.base_path, metadata.config), clock=table.clock)
    check_no_rollback(metadata)
    undone = False
    for instant in metadata.timeline.pending:
        if instant.action != MetadataAction.COMPACTION.pending:
            continue
        files = metadata_files(table, metadata, instant.time, MetadataAction.COMPACTION)
        plan = read_compaction_plan(table.storage.read(files.requested), file=files.requested, extension=HFILE)
        if PLANNED_BY not in plan.extra_metadata:
            continue
        _check_dead(table, instant.time)
        table.observer.step(f"compaction {instant.time} of the metadata table: undoing an attempt that died")
        take_back(table, metadata, instant.time, plan, fence=fence)
        undone = True
    others = {instant.time for instant in (*look.snapshot.timeline.instants, *metadata.timeline.pending)}
    completed = {instant.time for instant in metadata.timeline.completed}
    for time in _attempted(table, metadata) - others:
        if time in completed or table.sign_of_life(time).life is not Life.ALIVE:
            fence()
            forget(table, metadata, time)
    return undone


def take_back(
    table: ServicedTable, metadata: MetadataTable, instant: str, plan: CompactionPlan, *, fence: Fence
) -> None:
    """The plan, and all that an attempt at it made. Under the lock."""
    files = metadata_files(table, metadata, instant, MetadataAction.COMPACTION)
    assert isinstance(table.storage, RenamingStorage), "no metadata table in an object store is compacted"
    put_aside(table.storage, metadata.base_path, instant, by=table.owner.attempt)
    files.check_uncompleted()
    left = strays(table.storage, metadata.base_path, instant, groups_of(plan), extension=HFILE)
    fence()
    for status in left:
        table.storage.delete(status.path)
    fence()
    remove_temp_folder(table.storage, metadata.base_path, instant)
    files.undo()
    files.unschedule()
    remove_heartbeat(table.storage, table.base_path, instant)
    table.observer.counted(Count.UNDONE_ATTEMPT)


def forget(table: ServicedTable, metadata: MetadataTable, instant: str) -> None:
    """The folder and the heartbeat of an attempt of which the timeline says nothing, or that it completed."""
    remove_temp_folder(table.storage, metadata.base_path, instant)
    remove_heartbeat(table.storage, table.base_path, instant)


def check_no_rollback(metadata: MetadataTable) -> None:
    """Whoever goes on with one would delete files that we are about to judge."""
    for instant in metadata.timeline.pending:
        if instant.action in ("rollback", "restore"):
            raise TryLater(
                f"{instant.action} {instant.time} of the metadata table is under way or was interrupted.",
                why="It takes something back there, and until it has ended nobody can tell which files stay.",
                remedy="Let a Hudi writer of the table finish it, and run the command again.",
            )


def _check_dead(table: ServicedTable, instant: str) -> None:
    if table.sign_of_life(instant).life is Life.ALIVE:
        raise TryLater(
            f"Somebody else is publishing compaction {instant} of the metadata table.",
            why=f"Its heartbeat, {heartbeat_path(table.base_path, instant)}, is fresh.",
            remedy="Run the command again when it has ended; two minutes after the last heartbeat it counts as dead.",
        )


def _attempted(table: ServicedTable, metadata: MetadataTable) -> set[str]:
    """Instants of which there is a folder below the metadata table, or a heartbeat, with our mark."""
    storage = table.storage
    folders = storage.list(parent(temp_folder(metadata.base_path, "0")))
    found = {
        status.name
        for status in folders
        if status.is_folder and any("attempt-" in entry.name for entry in storage.list(status.path))
    }
    beating = [status.name for status in storage.list(parent(heartbeat_path(table.base_path, "0")))]
    return found | {name for name in beating if name.isdigit() and table.sign_of_life(name).owner is not None}

"""Take back what attempts at compacting the metadata table left, so that the table is as if none had been made.

An attempt merges into a folder of its own and says nothing on the timeline until all of it is done. What a process that
died can leave is therefore either a folder that nobody else knows of, or, if it died while it published, a plan on the
metadata table's timeline:

    plan   -> shut out -> no completed file? -> base files that carry the instant -> folder -> .inflight
           -> .requested -> heartbeat
    folder -> folder -> heartbeat

In an object store an attempt may have announced that it publishes (`commit/service_attempt.py`). That is finished.

The plan goes too, and not only the attempt: nothing was promised by it, and a plan that waits holds up the writers, who
carry out every plan of the metadata table that they find. Until it goes, or a Hudi writer has carried it out, readers
merge the logs before and after it, and see no difference.

Touches: the metadata table's timeline, files of one instant in the groups of its plan, and the folders and
         heartbeats of our own attempts; under the table lock.
Keeps:   1. a plan that another engine made is not touched, nor what an attempt left that may be alive;
         2. nothing is deleted while a commit of the instant exists or might exist, nor unless the lock was proved since
            the listing;
         3. what was announced is published only where what it merged is still what it was;
         4. stopped anywhere in between, the same can be done again.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
"""

from __future__ import annotations

from lakeward.commit.attempt import strays, temp_folder
from lakeward.commit.heartbeat import Life, Sign, heartbeat_path
from lakeward.commit.service_attempt import ServiceAttempt
from lakeward.commit.tidy import tidy
from lakeward.commit.transition import MetadataAction
from lakeward.errors import Conflict, TryLater
from lakeward.execute.metadata_compaction_commit import changed_operation
from lakeward.execute.pending_work import groups_of
from lakeward.execute.progress import Count
from lakeward.execute.serviced_metadata import ServicedMetadata, look_at_metadata_table, service_attempt
from lakeward.execute.serviced_table import Fence, ServicedTable
from lakeward.format.compaction_plan import CompactionPlan, read_compaction_plan
from lakeward.format.file_name import HFILE
from lakeward.storage.storage import delete_all, parent
from lakeward.table.metadata_table import MetadataTable, metadata_base_path
from lakeward.table.service_instants import PLANNED_BY
from lakeward.table.table_config import timeline_folder


def recover_metadata(table: ServicedTable, look: ServicedMetadata, *, fence: Fence) -> bool:
    """Whether something on the timeline was taken back or finished, so that one has to look again."""
    metadata = look.table
    table.tidy(look.snapshot)
    tidy(table.storage, metadata.base_path, timeline_folder(metadata.base_path, metadata.config), clock=table.clock)
    _check_no_rollback(metadata)
    changed = False
    for instant in metadata.timeline.pending:
        if instant.action != MetadataAction.COMPACTION.pending:
            continue
        attempt = service_attempt(table, metadata, instant.time, MetadataAction.COMPACTION)
        requested = attempt.files.requested
        plan = read_compaction_plan(table.storage.read(requested), file=requested, extension=HFILE)
        if PLANNED_BY not in plan.extra_metadata:
            continue
        judged = table.sign_of_life(instant.time)
        _check_dead(table, instant.time, judged)
        take_back(table, attempt, plan, judged, fence=fence)
        changed = True
    others = {instant.time for instant in (*look.snapshot.timeline.instants, *metadata.timeline.pending)}
    completed = {instant.time for instant in metadata.timeline.completed}
    for time in _attempted(table, metadata) - others:
        attempt = service_attempt(table, metadata, time, MetadataAction.COMPACTION)
        judged = table.sign_of_life(time)
        if time not in completed and judged.life is Life.ALIVE:
            continue
        fence()
        if time in completed:
            attempt.remove_ended()
        elif attempt.shut_out():
            attempt.remove(judged)
        elif table.storage.stat(attempt.files.requested) is None:
            attempt.remove_ended()  # announced on a metadata table that was removed since, timeline and all
    return changed


def take_back(
    table: ServicedTable, attempt: ServiceAttempt, plan: CompactionPlan, judged: Sign, *, fence: Fence
) -> None:
    """The plan, and all that an attempt at it made; or finish what it announced. Under the lock."""
    what = f"compaction {attempt.instant} of the metadata table"
    if not attempt.shut_out():
        _check_still_right(table, attempt, plan)
        attempt.finish_announced(fence=fence)
        attempt.remove_ended()
        table.observer.step(f"{what}: published what had been announced")
        return
    attempt.files.check_uncompleted()
    left = strays(table.storage, metadata_base_path(table.base_path), attempt.instant, groups_of(plan), extension=HFILE)
    fence()
    delete_all(table.storage, (status.path for status in left))
    fence()
    attempt.files.undo()
    attempt.files.unschedule()
    attempt.remove(judged)
    table.observer.step(f"{what}: took back what an attempt left")
    table.observer.counted(Count.UNDONE_ATTEMPT)


def _check_no_rollback(metadata: MetadataTable) -> None:
    """Whoever goes on with one would delete files that we are about to judge."""
    for instant in metadata.timeline.pending:
        if instant.action in ("rollback", "restore"):
            raise TryLater(
                f"{instant.action} {instant.time} of the metadata table is under way or was interrupted.",
                why="It takes something back there, and until it has ended nobody can tell which files stay.",
                remedy="Let a Hudi writer of the table finish it, and run the command again.",
            )


def _check_still_right(table: ServicedTable, attempt: ServiceAttempt, plan: CompactionPlan) -> None:
    now = look_at_metadata_table(table).table
    if any(instant.time == attempt.instant for instant in now.timeline.completed):
        return
    if (changed := changed_operation(plan, attempt.instant, now)) is not None:
        raise Conflict(
            f"Compaction {attempt.instant} of the metadata table was about to be published when its process died, and "
            "does not fit it any more.",
            why=f"File group {changed.file_id} does not hold what was merged: it was restored, or built anew.",
            remedy="Run `lakeward metadata disable`; the next Hudi writer builds the metadata table anew.",
            file_group=(changed.partition_path, changed.file_id),
        )


def _check_dead(table: ServicedTable, instant: str, judged: Sign) -> None:
    if judged.life is Life.ALIVE:
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

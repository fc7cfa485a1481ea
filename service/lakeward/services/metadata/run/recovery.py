"""Roll back what attempts at compacting the metadata table left, so that the table is as if none had been made.

An attempt merges into a folder of its own and says nothing on the timeline until all of it is done. What a process that
died can leave is therefore either a folder that no other engine knows of, or, if it died while it published, a plan on
the metadata table's timeline. The plan goes too, and not only the attempt: nothing was promised by it, and a plan that
waits holds up the writers, who carry out every plan of the metadata table that they find. Until it goes, or a Hudi
writer has carried it out, readers merge the logs before and after it, and see no difference.

Touches: the metadata table's timeline, files of one instant in the groups of its plan, and the folders and
         heartbeats of our own attempts; under the table lock.
Keeps:   1. a plan that another engine made is not touched, nor what an attempt left that may be alive;
         2. a commit intent is rolled forward only where what its attempt merged is still what it was;
         3. stopped anywhere in between, the same can be done again.
See:     docs/decisions/0014-the-metadata-tables-own-services.md
"""

from __future__ import annotations

from functools import partial

from lakeward.base.errors import Conflict, TryLater
from lakeward.base.paths import parent
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan
from lakeward.protocol.attempts.attempt_files import ATTEMPT, temp_folder
from lakeward.protocol.attempts.heartbeat import Life, Liveness
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.attempts.orphan_files import sweep
from lakeward.protocol.life_cycle import settle
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import MetadataAction
from lakeward.services.metadata.run.metadata_commit import changed_operation
from lakeward.services.metadata.run.serviced_metadata import ServicedMetadata, metadata_attempt, snapshot_with_metadata
from lakeward.table.metadata.metadata_table import MetadataTable
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.service_instants import PLANNED_BY, groups_of


def recover_metadata(table: ServicedTable, now: ServicedMetadata, *, fence: Fence) -> bool:
    """Whether something on the timeline was rolled back or forward, so that another snapshot is needed."""
    metadata = now.table
    table.sweep(now.snapshot)
    sweep(table.storage, metadata.base_path, timeline_folder(metadata.base_path, metadata.config), clock=table.clock)
    _check_no_rollback(metadata)
    changed = False
    for instant in metadata.timeline.pending:
        if instant.action != MetadataAction.COMPACTION.pending:
            continue
        attempt = metadata_attempt(table, metadata, instant.time, MetadataAction.COMPACTION)
        requested = attempt.files.requested
        native = metadata.config.version.has_native_logs
        plan = read_compaction_plan(table.storage.read(requested), file=requested, extension=HFILE, native=native)
        if PLANNED_BY not in plan.extra_metadata:
            continue
        judged = table.liveness(instant.time)
        _check_dead(table, instant.time, judged)
        check = partial(check_intent, table, instant.time, plan)
        rolled_back = settle(table, attempt, groups_of(plan), judged.owner, check_intent=check, fence=fence)
        what = "rolled back what an attempt left" if rolled_back else "rolled forward what its process had stated"
        table.observer.step(f"compaction {instant.time} of the metadata table: {what}")
        changed = True
    _recover_unsaid(table, now, fence)
    return changed


def check_intent(table: ServicedTable, instant: str, plan: CompactionPlan) -> None:
    """Raise `Conflict` where what was merged is not what the slices hold as of the instant, any more."""
    now = snapshot_with_metadata(table).table
    if any(each.time == instant for each in now.timeline.completed):
        return
    if (changed := changed_operation(plan, instant, now)) is not None:
        raise Conflict(
            f"Compaction {instant} of the metadata table was about to be published when its process died, and "
            "does not fit it any more.",
            why=f"File group {changed.file_id} does not hold what was merged: it was restored, or rebuilt.",
            remedy="Run `lakeward metadata disable`; the next Hudi writer builds the metadata table again.",
            file_group=(changed.partition_path, changed.file_id),
        )


def _recover_unsaid(table: ServicedTable, now: ServicedMetadata, fence: Fence) -> None:
    """Attempts of which the timeline says nothing, or nothing any more."""
    metadata = now.table
    others = {instant.time for instant in (*now.snapshot.timeline.instants, *metadata.timeline.pending)}
    completed = {instant.time for instant in metadata.timeline.completed}
    for time in _attempted(table, metadata) - others:
        attempt = metadata_attempt(table, metadata, time, MetadataAction.COMPACTION)
        judged = table.liveness(time)
        if time not in completed and judged.life is Life.ALIVE:
            continue
        fence()
        if time in completed:
            attempt.clear(judged.owner)
        elif attempt.fence_off():
            attempt.forget(judged.owner)
        elif table.storage.stat(attempt.files.requested) is None:
            attempt.forget(judged.owner)  # stated on a metadata table that was removed since, timeline and all


def _check_no_rollback(metadata: MetadataTable) -> None:
    """The process that goes on with one would delete files that we are about to judge."""
    for instant in metadata.timeline.pending:
        if instant.action in ("rollback", "restore"):
            raise TryLater(
                f"{instant.action} {instant.time} of the metadata table is under way or was interrupted.",
                why="It rolls something back there, and until it has ended it is not known which files stay.",
                remedy="Let a Hudi writer of the table finish it, and run the command again.",
            )


def _check_dead(table: ServicedTable, instant: str, judged: Liveness) -> None:
    if judged.life is Life.ALIVE:
        raise TryLater(
            f"Another process is publishing compaction {instant} of the metadata table.",
            why=f"Its heartbeat, {heartbeat_path(table.base_path, instant)}, is fresh.",
            remedy="Run the command again when it has ended; two minutes after the last heartbeat it counts as dead.",
        )


def _attempted(table: ServicedTable, metadata: MetadataTable) -> set[str]:
    """Instants that have a folder below the metadata table, or a heartbeat, with our mark."""
    storage = table.storage
    folders = storage.list(parent(temp_folder(metadata.base_path, "0")))
    found = {
        status.name
        for status in folders
        if status.is_folder and any(ATTEMPT in entry.name for entry in storage.list(status.path))
    }
    beating = [status.name for status in storage.list(parent(heartbeat_path(table.base_path, "0")))]
    return found | {name for name in beating if name.isdigit() and table.liveness(name).owner is not None}

"""Become the one attempt at a rollback or a restore that is pending: its process died, or it is another engine's. And
remove what processes of Lakeward left that died before they said anything, or after all was said.

Touches: the heartbeat and the `.inflight` of the instant, and what is left of attempts; under the lock, once no process
is at work on it.
Keeps:   what a process had stated before it died is completed by that name, and not carried out again.
"""

from __future__ import annotations

from lakeward.base.paths import parent
from lakeward.protocol.attempts.attempt import Attempt, rollback_place
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.attempts.heartbeat import Life
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import UndoAction
from lakeward.table.metadata.metadata_table import metadata_base_path
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder


def take_over(table: ServicedTable, attempt: Attempt, fence: Fence) -> str | None:
    """Returns the completion time where the process that died had stated it: then nothing else is left to do."""
    judged = table.liveness(attempt.instant)
    if not attempt.fence_off() and (completion_time := attempt.roll_forward(fence=fence)) is not None:
        attempt.clear(judged.owner)
        return completion_time
    fence()
    attempt.make_way(judged.owner)
    attempt.claim()
    attempt.files.check_uncompleted()
    fence()
    if not attempt.files.is_inflight():
        attempt.files.begin()
    return None


def tidy(table: ServicedTable, snapshot: TableSnapshot) -> None:
    """Remove what processes of Lakeward left at instants that are completed, or of which they said nothing."""
    table.sweep(snapshot)
    storage, base_path = table.storage, table.base_path
    known = {instant.time for instant in snapshot.timeline.instants}
    for status in storage.list(parent(heartbeat_path(base_path, "0"))):
        judged = table.liveness(status.name) if status.name.isdigit() and status.name not in known else None
        if judged is None or judged.owner is None or judged.life is Life.ALIVE:
            continue
        # A compaction of the metadata table says nothing before it publishes, and has its folder there.
        if storage.list(temp_folder(metadata_base_path(base_path), status.name)):
            continue
        place = rollback_place(storage, base_path, timeline_folder(base_path, snapshot.config))
        attempt = Attempt(place, status.name, UndoAction.ROLLBACK, table.owner)
        if attempt.fence_off():
            attempt.forget(judged.owner)

"""What services ask of a table before they write.

Touches: asks the storage how much room there is; reads the metadata table.
"""

from __future__ import annotations

from lakeward.base.errors import Conflict, Refused
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline


def check_space(table: ServicedTable, needed: int, *, what: str, remedy: str) -> None:
    """A merged slice is rarely larger than its parts, so `needed` is what is read. Raises `Refused`."""
    free = table.storage.free_bytes(table.base_path)
    if free is not None and free < needed:
        raise Refused(
            f"{table.base_path} has {free} bytes free, and {what} may write {needed}.",
            why="A full disk in the middle of a compaction would stop the table's writers too.",
            remedy=remedy,
        )


def check_metadata_table(table: ServicedTable, snapshot: TableSnapshot) -> None:
    """Find out whether the metadata table can be written to, where there is one, before it has to be. Raises
    `Unsupported` and `BrokenFile`."""
    if has_metadata_table(snapshot.config):
        take_metadata_snapshot(table.storage, snapshot, clock=table.clock)


def check_writers_stopped(before: Timeline, now: Timeline, *, own: str, meanwhile: str) -> None:
    """Check the operator's word that no writer is at work on the timeline; `own` is this process's instant. Raises
    `Conflict`."""
    known = {(instant.time, instant.action) for instant in before.instants}
    new = {(each.time, each.action) for each in now.instants if each.time != own} - known
    if new:
        time, action = min(new)
        raise Conflict(
            f"{action} {time} appeared while {meanwhile}.",
            why="You said --writers stopped, and a writer is at work.",
            remedy="Stop the writer, or share its lock with --lock; nothing was published.",
        )

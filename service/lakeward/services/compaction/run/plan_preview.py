"""What would be planned, chosen without the lock, and whether that is still right under it.

A snapshot of a wide table takes longer than writers should wait. So the choice is made before the lock is taken, and
under it a listing of the timeline proves that nothing happened since that the choice depends on:

    properties            the same
    the timeline          the same files, and besides only pending delta commits that began since, or went on

A write that began since has a time above all that was there. Its logs are later than those of the plan: of the next
slice after a FULL, and behind the place of a LOG's output, which is that of its newest source. What it says of itself
when it goes on only narrows where it may be at work.

Touches: reads the table's properties, the schema history's folder and the timeline: three listings and one file.
Keeps:   a choice stands only while a snapshot taken now would give the same slices, pending plans and refusals.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.timeline.instant import State, comparable_time
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.compaction.run.log_checks import CheckedLogs
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot, load_schema_history
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import Timeline, load_timeline


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be planned, and what it was chosen by."""

    snapshot: TableSnapshot
    outcome: PlanOutcome
    checked: CheckedLogs
    at: str
    """The instant for which it was chosen; the plan's own is later."""

    @property
    def groups(self) -> frozenset[GroupId]:
        """The file groups of its operations."""
        return frozenset((operation.partition_path, operation.file_id) for operation in self.outcome.operations)


def timeline_if_unchanged(table: ServicedTable, preview: Preview) -> Timeline | None:
    """The timeline as it is now, where the preview is what would be chosen now; else None."""
    snapshot = preview.snapshot
    newest = snapshot.timeline.latest_time
    # A commit later than the preview's own time is left out of it; one of clocks that differ, or come behind this one.
    if newest is not None and comparable_time(newest) >= comparable_time(preview.at):
        return None
    if load_table_config(table.storage, table.base_path, clock=table.clock) != snapshot.loaded_config:
        return None
    if load_schema_history(table.storage, table.base_path) != snapshot.schema_history:
        return None
    now = load_timeline(table.storage, table.base_path, snapshot.config)
    return now if only_writes_began(snapshot.timeline, now) else None


def only_writes_began(before: Timeline, now: Timeline) -> bool:
    """Whether nothing happened on the timeline but that writes began after all that was there, or went on."""
    if before.unknown != now.unknown:
        return False
    was, is_ = ({name: (time, each.sizes[name]) for name, time in each.modified.items()} for each in (before, now))
    if any(is_.get(name) != status for name, status in was.items()):
        return False
    known = {instant.time for instant in before.pending if instant.action == "deltacommit"}
    newest = comparable_time(before.latest_time or "")
    return all(
        instant.action == "deltacommit"
        and instant.state is not State.COMPLETED
        and (instant.time in known or comparable_time(instant.time) > newest)
        for instant in now.instants
        if instant.file_name not in was
    )

"""The writes whose log blocks count in a table of a version before 8, where writes append to each other's logs.

There a log file says nothing of its writes: it is named by its slice's base, not by them, and a write that failed
leaves its blocks among those of others until a rollback command takes them back. So each block is asked for the instant
that wrote it, as Hudi's readers do (BaseHoodieLogRecordReader, for table versions below 8).

Touches: nothing.
Keeps:   what is neither completed nor older than the timeline does not count, also where nothing is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.table.table_version import TableVersion
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline


@dataclass(frozen=True, slots=True)
class CommittedWrites:
    """Travels to executors: `instant in writes`."""

    completed: frozenset[str]
    pending: frozenset[str]
    start: str | None
    """The first completed write on the timeline: those before it are archived, and completed."""

    def __contains__(self, instant: str) -> bool:
        if instant in self.pending:
            return False
        return instant in self.completed or (self.start is not None and instant < self.start)


def committed_writes(timeline: Timeline, version: TableVersion) -> CommittedWrites | None:
    """What is asked of each block; None where the file-system view has left out the files of other writes."""
    if version.has_logs_of_one_write:
        return None
    completed = frozenset(instant.time for instant in timeline.completed_writes)
    return CommittedWrites(
        completed=completed,
        pending=frozenset(i.time for i in timeline.pending if i.comparable_action in WRITE_ACTIONS),
        start=min(completed, default=None),
    )

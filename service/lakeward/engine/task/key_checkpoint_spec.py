"""What a task needs to know that reads the keys of a file slice for a build of an index: a value that travels to it.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.engine.task.work_counters import CounterPlace
from lakeward.read.newest_slice import TableReading
from lakeward.table.file_group import FileSlice


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    reading: TableReading
    slice_: FileSlice
    folder: str
    """The folder of the build."""
    digest: str
    """`index/key_checkpoints.slice_digest`."""
    memory_bytes: int
    """Peak memory of the task."""
    bytes_per_second: float | None = None
    """What it may read of the table; None: no limit."""
    column: str | None = None
    """With it the keys are those of a secondary index on this column: of each row its value and its record key."""
    counters: CounterPlace | None = None
    """The place of what it says of how much it read; None where the driver cannot look."""

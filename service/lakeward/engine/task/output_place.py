"""The place where a task writes the files that it makes, and for which attempt: values that travel to executors.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.file_name import WriteToken
from lakeward.storage.storage import join


@dataclass(frozen=True, slots=True)
class OutputPlace:
    base_path: str
    partition_path: str
    instant: str
    attempt: int
    """The attempt's number, part of the write token."""
    attempt_folder: str
    index: int
    """Place of the task's work among that of the attempt, from 0; part of the write token, too."""

    def token(self, task_attempt: int) -> str:
        """Two attempts of a task never write to the same name."""
        return str(WriteToken(self.index, self.attempt, task_attempt))

    def done_path(self, task_attempt: int, *, rows: int) -> str:
        """An empty file whose name says how far we are: a view of progress needs one listing and no read."""
        return join(self.attempt_folder, f"{self.index}-{task_attempt}.{rows}-rows.done")

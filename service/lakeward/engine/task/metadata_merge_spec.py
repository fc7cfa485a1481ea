"""What a task needs to know that merges a file slice of the metadata table, and what it made: values that travel to
executors and back.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.engine.task.work_counters import CounterPlace
from lakeward.format.file_name import HFILE, BaseFileName, WriteToken
from lakeward.table.file_group import FileSlice


@dataclass(frozen=True, slots=True)
class MetadataMergeSpec:
    base_path: str
    """The metadata table's."""
    valid_instants: frozenset[str]
    """The instants whose log blocks count (`table/metadata/metadata_table`)."""
    slice: FileSlice
    schema_json: str
    """The schema of the new file."""
    instant: str
    """That of the compaction."""
    folder: str
    """The attempt's."""
    index: int
    """Place of the slice among those of the attempt, from 0; part of the write token."""
    attempt: int
    verify: bool
    """The new file is read back."""
    counters: CounterPlace | None = None
    """The place of what it says of how far it is; None where the driver cannot look."""

    @property
    def group_id(self) -> tuple[str, str]:
        return self.slice.group_id

    @property
    def input_bytes(self) -> int:
        return self.slice.base_bytes + self.slice.log_bytes

    def file_name(self, task_attempt: int) -> str:
        """Two attempts of a task never write to the same name."""
        token = str(WriteToken(self.index, self.attempt, task_attempt))
        return BaseFileName(self.slice.file_id, token, self.instant, HFILE).text


@dataclass(frozen=True, slots=True)
class MergedMetadata:
    """A new base file in the attempt's folder."""

    file_name: str
    entries: int
    size_bytes: int
    milliseconds: int

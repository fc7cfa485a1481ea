"""What reading the keys of one file slice needs to know: a value that travels to executors.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.read.newest_slice import newest_rows
from lakeward.read.slice_input import SliceInput
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class KeysInput:
    base_path: str
    base_file: str | None
    """Relative to the base path; its keys are read as they are stored, unless the slice is merged."""
    merged: SliceInput | None
    """The slice, where logs lie on the base file, or keys are made of rows."""


def keys_input(snapshot: TableSnapshot, slice_: FileSlice, *, memory_bytes: int = MEMORY_BYTES) -> KeysInput:
    """Raises `Unsupported` where the slice has to be merged, and it is not known how.

    Args:
        memory_bytes: what merging the slice may take.
    """
    merged = None
    if slice_.log_files or snapshot.config.made_key_fields:
        merged = replace(newest_rows(snapshot, slice_), memory_bytes=memory_bytes)
    return KeysInput(snapshot.base_path, slice_.base_file.path if slice_.base_file else None, merged)

"""Read the keys of one base file, in a Spark task or in process: is it sorted as the layout `lsm_tree` has it?

Touches: reads the file's keys, and no other column.
Keeps:   1. a file is sorted only if each key is greater than the one before it, as UTF-8 bytes, and as many were
            read as its footer counts;
         2. one batch of keys is held; where they are out of order no more are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import BrokenFile
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.format.file_name import resolve
from lakeward.format.parquet.base_file import count_rows
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.read.slice_keys import base_keys
from lakeward.storage.storage import Storage
from lakeward.table.file_order import FileOrder


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """What a task needs to know; picklable."""

    base_path: str
    path: str
    """Relative to the base path."""


def check_order(storage: Storage, check: OrderCheck, task_attempt: int) -> FileOrder:
    """Raises `BrokenFile` and `NotFound`."""
    use_tight_pool()
    order, rows = KeyAscent(), 0
    path = resolve(check.base_path, check.path)
    with storage.open_input(path) as source:
        counted = count_rows(source, name=check.path)
    for keys in base_keys(storage, path, name=check.path):
        order.see(keys)
        rows += len(keys)
        if not order.is_strict:
            return FileOrder(is_sorted=False, repeated=order.repeated)
    if rows != counted:
        raise BrokenFile(
            f"Of the base file {check.path} {rows} keys were read, its footer counts {counted}.",
            why="What was not read may be out of order.",
            remedy="Run the command again; if it fails again, the file is damaged: restore it from a copy.",
        )
    return FileOrder(is_sorted=True)

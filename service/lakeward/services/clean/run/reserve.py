"""A little room on the table's disk, which a clean lets go where there is no other, so that it can begin.

A clean frees space, and needs some before: a lock, its plan, the claim of its attempt. On a disk that writers have
filled up to the last byte it could not write them, and nothing could be freed but by hand. So each clean leaves a file
behind, as long as there is plenty of room, and the next one that finds no room deletes it.

    .hoodie/.lakeward/reserve       1 MiB of chance, which no file system compresses

Touches: that file. Not in an object store, which has no end.
Keeps:   1. room is taken only where there is plenty, and nothing fails because it cannot be taken;
         2. it is let go only where there is less than it holds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from lakeward.base.errors import LakewardError
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import join, parent
from lakeward.table.table_config import hoodie_folder

RESERVE_BYTES: Final = 1024**2
PLENTY_BYTES: Final = 64 * RESERVE_BYTES
PLACE: Final = ".lakeward/reserve"


def keep_reserve(table: ServicedTable) -> None:
    """Take the room, if there is plenty and none is taken."""
    free, path = table.storage.free_bytes(table.base_path), _path(table)
    if free is None or free < PLENTY_BYTES:
        return
    with suppress(LakewardError, OSError):  # what comes next says whether the storage works
        if table.storage.stat(path) is None:
            with table.locked() as _:  # only then is what a dead process had begun of it removed (`sweep`)
                table.storage.make_folder(parent(path))
                table.storage.create(path, os.urandom(RESERVE_BYTES))


def use_reserve(table: ServicedTable) -> None:
    """Let the room go, if there is no other."""
    free, path = table.storage.free_bytes(table.base_path), _path(table)
    if free is not None and free < RESERVE_BYTES and table.storage.delete(path):
        table.observer.step(f"the disk is full: the reserve of {RESERVE_BYTES // 1024} KiB is let go")


def _path(table: ServicedTable) -> str:
    return join(hoodie_folder(table.base_path), PLACE)

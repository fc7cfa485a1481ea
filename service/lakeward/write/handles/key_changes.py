"""Which keys a target added to the table or took out of it: a file for the indexes that keep places of keys.

    key       file_id
    k1        6a1f…-0      the key is in this file group now
    k2        null         the key is gone

An Arrow file beside the results in the attempt's folder, which goes when the attempt is cleared.

Touches: the file.
Keeps:   a file whose writing failed is no result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.engine.task.operation_output import OutputPlace
from lakeward.storage.storage import Storage

KEY: Final = "key"
FILE_ID: Final = "file_id"
KEY_CHANGES: Final = pa.schema([pa.field(KEY, pa.string()), pa.field(FILE_ID, pa.string())])


class KeyChangesFile:
    """Takes them batch by batch."""

    def __init__(self, path: str, writer: pa.ipc.RecordBatchFileWriter) -> None:
        self._path = path
        self._writer = writer
        self._count = 0

    @property
    def path(self) -> str | None:
        """The file's; None where nothing was added."""
        return self._path if self._count else None

    def add(self, keys: pa.Array, file_id: str | None) -> None:
        """The keys are in this file group from now on; None: in none."""
        if len(keys):
            places = pa.repeat(pa.scalar(file_id, pa.string()), len(keys))
            self._writer.write_batch(pa.RecordBatch.from_arrays([keys, places], schema=KEY_CHANGES))
            self._count += len(keys)


@contextmanager
def open_key_changes(
    storage: Storage, place: OutputPlace, task_attempt: int, *, wanted: bool
) -> Iterator[KeyChangesFile | None]:
    """None where they are not `wanted`. Raises `NotFound` in a file system when the attempt is over."""
    if not wanted:
        yield None
        return
    path = join(place.attempt_folder, f"{place.index}-{task_attempt}.keys.arrow")
    with storage.open_output(path) as sink, pa.ipc.new_file(sink, KEY_CHANGES) as writer:
        yield KeyChangesFile(path, writer)

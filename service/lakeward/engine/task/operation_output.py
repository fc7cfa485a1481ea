"""The place at which an operation writes a file of its own, and what must be so before and after.

    file system     into the attempt's folder, which is never created here: a task that wakes up after its attempt was
                    rolled back or committed finds no folder and fails, instead of leaving a file behind
    object store    to its final place, since nothing can be moved there later. The marker comes first; the heartbeat
                    must name the attempt before the first byte, and again just before the upload ends

Touches: the file; in an object store its marker, too.
Keeps:   a file whose writing failed is not there, or is in no place that a reader lists.
See:     docs/decisions/0012-attempts-in-object-stores.md
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import BinaryIO

from lakeward.engine.task.output_place import OutputPlace
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.storage.storage import Storage


def output_path(storage: Storage, place: OutputPlace, name: str) -> str:
    return fencing_of(storage).output_path(place.base_path, place.attempt_folder, place.partition_path, name)


def open_operation_output(
    storage: Storage, place: OutputPlace, name: str, *, replaces_base_file: bool = False
) -> AbstractContextManager[BinaryIO]:
    """Raises `AttemptLost` in an object store, `NotFound` in a file system, when the attempt is over."""
    output = Winner(place.partition_path, name, replaces_base_file)
    return fencing_of(storage).open_output(place.base_path, place.instant, place.attempt, place.attempt_folder, output)

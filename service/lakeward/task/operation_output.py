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

from lakeward.commit.attempt_files import Winner
from lakeward.commit.fencing import fencing_of
from lakeward.storage.storage import Storage
from lakeward.task.operation_spec import OperationSpec


def output_path(storage: Storage, spec: OperationSpec, name: str) -> str:
    of = spec.slice
    return fencing_of(storage).output_path(of.base_path, spec.attempt_folder, of.partition_path, name)


def open_operation_output(
    storage: Storage, spec: OperationSpec, name: str, *, replaces_base_file: bool = False
) -> AbstractContextManager[BinaryIO]:
    """Raises `AttemptLost` in an object store, `NotFound` in a file system, when the attempt is over."""
    of = spec.slice
    output = Winner(of.partition_path, name, replaces_base_file)
    return fencing_of(storage).open_output(of.base_path, of.instant, spec.attempt, spec.attempt_folder, output)

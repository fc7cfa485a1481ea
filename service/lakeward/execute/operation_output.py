"""Where an operation writes its file, and what must be so before and after.

    file system     into the attempt's folder, which is never created here: a task that wakes up after its attempt was
                    undone or committed finds no folder and fails, instead of leaving a file behind
    object store    to its final place, since nothing can be moved there later. The marker comes first; the heartbeat
                    must name the attempt before the first byte, and again just before the upload ends

Touches: the file; in an object store its marker, too.
Keeps:   a file whose writing failed is not there, or is in no place where anybody looks for it.
See:     docs/decisions/0012-attempts-in-object-stores.md
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lakeward.commit.attempt import Winner, result_path, write_marker
from lakeward.commit.heartbeat import check_alive
from lakeward.execute.operation_spec import OperationSpec
from lakeward.storage.storage import RenamingStorage, Storage


def output_path(storage: Storage, spec: OperationSpec, task_attempt: int) -> str:
    of = spec.slice
    return result_path(storage, of.base_path, spec.attempt_folder, of.partition_path, spec.file_name(task_attempt))


@contextmanager
def open_operation_output(storage: Storage, spec: OperationSpec, task_attempt: int) -> Iterator[BinaryIO]:
    """Raises `AttemptLost` in an object store, `NotFound` in a file system, when the attempt is over."""
    path = output_path(storage, spec, task_attempt)
    if isinstance(storage, RenamingStorage):
        with storage.open_output(path) as sink:
            yield sink
        return
    base_path, instant = spec.slice.base_path, spec.slice.instant
    check_alive(storage, base_path, instant, spec.attempt)
    replaces_base_file = spec.slice.base_file is not None
    winner = Winner(spec.slice.partition_path, spec.file_name(task_attempt), replaces_base_file)
    write_marker(storage, base_path, instant, winner)
    with storage.open_output(path) as sink:
        yield sink
        check_alive(storage, base_path, instant, spec.attempt)

"""The log of changes that a FULL operation writes beside its base file, where the table captures changes.

Touches: the file, where `task/operation_output` says.
Keeps:   1. a log that does not read back as what it was given, or has not as many changes as the merge counted, is
            `VerificationFailed`;
         2. where the table captures no changes there is no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lakeward.format.log.change_log import ChangedRows, ChangeLogWriter, read_changes
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.merge.digest import Digest
from lakeward.read.slice_input import MergeCounts
from lakeward.storage.storage import Storage
from lakeward.task.operation_output import open_operation_output, output_path
from lakeward.task.operation_spec import ChangeLog, OperationSpec
from lakeward.task.verification import check_changes, check_digest


class ChangeLogOutput:
    """One such log. `close` it before its sink, and `verify` it afterwards."""

    def __init__(
        self, storage: Storage, spec: OperationSpec, mode: SupplementalLogging, sink: BinaryIO, task_attempt: int
    ) -> None:
        self._storage = storage
        self._name = spec.change_log_name(task_attempt)
        self._path = output_path(storage, spec.place, self._name)
        self._verifies = spec.verify
        self._digest = Digest()
        self._writer = ChangeLogWriter(
            sink,
            mode=mode,
            instant=spec.slice.instant,
            table_schema_json=spec.slice.schema,
            block_bytes=spec.slice.budget.change_block,
        )
        self._size = 0
        self._changes = 0

    def add(self, changes: ChangedRows) -> None:
        records = self._writer.write(changes)
        if self._verifies:
            self._digest.update(records)

    def close(self) -> ChangeLog:
        stats = self._writer.close()
        self._size, self._changes = stats.size_bytes, stats.rows
        return ChangeLog(self._name, stats.size_bytes)

    def verify(self, counts: MergeCounts) -> None:
        """Read the file back and judge it."""
        read_back = Digest()
        with self._storage.open_input(self._path) as file:
            for records in read_changes(file, self._size, name=self._name):
                read_back.update(records)
        check_digest(self._digest.hexdigest, read_back.hexdigest)
        check_changes(counts, changes_written=self._changes)


@contextmanager
def open_change_log(storage: Storage, spec: OperationSpec, task_attempt: int) -> Iterator[ChangeLogOutput | None]:
    """None where the table captures no changes."""
    mode = spec.supplemental_logging
    if mode is None:
        yield None
        return
    with open_operation_output(storage, spec.place, spec.change_log_name(task_attempt)) as sink:
        yield ChangeLogOutput(storage, spec, mode, sink, task_attempt)

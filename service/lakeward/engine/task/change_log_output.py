"""The log of changes beside a base file that is rewritten, where the table captures changes.

It is an inline log, and a native one where the table's version has these.

Touches: the file, where `engine/task/operation_output` says.
Keeps:   1. a log that does not read back as what it was given, or has not as many changes as the merge counted, is
            `VerificationFailed`;
         2. where the table captures no changes there is no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa

from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.operation_spec import ChangeLog, OperationSpec
from lakeward.engine.task.verification import check_changes, check_digest
from lakeward.format.file_name import parse_native_log
from lakeward.format.log.change_log import ChangedRows, ChangeLogWriter, read_changes
from lakeward.format.log.native_log.change_file import NativeChangeWriter, read_native_changes
from lakeward.format.supplemental_logging import SupplementalLogging
from lakeward.merge.digest import Digest
from lakeward.storage.storage import Storage


class ChangeLogOutput:
    """One such log. `close` it before its sink, and `verify` it afterwards."""

    def __init__(
        self,
        storage: Storage,
        spec: OperationSpec,
        mode: SupplementalLogging,
        writer: ChangeLogWriter | NativeChangeWriter,
        task_attempt: int,
    ) -> None:
        self._storage = storage
        self._name = spec.change_log_name(task_attempt)
        self._path = output_path(storage, spec.place, self._name)
        self._verifies = spec.verify
        self._digest = Digest()
        self._mode = mode
        self._spec = spec
        self._writer = writer
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

    def verify(self, *, changes_made: int) -> None:
        """Read the file back and judge it."""
        read_back = Digest()
        with self._storage.open_input(self._path) as file:
            for records in self._records(file):
                read_back.update(records)
        check_digest(merged=self._digest.hexdigest, written=read_back.hexdigest)
        check_changes(changes_made=changes_made, changes_written=self._changes)

    def _records(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        name, of = parse_native_log(self._name), self._spec.slice
        if name is None:
            return read_changes(file, self._size, name=self._name)
        return read_native_changes(
            file,
            self._size,
            name,
            mode=self._mode,
            table_schema_json=of.schema,
            where=self._name,
            bytes_max=of.budget.batch,
        )


@contextmanager
def open_change_log(
    storage: Storage,
    spec: OperationSpec,
    task_attempt: int,
    *,
    writing: Callable[[BinaryIO], BinaryIO] = lambda sink: sink,
) -> Iterator[ChangeLogOutput | None]:
    """None where the table captures no changes.

    Args:
        writing: wraps the file for its writer.
    """
    mode = spec.supplemental_logging
    if mode is None:
        yield None
        return
    of = spec.slice
    with open_operation_output(storage, spec.place, spec.change_log_name(task_attempt)) as output:
        sink = writing(output)
        if not spec.native:
            inline = ChangeLogWriter(
                sink,
                mode=mode,
                instant=of.instant,
                table_schema_json=of.schema,
                block_bytes=of.budget.change_block,
            )
            yield ChangeLogOutput(storage, spec, mode, inline, task_attempt)
            return
        with NativeChangeWriter(
            sink,
            mode=mode,
            instant=of.instant,
            table_schema_json=of.schema,
            codec=spec.codec,
            row_group_bytes=of.budget.change_block,
        ) as native:
            yield ChangeLogOutput(storage, spec, mode, native, task_attempt)

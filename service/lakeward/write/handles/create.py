"""A new file group: sorted rows become one base file, or several where one would grow too large.

    <uuid>-0_<token>_<instant>.parquet   a … f
    <uuid>-1_<token>_<instant>.parquet   g … m       the next file: a file group of its own, and the same token

Deletes among the rows are of keys that nothing is known of, and go nowhere; Hudi's writers count them in the stats of
the file that they came to.

Touches: the files, where `task/operation_output` says.
Keeps:   1. no key is in two files, and the keys of one file are all before those of the next;
         2. a file says that it is sorted only if no key is in it twice;
         3. a result is returned only for files that read back as what they were given;
         4. where no row came there is no file.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lakeward.format.avro.schema import required_columns
from lakeward.format.file_name import BaseFileName
from lakeward.format.metadata.base_file_stats import columns_to_watch, read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.merge.digest import Digest
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD
from lakeward.storage.storage import Storage
from lakeward.task.operation_output import open_operation_output, output_path
from lakeward.task.verification import check_digest
from lakeward.write.handles.incoming import IncomingRows
from lakeward.write.handles.key_changes import KeyChangesFile
from lakeward.write.handles.stats import created_stat
from lakeward.write.handles.table_rows import REPEATED, TableRows
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import WriteContext, WriteTarget, WrittenFile

_ROWS_AT_ONCE = 8_192
"""After so many rows at the latest a file's size is looked at."""
_WEIGHINGS = 16
"""At most so often, and as often again as rows shrink by being encoded: each time waits for the encoder."""
_FIRST = "-0"


def create(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    rows: Iterable[IncomingRows],
    task_attempt: int,
    keys: KeyChangesFile | None,
) -> tuple[WrittenFile, ...]:
    """Write the rows into new base files. Raises `VerificationFailed`, and what `open_operation_output` raises."""
    written: list[WrittenFile] = []
    file: _BaseFile | None = None
    deletes = 0
    with ExitStack() as open_file:
        for came in _in_parts(rows):
            deletes += int(came.is_delete.sum())
            part = came.rows()
            if part.batch.num_rows == 0:
                continue
            if file is not None and target.rolls_over and not came.repeats[0] and file.is_full:
                written.append(file.close(deletes=0))
                open_file.close()
                file = None
            if file is None:
                file = open_file.enter_context(_BaseFile(storage, context, target, len(written), task_attempt))
            file.write(part)
            if keys is not None:
                keys.add(part.batch.column(RECORD_KEY), file.file_id)
        if file is not None:
            written.append(file.close(deletes=deletes))
    return tuple(written)


def _in_parts(rows: Iterable[IncomingRows]) -> Iterator[IncomingRows]:
    """The same rows some thousands at a time; no part begins with the key that the one before ended with, unless so
    many rows have it."""
    for came in rows:
        start = 0
        while start < came.batch.num_rows:
            end = min(start + _ROWS_AT_ONCE, came.batch.num_rows)
            fresh = np.flatnonzero(~came.repeats[start + 1 : end + 1])
            if end < came.batch.num_rows and came.repeats[end] and len(fresh):
                end = start + 1 + int(fresh[-1])
            yield came.part(slice(start, end))
            start = end


class _BaseFile:
    """One file that is being written. A context manager; `close` it, or it is no result."""

    def __init__(
        self, storage: Storage, context: WriteContext, target: WriteTarget, number: int, task_attempt: int
    ) -> None:
        assert target.file_id.endswith(_FIRST)
        self._started = time.monotonic()
        self._storage = storage
        self._context = context
        self._target = target
        self.file_id = f"{target.file_id.removesuffix(_FIRST)}-{number}"
        self._place = context.place(target)
        self._name = BaseFileName(self.file_id, self._place.token(task_attempt), context.instant).text
        self._rows = TableRows(context, target, for_log=False)
        self._is_sorted = True
        self._digest = Digest()
        self._unweighed_bytes = 0
        self._open = ExitStack()
        indexed = context.indexed.columns if context.indexed is not None else ()
        self._ranges = ColumnRangeAccumulator(columns_to_watch(indexed, self._rows.schema), self._rows.schema)

    def __enter__(self) -> Self:
        context = self._context
        sink = self._open.enter_context(open_operation_output(self._storage, self._place, self._name))
        self._writer = self._open.enter_context(
            BaseFileWriter(
                sink,
                self._rows.schema,
                file_name=self._name,
                codec=context.codec,
                keys_expected=self._target.rows_expected,
                required=required_columns(context.schema),
                row_group_bytes=context.budget.row_group,
                dictionaries=REPEATED,
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    @property
    def is_full(self) -> bool:
        """It is as large as files should be, as far as can be told without asking all the time."""
        if self._unweighed_bytes < self._context.sizes.max_file // _WEIGHINGS:
            return False
        self._unweighed_bytes = 0
        return self._writer.estimate_size() >= self._context.sizes.max_file

    def write(self, part: IncomingRows) -> None:
        rows = self._rows.of(part.batch)
        if part.repeats.any():
            self._is_sorted = False
        if self._context.verify:
            self._digest.update(rows)
        self._ranges.add(rows)
        self._writer.write(rows)
        self._unweighed_bytes += rows.nbytes

    def close(self, *, deletes: int) -> WrittenFile:
        """Write the footer, and read the file back."""
        stats = self._writer.close(is_sorted=self._is_sorted)
        self._open.close()
        path = output_path(self._storage, self._place, self._name)
        if self._context.verify:
            self._verify(path)
        seconds = time.monotonic() - self._started
        stat = created_stat(
            self._target,
            file_id=self.file_id,
            name=self._name,
            size_bytes=stats.size_bytes,
            rows=stats.rows,
            deletes=deletes,
            seconds=seconds,
        )
        return WrittenFile(self._name, stats.size_bytes, stat, self._column_stats(path), replaces_base_file=False)

    def _verify(self, path: str) -> None:
        read_back = Digest()
        names = [column for column in self._rows.schema if column.name != FILE_NAME_FIELD]
        budget = self._context.budget
        # What could be written can be read back: its pages are no larger than a row group and the batch that filled it.
        bytes_max = budget.row_group + budget.batch
        with self._storage.open_input(path) as source:
            for batch in open_base_file(source, pa.schema(names), name=self._name, bytes_max=bytes_max):
                read_back.update(batch)
        check_digest(self._digest.hexdigest, read_back.hexdigest)
        assert read_back.rows == self._digest.rows

    def _column_stats(self, path: str) -> tuple[ColumnStatsRecord, ...]:
        indexed = self._context.indexed
        if indexed is None:
            return ()
        seen = self._ranges.ranges
        with self._storage.open_input(path) as source:
            found = read_column_stats(source, indexed.columns, file_name=self._name, version=indexed.version, seen=seen)
        return tuple(found)

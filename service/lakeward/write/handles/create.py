"""A new file group: sorted rows become one base file, or several where one would grow too large.

    <uuid>-0_<token>_<instant>.parquet   a … f
    <uuid>-1_<token>_<instant>.parquet   g … m       the next file: a file group of its own, and the same token

Deletes among the rows are of keys that nothing is known of, and go nowhere; Hudi's writers count them in the stats of
the file that they were sent to.

Touches: the files, where `engine/task/operation_output` says, and that of their keys.
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

from lakeward.format.avro.schema import required_columns
from lakeward.format.file_name import BaseFileName
from lakeward.storage.storage import Storage
from lakeward.write.handles.base_file_output import BaseFileOutput
from lakeward.write.handles.incoming_rows import IncomingRows
from lakeward.write.handles.key_changes import open_key_changes
from lakeward.write.handles.stats import created_stat
from lakeward.write.handles.table_rows import ONE_VALUE, TableRows
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import TargetResult, WriteContext, WriteTarget, WrittenFile

_ROWS_AT_ONCE = 8_192
"""After so many rows at the latest a file's size is looked at."""
_FIRST = "-0"


def create(
    storage: Storage, context: WriteContext, target: WriteTarget, rows: Iterable[IncomingRows], task_attempt: int
) -> TargetResult:
    """Write the rows into new base files. Raises `VerificationFailed`, and what `open_operation_output` raises."""
    written: list[WrittenFile] = []
    file: _File | None = None
    deletes = 0
    wanted = context.wants_keys
    with (
        open_key_changes(storage, context.place(target), task_attempt, wanted=wanted) as keys,
        ExitStack() as open_file,
    ):
        for came in _in_parts(rows):
            deletes += int(came.is_delete.sum())
            part = came.rows()
            if part.batch.num_rows == 0:
                continue
            if file is not None and target.rolls_over and not came.repeats[0] and file.is_full:
                written.append(file.finish(deletes=0))
                open_file.close()
                file = None
            if file is None:
                file = open_file.enter_context(_File(storage, context, target, len(written), task_attempt))
            file.write(part)
            if keys is not None:
                keys.add(part.batch.column(RECORD_KEY), file.file_id)
        if file is not None:
            written.append(file.finish(deletes=deletes))
    return TargetResult(target.index, target.partition_path, tuple(written), keys.path if keys is not None else None)


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


class _File:
    """One of the files. A context manager; `finish` it, or it is no result."""

    def __init__(
        self, storage: Storage, context: WriteContext, target: WriteTarget, number: int, task_attempt: int
    ) -> None:
        assert target.file_id.endswith(_FIRST)
        self._started = time.monotonic()
        self._target = target
        self.file_id = f"{target.file_id.removesuffix(_FIRST)}-{number}"
        place = context.place(target)
        self._rows = TableRows(context, target, with_dictionaries=True)
        self._is_sorted = True
        self._captures_changes = context.supplemental_logging is not None
        self._output = BaseFileOutput(
            storage,
            context,
            place,
            BaseFileName(self.file_id, place.token(task_attempt), context.instant).text,
            required=required_columns(context.schema),
            keys_expected=target.rows_expected,
            dictionaries=ONE_VALUE,
        )

    def __enter__(self) -> Self:
        self._output.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, traceback)

    @property
    def is_full(self) -> bool:
        return self._output.is_full

    def write(self, part: IncomingRows) -> None:
        self._is_sorted &= not part.repeats.any()
        self._output.write(self._rows.of(part.batch))

    def finish(self, *, deletes: int) -> WrittenFile:
        found = self._output.finish(is_sorted=self._is_sorted)
        stat = created_stat(
            self._target,
            file_id=self.file_id,
            name=found.name,
            size_bytes=found.size_bytes,
            rows=found.rows,
            # Where they are counted, readers of changes look for a log of changes, and fail.
            deletes=0 if self._captures_changes else deletes,
            seconds=time.monotonic() - self._started,
        )
        return found.written(stat)

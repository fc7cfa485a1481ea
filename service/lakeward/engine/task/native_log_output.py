"""The native logs that one task writes on a file slice: of one flush a file of rows, a file of deletes, or both.

    <file id>_<token>_<instant>_1.log.parquet        a … f        _1.deletes.parquet    c … e
    <file id>_<token>_<instant>_2.log.parquet        g … m

Where either file is as large as files should be, both end, and what comes goes into the next version. Versions count
from 1: no other attempt of the task has its token. What a LOG operation writes is one flush.

Touches: the files, where `engine/task/operation_output` says.
Keeps:   1. of a flush without deletes there is a file of rows only, of one without rows a file of deletes only, and
            without both there is none;
         2. both files of a flush have one version, that of rows comes first, and nothing is added to either once one
            is full;
         3. of a file of deletes the statistics say that each indexed column is empty: without them readers would take
            the slice for one that nothing is known of;
         4. what is held is what the two writers hold.
Source:  HoodieNativeLogFormatWriter, HoodieNativeLogAppendHandle (Hudi's master of July and August 2026).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import BinaryIO, Generic, Self, TypeVar

import pyarrow as pa

from lakeward.engine.task.operation_output import (
    FileStatistics,
    OutputPlace,
    SizeWatch,
    open_operation_output,
    output_path,
)
from lakeward.format.file_name import NativeLogKind, NativeLogName
from lakeward.format.log.log_tail import LogTailBuilder, TailPlace
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns


@dataclass(frozen=True, slots=True)
class NativeLogForm:
    """What the files of an output have in common."""

    file_id: str
    schema: pa.Schema
    """The rows' columns, meta columns included."""
    footer: NativeLogFooter
    ordering_fields: tuple[str, ...]
    """The table's; empty where rows are merged by commit time."""
    indexed: IndexedColumns | None
    """The columns of which the metadata table wants statistics."""
    file_bytes_max: int | None
    """About so large is the largest file; None: there is one of each kind, however large."""
    row_group_bytes: int
    codec: str = "zstd"
    dictionaries: tuple[str, ...] = ()
    """Columns of strings that come as dictionaries."""
    tails: TailPlace | None = None
    """The place of the first file among the slice's logs; None where logs get no tails. What an output of one flush was
    merged of, the last file covers, with the files before it."""


@dataclass(frozen=True, slots=True)
class NativeLogFile:
    """A file that is written, and that no reader sees yet."""

    name: NativeLogName
    count: int
    """Rows, or deletes."""
    size_bytes: int
    column_stats: tuple[ColumnStatsRecord, ...]
    begins_flush: bool
    """It is the first file of its flush."""

    @property
    def rows(self) -> int:
        return self.count if self.name.kind is NativeLogKind.DATA else 0

    @property
    def deletes(self) -> int:
        return self.count if self.name.kind is NativeLogKind.DELETES else 0


_Writer = TypeVar("_Writer", NativeDataWriter, NativeDeleteWriter)


class NativeLogOutput:
    """Rows and deletes come in the order of their keys, each of both, and a key comes once. A context manager; `finish`
    it, or there is no result."""

    def __init__(
        self,
        storage: Storage,
        place: OutputPlace,
        form: NativeLogForm,
        *,
        task_attempt: int,
        writing: Callable[[BinaryIO], BinaryIO] = lambda sink: sink,
    ) -> None:
        """
        Args:
            writing: wraps the file for its writer.
        """
        self._storage = storage
        self._writing = writing
        self._place = place
        self._form = form
        self._token = place.token(task_attempt)
        self._open = ExitStack()
        self._version = 1
        self._rows: _OpenFile[NativeDataWriter] | None = None
        self._deletes: _OpenFile[NativeDeleteWriter] | None = None
        self._statistics = FileStatistics(form.indexed, form.schema)
        self._written: list[NativeLogFile] = []
        self._tails = form.tails
        """The place of the next file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def write_rows(self, rows: pa.RecordBatch, *, keys: pa.Array | None = None) -> None:
        """Append rows of the table. Raises what `open_operation_output` raises.

        Args:
            keys: of these rows, where they carry none.
        """
        if not rows.num_rows:
            return
        self._roll_over()
        if self._rows is None:
            self._rows = self._begin_rows()
        self._statistics.add(rows)
        self._rows.writer.write(rows, keys=keys)
        self._rows.add(rows.num_rows, rows.nbytes)

    def write_deletes(self, deletes: Tombstones) -> None:
        """Append deletes. Raises what `write_rows` and `NativeDeleteWriter.write` raise."""
        if not len(deletes.keys):
            return
        self._roll_over()
        if self._deletes is None:
            self._deletes = self._begin_deletes()
        self._deletes.writer.write(deletes.keys, deletes.ordering)
        self._deletes.add(len(deletes.keys), deletes.nbytes)

    def finish(self) -> tuple[NativeLogFile, ...]:
        """End the last flush; the files of all."""
        self._flush()
        return tuple(self._written)

    def _roll_over(self) -> None:
        if any(file is not None and file.is_full for file in (self._rows, self._deletes)):
            self._flush()

    def _flush(self) -> None:
        files = [file for file in (self._rows, self._deletes) if file is not None]
        sizes = [self._close(file, is_last=file is files[-1]) for file in files]
        self._open.close()
        for file, size_bytes in zip(files, sizes, strict=True):
            statistics = self._column_stats(file.name)
            self._written.append(NativeLogFile(file.name, file.count, size_bytes, statistics, file is files[0]))
        self._rows = self._deletes = None
        self._version += 1

    def _close(self, file: _OpenFile[NativeDataWriter] | _OpenFile[NativeDeleteWriter], *, is_last: bool) -> int:
        """End the file, whose tail goes on with that of the file before it; its size."""
        place = self._tails
        if place is None or file.tail is None:
            return file.writer.close().size_bytes
        file.tail.place = place if is_last else replace(place, merged=())
        size_bytes = file.writer.close().size_bytes
        then = file.tail.place_of_next(file.name.text, size_bytes)
        if not is_last and then.goes_on is not None:
            then = replace(then, goes_on=replace(then.goes_on, covers=(*place.merged, *then.goes_on.covers)))
        self._tails = then
        return size_bytes

    def _begin_rows(self) -> _OpenFile[NativeDataWriter]:
        form, name = self._form, self._name(NativeLogKind.DATA)
        self._statistics = FileStatistics(form.indexed, form.schema)
        writer = NativeDataWriter(
            self._sink(name),
            form.schema,
            file_id=form.file_id,
            footer=form.footer,
            codec=form.codec,
            dictionaries=form.dictionaries,
            row_group_bytes=form.row_group_bytes,
            tail=(tail := self._new_tail()),
        )
        self._open.enter_context(writer)
        return _OpenFile(name, writer, form.file_bytes_max, tail)

    def _begin_deletes(self) -> _OpenFile[NativeDeleteWriter]:
        form, name = self._form, self._name(NativeLogKind.DELETES)
        writer = NativeDeleteWriter(
            self._sink(name),
            footer=form.footer,
            ordering_fields=form.ordering_fields,
            codec=form.codec,
            row_group_bytes=form.row_group_bytes,
            tail=(tail := self._new_tail()),
        )
        self._open.enter_context(writer)
        return _OpenFile(name, writer, form.file_bytes_max, tail)

    def _new_tail(self) -> LogTailBuilder | None:
        return None if self._tails is None else LogTailBuilder(lists_keys=False)

    def _name(self, kind: NativeLogKind) -> NativeLogName:
        return NativeLogName(self._form.file_id, self._token, self._form.footer.instant, self._version, kind)

    def _sink(self, name: NativeLogName) -> BinaryIO:
        return self._writing(self._open.enter_context(open_operation_output(self._storage, self._place, name.text)))

    def _column_stats(self, name: NativeLogName) -> tuple[ColumnStatsRecord, ...]:
        indexed = self._form.indexed
        if name.kind is NativeLogKind.DATA:
            return self._statistics.records(self._storage, output_path(self._storage, self._place, name.text))
        if indexed is None:
            return ()
        return tuple(log_column_stats(name.text, {}, columns=indexed.columns, version=indexed.version))


class _OpenFile(Generic[_Writer]):
    """A file that is being written."""

    def __init__(
        self, name: NativeLogName, writer: _Writer, bytes_max: int | None, tail: LogTailBuilder | None
    ) -> None:
        self.name = name
        self.tail = tail
        self.writer: _Writer = writer
        self.count = 0
        self._size = None if bytes_max is None else SizeWatch(bytes_max)

    def add(self, count: int, size_bytes: int) -> None:
        """So much was written."""
        self.count += count
        if self._size is not None:
            self._size.add(size_bytes)

    @property
    def is_full(self) -> bool:
        return self._size is not None and self._size.is_full(self.writer.estimate_size)

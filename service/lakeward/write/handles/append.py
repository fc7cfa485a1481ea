"""Logs on a file slice: sorted rows and deletes, in the form of the table's version.

    inline logs    one file with data blocks, then delete blocks           up to table version 9
    native logs    a file of rows, a file of deletes, further ones of each from version 10 on

A key has one record, by the fold of `handles/incoming`: then it does not matter to a reader that deletes come
behind the rows. A delete by the operation has no ordering value, so it wins over whatever is there; one by a column
brings the value of its row along, where the table uses event time. Positions in base files are left out, as by Hudi
wherever it has not read the base file.

What passes is counted into digests, by which the files are judged that it was written to. Of keys that are new to the
table, and of those of buckets, the record index learns that they are here.

Touches: the files, where `engine/task/operation_output` says, which are read back, and that of their keys.
Keeps:   1. records come in the order of their keys, rows and deletes each;
         2. a result is returned only for files that read back as what they were given;
         3. where nothing came there is no file;
         4. one form only is written, that of the table's version;
         5. rows are in data blocks, and deletes in delete blocks behind them;
         6. the file is a result only if it reads back as what it was given;
         7. each file has a write stat of its own, rows before deletes, and the time that a flush took stands in that of
            its first file;
         8. the files are a result only if they read back as what they were given;
         9. a log that does not read back as what it was given is `VerificationFailed`.
Source:  HoodieAppendHandle (Hudi 1.2 and its master of August 2026), HoodieNativeLogAppendHandle (Hudi's master of July
         and August 2026); tables of Hudi 1.2.0 and 1.0.2
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import pyarrow as pa

from lakeward.engine.task.native_log_output import NativeLogFile, NativeLogForm, NativeLogOutput
from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.record_digests import RecordDigests
from lakeward.engine.task.verification import check_digest
from lakeward.engine.task.waiting_deletes import WaitingDeletes
from lakeward.format.file_name import LogFileName
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.log_tail import LogTailBuilder
from lakeward.format.log.log_writer import LogFileStats, LogFileWriter, log_block_schema
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.projection import project
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.index.bloom.log_tails import place_of_next
from lakeward.merge.rules.ordering_type import ordering_columns, ordering_type
from lakeward.merge.rules.records import delete_ordering
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.log_scan import read_heads
from lakeward.storage.storage import Storage
from lakeward.write.handles.deletes import tombstones_of
from lakeward.write.handles.incoming_rows import IncomingRows
from lakeward.write.handles.key_changes import KeyChangesFile, open_key_changes
from lakeward.write.handles.stats import appended_stat
from lakeward.write.handles.table_rows import TableRows
from lakeward.write.keyed_rows import IS_NEW, RECORD_KEY
from lakeward.write.target import TargetResult, WriteContext, WriteTarget, WrittenFile

_VERSION = 1  # from table version 8 on every log file has an instant of its own, and none a second version
_REMEDY = "Correct the row in the input, and write again."


class AppendedRecords:
    """Iterate once."""

    def __init__(
        self, context: WriteContext, target: WriteTarget, coming: Iterable[IncomingRows], keys: KeyChangesFile | None
    ) -> None:
        """
        Args:
            coming: folded, so that each key is there once.
        """
        self._context = context
        self._target = target
        self._coming = coming
        self._keys = keys
        self._rows = TableRows(context, target, with_file_name=True)
        self.schema = self._rows.schema
        """The table's, with its meta columns."""
        self.ordering_type = ordering_type(context.rules, self.schema)
        self.digests = RecordDigests(self.ordering_type)
        """What has passed, where the write verifies."""
        self.inserted = 0
        """Rows of new keys that have passed."""

    def __iter__(self) -> Iterator[pa.RecordBatch | Tombstones]:
        """Rows and deletes, each in the order of their keys; of one batch that came the rows first. Raises
        `Unsupported` for what no log can hold."""
        for came in self._coming:
            kept, gone = came.rows().batch, came.deletes().batch
            if kept.num_rows:
                yield self._of_rows(kept)
            if gone.num_rows:
                yield self._of_deletes(gone)

    def _of_rows(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._rows.of(kept)
        if self._context.verify:
            self.digests.rows.update(rows)
        keys = kept.column(RECORD_KEY)
        if self._target.takes_new_keys:
            keys = keys.filter(kept.column(IS_NEW))
            self.inserted += len(keys)
        elif not (self._target.counts_as_updates or self._context.notes_updates):
            return rows
        if self._keys is not None:
            self._keys.add(keys, self._target.file_id)
        return rows

    def _of_deletes(self, gone: pa.RecordBatch) -> Tombstones:
        deletes = tombstones_of(gone, self._context, self.ordering_type)
        if self._context.verify:
            self.digests.update_deletes(deletes)
        if self._keys is not None:
            self._keys.add(deletes.keys, None)
        return deletes


def check_logs(
    storage: Storage, context: WriteContext, paths: Sequence[str], records: AppendedRecords, *, bytes_max: int
) -> None:
    """Raises `VerificationFailed`.

    Args:
        records: those that were written, all of them.
        bytes_max: what a batch may take when it is decoded.

    The logs that a handle wrote, inline or native, read back and held against the records that were given.
    """
    read_back = RecordDigests(records.ordering_type)
    ordering = ordering_columns(context.rules, records.schema)
    for path in paths:
        for block, file in read_heads(storage, context.base_path, path):
            if not isinstance(block, LogBlock):
                continue  # what it held is not in the digest
            if block.type is BlockType.DELETE:
                for found in read_deletes(file, block, ordering, bytes_max=bytes_max):
                    values = delete_ordering(
                        found.ordering,
                        records.ordering_type,
                        wrappers=found.wrappers,
                        rows=len(found.keys),
                        source=block.where,
                    )
                    read_back.update_deletes(Tombstones(found.keys, values))
                continue
            from_avro = block.type is not BlockType.PARQUET_DATA
            for batch in read_data_block(file, block, bytes_max=bytes_max):
                read_back.rows.update(project(batch, records.schema, where=block.where, from_avro=from_avro))
    check_digest(merged=records.digests.hexdigest, written=read_back.hexdigest)


def write_native_logs(
    storage: Storage, context: WriteContext, target: WriteTarget, records: AppendedRecords, task_attempt: int
) -> tuple[WrittenFile, ...]:
    """Write the logs. Raises `VerificationFailed`, and what `AppendedRecords` and `open_operation_output` raise.

    Native logs on a slice: a file of rows and a file of deletes, and the next version of both where one grows too
    large.
    """
    started = time.monotonic()
    form = NativeLogForm(
        file_id=target.file_id,
        schema=records.schema,
        footer=NativeLogFooter(context.instant, log_block_schema(context.schema)),
        ordering_fields=tuple(ordering_columns(context.rules, records.schema).names),
        indexed=context.indexed,
        file_bytes_max=context.sizes.max_file,
        row_group_bytes=context.budget.row_group,
        codec=context.codec,
        tails=None if target.before is None else place_of_next(storage, target.before),
    )
    with NativeLogOutput(storage, context.place(target), form, task_attempt=task_attempt) as output:
        for part in records:
            if isinstance(part, Tombstones):
                output.write_deletes(part)
            else:
                output.write_rows(part)
        files = output.finish()
    if context.verify:
        paths = [output_path(storage, context.place(target), file.name.text) for file in files]
        # What could be written can be read back: pages are no larger than a row group and the batch that filled it.
        check_logs(storage, context, paths, records, bytes_max=context.budget.row_group + context.budget.batch)
    return _written(context, target, files, records.inserted, time.monotonic() - started)


def _written(
    context: WriteContext, target: WriteTarget, files: Sequence[NativeLogFile], inserted: int, seconds: float
) -> tuple[WrittenFile, ...]:
    """
    Args:
        inserted: rows of new keys in all files; the first files get them, as which rows a file has is not counted.
    """
    flushes = sum(file.begins_flush for file in files)
    names = [file.name.text for file in files]
    found = []
    for number, (file, name) in enumerate(zip(files, names, strict=True)):
        stat = appended_stat(
            target,
            instant=context.instant,
            name=name,
            size_bytes=file.size_bytes,
            rows=file.rows,
            inserted=min(inserted, file.rows),
            deletes=file.deletes,
            seconds=seconds / flushes if file.begins_flush else 0.0,
            version=file.name.version,
            names_before=names[:number],
        )
        inserted -= stat.num_inserts or 0
        found.append(WrittenFile(name, file.size_bytes, stat, file.column_stats, replaces_base_file=False))
    return tuple(found)


def write_inline_log(
    storage: Storage, context: WriteContext, target: WriteTarget, records: AppendedRecords, task_attempt: int
) -> tuple[WrittenFile, ...]:
    """Write the log. Raises `VerificationFailed`, and what `AppendedRecords` and `open_operation_output` raise.

    An inline log on a slice: rows in data blocks, then the deletes, with the headers that Hudi's writers need.
    """
    started = time.monotonic()
    place, indexed = context.place(target), context.indexed
    name = LogFileName(target.file_id, context.instant, _VERSION, place.token(task_attempt)).text
    ranges = ColumnRangeAccumulator(indexed.columns if indexed is not None else (), records.schema)
    tail = None if target.before is None else LogTailBuilder(place_of_next(storage, target.before))
    with open_operation_output(storage, place, name) as sink:
        stats = _write(sink, context, target, records, ranges, tail)
    if context.verify:
        check_logs(storage, context, [output_path(storage, place, name)], records, bytes_max=context.budget.batch)
    stat = appended_stat(
        target,
        instant=context.instant,
        name=name,
        size_bytes=stats.size_bytes,
        rows=stats.rows,
        inserted=records.inserted,
        deletes=stats.deletes,
        seconds=time.monotonic() - started,
    )
    column_stats = []
    if indexed is not None:
        column_stats = log_column_stats(name, ranges.ranges, columns=indexed.columns, version=indexed.version)
    return (WrittenFile(name, stats.size_bytes, stat, tuple(column_stats), replaces_base_file=False),)


def _write(
    sink: BinaryIO,
    context: WriteContext,
    target: WriteTarget,
    records: AppendedRecords,
    ranges: ColumnRangeAccumulator,
    tail: LogTailBuilder | None,
) -> LogFileStats:
    writer = LogFileWriter(
        sink,
        records.schema,
        instant=context.instant,
        schema_json=log_block_schema(context.schema),
        block_type=BlockType.AVRO_DATA,
        block_bytes=min(context.sizes.log_block, context.budget.log_block),
        remedy=_REMEDY,
        tail=tail,
    )
    waiting = WaitingDeletes(writer, partition_path=target.partition_path, bytes_max=context.budget.window)
    for part in records:
        if isinstance(part, Tombstones):
            waiting.add(part)
        else:
            ranges.add(part)
            writer.write(part)
    waiting.write()
    return writer.close()


def append(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    rows: Iterable[IncomingRows],
    task_attempt: int,
) -> TargetResult:
    """Write the rows and deletes into logs. Raises `VerificationFailed`, `Unsupported` for a row that no log can hold,
    and what `open_operation_output` raises."""
    coming = iter(rows)
    first = next(coming, None)
    if first is None:
        return TargetResult(target.index, target.partition_path, ())
    write = write_native_logs if context.has_native_logs else write_inline_log
    with open_key_changes(storage, context.place(target), task_attempt, wanted=context.wants_keys) as keys:
        records = AppendedRecords(context, target, chain((first,), coming), keys)
        files = write(storage, context, target, records, task_attempt)
    return TargetResult(target.index, target.partition_path, files, keys.path if keys is not None else None)

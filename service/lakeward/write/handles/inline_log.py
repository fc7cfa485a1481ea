"""An inline log on a slice: rows in data blocks, then the deletes, with the headers that Hudi's writers need.

Touches: the file, where `engine/task/operation_output` says.
Keeps:   1. rows are in data blocks, and deletes in delete blocks behind them;
         2. the file is a result only if it reads back as what it was given.
Source:  HoodieAppendHandle (Hudi 1.2); tables of Hudi 1.2.0 and 1.0.2.
"""

from __future__ import annotations

import time
from typing import BinaryIO

from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.waiting_deletes import WaitingDeletes
from lakeward.format.file_name import LogFileName
from lakeward.format.log.block import BlockType
from lakeward.format.log.writer import LogFileStats, LogFileWriter, log_block_schema
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.storage.storage import Storage
from lakeward.write.handles.appended_records import AppendedRecords
from lakeward.write.handles.log_check import check_logs
from lakeward.write.handles.stats import appended_stat
from lakeward.write.target import WriteContext, WriteTarget, WrittenFile

_VERSION = 1  # from table version 8 on every log file has an instant of its own, and none a second version
_REMEDY = "Correct the row in the input, and write again."


def write_inline_log(
    storage: Storage, context: WriteContext, target: WriteTarget, records: AppendedRecords, task_attempt: int
) -> tuple[WrittenFile, ...]:
    """Write the log. Raises `VerificationFailed`, and what `AppendedRecords` and `open_operation_output` raise."""
    started = time.monotonic()
    place, indexed = context.place(target), context.indexed
    name = LogFileName(target.file_id, context.instant, _VERSION, place.token(task_attempt)).text
    ranges = ColumnRangeAccumulator(indexed.columns if indexed is not None else (), records.schema)
    with open_operation_output(storage, place, name) as sink:
        stats = _write(sink, context, target, records, ranges)
    if context.verify:
        check_logs(storage, context, [output_path(storage, place, name)], records, bytes_max=context.budget.batch)
    stat = appended_stat(
        target,
        instant=context.instant,
        name=name,
        size_bytes=stats.size_bytes,
        rows=stats.rows,
        deletes=stats.deletes,
        seconds=time.monotonic() - started,
    )
    column_stats = []
    if indexed is not None:
        column_stats = log_column_stats(name, ranges.ranges, columns=indexed.columns, version=indexed.version)
    return (WrittenFile(name, stats.size_bytes, stat, tuple(column_stats), replaces_base_file=False),)


def _write(
    sink: BinaryIO, context: WriteContext, target: WriteTarget, records: AppendedRecords, ranges: ColumnRangeAccumulator
) -> LogFileStats:
    writer = LogFileWriter(
        sink,
        records.schema,
        instant=context.instant,
        schema_json=log_block_schema(context.schema),
        block_type=BlockType.AVRO_DATA,
        block_bytes=min(context.sizes.log_block, context.budget.log_block),
        remedy=_REMEDY,
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

"""A log on a file slice: sorted rows in data blocks, then the deletes, with the headers that Hudi's writers need.

Of one key there is one record, by the fold of `handles/incoming`: then it does not matter to a reader that deletes come
behind the rows. A delete by the operation has no ordering value, so it wins over whatever is there; one by a column
brings the value of its row along, where the table goes by event time. Positions in base files are left out, as by Hudi
wherever it has not read the base file.

Touches: the file, where `task/operation_output` says.
Keeps:   1. records come in the order of their keys, rows and deletes each;
         2. a result is returned only for a file that reads back as what it was given;
         3. where nothing came there is no file.
Source:  HoodieAppendHandle (Hudi 1.2); tables of Hudi 1.2.0 and 1.0.2.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain
from typing import BinaryIO

from lakeward.format.file_name import LogFileName
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.writer import LogFileStats, LogFileWriter, log_block_schema
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.projection import project
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.records import delete_ordering
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.log_scan import read_heads
from lakeward.storage.storage import Storage
from lakeward.task.operation_output import open_operation_output, output_path
from lakeward.task.record_digests import RecordDigests
from lakeward.task.verification import check_digest
from lakeward.task.waiting_deletes import WaitingDeletes
from lakeward.write.handles.deletes import tombstones_of
from lakeward.write.handles.incoming import IncomingRows
from lakeward.write.handles.key_changes import KeyChangesFile, open_key_changes
from lakeward.write.handles.stats import appended_stat
from lakeward.write.handles.table_rows import TableRows
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import TargetResult, WriteContext, WriteTarget, WrittenFile

_VERSION = 1  # from table version 8 on every log file has an instant of its own, and none a second version
_REMEDY = "Correct the row in the input, and write again."


def append(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    rows: Iterable[IncomingRows],
    task_attempt: int,
) -> TargetResult:
    """Write the rows and deletes into a log. Raises `VerificationFailed`, `Unsupported` for a row that no log can hold,
    and what `open_operation_output` raises."""
    coming = iter(rows)
    first = next(coming, None)
    if first is None:
        return TargetResult(target.index, target.partition_path, ())
    started = time.monotonic()
    place = context.place(target)
    name = LogFileName(target.file_id, context.instant, _VERSION, place.token(task_attempt)).text
    log = _Log(context, target)
    with (
        open_key_changes(storage, place, task_attempt, wanted=context.wants_keys) as keys,
        open_operation_output(storage, place, name) as sink,
    ):
        stats = log.write(sink, chain((first,), coming), keys)
    path = output_path(storage, place, name)
    if context.verify:
        log.verify(storage, path)
    stat = appended_stat(
        target,
        instant=context.instant,
        name=name,
        size_bytes=stats.size_bytes,
        rows=stats.rows,
        deletes=stats.deletes,
        seconds=time.monotonic() - started,
    )
    file = WrittenFile(name, stats.size_bytes, stat, log.column_stats(name), replaces_base_file=False)
    return TargetResult(target.index, target.partition_path, (file,), keys.path if keys is not None else None)


class _Log:
    def __init__(self, context: WriteContext, target: WriteTarget) -> None:
        self._context = context
        self._target = target
        self._rows = TableRows(context, target, with_file_name=True)
        self._ordering_type = ordering_type(context.rules, self._rows.schema)
        indexed = context.indexed.columns if context.indexed is not None else ()
        self._ranges = ColumnRangeAccumulator(indexed, self._rows.schema)
        self._written = RecordDigests(self._ordering_type)

    def write(self, sink: BinaryIO, coming: Iterable[IncomingRows], keys: KeyChangesFile | None) -> LogFileStats:
        context, target = self._context, self._target
        writer = LogFileWriter(
            sink,
            self._rows.schema,
            instant=context.instant,
            schema_json=log_block_schema(context.schema),
            block_type=BlockType.AVRO_DATA,
            block_bytes=min(context.sizes.log_block, context.budget.log_block),
            remedy=_REMEDY,
        )
        waiting = WaitingDeletes(writer, partition_path=target.partition_path, bytes_max=context.budget.window)
        for came in coming:
            kept = came.rows().batch
            if kept.num_rows:
                rows = self._rows.of(kept)
                if context.verify:
                    self._written.rows.update(rows)
                self._ranges.add(rows)
                writer.write(rows)
                if keys is not None and target.counts_as_updates:
                    keys.add(kept.column(RECORD_KEY), target.file_id)
            gone = came.deletes().batch
            if gone.num_rows:
                deletes = tombstones_of(gone, context, self._ordering_type)
                if context.verify:
                    self._written.update_deletes(deletes)
                waiting.add(deletes)
                if keys is not None:
                    keys.add(deletes.keys, None)
        waiting.write()
        return writer.close()

    def verify(self, storage: Storage, path: str) -> None:
        """Read the log back, and judge it. Raises `VerificationFailed`."""
        context = self._context
        read_back = RecordDigests(self._ordering_type)
        for block, file in read_heads(storage, context.base_path, path):
            if not isinstance(block, LogBlock):
                continue  # what it held is not in the digest
            if block.type is BlockType.DELETE:
                for found in read_delete_block(file, block, bytes_max=context.budget.batch):
                    ordering = delete_ordering(
                        found.ordering,
                        self._ordering_type,
                        wrappers=found.wrappers,
                        rows=len(found.keys),
                        source=block.where,
                    )
                    read_back.update_deletes(Tombstones(found.keys, ordering))
                continue
            for batch in read_data_block(file, block, bytes_max=context.budget.batch):
                read_back.rows.update(project(batch, self._rows.schema, where=block.where, from_avro=True))
        check_digest(self._written.hexdigest, read_back.hexdigest)

    def column_stats(self, name: str) -> tuple[ColumnStatsRecord, ...]:
        indexed = self._context.indexed
        if indexed is None:
            return ()
        return tuple(log_column_stats(name, self._ranges.ranges, columns=indexed.columns, version=indexed.version))

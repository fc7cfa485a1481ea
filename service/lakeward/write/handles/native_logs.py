"""Native logs on a slice: a file of rows and a file of deletes, and the next version of both where one grows too large.

Touches: the files, where `task/operation_output` says.
Keeps:   1. each file has a write stat of its own, rows before deletes, and the time that a flush took stands in that of
            its first file;
         2. the files are a result only if they read back as what they were given.
Source:  HoodieNativeLogAppendHandle (Hudi's master of July and August 2026).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakeward.format.file_name import NativeLogKind
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.native_log.delete_file import read_native_deletes
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.log.native_log.reader import open_native_log
from lakeward.format.log.writer import log_block_schema
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.records import delete_ordering
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.storage.storage import Storage
from lakeward.task.native_log_output import NativeLogFile, NativeLogForm, NativeLogOutput
from lakeward.task.operation_output import output_path
from lakeward.task.record_digests import RecordDigests
from lakeward.task.verification import check_digest
from lakeward.write.handles.appended_records import AppendedRecords
from lakeward.write.handles.stats import appended_stat
from lakeward.write.target import WriteContext, WriteTarget, WrittenFile


def write_native_logs(
    storage: Storage, context: WriteContext, target: WriteTarget, records: AppendedRecords, task_attempt: int
) -> tuple[WrittenFile, ...]:
    """Write the logs. Raises `VerificationFailed`, and what `AppendedRecords` and `open_operation_output` raise."""
    started = time.monotonic()
    form = NativeLogForm(
        file_id=target.file_id,
        schema=records.schema,
        footer=NativeLogFooter(context.instant, log_block_schema(context.schema)),
        ordering_fields=_ordering_fields(context.rules),
        indexed=context.indexed,
        file_bytes_max=context.sizes.max_file,
        row_group_bytes=context.budget.row_group,
        codec=context.codec,
    )
    with NativeLogOutput(storage, context.place(target), form, task_attempt=task_attempt) as output:
        for part in records:
            if isinstance(part, Tombstones):
                output.write_deletes(part)
            else:
                output.write_rows(part)
        files = output.finish()
    if context.verify:
        _verify(storage, context, target, records, files)
    return _written(context, target, files, time.monotonic() - started)


def _written(
    context: WriteContext, target: WriteTarget, files: Sequence[NativeLogFile], seconds: float
) -> tuple[WrittenFile, ...]:
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
            deletes=file.deletes,
            seconds=seconds / flushes if file.begins_flush else 0.0,
            version=file.name.version,
            names_before=names[:number],
        )
        found.append(WrittenFile(name, file.size_bytes, stat, file.column_stats, replaces_base_file=False))
    return tuple(found)


def _verify(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    records: AppendedRecords,
    files: Sequence[NativeLogFile],
) -> None:
    """Read the logs back, and judge them. Raises `VerificationFailed`."""
    read_back = RecordDigests(records.ordering_type)
    for file in files:
        path = output_path(storage, context.place(target), file.name.text)
        for part in _read(storage, context, path, file, records):
            if isinstance(part, Tombstones):
                read_back.update_deletes(part)
            else:
                read_back.rows.update(part)
    check_digest(records.digests.hexdigest, read_back.hexdigest)


def _read(
    storage: Storage, context: WriteContext, path: str, file: NativeLogFile, records: AppendedRecords
) -> Iterator[pa.RecordBatch | Tombstones]:
    # What could be written can be read back: pages are no larger than a row group and the batch that filled it.
    bytes_max = context.budget.row_group + context.budget.batch
    with storage.open_input(path) as source:
        log = open_native_log(source, file.size_bytes, file.name, where=file.name.text)
        if file.name.kind is NativeLogKind.DATA:
            yield from read_data_block(source, log.block, bytes_max=bytes_max)
            return
        ordering = pa.schema([records.schema.field(name) for name in _ordering_fields(context.rules)])
        for found in read_native_deletes(source, log, ordering, bytes_max=bytes_max):
            values = delete_ordering(
                found.ordering,
                records.ordering_type,
                wrappers=found.wrappers,
                rows=len(found.keys),
                source=log.block.where,
            )
            yield Tombstones(found.keys, values)


def _ordering_fields(rules: MergeRules) -> tuple[str, ...]:
    """The fields whose values a delete brings along."""
    return rules.ordering_fields if rules.mode is MergeMode.EVENT_TIME_ORDERING else ()

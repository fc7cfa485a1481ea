"""Native logs on a slice: a file of rows and a file of deletes, and the next version of both where one grows too large.

Touches: the files, where `engine/task/operation_output` says.
Keeps:   1. each file has a write stat of its own, rows before deletes, and the time that a flush took stands in that of
            its first file;
         2. the files are a result only if they read back as what they were given.
Source:  HoodieNativeLogAppendHandle (Hudi's master of July and August 2026).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lakeward.engine.task.native_log_output import NativeLogFile, NativeLogForm, NativeLogOutput
from lakeward.engine.task.operation_output import output_path
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.log.writer import log_block_schema
from lakeward.merge.rules.ordering_type import ordering_columns
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.storage.storage import Storage
from lakeward.write.handles.appended_records import AppendedRecords
from lakeward.write.handles.log_check import check_logs
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
        ordering_fields=tuple(ordering_columns(context.rules, records.schema).names),
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
        paths = [output_path(storage, context.place(target), file.name.text) for file in files]
        # What could be written can be read back: pages are no larger than a row group and the batch that filled it.
        check_logs(storage, context, paths, records, bytes_max=context.budget.row_group + context.budget.batch)
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

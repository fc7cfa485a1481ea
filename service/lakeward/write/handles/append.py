"""Logs on a file slice: sorted rows and deletes, in the form of the table's version.

    inline logs    one file with data blocks, then delete blocks           `handles/inline_log`, up to table version 9
    native logs    a file of rows, a file of deletes, further ones of each `handles/native_logs`, from version 10 on

Of one key there is one record, by the fold of `handles/incoming`: then it does not matter to a reader that deletes come
behind the rows. A delete by the operation has no ordering value, so it wins over whatever is there; one by a column
brings the value of its row along, where the table uses event time. Positions in base files are left out, as by Hudi
wherever it has not read the base file.

Touches: the files, where `engine/task/operation_output` says, and that of their keys.
Keeps:   1. records come in the order of their keys, rows and deletes each;
         2. a result is returned only for files that read back as what they were given;
         3. where nothing came there is no file;
         4. one form only is written, that of the table's version.
Source:  HoodieAppendHandle (Hudi 1.2 and its master of August 2026); tables of Hudi 1.2.0 and 1.0.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from lakeward.storage.storage import Storage
from lakeward.write.handles.appended_records import AppendedRecords
from lakeward.write.handles.incoming import IncomingRows
from lakeward.write.handles.inline_log import write_inline_log
from lakeward.write.handles.key_changes import open_key_changes
from lakeward.write.handles.native_logs import write_native_logs
from lakeward.write.target import TargetResult, WriteContext, WriteTarget


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

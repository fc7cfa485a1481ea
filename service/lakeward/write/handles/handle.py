"""One target of a write: sorted Arrow batches in, the files of one file group out, verified, which no reader sees yet.

    CREATE   a base file, or several              `handles/create`
    MERGE    the base file of a slice again        `handles/merge`
    APPEND   logs on a slice                      `handles/append`

Rows come in `handled_schema`, by (record key as UTF-8 bytes, place in the input), and are read once. The handles know
no engine; in-process or in a task of Spark's they are called alike.

Touches: the files of the target, where `engine/task/operation_output` says, and that of the keys that came and went.
See:     docs/decisions/0058-rows-that-are-written-meet-those-that-are-there.md
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.handles.append import append
from lakeward.write.handles.create import create
from lakeward.write.handles.incoming_rows import incoming_rows
from lakeward.write.handles.merge import merge, sort
from lakeward.write.request import WriteOperation
from lakeward.write.target import HandleKind, TargetResult, WriteContext, WriteTarget


def write_target(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    rows: Iterable[pa.RecordBatch],
    task_attempt: int,
) -> TargetResult:
    """Write what the target gets. Raises `VerificationFailed` where a file is not what was to be written,
    `AttemptLost` or `NotFound` where the attempt is over, and `Unsupported` for rows that cannot be written."""
    use_tight_pool()
    # Readers fold the records of a log, and so does the merge: there one record of each key gives the same.
    folds = context.deduplicates or target.kind is HandleKind.APPEND
    folds = folds or (target.kind is HandleKind.MERGE and not target.keeps_duplicates)
    is_delete = context.operation is WriteOperation.DELETE
    incoming = incoming_rows(rows, context.rules, all_are_deletes=is_delete, folds=folds)
    result = _HANDLES[target.kind](storage, context, target, incoming, task_attempt)
    return _done(storage, context, target, result, task_attempt)


def sort_target(storage: Storage, context: WriteContext, target: WriteTarget, task_attempt: int) -> TargetResult:
    """Write the base file of a MERGE again, with the same rows by their keys. Raises what `write_target` does."""
    use_tight_pool()
    return _done(storage, context, target, sort(storage, context, target, task_attempt), task_attempt)


def sort_target_at(location: str, context: WriteContext, target: WriteTarget, task_attempt: int) -> TargetResult:
    """`sort_target` on the storage of `location`."""
    storage, _ = open_storage(location)
    return sort_target(storage, context, target, task_attempt)


def _done(
    storage: Storage, context: WriteContext, target: WriteTarget, result: TargetResult, task_attempt: int
) -> TargetResult:
    written = sum((file.stat.num_writes or 0) + (file.stat.num_deletes or 0) for file in result.files)
    storage.create(context.place(target).done_path(task_attempt, rows=written), b"")
    return result


_HANDLES = {HandleKind.CREATE: create, HandleKind.MERGE: merge, HandleKind.APPEND: append}

"""One new file group: rows that bring their hashes along become its base file, which is read back.

Touches: spill files of its own outside of the table; one file, and that of its keys, in the place that
         `engine/task/operation_output` says.
Keeps:   1. a result is returned only for a file that reads back as the rows that were given, by their hashes;
         2. the footer says that rows are in the order of their keys only if they are, and no key is there twice; in
            the layout `lsm_tree`, whose readers rely on it, a file of which that is not true is no result;
         3. memory is bounded by the budget of one task: what does not fit is sorted in files;
         4. where no row comes there is no file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import required_columns, table_schema
from lakeward.format.file_name import BaseFileName
from lakeward.merge.digest import Digest, hashed_schema
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD, RECORD_KEY_FIELD
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.merge.runs.spilled_run import data_records, record_schema
from lakeward.storage.storage import Storage
from lakeward.write.handles.base_file_output import BaseFileOutput
from lakeward.write.handles.key_changes import open_key_changes
from lakeward.write.handles.stats import created_stat
from lakeward.write.target import TargetResult, WriteContext, WriteTarget


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    result: TargetResult
    digest: str
    """Hexadecimal, over the rows that were given, by the hashes that they brought."""


def moved_schema(context: WriteContext) -> pa.Schema:
    """The columns of rows on their way from one file group to another: their hashes, and no file's name."""
    return hashed_schema(pa.schema([each for each in table_schema(context.schema) if each.name != FILE_NAME_FIELD]))


def by_key(batches: Iterable[pa.RecordBatch], schema: pa.Schema, budget: MemoryBudget) -> Iterator[pa.RecordBatch]:
    """The rows in the order of their keys' bytes; those of one key as they came.

    Args:
        schema: of the batches.
    """
    records = record_schema(schema, None)
    with closing(
        RecordSorter(records, name="a clustering", is_base=True, memory_bytes=budget.logs, folder=None)
    ) as sorter:
        for rows in batches:
            kinds = np.full(rows.num_rows, LogRecordKind.DATA, dtype=np.int8)
            sorter.add(data_records(rows, kinds, None, records))
        windows = RunWindows(sorter.finish(), window_bytes=budget.window)
        for window in windows.windows():
            if len(window.order):
                yield windows.rows(window.order)


def write_group(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    rows: Iterable[pa.RecordBatch],
    task_attempt: int,
    *,
    rows_expected: Callable[[], int],
) -> WrittenGroup:
    """
    Args:
        rows: of the `moved_schema`.
        rows_expected: about how many; asked once the first of them have come.

    Raises `VerificationFailed`, `Unsupported`, and what `open_operation_output` raises."""
    started = time.monotonic()
    place, order = context.place(target), KeyAscent()
    came = iter(rows)
    first = next(came, None)
    if first is None:
        return WrittenGroup(TargetResult(target.index, target.partition_path, ()), Digest().hexdigest)
    name = BaseFileName(target.file_id, place.token(task_attempt), context.instant).text
    required = required_columns(context.schema)
    with (
        open_key_changes(storage, place, task_attempt, wanted=context.wants_keys) as keys,
        BaseFileOutput(storage, context, place, name, required=required, keys_expected=rows_expected()) as output,
    ):
        for batch in chain((first,), came):
            order.see(batch.column(RECORD_KEY_FIELD))
            output.write_hashed(batch)
            if keys is not None:
                keys.add(batch.column(RECORD_KEY_FIELD), target.file_id)
        if context.rules.by_rank and not order.is_strict:
            raise Unsupported(
                f"A key has several rows among the file groups of partition {target.partition_path or '(none)'} that "
                "would become one.",
                why="The layout lsm_tree needs each key once in a file.",
                remedy="Delete the rows that are there twice, or leave the clustering of this partition out.",
            )
        found = output.finish(is_sorted=order.is_strict)
    stat = created_stat(
        target,
        file_id=target.file_id,
        name=found.name,
        size_bytes=found.size_bytes,
        rows=found.rows,
        deletes=0,
        seconds=time.monotonic() - started,
    )
    path = keys.path if keys is not None else None
    return WrittenGroup(TargetResult(target.index, target.partition_path, (found.written(stat),), path), found.digest)

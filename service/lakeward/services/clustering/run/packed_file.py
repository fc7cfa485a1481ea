"""File slices become one base file of a new file group: their merged rows, in the order of their keys.

    slice, slice, ... --read--> merged rows --sorted--> one base file, which no reader sees yet
                        |  hashes of each  == must be ==  those of what reads back

A key that several slices have keeps its rows apart, as it had them.

Touches: reads the files of the slices; spill files of its own outside of the table; one file, and that of its keys, in
         the place that `engine/task/operation_output` says.
Keeps:   1. a result is returned only for a file that reads back as the rows that a query finds in the slices, with
            their commit times and sequence numbers; the file's name alone is another one;
         2. the rows are in the order of their keys' bytes, and the footer says so only if no key is there twice;
         3. memory is bounded by the budget of one task, whatever is read: what does not fit is sorted in files;
         4. where the slices have no row there is no file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.engine.task.operation import ATTEMPTS_MAX, relying_on_order
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.engine.task.verification import OutputSample, check_counts, check_digest, check_sample
from lakeward.format.avro.schema import required_columns, table_schema
from lakeward.format.file_name import BaseFileName
from lakeward.merge.digest import Digest, hashed_schema
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD, OPERATION_FIELD, RECORD_KEY_FIELD
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.merge.runs.spilled_run import data_records, record_schema
from lakeward.read.file_slice import open_slice
from lakeward.read.positions import GoesByPlaces
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.handles.base_file_output import BaseFileOutput
from lakeward.write.handles.key_changes import open_key_changes
from lakeward.write.handles.stats import created_stat
from lakeward.write.target import TargetResult, WriteContext, WriteTarget


@dataclass(frozen=True, slots=True)
class PackSpec:
    """What a task needs to know; picklable."""

    target: WriteTarget
    slices: tuple[SliceInput, ...]


def write_packed_file_at(location: str, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult:
    """`write_packed_file` on the storage of `location`."""
    storage, _ = open_storage(location)
    return write_packed_file(storage, context, spec, task_attempt)


def write_packed_file(storage: Storage, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult:
    """Raises `VerificationFailed`, `Unsupported` and `BrokenFile` for slices that cannot be merged, and what
    `open_operation_output` raises."""
    use_tight_pool()
    try:
        result = relying_on_order(partial(_write, storage, context, spec), task_attempt)
    except GoesByPlaces:
        result = _write(storage, context, spec, task_attempt + 2 * ATTEMPTS_MAX, by_order=False, by_places=True)
    rows = sum(file.stat.num_writes or 0 for file in result.files)
    storage.create(context.place(spec.target).done_path(task_attempt, rows=rows), b"")
    return result


def _write(
    storage: Storage,
    context: WriteContext,
    spec: PackSpec,
    task_attempt: int,
    *,
    by_order: bool,
    by_places: bool = False,
) -> TargetResult:
    started = time.monotonic()
    target, budget = spec.target, context.budget
    place = context.place(target)
    columns = pa.schema([column for column in table_schema(context.schema) if column.name != FILE_NAME_FIELD])
    records = record_schema(hashed_schema(columns), None)
    came = Digest()
    sorter = RecordSorter(
        records, name=f"file group {target.file_id}", is_base=True, memory_bytes=budget.logs, folder=None
    )
    with closing(sorter), open_key_changes(storage, place, task_attempt, wanted=context.wants_keys) as keys:
        for slice_input in spec.slices:
            for rows in _rows(storage, context, slice_input, by_order=by_order, by_places=by_places):
                came.take_hashes(rows)
                kinds = np.full(rows.num_rows, LogRecordKind.DATA, dtype=np.int8)
                sorter.add(data_records(rows.select(hashed_schema(columns).names), kinds, None, records))
        if came.rows == 0:
            return TargetResult(target.index, target.partition_path, ())
        order = KeyAscent()
        name = BaseFileName(target.file_id, place.token(task_attempt), context.instant).text
        with BaseFileOutput(
            storage, context, place, name, required=required_columns(context.schema), keys_expected=came.rows
        ) as output:
            windows = RunWindows(sorter.finish(), window_bytes=budget.window)
            for window in windows.windows():
                if len(window.order):
                    rows = windows.rows(window.order)
                    order.see(rows.column(RECORD_KEY_FIELD))
                    output.write_hashed(rows)
                    if keys is not None:
                        keys.add(rows.column(RECORD_KEY_FIELD), target.file_id)
            found = output.finish(is_sorted=order.is_strict)
    check_digest(merged=came.hexdigest, written=found.digest)
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
    return TargetResult(target.index, target.partition_path, (found.written(stat),), path)


def _rows(
    storage: Storage, context: WriteContext, slice_input: SliceInput, *, by_order: bool, by_places: bool
) -> Iterator[pa.RecordBatch]:
    """The slice's merged rows, each with the hash that it had when it was read. Raises `VerificationFailed`."""
    query = SliceQuery(carries_hashes=True, takes_sample=context.verify, row_bytes_max=context.budget.row)
    with open_slice(storage, slice_input, by_order=by_order, by_places=by_places, query=query) as merged:
        if OPERATION_FIELD in merged.schema.names:
            raise Unsupported(
                f"File group {slice_input.file_id} is not packed.",
                why=f"Its rows have their kind of change beside them ({OPERATION_FIELD}), and what Hudi's writers put "
                "there is not known.",
                remedy="Leave the clustering of this table to Hudi.",
            )
        sample, rows = OutputSample(merged.sample), 0
        for batch in merged.batches():
            rows += batch.num_rows
            if context.verify:
                sample.update(batch.select(merged.schema.names))
            yield batch
    check_counts(merged.counts, rows_written=rows)
    if context.verify:
        check_sample(merged.sample.keys, sample.rows, rules=merged.rules, schema=merged.schema)

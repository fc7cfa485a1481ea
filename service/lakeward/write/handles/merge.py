"""Rows onto the base file of a slice: a new base file in its place.

    rows, deletes --> as records of a log behind the slice ---+
                                                             +--merged, as by a FULL operation--> new base file
    base file ------------------------------------------------+

The merge is that of compaction (`engine/task/operation`), and so are its rules: by event time a row with a smaller
value than that of the table's row loses, and that one keeps its commit time; by commit time the new row wins. Deletes
of the operation win always. Row groups that no row touches are copied as they are stored.

Where no row came and the file is to be sorted (`write/file_sort`), its rows are rewritten by their keys.

Where rows are added without looking for their keys (Hudi's `insert`), they stand beside those of the base file: by the
order of their keys where the base file is sorted, else behind them.

Where the table captures changes, what was replaced, added or removed is noted in a log of changes beside the new file.
Hudi's `insert` writes none there, and its own readers of changes fail at such a commit; Lakeward's does.

Rows and deletes of a target that wait to be merged: a merge that began by the order of a base file, and found it
wrong, reads them once more, and what they came from can be read but once.

Touches: the new file and the log of changes, where `engine/task/operation_output` says, and that of keys; reads the
         base file; temporary files outside of the table, where more waits than a little; they have no name, so they are
         gone with the process, however that ends.
Keeps:   1. rows that nothing came for keep their commit time and sequence number;
         2. a file says that it is sorted only if no key is in it twice;
         3. a result is returned only for a file that reads back as what was merged;
         4. where nothing came the base file stays, unless it is to be sorted.
Source:  HoodieWriteMergeHandle, HoodieConcatHandle (Hudi 1.2); tables of Hudi 1.2.0 and 1.0.2
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.base.paths import join
from lakeward.engine.task.change_log_output import ChangeLogOutput, open_change_log
from lakeward.engine.task.operation import find_form_before, merge_slice, relying_on_order
from lakeward.engine.task.operation_spec import OperationSpec
from lakeward.format.avro.column_names import OPERATION_COLUMN
from lakeward.format.avro.schema import keeping_nested_floats, table_schema
from lakeward.format.file_name import BaseFileName
from lakeward.format.log.change_log import ChangedRows, ChangeOperation
from lakeward.format.parquet.base_file import open_base_file, read_shape
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD, RECORD_KEY_FIELD
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.logs.log_run import Incoming
from lakeward.read.slice_input import SliceInput
from lakeward.storage.storage import Storage
from lakeward.write.handles.base_file_output import BaseFileOutput
from lakeward.write.handles.deletes import tombstones_of
from lakeward.write.handles.incoming_rows import IncomingRows
from lakeward.write.handles.key_changes import KeyChangesFile, open_key_changes
from lakeward.write.handles.stats import merged_stat
from lakeward.write.handles.table_rows import TableRows
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import TargetResult, WriteContext, WriteTarget, WrittenFile

_WHAT = "rows of a write"
_KEY, _ORDERING = "key", "ordering"


class SpooledRecords:
    """Add, `finish`, and then ask for the `parts`, any number of times; `close` it afterwards."""

    def __init__(self, schema: pa.Schema, ordering_type: pa.DataType | None, *, memory_bytes: int) -> None:
        """
        Args:
            schema: of the rows.
            ordering_type: of the values that deletes have; None: they have none.
            memory_bytes: so much waits in memory, of rows and of deletes each.
        """
        fields = [pa.field(_KEY, pa.string()), pa.field(_ORDERING, ordering_type or pa.null())]
        self._rows = _Spool(schema, memory_bytes)
        self._deletes = _Spool(pa.schema(fields), memory_bytes)

    def add_rows(self, rows: pa.RecordBatch) -> None:
        self._rows.add(rows)

    def add_deletes(self, deletes: Tombstones) -> None:
        values = deletes.ordering
        if values is None:
            values = pa.nulls(len(deletes.keys), self._deletes.schema.field(_ORDERING).type)
        self._deletes.add(pa.RecordBatch.from_arrays([deletes.keys, values], schema=self._deletes.schema))

    def finish(self) -> None:
        """No more will come."""
        self._rows.finish()
        self._deletes.finish()

    def parts(self) -> Iterator[pa.RecordBatch | Tombstones]:
        """The rows, then the deletes."""
        yield from self._rows.batches()
        for batch in self._deletes.batches():
            has_values = not pa.types.is_null(self._deletes.schema.field(_ORDERING).type)
            yield Tombstones(batch.column(_KEY), batch.column(_ORDERING) if has_values else None)

    def close(self) -> None:
        self._rows.close()
        self._deletes.close()


class _Spool:
    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self.schema = schema
        with spilling(_WHAT, None):
            self._file: IO[bytes] = tempfile.SpooledTemporaryFile(memory_bytes, prefix=SPILL_PREFIX)  # noqa: SIM115 - closed by `close`
            self._writer = pa.ipc.new_stream(self._file, schema)

    def add(self, batch: pa.RecordBatch) -> None:
        with spilling(_WHAT, None):
            self._writer.write_batch(batch)

    def finish(self) -> None:
        with spilling(_WHAT, None):
            self._writer.close()
            self._file.flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)

    def close(self) -> None:
        self._file.close()


def merge(
    storage: Storage, context: WriteContext, target: WriteTarget, rows: Iterable[IncomingRows], task_attempt: int
) -> TargetResult:
    """Write the slice's base file again. Raises `VerificationFailed`, `Unsupported` for rows of one key that cannot be
    ordered, and what `open_operation_output` raises."""
    coming = iter(rows)
    first = next(coming, None)
    if first is None:
        return TargetResult(target.index, target.partition_path, ())
    merging = _Merging(storage, context, target)
    coming = chain((first,), coming)
    if not target.keeps_duplicates:
        return merging.fold(coming, task_attempt)
    return merging.add(coming, task_attempt)


def sort(storage: Storage, context: WriteContext, target: WriteTarget, task_attempt: int) -> TargetResult:
    """Write the slice's base file again with the same rows, by their keys. Raises what `merge` does."""
    return _Merging(storage, context, target).sort(task_attempt)


class _Merging:
    def __init__(self, storage: Storage, context: WriteContext, target: WriteTarget) -> None:
        assert target.slice is not None and target.slice.base_file is not None and not target.slice.log_files
        self._started = time.monotonic()
        self._storage = storage
        self._context = context
        self._target = target
        self._base_file = target.slice.base_file
        self._slice: SliceInput = replace(
            target.slice,
            instant=context.instant,
            schema=context.schema,
            rules=context.rules,
            memory_bytes=context.memory_bytes,
        )
        self._place = context.place(target)
        with storage.open_input(join(context.base_path, self._base_file)) as source:
            self._before = read_shape(source, name=self._base_file)
        if self._before.has_operation:
            raise Unsupported(
                f"The base file {self._base_file} is not rewritten.",
                why=f"Its rows have their kind of change beside them ({OPERATION_COLUMN}), and what Hudi's writers put "
                "there beside rows of other writers is not known.",
                remedy="Let Hudi write into this table.",
            )

    def fold(self, coming: Iterable[IncomingRows], task_attempt: int) -> TargetResult:
        """A row of each key."""
        context = self._context
        rows = TableRows(context, self._target)
        kind = ordering_type(context.rules, rows.schema)
        schema = pa.schema([column for column in rows.schema if column.name != FILE_NAME_FIELD])
        with closing(SpooledRecords(schema, kind, memory_bytes=context.budget.window)) as spooled:
            for came in coming:
                kept, gone = came.rows().batch, came.deletes().batch
                if kept.num_rows:
                    spooled.add_rows(rows.of(kept))
                if gone.num_rows:
                    spooled.add_deletes(tombstones_of(gone, context, kind))
            spooled.finish()
            return relying_on_order(partial(self._fold_once, spooled.parts), task_attempt)

    def sort(self, task_attempt: int) -> TargetResult:
        """The rows of the base file, and no others, by their keys."""
        self._slice = replace(self._slice, sorts=True)
        return relying_on_order(partial(self._fold_once, None), task_attempt)

    def _fold_once(self, incoming: Incoming | None, task_attempt: int, *, by_order: bool) -> TargetResult:
        context, target, spec = self._context, self._target, self._spec
        with open_key_changes(self._storage, self._place, task_attempt, wanted=context.wants_keys) as keys:
            watch = None if keys is None else partial(_note, keys, target.file_id, context.notes_updates)
            done = merge_slice(self._storage, spec, task_attempt, by_order=by_order, incoming=incoming, watch=watch)
        counts = done.counts
        stat = merged_stat(
            target,
            name=done.file_name,
            size_bytes=done.size_bytes,
            rows=counts.rows,
            inserted=counts.inserted,
            updated=counts.updated,
            deleted=counts.deleted,
            prev_base_file=self._base_name,
            seconds=time.monotonic() - self._started,
            change_log=done.change_log,
        )
        file = WrittenFile(
            done.file_name,
            done.size_bytes,
            stat,
            done.column_stats,
            replaces_base_file=True,
            change_log=done.change_log,
            bloom_error_rate=done.bloom_error_rate,
        )
        return self._result(file, keys)

    def add(self, coming: Iterable[IncomingRows], task_attempt: int) -> TargetResult:
        """Every row, beside those of the base file."""
        context, target = self._context, self._target
        name = BaseFileName(target.file_id, self._place.token(task_attempt), context.instant).text
        form = find_form_before(self._storage, self._slice)
        order = KeyAscent()
        table = table_schema(context.schema)
        if not self._slice.widens_nested_floats:
            table = keeping_nested_floats(table)
        rows = _Added(TableRows(context, target), coming, target.file_id)
        base_path = join(context.base_path, self._base_file)
        with (
            open_key_changes(self._storage, self._place, task_attempt, wanted=context.wants_keys) as keys,
            open_change_log(self._storage, self._spec, task_attempt) as changes,
            self._storage.open_input(base_path) as source,
            BaseFileOutput(
                self._storage,
                context,
                self._place,
                name,
                required=form.required,
                bloom_type=form.bloom_type,
                replaces_base_file=True,
            ) as output,
        ):
            rows.keys, rows.changes = keys, changes
            schema = pa.schema([column for column in table if column.name != FILE_NAME_FIELD])
            base = open_base_file(source, schema, name=self._base_file, bytes_max=context.budget.batch)
            both = in_order(base, rows.batches()) if self._before.is_sorted else chain(base, rows.batches())
            for batch in both:
                order.see(batch.column(RECORD_KEY_FIELD))
                output.write(batch)
            found = output.finish(is_sorted=order.is_strict)
            change_log = None if changes is None else changes.close()
        if changes is not None and context.verify:
            changes.verify(changes_made=rows.count)
        assert found.rows == self._before.rows + rows.count, "a row was lost"
        stat = merged_stat(
            target,
            name=name,
            size_bytes=found.size_bytes,
            rows=found.rows,
            inserted=rows.count,
            updated=0,
            deleted=rows.deletes,
            prev_base_file=self._base_name,
            seconds=time.monotonic() - self._started,
            change_log=change_log,
        )
        return self._result(found.written(stat, replaces_base_file=True, change_log=change_log), keys)

    @property
    def _spec(self) -> OperationSpec:
        """The merge as one of a FULL operation."""
        context = self._context
        return OperationSpec(
            index=self._target.index,
            slice=self._slice,
            attempt=context.attempt,
            attempt_folder=context.attempt_folder,
            input_bytes=0,
            codec=context.codec,
            bloom_bytes_max=context.bloom_bytes_max,
            verify=context.verify,
            indexed=context.indexed,
            supplemental_logging=context.supplemental_logging,
            native=context.has_native_logs,
        )

    @property
    def _base_name(self) -> str:
        return self._base_file.rpartition("/")[2]

    def _result(self, file: WrittenFile, keys: KeyChangesFile | None) -> TargetResult:
        path = None if keys is None else keys.path
        return TargetResult(self._target.index, self._target.partition_path, (file,), path)


def _note(keys: KeyChangesFile, file_id: str, notes_updates: bool, changes: ChangedRows) -> None:
    """An update moves no key."""
    if notes_updates or changes.operation is not ChangeOperation.UPDATE:
        keys.add(changes.keys, None if changes.operation is ChangeOperation.DELETE else file_id)


class _Added:
    """Rows that are added, counted; deletes of keys for which nothing was looked go nowhere."""

    def __init__(self, rows: TableRows, coming: Iterable[IncomingRows], file_id: str) -> None:
        self._rows = rows
        self._coming = coming
        self._file_id = file_id
        self.keys: KeyChangesFile | None = None
        self.changes: ChangeLogOutput | None = None
        self.count = 0
        self.deletes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        for came in self._coming:
            self.deletes += int(came.is_delete.sum())
            kept = came.rows().batch
            if kept.num_rows:
                self.count += kept.num_rows
                if self.keys is not None:
                    self.keys.add(kept.column(RECORD_KEY), self._file_id)
                added = self._rows.of(kept)
                if self.changes is not None:
                    self.changes.add(ChangedRows(ChangeOperation.INSERT, None, added))
                yield added


def in_order(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of both, which come by their keys, by their keys; of equal ones those of `one` first, in most cases.

    No more is held than a batch of each. Where rows are not in order all of them come out all the same.
    """
    left, right = _Side(one), _Side(other)
    while left.rows is not None and right.rows is not None:
        until = min(left.greatest, right.greatest, key=str.encode)
        together = pa.Table.from_batches([left.take_until(until), right.take_until(until)]).combine_chunks()
        yield from together.take(pc.sort_indices(together.column(RECORD_KEY_FIELD))).to_batches()
    for side in (left, right):
        while side.rows is not None:
            yield side.rows
            side.advance()


class _Side:
    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self.rows: pa.RecordBatch | None = None
        """What is left of the batch that came; None at the end."""
        self.advance()

    @property
    def greatest(self) -> str:
        assert self.rows is not None
        return str(pc.max(self.rows.column(RECORD_KEY_FIELD)).as_py())

    def advance(self) -> None:
        self.rows = next((batch for batch in self._batches if batch.num_rows), None)

    def take_until(self, key: str) -> pa.RecordBatch:
        """The rows of the batch with keys up to this one."""
        assert self.rows is not None
        chosen = pc.less_equal(self.rows.column(RECORD_KEY_FIELD), key)
        taken, self.rows = self.rows.filter(chosen), self.rows.filter(pc.invert(chosen))
        if self.rows.num_rows == 0:
            self.advance()
        return taken

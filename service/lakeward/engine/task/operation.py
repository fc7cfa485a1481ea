"""One operation on one file slice, as it runs in a Spark task or in process; here FULL compaction of the slice.

    base file + log files --read--> rows --merged--> batches --written--> one new base file, which no reader sees yet
        |                       hashes of each --> of the winners  == must be ==  those of what reads back
        +-- row groups that no log touches ------------- byte by byte -----------------+

Where the table captures changes, those go into a log beside the base file as the merge reports them
(`engine/task/change_log_output.py`).

A LOG operation is `engine/task/log_operation.py`'s. These modules and `read` are all that travels to executors, so they
know neither SQL nor Spark.

Touches: reads the slice's files; writes one file, and one of changes where the table captures them, in the place that
         `engine/task/operation_output` says.
Keeps:   1. a result is returned only for a file that reads back as what was merged, and whose copied row groups are
            those of the base file, byte by byte, but for the file's name;
         2. where a base file's footer is wrong about its order, or only in the midst of a merge it shows that places
            count, what was written by then is no result, and the slice is merged once more without relying on any
            order, or by places;
         3. a log of changes belongs to the result only if it reads back as what the merge reported, with as many
            changes as it counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.paths import join
from lakeward.engine.task.change_log_output import open_change_log
from lakeward.engine.task.log_operation import run_log_operation
from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.engine.task.peak_memory import PeakMemory, use_tight_pool
from lakeward.engine.task.verification import OutputSample, check_copied, check_counts, check_digest, check_sample
from lakeward.engine.task.work_counters import WorkMeter
from lakeward.format.avro.schema import required_columns
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, TYPE_CODE
from lakeward.format.log.change_log import ChangedRows
from lakeward.format.metadata.base_file_stats import columns_to_watch, read_bloom_filter, read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.base_file import (
    BaseFileStats,
    BaseFileWriter,
    open_base_file,
    read_required,
)
from lakeward.format.parquet.behind import Ahead
from lakeward.format.parquet.stored_row_groups import find_difference
from lakeward.format.stats.column_range import ColumnRange, ColumnRangeAccumulator
from lakeward.merge.digest import Digest
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.file_slice import CopiedRows, MergedSlice, open_slice
from lakeward.read.logs.log_run import Incoming
from lakeward.read.made_keys import with_made_keys, without_made_keys
from lakeward.read.positions import GoesByPlaces
from lakeward.read.query.slice_query import REWRITE
from lakeward.read.slice_input import SliceInput
from lakeward.storage.storage import Storage

ATTEMPTS_MAX = 1_000
"""More than any dispatcher makes of one task."""


def run_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Carry the operation out. Raises `VerificationFailed` when the file it wrote is not what was merged."""
    use_tight_pool()
    began = time.process_time()
    is_log = spec.kind is OperationKind.LOG
    result = (run_log_operation if is_log else run_full_operation)(storage, spec, task_attempt)
    return replace(result, cpu_seconds=time.process_time() - began)


def run_full_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Merge the slice into one new base file."""
    try:
        result = relying_on_order(partial(merge_slice, storage, spec), task_attempt)
    except GoesByPlaces:
        result = merge_slice(storage, spec, task_attempt + 2 * ATTEMPTS_MAX, by_order=False, by_places=True)
    storage.create(spec.place.done_path(task_attempt, rows=result.counts.rows), b"")
    return result


_T = TypeVar("_T", covariant=True)


class _Merging(Protocol[_T]):
    def __call__(self, task_attempt: int, *, by_order: bool) -> _T: ...


def relying_on_order(merging: _Merging[_T], task_attempt: int) -> _T:
    """What the merge gives, or gives without relying on any order where a footer is wrong about it."""
    try:
        return merging(task_attempt, by_order=True)
    except NotSorted:
        # A second attempt of the same task, as far as names go: what the first one left no commit will name.
        return merging(task_attempt + ATTEMPTS_MAX, by_order=False)


def merge_slice(
    storage: Storage,
    spec: OperationSpec,
    task_attempt: int,
    *,
    by_order: bool,
    by_places: bool = False,
    incoming: Incoming | None = None,
    watch: Callable[[ChangedRows], object] | None = None,
) -> OperationResult:
    """One try of a FULL operation. Raises `NotSorted`, and what `run_operation` raises.

    Args:
        by_order: rely on the order of a base file whose footer says that it is sorted.
        by_places: merge by the places that logs name in the base file.
        incoming: records of no log, which are merged as those of a log behind all others are.
        watch: is called with every key that was changed.
    """
    started = time.monotonic()
    memory = PeakMemory()
    meter = WorkMeter(spec.counters, read_bytes_max=spec.input_bytes)
    path = output_path(storage, spec.place, spec.file_name(task_attempt))
    digest = Digest()
    row_bytes_max = spec.slice.budget.row
    query = replace(REWRITE, carries_hashes=spec.verify, takes_sample=spec.verify, row_bytes_max=row_bytes_max)
    with open_change_log(storage, spec, task_attempt, writing=meter.writing) as changes:
        listeners = [call for call in (watch, None if changes is None else changes.add) if call is not None]
        with open_slice(
            meter.reading(storage),
            spec.slice,
            by_order=by_order,
            by_places=by_places,
            query=query,
            on_changes=_to_all(listeners),
            incoming=incoming,
        ) as merged:
            stats, ranges = _write(storage, spec, merged, digest, task_attempt, meter)
        if changes is not None and merged.counts.folded:
            raise Unsupported(
                f"The changes of file group {spec.slice.file_id} cannot be captured.",
                why=f"Its base file {spec.slice.base_file} has record keys in several rows, and what Hudi calls a "
                "change of such rows is not known.",
                remedy="Read the partition, and write it with insert_overwrite.",
            )
        change_log = None if changes is None else changes.close()
    if spec.verify:
        _verify(meter.checking(storage), path, spec, merged, stats, digest)
        if changes is not None:
            changes.verify(changes_made=merged.counts.changes)
    column_stats = _column_stats(storage, path, spec, ranges)
    meter.finish()
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=spec.file_name(task_attempt),
        size_bytes=stats.size_bytes,
        counts=merged.counts,
        digest=digest.hexdigest if spec.verify else "",
        input_bytes=spec.input_bytes,
        seconds=time.monotonic() - started,
        peak_memory_bytes=memory.peak_bytes(),
        column_stats=column_stats,
        damage=merged.scan.damage,
        change_log=change_log,
        bloom_error_rate=stats.bloom_error_rate,
    )


def _to_all(listeners: Sequence[Callable[[ChangedRows], object]]) -> Callable[[ChangedRows], object] | None:
    """None where nothing listens: then the merge need not know what it changes."""

    def call(changes: ChangedRows) -> None:
        for each in listeners:
            each(changes)

    return call if listeners else None


def _write(
    storage: Storage, spec: OperationSpec, merged: MergedSlice, digest: Digest, task_attempt: int, meter: WorkMeter
) -> tuple[BaseFileStats, dict[str, ColumnRange]]:
    """The statistics with the ranges of those indexed columns whose ranges the file does not say."""
    watched = columns_to_watch(spec.indexed.columns, merged.schema) if spec.indexed is not None else ()
    ranges = ColumnRangeAccumulator(watched, merged.row_schema)
    before = find_form_before(storage, spec.slice)
    bloom_bytes_max = min(spec.bloom_bytes_max, spec.slice.budget.bloom_filter)
    with (
        open_operation_output(
            storage, spec.place, spec.file_name(task_attempt), replaces_base_file=spec.slice.base_file is not None
        ) as sink,
        BaseFileWriter(
            meter.writing(sink),
            merged.schema,
            file_name=spec.file_name(task_attempt),
            codec=spec.codec,
            keys_expected=merged.fold_logs(),
            bloom_type=before.bloom_type,
            bloom_bytes_max=bloom_bytes_max,
            required=before.required,
            row_group_bytes=spec.slice.budget.row_group,
            dictionaries=[each.name for each in merged.row_schema if pa.types.is_dictionary(each.type)],
            has_keys=not spec.slice.key_fields,
        ) as writer,
    ):
        known_keys = merged.leave_out(writer.form, bloom_bytes_max=bloom_bytes_max)
        if known_keys is not None:
            writer.begin_with(known_keys)
        for part in merged.parts():
            if isinstance(part, CopiedRows):
                writer.copy(part.source, part.group, part.keys)
                continue
            rows = digest.take_hashes(part) if spec.verify else part
            ranges.add(rows)
            writer.write(without_made_keys(rows, spec.slice.key_fields))
        stats = writer.close(is_sorted=merged.is_sorted)
    # What was seen of the rows is not all where some were copied, and is read from the file instead.
    return stats, {} if stats.copied else ranges.ranges


@dataclass(frozen=True, slots=True)
class FormBefore:
    """What a new base file takes over from the one that it replaces."""

    bloom_type: str = TYPE_CODE
    """The type to which the table's writers are set; where there is no base file, what they are by default."""
    required: frozenset[str] = frozenset()
    """Columns without nulls. Hudi 1.0's readers do not take a file that says less of a column than the table does."""


def find_form_before(storage: Storage, slice_input: SliceInput) -> FormBefore:
    path = slice_input.base_file
    if path is None:
        return FormBefore()
    with storage.open_input(join(slice_input.base_path, path)) as source:
        found = read_bloom_filter(source, file_name=path)
        without_null = read_required(source, name=path)
    return FormBefore(
        SIMPLE_TYPE_CODE if found is not None and found[0].upper() == SIMPLE_TYPE_CODE else TYPE_CODE,
        without_null & required_columns(slice_input.schema),
    )


def _column_stats(
    storage: Storage, path: str, spec: OperationSpec, seen: Mapping[str, ColumnRange]
) -> tuple[ColumnStatsRecord, ...]:
    if spec.indexed is None:
        return ()
    with storage.open_input(path) as source:
        name = path.rpartition("/")[2]
        found = read_column_stats(source, spec.indexed.columns, file_name=name, version=spec.indexed.version, seen=seen)
    return tuple(found)


def _verify(
    storage: Storage, path: str, spec: OperationSpec, merged: MergedSlice, stats: BaseFileStats, digest: Digest
) -> None:
    """Read the file back and judge it; raises `VerificationFailed`."""
    read_back = Digest()
    sample = OutputSample(merged.sample)
    copied = {place for _, place in stats.copied}
    with storage.open_input(path) as source:
        if stats.copied:
            with merged.open_base() as base:
                check_copied(find_difference(base, source, stats.copied, file_name=path.rpartition("/")[2]))
        # What could be merged can be read back: its pages are no larger than a row group and the batch that filled it.
        bytes_max = spec.slice.budget.row_group + spec.slice.budget.batch
        merged_rows = open_base_file(
            source,
            merged.row_schema,
            name=path,
            bytes_max=bytes_max,
            choose=lambda file: [index for index in range(file.metadata.num_row_groups) if index not in copied],
        )
        with closing(Ahead("lakeward-decoder")) as ahead:
            for stored in ahead.over(merged_rows):
                batch = with_made_keys(stored, spec.slice.key_fields)
                read_back.update(batch)
                sample.update(batch)
    check_digest(merged=digest.hexdigest, written=read_back.hexdigest)
    check_counts(merged.counts, rows_written=stats.rows)
    check_sample(merged.sample.keys, sample.rows, rules=merged.rules, schema=merged.schema)

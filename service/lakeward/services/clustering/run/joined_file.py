"""Base files without logs become one base file of a new file group: its row groups are those of the files, as stored.

Copying takes a part of what decoding and encoding do. It is done where nothing is lost by it:

    the files                                 the table            the new file
    sorted, and do not overlap                any                  is sorted
    sorted, and overlap                       any                  rows are merged: see `packed_file`
    one is not sorted                         copy-on-write        as they are, one behind the other
    one is not sorted                         merge-on-read        rows are sorted, for compactions to come

Files whose row groups are small are not joined: they would stay small in the new file.

Touches: the files of the slices, reading them; one file, and that of its keys, in the place that
         `engine/task/operation_output` says.
Keeps:   1. a result is returned only for a file whose row groups are those of the files, byte by byte, but for the
            file's name;
         2. where anything of the files is not understood, or a column is not as the table has it, nothing is written,
            and None is returned;
         3. the footer says that rows are in the order of their keys only if they are.
See:     docs/decisions/0144-packing-copies-row-groups.md
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.paths import join
from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.verification import check_copied
from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import BaseFileName
from lakeward.format.metadata.base_file_stats import read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.base_file import ROW_GROUP_ROWS, SHARE_OF_SMALL, SORTED_BY_KEY, BaseFileStats
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.joined_file import JoinedFileWriter, JoinedForm
from lakeward.format.parquet.key_summary import BLOOM_KEY, MAX_KEY, MIN_KEY, join_keys
from lakeward.format.parquet.metadata_without_bloom import metadata_without_bloom
from lakeward.format.parquet.stored_row_groups import (
    NotCopyable,
    RowGroupComparison,
    StoredRowGroup,
    read_stored_row_groups,
)
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD, RECORD_KEY_FIELD
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.slice_input import SliceInput
from lakeward.storage.storage import Storage
from lakeward.write.handles.key_changes import open_key_changes
from lakeward.write.handles.stats import created_stat
from lakeward.write.target import TargetResult, WriteContext, WriteTarget, WrittenFile

_FIRST = 8
"""Files that are looked at: when the row groups of so many are small, those of the others are not read."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    groups: tuple[StoredRowGroup, ...]
    form: JoinedForm
    names_nullable: bool
    of_keys: dict[str, str]
    """What the footer says of keys."""
    pairs: list[tuple[int, int]]
    """The places of its row groups, and those to which they went."""

    @property
    def is_sorted(self) -> bool:
        return self.of_keys.get(SORTED_BY_KEY) == RECORD_KEY_FIELD

    @property
    def min_key(self) -> bytes:
        return self.of_keys.get(MIN_KEY, "").encode()

    @property
    def max_key(self) -> bytes:
        return self.of_keys.get(MAX_KEY, "").encode()

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)


def join_files(
    storage: Storage,
    context: WriteContext,
    target: WriteTarget,
    slices: Sequence[SliceInput],
    task_attempt: int,
    *,
    in_any_order: bool,
) -> TargetResult | None:
    """None where rows must be decoded. Raises `NotSorted` where a footer is wrong about the order of its file, and
    `VerificationFailed`, `BrokenFile` and what `open_operation_output` raises.

    Args:
        in_any_order: files that are not sorted are joined, too.
    """
    started = time.monotonic()

    def watch(keys: pa.Array) -> None:
        order.see(keys)
        if key_changes is not None:
            key_changes.add(keys, target.file_id)

    try:
        files = _joinable(storage, context, slices, in_any_order=in_any_order)
    except NotCopyable:
        return None
    if files is None:
        return None
    place, order, rows = context.place(target), KeyAscent(), sum(file.rows for file in files)
    bloom_bytes_max = min(context.bloom_bytes_max, context.budget.bloom_filter)
    known = None
    if not context.wants_keys and not all(file.is_sorted for file in files):
        known = join_keys([file.of_keys for file in files], keys=rows, bloom_bytes_max=bloom_bytes_max)
    name = BaseFileName(target.file_id, place.token(task_attempt), context.instant).text
    with (
        open_key_changes(storage, place, task_attempt, wanted=context.wants_keys) as key_changes,
        open_operation_output(storage, place, name) as sink,
    ):
        writer = JoinedFileWriter(
            sink,
            files[0].form,
            file_name=name,
            codec=context.codec,
            names_nullable=files[0].names_nullable,
            keys_expected=rows,
            bloom_bytes_max=bloom_bytes_max,
            known=known,
        )
        for number, file in enumerate(files):
            with storage.open_input(file.path) as source:
                for group in file.groups:
                    keys = None if known else _keys(source, file, group, context.budget, watch)
                    file.pairs.append((group.index, writer.copy(source, group, keys, number)))
        if all(file.is_sorted for file in files) and not order.is_strict:
            raise NotSorted(
                f"The base files of {len(files)} file groups are not sorted by their keys.",
                why="Their footers say that they are.",
                remedy="Compact the file groups, which writes the files again.",
            )
        stats = writer.close(is_sorted=known is None and order.is_strict)
    path = output_path(storage, place, name)
    if context.verify:
        _verify(storage, path, files, stats)
    stat = created_stat(
        target,
        file_id=target.file_id,
        name=name,
        size_bytes=stats.size_bytes,
        rows=stats.rows,
        deletes=0,
        seconds=time.monotonic() - started,
    )
    written = WrittenFile(
        name,
        stats.size_bytes,
        stat,
        _column_stats(storage, path, context),
        replaces_base_file=False,
        bloom_error_rate=stats.bloom_error_rate,
    )
    keys_path = key_changes.path if key_changes is not None else None
    return TargetResult(target.index, target.partition_path, (written,), keys_path)


def _joinable(
    storage: Storage, context: WriteContext, slices: Sequence[SliceInput], *, in_any_order: bool
) -> list[_File] | None:
    """The files in the order in which they are joined. Raises `NotCopyable`."""
    if not slices or any(each.base_file is None or each.log_files or each.key_fields for each in slices):
        return None
    schema, budget = table_schema(context.schema), context.budget
    files, bloom_bytes = list[_File](), 0
    for number, each in enumerate(slices):
        if number == _FIRST and _are_small(files, budget):
            return None
        assert each.base_file is not None
        files.append(_read(storage, join(each.base_path, each.base_file), schema, budget.footer // len(slices)))
        if files[-1].form != files[0].form:
            return None
        bloom_bytes += len(files[-1].of_keys.get(BLOOM_KEY, ""))
        if bloom_bytes > 2 * budget.bloom_filter:
            files[-1].of_keys.pop(BLOOM_KEY, None)  # then the new filter is made of the keys
    files = sorted((file for file in files if file.groups), key=lambda file: file.min_key)
    if not files or _are_small(files, budget):
        return None
    are_sorted = all(file.is_sorted for file in files)
    overlap = any(before.max_key >= after.min_key for before, after in pairwise(files))
    if are_sorted and overlap:
        return None  # merged, the new file is sorted, too
    if not are_sorted and not (in_any_order and not context.rules.by_rank):
        return None
    return files


def _keys(
    source: BinaryIO, file: _File, group: StoredRowGroup, budget: MemoryBudget, watch: Callable[[pa.Array], None]
) -> Iterator[pa.Array]:
    batches = ParquetBatches(source, where=f"the base file {file.path}", bytes_max=budget.batch, with_bloom=False)
    for batch in batches.read([RECORD_KEY_FIELD], groups=[group.index]):
        watch(batch.column(0))
        yield batch.column(0)


def _read(storage: Storage, path: str, schema: pa.Schema, bytes_max: int) -> _File:
    with storage.open_input(path) as source:
        stored = read_stored_row_groups(source, name=path, bytes_max=bytes_max, with_key_ranges=False)
        footer = metadata_without_bloom(source)
    if footer is None:
        raise NotCopyable("its footer is none that is read without its filter")
    _check_schema(footer, schema)
    return _File(
        path,
        stored.groups,
        JoinedForm.of(stored),
        footer.schema.to_arrow_schema().field(FILE_NAME_FIELD).nullable,
        JoinedForm.keys_of(stored),
        [],
    )


def _check_schema(footer: pq.FileMetaData, schema: pa.Schema) -> None:
    """Raise `NotCopyable` where rows are not read as they are stored."""
    found = footer.schema.to_arrow_schema()
    if any(footer.schema.column(index).physical_type == "INT96" for index in range(footer.num_columns)):
        raise NotCopyable("it has times of the type INT96")
    if found.names != schema.names or any(
        before.type != after.type for before, after in zip(found, schema, strict=True)
    ):
        raise NotCopyable("its columns are not those of the table")


def _are_small(files: Sequence[_File], budget: MemoryBudget) -> bool:
    """The row groups are small on the average."""
    groups = [group for file in files for group in file.groups]
    few_rows = sum(group.rows for group in groups) * SHARE_OF_SMALL < ROW_GROUP_ROWS * len(groups)
    few_bytes = sum(group.size_bytes for group in groups) * SHARE_OF_SMALL < budget.row_group * len(groups)
    return few_rows and few_bytes


def _verify(storage: Storage, path: str, files: Sequence[_File], stats: BaseFileStats) -> None:
    name = path.rpartition("/")[2]
    with storage.open_input(path) as output:
        comparison = RowGroupComparison(output, file_name=name)
        for file in files:
            with storage.open_input(file.path) as source:
                check_copied(comparison.find_difference(source, file.pairs))
        if comparison.shape != (stats.rows, sum(len(file.pairs) for file in files)):
            check_copied(f"the joined file {name} has not the rows of the {len(files)} files that it is made of")


def _column_stats(storage: Storage, path: str, context: WriteContext) -> tuple[ColumnStatsRecord, ...]:
    if context.indexed is None:
        return ()
    columns, version, name = context.indexed.columns, context.indexed.version, path.rpartition("/")[2]
    with storage.open_input(path) as source:
        return tuple(read_column_stats(source, columns, file_name=name, version=version))

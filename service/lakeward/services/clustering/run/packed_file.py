"""File slices become one base file of a new file group: their merged rows, in the order of their keys.

    slice, slice, ... --read--> merged rows --sorted--> one base file, which no reader sees yet
                        |  hashes of each  == must be ==  those of what reads back

A key that several slices have keeps its rows apart, as it had them. Where no row need be decoded, row groups are copied
(`joined_file`).

Touches: what `slice_rows`, `group_file` and `joined_file` touch.
Keeps:   1. a result is returned only for a file that reads back as the rows that a query finds in the slices, with
            their commit times and sequence numbers; the file's name alone is another one;
         2. the rows are in the order of their keys' bytes, unless those of a file were not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeward.engine.task.operation import ATTEMPTS_MAX
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.engine.task.verification import check_digest
from lakeward.merge.digest import Digest
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.run.group_file import by_key, moved_schema, write_group
from lakeward.services.clustering.run.joined_file import join_files
from lakeward.services.clustering.run.slice_rows import Read, reading_slices
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.target import TargetResult, WriteContext, WriteTarget

_JOINING = 3
"""The names of files that are joined are those of another attempt than all that `reading_slices` makes."""


@dataclass(frozen=True, slots=True)
class PackSpec:
    """What a task needs to know; picklable."""

    target: WriteTarget
    slices: tuple[SliceInput, ...]
    in_any_order: bool = False
    """The new file need not be sorted where one of the slices is not."""


def write_packed_file_at(location: str, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult:
    """`write_packed_file` on the storage of `location`."""
    storage, _ = open_storage(location)
    return write_packed_file(storage, context, spec, task_attempt)


def write_packed_file(storage: Storage, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult:
    """Raises `VerificationFailed`, `Unsupported` and `BrokenFile` for slices that cannot be merged, and what
    `open_operation_output` raises."""
    use_tight_pool()
    result = _join(storage, context, spec, task_attempt) or reading_slices(
        storage, context, partial(_write, storage, context, spec), task_attempt
    )
    rows = sum(file.stat.num_writes or 0 for file in result.files)
    storage.create(context.place(spec.target).done_path(task_attempt, rows=rows), b"")
    return result


def _join(storage: Storage, context: WriteContext, spec: PackSpec, task_attempt: int) -> TargetResult | None:
    attempt = task_attempt + _JOINING * ATTEMPTS_MAX
    try:
        return join_files(storage, context, spec.target, spec.slices, attempt, in_any_order=spec.in_any_order)
    except NotSorted:
        return None  # rows are sorted into another file, and no commit will name this one


def _write(storage: Storage, context: WriteContext, spec: PackSpec, read: Read, task_attempt: int) -> TargetResult:
    came = Digest()

    def rows() -> Iterator[pa.RecordBatch]:
        for slice_input in spec.slices:
            for batch in read(slice_input):
                came.take_hashes(batch)
                yield batch

    sorted_rows = by_key(rows(), moved_schema(context), context.budget)
    written = write_group(storage, context, spec.target, sorted_rows, task_attempt, rows_expected=lambda: came.rows)
    check_digest(merged=came.hexdigest, written=written.digest)
    return written.result

"""The merged rows of a file slice on their way to another file group, each with the hash that it had when it was read.

Touches: reads the files of the slice; spill files of its own outside of the table.
Keeps:   1. rows come as a query finds them, with their commit times and sequence numbers, without the file's name;
         2. all rows of the slice came, or `VerificationFailed` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.engine.task.operation import ATTEMPTS_MAX, relying_on_order
from lakeward.engine.task.verification import OutputSample, check_counts, check_sample
from lakeward.merge.rules.merge_rules import OPERATION_FIELD
from lakeward.read.file_slice import open_slice
from lakeward.read.positions import GoesByPlaces
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.run.group_file import moved_schema
from lakeward.storage.storage import Storage
from lakeward.write.target import WriteContext

_T = TypeVar("_T")

Read = Callable[[SliceInput], Iterable[pa.RecordBatch]]
"""Yields the rows of a slice in the `moved_schema`."""


def reading_slices(
    storage: Storage,
    context: WriteContext,
    work: Callable[[Read, int], _T],
    task_attempt: int,
    *,
    columns: Sequence[str] | None = None,
) -> _T:
    """What the work returns, which reads slices; it is done again without relying on the order of files where a footer
    is wrong about it.

    Args:
        work: is given what reads a slice, and the number of the task's attempt for the names of its files.
        columns: rows come with these alone, unchecked; None: as rows that are moved.
    """

    def merging(task_attempt: int, *, by_order: bool, by_places: bool = False) -> _T:
        read = partial(_read, storage, context, columns, by_order=by_order, by_places=by_places)
        return work(read, task_attempt)

    try:
        return relying_on_order(merging, task_attempt)
    except GoesByPlaces:
        return merging(task_attempt + 2 * ATTEMPTS_MAX, by_order=False, by_places=True)


def _read(
    storage: Storage,
    context: WriteContext,
    columns: Sequence[str] | None,
    slice_input: SliceInput,
    *,
    by_order: bool,
    by_places: bool,
) -> Iterator[pa.RecordBatch]:
    names = moved_schema(context).names if columns is None else columns
    query = SliceQuery(carries_hashes=True, takes_sample=context.verify, row_bytes_max=context.budget.row)
    if columns is not None:
        query = SliceQuery(columns=columns)
    with open_slice(storage, slice_input, by_order=by_order, by_places=by_places, query=query) as merged:
        if OPERATION_FIELD in merged.schema.names:
            raise Unsupported(
                f"File group {slice_input.file_id} is not clustered.",
                why=f"Its rows have their kind of change beside them ({OPERATION_FIELD}), and what Hudi's writers put "
                "there is not known.",
                remedy="Leave the clustering of this table to Hudi.",
            )
        sample, rows = OutputSample(merged.sample), 0
        for batch in merged.batches():
            rows += batch.num_rows
            if query.takes_sample:
                sample.update(batch.select(merged.schema.names))
            yield batch.select(names)
    if columns is None:
        check_counts(merged.counts, rows_written=rows)
    if query.takes_sample:
        check_sample(merged.sample.keys, sample.rows, rules=merged.rules, schema=merged.schema)

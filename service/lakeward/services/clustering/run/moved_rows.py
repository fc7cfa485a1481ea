"""Rows of file slices go to new file groups by their columns: three kinds of task, one behind the other.

    sample    slices -> some rows of the columns, from which the ranges of the parts are found (`plan/row_ranges`)
    split     slices -> one Arrow file: the rows of as many parts as there are, part by part as memory fills
    gather    its parts from each of these files -> sorted by key, or part by part by the columns -> a base file

An Arrow file is in the attempt's folder, so that tasks on other machines find it, and goes with the attempt.

Touches: what `slice_rows` and `group_file` touch; Arrow files in the attempt's folder.
Keeps:   1. each row goes to one part, with the hash that it had when it was read;
         2. memory is bounded by the budget of one task, whatever is read, and however large a part is: of one that is
            larger than its share pieces are sorted, each by itself, where rows are sorted by columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.paths import join
from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.merge.digest import Digest
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rows.log_rows import LogRows, join_batches
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.plan.row_ranges import Numbers, RowRanges
from lakeward.services.clustering.run.group_file import WrittenGroup, by_key, moved_schema, write_group
from lakeward.services.clustering.run.slice_rows import Read, reading_slices
from lakeward.storage.storage import Storage
from lakeward.write.target import WriteContext, WriteTarget

_COMPRESSION = "lz4"
Bounds = tuple[tuple[Any, Any], ...]
"""The least and the largest value of each column; None where all are null."""


@dataclass(frozen=True, slots=True)
class SampleSpec:
    slices: tuple[SliceInput, ...]
    columns: tuple[str, ...]
    rows_max: int
    seed: int


@dataclass(frozen=True, slots=True)
class Sample:
    rows: pa.Table
    draws: npt.NDArray[np.float64]
    """A row is here because its draw is less than `chance`."""
    chance: float


@dataclass(frozen=True, slots=True)
class SplitSpec:
    number: int
    """Among those of the attempt."""
    slices: tuple[SliceInput, ...]
    ranges: RowRanges


@dataclass(frozen=True, slots=True)
class SplitRows:
    path: str
    parts: Numbers
    """The part that each batch of the file is of."""
    rows: Numbers
    """How many rows each part has."""
    digest: str


@dataclass(frozen=True, slots=True)
class GatherSpec:
    target: WriteTarget
    ranges: RowRanges
    parts: range
    """The parts of the target that this task writes."""
    split: tuple[tuple[str, Numbers], ...]
    """Path and parts of each `SplitRows`."""
    rows: int


@dataclass(frozen=True, slots=True)
class GatheredGroup:
    written: WrittenGroup
    bounds: Bounds


def draw_sample(storage: Storage, context: WriteContext, spec: SampleSpec, task_attempt: int) -> Sample:
    """No more than `rows_max` rows, each as likely as any other."""
    use_tight_pool()

    def draw(read: Read, _: int) -> Sample:
        random, chance, kept = np.random.default_rng(spec.seed), 1.0, 0
        rows: list[pa.Table] = []
        draws: list[npt.NDArray[np.float64]] = []
        for slice_input in spec.slices:
            for batch in read(slice_input):
                drawn = random.random(batch.num_rows)
                rows.append(pa.Table.from_batches([batch]).filter(pa.array(drawn < chance)))
                draws.append(drawn[drawn < chance])
                kept += rows[-1].num_rows
                while kept > spec.rows_max:
                    chance /= 2
                    whole, numbers = pa.concat_tables(rows), np.concatenate(draws)
                    rows, draws = [whole.filter(pa.array(numbers < chance))], [numbers[numbers < chance]]
                    kept = rows[0].num_rows
        return Sample(pa.concat_tables(rows).combine_chunks(), np.concatenate(draws), chance) if rows else _NO_ROWS

    return reading_slices(storage, context, draw, task_attempt, columns=spec.columns)


_NO_ROWS = Sample(pa.table({}), np.empty(0), 1.0)


def joined_sample(samples: Sequence[Sample]) -> pa.Table:
    """The rows that all of them would have with the chance of the smallest."""
    chance = min((each.chance for each in samples if each.rows.num_columns), default=1.0)
    rows = [each.rows.filter(pa.array(each.draws < chance)) for each in samples if each.rows.num_columns]
    return pa.concat_tables(rows) if rows else pa.table({})


def split_rows(storage: Storage, context: WriteContext, spec: SplitSpec, task_attempt: int) -> SplitRows:
    use_tight_pool()
    return reading_slices(storage, context, partial(_split, storage, context, spec), task_attempt)


def _split(storage: Storage, context: WriteContext, spec: SplitSpec, read: Read, task_attempt: int) -> SplitRows:
    schema, budget, came = moved_schema(context), context.budget, Digest()
    path = join(context.attempt_folder, f"split-{spec.number}-{task_attempt}.rows.arrow")
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
    counts, of_batches = np.zeros(spec.ranges.parts, np.int64), list[int]()
    waiting, places = LogRows(schema), list[Numbers]()
    with storage.open_output(path) as sink, pa.ipc.new_file(sink, schema, options=options) as file:

        def spill() -> None:
            nonlocal waiting, places
            if not places:
                return
            parts = np.concatenate(places)
            rows, waiting, places = waiting, LogRows(schema), []
            order = np.argsort(parts, kind="stable")
            rows.seal()
            counts[:] += np.bincount(parts, minlength=len(counts))
            at_once = max(1, budget.window // max(1, rows.row_bytes))
            for first in range(0, len(order), at_once):
                # Parts may have few rows each: they are put together at once, and divided without a copy.
                window = rows.take(order[first : first + at_once])
                of_window = parts[order[first : first + at_once]]
                starts = np.flatnonzero(np.diff(of_window, prepend=-1))
                for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(of_window)], strict=True):
                    file.write_batch(window.slice(start, end - start))
                of_batches.extend(of_window[starts].tolist())

        for slice_input in spec.slices:
            for batch in read(slice_input):
                if batch.num_rows:
                    came.take_hashes(batch)
                    places.append(spec.ranges.place(batch))
                    waiting.append(batch)
                if waiting.nbytes > budget.logs:
                    spill()
        spill()
    return SplitRows(path, np.array(of_batches, np.int64), counts, came.hexdigest)


def gather_group(storage: Storage, context: WriteContext, spec: GatherSpec, task_attempt: int) -> GatheredGroup:
    use_tight_pool()
    budget, columns, bounds = context.budget, spec.ranges.layout.columns, dict[str, tuple[Any, Any]]()
    if spec.ranges.layout.is_by_key:
        rows = by_key(_of_parts(storage, spec, spec.parts), moved_schema(context), budget)
    else:
        rows = _by_columns(storage, spec, budget)

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for name in columns:
                bounds[name] = _wider(bounds.get(name, (None, None)), batch.column(name))
            yield batch

    written = write_group(storage, context, spec.target, watched(), task_attempt, rows_expected=lambda: spec.rows)
    storage.create(context.place(spec.target).done_path(task_attempt, rows=spec.rows), b"")
    return GatheredGroup(written, tuple(bounds.get(name, (None, None)) for name in columns))


def _wider(bounds: tuple[Any, Any], column: pa.Array) -> tuple[Any, Any]:
    found = pc.min_max(column).as_py()
    least = [each for each in (bounds[0], found["min"]) if each is not None]
    largest = [each for each in (bounds[1], found["max"]) if each is not None]
    return min(least, default=None), max(largest, default=None)


def _of_parts(storage: Storage, spec: GatherSpec, parts: range) -> Iterator[pa.RecordBatch]:
    for path, of_batches in spec.split:
        wanted = np.flatnonzero((of_batches >= parts.start) & (of_batches < parts.stop))
        if len(wanted):
            with storage.open_input(path) as source, pa.ipc.open_file(source) as file:
                for number in wanted.tolist():
                    yield file.get_batch(number)


def _by_columns(storage: Storage, spec: GatherSpec, budget: MemoryBudget) -> Iterator[pa.RecordBatch]:
    for part in spec.parts:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in _of_parts(storage, spec, range(part, part + 1)):
            waiting.append(batch)
            size += batch.nbytes
            if size > budget.logs:
                yield from _sorted(waiting, spec.ranges, budget)
                waiting, size = [], 0
        if waiting:
            yield from _sorted(waiting, spec.ranges, budget)


def _sorted(batches: list[pa.RecordBatch], ranges: RowRanges, budget: MemoryBudget) -> Iterator[pa.RecordBatch]:
    rows = join_batches(batches)
    columns = {str(number): column for number, column in enumerate(ranges.columns(rows))}
    order = pc.sort_indices(pa.table(columns), [(name, "ascending", "at_start") for name in columns])
    at_once = max(1, budget.window * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, at_once):
        yield rows.take(order.slice(start, at_once))

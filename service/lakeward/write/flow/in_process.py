"""Rows in the memory of this process: for small inputs, and for tests that stop a write at each of its storage calls.

Touches: the input, once; what the handles touch.
Keeps:   no more rows are held than there is memory for: more are refused, naming what has no such limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Conflict, Refused
from lakeward.base.quantities import format_size
from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.index.index import record_locations
from lakeward.index.location import INSTANT
from lakeward.merge.memory_budget import MEMORY_BYTES, MemoryBudget
from lakeward.storage.storage import Storage
from lakeward.write.flow.one_place import keep_one_place, leaving_rows
from lakeward.write.flow.row_counts import count_places
from lakeward.write.flow.row_keys import Keying
from lakeward.write.flow.shares import targets_of
from lakeward.write.handles.handle import write_target
from lakeward.write.keyed_rows import IS_NEW, ORDER, PARTITION_PATH, PLACE, RECORD_KEY
from lakeward.write.tagging.tagging_kinds import BatchTagging, LookupTagging, Tagging
from lakeward.write.target import Assignment, TargetResult, Workload, WriteContext

_ROWS_AT_ONCE = 16_384
"""Rows that a handle gets in one batch."""
_BYTES_MAX = 2**31 - 1
"""A column of texts in one piece has no more."""
_ROW = "_lakeward_row"
_GROWTH = 8
"""Rows in memory take so many times what they take in a file, at most and about."""


def fits_in_process(file_bytes: int, *, memory_bytes: int) -> bool:
    """Whether the rows of files of so many bytes can be taken for few enough."""
    return file_bytes * _GROWTH <= _rows_max(memory_bytes)


def _rows_max(memory_bytes: int) -> int:
    return min(MemoryBudget(memory_bytes).rows // 2, _BYTES_MAX)


class InProcessFlow:
    def __init__(
        self, storage: Storage, batches: Iterable[pa.RecordBatch], *, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """
        Args:
            memory_bytes: of the process; the input may take half of what it leaves for rows.
        """
        self._storage = storage
        self._batches = batches
        self._bytes_max = _rows_max(memory_bytes)
        self._keying: Keying | None = None
        self._keyed: pa.RecordBatch | None = None
        self._tagged: pa.RecordBatch | None = None

    def tag(self, keying: Keying, tagging: Tagging, *, on_progress: Callable[[Progress], None]) -> Workload:
        if self._keying is None:
            self._keying, self._keyed = keying, _one_batch(self._read(keying, on_progress))
        elif self._keying != keying:
            raise Conflict(
                "The table's columns or keys changed while rows were written to it.",
                why="Another writer changed them, after the rows had been brought into their form.",
                remedy="Write again. Nothing was written.",
            )
        keyed = self._keyed
        if keyed is None:
            return Workload({})
        if isinstance(tagging, BatchTagging):
            tagged = keyed.append_column(PLACE, tagging.places(keyed))
        else:
            tagged = _looked_up(self._storage, keyed, tagging, keying)
        self._tagged = tagged
        return Workload({place: counted.rows for place, counted in count_places(tagged).items()})

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        tagged = self._tagged
        if tagged is None or not tagged.num_rows:
            return []
        targets = targets_of(tagged, assignment.places)
        order = _sorted(tagged, targets)
        rows = tagged.drop_columns([PLACE]).append_column(IS_NEW, pc.is_null(tagged.column(PLACE)))
        bounds = np.searchsorted(targets[order], np.arange(len(assignment.targets) + 1))
        results = []
        for target in assignment.targets:
            on_progress(Progress(target.index, len(assignment.targets)))
            of_target = order[bounds[target.index] : bounds[target.index + 1]]
            if len(of_target):
                results.append(write_target(self._storage, context, target, _pieces(rows, of_target), 0))
        on_progress(Progress(len(assignment.targets), len(assignment.targets)))
        return results

    def close(self) -> None:
        self._keyed = self._tagged = None

    def _read(self, keying: Keying, on_progress: Callable[[Progress], None]) -> Iterator[pa.RecordBatch]:
        rows = held = 0
        for batch in self._batches:
            on_progress(Progress(0, 0))
            keyed = keying.keyed(batch, rows_before=rows, order=rows)
            rows += batch.num_rows
            held += keyed.nbytes
            if held > self._bytes_max:
                raise Refused(
                    f"The rows are too many to be sorted in this process: more than {rows}.",
                    why=f"They take more than {format_size(self._bytes_max)} of its memory.",
                    remedy="Write them with Spark (`--engine spark`), which sorts on disk. Nothing was written.",
                )
            yield keyed


def _one_batch(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return None
    (batch,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    return batch


def _looked_up(storage: Storage, keyed: pa.RecordBatch, tagging: LookupTagging, keying: Keying) -> pa.RecordBatch:
    """The rows with the places that are found for their keys; a row with several is there as often. Behind them those
    that say which keys leave."""
    index = tagging.index
    partitions = None if index.is_global else pc.unique(keyed.column(PARTITION_PATH)).to_pylist()
    found = record_locations(storage, index, pc.unique(keyed.column(RECORD_KEY)), partitions).drop_columns([INSTANT])
    found = found.rename_columns([RECORD_KEY, PARTITION_PATH, PLACE])
    if tagging.one_place is None:
        return _joined(keyed, found, is_global=index.is_global)
    placed = keep_one_place(storage, keyed, found, tagging.one_place, keying)
    rows = keyed.filter(pc.invert(pc.is_in(keyed.column(RECORD_KEY), placed.lost)))
    tagged = _joined(rows, placed.locations, is_global=True)
    if not placed.left.num_rows:
        return tagged
    return _one_batch([tagged, leaving_rows(placed.left, tagged.schema)]) or tagged


def _joined(keyed: pa.RecordBatch, found: pa.Table, *, is_global: bool) -> pa.RecordBatch:
    rows = pa.table(
        [keyed.column(RECORD_KEY), keyed.column(PARTITION_PATH), np.arange(keyed.num_rows)],
        [RECORD_KEY, PARTITION_PATH, _ROW],
    )
    if is_global:
        joined = rows.join(found, RECORD_KEY, join_type="left outer", left_suffix="_new")
    else:
        joined = rows.join(found, [RECORD_KEY, PARTITION_PATH], join_type="left outer")
    joined = joined.sort_by(_ROW).combine_chunks()
    tagged = keyed.take(joined[_ROW].combine_chunks())
    if is_global:
        moved = pc.coalesce(joined[PARTITION_PATH], joined[f"{PARTITION_PATH}_new"]).combine_chunks()
        tagged = tagged.set_column(tagged.schema.get_field_index(PARTITION_PATH), PARTITION_PATH, moved)
    return tagged.append_column(PLACE, joined[PLACE].combine_chunks())


def _sorted(tagged: pa.RecordBatch, targets: np.ndarray) -> np.ndarray:
    """The rows by (target, key as UTF-8, place in the input), those that go nowhere in front."""
    columns = {"target": targets, RECORD_KEY: tagged.column(RECORD_KEY), ORDER: tagged.column(ORDER)}
    by = [(name, "ascending") for name in columns]
    order: np.ndarray = pc.sort_indices(pa.table(columns), sort_keys=by).to_numpy()
    return order


def _pieces(rows: pa.RecordBatch, order: np.ndarray) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(order), _ROWS_AT_ONCE):
        yield rows.take(pa.array(order[start : start + _ROWS_AT_ONCE]))

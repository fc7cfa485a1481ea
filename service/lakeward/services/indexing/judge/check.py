"""Is an index right? Rows of the table are looked up in it, and its entries are looked for among the rows.

    rows -> index     a row that is drawn must be located in its file group: where it is not, writers insert it again
    index -> rows     an entry that is drawn must have a row in its file group, where the index keeps entries at all

The size of both samples is that of `services/indexing/judge/confidence`, so it is known how sure one may be after
nothing was found. Where only some file slices with logs are merged, or some parts of the index read, that holds for
what was read. An index that knows no keys of logs is asked for the keys of base files alone, and gives no others. One
that reads the files has no entries of its own.

Writers work meanwhile, and a difference may be one of their steps. So what is found is checked again, on a fresh
snapshot and in the index as of that, and is a fault only if it is found twice.

Touches: reads the table and the index; writes nothing and takes no lock.
Keeps:   1. a share of wrong rows or entries that is stated is found with the confidence that is stated;
         2. an index that writers keep right has no fault, whatever they do meanwhile.
Memory:  the samples, and what merging a slice needs.
See:     docs/decisions/0076-what-is-known-of-an-index.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.index import Index, NarrowingIndex, record_locations
from lakeward.index.location import LOCATIONS, PARTITION_PATH, RECORD_KEY
from lakeward.index.placed_keys import JudgedIndex, RowTruth, also_in, judge_by_rows, not_in
from lakeward.services.indexing.judge.check_result import CheckSize, Drawn, IndexCheck
from lakeward.services.indexing.judge.confidence import excluded_rate
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_FAULTS_MAX = 1000
"""So many are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A table and the index of it at one moment."""

    snapshot: TableSnapshot
    index: Index


def check_index(
    storage: Storage,
    moment_now: Callable[[], Moment],
    size: CheckSize,
    *,
    on_step: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> IndexCheck:
    """Raises what looking up raises.

    Args:
        moment_now: the table and its index as they are now; asked again where something is found.
        on_step: called with what is done, how much of it, and how much there is of it.
    """
    first = moment_now()
    index, meter = first.index, ReadMeter()
    notes: list[str] = []
    sample = sample_rows(
        storage,
        first.snapshot,
        size.number,
        size.seed,
        with_logs=index.can_index_log_files,
        merged_bytes_max=size.merged_bytes_max,
        on_slice=lambda done, of: on_step("drew rows of {} of {} file slices", done, of),
    )
    notes += sample.notes
    suspects = _not_located(storage, first, sample.rows, lambda done, of: on_step(_LOOKED, done, of))
    entries_drawn, entries_of = LOCATIONS.empty_table(), 0
    keeps_entries = index.can_index_log_files and not isinstance(index, NarrowingIndex)
    if keeps_entries:
        entries_drawn, entries_of, parts_left = _sample_entries(
            storage, index, size, lambda done, of: on_step("drew entries of {} of {} parts of the index", done, of)
        )
        if parts_left:
            notes.append(f"{parts_left:,} parts of the index were left for another time.")

    def judged(snapshot: TableSnapshot, placed: pa.Table) -> RowTruth:
        truth = judge_by_rows(storage, snapshot, placed, meter=meter)
        notes.extend(truth.notes)
        return truth

    without_row = judged(first.snapshot, entries_drawn).gone

    if suspects.num_rows or without_row.num_rows:
        again = moment_now()
        # Rows that are still where they were: others were deleted or moved meanwhile.
        suspects = judged(again.snapshot, suspects).there
        suspects = _not_located(storage, again, suspects, lambda done, of: None)
        without_row = _still_entries(storage, again, without_row)
        without_row = judged(again.snapshot, without_row).gone
        said = _located(storage, again, suspects.slice(0, _FAULTS_MAX), lambda done, of: None)
        found = JudgedIndex(suspects, without_row, said)
    else:
        found = JudgedIndex()
    meter.add(sample.read)
    return IndexCheck(
        size.confidence,
        _drawn(sample.rows.num_rows, sample.of, found.missed.num_rows, size),
        _drawn(entries_drawn.num_rows, entries_of, found.false.num_rows, size) if keeps_entries else None,
        tuple(found.faults(_FAULTS_MAX)),
        tuple(dict.fromkeys(notes)),
        meter,
    )


_LOOKED = "looked into {} of {} parts of the index"


def _drawn(checked: int, of: int, wrong: int, size: CheckSize) -> Drawn:
    # Rows that were cleaned away since they were counted are not among those checked; they are not held against it.
    return Drawn(checked, of, wrong, None if wrong else excluded_rate(checked, of, size.confidence))


def _not_located(storage: Storage, moment: Moment, rows: pa.Table, on_part: Callable[[int, int], None]) -> pa.Table:
    """The rows that the index does not locate in their file group."""
    return not_in(rows, _located(storage, moment, rows, on_part))


def _located(storage: Storage, moment: Moment, rows: pa.Table, on_part: Callable[[int, int], None]) -> pa.Table:
    if not rows.num_rows:
        return LOCATIONS.empty_table()
    keys = pc.unique(rows.column(RECORD_KEY))
    partitions = pc.unique(rows.column(PARTITION_PATH)).to_pylist()
    return record_locations(storage, moment.index, keys, partitions, on_part=on_part)


def _sample_entries(
    storage: Storage, index: Index, size: CheckSize, on_part: Callable[[int, int], None]
) -> tuple[pa.Table, int, int]:
    """Entries of the index, each set of them as likely as any other; how many were drawn from; parts that were not."""
    random = np.random.default_rng([size.seed, 0])
    every = index.parts(None)
    parts = [every[at] for at in random.permutation(len(every))]
    held, numbers, total = LOCATIONS.empty_table(), np.empty(0), 0
    for done, part in enumerate(parts):
        if size.entries_max is not None and total >= size.entries_max:
            return held, total, len(parts) - done
        on_part(done, len(parts))
        for batch in index.look_up(storage, part, None):
            total += batch.num_rows
            drawn = random.random(batch.num_rows)
            below = numbers.max() if len(numbers) >= size.number else 1.0
            chosen = np.flatnonzero(drawn < below)
            if not len(chosen):
                continue
            held = pa.concat_tables([held, pa.Table.from_batches([batch.take(pa.array(chosen))])])
            numbers = np.concatenate([numbers, drawn[chosen]])
            if len(numbers) > size.number:
                kept = np.sort(np.argpartition(numbers, size.number)[: size.number])
                held, numbers = held.take(pa.array(kept)).combine_chunks(), numbers[kept]
    return held, total, 0


def _still_entries(storage: Storage, moment: Moment, entries: pa.Table) -> pa.Table:
    """The entries that the index still has."""
    return also_in(entries, _located(storage, moment, entries, lambda done, of: None))

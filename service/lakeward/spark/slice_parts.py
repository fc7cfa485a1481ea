"""Large file slices in parts, each with the rows of a range of keys, so that one slice is not one task.

    row groups of the base file, in the order of keys    a .. f | g .. m | n .. z
    parts of the slice                                     < g  | g .. n |  >= n

A part reads the row groups that may have its keys, and all logs of the slice, whose other records it passes over. So a
slice is cut only where its base file is in the order of keys (docs/decisions/0045 says which are), and into no more
parts than let each read at least as much of the base file as of the logs.

Touches: `slice_parts` the footers of large base files, reading only.
Keeps:   each row of a slice is in one part: a key is in one range, and the first and the last range are open.
See:     docs/decisions/0127-rows-go-to-spark-as-arrow.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import pyarrow as pa

from lakeward.base.errors import LakewardError
from lakeward.base.paths import join
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import RowGroup, row_groups
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.query.filter import FilterColumn, Operator, ValueComparison
from lakeward.read.query.predicate import Predicate
from lakeward.scan.scan_plan import ScanPlan
from lakeward.scan.slice_tasks import TASK_BYTES
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice

_KEY: Final = FilterColumn((RECORD_KEY_FIELD,))


@dataclass(frozen=True, slots=True)
class SliceRange:
    """A file slice, or the rows of it whose keys are in a range."""

    slice: FileSlice
    bytes: int
    """The size of what is read for it, about."""
    begin: str | None = None
    """The first key; None: no key is too small."""
    end: str | None = None
    """The first key that is not in it any more; None: none is too great."""

    def planned(self, plan: ScanPlan) -> ScanPlan:
        """The plan for the rows of this part."""
        bounds = ((Operator.GREATER_OR_EQUAL, self.begin), (Operator.LESS, self.end))
        within = tuple(ValueComparison(_KEY, each, pa.scalar(key)) for each, key in bounds if key is not None)
        query = plan.slice_query
        return replace(plan, slice_query=replace(query, predicate=Predicate((*within, *query.predicate.conditions))))


def slice_parts(storage: Storage, plan: ScanPlan, *, task_bytes: int = TASK_BYTES) -> list[SliceRange]:
    """The slices of a plan, large ones in parts.

    Args:
        task_bytes: of the base file, in each part.
    """
    can_cut = not plan.reading.key_fields  # of keys that are made no footer says anything
    return [
        part
        for slice_ in plan.slices
        for part in (_parts(storage, plan, slice_, task_bytes) if can_cut else _whole(slice_))
    ]


def _whole(slice_: FileSlice) -> list[SliceRange]:
    return [SliceRange(slice_, slice_.bytes)]


def _parts(storage: Storage, plan: ScanPlan, slice_: FileSlice, task_bytes: int) -> list[SliceRange]:
    base = slice_.base_file
    if base is None:
        return _whole(slice_)
    in_logs = sum(log.size for log in slice_.log_files)
    count = base.size // max(task_bytes, in_logs)
    if count < 2:
        return _whole(slice_)
    try:
        path = base.path
        with broken_if_unreadable(path), storage.open_input(join(plan.reading.base_path, path)) as source:
            file = ParquetBatches(source, where=f"the base file {path}")
            groups = row_groups(file, pa.schema([(RECORD_KEY_FIELD, pa.string())]))
    except LakewardError:
        return _whole(slice_)  # the task that reads it says what is wrong, as it is then
    bounds = [None, *key_bounds(groups, count), None]
    share = base.size // (len(bounds) - 1) + in_logs
    return [SliceRange(slice_, share, begin, end) for begin, end in pairwise(bounds)]


def key_bounds(groups: Sequence[RowGroup], count: int) -> list[str]:
    """The keys at which so many parts of about as many rows begin, but for the first; fewer where there are few row
    groups, and none where these are not in the order of keys."""
    ranges = [group.ranges.get(RECORD_KEY_FIELD) for group in groups if group.rows]
    known = [each for each in ranges if each is not None]
    if len(known) < len(ranges) or any(str(one.high) > str(other.low) for one, other in pairwise(known)):
        return []
    return list(dict.fromkeys(_evenly(groups, count)))


def _evenly(groups: Sequence[RowGroup], count: int) -> Iterator[str]:
    rows = sum(group.rows for group in groups)
    before = 0
    due = 1
    for group in groups:
        if group.rows and before * count >= due * rows:
            found = group.ranges[RECORD_KEY_FIELD]
            assert found is not None, "all are known"
            yield str(found.low)
            due = before * count // rows + 1
        before += group.rows

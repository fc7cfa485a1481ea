"""A flow whose rows come from the table's own files, and go to new file groups by their columns.

    sample tasks -> ranges -> split tasks -> gather tasks, one for each new file group

Touches: what the tasks touch, through a dispatcher.
Keeps:   the rows that the new file groups have are those that were read, by the sum of their hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from lakeward.engine.dispatch.dispatcher import Dispatcher, Progress
from lakeward.engine.task.verification import check_digest
from lakeward.merge.digest import sum_of_digests
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.plan.layout import Layout
from lakeward.services.clustering.plan.layout_record import LayoutRecord, bound_text
from lakeward.services.clustering.plan.row_ranges import PARTS_MAX, RowRanges, find_ranges
from lakeward.services.clustering.run.moved_rows import (
    GatheredGroup,
    GatherSpec,
    Sample,
    SampleSpec,
    SplitRows,
    SplitSpec,
    joined_sample,
)
from lakeward.services.clustering.run.tasks import TaskResult, TaskSpec
from lakeward.table.file_system_view import GroupId
from lakeward.write.flow.rowless import WithoutRows, run_items
from lakeward.write.target import Assignment, TargetResult, WriteContext, WriteTarget

_SAMPLED_ROWS = 200
"""Each part is sampled with so many: then the sizes of parts differ by a tenth or so."""
_SAMPLED_ROWS_MIN = 1_000
_GROWTH = 8
"""Rows in memory take so many times what they take in a file, at most and about."""

RunTask = Callable[[WriteContext, TaskSpec, int], TaskResult]


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """Slices whose rows go to these targets by their columns."""

    slices: tuple[SliceInput, ...]
    sizes: tuple[int, ...]
    """Bytes of each slice."""
    targets: tuple[WriteTarget, ...]


class MovingFlow(WithoutRows):
    def __init__(
        self, dispatcher: Dispatcher, run_task: RunTask, layout: Layout, groups_of: Callable[[], Sequence[MovedGroup]]
    ) -> None:
        """
        Args:
            run_task: called where the work runs; has its own access to the storage.
            groups_of: what was assigned.
        """
        self._dispatcher = dispatcher
        self._run_task = run_task
        self._layout = layout
        self._groups_of = groups_of
        self.records: tuple[LayoutRecord, ...] = ()
        """What the commit says of each new file group, once it is written."""

    def write(
        self, context: WriteContext, assignment: Assignment, *, on_progress: Callable[[Progress], None]
    ) -> list[TargetResult]:
        groups = self._groups_of()
        chunks = [_chunks(group, context.sizes.max_file) for group in groups]
        parts = [_parts_of_target(group, self._layout, context) for group in groups]

        def run(specs: Sequence[TaskSpec], what: str, named: Sequence[GroupId]) -> list[TaskResult]:
            return run_items(self._dispatcher, self._run_task, context, specs, what, named, on_progress)

        sampled = [(number, chunk) for number, of_group in enumerate(chunks) for chunk in of_group]
        first = [(chunk[0].partition_path, chunk[0].file_id) for _, chunk in sampled]
        specs = [
            SampleSpec(
                chunk,
                self._layout.columns,
                max(
                    _SAMPLED_ROWS_MIN,
                    2 * _SAMPLED_ROWS * parts[number] * len(groups[number].targets) // len(chunks[number]),
                ),
                seed=place,
            )
            for place, (number, chunk) in enumerate(sampled)
        ]
        samples = cast(list[Sample], run(specs, "sampling", first))
        ranges = [
            find_ranges(
                self._layout,
                joined_sample([sample for (of, _), sample in zip(sampled, samples, strict=True) if of == number]),
                parts[number] * len(group.targets),
            )
            for number, group in enumerate(groups)
        ]
        splits = [SplitSpec(place, chunk, ranges[number]) for place, (number, chunk) in enumerate(sampled)]
        split = cast(list[SplitRows], run(splits, "splitting", first))
        gathered: list[GatherSpec] = []
        for number, group in enumerate(groups):
            of_group = [rows for (of, _), rows in zip(sampled, split, strict=True) if of == number]
            gathered += _gatherings(group, ranges[number], parts[number], of_group)
        named = [(each.target.partition_path, each.target.file_id) for each in gathered]
        found = cast(list[GatheredGroup], run(gathered, "clustering", named))
        check_digest(
            merged=sum_of_digests(each.digest for each in split),
            written=sum_of_digests(each.written.digest for each in found),
        )
        results = [each.written.result for each in found]
        self.records = tuple(
            LayoutRecord(
                group_id,
                self._layout,
                each.written.result.files[0].size_bytes,
                tuple((bound_text(least), bound_text(largest)) for least, largest in each.bounds),
            )
            for group_id, each in zip(named, found, strict=True)
            if each.written.result.files
        )
        return results


def _chunks(group: MovedGroup, bytes_max: int) -> list[tuple[SliceInput, ...]]:
    """What one task reads: slices of so many bytes, or one."""
    chunks: list[list[SliceInput]] = [[]]
    size = 0
    for slice_input, of_slice in zip(group.slices, group.sizes, strict=True):
        if chunks[-1] and size + of_slice > bytes_max:
            chunks.append([])
            size = 0
        chunks[-1].append(slice_input)
        size += of_slice
    return [tuple(chunk) for chunk in chunks]


def _parts_of_target(group: MovedGroup, layout: Layout, context: WriteContext) -> int:
    """How many parts each target has: where a part is sorted in memory, as many as fit there."""
    if layout.is_by_key:
        return 1
    wanted = -(-_GROWTH * sum(group.sizes) // (len(group.targets) * context.budget.logs))
    return max(1, min(wanted, PARTS_MAX // len(group.targets)))


def _gatherings(group: MovedGroup, ranges: RowRanges, parts: int, split: Sequence[SplitRows]) -> list[GatherSpec]:
    rows = np.sum([each.rows for each in split], axis=0)
    files = tuple((each.path, each.parts) for each in split)
    return [
        GatherSpec(target, ranges, of_target, files, int(rows[of_target.start : of_target.stop].sum()))
        for number, target in enumerate(group.targets)
        for of_target in [range(number * parts, (number + 1) * parts)]
    ]

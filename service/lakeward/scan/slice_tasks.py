"""File slices as tasks: several small ones in one, by their bytes, as Spark puts files together.

Touches: nothing.
Keeps:   each slice is in one task.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from lakeward.table.file_group import FileSlice

TASK_BYTES: Final = 128 * 1024**2
"""What a task reads, where no slice is larger."""
OPEN_BYTES: Final = 4 * 1024**2
"""What a slice costs beside its bytes, for opening its files."""


def pack_slices(
    slices: Sequence[FileSlice], *, parallelism: int, task_bytes: int = TASK_BYTES, open_bytes: int = OPEN_BYTES
) -> list[tuple[FileSlice, ...]]:
    """Tasks of no more than about a share of the whole each, so that all cores have work; a large slice is a task.

    Args:
        parallelism: the cores that there are.
    """
    costs = [(slice_.bytes + open_bytes, slice_) for slice_ in slices]
    share = max(open_bytes, min(task_bytes, -(-sum(cost for cost, _ in costs) // max(parallelism, 1))))
    alone = [slice_ for cost, slice_ in costs if cost >= share]
    small = sorted((each for each in costs if each[0] < share), key=lambda each: each[0], reverse=True)
    tasks: list[list[FileSlice]] = [[] for _ in range(-(-sum(cost for cost, _ in small) // share))]
    free = [(0, task) for task in range(len(tasks))]
    for cost, slice_ in small:
        held, task = heapq.heappop(free)
        tasks[task].append(slice_)
        heapq.heappush(free, (held + cost, task))
    return [*((slice_,) for slice_ in alone), *(tuple(task) for task in tasks)]

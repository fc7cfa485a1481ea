"""Pieces of work as tasks: several small ones in one, by their bytes, as Spark puts files together. A piece is a file
slice, a part of a large one, or what a commit changed in a file group.

Touches: nothing.
Keeps:   each piece is in one task.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

TASK_BYTES: Final = 128 * 1024**2
"""What a task reads, where no piece is larger."""
OPEN_BYTES: Final = 4 * 1024**2
"""What a piece costs beside its bytes, for opening its files."""


class Piece(Protocol):
    @property
    def bytes(self) -> int:
        """The size of the files that are read for it."""


P = TypeVar("P", bound=Piece)


def pack_tasks(
    pieces: Sequence[P], *, parallelism: int, task_bytes: int = TASK_BYTES, open_bytes: int = OPEN_BYTES
) -> list[tuple[P, ...]]:
    """Tasks of no more than about a share of the whole each, so that all cores have work; a large piece is a task.

    Args:
        parallelism: the cores that there are.
    """
    costs = [(piece.bytes + open_bytes, piece) for piece in pieces]
    share = max(open_bytes, min(task_bytes, -(-sum(cost for cost, _ in costs) // max(parallelism, 1))))
    alone = [piece for cost, piece in costs if cost >= share]
    small = sorted((each for each in costs if each[0] < share), key=lambda each: each[0], reverse=True)
    tasks: list[list[P]] = [[] for _ in range(-(-sum(cost for cost, _ in small) // share))]
    free = [(0, task) for task in range(len(tasks))]
    for cost, piece in small:
        held, task = heapq.heappop(free)
        tasks[task].append(piece)
        heapq.heappush(free, (held + cost, task))
    return [*((piece,) for piece in alone), *(tuple(task) for task in tasks)]

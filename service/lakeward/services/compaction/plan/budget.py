"""How much one plan may hold: operations are taken in order while they fit.

Touches: nothing.
Keeps:   1. the operations of a plan read and write no more than the budget, unless it is a single one;
         2. an operation that does not fit does not keep out a later one that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MIB = 1024 * 1024

BUDGET_BYTES = 512000 * MIB
"""`hoodie.compaction.target.io`, whose unit is MB and means MiB."""


def within_budget(io_bytes: Mapping[int, int], order: Iterable[int], budget_bytes: int) -> list[int]:
    """Which of `order` fit, in that order. `io_bytes` is what each operation reads and writes.

    The first is taken whatever its size: a file group larger than the budget would else never be compacted.
    """
    taken: list[int] = []
    left = budget_bytes
    for index in order:
        if not taken or io_bytes[index] <= left:
            taken.append(index)
            left -= io_bytes[index]
    return taken

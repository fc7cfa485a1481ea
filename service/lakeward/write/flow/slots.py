"""Which task of Spark's gets which targets, and the number that takes a row there.

Spark's `repartition(n, column)` puts a row into the partition that its hash of the column says, so that some tasks
would get several targets and others none. For each of the n partitions here is a number that the hash takes there.

Touches: nothing.
Keeps:   a target is in one slot, and each slot has work while there are targets enough.
Source:  Spark 3.5 and 4.0: `HashPartitioning` (pmod of `Murmur3Hash`, seed 42), `Murmur3_x86_32.hashInt`
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_SEED = 42


def assign_slots(rows: Mapping[int, int], slots: int) -> dict[int, int]:
    """The slot of each target, large ones first, each into the slot that has the fewest rows so far.

    Args:
        rows: that are expected, by target.
        slots: how many there are at most.
    """
    free = [(0, slot) for slot in range(min(slots, len(rows)))]
    found = {}
    for target in sorted(rows, key=lambda target: (-rows[target], target)):
        held, slot = heapq.heappop(free)
        found[target] = slot
        # A target costs something without rows, too.
        heapq.heappush(free, (held + max(rows[target], 1), slot))
    return found


def numbers_into(slots: int) -> npt.NDArray[np.int32]:
    """For each of so many partitions a number that Spark puts into it."""
    found = np.full(slots, -1, dtype=np.int64)
    start, count = 0, max(64, slots * 16)
    while (found < 0).any():
        numbers = np.arange(start, start + count, dtype=np.int64)
        partitions = _spark_hash(numbers) % slots
        at, first = np.unique(partitions, return_index=True)
        missing = found[at] < 0
        found[at[missing]] = numbers[first[missing]]
        start += count
    return found.astype(np.int32)


def _spark_hash(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Spark's hash of ints, which are not negative."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        value = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        value ^= np.uint32(4)
        value = (value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        value = (value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        value ^= value >> np.uint32(16)
    return value.view(np.int32).astype(np.int64)


def _rotated(value: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))

"""The tasks of a lookup of many keys: for each part of an index as many as it has files, each with a run of its keys.

    keys -> by part, sorted -> cut into runs that follow each other -> a task each

A part with four files is four times the work of one with one, for each of its keys may be in any of them. The keys of
a run are neighbours, so that the tasks of a part read different blocks of its files. Where a part has few keys it has
fewer runs: below `RUN_KEYS_MIN` keys a task takes longer to be handed out than to look them up.

Touches: nothing.
Keeps:   1. each key is in one run, of the part that has it;
         2. a part has as many runs as files, or as its keys are worth; one without keys has none.
Source:  RFC-08: a lookup's parallelism is buckets times live HFiles
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.index import HashedIndex

RUN_KEYS_MIN: Final = 10_000
"""Fewer take a task hardly less: cold, in a bucket of a million entries, a thousand take 122 ms and ten thousand 182
(benchmarks/README.md)."""


@dataclass(frozen=True, slots=True)
class LookupRun:
    part: Any
    keys: pa.Array
    """Keys of the part, ascending by their bytes, each once."""


@dataclass(frozen=True, slots=True)
class PlannedLookup:
    runs: tuple[LookupRun, ...]
    bytes: int
    """What the files take of the parts that are asked; a lookup of few keys reads less."""


def plan_lookup(
    index: HashedIndex, keys: pa.Array, partitions: Collection[str] | None, *, run_keys_min: int = RUN_KEYS_MIN
) -> PlannedLookup:
    """The runs of these keys, by part.

    Args:
        partitions: where the keys are looked for, of an index that is not global; None: in all.
    """
    wanted = keys.cast(pa.string()).unique()
    numbers = index.parts_of(wanted)
    order = np.lexsort((_ranks(wanted), numbers))
    ordered = numbers[order]
    touched, starts = np.unique(ordered, return_index=True)
    ends = np.searchsorted(ordered, touched, side="right")
    parts = index.parts(partitions)
    runs: list[LookupRun] = []
    size = 0
    for number, start, end in zip(touched.tolist(), starts, ends, strict=True):
        rows = order[start:end]
        effort = index.effort(parts[number])
        size += effort.bytes
        count = max(1, min(effort.files, len(rows) // run_keys_min))
        runs += (LookupRun(parts[number], wanted.take(pa.array(run))) for run in np.array_split(rows, count))
    return PlannedLookup(tuple(runs), size)


def _ranks(keys: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each key among all of them in order."""
    order = pc.sort_indices(keys).to_numpy()
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys))
    return ranks

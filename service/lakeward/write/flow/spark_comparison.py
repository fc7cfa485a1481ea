"""Keys looked up by the bloom index in Spark's tasks, each file by as many as it takes.

    keys that come, kept --counted by file--> plan (`flow/comparisons`)
                         --paired with files--> shuffled, by task --filter, then the keys themselves--> locations

Keys are shuffled once for each file that they may be in. Where that is too often, or no range is known, the keys of all
files are read instead, which `comparing` leaves to its caller.

Touches: a Spark driver of this process; its tasks read filters and base files.
See:     docs/decisions/0087-comparisons-through-spark.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.index.bloom.bloom_index import BloomIndex, BloomPart
from lakeward.index.location import LOCATIONS
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.comparisons import (
    FILE,
    FILES_A_KEY_MAX,
    PAIRS,
    PARTITION_BYTES_MAX,
    TASK,
    CandidateFiles,
    ComparisonPlan,
    plan_comparisons,
)
from lakeward.write.flow.slots import numbers_into
from lakeward.write.flow.spark_frames import carrying, spark_schema
from lakeward.write.keyed_rows import RECORD_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAIRS, _BYTES = "_lakeward_pairs", "_lakeward_bytes"
_COUNTS = pa.schema([(FILE, pa.int32()), (_PAIRS, pa.int64()), (_BYTES, pa.int64())])
_ALL = -1
"""Stands for a file in the row that counts all keys."""


def comparing(
    location: str, index: BloomIndex, partitions: Sequence[str] | None, keys: DataFrame, *, parallelism: int
) -> DataFrame | None:
    """The locations that files have of the keys; None where to read the keys of all files costs less.

    Args:
        location: of the table, as tasks open its storage.
        partitions: where keys are looked for; None: in all.
        keys: each of them once, of an index that is not global with its partition path. They are read twice, so that
            Spark should keep them.
        parallelism: the cores that there are.
    """
    storage, _ = open_storage(location)
    parts = index.parts(partitions)
    ranges = index.ranges(storage, parts)
    if all(range_ is None for range_ in ranges):
        return None
    paths = None if index.is_global else [part.file.partition_path for part in parts]
    candidates = CandidateFiles.of(paths, ranges)
    counts = keys.mapInArrow(carrying(partial(_count, candidates)), spark_schema(_COUNTS))
    summed = {row[0]: (row[1], row[2]) for row in counts.groupBy(FILE).sum(_PAIRS, _BYTES).collect()}
    number, _ = summed.pop(_ALL, (0, 0))
    pairs, key_bytes = np.zeros((2, len(parts)), dtype=np.int64)
    for file, (of_file, bytes_of_file) in summed.items():
        pairs[file], key_bytes[file] = of_file, bytes_of_file
    if pairs.sum() > FILES_A_KEY_MAX * number:
        return None
    plan = plan_comparisons(pairs, key_bytes, parallelism=parallelism)
    numbers = numbers_into(max(plan.tasks, 1))
    paired = keys.mapInArrow(carrying(partial(_pair, candidates, plan, numbers)), spark_schema(PAIRS))
    look_up = carrying(partial(_look_up, location, index, parts))
    return paired.repartition(len(numbers), TASK).mapInArrow(look_up, spark_schema(LOCATIONS))


# What runs in tasks.


def _count(candidates: CandidateFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        files, pairs, key_bytes = candidates.count(batch)
        columns = ([*files, _ALL], [*pairs, batch.num_rows], [*key_bytes, 0])
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, _COUNTS, strict=True)], schema=_COUNTS
        )


def _pair(
    candidates: CandidateFiles,
    plan: ComparisonPlan,
    numbers: npt.NDArray[np.int32],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pairs in candidates.pairs(batch, plan):
            task = pa.array(numbers[pairs.column(TASK).to_numpy()])
            yield pa.RecordBatch.from_arrays([task, *pairs.columns[1:]], schema=PAIRS)


def _look_up(
    location: str, index: BloomIndex, parts: Sequence[BloomPart], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    storage, _ = open_storage(location)
    for pairs in _bounded(batches):
        files = pairs.column(FILE).to_numpy()
        for file in np.unique(files):
            keys = pairs.filter(pa.array(files == file)).column(RECORD_KEY).combine_chunks()
            yield from index.look_up(storage, parts[int(file)], keys)


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """All that a task gets at once, as it is planned; in pieces where it is more."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > PARTITION_BYTES_MAX:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)

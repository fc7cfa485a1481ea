"""Keys looked up by the bloom index in Spark's tasks, each file, or each slice with its logs, by as many as it takes.

    keys that come, kept --counted by file--> plan
                         --paired with files--> shuffled, by task --filter, then the keys themselves--> locations

Keys are shuffled once for each file that they may be in. Where that is too often, or neither a range nor a tail is
known, the keys of all files are read instead, which `comparing` leaves to its caller.

Ranges say of each file which keys it may have, and a plan which task compares which keys with which files:

    keys that come -> for each file the number and the bytes of those within its range     `CandidateFiles.count`
                   -> pieces of files, each by a share of the hashes of keys -> tasks      `plan_comparisons`
    keys that come -> a row for each pair of a file and a key, with its task               `CandidateFiles.pairs`

How many tasks there are follows from the pairs, and not from the files: one file that every key may be in is split, and
a thousand files with a key each go together. A piece gets no more than a task's share of all, and large pieces go to
tasks first; so a task has at most two shares, but for what hashes are uneven.

Touches: a Spark driver of this process; its tasks read filters and base files.
Keeps:   1. each pair is compared by one task;
         2. no task gets more than `PARTITION_BYTES_MAX`, however skewed the keys are, which Spark could move;
         3. memory is bounded by the rows of one batch and `PAIRS_AT_ONCE`.
See:     docs/decisions/0087-comparisons-through-spark.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.bloom.bloom_index import BloomIndex, BloomPart
from lakeward.index.bloom.file_keys import KeyRange
from lakeward.index.bloom.key_spans import KeySpans
from lakeward.index.bloom.slice_index import SliceBloomIndex, SlicePart
from lakeward.index.index import Index
from lakeward.index.location import LOCATIONS
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.created_with import SECOND_HASH
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.write.flow.slots import assign_slots, numbers_into
from lakeward.write.flow.spark_frames import carrying, spark_schema
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAIRS, _BYTES = "_lakeward_pairs", "_lakeward_bytes"


Longs = npt.NDArray[np.int64]

TASK_BYTES: Final = 64 * 1024**2
"""Keys that a task is to get where there are more tasks than cores."""
SMALL_TASK_BYTES: Final = 1024**2
"""A task that gets less costs more than it is worth."""
PARTITION_BYTES_MAX: Final = 4 * TASK_BYTES
"""Spark moves no more than 2 GiB to a task."""
PAIR_BYTES: Final = 24
"""What a pair takes beside its key."""
TASKS_FOR_EACH_CORE: Final = 4
FILES_A_KEY_MAX: Final = 8
"""A key may be in about so many files: where in more, reading the keys of all files costs less."""
PAIRS_AT_ONCE: Final = 200_000
TASK, FILE = "_lakeward_task", "_lakeward_file"
PAIRS: Final = pa.schema([(TASK, pa.int32()), (FILE, pa.int32()), (RECORD_KEY, pa.string())])

_HASH_BITS = 30


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    pieces: Longs
    """Into how many each file is split; 0 where no key may be in it."""
    first: Longs
    """The number of each file's first piece."""
    task_of: npt.NDArray[np.int32]
    """The task of each piece."""
    tasks: int

    def tasks_of(self, files: Longs, hashes: Longs) -> npt.NDArray[np.int32]:
        """The task of each pair.

        Args:
            hashes: of the keys, of `_HASH_BITS` bits.
        """
        return self.task_of[self.first[files] + ((hashes * self.pieces[files]) >> _HASH_BITS)]


def plan_comparisons(
    pairs: Longs, key_bytes: Longs, *, parallelism: int, task_bytes: int = TASK_BYTES
) -> ComparisonPlan:
    """
    Args:
        pairs: for each file, the keys that it may have;
        key_bytes: and their bytes.
        parallelism: the cores that there are.
    """
    work = key_bytes + pairs * PAIR_BYTES
    total = int(work.sum())
    for_cores = min(parallelism * TASKS_FOR_EACH_CORE, -(-total // min(SMALL_TASK_BYTES, task_bytes)))
    share = -(-total // max(-(-total // task_bytes), for_cores, 1))
    pieces = -(-work // max(share, 1))
    first = np.cumsum(pieces) - pieces
    of_piece = np.repeat(-(-work // np.maximum(pieces, 1)), pieces)
    slots = -(-total // max(share, 1))
    slot_of = assign_slots(dict(enumerate(of_piece.tolist())), slots)
    task_of = np.array([slot_of[piece] for piece in range(len(of_piece))], dtype=np.int32)
    return ComparisonPlan(pieces, first, task_of, min(slots, len(of_piece)))


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The ranges of base files, of all of them or by the partition that a key comes for. Picklable."""

    files: Mapping[str | None, tuple[Longs, pa.StringArray, pa.StringArray]]
    """Numbers of files, their smallest and their greatest keys, by partition path; None: whatever the partition."""

    @classmethod
    def of(cls, partition_paths: Sequence[str] | None, ranges: Sequence[KeyRange | None]) -> Self:
        """
        Args:
            partition_paths: of each file; None: keys are looked for in all files.
            ranges: of each file; None where it is not known.
        """
        numbers: dict[str | None, list[int]] = {}
        for number in range(len(ranges)):
            numbers.setdefault(None if partition_paths is None else partition_paths[number], []).append(number)

        def ends(of: list[int], end: str) -> pa.StringArray:
            return pa.array([None if ranges[at] is None else getattr(ranges[at], end) for at in of], pa.string())

        return cls({path: (np.array(of), ends(of, "low"), ends(of, "high")) for path, of in numbers.items()})

    def count(self, batch: pa.RecordBatch) -> tuple[Longs, Longs, Longs]:
        """Numbers of files, and of each the keys of the batch that it may have and their bytes."""
        found = [(numbers, *_counted(spans)) for numbers, spans in self._spans(batch)]
        if not found:
            return (np.zeros(0, dtype=np.int64),) * 3
        numbers, pairs, key_bytes = (np.concatenate(each) for each in zip(*found, strict=True))
        some = pairs > 0
        return numbers[some], pairs[some], key_bytes[some]

    def pairs(self, batch: pa.RecordBatch, plan: ComparisonPlan) -> Iterator[pa.RecordBatch]:
        """In `PAIRS`: each key of the batch with each file that it may be in."""
        for numbers, spans in self._spans(batch):
            counts = spans.ends - spans.starts
            hashes = bucket_numbers(spans.keys, hash_name=SECOND_HASH, count=1 << _HASH_BITS).astype(np.int64)
            before = np.cumsum(counts) - counts
            first = 0
            while first < len(numbers):
                # As many files as fit, and one at least, which has no more pairs than the batch has rows.
                behind = int(np.searchsorted(before + counts, before[first] + PAIRS_AT_ONCE, side="right"))
                last = max(behind, first + 1)
                of = np.repeat(np.arange(first, last), counts[first:last])
                if len(of):
                    rows = spans.starts[of] + np.arange(len(of)) - (before[of] - before[first])
                    tasks = plan.tasks_of(numbers[of], hashes[rows])
                    columns = [pa.array(tasks), pa.array(numbers[of], pa.int32()), spans.keys.take(pa.array(rows))]
                    yield pa.RecordBatch.from_arrays(columns, schema=PAIRS)
                first = last

    def _spans(self, batch: pa.RecordBatch) -> Iterator[tuple[Longs, KeySpans]]:
        for path, (numbers, lows, highs) in self.files.items():
            keys = batch.column(RECORD_KEY)
            if path is not None:
                keys = keys.filter(pc.equal(batch.column(PARTITION_PATH), path))
            if len(keys):
                yield numbers, KeySpans.of(keys, lows, highs)


def _counted(spans: KeySpans) -> tuple[Longs, Longs]:
    lengths = pc.binary_length(spans.keys).to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return spans.ends - spans.starts, before[spans.ends] - before[spans.starts]


_COUNTS = pa.schema([(FILE, pa.int32()), (_PAIRS, pa.int64()), (_BYTES, pa.int64())])
_ALL = -1
"""Stands for a file in the row that counts all keys."""


def comparing(
    location: str,
    index: BloomIndex | SliceBloomIndex,
    partitions: Sequence[str] | None,
    keys: DataFrame,
    *,
    parallelism: int,
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
    parts: Sequence[BloomPart | SlicePart] = index.parts(partitions)
    ranges = _ranges(storage, index, parts)
    if ranges is None:
        return None
    paths = None if index.is_global else [part.partition_path for part in parts]
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


def _ranges(
    storage: Storage, index: BloomIndex | SliceBloomIndex, parts: Sequence[Any]
) -> Sequence[KeyRange | None] | None:
    """None where nothing is known of what a file or a slice may have: neither a range nor, of slices, a tail."""
    ranges = index.ranges(storage, parts)
    if isinstance(index, SliceBloomIndex) and index.reads_tails:
        return ranges
    return None if all(range_ is None for range_ in ranges) else ranges


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
    location: str, index: Index, parts: Sequence[Any], batches: Iterable[pa.RecordBatch]
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

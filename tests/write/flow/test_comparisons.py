"""Pairs of keys and files are split into tasks, however skewed they are."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from lakeward.index.bloom.file_keys import KeyRange
from lakeward.write.flow import spark_comparison
from lakeward.write.flow.spark_comparison import (
    FILE,
    PAIR_BYTES,
    PARTITION_BYTES_MAX,
    TASK,
    TASK_BYTES,
    TASKS_FOR_EACH_CORE,
    CandidateFiles,
    plan_comparisons,
)
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY
from tests.runs import runs


def batch_of(rows):
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in (0, 1)]
    return pa.RecordBatch.from_arrays(columns, [RECORD_KEY, PARTITION_PATH])


def counted(candidates, batches, files):
    pairs, key_bytes = np.zeros(files, dtype=np.int64), np.zeros(files, dtype=np.int64)
    for batch in batches:
        numbers, more, more_bytes = candidates.count(batch)
        np.add.at(pairs, numbers, more)
        np.add.at(key_bytes, numbers, more_bytes)
    return pairs, key_bytes


@pytest.mark.parametrize("seed", range(runs(60)))
def test_each_pair_has_one_task(seed, monkeypatch):
    """Keeps 1 and 3 of write/flow/spark_comparison: the pairs are those of all comparisons, where ranges rule out a
    tenth in a batch, and each has a task, whatever is in the batches; what was counted of a file is what it gets."""
    print(f"seed {seed}")
    chance = Random(seed)
    monkeypatch.setattr(spark_comparison, "PAIRS_AT_ONCE", chance.choice([1, 7, 200_000]))
    is_global = chance.random() < 0.5
    ranges = [
        None if chance.random() < 0.2 else KeyRange(*sorted(f"{chance.randrange(400):03}" for _ in range(2)))
        for _ in range(chance.randrange(1, 9))
    ]
    paths = [chance.choice("pq") for _ in ranges]
    batches = [
        batch_of([(f"{number:03}", chance.choice("pqr")) for number in chance.sample(range(400), chance.randrange(60))])
        for _ in range(3)
    ]
    candidates = pickle.loads(pickle.dumps(CandidateFiles.of(None if is_global else paths, ranges)))
    pairs, key_bytes = counted(candidates, batches, len(ranges))
    plan = plan_comparisons(pairs, key_bytes, parallelism=2, task_bytes=chance.choice([40, 300, 10**6]))
    found: dict[tuple[int, str, str], set[int]] = {}
    for batch in batches:
        for some in candidates.pairs(batch, plan):
            assert some.num_rows <= max(spark_comparison.PAIRS_AT_ONCE, batch.num_rows)
            for row in some.to_pylist():
                found.setdefault((row[FILE], row[RECORD_KEY]), set()).add(row[TASK])

    assert all(len(tasks) == 1 and tasks <= set(range(plan.tasks)) for tasks in found.values())
    asked = {
        (key, path) for batch in batches for key, path in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    }
    for number, (range_, path) in enumerate(zip(ranges, paths, strict=True)):
        mine = {key for key, of in asked if is_global or of == path}
        within = {key for key in mine if range_ is None or range_.low <= key <= range_.high}
        assert within <= {key for file, key in found if file == number} <= mine
    rows = [row for batch in batches for some in candidates.pairs(batch, plan) for row in some.to_pylist()]
    assert [sum(row[FILE] == number for row in rows) for number in range(len(ranges))] == pairs.tolist()


@pytest.mark.parametrize("seed", range(runs(10)))
def test_no_task_gets_more_than_spark_could_move(seed):
    """Keeps 2 of write/flow/spark_comparison: one file with a thousand times the keys of another, keys of all lengths,
    with the bounds scaled down by 2,000; tasks have about the same, and there are as many as the pairs want."""
    print(f"seed {seed}")
    chance = Random(seed)
    scale = 2000
    task_bytes = TASK_BYTES // scale
    assert PARTITION_BYTES_MAX == 4 * TASK_BYTES < 2**31 // 4
    hot = KeyRange("h", "h~")
    ranges = [KeyRange(f"c{number:03}", f"c{number:03}~") for number in range(60)] + [hot]
    keys = [f"h{number}{'x' * chance.randrange(40)}" for number in range(20_000)]
    keys += [f"c{number % 60:03}-{number}" for number in range(60 * 20)]
    chance.shuffle(keys)
    batches = [batch_of([(key, "p") for key in keys[start : start + 5000]]) for start in range(0, len(keys), 5000)]
    candidates = CandidateFiles.of(None, ranges)
    pairs, key_bytes = counted(candidates, batches, len(ranges))
    assert max(pairs) == 1000 * min(pairs)

    plan = plan_comparisons(pairs, key_bytes, parallelism=2, task_bytes=task_bytes)
    held = np.zeros(plan.tasks, dtype=np.int64)
    for batch in batches:
        for some in candidates.pairs(batch, plan):
            lengths = np.array([len(key) for key in some.column(RECORD_KEY).to_pylist()])
            np.add.at(held, some.column(TASK).to_numpy(), lengths + PAIR_BYTES)
    total = int(held.sum())
    assert held.max() <= PARTITION_BYTES_MAX // scale
    assert held.max() <= 3 * total / plan.tasks
    assert -(-total // task_bytes) <= plan.tasks <= -(-total // task_bytes) + 2 * TASKS_FOR_EACH_CORE


@pytest.mark.parametrize(
    ("pairs", "tasks"),
    [
        ([0, 0], 0),
        ([1], 1),
        ([10, 10, 10], 1),
        ([50_000], 2),  # of 1.2 MB
        ([1_000_000], 8),  # a file for all cores
        ([5_000] * 200, 8),  # many files, which go together
        ([30_000_000], 11),  # of 720 MB
    ],
)
def test_tasks_are_as_many_as_the_pairs_want(pairs, tasks):
    """Up to four for each core while they have a megabyte each, and more where they would have more than 64."""
    counts = np.array(pairs, dtype=np.int64)
    assert plan_comparisons(counts, counts * 0, parallelism=2).tasks == tasks

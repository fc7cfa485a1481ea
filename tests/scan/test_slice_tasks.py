"""File slices as tasks."""

from __future__ import annotations

import os
from random import Random, randrange

from lakeward.scan.slice_tasks import pack_tasks
from lakeward.table.file_group import BaseFile, FileSlice

MIB = 1024**2


def slices(*mebibytes: int) -> list[FileSlice]:
    return [
        FileSlice("p", f"f{n}", "1", BaseFile(f"f{n}", "1", f"f{n}.parquet", "p", size * MIB, "0"), ())
        for n, size in enumerate(mebibytes)
    ]


def sizes(*mebibytes: int, parallelism: int) -> list[list[int]]:
    tasks = pack_tasks(slices(*mebibytes), parallelism=parallelism)
    return sorted(sorted(slice_.bytes // MIB for slice_ in task) for task in tasks)


def test_small_slices_go_together() -> None:
    """A task gets up to 128 MiB, and counts 4 MiB for opening each slice; a large slice is a task."""
    assert sizes(300, 10, 10, parallelism=1) == [[10, 10], [300]]
    assert [len(task) for task in sizes(*[28] * 8, parallelism=1)] == [4, 4]


def test_cores_are_kept_at_work() -> None:
    """Small tables are one slice a task while there are cores."""
    assert sizes(1, 1, 1, 1, parallelism=4) == [[1], [1], [1], [1]]
    assert [len(task) for task in sizes(*[1] * 40, parallelism=4)] == [10] * 4


def test_no_slices_are_no_tasks() -> None:
    assert pack_tasks([], parallelism=4) == []


def test_each_slice_is_in_one_task() -> None:
    """Keeps of scan/slice_tasks; and tasks are of about the same size. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    for _ in range(50):
        given = slices(*(chance.choice([0, 1, 7, 60, 200]) for _ in range(chance.randrange(60))))
        tasks = pack_tasks(given, parallelism=chance.choice([1, 2, 16, 1000]))
        assert sorted(slice_.file_id for task in tasks for slice_ in task) == sorted(slice_.file_id for slice_ in given)
        assert all(tasks)
        assert all(len(task) == 1 or sum(slice_.bytes for slice_ in task) <= 2 * 128 * MIB for task in tasks)

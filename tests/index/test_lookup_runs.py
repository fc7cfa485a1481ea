"""Keys of a lookup as tasks, over parts of any size."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeward.index.index import HashedIndex, PartEffort
from lakeward.index.lookup_runs import plan_lookup
from tests.runs import runs


@dataclass(frozen=True)
class OfParts:
    """An index whose parts have so many files, of ten bytes each; a key is in that of its number."""

    files: tuple[int, ...]

    is_global = True
    can_index_log_files = True

    @property
    def count(self) -> int:
        return len(self.files)

    def parts_of(self, keys: pa.Array) -> Any:
        return np.array([int(key.split("-")[1]) % self.count for key in keys.to_pylist()], np.int32)

    def parts(self, partitions: Any) -> list[str]:
        return [f"{partitions} {number}" for number in range(self.count)]

    def effort(self, part: str) -> PartEffort:
        files = self.files[int(part.split()[-1])]
        return PartEffort(files, 10 * files)

    def look_up(self, *_: object) -> Any:
        raise AssertionError("nothing is looked up")


@pytest.mark.parametrize("seed", range(runs(30)))
def test_any_keys(seed: int) -> None:
    """Each key is in one run of its own part, runs follow each other, and a part has as many as it has files, or as its
    keys are worth: Keeps 1 and 2 of index/lookup_runs."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    index = OfParts(tuple(chance.choice([0, 1, 2, 5]) for _ in range(chance.randint(1, 6))))
    assert isinstance(index, HashedIndex)
    numbers = [chance.randrange(60) for _ in range(chance.randrange(80))]
    keys = [f"{chance.choice(['a', 'é', 'Z'])}-{number}" for number in numbers]
    least = chance.choice([1, 3, 1000])
    planned = plan_lookup(index, pa.array(keys, pa.string()), ["p"], run_keys_min=least)

    by_part = {part: list(of) for part, of in groupby(planned.runs, key=lambda run: run.part)}
    expected = {f"['p'] {number}" for number in set(index.parts_of(pa.array(keys, pa.string())).tolist())}
    assert by_part.keys() == expected
    for part, of in by_part.items():
        shown = [key for run in of for key in run.keys.to_pylist()]
        number = int(part.split()[-1])
        own = {key for key in keys if int(key.split("-")[1]) % index.count == number}
        assert shown == sorted(own, key=str.encode)
        assert len(of) == max(1, min(index.files[number], len(shown) // least))
        assert all(len(run.keys) >= least for run in of) or len(of) == 1
    assert planned.bytes == sum(10 * index.files[int(part.split()[-1])] for part in by_part)


def test_as_many_tasks_as_files() -> None:
    """There are as many tasks of keys enough as the index has files: buckets times live files. Each takes its own keys
    along, and not those of all."""
    index = OfParts((3, 1, 4))
    keys = pa.array([f"key-{number}" for number in range(3000)])
    planned = plan_lookup(index, keys, None, run_keys_min=100)

    assert len(planned.runs) == sum(index.files) == 8
    assert sum(run.keys.get_total_buffer_size() for run in planned.runs) < 2 * keys.get_total_buffer_size()

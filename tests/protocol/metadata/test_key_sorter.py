"""Keys of a write, sorted for the record index."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeward.format.metadata.key import file_group_index
from lakeward.merge.rows.spill_file import SPILL_PREFIX
from lakeward.protocol.metadata.key_sorter import GONE, KeySorter
from tests.runs import runs

GROUPS = 3


def add(sorter: KeySorter, changes: list[tuple[str, int]]) -> None:
    keys = pa.array([key for key, _ in changes], pa.string())
    sorter.add(keys, np.array([place for _, place in changes], dtype=np.int32))


@pytest.mark.parametrize("seed", range(runs(12)))
def test_each_key_is_where_it_was_written_last(tmp_path: Path, seed: int):
    """In each run keys ascend, each once, in the group of their hash; the last run that has a key has its place, and
    what is gone was written nowhere. Keeps 1 of protocol/metadata/key_sorter."""
    rng = random.Random(seed)
    changes = [(f"k{rng.randrange(60)}é", rng.choice([GONE, 0, 1, 2])) for _ in range(rng.randrange(1, 200))]
    written = {key: place for key, place in changes if place != GONE}
    found: dict[str, int] = {}
    gone: set[str] = set()
    with KeySorter(GROUPS, run_bytes=rng.choice([1, 200, 10_000]), folder=str(tmp_path)) as sorter:
        at = 0
        while at < len(changes):
            size = rng.randrange(1, 30)
            add(sorter, changes[at : at + size])
            at += size
        for group in sorter.groups():
            for run in sorter.written(group):
                entries = list(run)
                keys = [key.encode() for key, _ in entries]
                assert keys == sorted(set(keys)), f"seed {seed}"
                found |= dict(entries)
            gone |= {key for keys in sorter.gone(group) for key in keys.to_pylist()}
            assert {file_group_index(key, GROUPS) for key in (*found, *gone)} <= {*range(group + 1)}
    assert found == written, f"seed {seed}"
    assert gone == {key for key, _ in changes} - written.keys(), f"seed {seed}"


def test_what_is_sorted_at_once_is_bounded(tmp_path: Path):
    """A run is spilled as soon as it is large enough, in batches of one file group. Keeps 2 of
    protocol/metadata/key_sorter."""
    with KeySorter(GROUPS, run_bytes=50_000, folder=str(tmp_path)) as sorter:
        for part in range(20):
            add(sorter, [(f"{part}-{number:04}", number) for number in range(1_000)])
            assert sorter._bytes < 50_000
        sizes = defaultdict(int)
        for group in sorter.groups():
            for run in sorter.written(group):
                sizes[group] += 1
                assert len(list(run)) < 5_000
        assert min(sizes.values()) > 4


def test_no_temporary_file_is_left(tmp_path: Path):
    """They have no name while they are used, and are closed at the end. Keeps 3 of protocol/metadata/key_sorter."""
    descriptors = len(os.listdir("/proc/self/fd"))
    with KeySorter(GROUPS, run_bytes=1, folder=str(tmp_path)) as sorter:
        add(sorter, [("a", 0), ("b", GONE)])
        sorter.groups()
        assert not list(tmp_path.glob(f"{SPILL_PREFIX}*"))
    assert len(os.listdir("/proc/self/fd")) == descriptors

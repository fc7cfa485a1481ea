"""Hashes that come more than once, in memory and in files."""

import collections
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.rows.hash_watch import HashWatch

HASHES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**56 - 1, 2**56, 2**63, 2**64 - 1])


@given(st.lists(st.lists(HASHES, max_size=20), max_size=6), st.sampled_from([0, 40, 100, 10**6]))
def test_repeats_are_all_found(batches, memory_bytes):
    """Whatever comes twice is reported once, in whatever batch and file it came. Keeps 1 of merge/rows/hash_watch."""
    with closing(HashWatch(memory_bytes=memory_bytes)) as watch:
        for batch in batches:
            watch.add(np.array(batch, dtype=np.uint64))
        counts = collections.Counter(number for batch in batches for number in batch)
        assert watch.repeats().tolist() == sorted(number for number, count in counts.items() if count > 1)


@pytest.mark.parametrize("rows", [100_000, 1_000_000])
def test_memory_does_not_grow(rows, tmp_path):
    """What is held stays within the budget and the last batch, and the files have no names.

    Keeps 2 of merge/rows/hash_watch.
    """
    random = np.random.default_rng(rows)
    with closing(HashWatch(memory_bytes=200_000, folder=str(tmp_path))) as watch:
        for _ in range(rows // 10_000):
            watch.add(random.integers(0, 2**64, 10_000, dtype=np.uint64))
            assert watch._held_bytes <= 200_000
        assert list(tmp_path.iterdir()) == []
        assert len(watch.repeats()) == 0

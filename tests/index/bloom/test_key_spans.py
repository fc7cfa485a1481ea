"""Which keys lie within the ranges of which files."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from lakeward.index.bloom.key_spans import RULED_OUT_MIN, KeySpans
from tests.runs import runs

LETTERS = "ab\ue000\uffff\U00010000"


def units(key: str) -> bytes:
    return key.encode("utf-16-be")


@pytest.mark.parametrize("seed", range(runs(200)))
def test_spans_are_those_of_all_comparisons(seed):
    """Keeps of index/bloom/key_spans: against each key compared with each range, in Java's order, where some ranges are
    not known, meet, lie within each other or hold nothing; and all keys where ranges rule out less than a tenth."""
    print(f"seed {seed}")
    chance = Random(seed)
    keys = list({"".join(chance.choices(LETTERS, k=chance.randrange(4))) for _ in range(chance.randrange(30))})
    ranges = []
    for _ in range(chance.randrange(8)):
        ends = sorted(("".join(chance.choices(LETTERS, k=chance.randrange(4))) for _ in range(2)), key=units)
        ranges.append(ends if chance.random() < 0.8 else [None, None])
    lows, highs = (pa.array([ends[at] for ends in ranges], pa.string()) for at in (0, 1))

    spans = KeySpans.of(pa.array(["x", *keys], pa.string()).slice(1), lows, highs)

    within = [{key for key in keys if low is None or units(low) <= units(key) <= units(high)} for low, high in ranges]
    pairs = sum(map(len, within))
    separates = pairs <= (1 - RULED_OUT_MIN) * len(ranges) * len(keys) and any(low is not None for low, _ in ranges)
    assert spans.separates == separates
    found = [spans.of_file(number).to_pylist() for number in range(len(ranges))]
    assert [set(each) for each in found] == (within if separates else [set(keys)] * len(ranges))
    assert spans.pairs == sum(map(len, found))
    assert separates or spans.keys.to_pylist() == keys

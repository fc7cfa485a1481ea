"""Which rows of two sides belong together."""

from __future__ import annotations

import os
from collections import Counter
from random import Random, randrange

import numpy as np

from lakeward.scan.row_pairs import left_over, pair_rows, repeats


def words(text: str) -> list[np.ndarray]:
    codes = np.array([ord(each) for each in text], dtype=np.uint64)
    return [codes % np.uint64(7), codes]


def test_rows_with_equal_words_are_paired_in_their_order() -> None:
    first, second = pair_rows(words("abbc"), words("badb"))
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 3)]
    assert left_over(4, first).tolist() == [3] and left_over(4, second).tolist() == [2]
    assert repeats(words("abcbb")).tolist() == [3, 4]
    assert pair_rows(words(""), words("a"))[0].tolist() == [] and repeats(words("")).tolist() == []


def test_pairs_by_chance() -> None:
    """Keeps 1 of scan/row_pairs, against counters. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    for _ in range(200):
        one, other = ("".join(chance.choices("abcdefgh", k=chance.randrange(12))) for _ in range(2))
        first, second = pair_rows(words(one), words(other))
        assert [one[place] for place in first] == [other[place] for place in second]
        assert len(set(first.tolist())) == len(first) and len(set(second.tolist())) == len(second)
        assert Counter(one[place] for place in first) == Counter(one) & Counter(other)

"""Which rows of two sides belong together, by hashes of what must be equal in both.

    before  a b b c        pairs by key    a-a  b-b        left over   b c | d
    after   b a d

Rows of one side with equal hashes are paired in their order, the first with the first.

Touches: nothing.
Keeps:   1. a row is in one pair at most, and no two rows with equal hashes are left over, one on each side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def pair_rows(before: Sequence[Words], after: Sequence[Words]) -> tuple[Places, Places]:
    """The places of the rows that belong together, on the one side and on the other.

    Args:
        before: words of each row, all of which must be equal; the same number of them in `after`.
    """
    earlier, later = _numbered(before), _numbered(after)
    words = [np.concatenate(each) for each in zip(earlier, later, strict=True)]
    rows = len(earlier[0])
    order = np.lexsort(words)
    is_pair = _are_equal(words, order[:-1], order[1:])
    first, second = order[:-1][is_pair], order[1:][is_pair]
    # The sort is stable, so of two equal ones that of `before` comes first; no side has a row twice.
    return first.astype(np.int64), (second - rows).astype(np.int64)


def pair_among(
    left: Sequence[Places], before: Sequence[Words], after: Sequence[Words]
) -> tuple[tuple[Places, Places], list[Places]]:
    """The same among the rows at these places of either side; and of each side what is still left over."""
    first, second = pair_rows([words[left[0]] for words in before], [words[left[1]] for words in after])
    still = [left[0][left_over(len(left[0]), first)], left[1][left_over(len(left[1]), second)]]
    return (left[0][first], left[1][second]), still


def repeats(words: Sequence[Words]) -> Places:
    """The places of the rows that have the words of a row before them."""
    return np.flatnonzero(_numbered(words)[-1]).astype(np.int64)


def left_over(rows: int, paired: Places) -> Places:
    """The places of the rows that are in no pair."""
    is_left = np.ones(rows, dtype=np.bool_)
    is_left[paired] = False
    return np.flatnonzero(is_left).astype(np.int64)


def _numbered(words: Sequence[Words]) -> list[Words]:
    """The words, and how many rows with equal ones come before."""
    rows = len(words[0])
    order = np.lexsort(words)
    is_first = np.ones(rows, dtype=np.bool_)
    is_first[1:] = ~_are_equal(words, order[:-1], order[1:])
    places = np.arange(rows)
    number = np.empty(rows, dtype=np.uint64)
    number[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return [*words, number]


def _are_equal(words: Sequence[Words], left: Places, right: Places) -> npt.NDArray[np.bool_]:
    equal = np.ones(len(left), dtype=np.bool_)
    for each in words:
        equal &= each[left] == each[right]
    return equal

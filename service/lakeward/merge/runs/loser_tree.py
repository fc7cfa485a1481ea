"""Merge sorted runs: a tree of losers says which run's head comes next, and hands out equal keys without a new match.

The state machine is that of RFC-103's `SortMergeReaderLoserTreeStateMachine`. A leaf is a run, and its number is its
rank: of equal keys the one of the smaller number comes first. Each inner node holds the leaf that lost there, and node
0 the champion, which has the smallest key:

                tree[0]  champion                    nodes 1 … k-1 are inner, leaf i hangs below node (i + k) // 2;
                   |                                 the path of leaf i is (i + k) // 2, then halves down to 1
                tree[1]                              k = 1 has no inner node: the run is copied
               /       \\                             k = 2 has one: two pointers
          tree[2]     tree[3]
          /    \\      /    \\
         0      1    2      3

A leaf is in one of six states. WINNER is on its way up or champion, LOSER stands in a node:

    NEW_KEY   its head is not known to be the key that is coming out
    SAME_KEY  its head is the key that is coming out, and has not come out yet
    POPPED    its head's key has come out; it moves to its next key when all runs are through with this one

    champion NEW_KEY or SAME_KEY --pop--> WINNER_POPPED --there is a node with the same key--> LOSER_POPPED there, and
                                                |            the loser of that node goes up as WINNER_SAME_KEY
                                                '--there is none--> moves to its next key, WINNER_NEW_KEY, and goes up

    goes up as      meets LOSER_NEW_KEY                     LOSER_SAME_KEY      LOSER_POPPED
    WINNER_NEW_KEY  keys are compared; of equal ones the    cannot be           loses to the smaller key: the other one
                    loser becomes LOSER_SAME_KEY                                goes up as WINNER_POPPED
    WINNER_SAME_KEY wins                                    ranks decide        wins

A winner remembers the lowest node where it beat an equal key (`first_same`), so the next of equal keys is found there
at once. Where one run wins again and again, the runner-up on its path is looked up once and the rows before that are
found by galloping. What comes out are *spans*, rows of one batch one after the other.

Touches: nothing.
Keeps:   1. rows come out in the order of (key, run, place in the run), each once;
         2. no two champions of one key: `joins` is 1 exactly where a row has the key of the row that came out before;
         3. a row costs at most ceil(log2 k) comparisons of keys, and a tenth, over many rows;
         4. beside the runs' batches, memory is a few words for each run.
See:     RFC-103; D. Knuth, The Art of Computer Programming, volume 3, 5.4.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeward.base.byte_order import compare_bytes, prefix_of
from lakeward.base.kernel import I64, I64_IN, TWO_I64, U8_IN, kernel, records, types
from lakeward.merge.runs.sort_key import HEADS, RunKeys


class LeafState(IntEnum):
    """A leaf's place in the match."""

    WINNER_NEW_KEY = 0
    WINNER_SAME_KEY = 1
    WINNER_POPPED = 2
    LOSER_NEW_KEY = 3
    LOSER_SAME_KEY = 4
    LOSER_POPPED = 5


DONE: Final = -1
"""All runs have ended."""
FULL: Final = -2
"""There is no room for more spans."""

_WINNER_NEW: Final = int(LeafState.WINNER_NEW_KEY)
_WINNER_SAME: Final = int(LeafState.WINNER_SAME_KEY)
_WINNER_POPPED: Final = int(LeafState.WINNER_POPPED)
_LOSER_NEW: Final = int(LeafState.LOSER_NEW_KEY)
_LOSER_SAME: Final = int(LeafState.LOSER_SAME_KEY)
_LOSER_POPPED: Final = int(LeafState.LOSER_POPPED)
_NO_RUN: Final = -1
# Wins in a row after which rows are looked for in one go: less often pays no more than it costs.
_GALLOP_AFTER: Final = 7
# What `control` holds.
_OPEN: Final = 0  # the run whose batch ended with a row that came out, so that the next may repeat its key
_STREAK: Final = 1  # how many times in a row the same run has won
_LAST: Final = 2  # which one
_COMPARES: Final = 3

LEAF: Final = np.dtype([("state", np.int64), ("first_same", np.int64), ("tree", np.int64)])
"""A leaf's state and its first node of the same key; and `tree[i]`, which has as many entries as there are leaves."""
LEAVES: Final = records(LEAF)

SPAN: Final = np.dtype([("batch", np.int64), ("start", np.int64), ("length", np.int64), ("joins", np.int64)])
"""`length` rows of a batch from its row `start` on.

Each has a key of its own where `joins` is 0; where it is 1, all have the key of the row that came out before.
"""
SPANS: Final = records(SPAN)


@kernel(types.void(LEAVES, types.int64, types.int64))
def _remember_same(leaves: npt.NDArray[np.void], winner: int, node: int) -> None:
    """The winner has beaten an equal key at `node`; what it remembers is the lowest such node, the first on its way."""
    if leaves[winner]["first_same"] < 0:
        leaves[winner]["first_same"] = node


@kernel(types.int64(types.int64, types.int64, HEADS, U8_IN, I64_IN, types.int64))
def _compare(
    run: int,
    other: int,
    heads: npt.NDArray[np.void],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: int,
) -> int:
    """Negative, 0 or positive as the head of `run` comes before, is or comes after that of `other`; no head is last."""
    row, other_row = heads[run]["row"], heads[other]["row"]
    if heads[run]["end"] == 0 or heads[other]["end"] == 0:
        # Two runs that have ended are never equal, or they would come out as one key.
        return 1 if heads[run]["end"] == 0 else -1
    if heads[run]["prefix"] != heads[other]["prefix"]:
        return -1 if heads[run]["prefix"] < heads[other]["prefix"] else 1
    return int(
        compare_bytes(data, offsets[row] + skip, offsets[row + 1], offsets[other_row] + skip, offsets[other_row + 1])
    )


@kernel(types.int64(types.int64, LEAVES, I64, HEADS, U8_IN, I64_IN, types.int64))
def _replay(
    leaf: int,
    leaves: npt.NDArray[np.void],
    control: npt.NDArray[np.int64],
    heads: npt.NDArray[np.void],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: int,
) -> int:
    """Play a leaf's matches from its place to the root; the champion."""
    node = (leaf + len(leaves)) // 2
    while node > 0:
        other = leaves[node]["tree"]
        state = leaves[leaf]["state"]
        loses = False
        if other == _NO_RUN:
            # The tree is being built: the leaf waits for the one that the other side of this node sends.
            leaves[leaf]["state"] = _LOSER_NEW
            leaves[node]["tree"] = leaf
            return _NO_RUN
        if state == _WINNER_POPPED:
            node = leaves[leaf]["first_same"]
            if node < 0:
                break
            other = leaves[node]["tree"]
            leaves[leaf]["state"] = _LOSER_POPPED
            leaves[other]["state"] = _WINNER_SAME
            loses = True
        elif leaves[other]["state"] == _LOSER_POPPED:
            if state == _WINNER_NEW:
                leaves[leaf]["state"] = _LOSER_NEW
                leaves[other]["state"] = _WINNER_POPPED
                leaves[other]["first_same"] = _NO_RUN
                loses = True
        elif state == _WINNER_NEW:
            control[_COMPARES] += 1
            order = _compare(leaf, other, heads, data, offsets, skip)
            loses = order > 0 or (order == 0 and other < leaf)
            if loses:
                leaves[leaf]["state"] = _LOSER_SAME if order == 0 else _LOSER_NEW
                leaves[other]["state"] = _WINNER_NEW
            elif order == 0:
                leaves[other]["state"] = _LOSER_SAME
            if order == 0:
                _remember_same(leaves, other if loses else leaf, node)
        elif leaves[other]["state"] == _LOSER_SAME:
            loses = other < leaf
            if loses:
                leaves[leaf]["state"] = _LOSER_SAME
                leaves[other]["state"] = _WINNER_SAME
            _remember_same(leaves, other if loses else leaf, node)
        if loses:
            leaves[node]["tree"] = leaf
            leaf = other
        node //= 2
    leaves[0]["tree"] = leaf
    return leaf


@kernel(types.int64(types.int64, LEAVES, I64, HEADS, U8_IN, I64_IN, types.int64))
def _runner_up(
    run: int,
    leaves: npt.NDArray[np.void],
    control: npt.NDArray[np.int64],
    heads: npt.NDArray[np.void],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: int,
) -> int:
    """The best of those that lost to the champion, which are on its path; `_NO_RUN` where all others have ended."""
    best = _NO_RUN
    node = (run + len(leaves)) // 2
    while node > 0:
        other = leaves[node]["tree"]
        node //= 2
        if heads[other]["end"] == 0:
            continue
        if best == _NO_RUN:
            best = other
            continue
        control[_COMPARES] += 1
        if _compare(other, best, heads, data, offsets, skip) < 0:
            best = other
    return best


@kernel(types.int64(types.int64, LEAVES, I64, U8_IN, HEADS, U8_IN, I64_IN, types.int64))
def _rows_before_others(
    run: int,
    leaves: npt.NDArray[np.void],
    control: npt.NDArray[np.int64],
    repeats: npt.NDArray[np.uint8],
    heads: npt.NDArray[np.void],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: int,
) -> int:
    """How many rows of the champion, from its head on, have keys of their own that come before all other runs'."""
    other = _runner_up(run, leaves, control, heads, data, offsets, skip)
    head = heads[run]["row"]
    low, high = head, heads[run]["end"]
    if other != _NO_RUN:
        start, end = offsets[heads[other]["row"]] + skip, offsets[heads[other]["row"] + 1]
        # The rows before `low` come before the other's key, those from `high` on do not.
        step = 1
        while low < high:
            at = min(low + step, high) - 1 if step > 0 else (low + high) // 2
            control[_COMPARES] += 1
            prefix = prefix_of(data, offsets[at] + skip, offsets[at + 1])
            is_before = prefix < heads[other]["prefix"]
            if prefix == heads[other]["prefix"]:
                is_before = compare_bytes(data, offsets[at] + skip, offsets[at + 1], start, end) < 0
            if is_before:
                low = at + 1
                step *= 2
            else:
                high = at
                step = 0
    for row in range(head + 1, high):
        if repeats[row] != 0:
            return int(row - head)
    return int(high - head)


@kernel(types.int64(types.int64, types.int64, types.int64, types.int64, types.int64, SPANS))
def _emit(count: int, batch: int, start: int, length: int, joins: int, spans: npt.NDArray[np.void]) -> int:
    """Append rows to the spans; how many spans there are then. Rows that go on where the last span ends lengthen it."""
    last = count - 1
    if (
        count > 0
        and spans[last]["joins"] == joins
        and spans[last]["batch"] == batch
        and spans[last]["start"] + spans[last]["length"] == start
    ):
        spans[last]["length"] += length
        return count
    spans[count]["batch"] = batch
    spans[count]["start"] = start
    spans[count]["length"] = length
    spans[count]["joins"] = joins
    return count + 1


@kernel(TWO_I64(LEAVES, I64, U8_IN, HEADS, U8_IN, I64_IN, types.int64, SPANS, types.int64))
def _pop(
    leaves: npt.NDArray[np.void],
    control: npt.NDArray[np.int64],
    repeats: npt.NDArray[np.uint8],
    heads: npt.NDArray[np.void],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    skip: int,
    spans: npt.NDArray[np.void],
    count: int,
) -> tuple[int, int]:
    """(spans, why it stopped): a run whose next batch is wanted, DONE or FULL."""
    while count + 2 <= len(spans):
        run = control[_OPEN]
        if run == _NO_RUN:
            run = leaves[0]["tree"]
            while leaves[run]["state"] == _WINNER_POPPED:
                # All rows of the last key are out: the runs that had it go on, one after the other.
                row = heads[run]["row"]
                if heads[run]["end"] > 0:
                    heads[run]["prefix"] = prefix_of(data, offsets[row] + skip, offsets[row + 1])
                leaves[run]["state"] = _WINNER_NEW
                leaves[run]["first_same"] = _NO_RUN
                run = _replay(run, leaves, control, heads, data, offsets, skip)
            if heads[run]["end"] == 0:
                return count, DONE
            length = 1
            joins = int(leaves[run]["state"] == _WINNER_SAME)
            control[_STREAK] = control[_STREAK] + 1 if control[_LAST] == run and joins == 0 else 0
            control[_LAST] = run
            if control[_STREAK] >= _GALLOP_AFTER and leaves[run]["first_same"] < 0:
                length = max(length, _rows_before_others(run, leaves, control, repeats, heads, data, offsets, skip))
            count = _emit(count, heads[run]["batch"], heads[run]["row"] - heads[run]["begin"], length, joins, spans)
            heads[run]["row"] += length
        # The rows of this run that have the same key; its next batch may begin with some.
        start = heads[run]["row"]
        end = heads[run]["end"]
        row = start
        while row < end and repeats[row] != 0:
            row += 1
        heads[run]["row"] = row
        if row > start:
            count = _emit(count, heads[run]["batch"], start - heads[run]["begin"], row - start, 1, spans)
        if end > 0 and row == end:
            control[_OPEN] = run
            return count, run
        control[_OPEN] = _NO_RUN
        leaves[run]["state"] = _WINNER_POPPED
        _replay(run, leaves, control, heads, data, offsets, skip)
    return count, FULL


class Spans:
    """Rows in the order in which they came out, at most `room` spans; `rows` are of the type `SPAN`."""

    def __init__(self, room: int) -> None:
        assert room >= 2
        self.rows = np.empty(room, dtype=SPAN)
        self.count = 0


class LoserTree:
    """Merges the runs of `keys`, each of which has its first batch, or has ended."""

    def __init__(self, keys: RunKeys) -> None:
        self._keys = keys
        self._leaves = np.zeros(len(keys.heads), dtype=LEAF)
        self._leaves["tree"] = _NO_RUN
        self._leaves["first_same"] = _NO_RUN
        self._control = np.array([_NO_RUN, 0, _NO_RUN, 0], dtype=np.int64)
        for run in reversed(range(len(keys.heads))):
            _replay(run, self._leaves, self._control, keys.heads, keys.data, keys.offsets, keys.skip)

    @property
    def compares(self) -> int:
        """Comparisons of keys so far."""
        return int(self._control[_COMPARES])

    @property
    def has_same_key(self) -> bool:
        """Another run's head has the key of the row that came out last."""
        run = int(self._control[_OPEN])
        if run != _NO_RUN:
            return bool(self._leaves[run]["first_same"] >= 0)
        return bool(self._leaves[self._leaves[0]["tree"]]["state"] == _WINNER_SAME)

    @property
    def states(self) -> list[LeafState]:
        """The state of each leaf."""
        return [LeafState(state) for state in self._leaves["state"]]

    def pop(self, spans: Spans) -> int:
        """Append rows to `spans` as long as there is room and no run is at the end of its batch.

        Returns the run whose next batch, or end, the keys need before the next call; or `DONE`, or `FULL`.
        """
        keys = self._keys
        count, why = _pop(
            self._leaves,
            self._control,
            keys.repeats,
            keys.heads,
            keys.data,
            keys.offsets,
            keys.skip,
            spans.rows,
            spans.count,
        )
        spans.count = int(count)
        return int(why)

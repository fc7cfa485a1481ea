"""The loser tree, against a heap of tuples."""

import heapq

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.runs.loser_tree import DONE, FULL, LeafState, LoserTree, Spans
from lakeward.merge.runs.sort_key import NotSorted, RunKeys, order_of


def merged(runs, *, batch_rows=3, room=5):
    """[(key, run, row of the run, joins)] as the tree gives them, and the tree."""
    keys = RunKeys(["run"] * len(runs))
    where = {}
    at = [0] * len(runs)

    def give(run):
        batch = runs[run][at[run] : at[run] + batch_rows]
        if not batch:
            keys.end(run)
            return
        where[keys.refill(run, pa.array(batch))] = run, at[run]
        at[run] += len(batch)

    for run in range(len(runs)):
        give(run)
    tree = LoserTree(keys)
    rows = []
    spans = Spans(room)
    while True:
        wanted = tree.pop(spans)
        if wanted in (FULL, DONE):
            for span in range(spans.count):
                batch, start, length, joins = spans.rows[span].item()
                run, first = where[batch]
                for row in range(first + start, first + start + length):
                    rows.append((runs[run][row], run, row, bool(joins)))
            if wanted == DONE:
                return rows, tree
            spans.count = 0
        else:
            give(wanted)


def heap_merged(runs):
    """The slow twin."""
    heap = [(keys[0].encode(), run, 0) for run, keys in enumerate(runs) if keys]
    heapq.heapify(heap)
    rows = []
    before = None
    while heap:
        key, run, row = heapq.heappop(heap)
        rows.append((runs[run][row], run, row, key == before))
        before = key
        if row + 1 < len(runs[run]):
            heapq.heappush(heap, (runs[run][row + 1].encode(), run, row + 1))
    return rows


def by_bytes(keys):
    return sorted(keys, key=str.encode)


KEYS = st.one_of(
    st.sampled_from(["", "a", "b", "aa", "a\0", "a\0\0"]),
    st.text(alphabet="ab", max_size=12),
    st.text(max_size=4),
    st.text(alphabet="é\ue000\U0001f600\uffff", max_size=3),
    st.integers(0, 50).map(lambda number: f"a-long-prefix-that-all-share/{number:09}"),
)


@given(
    st.lists(st.lists(KEYS, max_size=12).map(by_bytes), min_size=1, max_size=9),
    st.integers(1, 5),
    st.integers(2, 9),
)
def test_it_merges_as_a_heap_does(runs, batch_rows, room):
    """Rows come out by key, run and place, and are joined where keys are equal. Keeps 1 and 2 of merge/runs/loser_tree.

    Keeps 1 and 3 of merge/runs/sort_key.
    """
    rows, _ = merged(runs, batch_rows=batch_rows, room=room)
    assert rows == heap_merged(runs)


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 7, 8, 9, 31, 64, 65, 257])
def test_any_number_of_runs(runs):
    """From one run to 257, some of them empty, with keys in many runs."""
    random = np.random.default_rng(runs)
    made = [
        by_bytes(f"key-{number}" for number in random.integers(0, 300, size=random.integers(0, 60)))
        for _ in range(runs)
    ]
    rows, _ = merged(made, batch_rows=16, room=100)
    assert rows == heap_merged(made)


@pytest.mark.parametrize("runs", [1, 2, 3, 8, 13, 64])
def test_the_number_of_comparisons(runs):
    """A row costs ceil(log2 k) comparisons at most, and a tenth. Keeps 3 of merge/runs/loser_tree."""
    random = np.random.default_rng(7)
    made = [[f"{number:020}" for number in np.sort(random.integers(0, 10**15, size=3000))] for _ in range(runs)]
    rows, tree = merged(made, batch_rows=500, room=1000)
    assert len(rows) == 3000 * runs
    assert tree.compares / len(rows) <= np.ceil(np.log2(runs)) + 0.1


def test_disjoint_runs_gallop():
    """Runs that do not overlap cost few comparisons."""
    made = [[f"{number:09}" for number in range(start, start + 4000)] for start in range(0, 32_000, 4000)]
    rows, tree = merged(made, batch_rows=1000, room=100)
    assert [row[0] for row in rows] == [key for run in made for key in run]
    assert tree.compares < 0.2 * len(rows)


def test_keys_repeated_across_batches():
    """A run that goes on with its last key in the next batch gives it before any other run does."""
    made = [["a", "b", "b", "b", "b", "b", "c"], ["b"], ["b", "b", "b"]]
    rows, _ = merged(made, batch_rows=2)
    assert rows == heap_merged(made)


@pytest.mark.parametrize("runs", [[["b", "a"]], [["a", "c"], ["a", "b", "ab"]], [["\ue000", "\ud7ff"]]])
@pytest.mark.parametrize("batch_rows", [1, 2, 3])
def test_a_run_out_of_order(runs, batch_rows):
    """A run that is not sorted is found, also where its batches meet. Keeps 2 of merge/runs/sort_key."""
    with pytest.raises(NotSorted):
        merged(runs, batch_rows=batch_rows)


def tree_of(*heads):
    keys = RunKeys(["run"] * len(heads))
    for run, batch in enumerate(heads):
        if batch:
            keys.refill(run, pa.array(batch))
        else:
            keys.end(run)
    return keys, LoserTree(keys)


NEW, SAME, POPPED = LeafState.LOSER_NEW_KEY, LeafState.LOSER_SAME_KEY, LeafState.LOSER_POPPED
WINS, WINS_SAME, WINS_POPPED = LeafState.WINNER_NEW_KEY, LeafState.WINNER_SAME_KEY, LeafState.WINNER_POPPED


@pytest.mark.parametrize(
    ("heads", "states"),
    [
        ((["a"], ["b"]), [WINS, NEW]),
        ((["b"], ["a"]), [NEW, WINS]),
        ((["a"], ["a"]), [WINS, SAME]),
        ((["a"], ["a"], ["a"], ["a"]), [WINS, SAME, SAME, SAME]),
        ((["b"], ["b"], ["a"], ["b"]), [NEW, SAME, WINS, NEW]),
        (([], ["b"]), [NEW, WINS]),
        (([], []), [NEW, WINS]),
    ],
    ids=str,
)
def test_the_first_match(heads, states):
    """A new key wins by its bytes; of equal ones the first run's, and the other is marked as the same."""
    assert tree_of(*heads)[1].states == states


def test_each_transition():
    """The leaves' states after each row, while one key comes out of three runs and three keys follow.

    What was popped waits as LOSER_POPPED where the same key stood, which goes up as WINNER_SAME_KEY. When none is left
    the popped leaves move on one after the other, and each goes up past those that have a new key already.
    """
    keys, tree = tree_of(["a", "c"], ["a", "b"], ["a", "d"])
    seen = [tree.states]
    for _ in range(5):
        wanted = tree.pop(Spans(2))
        seen.append(tree.states)
        if wanted >= 0:
            keys.end(wanted)
    assert seen == [
        [WINS, SAME, SAME],
        [POPPED, WINS_SAME, SAME],
        [POPPED, POPPED, WINS_SAME],
        [POPPED, POPPED, WINS_POPPED],
        [NEW, WINS, NEW],
        [WINS, NEW, NEW],
    ]


@given(st.lists(KEYS | st.text(alphabet="xy", min_size=14, max_size=30), max_size=40))
def test_the_order_of_keys(keys):
    """Keys are ordered by all of their bytes, word after word, and equal ones stay as they are."""
    data = "".join(keys).encode()
    offsets = np.cumsum([0, *(len(key.encode()) for key in keys)])
    order = order_of(np.frombuffer(data, dtype=np.uint8), offsets)
    assert order.tolist() == sorted(range(len(keys)), key=lambda place: keys[place].encode())


def test_memory_is_one_batch_a_run():
    """However long the runs, the keys of one batch of each are held. Keeps 4 of merge/runs/sort_key.

    Keeps 4 of merge/runs/loser_tree.
    """
    keys = RunKeys(["run"] * 2)
    sizes = set()
    for _ in range(50):
        for run in range(2):
            keys.refill(run, pa.array(["x" * 100] * 10))
            keys.heads[run]["row"] = keys.heads[run]["end"]
        sizes.add(keys.nbytes)
    assert max(sizes) < 2 * 4 * 10 * (100 + 9)

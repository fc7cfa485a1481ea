import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.logs.key_index import KeyIndex, hash_keys


def find(index, keys):
    return index.find(keys, hash_keys(keys)).tolist()


KEYS = st.lists(st.text(max_size=20), max_size=60)


@given(st.lists(KEYS, max_size=5), KEYS)
def test_ids_are_those_of_a_dict(batches, others):
    """Keys are numbered by first appearance, over any number of batches; unknown keys are found nowhere."""
    index = KeyIndex()
    model: dict[str, int] = {}
    for batch in batches:
        expected = [model.setdefault(key, len(model)) for key in batch]
        assert index.intern(pa.array(batch, pa.string())).tolist() == expected
    assert len(index) == len(model)
    assert [index.key(i) for i in range(len(index))] == list(model)
    assert find(index, pa.array(others, pa.string())) == [model.get(key, -1) for key in others]


@given(KEYS, st.integers(0, 10), st.sampled_from([pa.string(), pa.large_string()]))
def test_slices_are_read_where_they_start(keys, skipped, kind):
    """The id of a key does not depend on where its array starts or on the width of its offsets.

    Keeps 1 of merge/rows/byte_hash.
    """
    index = KeyIndex()
    index.intern(pa.array(keys, pa.string()))
    whole = find(index, pa.array(keys, kind))
    assert find(index, pa.array(keys, kind)[skipped:]) == whole[skipped:]


def test_equal_hashes_do_not_make_equal_keys(monkeypatch):
    """A hash only says where to look: keys with one hash keep ids of their own. Keeps 1 of merge/logs/key_index."""
    import lakeward.merge.logs.key_index as module

    def no_hash(keys):
        return np.zeros(len(keys), dtype=np.uint64)

    monkeypatch.setattr(module, "hash_keys", no_hash)
    index = KeyIndex()
    assert index.intern(pa.array(["a", "b", "a", "ab", ""])).tolist() == [0, 1, 0, 2, 3]
    assert index.find(pa.array(["", "b", "x"]), no_hash("123")).tolist() == [3, 1, -1]


def test_it_grows():
    """Tens of thousands of keys keep their ids while the table grows. Keeps 2 and 3 of merge/logs/key_index."""
    index = KeyIndex()
    keys = [f"key-{number}-{'x' * (number % 7)}" for number in range(20_000)]
    for start in range(0, len(keys), 3_000):
        index.intern(pa.array(keys[start : start + 3_000]))
        assert 2 * len(index) <= len(index._slots)
    assert find(index, pa.array(keys)) == list(range(20_000))


@given(st.lists(st.text(max_size=6), min_size=1, max_size=40), st.data())
def test_keys_by_their_ids(keys, data):
    """Any choice of ids, in any order, gives the keys."""
    index = KeyIndex()
    ids = index.intern(pa.array(keys))
    rows = data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=20))
    assert index.keys(ids[np.array(rows, dtype=np.int64)]).to_pylist() == [keys[row] for row in rows]

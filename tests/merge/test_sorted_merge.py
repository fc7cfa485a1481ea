"""The sorted merge against the slow twin, over random slices whose base is sorted; and what only it can be wrong in."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.errors import BrokenFile, Unsupported
from lakeward.merge import sorted_merge as module
from lakeward.merge.log_fold import LogFold
from lakeward.merge.merge_rules import MergeMode, MergeRules
from lakeward.merge.sort_key import NotSorted
from lakeward.merge.sorted_merge import SortedMerge
from tests.merge.test_hash_merge import Slice, data, fast_merge, schema_of, slices, slow_merge, texts
from tests.runs import runs


def by_key(rows):
    return sorted(rows, key=lambda row: row["_hoodie_record_key"].encode())


def sorted_merge(slice_, **more):
    return fast_merge(slice_, is_sorted=True, **more)


@settings(max_examples=runs(300))
@given(slices(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([10**9, 600, 0]))
def test_it_agrees_with_the_slow_twin(slice_, base_rows, log_rows, memory_bytes):
    """Both give the same rows, by their keys, or both refuse. Keeps 1 of merge/sorted_merge."""
    slice_.base = by_key(slice_.base)
    try:
        expected = by_key(slow_merge(slice_))
    except Unsupported:
        with pytest.raises(Unsupported):
            sorted_merge(slice_, base_rows=base_rows, log_rows=log_rows, memory_bytes=memory_bytes)
        return
    rows, merge, _ = sorted_merge(slice_, base_rows=base_rows, log_rows=log_rows, memory_bytes=memory_bytes)
    assert texts(rows) == texts(pa.RecordBatch.from_pylist(expected, slice_.schema).to_pylist())
    base_keys = {row["_hoodie_record_key"] for row in slice_.base}
    kept = {row["_hoodie_record_key"] for row in rows}
    assert merge.base_rows == len(slice_.base)
    assert merge.rows == len(rows) == merge.base_rows + merge.inserted - merge.deleted
    assert merge.inserted == len(kept - base_keys)
    assert merge.deleted == len(base_keys - kept)


@pytest.mark.parametrize("base_rows", [1, 2, 3])
def test_a_key_in_two_base_rows(base_rows):
    """A base file with a key twice is refused by name, also where batches meet. Keeps 2 of merge/sorted_merge."""
    slice_ = Slice("long", [data("a", 1), data("b", 2), data("b", 3), data("c", 4)], [[data("b", 5)]])
    with pytest.raises(BrokenFile, match=r"base\.parquet holds the record key 'b' more than once"):
        sorted_merge(slice_, base_rows=base_rows)


def test_a_base_out_of_order():
    """A base file that is not sorted after all is told as such. Keeps 3 of merge/sorted_merge."""
    slice_ = Slice("long", [data("b", 1), data("c", 2), data("a", 3)], [[data("a", 5)]])
    with pytest.raises(NotSorted):
        sorted_merge(slice_)


def wide_merge(base_keys, log_keys, *, base_rows):
    """The batches of a merge by commit time, whose rows are keys."""
    schema = schema_of(pa.int64())
    rules = MergeRules(MergeMode.COMMIT_TIME_ORDERING, None)

    def batch(keys, time):
        names = pa.array([f"{key:09}" for key in keys])
        columns = {"_hoodie_commit_time": pa.array([time] * len(keys)), "_hoodie_record_key": names}
        filled = [columns.get(field.name, pa.nulls(len(keys), field.type)) for field in schema]
        return pa.RecordBatch.from_arrays(filled, schema=schema)

    logs = LogFold(schema, rules, memory_bytes=10**9)
    logs.append_data(batch(log_keys, "2"), source="log")
    logs.finish()
    whole = batch(base_keys, "1")
    base = [whole.slice(start, base_rows) for start in range(0, whole.num_rows, base_rows)]
    return list(SortedMerge(logs, rules, base_name="base").batches(base))


@pytest.mark.parametrize("spans", [300, 65_536])
@pytest.mark.parametrize("every", [1, 2, 7, 3000])
def test_few_and_many_updates(every, spans, monkeypatch):
    """Slices or single rows, the result is the same, and no batch is larger than what went in.

    Keeps 4 of merge/sorted_merge.
    """
    monkeypatch.setattr(module, "_SPANS", spans)
    random = np.random.default_rng(every)
    log_keys = random.permutation(np.arange(0, 40_000, every))
    out = wide_merge(np.arange(0, 40_000, 2), log_keys, base_rows=5000)
    rows = [row for batch in out for row in zip(batch[1].to_pylist(), batch[0].to_pylist(), strict=True)]
    updated = set(log_keys.tolist())
    expected = sorted(updated | set(range(0, 40_000, 2)))
    assert rows == [(f"{key:09}", "2" if key in updated else "1") for key in expected]
    assert max(batch.num_rows for batch in out) <= 5000 + 1 + 16_384

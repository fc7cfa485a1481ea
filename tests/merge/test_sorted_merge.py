"""The sorted merge against the slow twin, over random slices whose base is sorted; and what only it can be wrong in."""

import os
import random
import secrets
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.logs.log_records import FoldedRun, LogRecords
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, PartialUpdates, RepeatedKeys
from lakeward.merge.rules.ordering_codes import ordering_values
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.partial_rows import part_schema
from lakeward.merge.rules.winner import LogRecordKind
from lakeward.merge.runs import record_sorter, run_windows
from lakeward.merge.runs.record_sorter import RecordSorter, spilled_batch_bytes
from lakeward.merge.runs.run_windows import WINDOW_BYTES, Order
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.merge.runs.sorted_run import BaseRun
from lakeward.merge.runs.spilled_run import data_records, record_schema
from lakeward.merge.sorted_merge import SortedMerge
from tests.merge.test_hash_merge import (
    Slice,
    append_logs,
    assert_shown,
    base_batches,
    data,
    schema_of,
    slices,
    slow_merge,
    texts,
)
from tests.runs import runs

BASE_NAME = "the base file base.parquet"


def by_key(rows):
    return sorted(rows, key=lambda row: row["_hoodie_record_key"].encode())


def base_runs(slice_, base, memory_bytes):
    """The base as one run where that is said to be sorted, else as runs in files."""
    if memory_bytes is None:
        return [BaseRun(BASE_NAME, base, slice_.rules.ordering_fields, repeats_keys=slice_.repeats)], None
    kind = ordering_type(slice_.rules, slice_.schema)
    schema = record_schema(part_schema(slice_.schema, slice_.rules), kind)
    sorter = RecordSorter(schema, name=BASE_NAME, is_base=True, memory_bytes=memory_bytes, folder=None)
    for batch in base:
        kinds = np.full(batch.num_rows, LogRecordKind.DATA, dtype=np.int8)
        sorter.add(data_records(batch, kinds, ordering_values(batch, slice_.rules.ordering_fields), schema))
    return sorter.finish(), sorter


def sorted_merge(slice_, *, base_rows=2, log_rows=2, memory_bytes=10**9, base_memory=None, block_bytes=0, **more):
    logs = LogRecords(part_schema(slice_.schema, slice_.rules), slice_.rules, memory_bytes=memory_bytes)
    sorter = None
    try:
        append_logs(slice_, logs, log_rows=log_rows, block_bytes=block_bytes)
        base, sorter = base_runs(slice_, base_batches(slice_, base_rows), base_memory)
        shown = None if slice_.rules.needs_all_records else []
        on_changes = None if shown is None else shown.append
        merge = SortedMerge([*base, *logs.runs], slice_.rules, slice_.schema, on_changes=on_changes, **more)
        rows = [row for batch in merge.batches() for row in batch.to_pylist()]
        if shown is not None:
            assert_shown(shown, slice_, rows, merge)
        return rows, merge, logs
    finally:
        logs.close()
        if sorter is not None:
            sorter.close()


def counted(slice_, **more):
    """The rows of a merge, whose counts are held against them."""
    rows, merge, logs = sorted_merge(slice_, **more)
    base_keys = {row["_hoodie_record_key"] for row in slice_.base}
    kept = {row["_hoodie_record_key"] for row in rows}
    assert merge.base_rows == len(slice_.base)
    assert merge.rows == len(rows) == merge.base_rows + merge.inserted - merge.deleted - merge.folded
    assert merge.inserted == len(kept - base_keys)
    if not slice_.repeats:
        assert merge.deleted == len(base_keys - kept) and merge.folded == 0
    assert merge.has_repeated == (slice_.repeats and slice_.repeated is RepeatedKeys.APART)
    assert logs.records == sum(len(block) for block in slice_.blocks)
    return rows


def check_agrees(slice_, **more):
    """Both give the same rows, by their keys, or both refuse."""
    try:
        expected = by_key(slow_merge(slice_))
    except Unsupported:
        with pytest.raises(Unsupported):
            sorted_merge(slice_, **more)
        return
    rows = counted(slice_, **more)
    assert texts(rows) == texts(pa.RecordBatch.from_pylist(expected, slice_.schema).to_pylist())


@given(
    slices(),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([10**9, 600, 0]),
    st.sampled_from([None, 600, 0]),
    st.sampled_from([1, 300, 10**6]),
    st.sampled_from([0, 10**6]),
)
def test_it_agrees_with_the_slow_twin(
    slice_, base_rows, log_rows, memory_bytes, base_memory, window_bytes, block_bytes
):
    """Both give the same rows, by their keys, or both refuse, whatever waits in files.

    Keeps 1, 5 and 6 of merge/sorted_merge; Keeps 1 of merge/logs/log_records; Keeps 1 of merge/runs/record_sorter;
    Keeps 1 of merge/runs/spilled_run; Keeps 1 and 3 of merge/runs/run_windows.
    """
    if base_memory is None:
        slice_.base = by_key(slice_.base)
    more = {"base_rows": base_rows, "log_rows": log_rows, "memory_bytes": memory_bytes, "base_memory": base_memory}
    more["block_bytes"] = block_bytes
    check_agrees(slice_, window_bytes=window_bytes, **more)


@given(
    slices(),
    st.sampled_from(PartialUpdates),
    st.integers(1, 4),
    st.sampled_from([10**9, 600, 0]),
    st.sampled_from([None, 600, 0]),
    st.sampled_from([1, 300, 10**6]),
)
def test_partial_updates_agree_with_the_slow_twin(slice_, partial, base_rows, memory_bytes, base_memory, window_bytes):
    """Rows are filled from those that they win over, and then win or lose as before. Keeps 1 of
    merge/rules/partial_rows."""
    slice_.partial = partial
    if base_memory is None:
        slice_.base = by_key(slice_.base)
    more = {"base_rows": base_rows, "memory_bytes": memory_bytes, "base_memory": base_memory}
    check_agrees(slice_, window_bytes=window_bytes, **more)


@given(
    slices(),
    st.integers(1, 4),
    st.sampled_from([10**9, 600, 0]),
    st.sampled_from([None, 600, 0]),
    st.sampled_from([1, 300, 10**6]),
)
def test_by_rank_it_agrees_with_the_slow_twin(slice_, base_rows, memory_bytes, base_memory, window_bytes):
    """The base row is the oldest record of the one fold, and base rows of one key are versions of it.

    Keeps 1 of merge/rules/winner; Keeps 2 of merge/sorted_merge.
    """
    slice_.by_rank = True
    slice_.repeated = RepeatedKeys.VERSIONS
    if base_memory is None:
        slice_.base = by_key(slice_.base)
    more = {"base_rows": base_rows, "memory_bytes": memory_bytes, "base_memory": base_memory}
    check_agrees(slice_, window_bytes=window_bytes, **more)


@pytest.mark.wide
@pytest.mark.parametrize("number", range(runs(24)))
def test_slices_of_thousands_of_rows(number):
    """Batches of 1 to 65,536 rows, windows that end within the records of a key, runs of any length: the rows are those
    of the slow twin. LAKEWARD_SEED repeats one."""
    seed = os.environ.get("LAKEWARD_SEED") or secrets.token_hex(4)
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    base_rows, log_rows = (int(2 ** chance.uniform(0, 16)) for _ in range(2))
    of_base, of_logs = (min(int(2 ** chance.uniform(4, 17)), 2_000 * rows) for rows in (base_rows, log_rows))
    mode = chance.choice([MergeMode.EVENT_TIME_ORDERING, MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING])
    begins = ["a", "key/that/is/long/", "é", "\U0001f600"]
    keys = sorted((f"{chance.choice(begins)}{number}" for number in range(2 * of_base)), key=str.encode)
    hot = chance.choice([1, 20, len(keys)])  # where few keys have most of the records, windows end among them
    ties = chance.choice([3, 1_000])
    base = [data(key, chance.randrange(ties)) for key in sorted(chance.sample(keys, of_base), key=str.encode)]
    records = [
        (chance.choice(keys[:hot] if chance.random() < 0.6 else keys), chance.randrange(ties), chance.random())
        for _ in range(of_logs)
    ]
    blocks = []
    while records:
        count = chance.randint(1, len(records))
        part, records = records[:count], records[count:]
        if chance.random() < 0.25:
            blocks.append([(key, None if kind < 0.3 else ts) for key, ts, kind in part])
        else:
            blocks.append([data(key, ts, _hoodie_is_deleted=kind < 0.1) for key, ts, kind in part])
    slice_ = Slice("long", base, blocks, mode)
    more = {
        "base_rows": base_rows,
        "log_rows": log_rows,
        "memory_bytes": int(10 ** chance.uniform(5, 8)),
        "base_memory": chance.choice([None, int(10 ** chance.uniform(5, 8))]),
        "window_bytes": int(10 ** chance.uniform(3, 7)),
    }
    rows = counted(slice_, **more)
    expected = pa.RecordBatch.from_pylist(by_key(slow_merge(slice_)), slice_.schema).to_pylist()
    assert texts(rows) == texts(expected), more


TWICE = [("a", 1), ("b", 9), ("b", 2), ("b", 3), ("c", 4), ("c", 6)]


@pytest.mark.parametrize(
    ("by_rank", "repeated", "expected"),
    [
        (False, RepeatedKeys.APART, [("a", 1), ("b", 9), ("b", 2), ("b", 3), ("c", 6)]),
        (True, RepeatedKeys.VERSIONS, [("a", 1), ("b", 9)]),
    ],
)
@pytest.mark.parametrize("window_bytes", [1, 10**6])
@pytest.mark.parametrize("base_rows", [1, 2, 3])
@pytest.mark.parametrize("base_memory", [None, 10**6, 0])
def test_a_key_in_several_base_rows(by_rank, repeated, expected, base_rows, base_memory, window_bytes):
    """The first of them meets the logs, and stays before the others; or they are versions of one row: also where
    batches, runs or windows meet.

    Keeps 2 of merge/sorted_merge.
    """
    logs = [[data("b", 5), ("c", None)][:1], [("c", None)]]
    slice_ = Slice("long", [data(key, ts) for key, ts in TWICE], logs, by_rank=by_rank, repeated=repeated)
    rows, merge, _ = sorted_merge(slice_, base_rows=base_rows, base_memory=base_memory, window_bytes=window_bytes)
    assert [(row["_hoodie_record_key"], row["ts"]) for row in rows] == expected
    assert merge.folded == (3 if by_rank else 0) and merge.deleted == 1


def test_a_key_twice_where_the_file_says_that_there_is_none():
    """The merge is to begin again without relying on any order. Keeps 3 of merge/sorted_merge."""
    slice_ = Slice("long", [data("a", 1), data("b", 2)], [[data("b", 5)]])
    twice = base_batches(slice_, 2) + base_batches(Slice("long", [data("b", 3)], []), 1)
    runs = [BaseRun(BASE_NAME, twice, ("ts",))]
    with pytest.raises(NotSorted, match=r"base\.parquet holds the record key 'b' more than once"):
        list(SortedMerge(runs, slice_.rules, slice_.schema).batches())


def test_what_is_not_known_of_a_key_in_several_base_rows():
    """It is refused by name. Keeps 2 of merge/sorted_merge."""
    slice_ = Slice("long", [data(key, ts) for key, ts in TWICE], [], repeated=RepeatedKeys.REFUSED)
    with pytest.raises(Unsupported, match=r"base\.parquet holds the record key 'b' more than once"):
        sorted_merge(slice_)


def test_base_rows_of_one_key_that_take_too_much_memory():
    """They wait for what happens to the first one, up to a bound. Keeps 4 of merge/sorted_merge."""
    slice_ = Slice("long", [data("k", number) for number in range(3_000)], [[data("k", 5)]])
    with pytest.raises(Unsupported, match="in more rows than memory has room for"):
        sorted_merge(slice_, base_rows=10, base_memory=10**6, window_bytes=100, waiting_bytes=1_000)


def test_a_base_out_of_order():
    """A base file that is not sorted after all is reported as such. Keeps 3 of merge/sorted_merge."""
    slice_ = Slice("long", [data("b", 1), data("c", 2), data("a", 3)], [[data("a", 5)]])
    with pytest.raises(NotSorted):
        sorted_merge(slice_)


def wide_merge(base_keys, log_keys, *, base_rows):
    """The batches of a merge by commit time, whose rows are keys."""
    schema = schema_of(pa.int64())
    rules = MergeRules(MergeMode.COMMIT_TIME_ORDERING)

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
    return list(SortedMerge([BaseRun("the base", base, ()), FoldedRun(logs)], rules, schema).batches())


@pytest.mark.parametrize("spans", [300, 65_536])
@pytest.mark.parametrize("every", [1, 2, 7, 3000])
def test_few_and_many_updates(every, spans, monkeypatch):
    """Slices or single rows, the result is the same, and no batch is larger than a window and what went in.

    Keeps 2 of merge/runs/run_windows.
    """
    monkeypatch.setattr(run_windows, "SPANS_MAX", spans)
    random = np.random.default_rng(every)
    log_keys = random.permutation(np.arange(0, 40_000, every))
    out = wide_merge(np.arange(0, 40_000, 2), log_keys, base_rows=5000)
    rows = [row for batch in out for row in zip(batch[1].to_pylist(), batch[0].to_pylist(), strict=True)]
    updated = set(log_keys.tolist())
    expected = sorted(updated | set(range(0, 40_000, 2)))
    assert rows == [(f"{key:09}", "2" if key in updated else "1") for key in expected]
    rows_in_window = WINDOW_BYTES // (out[0].nbytes // out[0].num_rows)
    assert max(batch.num_rows for batch in out) <= rows_in_window + 2 * 16_384


def test_more_runs_than_are_open_at_once(monkeypatch):
    """Runs beyond the limit are merged with their neighbours first, and nothing else changes.

    Keeps 3 of merge/runs/record_sorter.
    """
    monkeypatch.setattr(record_sorter, "OPEN_RUNS_MAX", 3)
    blocks = [[data("abcdefgh"[number % 8], number % 5, _hoodie_commit_time=str(number))] for number in range(40)]
    slice_ = Slice("long", [data(key, 2) for key in "ace"], blocks)
    rows, _, logs = sorted_merge(slice_, memory_bytes=0)
    assert len(logs.runs) <= 3
    assert texts(rows) == texts(pa.RecordBatch.from_pylist(by_key(slow_merge(slice_)), slice_.schema).to_pylist())


def test_large_blocks_that_are_sorted_are_runs_of_their_own():
    """They are written as they come, until one is not sorted: from there on all wait in memory, to be sorted.

    Keeps 1 of merge/runs/record_sorter.
    """
    blocks = [
        [data(key, number % 5, _hoodie_commit_time=str(number)) for key in keys]
        for number, keys in enumerate(["a", "abce", "bbde", "acb", "abcd", "dcba"])
    ]
    slice_ = Slice("long", [data(key, 2) for key in "ace"], blocks)
    expected = texts(pa.RecordBatch.from_pylist(by_key(slow_merge(slice_)), slice_.schema).to_pylist())
    rows, _, logs = sorted_merge(slice_, memory_bytes=2_000, block_bytes=250)
    assert texts(rows) == expected
    assert len(logs.runs) == 3
    logs = LogRecords(slice_.schema, slice_.rules, memory_bytes=2_000)
    with closing(logs):
        append_logs(slice_, logs, block_bytes=251)
        runs = ["".join(key for batch in run.batches() for key in batch.keys.to_pylist()) for run in logs.runs]
    assert runs == ["a", "abce", "bbde", "ac", "aabbbccdd"]
    rows, _, _ = sorted_merge(slice_, memory_bytes=2_000, block_bytes=251)
    assert texts(rows) == expected


@pytest.mark.slow
def test_a_key_with_very_many_records():
    """Ten thousand versions of a key cost two records beside the window.

    Keeps 4 of merge/sorted_merge and Keeps 2 of merge/logs/log_records.
    """
    block = [data("hot", number % 1000, _hoodie_commit_time=str(number)) for number in range(1_000)]
    slice_ = Slice("long", [data("hot", 500), data("other", 1)], [[("hot", 3)], *[block] * 10])
    held = []
    kept = SortedMerge._winners

    def watch(merge, window):
        won = kept(merge, window)
        held.append(0 if merge._held is None else len(merge._held.order))
        return won

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SortedMerge, "_winners", watch)
        rows, _, logs = sorted_merge(slice_, memory_bytes=40_000, log_rows=1000, window_bytes=1000)
    assert [(row["_hoodie_record_key"], row["ts"]) for row in rows] == [("hot", 999), ("other", 1)]
    assert len(logs.runs) > 5 and max(held) == 2


@pytest.mark.parametrize(("by_rank", "expected"), [(False, 10), (True, 5)])
@pytest.mark.parametrize("memory_bytes", [10**9, 0])
@pytest.mark.parametrize("window_bytes", [1, 10**6])
def test_the_two_folds(by_rank, expected, memory_bytes, window_bytes):
    """An unconditional delete between a base row and a later, smaller one: the logs first, or the base row first.

    Keeps 2 of merge/rules/winner.
    """
    slice_ = Slice("long", [data("a", 10)], [[("a", None)], [data("a", 5)]], by_rank=by_rank)
    rows, merge, _ = sorted_merge(slice_, memory_bytes=memory_bytes, window_bytes=window_bytes)
    assert [row["ts"] for row in rows] == [expected]
    assert (merge.updated, merge.inserted, merge.deleted) == (int(by_rank), 0, 0)


def test_what_is_spilled_comes_back_in_small_batches(tmp_path):
    """No run is written before the budget is full, none with larger batches than were asked for, and none has a name.

    Keeps 2 of merge/runs/record_sorter and Keeps 2 of merge/runs/spilled_run.
    """
    slice_ = Slice("long", [], [[data(f"{number * 7919 % 5000:05}", 1) for number in range(5000)]])
    budget = 64_000
    logs = LogRecords(slice_.schema, slice_.rules, memory_bytes=budget, spill_folder=str(tmp_path))
    with closing(logs):
        append_logs(slice_, logs, log_rows=100)
        sizes = [batch.nbytes for run in logs.runs for batch in run.batches()]
        rows = [len(batch.keys) for run in logs.runs for batch in run.batches()]
        assert len(logs.runs) > 3 and sum(rows) == 5000
        # A record takes 80 bytes while it is sorted, beside its own.
        assert max(sum(len(batch.keys) for batch in run.batches()) for run in logs.runs) * 80 <= budget
        assert max(sizes) <= 1.5 * spilled_batch_bytes(budget)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("far", [9, 10**12])
def test_records_by_their_batches(far: int):
    """Each batch comes once, with the places of its records, also where one was opened long after another."""
    batches = np.array([far, 7, far, 7, 8], dtype=np.int64)
    order = Order(batches, np.arange(5), np.zeros(5, dtype=np.int8))
    assert [(number, at.tolist()) for number, at in order.by_batch()] == [(7, [1, 3]), (8, [4]), (far, [0, 2])]
    assert list(order.part(slice(0, 0)).by_batch()) == []

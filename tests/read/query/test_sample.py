from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeward.read.query.sample import (
    BASE_KEYS_MAX,
    KEY_BYTES_MAX,
    LOG_KEYS_MAX,
    SampleTap,
    common_samples,
    pick_rows,
    plain_rows,
)

SCHEMA = pa.schema([("_hoodie_record_key", pa.string()), ("v", pa.int64())])


def batch(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"_hoodie_record_key": key, "v": v} for key, v in rows], SCHEMA)


@given(
    log_keys=st.integers(0, 200),
    base_keys=st.integers(0, 200),
    shared=st.integers(0, 200),
    again=st.integers(0, 40),
    size=st.integers(1, 50),
    versions=st.integers(1, 3),
)
def test_sampled_keys_are_known_completely(
    log_keys: int, base_keys: int, shared: int, again: int, size: int, versions: int
):
    """All log records of a sampled key are kept, in order, and its base rows; of either kind there are so many."""
    logs = [(f"k{number}", number + 1000 * version) for version in range(versions) for number in range(log_keys)]
    base = [(f"k{number + max(0, log_keys - shared)}", -number) for number in range(base_keys)]
    base += [(key, number - 1_000) for key, number in base[:again]]
    tap = SampleTap()
    for start in range(0, len(logs), size):
        if start % 3 == 2:
            keys = pa.array([key for key, _ in logs[start : start + size]], pa.string())
            tap.see_log_deletes(keys, pa.array([v for _, v in logs[start : start + size]]))
        else:
            tap.see_log_data(batch(logs[start : start + size]))
    for start in range(0, len(base), size):
        tap.see_base(batch(base[start : start + size]))

    names = {key for key, _ in logs}
    sample = tap.keys
    of_logs = {key for key in sample if key in names}
    base_only = {key for key in sample if key not in names}
    assert len(of_logs) == min(LOG_KEYS_MAX, log_keys)
    assert len(base_only) <= BASE_KEYS_MAX
    if len(of_logs) == log_keys:
        assert len(base_only) == min(BASE_KEYS_MAX, len({key for key, _ in base} - names))
    for key, inputs in sample.items():
        found = [record.row["v"] if record.row is not None else record.ordering for record in inputs.logs]
        assert found == [v for name, v in logs if name == key]
        assert [row["v"] for row in inputs.base] == [v for name, v in base if name == key]


def test_the_choice_does_not_depend_on_batches():
    """The same keys are chosen however the records are cut."""
    rows = [(f"k{number}", number) for number in range(500)]
    chosen = []
    for size in (1, 7, 500):
        tap = SampleTap()
        for start in range(0, len(rows), size):
            tap.see_log_data(batch(rows[start : start + size]))
        chosen.append(set(tap.keys))
    assert chosen[0] == chosen[1] == chosen[2]


def test_deletes_without_ordering_values():
    """A delete without ordering value is kept as such."""
    tap = SampleTap()
    tap.see_log_deletes(pa.array(["a", "b"]), None)
    tap.see_log_deletes(pa.array(["a"]), pa.array([5]))
    assert [record.ordering for record in tap.keys["a"].logs] == [None, 5]


def test_points_in_time_are_numbers():
    """Timestamps beyond Python's year 9999 are kept as integers, also deep inside."""
    far = 2**62
    inner = pa.struct([("t", pa.timestamp("us", "UTC")), ("m", pa.map_(pa.string(), pa.date32()))])
    values: list[Any] = [[{"t": None, "m": [("k", datetime.date(1970, 1, 3))]}]]
    rows = pa.RecordBatch.from_arrays(
        [pa.array([far], pa.timestamp("us", "UTC")), pa.array([2], pa.date32()), pa.array(values, pa.list_(inner))],
        names=["t", "d", "l"],
    )
    assert plain_rows(rows) == [{"t": far, "d": 2, "l": [{"t": None, "m": [("k", 2)]}]}]


def test_picking_rows_by_key():
    """All rows with one of the keys are picked, and no others."""
    assert [row["v"] for row in pick_rows(batch([("a", 1), ("b", 2), ("a", 3)]), pa.array(["a", "z"]))] == [1, 3]


def test_a_key_with_large_rows():
    """Such a key is in no sample, whether one of its rows is large or all of them are together, of the logs or the base
    file: as Python's values they would take more than the merge. Others are. Keeps 3 of read/query/sample."""
    tap = SampleTap()
    schema = pa.schema([("_hoodie_record_key", pa.string()), ("v", pa.string())])

    def see(see: Any, *rows: tuple[str, int]) -> None:
        see(pa.RecordBatch.from_pylist([{"_hoodie_record_key": key, "v": "x" * size} for key, size in rows], schema))

    see(tap.see_log_data, ("large", KEY_BYTES_MAX), ("small", 10), ("grows", KEY_BYTES_MAX // 2))
    see(tap.see_log_data, ("grows", KEY_BYTES_MAX // 2), ("large", 1), ("updated", 1))
    assert sorted(tap.keys) == ["small", "updated"]
    see(tap.see_base, ("large", 1), ("small", 1), ("updated", KEY_BYTES_MAX), ("new", KEY_BYTES_MAX), ("other", 1))
    assert sorted(tap.keys) == ["other", "small"]
    assert len(tap.keys["small"].base) == 1
    words = pa.array(["x" * 1_000 + str(number) for number in range(KEY_BYTES_MAX // 1_000)]).dictionary_encode()
    keys = pa.array([f"word {number}" for number in range(len(words))])
    tap.see_base(pa.RecordBatch.from_arrays([keys, words], ["_hoodie_record_key", "v"]))
    assert any(key.startswith("word") for key in tap.keys), "a row is as large as its value, not as its dictionary"


def test_two_samples_of_the_same_keys():
    """A tap that passes over what another one did, and what both chose among, have the same keys, however many records
    each had of them."""
    many = SampleTap()
    many.see_log_data(batch([(f"k{number % 60}", number) for number in range(60 * 3)]))
    many.see_log_data(batch([("k7", number) for number in range(1_500)]))
    once = SampleTap(passed_over=many.passed_over)
    once.see_log_data(batch([(f"k{number}", number) for number in range(60)]))
    some, same = common_samples(many, once)
    assert some.keys() == same.keys()
    assert len(some) >= LOG_KEYS_MAX - 1


def test_a_key_with_very_many_records():
    """Such a key is in no sample, whether its records come at once or one by one, and others are. Keeps 3 of
    read/query/sample."""
    for size in (1, 700, 5_000):
        tap = SampleTap()
        rows = [("hot", number) for number in range(2_500)] + [("cold", 1)]
        for start in range(0, len(rows), size):
            tap.see_log_data(batch(rows[start : start + size]))
        tap.see_base(batch([("hot", 0), ("cold", 0), ("new", 0)]))
        assert sorted(tap.keys) == ["cold", "new"]
        assert len(tap.keys["cold"].logs) == 1


@given(
    log_keys=st.integers(0, 120),
    base_keys=st.integers(0, 200),
    versions=st.integers(1, 4),
    chance=st.randoms(use_true_random=False),
)
def test_records_that_come_by_their_keys(log_keys: int, base_keys: int, versions: int, chance: Any):
    """The keys of the logs were seen before, and base rows and records may come in any order of their files: the sample
    is the one of logs that come one after the other."""
    logs = [[(f"k{number}", 1000 * rank + number) for number in range(rank, log_keys)] for rank in range(versions)]
    base = [(f"k{number + 20}", -number) for number in range(base_keys)]
    one, other = SampleTap(), SampleTap()
    for rows in logs:
        one.see_log_data(batch(rows))
        other.see_log_keys(pa.array([key for key, _ in rows], pa.string()))
    one.see_base(batch(base))
    other.settle()
    order = [*range(versions), -1]
    chance.shuffle(order)
    for rank in order:
        if rank < 0:
            other.see_base(batch(base))
        else:
            other.see_log_data(batch(logs[rank]), rank=rank)
    assert other.keys.keys() == one.keys.keys()
    for key, inputs in one.keys.items():
        assert (other.keys[key].logs, other.keys[key].base) == (inputs.logs, inputs.base)

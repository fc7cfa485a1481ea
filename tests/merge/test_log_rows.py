import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge import log_rows
from lakeward.merge.log_rows import LogRows

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.string()))])


def batch(numbers):
    return pa.RecordBatch.from_pylist([{"n": n, "s": f"é{n}", "l": [str(n)] * (n % 3)} for n in numbers], SCHEMA)


@given(
    sizes=st.lists(st.integers(0, 9), max_size=6),
    spilled_after=st.sets(st.integers(0, 5)),
    dropped_after=st.sets(st.integers(0, 5)),
    segment_bytes=st.sampled_from([1, 300, 10**6]),
    data=st.data(),
)
def test_rows_come_back_whatever_happened_to_them(sizes, spilled_after, dropped_after, segment_bytes, data):
    """Spilling, dropping and joining change no row: `take` returns what was appended, in the order asked for.

    Keeps 1 and 2 of merge/log_rows.
    """
    original, log_rows.SEGMENT_BYTES = log_rows.SEGMENT_BYTES, segment_bytes
    rows = LogRows(SCHEMA, memory_bytes=10**9)
    held: dict[int, int] = {}  # position: number
    count = 0
    try:
        for step, size in enumerate(sizes):
            numbers = list(range(count, count + size))
            count += size
            first = rows.append(batch([None or 0, *numbers])[1:])
            held |= {first + i: number for i, number in enumerate(numbers)}
            if step in dropped_after:
                alive = sorted(data.draw(st.sets(st.sampled_from(sorted(held))))) if held else []
                moved = rows.drop_others(np.array(alive, dtype=np.int64)).tolist()
                held = {new: held[old] for old, new in zip(alive, moved, strict=True)}
            if step in spilled_after:
                rows.spill()
        rows.seal()
        wanted = data.draw(st.lists(st.sampled_from(sorted(held)), max_size=12)) if held else []
        taken = rows.take(np.array(wanted, dtype=np.int64))
        assert taken.equals(batch([held[position] for position in wanted]))
    finally:
        rows.close()
        log_rows.SEGMENT_BYTES = original


def test_the_spill_file_is_deleted(tmp_path):
    """A spill file lives in the given folder while it is written; after that only the mapping holds it."""
    rows = LogRows(SCHEMA, memory_bytes=1, spill_folder=str(tmp_path))
    rows.append(batch(range(5)))
    assert rows.is_over_budget
    rows.spill()
    assert rows.bytes_in_memory == 0 and len(os.listdir(tmp_path)) == 1
    rows.seal()
    assert os.listdir(tmp_path) == []
    assert rows.take(np.array([4, 0])).column(0).to_pylist() == [4, 0]
    rows.close()


def test_closing_before_sealing_deletes_it_too(tmp_path):
    """A merge that is given up leaves no file behind."""
    rows = LogRows(SCHEMA, memory_bytes=1, spill_folder=str(tmp_path))
    rows.append(batch(range(5)))
    rows.spill()
    rows.close()
    assert os.listdir(tmp_path) == []


def test_other_schemas_are_a_mistake():
    """Every batch has the slice's schema."""
    with pytest.raises(AssertionError):
        LogRows(SCHEMA, memory_bytes=1).append(pa.RecordBatch.from_pydict({"n": [1]}))


@pytest.mark.parametrize("spilled", [False, True])
def test_segments_stay_small(monkeypatch, spilled):
    """What is joined is cut again, in memory and in the spill file. Keeps 3 of merge/log_rows."""
    one = batch(range(10))
    monkeypatch.setattr(log_rows, "SEGMENT_BYTES", 3 * one.nbytes)
    rows = LogRows(SCHEMA, memory_bytes=10**9)
    for _ in range(10):
        rows.append(one)
    if spilled:
        rows.spill()
    rows.seal()
    assert max(segment.num_rows for segment in rows._segments) <= 30
    rows.close()

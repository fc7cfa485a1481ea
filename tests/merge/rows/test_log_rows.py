import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.rows import log_rows
from lakeward.merge.rows.log_rows import LogRows

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.string()))])


def batch(numbers):
    return pa.RecordBatch.from_pylist([{"n": n, "s": f"é{n}", "l": [str(n)] * (n % 3)} for n in numbers], SCHEMA)


@given(
    sizes=st.lists(st.integers(0, 9), max_size=6),
    dropped_after=st.sets(st.integers(0, 5)),
    segment_bytes=st.sampled_from([1, 300, 10**6]),
    data=st.data(),
)
def test_rows_come_back_whatever_happened_to_them(sizes, dropped_after, segment_bytes, data):
    """Dropping and joining change no row: `take` returns what was appended, in the order asked for.

    Keeps 1 and 2 of merge/rows/log_rows.
    """
    original, log_rows.SEGMENT_BYTES = log_rows.SEGMENT_BYTES, segment_bytes
    rows = LogRows(SCHEMA)
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
        rows.seal()
        wanted = data.draw(st.lists(st.sampled_from(sorted(held)), max_size=12)) if held else []
        taken = rows.take(np.array(wanted, dtype=np.int64))
        assert taken.equals(batch([held[position] for position in wanted]))
    finally:
        log_rows.SEGMENT_BYTES = original


def test_other_schemas_are_a_mistake():
    """Every batch has the slice's schema."""
    with pytest.raises(AssertionError):
        LogRows(SCHEMA).append(pa.RecordBatch.from_pydict({"n": [1]}))


def test_segments_stay_small(monkeypatch):
    """What is joined is cut again. Keeps 3 and 4 of merge/rows/log_rows."""
    one = batch(range(10))
    monkeypatch.setattr(log_rows, "SEGMENT_BYTES", 3 * one.nbytes)
    rows = LogRows(SCHEMA)
    for _ in range(10):
        rows.append(one)
    rows.seal()
    assert np.diff(rows._starts).max() <= 30
    assert not rows._batches

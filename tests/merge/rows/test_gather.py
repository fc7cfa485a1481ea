"""Rows gathered from several batches, against the library's way: join all, then take."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.rows.gather import RowSources
from tests.merge.test_digest import VALUES

KINDS = {**VALUES, pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["", "a", "bc", "ü"]), pa.null(): st.none()}


def one_batch(values, kind):
    column = pa.array(values, kind.value_type if pa.types.is_dictionary(kind) else kind)
    if pa.types.is_dictionary(kind):
        column = column.dictionary_encode()
    return pa.RecordBatch.from_arrays([column], names=["c"])


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_it_takes_what_the_library_takes(kind, data):
    """Any rows in any order, out of batches that are slices of others. Keeps 1 and 2 of merge/rows/gather."""
    batches = []
    for _ in range(data.draw(st.integers(1, 4))):
        values = data.draw(st.lists(st.none() | KINDS[kind], max_size=9))
        first = data.draw(st.integers(0, len(values)))
        batches.append(one_batch(values, kind).slice(first))
    at = [(number, place) for number, batch in enumerate(batches) for place in range(batch.num_rows)]
    wanted = data.draw(st.lists(st.sampled_from(at), max_size=20) if at else st.just([]))
    neighbours = data.draw(st.booleans())
    wanted = sorted(wanted) if neighbours else wanted
    numbers = np.array([number for number, _ in wanted], dtype=np.int64)
    places = np.array([place for _, place in wanted], dtype=np.int64)
    gathered = RowSources(batches).gather(numbers, places)
    gathered.validate(full=True)
    assert gathered.schema == batches[0].schema
    assert repr(gathered.column(0).to_pylist()) == repr([batches[n].column(0)[p].as_py() for n, p in wanted])


def test_neighbours_and_single_rows_of_wide_columns():
    """Pieces of one row and of many, at bit offsets beyond a byte, again and again from the same sources."""
    rng = np.random.default_rng(7)
    columns = {
        "text": pa.array([str(number) * (number % 9) for number in range(500)]),
        "four": pa.array(rng.integers(0, 9, 500).astype(np.int32), mask=rng.random(500) < 0.3),
        "eight": pa.array(rng.random(500)),
        "sixteen": pa.array(rng.integers(0, 10**6, 500)).cast(pa.decimal128(38, 2)),
    }
    whole = pa.RecordBatch.from_pydict(columns)
    sources = RowSources([whole.slice(3, 200), whole.slice(203)])
    for _ in range(3):
        wanted = np.concatenate([rng.integers(3, 500, 50), np.arange(10, 300), rng.integers(3, 500, 50)])
        numbers = (wanted >= 203).astype(np.int64)
        gathered = sources.gather(numbers, wanted - np.where(numbers, 203, 3))
        gathered.validate(full=True)
        assert gathered.equals(whole.take(pa.array(wanted)))

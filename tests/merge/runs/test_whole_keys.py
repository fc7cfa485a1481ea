"""Records of several runs come in batches that cut no key."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.merge.rows.byte_hash import byte_buffers
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.sort_key import order_of
from lakeward.merge.runs.sorted_run import BaseRun
from lakeward.merge.runs.spilled_run import RawRun
from lakeward.merge.runs.whole_keys import whole_keys

SCHEMA = pa.schema([pa.field("_hoodie_record_key", pa.string()), pa.field("number", pa.int32())])


@pytest.mark.parametrize("seed", range(4))
def test_no_key_is_cut(tmp_path, seed):
    """Whatever the runs, all records of a key are in one batch, in the order in which they came, and keys ascend;
    also where there were more runs than may be read at once. Keeps 1 and 2 of merge/runs/whole_keys; Keeps 1 of
    merge/runs/record_sorter."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    rows = [(f"k{chance.randint(0, 40):02}", number) for number in range(3000)]
    memory_bytes = 4_000 if seed % 2 else 20_000  # 60 runs, or 12
    sorter = RecordSorter(SCHEMA, name="keys", is_base=False, memory_bytes=memory_bytes, folder=str(tmp_path))
    for start in range(0, len(rows), 50):
        columns = zip(*rows[start : start + 50], strict=True)
        sorter.add(
            pa.RecordBatch.from_arrays(
                [pa.array(each, of.type) for each, of in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    runs = [RawRun(run) for run in sorter.finish()]
    batches = [list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) for batch in whole_keys(runs)]
    sorter.close()

    assert [row for batch in batches for row in batch] == sorted(rows)
    keys = [{key for key, _ in batch} for batch in batches]
    assert len(batches) > 1 and sum(map(len, keys)) == len(set().union(*keys))


def test_a_run_that_does_not_ascend():
    """Keeps 3 of merge/runs/whole_keys."""
    batches = [pa.RecordBatch.from_arrays([pa.array([key]), pa.array([1], pa.int32())], schema=SCHEMA) for key in "ba"]

    with pytest.raises(AssertionError, match="the run is sorted"):
        list(whole_keys([BaseRun("the run", batches, ())]))


@given(keys=st.lists(st.text("\0ab", max_size=20), max_size=60))
def test_keys_are_sorted_by_all_their_words(keys: list[str]) -> None:
    """Keys that agree in eight bytes are ordered by the next eight, also where one ends in zeros; equal ones stay."""
    offsets, data = byte_buffers(pa.array(keys, pa.string()))

    assert order_of(data, offsets).tolist() == sorted(range(len(keys)), key=lambda at: (keys[at].encode(), at))

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.merge.logs.log_fold import LogFold
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))


def schema(ts=None, **more):
    return pa.schema([("_hoodie_record_key", pa.string()), ("ts", ts or pa.int64()), ("v", pa.string()), *more.items()])


def batch(rows, kind):
    return pa.RecordBatch.from_pylist([dict(zip(kind.names, row, strict=False)) for row in rows], kind)


def test_only_winners_are_kept_in_memory():
    """Rows that lost are dropped before it is full: a thousand versions of one key fit a small budget.

    Keeps 4 of merge/logs/log_fold.
    """
    empty = LogFold(schema(), EVENT, memory_bytes=0).nbytes
    fold = LogFold(schema(), EVENT, memory_bytes=4 * empty)
    for version in range(3_000):
        fold.append_data(batch([("k", version, "x" * 20)], schema()), source="log")
        assert not fold.is_full
    fold.finish()
    assert fold.records == 3_000 and fold.keys == 1
    assert fold.take(fold.data_ids()).to_pylist() == [{"_hoodie_record_key": "k", "ts": 2999, "v": "x" * 20}]


def test_a_refusal_names_key_and_block():
    """Records of one key with and without an ordering value: the message says which key and where.

    Keeps 2 of merge/logs/log_fold and Keeps 2 of merge/rules/winner.
    """
    fold = LogFold(schema(), EVENT, memory_bytes=10**6)
    fold.append_data(batch([("other", 1, ""), ("k", 1, "")], schema()), source="log A")
    with pytest.raises(Unsupported, match=r"'k'.*log B"):
        fold.append_data(batch([("other", 2, ""), ("k", None, "")], schema()), source="log B")


def test_a_refusal_names_key_and_base_file():
    """The same when the record without an ordering value is in the base file."""
    fold = LogFold(schema(pa.string()), EVENT, memory_bytes=10**6)
    fold.append_data(batch([("k", "1", "")], schema(pa.string())), source="log")
    fold.finish()
    with pytest.raises(Unsupported, match=r"'k'.*the base"):
        fold.decide(np.array([0]), pa.array([None], pa.string()), base="the base")


@pytest.mark.parametrize("ts", [pa.binary(), pa.list_(pa.int64()), pa.time64("us")], ids=str)
def test_ordering_columns_of_other_types_are_refused(ts):
    """What we cannot compare as Java does is refused before a record is read."""
    with pytest.raises(Unsupported, match="ts"):
        LogFold(schema(ts), EVENT, memory_bytes=1)


def test_a_missing_ordering_column_is_refused():
    """Event time needs its column; commit time does not look."""
    with pytest.raises(Unsupported, match=r"a\.b"):
        LogFold(schema(), MergeRules(MergeMode.EVENT_TIME_ORDERING, ("a.b",)), memory_bytes=1)
    LogFold(schema(), MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("a.b",)), memory_bytes=1)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [5, 7]),
        (pa.int32(), [5, 7]),
        (pa.float64(), [-0.5, 7.25]),
        (pa.string(), ["ab", "ü"]),
        (pa.decimal128(10, 2), [Decimal("1.25"), Decimal("9.00")]),
        (pa.timestamp("us", "UTC"), [1, 10**15]),
    ],
    ids=str,
)
def test_deletes_that_won_come_out_with_their_ordering_values(kind, values):
    """Deletes of blocks and of columns do alike; null stands where a delete has none; keys won by rows are not among
    them.

    Keeps 3 of merge/logs/log_fold.
    """
    flag = schema(kind, _hoodie_is_deleted=pa.bool_())
    small, large = pa.array(values).cast(kind).to_pylist()
    fold = LogFold(flag, EVENT, memory_bytes=10**6)
    rows = [("row", large, "", None), ("column", small, "", True), ("late", large, "", None)]
    fold.append_data(batch(rows, flag), source="a")
    ordering = pa.array([large, small, None], kind)
    wrapper = {pa.int64(): "LongWrapper", pa.int32(): "IntWrapper", pa.float64(): "DoubleWrapper"}.get(kind)
    wrapper = wrapper or ("StringWrapper" if kind == pa.string() else "DecimalWrapper")
    wrapper = "LongWrapper" if pa.types.is_timestamp(kind) else wrapper
    fold.append_deletes(pa.array(["block", "late", "always"]), ordering, wrappers=(wrapper,), source="b")
    fold.finish()

    tombstones = fold.tombstones(fold.tombstone_ids())

    assert tombstones.keys.to_pylist() == ["column", "block", "always"]
    assert tombstones.ordering.type == kind
    assert tombstones.ordering.to_pylist() == [small, large, None]
    assert fold.take(fold.data_ids()).column(0).to_pylist() == ["row", "late"]


def test_by_commit_time_deletes_have_no_ordering_values():
    """There they say nothing, so none is given out."""
    fold = LogFold(schema(), MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",)), memory_bytes=10**6)
    fold.append_deletes(pa.array(["a"]), pa.array([5]), wrappers=("LongWrapper",), source="b")
    fold.finish()
    tombstones = fold.tombstones(fold.tombstone_ids())
    assert (tombstones.keys.to_pylist(), tombstones.ordering) == (["a"], None)

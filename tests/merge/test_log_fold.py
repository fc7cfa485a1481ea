import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakeward.errors import Unsupported
from lakeward.merge.log_fold import LogFold, delete_ordering, find_deleted
from lakeward.merge.merge_rules import MergeMode, MergeRules

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, "ts")


def schema(ts=None, **more):
    return pa.schema([("_hoodie_record_key", pa.string()), ("ts", ts or pa.int64()), ("v", pa.string()), *more.items()])


def batch(rows, kind):
    return pa.RecordBatch.from_pylist([dict(zip(kind.names, row, strict=False)) for row in rows], kind)


def test_only_winners_are_kept_in_memory():
    """Rows that lost are dropped before anything is spilled: a thousand versions of one key fit a small budget."""
    fold = LogFold(schema(), EVENT, memory_bytes=2_000)
    for version in range(1_000):
        fold.append_data(batch([("k", version, "x" * 20)], schema()), source="log")
    fold.finish()
    assert not fold.has_spilled
    assert fold.records == 1_000 and fold.keys == 1
    assert fold.take(fold.data_ids()).to_pylist() == [{"_hoodie_record_key": "k", "ts": 999, "v": "x" * 20}]


def test_what_does_not_fit_is_spilled(tmp_path):
    """Beyond the budget rows go to a file outside of the table, which close removes."""
    fold = LogFold(schema(), EVENT, memory_bytes=500, spill_folder=str(tmp_path))
    for number in range(50):
        fold.append_data(batch([(f"k{number}", 1, "x" * 20)], schema()), source="log")
    assert fold.has_spilled and len(os.listdir(tmp_path)) == 1
    fold.finish()
    assert fold.take(fold.data_ids()).column(0).to_pylist() == [f"k{number}" for number in range(50)]
    fold.close()
    assert os.listdir(tmp_path) == []


def test_a_refusal_names_key_and_block():
    """Records of one key with and without an ordering value: the message says which key and where."""
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
        LogFold(schema(), MergeRules(MergeMode.EVENT_TIME_ORDERING, "a.b"), memory_bytes=1)
    LogFold(schema(), MergeRules(MergeMode.COMMIT_TIME_ORDERING, "a.b"), memory_bytes=1)


def test_delete_blocks_with_values_of_another_class_are_refused():
    """Hudi would throw once such a value meets another; so it is refused, naming the block."""
    values = pa.array([1], pa.int32())
    with pytest.raises(Unsupported, match=r"block 7.*IntWrapper"):
        delete_ordering(values, pa.int64(), wrapper="IntWrapper", rows=1, source="block 7")


def test_delete_ordering_takes_the_columns_type():
    """Decimals are rescaled exactly, longs become timestamps; what would lose digits is refused."""
    number = pa.array(["1.250000000000000"]).cast(pa.decimal128(30, 15))
    kept = delete_ordering(number, pa.decimal128(10, 2), wrapper="DecimalWrapper", rows=1, source="b")
    assert kept.type == pa.decimal128(10, 2) and str(kept[0].as_py()) == "1.25"
    with pytest.raises(Unsupported, match="b"):
        delete_ordering(number, pa.decimal128(10, 1), wrapper="DecimalWrapper", rows=1, source="b")
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        micros = delete_ordering(pa.array([5, None]), kind, wrapper="LongWrapper", rows=2, source="b")
        assert micros.cast(pa.int64()).to_pylist() == [5, None]
    assert delete_ordering(pa.nulls(2, pa.int64()), pa.int64(), wrapper=None, rows=2, source="b") is None


def test_delete_markers():
    """`_hoodie_is_deleted`, and the custom pair compared as text, in whatever type the column has."""
    custom = MergeRules(MergeMode.EVENT_TIME_ORDERING, "ts", "op", "1")
    for kind, values in ((pa.string(), ["1", "2", None]), (pa.int64(), [1, 2, None])):
        rows = batch([("a", 1, "", values[0]), ("b", 1, "", values[1]), ("c", 1, "", values[2])], schema(op=kind))
        assert find_deleted(rows, custom).tolist() == [True, False, False]
    flags = schema(_hoodie_is_deleted=pa.bool_())
    rows = batch([("a", 1, "", True), ("b", 1, "", False), ("c", 1, "", None)], flags)
    assert find_deleted(rows, EVENT).tolist() == [True, False, False]
    boolean = MergeRules(MergeMode.EVENT_TIME_ORDERING, "ts", "op", "true")
    assert find_deleted(batch([("a", 1, "", True)], schema(op=pa.bool_())), boolean).tolist() == [True]
    assert find_deleted(batch([("a", 1, "")], schema()), boolean).tolist() == [False]


def test_delete_columns_of_other_types_are_refused():
    """A mark of deletion that we might read otherwise than Hudi is refused."""
    with pytest.raises(Unsupported, match="_hoodie_is_deleted"):
        find_deleted(batch([("a", 1, "", "true")], schema(_hoodie_is_deleted=pa.string())), EVENT)
    custom = MergeRules(MergeMode.EVENT_TIME_ORDERING, "ts", "op", "1.0")
    with pytest.raises(Unsupported, match="op"):
        find_deleted(batch([("a", 1, "", 1.0)], schema(op=pa.float64())), custom)


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
    """Deletes of blocks and of columns alike; null where a delete has none; keys won by rows are not among them."""
    flag = schema(kind, _hoodie_is_deleted=pa.bool_())
    small, large = pa.array(values).cast(kind).to_pylist()
    fold = LogFold(flag, EVENT, memory_bytes=10**6)
    rows = [("row", large, "", None), ("column", small, "", True), ("late", large, "", None)]
    fold.append_data(batch(rows, flag), source="a")
    ordering = pa.array([large, small, None], kind)
    wrapper = {pa.int64(): "LongWrapper", pa.int32(): "IntWrapper", pa.float64(): "DoubleWrapper"}.get(kind)
    wrapper = wrapper or ("StringWrapper" if kind == pa.string() else "DecimalWrapper")
    wrapper = "LongWrapper" if pa.types.is_timestamp(kind) else wrapper
    fold.append_deletes(pa.array(["block", "late", "always"]), ordering, wrapper=wrapper, source="b")
    fold.finish()

    tombstones = fold.tombstones(fold.tombstone_ids())

    assert tombstones.keys.to_pylist() == ["column", "block", "always"]
    assert tombstones.ordering.type == kind
    assert tombstones.ordering.to_pylist() == [small, large, None]
    assert fold.take(fold.data_ids()).column(0).to_pylist() == ["row", "late"]


def test_by_commit_time_deletes_have_no_ordering_values():
    """There they say nothing, so none is given out."""
    fold = LogFold(schema(), MergeRules(MergeMode.COMMIT_TIME_ORDERING, "ts"), memory_bytes=10**6)
    fold.append_deletes(pa.array(["a"]), pa.array([5]), wrapper="LongWrapper", source="b")
    fold.finish()
    tombstones = fold.tombstones(fold.tombstone_ids())
    assert (tombstones.keys.to_pylist(), tombstones.ordering) == (["a"], None)

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.records import delete_ordering, find_deleted, record_keys

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))


def schema(ts=None, **more):
    return pa.schema([("_hoodie_record_key", pa.string()), ("ts", ts or pa.int64()), ("v", pa.string()), *more.items()])


def batch(rows, kind):
    return pa.RecordBatch.from_pylist([dict(zip(kind.names, row, strict=False)) for row in rows], kind)


def test_a_record_without_a_key_is_refused():
    """The message says where it is. Keeps 1 of merge/rules/records."""
    with pytest.raises(BrokenFile, match="block 7"):
        record_keys(batch([("a", 1), (None, 1)], schema()), source="block 7")


def test_delete_blocks_with_values_of_another_class_are_refused():
    """Hudi would throw once such a value meets another; so it is refused, naming the block.

    Keeps 2 of merge/rules/records.
    """
    values = pa.array([1], pa.int32())
    with pytest.raises(Unsupported, match=r"block 7.*IntWrapper"):
        delete_ordering(values, pa.int64(), wrappers=("IntWrapper",), rows=1, source="block 7")


def test_delete_ordering_takes_the_columns_type():
    """Decimals are rescaled exactly, longs become timestamps; what would lose digits is refused."""
    number = pa.array(["1.250000000000000"]).cast(pa.decimal128(30, 15))
    kept = delete_ordering(number, pa.decimal128(10, 2), wrappers=("DecimalWrapper",), rows=1, source="b")
    assert kept.type == pa.decimal128(10, 2) and str(kept[0].as_py()) == "1.25"
    with pytest.raises(Unsupported, match="b"):
        delete_ordering(number, pa.decimal128(10, 1), wrappers=("DecimalWrapper",), rows=1, source="b")
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        micros = delete_ordering(pa.array([5, None]), kind, wrappers=("LongWrapper",), rows=2, source="b")
        assert micros.cast(pa.int64()).to_pylist() == [5, None]
    assert delete_ordering(pa.nulls(2, pa.int64()), pa.int64(), wrappers=(), rows=2, source="b") is None


def test_delete_markers():
    """`_hoodie_is_deleted` marks rows that are deleted."""
    flags = schema(_hoodie_is_deleted=pa.bool_())
    rows = batch([("a", 1, "", True), ("b", 1, "", False), ("c", 1, "", None)], flags)
    assert find_deleted(rows, EVENT).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "marked", "other", "marker"),
    [(pa.string(), "D", "I", "D"), (pa.int64(), 1, 11, "1"), (pa.bool_(), True, False, "true")],
)
def test_rows_with_the_tables_own_mark_of_deletion_are_refused(kind, marked, other, marker):
    """They are compared as text; Hudi's writers leave none, and its readers do not heed them. Keeps 3 of
    merge/rules/records."""
    rules = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), "op", marker)
    assert not find_deleted(batch([("a", 1, "", other), ("b", 1, "", None)], schema(op=kind)), rules).any()
    with pytest.raises(Unsupported, match="mark of deletion"):
        find_deleted(batch([("a", 1, "", other), ("b", 1, "", marked)], schema(op=kind)), rules)
    assert find_deleted(batch([("a", 1, "")], schema()), rules).tolist() == [False]


def test_delete_columns_of_other_types_are_refused():
    """A mark of deletion that we might read otherwise than Hudi is refused. Keeps 2 of merge/rules/records."""
    with pytest.raises(Unsupported, match="_hoodie_is_deleted"):
        find_deleted(batch([("a", 1, "", "true")], schema(_hoodie_is_deleted=pa.string())), EVENT)
    custom = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), "op", "1.0")
    with pytest.raises(Unsupported, match="op"):
        find_deleted(batch([("a", 1, "", 1.0)], schema(op=pa.float64())), custom)

"""Statistics of partitions from those of files."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.metadata.partition_stats import (
    holds,
    over_both,
    partition_stats,
    written_partition_stats,
)
from lakeward.format.metadata.record import ColumnStatsRecord, PartitionStatsRecord
from lakeward.format.stats.stats_value import StatsValue, StatsVersion, ValueKind, ValueType, Wrapper

V1, V2 = StatsVersion.V1, StatsVersion.V2
NAN = float("nan")


def of_file(
    file: str,
    smallest: StatsValue | None,
    largest: StatsValue | None,
    kind: ValueType | ValueKind | Wrapper | None = ValueKind.INT,
    **changes: Any,
) -> ColumnStatsRecord:
    fields: dict[str, Any] = {
        "file_name": file,
        "column": "c",
        "min_value": smallest,
        "max_value": largest,
        "value_count": 10,
        "null_count": 1,
        "total_size": 100,
        "total_uncompressed_size": 1000,
        "value_type": ValueType(kind) if isinstance(kind, ValueKind) else kind,
    }
    if kind is None or isinstance(kind, Wrapper):
        fields |= {"value_type": None, "wrapper": kind}
    return ColumnStatsRecord(**(fields | changes))


def joined(
    *records: ColumnStatsRecord, avro: Any = "int", version: StatsVersion = V2, files: tuple[str, ...] = ()
) -> PartitionStatsRecord | None:
    names = files or tuple(str(record.file_name) for record in records)
    found = partition_stats("part=1", names, records, columns={"c": ["null", avro]}, version=version)
    assert len(found) <= 1
    return found[0] if found else None


def ends(record: PartitionStatsRecord | None) -> Any:
    return None if record is None else (record.min_value, record.max_value)


def test_everything_is_joined():
    """The range around all, the sums of counts and sizes; the partition's path as the file's name; exact."""
    assert joined(of_file("a", 3, 5), of_file("b", -1, 4, value_count=7), of_file("c", None, None)) == (
        PartitionStatsRecord(
            file_name="part=1",
            column="c",
            min_value=-1,
            max_value=5,
            value_count=27,
            null_count=3,
            total_size=300,
            total_uncompressed_size=3000,
            is_tight=True,
            value_type=ValueType(ValueKind.INT),
        )
    )


def test_only_files_that_count():
    """Statistics of replaced and cleaned files do not."""
    replaced = [of_file("old", -9, 9), of_file("gone", None, None, is_deleted=True)]
    assert ends(joined(of_file("a", 3, 5), *replaced, files=("a",))) == (3, 5)


@pytest.mark.parametrize("known", [[], [of_file("a", 1, 2)], [of_file("a", 1, 2), of_file("b", 3, 4, is_deleted=True)]])
def test_no_record_unless_all_files_are_known(known: list[ColumnStatsRecord]):
    """A record would promise that nothing lies outside of what is known."""
    assert joined(*known, files=("a", "b")) is None


def test_no_files():
    """Nothing is said of an empty partition."""
    assert partition_stats("p", (), [], columns={"c": "int"}, version=V2) == []


def test_columns_are_joined_each_for_itself():
    """They keep their order; others are left out."""
    stats = [of_file(file, 1, 2, column=column) for file in ("a", "b") for column in ("y", "x", "other")]
    found = partition_stats("", ("a", "b"), stats, columns={"x": "int", "y": "int", "z": "int"}, version=V2)
    assert [(record.column, record.file_name, record.value_count) for record in found] == [("x", "", 20), ("y", "", 20)]


def test_the_order_is_that_of_queries():
    """Text and bytes are ordered by their unsigned bytes, and NaN is above all numbers."""
    texts = (of_file("a", "！", "！", ValueKind.STRING), of_file("b", "😀", "😀", ValueKind.STRING))
    assert ends(joined(*texts, avro="string")) == ("！", "😀")
    high = (of_file("a", b"\x80", b"\xff", ValueKind.BYTES), of_file("b", b"\x00", b"\x7f", ValueKind.BYTES))
    assert ends(joined(*high, avro="bytes")) == (b"\x00", b"\xff")
    for records in [
        (of_file("a", NAN, NAN, ValueKind.DOUBLE), of_file("b", 1.0, 2.0, ValueKind.DOUBLE)),
        (of_file("b", 1.0, 2.0, ValueKind.DOUBLE), of_file("a", NAN, NAN, ValueKind.DOUBLE)),
    ]:
        assert repr(ends(joined(*records, avro="double"))) == "(1.0, nan)"


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}


@pytest.mark.parametrize(
    ("kind", "value", "avro", "expected"),
    [
        (ValueKind.INT, 5, "long", 5),
        (ValueKind.INT, 5, "double", 5.0),
        (ValueKind.LONG, 2**53 + 1, "double", float(2**53)),
        (ValueKind.LONG, 16_777_217, "float", 16_777_216.0),
        (ValueType(ValueKind.DECIMAL, 7, 2), Decimal("1.25"), DECIMAL, Decimal("1.25")),
        (ValueKind.TIMESTAMP_MILLIS, -3, {"type": "long", "logicalType": "timestamp-micros"}, -3000),
        (ValueKind.LONG, 3, {"type": "long", "logicalType": "timestamp-micros"}, 3),
        (ValueKind.STRING, "é", "bytes", "é".encode()),
        (ValueKind.STRING, "0" * 8, {"type": "string", "logicalType": "uuid"}, "0" * 8),
    ],
)
def test_older_types_become_the_columns(kind: Any, value: StatsValue, avro: Any, expected: StatsValue):
    """Files from before a column was widened count by the value that queries see in them."""
    found = joined(of_file("a", value, value, kind), of_file("b", None, None, ValueKind.NULL), avro=avro)
    assert ends(found) == (expected, expected)
    assert found is not None and found.value_type is not None and found.value_type != ValueType(ValueKind.NULL)
    assert type(found.min_value) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "avro"),
    [
        (ValueKind.INT, 9, "string"),  # "10" comes before "9"
        (ValueKind.FLOAT, 0.1, "double"),  # Hudi makes 0.1 of it, Spark 0.10000000149011612
        (ValueKind.TIMESTAMP_MICROS, 1, {"type": "long", "logicalType": "timestamp-millis"}),
        (ValueKind.BYTES, b"\xff", "string"),
        (Wrapper.INT, 1, "int"),  # of version 1
    ],
)
def test_types_that_keep_no_order_make_no_record(kind: Any, value: StatsValue, avro: Any):
    """What the older record of the partition says still holds."""
    assert joined(of_file("a", value, value, kind), avro=avro) is None


def test_version_1_has_wrappers_in_place_of_types():
    """What all files have alike stays; different ones become the column's; nothing but nulls has none."""
    date = {"type": "int", "logicalType": "date"}
    found = joined(of_file("a", 1, 2, Wrapper.DATE), of_file("b", None, None, None), avro=date, version=V1)
    assert found is not None
    assert (ends(found), found.wrapper, found.value_type) == ((1, 2), Wrapper.DATE, None)

    found = joined(of_file("a", 1, 2, Wrapper.INT), of_file("b", 5, 6, Wrapper.LONG), avro="long", version=V1)
    assert found is not None
    assert (ends(found), found.wrapper) == ((1, 6), Wrapper.LONG)

    micros = {"type": "long", "logicalType": "timestamp-micros"}
    found = joined(of_file("a", 1, 2, Wrapper.TIMESTAMP_MICROS), avro=micros, version=V1)
    assert found is not None and found.wrapper is Wrapper.TIMESTAMP_MICROS
    mixed = (of_file("a", 1, 2, Wrapper.TIMESTAMP_MICROS), of_file("b", 1, 2, Wrapper.LONG))
    assert joined(*mixed, avro=micros, version=V1) is None

    found = joined(of_file("a", None, None, None), avro="int", version=V1)
    assert found is not None and (ends(found), found.wrapper, found.version) == ((None, None), None, V1)


def written(
    *records: ColumnStatsRecord, own: str = "own", files: tuple[str, ...] = (), avro: Any = "int", is_known: bool = True
) -> PartitionStatsRecord | None:
    names = files or tuple(dict.fromkeys(str(record.file_name) for record in records))
    columns = {"c": ["null", avro], "d": "int"}
    found = written_partition_stats("p", names, [own], records, columns=columns, version=V2, is_known=is_known)
    return next((record for record in found if record.column == "c"), None)


def test_a_write_says_what_is_exact():
    """All files that count are known: the range is exact, whatever stood there. Keeps 3 of
    format/metadata/partition_stats."""
    record = written(of_file("a", 3, 5), of_file("own", 7, 9))
    assert record is not None
    assert (ends(record), record.is_tight, record.value_count, record.null_count) == ((3, 9), True, 20, 2)


def test_a_file_from_before_the_column_holds_nulls():
    """What is known of it is another column: its rows count as nulls of this one."""
    record = written(of_file("a", 1, 2, column="d", value_count=4, null_count=0), of_file("own", 7, 9))
    assert record is not None
    assert (ends(record), record.is_tight, record.value_count, record.null_count) == ((7, 9), True, 14, 5)


@pytest.mark.parametrize(
    ("files", "is_known"), [(("own", "unknown"), True), (("own",), False)], ids=["a-file", "a-write"]
)
def test_a_write_that_does_not_know_all_adds_its_own(files: tuple[str, ...], is_known: bool):
    """A file without any statistics counts, or a write is under way: the record is joined with the older one."""
    record = written(of_file("own", 7, 9), files=files, is_known=is_known)
    assert record is not None
    assert (ends(record), record.is_tight, record.value_count) == ((7, 9), False, 10)


def test_a_type_that_does_not_become_the_column_is_refused():
    """A service leaves the column out; a write would bring values that are in no range."""
    with pytest.raises(Unsupported, match="column c"):
        written(of_file("a", "x", "y", ValueKind.STRING), of_file("own", 7, 9))


def test_a_range_over_both_is_of_the_newer_type():
    """The older one was of ints, and the column holds longs by now."""
    left_in_place, made = joined(of_file("a", 3, 5)), written(of_file("own", 7, 9, ValueKind.LONG), avro="long")
    assert left_in_place is not None and made is not None
    both = over_both(left_in_place, made, ["null", "long"], V2)
    assert both is not None and ends(both) == (3, 9)
    assert (both.value_type, both.value_count, both.null_count) == (ValueType(ValueKind.LONG), 20, 2)


@pytest.mark.parametrize(
    ("record", "other", "is_held"),
    [
        (of_file("a", 3, 9), of_file("b", 3, 5), True),
        (of_file("a", 3, 9), of_file("b", 3, 10), False),
        (of_file("a", 3, 9), of_file("b", 2, 9), False),
        (of_file("a", 3, 9, null_count=0), of_file("b", 3, 9), False),
        (of_file("a", None, None), of_file("b", 3, 9), False),
        (of_file("a", 3, 9), of_file("b", None, None), True),
        (of_file("a", 3, 9, null_count=0), of_file("b", None, None, null_count=0, value_count=0), True),
    ],
)
def test_a_record_holds_what_a_query_may_look_for(record: ColumnStatsRecord, other: ColumnStatsRecord, is_held: bool):
    """Values within its range, and nulls where it has some."""
    one, two = joined(record), joined(other)
    assert one is not None and two is not None
    assert holds(one, two) == is_held

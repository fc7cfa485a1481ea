"""Statistics and bloom filter from footers: what we write, and what others may have written."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.metadata.base_file_stats import columns_to_watch, read_bloom_filter, read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.stats.column_range import ColumnRange, ColumnRangeAccumulator
from lakeward.format.stats.stats_value import StatsVersion, ValueKind, ValueType, Wrapper

V1, V2 = StatsVersion.V1, StatsVersion.V2
NAN = float("nan")


def written(columns: dict[str, pa.Array], *, groups: int = 1, **options: Any) -> io.BytesIO:
    table = pa.table(columns)
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=max(1, -(-table.num_rows // groups)), store_schema=False, **options)
    return sink


def stats_of(
    file: io.BytesIO, *columns: str, version: StatsVersion = V2, seen: dict[str, ColumnRange] | None = None
) -> dict[str, ColumnStatsRecord]:
    names = columns or pq.read_schema(file).names
    found = read_column_stats(file, names, file_name="f.parquet", version=version, seen=seen)
    assert {record.file_name for record in found} <= {"f.parquet"}
    return {str(record.column): record for record in found}


def ends(record: ColumnStatsRecord) -> tuple[Any, Any]:
    return record.min_value, record.max_value


TYPED: dict[str, tuple[pa.Array, tuple[Any, Any], ValueType, Wrapper]] = {
    "boolean": (pa.array([True, False]), (False, True), ValueType(ValueKind.BOOLEAN), Wrapper.BOOLEAN),
    "int": (pa.array([3, -4], pa.int32()), (-4, 3), ValueType(ValueKind.INT), Wrapper.INT),
    "long": (pa.array([2**62, -(2**62)]), (-(2**62), 2**62), ValueType(ValueKind.LONG), Wrapper.LONG),
    "float": (pa.array([0.5, -1.5], pa.float32()), (-1.5, 0.5), ValueType(ValueKind.FLOAT), Wrapper.FLOAT),
    "double": (pa.array([0.1, -0.1]), (-0.1, 0.1), ValueType(ValueKind.DOUBLE), Wrapper.DOUBLE),
    "text": (pa.array(["ü", "鍵😀", "z"]).slice(0, 2), ("ü", "鍵😀"), ValueType(ValueKind.STRING), Wrapper.STRING),
    "bytes": (pa.array([b"\x80", b"\x7f"]), (b"\x7f", b"\x80"), ValueType(ValueKind.BYTES), Wrapper.BYTES),
    "decimal": (
        pa.array([Decimal("1.20"), Decimal("-99999999999999999999999999999999999.98")], pa.decimal128(38, 2)),
        (Decimal("-99999999999999999999999999999999999.98"), Decimal("1.20")),
        ValueType(ValueKind.DECIMAL, 38, 2),
        Wrapper.DECIMAL,
    ),
    "date": (pa.array([-1, 1], pa.date32()), (-1, 1), ValueType(ValueKind.DATE), Wrapper.DATE),
    "millis": (
        pa.array([-1, 1], pa.timestamp("ms", "UTC")), (-1, 1), ValueType(ValueKind.TIMESTAMP_MILLIS), Wrapper.LONG
    ),
    "micros": (
        pa.array([-1, 1], pa.timestamp("us", "UTC")), (-1, 1), ValueType(ValueKind.TIMESTAMP_MICROS), Wrapper.LONG
    ),
    "nanos": (
        pa.array([-1, 1], pa.timestamp("ns", "UTC")), (-1, 1), ValueType(ValueKind.TIMESTAMP_NANOS), Wrapper.LONG
    ),
    "local millis": (
        pa.array([-1, 1], pa.timestamp("ms")), (-1, 1), ValueType(ValueKind.LOCAL_TIMESTAMP_MILLIS), Wrapper.LONG
    ),
    "local micros": (
        pa.array([-1, 1], pa.timestamp("us")), (-1, 1), ValueType(ValueKind.LOCAL_TIMESTAMP_MICROS), Wrapper.LONG
    ),
    "time millis": (pa.array([0, 1], pa.time32("ms")), (0, 1), ValueType(ValueKind.TIME_MILLIS), Wrapper.INT),
    "time micros": (pa.array([0, 1], pa.time64("us")), (0, 1), ValueType(ValueKind.TIME_MICROS), Wrapper.LONG),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("groups", [1, 2])
def test_each_type(name: str, groups: int):
    """Range, counts, sizes and type of a column, over the row groups, in both versions."""
    values, expected, kind, wrapper = TYPED[name]
    values = pa.concat_arrays([values, pa.array([None], values.type)])
    file = written({"c": values}, groups=groups)
    metadata = pq.read_metadata(file)
    chunks = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]

    (record,) = stats_of(file).values()
    (older,) = stats_of(file, version=V1).values()

    assert (ends(record), record.value_type, record.wrapper) == (expected, kind, None)
    assert (ends(older), older.value_type, older.wrapper) == (expected, None, wrapper)
    for each in (record, older):
        assert (each.value_count, each.null_count) == (3, 1)
        assert each.total_size == sum(chunk.total_compressed_size for chunk in chunks)
        assert each.total_uncompressed_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        assert not each.is_tight and not each.is_deleted


@pytest.mark.parametrize("precision", [5, 12, 25])
def test_each_encoding_of_decimals(precision: int):
    """Decimals are of 32 or 64 bits or in bytes, positive or negative."""
    values = pa.array([Decimal("-1.25"), Decimal("3.50")], pa.decimal128(precision, 2))
    for as_integer in (False, True):
        file = written({"c": values}, store_decimal_as_integer=as_integer)
        (record,) = stats_of(file).values()
        assert ends(record) == (Decimal("-1.25"), Decimal("3.50"))
        assert str(record.max_value) == "3.50"
        assert record.value_type == ValueType(ValueKind.DECIMAL, precision, 2)


def test_nothing_but_nulls():
    """Text, bytes and decimals have no range; of the rest Hudi says 0, and we with it."""
    expected = {"text": None, "bytes": None, "decimal": None, "boolean": False}
    for name, (values, _, kind, _) in TYPED.items():
        (record,) = stats_of(written({"c": pa.nulls(3, values.type)})).values()
        assert ends(record) == (expected.get(name, 0),) * 2, name
        assert (record.value_count, record.null_count, record.value_type) == (3, 3, kind)


def test_values_that_parquet_keeps_no_range_of():
    """They are read: a text of more than 4 KiB in one of several row groups, cut so that it fits a record."""
    values = pa.array(["m" * 10, None, "z" * 5000, "b" * 5000, "k", "l"])
    file = written({"c": values, "bytes": values.cast(pa.binary())}, groups=3)
    assert not pq.read_metadata(file).row_group(1).column(0).statistics.has_min_max

    found = stats_of(file)

    assert ends(found["c"]) == ("b" * 256, "z" * 255 + "{")
    assert ends(found["bytes"]) == (b"b" * 256, b"z" * 255 + b"{")
    assert (found["c"].value_count, found["c"].null_count) == (6, 1)


def test_text_that_is_none():
    """A range that was cut within a character is made again; rows that are no text are refused by name."""
    whole = written({"c": pa.array(["aü", "bé"])}).getvalue()
    footer_at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    footer = whole[footer_at:].replace("aü".encode(), b"a\xc3(").replace("bé".encode(), b"b\xff\xff")
    assert footer != whole[footer_at:]
    (record,) = stats_of(io.BytesIO(whole[:footer_at] + footer)).values()
    assert ends(record) == ("aü", "bé")

    no_text = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(BrokenFile, match=r"f\.parquet"):
        stats_of(written({"c": no_text}))


def test_a_file_without_statistics():
    """Everything is read; Hudi would take its columns for nothing but nulls."""
    columns = {name: pa.concat_arrays([values, pa.nulls(1, values.type)]) for name, (values, *_) in TYPED.items()}
    for name, values in columns.items():
        file = written({"c": values}, write_statistics=False)
        (record,) = stats_of(file).values()
        assert (ends(record), record.value_count, record.null_count) == (TYPED[name][1], 3, 1), name


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_above_all_numbers(kind: pa.DataType):
    """Arrow leaves it out of a footer; Spark's queries would miss it."""
    file = written({"some": pa.array([1.0, NAN, 2.0, None], kind), "all": pa.array([NAN, NAN, None, NAN], kind)})

    found = stats_of(file)

    assert repr(ends(found["some"])) == "(1.0, nan)"
    assert repr(ends(found["all"])) == "(nan, nan)"
    assert found["some"].null_count == found["all"].null_count == 1


def test_ranges_that_were_seen_spare_reading():
    """What was accumulated while the rows were written takes the place of reading floats back."""
    columns = {"d": pa.array([1.0, NAN]), "i": pa.array([1, 2]), "r": pa.array([{"f": 3.0}, {"f": NAN}])}
    file = written(columns)
    schema = pa.table(columns).schema
    names = ("d", "i", "r.f")
    assert columns_to_watch([*names, "gone", "i.e"], schema) == ("d", "r.f")
    accumulator = ColumnRangeAccumulator(columns_to_watch(names, schema), schema)
    accumulator.add(pa.RecordBatch.from_pydict(columns))

    seen = stats_of(file, *names, seen=accumulator.ranges)

    assert repr(seen) == repr(stats_of(file, *names))
    assert repr(ends(stats_of(file, "d", seen={"d": ColumnRange(-5.0, 5.0, 2, 0)})["d"])) == "(-5.0, 5.0)"


@pytest.mark.parametrize("values", [[None, None, None], [1.5, 2.5, None]])
def test_what_was_seen_is_what_would_be_read(values: list[float | None]):
    """This holds for a row group of nothing but nulls, too, of which Hudi says 0."""
    columns = {"d": pa.array(values, pa.float64())}
    file = written(columns, groups=3)
    schema = pa.table(columns).schema
    accumulator = ColumnRangeAccumulator(("d",), schema)
    accumulator.add(pa.RecordBatch.from_pydict(columns))
    seen = stats_of(file, "d", seen=accumulator.ranges)
    assert seen == stats_of(file, "d")
    assert ends(seen["d"])[0] == 0.0


def test_ranges_of_other_rows_are_not_taken():
    """A range over more or fewer rows than the file has is a mistake that must not reach the table."""
    with pytest.raises(BrokenFile, match=r"f\.parquet"):
        stats_of(written({"d": pa.array([1.0])}), seen={"d": ColumnRange(1.0, 1.0, 2, 0)})


def test_the_columns_asked_for():
    """Fields of records and elements of lists are found by their dots, in both encodings of lists; what is not there is
    not."""
    columns = {
        "r": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}]),
        "l": pa.array([[3, None], None]),
        "l2": pa.array([[NAN], [1.0, 2.0]]),
    }
    for compliant in (True, False):
        file = written(columns, use_compliant_nested_type=compliant)
        path = "l2.list.element" if compliant else "l2.list.item"
        found = stats_of(file, "r.a", "r.c", path, "x", "l.list.element")
        assert ends(found["r.a"]) == (1, 1)
        assert (found["r.a"].value_count, found["r.a"].null_count) == (2, 1)
        assert repr(ends(found[path])) == "(1.0, nan)"
        assert found[path].null_count == 0
        assert set(found) == {"r.a", path} | ({"l.list.element"} if compliant else set())
    assert (found := stats_of(written(columns), "l.list.element")["l.list.element"]).value_count == 3
    assert found.null_count == 2, "a null list counts as a null"


@pytest.mark.parametrize("version", [V1, V2])
def test_a_column_without_a_type_leaves_the_file_without_statistics(version: StatsVersion):
    """Readers keep a file that nothing is known of; INT96 is such a column, in both versions."""
    times = pa.array([1, 2], pa.timestamp("us"))
    file = written({"t": times, "i": pa.array([1, 2])}, use_deprecated_int96_timestamps=True)

    assert stats_of(file, version=version) == {}
    assert ends(stats_of(file, "i", version=version)["i"]) == (1, 2), "the other column was not asked for"


def test_short_ints_are_ints_in_version_1_only():
    """The second version knows no type for them, and Hudi gives such a file no statistics."""
    file = written({"c": pa.array([1, 2], pa.int8())})
    assert stats_of(file) == {}
    assert stats_of(file, version=V1)["c"].wrapper is Wrapper.INT


def test_no_rows():
    """Neither a file without row groups nor one that has a single empty one has records, or fails."""
    schema = pa.schema([pa.field("c", pa.int32())])
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema):
        pass
    assert stats_of(sink) == {}
    assert [record.value_count for record in stats_of(written({"c": pa.array([], pa.int32())})).values()] in ([], [0])


def our_file(keys: list[str]) -> io.BytesIO:
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), pa.field("id", pa.string())])
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, schema, file_name="f.parquet")
    rows = [dict.fromkeys(schema.names, "x") | {"_hoodie_record_key": key, "id": key} for key in keys]
    if rows:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    writer.close()
    return sink


def test_the_range_of_the_record_key_is_exact():
    """It is the footer's own, by Java's order and whatever the length, since Hudi's bloom index prunes by it."""
    keys = ["a" * 5000, "！", "😀"]  # the second comes after the third where Java compares
    found = stats_of(our_file(keys), "_hoodie_record_key", "id")
    assert ends(found["id"]) == ("a" * 256, "😀")
    assert found["_hoodie_record_key"].max_value == "！"
    assert found["_hoodie_record_key"].min_value == "a" * 256


def test_bloom_filter():
    """Type and text as they are; SIMPLE where the footer says none; None without a filter."""
    file = our_file(["a", "b"])
    text = pq.read_metadata(file).metadata[b"org.apache.hudi.bloomfilter"]
    assert read_bloom_filter(file, file_name="f") == ("DYNAMIC_V0", text)

    table = pa.table({"c": [1]})
    assert read_bloom_filter(written({"c": table.column(0)}), file_name="f") is None
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.add_key_value_metadata({"org.apache.hudi.bloomfilter": "QUJD"})
    assert read_bloom_filter(sink, file_name="f") == ("SIMPLE", b"QUJD")


def test_a_broken_file():
    """Every prefix of a file is refused by name."""
    whole = our_file(["a"]).getvalue()
    for length in (0, 4, 11, len(whole) // 2, len(whole) - 1):
        for read in (
            lambda source: read_column_stats(source, ["id"], file_name="f.parquet", version=V2),
            lambda source: read_bloom_filter(source, file_name="f.parquet"),
        ):
            with pytest.raises(BrokenFile, match=r"f\.parquet"):
                read(io.BytesIO(whole[:length]))

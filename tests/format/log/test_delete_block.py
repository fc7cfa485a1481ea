"""Delete blocks, against fastavro reading the same schema."""

from __future__ import annotations

import datetime
import decimal
import io
import struct
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, LakewardError, Unsupported
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.delete_block import DeletedKeys, encode_deletes, read_delete_block


def wrapper(name: str, value_type: Any, field: str = "value") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "w", "fields": [{"name": field, "type": value_type}]}


LOCAL_DATE = wrapper("LocalDateWrapper", "int")
WRAPPERS: list[dict[str, Any]] = [
    wrapper("BooleanWrapper", "boolean"),
    wrapper("IntWrapper", "int"),
    wrapper("LongWrapper", "long"),
    wrapper("FloatWrapper", "float"),
    wrapper("DoubleWrapper", "double"),
    wrapper("BytesWrapper", "bytes"),
    wrapper("StringWrapper", "string"),
    wrapper("DateWrapper", "int"),
    wrapper("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    wrapper("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    wrapper("TimestampMicrosWrapper", "long"),
]
WRAPPERS.append(
    wrapper(
        "ArrayWrapper",
        ["null", {"type": "array", "items": ["null", *(f"w.{each['name']}" for each in WRAPPERS), LOCAL_DATE]}],
        "wrappedValues",
    )
)
DELETE = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *WRAPPERS]},
    ],
}
DELETES = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": DELETE}}],
    }
)


def wrapped(name: str, value: Any) -> Any:
    if name == "ArrayWrapper":
        return (f"w.{name}", {"wrappedValues": [None if each is None else wrapped(*each) for each in value]})
    return (f"w.{name}", {"value": value})


def encode(deletes: list[tuple[str | None, Any]], partition: str | None = "p") -> bytes:
    """The content of a delete block; an ordering value is None or (wrapper name, value)."""
    records = []
    for key, ordering in deletes:
        value = None
        if ordering is not None:
            value = wrapped(*ordering)
        records.append({"recordKey": key, "partitionPath": partition, "orderingVal": value})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, DELETES, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(out.getvalue())) + out.getvalue()


def read(content: bytes) -> DeletedKeys:
    """The deletes of a block, or the error, which are the same however small the windows are in which it is read."""
    try:
        whole = windows_of(content)
    except LakewardError as error:
        with pytest.raises(type(error)) as again:
            windows_of(content, window_bytes=1)
        assert str(again.value) == str(error)
        raise
    for window_bytes in (1, 50):
        assert as_text(joined(windows_of(content, window_bytes=window_bytes))) == as_text(joined(whole))
    return joined(whole)


def as_text(deleted: DeletedKeys) -> str:
    ordering = deleted.ordering
    values = None if ordering is None else (ordering.type, ordering.to_pylist())
    return repr((deleted.keys.to_pylist(), values, deleted.is_default.tolist(), deleted.wrappers))


def windows_of(content: bytes, **more: int) -> list[DeletedKeys]:
    found = LogBlock(
        type=BlockType.DELETE, headers={}, content_offset=0, content_length=len(content), file="x.log", offset=0
    )
    return list(read_delete_block(io.BytesIO(content), found, **more))


def joined(windows: list[DeletedKeys]) -> DeletedKeys:
    kinds = {each.ordering.type for each in windows if each.ordering is not None}
    ordering = None
    if kinds:
        (kind,) = kinds
        parts = [pa.nulls(len(each.keys), kind) if each.ordering is None else each.ordering for each in windows]
        ordering = pa.concat_arrays(parts)
    return DeletedKeys(
        pa.concat_arrays([pa.array([], pa.string()), *(each.keys for each in windows)]),
        ordering,
        np.concatenate([np.zeros(0, dtype=np.bool_), *(each.is_default for each in windows)]),
        next((each.wrappers for each in windows if each.wrappers), ()),
    )


def test_a_block_of_any_size_is_read_in_windows():
    """Keeps 4 of format/log/delete_block; one delete that takes more than is allowed is refused, and so is a block that
    has to be read whole."""
    content = encode([(f"key-{number:05}", ("LongWrapper", number)) for number in range(5_000)])
    windows = windows_of(content, window_bytes=1_000, bytes_max=10_000)
    assert max(len(each.keys) for each in windows) < 70
    assert joined(windows).ordering == pa.array(range(5_000))
    assert joined(windows).keys.to_pylist() == [f"key-{number:05}" for number in range(5_000)]
    with pytest.raises(Unsupported, match=r"Its delete 1 has more than .*--memory"):
        windows_of(encode([("a", None), ("b" * 100_000, None)]), window_bytes=100, bytes_max=100_000)
    with pytest.raises(Unsupported, match=r"Java objects.*--memory"):
        windows_of(struct.pack(">ii", 2, 1000) + bytes(1000), bytes_max=10_000)


def test_deletes_of_a_real_block():
    """It has three keys without ordering value, as Hudi 1.2.0 wrote them."""
    data = "06" + "".join("020a" + key.encode().hex() + "0202300400" for key in ("k0025", "k0026", "k0027")) + "00"
    content = struct.pack(">ii", 3, len(data) // 2) + bytes.fromhex(data)

    deleted = read(content)

    assert deleted.keys.to_pylist() == ["k0025", "k0026", "k0027"]
    assert deleted.is_default.tolist() == [True, True, True]
    assert (deleted.ordering, deleted.wrappers) == (None, ())


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("BooleanWrapper", [True, False], pa.array([True, False])),
        ("IntWrapper", [-5, 2**31 - 1], pa.array([-5, 2**31 - 1], pa.int32())),
        ("LongWrapper", [0, -(2**63)], pa.array([0, -(2**63)], pa.int64())),
        ("FloatWrapper", [1.5, -0.25], pa.array([1.5, -0.25], pa.float32())),
        ("DoubleWrapper", [1.1, -1e300], pa.array([1.1, -1e300], pa.float64())),
        ("BytesWrapper", [b"\x00\xff", b""], pa.array([b"\x00\xff", b""], pa.binary())),
        ("StringWrapper", ["ü😀", ""], pa.array(["ü😀", ""])),
        ("DateWrapper", [-1, 20000], pa.array([-1, 20000], pa.int32()).view(pa.date32())),
        (
            "DecimalWrapper",
            [decimal.Decimal("9.125"), decimal.Decimal("-123456789012345.000000000000001")],
            pa.array(
                [decimal.Decimal("9.125"), decimal.Decimal("-123456789012345.000000000000001")], pa.decimal128(30, 15)
            ),
        ),
        (
            "TimeMicrosWrapper",
            [datetime.time(1, 2, 3, 4), datetime.time(0)],
            pa.array([datetime.time(1, 2, 3, 4), datetime.time(0)], pa.time64("us")),
        ),
        ("TimestampMicrosWrapper", [-1, 10**15], pa.array([-1, 10**15]).view(pa.timestamp("us", "UTC"))),
    ],
)
def test_ordering_values_keep_class_and_value(name: str, values: list[Any], expected: pa.Array):
    """Each wrapper's values come out exactly, with their class; deletes without one between them are null."""
    deleted = read(encode([("a", (name, values[0])), ("b", None), ("c", ("IntWrapper", 0)), ("d", (name, values[1]))]))

    assert deleted.wrappers == (name,)
    assert deleted.is_default.tolist() == [False, True, True, False]
    assert deleted.ordering is not None
    assert deleted.ordering.is_null().to_pylist() == [False, True, True, False]
    assert deleted.ordering.drop_null().equals(expected)


def test_int_zero_is_no_ordering_value_but_long_zero_is_one():
    """Hudi takes an ordering value that equals Integer 0 for none at all."""
    assert read(encode([("a", ("IntWrapper", 0))])).is_default.tolist() == [True]
    assert read(encode([("a", ("LongWrapper", 0))])).is_default.tolist() == [False]


def test_null_partition_and_no_deletes():
    """A missing partition path is nothing to us, and an empty list is a list."""
    assert read(encode([("a", None)], partition=None)).keys.to_pylist() == ["a"]
    assert len(read(encode([])).keys) == 0


def test_mixed_classes_are_refused():
    """Two classes of ordering value cannot be compared, so the block is refused by their names."""
    with pytest.raises(Unsupported, match="IntWrapper and LongWrapper"):
        read(encode([("a", ("IntWrapper", 1)), ("b", ("LongWrapper", 1))]))


def test_several_ordering_fields_of_real_blocks():
    """Deletes by Hudi 1.2.0 of a table ordered by a long and a string: the first block's have no ordering value."""
    assert read(bytes.fromhex("000000030000000a0202046b380200040000")).wrappers == ()
    real = (
        "000000030000002e0602046b35020018020406000e000002046b36020018020406140e027a0002046b37020018020406140e02610000"
    )
    deleted = read(bytes.fromhex(real))
    assert deleted.wrappers == ("LongWrapper", "StringWrapper") and deleted.ordering is not None
    assert [tuple(value.values()) for value in deleted.ordering.to_pylist()] == [(0, ""), (10, "z"), (10, "a")]
    (back,) = encode_deletes(deleted.keys, deleted.ordering, partition_path="", bytes_max=1000)
    assert back == bytes.fromhex(real)


def test_several_ordering_fields_beside_deletes_without_values():
    """A delete that has no ordering value at all is null as a whole, before and behind such that have; an int 0 in a
    field is a value."""
    some = ("ArrayWrapper", [("IntWrapper", 0), ("DoubleWrapper", 1.5), ("StringWrapper", "ü")])
    more = ("ArrayWrapper", [("IntWrapper", 7), ("DoubleWrapper", -0.0), ("StringWrapper", "long text")])
    deleted = read(encode([("a", None), ("b", some), ("c", ("IntWrapper", 0)), ("d", more), ("e", None)]))
    assert deleted.is_default.tolist() == [True, False, True, False, True]
    assert deleted.wrappers == ("IntWrapper", "DoubleWrapper", "StringWrapper") and deleted.ordering is not None
    values = [value and tuple(value.values()) for value in deleted.ordering.to_pylist()]
    assert values == [None, (0, 1.5, "ü"), None, (7, -0.0, "long text"), None]
    contents = list(encode_deletes(deleted.keys, deleted.ordering, partition_path="", bytes_max=1000))
    assert [len(read(content).keys) for content in contents] == [3, 2]  # one class for all deletes of a block
    assert read(contents[1]).ordering.equals(deleted.ordering.drop_null())  # type: ignore[union-attr]


LONG = ("LongWrapper", 5)


@pytest.mark.parametrize(
    ("deletes", "match"),
    [
        ([("ArrayWrapper", [LONG, None])], "Hudi 1.2.0 cannot read"),
        ([("ArrayWrapper", [LONG, ("LocalDateWrapper", 1)])], "unknown class"),
        ([("ArrayWrapper", [LONG, LONG]), ("ArrayWrapper", [LONG])], "number of fields"),
        ([("ArrayWrapper", [LONG, LONG]), LONG], "number of fields"),
        ([LONG, ("ArrayWrapper", [LONG, LONG])], "number of fields"),
        ([("ArrayWrapper", [LONG, LONG]), ("ArrayWrapper", [LONG, ("IntWrapper", 1)])], "IntWrapper and LongWrapper"),
    ],
)
def test_values_of_several_fields_that_cannot_be_compared_are_refused(deletes: list[Any], match: str):
    """A missing value or a local date, which Hudi 1.2.0 writes and cannot read, and such as do not fit each other."""
    with pytest.raises(Unsupported, match=match):
        read(encode([(str(number), ordering) for number, ordering in enumerate(deletes)]))


def test_a_delete_that_lacks_a_field_is_not_written():
    """Hudi could not read it."""
    ordering = pa.array([{"a": 1, "b": None}], pa.struct({"a": pa.int64(), "b": pa.string()}))
    with pytest.raises(Unsupported, match="lacks an ordering value"):
        list(encode_deletes(pa.array(["a"]), ordering, partition_path="", bytes_max=1000))


def test_unknown_versions_are_refused():
    """What this release does not read is refused, not guessed."""
    for version in (0, 4):
        with pytest.raises(Unsupported, match=f"version {version}"):
            read(struct.pack(">i", version) + encode([("a", None)])[4:])


def test_delete_without_key_is_broken():
    """A delete must name its row."""
    with pytest.raises(BrokenFile, match="Delete 1 has no key"):
        read(encode([("a", None), (None, None)]))


def test_cut_short_is_broken():
    """A block that ends early, or goes on behind its end, never gives a shorter list of deletes."""
    several = ("ArrayWrapper", [("LongWrapper", 7), ("StringWrapper", "text")])
    for ordering in (("LongWrapper", 7), several):
        _cut_short(encode([("key", ordering), ("other", ordering)]))


def _cut_short(content: bytes) -> None:
    for length in range(len(content)):
        with pytest.raises(BrokenFile):
            read(content[:length])
        if length >= 8:
            with pytest.raises(BrokenFile):
                read(struct.pack(">ii", 3, length - 8) + content[8:length])
    with pytest.raises(BrokenFile):
        read(struct.pack(">ii", 3, len(content) - 7) + content[8:] + b"\x00")


def test_bytes_behind_the_deletes_are_passed_over():
    """Hudi reads as many bytes as the block's length says; RFC-06 has an index behind them. A window ends before it."""
    content = encode([(f"k{number}", ("LongWrapper", number)) for number in range(50)])
    for tail in (b"\x00", b"\x02", b"\xff" * 5_000):
        assert as_text(joined(windows_of(content + tail, window_bytes=64))) == as_text(read(content))
    old = struct.pack(">ii", 2, 1) + b"\x00" * 2
    with pytest.raises(BrokenFile, match="claims 1 bytes of 2"):
        read(old)


@given(
    st.lists(
        st.tuples(
            st.text(max_size=20),
            st.none() | st.tuples(st.just("LongWrapper"), st.integers(-(2**63), 2**63 - 1)),
        ),
        max_size=50,
    )
)
def test_equals_fastavro(deletes: list[tuple[str, Any]]):
    """Keys and values are those that fastavro wrote, in order."""
    deleted = read(encode(deletes))

    assert deleted.keys.to_pylist() == [key for key, _ in deletes]
    values = [None] * len(deletes) if deleted.ordering is None else deleted.ordering.to_pylist()
    assert values == [None if ordering is None else ordering[1] for _, ordering in deletes]


def test_encodes_the_bytes_of_a_real_block():
    """The same three deletes are encoded as Hudi 1.2.0 encoded them, byte for byte."""
    data = "06" + "".join("020a" + key.encode().hex() + "0202300400" for key in ("k0025", "k0026", "k0027")) + "00"
    keys = pa.array(["k0025", "k0026", "k0027"])

    contents = list(encode_deletes(keys, None, partition_path="0", bytes_max=1000))

    assert contents == [struct.pack(">ii", 3, len(data) // 2) + bytes.fromhex(data)]


ORDERING_COLUMNS: list[tuple[str, pa.DataType, st.SearchStrategy[Any]]] = [
    ("BooleanWrapper", pa.bool_(), st.booleans()),
    ("LongWrapper", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("FloatWrapper", pa.float32(), st.floats(width=32, allow_nan=False)),
    ("DoubleWrapper", pa.float64(), st.floats(allow_nan=False)),
    ("StringWrapper", pa.string(), st.text(max_size=5)),
    ("DateWrapper", pa.date32(), st.dates()),
    ("DecimalWrapper", pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2)),
]


@pytest.mark.parametrize(("name", "kind", "values"), ORDERING_COLUMNS, ids=lambda value: str(value)[:20])
@given(data=st.data(), partition=st.text(max_size=5), bytes_max=st.integers(1, 300))
def test_what_is_encoded_reads_back(
    name: str, kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject, partition: str, bytes_max: int
):
    """We and fastavro find every key with its value, in blocks of one class that keep the limit."""
    deletes = data.draw(st.lists(st.tuples(st.text(max_size=9), st.none() | values), min_size=1, max_size=20))
    keys = pa.array([key for key, _ in deletes], pa.string())
    ordering = pa.array([value for _, value in deletes], kind)

    found: list[tuple[str, Any]] = []
    for content in encode_deletes(keys, ordering, partition_path=partition, bytes_max=bytes_max):
        deleted = read(content)
        records = fastavro.schemaless_reader(io.BytesIO(content[8:]), DELETES, return_record_name=True)
        assert [record["recordKey"] for record in records["deleteRecordList"]] == deleted.keys.to_pylist()
        assert {record["partitionPath"] for record in records["deleteRecordList"]} == {partition}
        classes = {record["orderingVal"][0] for record in records["deleteRecordList"]}
        assert classes == {"w.IntWrapper" if not deleted.wrappers else f"w.{name}"}
        assert len(content) <= bytes_max + 8 + 2 + 1 or len(deleted.keys) == 1
        back = [None] * len(deleted.keys) if deleted.ordering is None else deleted.ordering.cast(kind).to_pylist()
        found += zip(deleted.keys.to_pylist(), back, strict=True)

    assert sorted(found, key=repr) == sorted(zip(keys.to_pylist(), ordering.to_pylist(), strict=True), key=repr)


def test_integers_and_their_default_share_a_block():
    """In an int column the default is one of the values, so the class is the same and one block holds all."""
    (content,) = encode_deletes(
        pa.array(["a", "b", "c"]), pa.array([7, None, 0], pa.int32()), partition_path="", bytes_max=1000
    )
    deleted = read(content)
    assert deleted.wrappers == ("IntWrapper",) and deleted.ordering is not None
    assert deleted.ordering.to_pylist() == [7, None, None]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_points_in_time_are_longs_of_microseconds(unit: str):
    """Spark's rows hold them so, and the deletes that Hudi's Spark writers leave."""
    (content,) = encode_deletes(
        pa.array(["a"]), pa.array([5000], pa.int64()).cast(pa.timestamp(unit, "UTC")), partition_path="", bytes_max=1000
    )
    deleted = read(content)
    assert deleted.wrappers == ("LongWrapper",) and deleted.ordering is not None
    assert deleted.ordering.to_pylist() == [5_000_000 if unit == "ms" else 5000]


def test_a_decimal_beyond_hudis_wrapper_is_refused():
    """Hudi keeps 15 digits on either side of the point; a value with more is not rounded."""
    with pytest.raises(Unsupported, match="ordering value"):
        list(
            encode_deletes(
                pa.array(["a"]),
                pa.array([decimal.Decimal(10**20)], pa.decimal128(38, 2)),
                partition_path="",
                bytes_max=1000,
            )
        )

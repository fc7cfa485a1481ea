"""Delete blocks, against fastavro reading the same schema."""

from __future__ import annotations

import datetime
import decimal
import io
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.errors import BrokenFile, Unsupported
from lakeward.format.delete_block import DeletedKeys, read_delete_block
from lakeward.format.log_block import BlockType, LogBlock


def wrapper(name: str, value_type: Any, field: str = "value") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "w", "fields": [{"name": field, "type": value_type}]}


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
    wrapper("ArrayWrapper", {"type": "array", "items": "int"}, "wrappedValues"),
]
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


def encode(deletes: list[tuple[str | None, Any]], partition: str | None = "p") -> bytes:
    """The content of a delete block; an ordering value is None or (wrapper name, value)."""
    records = []
    for key, ordering in deletes:
        value = None
        if ordering is not None:
            field = "wrappedValues" if ordering[0] == "ArrayWrapper" else "value"
            value = (f"w.{ordering[0]}", {field: ordering[1]})
        records.append({"recordKey": key, "partitionPath": partition, "orderingVal": value})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, DELETES, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(out.getvalue())) + out.getvalue()


def read(content: bytes) -> DeletedKeys:
    found = LogBlock(
        type=BlockType.DELETE, headers={}, content_offset=0, content_length=len(content), file="x.log", offset=0
    )
    return read_delete_block(io.BytesIO(content), found)


def test_deletes_of_a_real_block():
    """Three keys without ordering value, as Hudi 1.2.0 wrote them."""
    data = "06" + "".join("020a" + key.encode().hex() + "0202300400" for key in ("k0025", "k0026", "k0027")) + "00"
    content = struct.pack(">ii", 3, len(data) // 2) + bytes.fromhex(data)

    deleted = read(content)

    assert deleted.keys.to_pylist() == ["k0025", "k0026", "k0027"]
    assert deleted.is_default.tolist() == [True, True, True]
    assert (deleted.ordering, deleted.wrapper) == (None, None)


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

    assert deleted.wrapper == name
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


def test_several_ordering_fields_and_older_versions_are_refused():
    """What this release does not merge is refused, not guessed."""
    with pytest.raises(Unsupported, match="several fields"):
        read(encode([("a", ("ArrayWrapper", [1]))]))
    for version in (1, 2, 4):
        with pytest.raises(Unsupported, match=f"version {version}"):
            read(struct.pack(">i", version) + encode([("a", None)])[4:])


def test_delete_without_key_is_broken():
    """A delete must name its row."""
    with pytest.raises(BrokenFile, match="Delete 1 has no key"):
        read(encode([("a", None), (None, None)]))


def test_cut_short_is_broken():
    """A block that ends early, or goes on behind its end, never gives a shorter list of deletes."""
    content = encode([("key", ("LongWrapper", 7)), ("other", ("LongWrapper", 8))])
    for length in range(len(content)):
        with pytest.raises(BrokenFile):
            read(content[:length])
        if length >= 8:
            with pytest.raises(BrokenFile):
                read(struct.pack(">ii", 3, length - 8) + content[8:length])
    with pytest.raises(BrokenFile):
        read(struct.pack(">ii", 3, len(content) - 7) + content[8:] + b"\x00")


@settings(max_examples=200, print_blob=True)
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
